"""The optimal mechanism: its channel, its bound, its ladder."""

import json
import math
from bisect import bisect_right
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.cases import each_case

from rase import (
    DataError,
    Duchi,
    Hybrid,
    Optimal,
    Range,
    SeededRandom,
    auto,
)
from rase.counts import aggregates
from rase.domain import Precision
from rase.kernels.entropy import SeededEntropy
from rase.kernels.fixed import WORD, log_ratio
from rase.laws import ladder
from rase.laws.ladder import programme_at, rungs
from rase.laws.optimal import ProgrammeLaw
from rase.laws.optimum_bound import _beyond, _Price, lower_bound
from rase.laws.programme import Output, Programme, mixed_sum
from rase.laws.registry import OPTIMAL_FROM, best_mechanism, randomizer_named

UNIT = Range(0, 1)
# Budgets with the largest gap to the bound that is allowed.
GAPS = {0.5: 0.01, 0.75: 0.01, 1.0: 0.01, 1.5: 0.01, 2.0: 0.01, 3.0: 0.01, 4.0: 0.01, 6.0: 0.05}
# The optimum as found before, by other grids: (lower bound, channel).
KNOWN = {
    1.0: (0.9975, 0.9988),
    2.0: (0.2163, 0.2172),
    4.0: (0.0317, 0.0320),
    8.0: (0.00159, 0.0018),
}


@cache
def bound_at(epsilon: float) -> float:
    """Return the proved bound, which several tests compare with."""
    return Optimal(epsilon, UNIT).lower_bound()


@each_case("epsilon", GAPS)
def test_the_worst_variance_is_near_the_bound(epsilon: float) -> None:
    """Over a fine sweep of readings no variance is more than 1 % (5 % at 6) above the bound."""
    optimal = Optimal(epsilon, UNIT)
    worst = float(optimal.variance(np.linspace(0, 1, 3001)).max())
    bound = bound_at(epsilon)
    assert bound < worst <= (1 + GAPS[epsilon]) * bound


@each_case("epsilon", KNOWN)
def test_the_optimum_is_the_one_known(epsilon: float) -> None:
    """Bound and channel lie where an independent computation found them."""
    least, most = KNOWN[epsilon]
    assert bound_at(epsilon) >= least
    assert programme_at(epsilon).worst_variance <= most


@each_case("epsilon", [0.25, 1.0, 4.0])
def test_the_bound_holds_for_every_mechanism(epsilon: float) -> None:
    """No other unbiased mechanism of the package goes below the bound."""
    bound = bound_at(epsilon)
    readings = np.linspace(0, 1, 201)
    for make in (Duchi, Hybrid):
        assert float(make(epsilon, UNIT).variance(readings).max()) > bound


# Positive everywhere, and lowest between two places where others change their sign.
NEVER_NEGATIVE = ((5 * 10**11, 0, 5 * 10**11), (10**10, 10**10, -(10**10)), (10**11, 0, 10**11))


@each_case("prices", [programme_at(1.0).prices, NEVER_NEGATIVE])
def test_the_bound_is_that_of_the_definition(prices: tuple[tuple[int, int, int], ...]) -> None:
    """Evaluated in floats at many outputs, the least pattern's sum is never below the slack."""
    given = np.array(prices, dtype=float) / 1e12
    reading = np.linspace(-0.5, 0.5, len(prices))
    value = float((-given[:, 0] * reading**2 + given[:, 1] * reading + given[:, 2]).sum())
    z = np.linspace(-50, 50, 100_001)[:, None]
    gains = given[:, 0] * z**2 - given[:, 1] * z - given[:, 2]
    least = float(np.where(gains > 0, gains, math.e * gains).sum(axis=1).min())
    bound = lower_bound(1.0, prices)
    assert bound <= value + min(least, 0.0) + 1e-12
    assert bound >= value + min(least, 0.0) - 1e-5


def test_prices_that_prove_nothing_are_refused() -> None:
    """Negative prices, prices beyond one, and prices without variance give no bound."""
    half = 5 * 10**11
    for prices in ([(-1, 0, 0), (half, 0, 0)], [(half + 1, 0, 0), (half, 0, 0)]):
        with pytest.raises(ValueError, match="prices of variance"):
            lower_bound(1.0, prices)
    with pytest.raises(ValueError, match="must not all be 0"):
        lower_bound(1.0, [(0, 0, 1), (0, 0, 1)])


def test_inputs_without_a_price_of_variance_are_bounded_too() -> None:
    """A linear price that turns negative for far outputs costs the bound, and is counted."""
    half = 5 * 10**11
    known = lower_bound(1.0, [(half, 0, half), (0, 0, 0), (half, 0, half)])
    tilted = lower_bound(1.0, [(half, 0, half), (0, 10**11, 0), (half, 0, half)])
    assert tilted < known
    assert lower_bound(1.0, [(half, 0, half), (0, 0, 1), (half, 0, half)]) < known
    # A price that is never negative changes next to nothing.
    tiny = lower_bound(1.0, [(half, 0, half), (1, 0, -1), (half - 1, 0, half)])
    assert tiny == pytest.approx(known, abs=1e-9)
    with pytest.raises(ValueError, match="last change of pattern"):
        _beyond([_Price(Fraction(1), Fraction(5), Fraction(0))], Fraction(3), Fraction(1))
    rising = lower_bound(1.0, [(half, 0, half), (0, -(10**11), 10**10), (half, 0, half)])
    assert rising < known


def test_readings_between_inputs_are_counted() -> None:
    """The stated worst variance is attained between two inputs, not at one."""
    programme = programme_at(4.0)
    fine = Range(0, 1, 65536)
    readings = np.linspace(0, 1, 20 * programme.parts + 1)
    variances = Optimal(4.0, fine).variance(readings)
    assert float(variances.max()) == pytest.approx(programme.worst_variance, rel=1e-3)
    assert float(variances[::20].max()) < float(variances.max())


@each_case("epsilon", [0.25, 1.0, 4.0, 8.0])
def test_rows_are_whole_numbers_within_the_budget(epsilon: float) -> None:
    """Rows sum to 2^64, are unbiased within 1e-12 in fractions, and no ratio exceeds e^epsilon."""
    programme = programme_at(epsilon)
    values = [Fraction(value) for value in programme.values]
    for place, row in enumerate(programme.rows):
        assert sum(row) == WORD
        pairs = zip(row, values, strict=True)
        mean = sum((weight * value for weight, value in pairs), Fraction(0)) / WORD
        assert abs(mean - (Fraction(place, programme.parts) - Fraction(1, 2))) < Fraction(1, 10**12)
    drawn = programme.drawn_ratio(4096)
    columns = list(zip(*programme.rows, strict=True))
    worst = max(Fraction(max(column), min(column)) for column in columns)
    assert drawn.ratio is not None
    assert Fraction(*drawn.ratio) == worst
    assert drawn.effective_epsilon <= epsilon
    assert drawn.effective_epsilon == pytest.approx(epsilon, rel=1e-9)


@each_case("steps", [1, 2, 5, 165, 4096])
def test_places_are_different_and_symmetric(steps: int) -> None:
    """Outputs have places of their own that mirror each other and ascend with their values."""
    programme = programme_at(2.0)
    places = programme.places(steps)
    assert list(places) == sorted(set(places))
    assert [steps - place for place in reversed(places)] == list(places)
    if steps == 4096:
        gaps = [abs(p - steps * (v + 0.5)) for p, v in zip(places, programme.values, strict=True)]
        # Outputs of nearly the same value stand side by side.
        assert max(gaps) <= 16


@pytest.mark.uncovered
@each_case("reading", [0.0, 0.3, 1.0])
def test_each_output_is_drawn_as_often_as_its_weight(reading: float) -> None:
    """Chi-square over all outputs. False alarms: 3 tests at 1e-9; epsilon 30 % off is seen."""
    count = 80_000
    row = next(islice(Optimal(1.0, UNIT).table_rows(), round(reading * UNIT.steps), None))
    for epsilon, is_right in ((1.0, True), (1.3, False)):
        reports = Optimal(epsilon, UNIT).randomize(np.full(count, reading), rng=SeededRandom(2026))
        drawn = Counter(np.rint(reports * UNIT.steps).astype(int).tolist())
        known = sorted(row)
        chances = np.array([row[place] for place in known], dtype=float)
        seen = np.array([drawn[place] for place in known])
        expected = chances / chances.sum() * count
        if not is_right and seen.sum() < count:
            continue
        assert seen.sum() == count
        pvalue = float(stats.chisquare(seen, expected).pvalue)
        assert (pvalue > 1e-9) == is_right


def test_a_device_draws_the_same_law() -> None:
    """Chi-square of the pure sampler against the table. False alarms: one test at 1e-9."""
    public = Range(0, 1, 40)
    device = randomizer_named("optimal", 1.0, domain=public, precision=Precision(0.5, 0.9))
    entropy = SeededEntropy(2026)
    drawn = [device.draw_one(0.3, entropy) for _ in range(20_000)]
    row = list(Optimal(1.0, public).table_rows())[12]
    total = sum(row.values())
    expected = np.array([row[place] / total * len(drawn) for place in sorted(row)])
    counted = Counter(drawn)
    seen = np.array([counted[place] for place in sorted(row)])
    assert seen.sum() == len(drawn)
    usual = expected >= 5
    pooled = np.append(seen[usual], seen[~usual].sum())
    mass = np.append(expected[usual], expected[~usual].sum())
    assert float(stats.chisquare(pooled, mass).pvalue) > 1e-9
    # Noise of 1.3 times the epsilon would not pass for it.
    wrong = randomizer_named("optimal", 1.3, domain=public, precision=Precision(0.5, 0.9))
    other = [wrong.draw_one(0.3, SeededEntropy(seed)) for seed in range(200)]
    assert not set(other) <= set(row)


def test_budgets_between_rungs_take_the_rung_above_mixed() -> None:
    """The budget itself is drawn with; above and below the ladder there is a law, too."""
    between = Optimal(1.02, UNIT).certificate()
    assert (between.drawn_epsilon, between.epsilon) == (1.02, 1.02)
    assert 1.019999 < between.effective_epsilon <= 1.02
    assert Optimal(30.0, UNIT).certificate().drawn_epsilon == rungs()[-1] == 8.5
    assert Optimal(0.2, UNIT).certificate().law == "duchi"
    assert rungs()[0] == ladder.LOWEST_RUNG
    with pytest.raises(ValueError, match=r"epsilon must be at least 0\.25"):
        Optimal(0.2, UNIT).lower_bound()


@given(st.floats(0.25, 8.5))
@settings(max_examples=25)
def test_a_mixed_channel_is_the_rung_above_and_its_blanket(epsilon: float) -> None:
    """Weights keep the budget, ascend to it, and are those of a mixture within rounding."""
    mixed = programme_at(epsilon)
    above = programme_at(min(rung for rung in rungs() if rung >= epsilon))
    share = above.blanket_share(epsilon) / WORD
    for column, solved in zip(
        zip(*mixed.rows, strict=True), zip(*above.rows, strict=True), strict=True
    ):
        assert log_ratio(max(column), min(column)) <= epsilon
        for weight, base in zip(column, solved, strict=True):
            wished = (1 - share) * base + share * min(solved) * WORD / above.blanket
            assert weight == pytest.approx(wished, rel=1e-6)
    assert mixed.drawn_ratio(4096).effective_epsilon == pytest.approx(epsilon, rel=1e-9)
    values = np.array(mixed.values)
    means = np.array([[weight / WORD for weight in row] for row in mixed.rows]) @ values
    inputs = np.arange(mixed.parts + 1) / mixed.parts - 0.5
    assert np.abs(means - inputs).max() < 1e-9


def test_mixing_down_by_a_step_of_the_ladder_costs_little() -> None:
    """The worst variance just above a rung is at most 2 % above that of the rung."""
    for rung in rungs()[:-1]:
        just_above = programme_at(rung * (1 + 1e-9)).worst_variance
        assert just_above <= 1.02 * programme_at(rung).worst_variance


def test_a_channel_cannot_be_mixed_up() -> None:
    """The blanket lowers a budget, and never raises it."""
    for epsilon in (1.0, 1.5, 0.0):
        with pytest.raises(ValueError, match=r"epsilon must be above 0 and below 1\.0"):
            programme_at(1.0).mix_blanket(epsilon)


def test_rungs_are_close() -> None:
    """No two rungs are more than 0.1 apart, so that mixing loses less than 1 % of the error."""
    assert max(after - before for before, after in pairwise(rungs())) < 0.1001


def test_common_budgets_are_on_the_ladder() -> None:
    """Whole and half budgets, and quarters up to 2, lose nothing."""
    common = {0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0}
    assert common <= set(rungs())


@pytest.mark.uncovered
@pytest.mark.parametrize("epsilon", [0.25, 1.0, 2.0, 4.0, 8.0])
def test_squares_are_read_without_bias_on_average(epsilon: float) -> None:
    """At inputs a sixth of the squared gap too low, between them on average right, in fractions."""
    parts = programme_at(epsilon).parts
    optimal = Optimal(epsilon, Range(0, 1, parts * 8))
    excess = []
    places = programme_at(epsilon).places(parts * 8)
    values = [Fraction(v) for v in optimal.decode_square([p / (parts * 8) for p in places])]
    # Floats have powers of two below them: the greatest is a denominator of all.
    whole = max(value.denominator for value in values)
    squares = {p: int(value * whole) for p, value in zip(places, values, strict=True)}
    for index, row in enumerate(optimal.table_rows()):
        mean = Fraction(sum(weight * squares[p] for p, weight in row.items()), whole)
        excess.append(float(mean / WORD) * parts**2 - (index / 8) ** 2)
    assert excess[::8] == pytest.approx([-1 / 6] * (parts + 1), abs=1e-7)
    assert excess[4::8] == pytest.approx([1 / 4 - 1 / 6] * parts, abs=1e-7)
    # Eight trapezia of a parabola lack a 64th of a sixth of the area.
    assert np.mean(excess[:-1]) == pytest.approx(-1 / 6 / 64, abs=1e-7)


def test_the_spread_of_readings_is_estimated_from_optimal_reports() -> None:
    """Variance of 200,000 readings within 6 of its standard errors (1e-8), and not 30 % off."""
    optimal = Optimal(2.0, Range(10, 20))
    readings = np.random.default_rng(2026).uniform(12, 19, 200_000)
    estimate = aggregates.variance(
        optimal.randomize(readings, rng=SeededRandom(2026)), randomizer=optimal
    )
    assert abs(estimate.value - readings.var()) < 6 * estimate.standard_error
    assert abs(1.3 * estimate.value - readings.var()) > 6 * estimate.standard_error


def test_reports_as_they_are_have_the_stated_moments() -> None:
    """Mean and variance of undecoded reports, against the sum over the table."""
    optimal = Optimal(1.0, Range(10, 20, 40))
    mean, variance = optimal.report_moments(np.array([10.0, 13.1, 20.0]))
    rows = list(optimal.table_rows())
    for place, index in ((0, 0), (2, 40)):
        row = rows[index]
        total = sum(row.values())
        values = {code: 10 + code / 4 for code in row}
        exact = sum(row[code] * values[code] for code in row) / total
        spread = sum(row[code] * (values[code] - exact) ** 2 for code in row) / total
        assert mean[place] == pytest.approx(exact)
        assert variance[place] == pytest.approx(spread)
    assert mean[0] < mean[1] < mean[2]
    assert optimal.reach == pytest.approx(max(values.values()) - 20)


def test_an_own_programme_is_drawn_from() -> None:
    """A programme given instead of the ladder's must keep the budget."""
    own = Optimal(1.04, UNIT, programme_at(0.5))
    assert own.certificate().drawn_epsilon == 0.5
    assert own.lower_bound() == Optimal(0.5, UNIT).lower_bound()
    with pytest.raises(ValueError, match="solved for at most epsilon 1"):
        Optimal(1.0, UNIT, programme_at(2.0))
    with pytest.raises(TypeError, match="programme must be a Programme"):
        Optimal(1.0, UNIT, "fast")  # type: ignore[arg-type]


def test_a_programme_survives_its_file() -> None:
    """Fields and back is the same programme; every change is noticed."""
    programme = programme_at(1.0)
    fields = json.loads(json.dumps(programme.to_fields()))
    assert Programme.from_fields(fields) == programme
    for name, value, words in (
        ("format", 2, "format must be 1"),
        ("epsilon", 1.1, "sha256 must be"),
        ("sha256", "", "sha256 must be"),
    ):
        with pytest.raises(DataError, match=words):
            Programme.from_fields(fields | {name: value})


def test_a_programme_that_is_not_whole_is_refused() -> None:
    """A right checksum does not make up for parts that are missing."""
    fields = {"format": 1, "epsilon": 1.0}
    checksum = Programme.to_fields.__globals__["_checksum"](fields)
    with pytest.raises(DataError, match="must be a table of fields"):
        Programme.from_fields([])
    with pytest.raises(DataError, match="the programme must be whole"):
        Programme.from_fields(fields | {"sha256": checksum})


@each_case(
    ("change", "words"),
    [
        ({"parts": 31}, "even number"),
        ({"prices": ()}, "33 triples"),
        ({"epsilon": 1.1}, "unbiased channel"),
    ],
)
def test_programmes_check_themselves(change: dict[str, object], words: str) -> None:
    """What makes no unbiased channel is refused."""
    with pytest.raises(ValueError, match=words):
        replace(programme_at(1.0), **change)  # type: ignore[arg-type]


def test_favoured_inputs_must_exist() -> None:
    """A pattern that names an input beyond the last is refused."""
    programme = programme_at(1.0)
    outputs = (replace(programme.outputs[0], favoured=1 << 40), *programme.outputs[1:])
    with pytest.raises(ValueError, match="inputs of the programme only"):
        replace(programme, outputs=outputs)


@each_case(
    ("value", "mass", "favoured", "words"),
    [
        (math.nan, 0.5, 1, "value must be"),
        (-1.0, 0.5, 1, "value must be"),
        (1.0, 0.0, 1, "mass must be"),
        (1.0, 0.5, -1, "favoured must be"),
    ],
)
def test_outputs_check_themselves(value: float, mass: float, favoured: int, words: str) -> None:
    """What is no output is refused."""
    with pytest.raises(ValueError, match=words):
        Output(value, mass, favoured)


def test_rows_without_room_for_rounding_are_refused() -> None:
    """Where every input favours every output alike nothing can take up what rounding left."""
    full = (1 << 3) - 1
    programme = object.__new__(Programme)
    for name, value in {
        "epsilon": 1.0,
        "parts": 2,
        "outputs": (Output(1.0, 0.1, full),),
        "prices": ((0, 0, 0),) * 3,
    }.items():
        object.__setattr__(programme, name, value)
    with pytest.raises(ValueError, match="room for rounding"):
        _ = programme.rows


def test_a_damaged_ladder_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file of the package that was changed is not drawn from."""
    line = ladder._lines()[1.0].replace('"parts":32', '"parts":34')
    monkeypatch.setattr(ladder, "_lines", lambda: {1.0: line})
    ladder._programme.cache_clear()
    try:
        with pytest.raises(DataError, match="Install the package again"):
            ladder._programme(1.0)
    finally:
        ladder._programme.cache_clear()


@pytest.mark.uncovered
def test_auto_takes_the_smallest_worst_variance() -> None:
    """Duchi's bit below 0.6, the optimum on and between its rungs, and Hybrid far above them."""
    assert best_mechanism(math.nextafter(OPTIMAL_FROM, 0)) == "duchi"
    assert all(best_mechanism(rung) == "optimal" for rung in rungs() if rung >= OPTIMAL_FROM)
    assert best_mechanism(0.649) == "optimal"
    assert isinstance(auto(0.3, UNIT), Duchi)
    assert isinstance(auto(2, UNIT), Optimal)
    assert isinstance(auto(20, UNIT), Hybrid)
    with pytest.raises(ValueError, match="epsilon must be"):
        auto(0, UNIT)


@each_case("epsilon", [0.5, 3.0, 8.0])
@each_case("steps", [64, 100, 4096])
def test_every_word_falls_where_bisection_puts_it(epsilon: float, steps: int) -> None:
    """At boundaries of all kinds of readings, one below and one above, the guide finds the output.

    Readings lie at an input, just beside one, and between two; words at the mixed sums themselves
    and at the ends of the guide's cells.
    """
    law = ProgrammeLaw(programme_at(epsilon), steps)
    edges = [cell << 55 for cell in range(0, 512, 37)]
    for index, share in (
        (0, 0),
        (0, 1),
        (steps // 3, WORD // 7),
        (steps - 1, WORD - 1),
        (steps, 0),
    ):
        below, rest = divmod(((index << 64) + share) * law.parts, steps << 64)
        under, over = (law._sums[min(below + more, law.parts)] for more in (0, 1))
        mixed = [mixed_sum(*pair, rest // steps) for pair in zip(under, over, strict=True)]
        near = {total + more for total in [*mixed, *edges] for more in (-1, 0, 1)}
        words = sorted(word for word in near if 0 <= word < WORD)
        spots = np.full(len(words), index), np.full(len(words), share, np.uint64)
        drawn = law._places_from(*spots, np.array(words, dtype=np.uint64))
        expected = [law._outputs[bisect_right(mixed, word)] for word in words]
        assert drawn.tolist() == expected
        assert [law.draw(index, share, One(word)) for word in words] == expected


@each_case("steps", [7, 4096])
def test_only_outputs_are_places(steps: int) -> None:
    """All else is refused: between two outputs, beyond the ends, and as far as numbers go."""
    law = ProgrammeLaw(programme_at(1.0), steps)
    outputs = set(law._outputs)
    beyond = range(min(outputs) - 2, max(outputs) + 3)
    places = np.array([*beyond, -(2**63), 2**63 - 1])
    assert law.is_place(places).tolist() == [place in outputs for place in places.tolist()]
    decoded = law.decode(np.array(law._outputs))
    assert decoded.tolist() == law._values.tolist()


class One:
    """Give one crafted word."""

    def __init__(self, word: int) -> None:
        self._word = word

    def word(self) -> int:
        """Return it."""
        return self._word
