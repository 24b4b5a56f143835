"""Moments of rounds: as their definition says, for every law, one round or many at once."""

import math

import numpy as np
import pytest
from tests.cases import each_case
from tests.counts.many import means_of, moments_of_rounds

from rase import Counts, Hybrid, Laplace, Optimal, Piecewise, Range, SeededRandom, unbiased_mean
from rase.arrays import Floats
from rase.counts.mean import combined_mean
from rase.counts.moments import bit_variance, moments_of, rounding_variance, variance_bounds
from rase.errors import NotIdentifiable
from rase.laws.randomizer import RangeRandomizer
from rase.laws.registry import MECHANISMS, randomizer_named

PUBLIC = Range(-20, 100, steps=600)
# At 0.3 Hybrid and Optimal report bits, as Duchi always does; at 2 they do not.
BUDGETS = (0.3, 2.0, 8.0)
LAWS = [
    randomizer_named(name, epsilon, domain=PUBLIC) for name in MECHANISMS for epsilon in BUDGETS
]
READINGS = np.random.default_rng(2026).uniform(-20, 100, 90)
MIXED = [randomizer_named(name, BUDGETS, domain=PUBLIC) for name in MECHANISMS]


def noise_by_hand(reports: Floats, randomizer: RangeRandomizer, budget: float | None) -> float:
    """Return the noise of reports that share a budget, as the definition has it."""
    budgets = None if budget is None else np.full(reports.size, budget)
    decoded = randomizer.decode(reports, epsilon=budgets)
    tried = np.linspace(PUBLIC.low, PUBLIC.high, 17)
    at_tried = None if budget is None else np.full(17, budget)
    variances = randomizer.variance(tried, epsilon=at_tried)
    try:
        squares = randomizer.decode_square(reports, epsilon=budgets)
    except NotIdentifiable:
        ones = int((decoded > PUBLIC.middle).sum())
        return float(4 * variances.max() * bit_variance(ones, reports.size))
    own = float((decoded**2 - squares).mean())
    return min(max(own, float(variances.min())), float(variances.max())) + PUBLIC.step**2 / 4


@each_case("randomizer", LAWS)
@each_case("n", [1, 2, 90])
def test_moments_are_those_of_the_decoded_reports(randomizer: RangeRandomizer, n: int) -> None:
    """Mean, noise and spread from counts are what averaging over the reports gives."""
    reports = randomizer.randomize(READINGS[:n], rng=SeededRandom(7))
    found = moments_of(Counts.of(randomizer.places_of(reports)), randomizer)
    decoded = randomizer.decode(reports)
    assert found.n.tolist() == [n]
    assert found.mean[0] == pytest.approx(decoded.mean(), rel=1e-9)
    noise = noise_by_hand(reports, randomizer, None)
    assert found.noise[0] == pytest.approx(noise, rel=1e-9)
    assert found.standard_error[0] == pytest.approx(math.sqrt(noise / n), rel=1e-9)
    try:
        squares = randomizer.decode_square(reports)
    except NotIdentifiable:
        assert found.spread is None
        assert found.degrees_of_freedom.tolist() == [math.inf]
        return
    # The square of the mean is too large by the noise of the mean.
    spread = squares.mean() - decoded.mean() ** 2 + (decoded**2 - squares).mean() / n
    assert found.spread is not None
    assert found.spread[0] == pytest.approx(spread, rel=1e-9, abs=1e-6 * PUBLIC.width**2)


@each_case("randomizer", MIXED)
def test_each_budget_is_read_by_its_own_law(randomizer: RangeRandomizer) -> None:
    """Where contributors differ, mean and noise are the weighted ones of the budgets.

    At the smallest budget some mechanisms report bits, and at the others not.
    """
    budgets = np.resize(BUDGETS, READINGS.size)
    law = randomizer.for_contributors(np.arange(READINGS.size) % len(BUDGETS))
    reports = law.randomize(READINGS, rng=SeededRandom(8))
    counts = Counts.of(law.places_of(reports), epsilon=budgets)
    found = moments_of(counts, law)
    assert found.mean[0] == pytest.approx(law.decode(reports, epsilon=budgets).mean(), rel=1e-9)
    each = [noise_by_hand(reports[budgets == one], law, one) for one in BUDGETS]
    hides = [_hides(law, one) for one in BUDGETS]
    if any(hides):
        assert found.noise[0] == pytest.approx(np.mean(each), rel=1e-9)
        assert found.spread is None
    else:
        squares = law.decode_square(reports, epsilon=budgets)
        own = float((law.decode(reports, epsilon=budgets) ** 2 - squares).mean())
        least, greatest = np.mean([variance_bounds(law, one) for one in BUDGETS], axis=0)
        kept = min(max(own, least), greatest)
        assert found.noise[0] == pytest.approx(kept + rounding_variance(PUBLIC), rel=1e-9)
    assert found.degrees_of_freedom.tolist() == [math.inf]


def _hides(randomizer: RangeRandomizer, budget: float) -> bool:
    """Return whether reports of a budget are bits."""
    try:
        randomizer.law(budget).decode_square(np.array([0]))
    except NotIdentifiable:
        return True
    return False


@each_case("randomizer", [*LAWS, *MIXED])
def test_rounds_together_are_rounds_on_their_own(randomizer: RangeRandomizer) -> None:
    """Rounds of 1 to 30 reports, their rows mixed up, have the moments of each by itself."""
    sizes = np.array([1, 30, 2, 17])
    round_of = np.repeat(np.arange(4), sizes)
    contributor = np.arange(round_of.size) % len(BUDGETS)
    law = randomizer.for_contributors(contributor)
    places = law.draw_many(READINGS[: round_of.size], rng=SeededRandom(9))
    has_budgets = isinstance(law.epsilon, tuple)
    budgets = np.array(BUDGETS)[contributor] if has_budgets else None
    order = np.random.default_rng(1).permutation(round_of.size)
    rows = Counts(
        places[order],
        np.ones(places.size, dtype=np.int64),
        None if budgets is None else budgets[order],
    )
    found = moments_of(rows, law, group=round_of[order], groups=4)
    assert found.n.tolist() == sizes.tolist()
    for number in range(4):
        own = round_of == number
        part = Counts.of(places[own], epsilon=None if budgets is None else budgets[own])
        alone = moments_of(part, law)
        assert found.mean[number] == pytest.approx(alone.mean[0], rel=1e-12)
        assert found.noise[number] == pytest.approx(alone.noise[0], rel=1e-9)
        assert found.degrees_of_freedom[number] == alone.degrees_of_freedom[0]
        if found.spread is None or alone.spread is None:
            # A round of its own may lack the budget whose reports are bits.
            assert found.spread is None
            assert alone.spread is None or has_budgets
        else:
            assert found.spread[number] == pytest.approx(alone.spread[0], rel=1e-9, abs=1e-6)


@each_case("randomizer", LAWS)
def test_many_rounds_have_the_estimates_of_each(randomizer: RangeRandomizer) -> None:
    """What tables and studies compute at once is what `unbiased_mean` says of a round."""
    rounds = randomizer.randomize(READINGS.reshape(5, 18), rng=SeededRandom(1))
    for together, row in zip(means_of(rounds, randomizer), rounds, strict=True):
        alone = unbiased_mean(row, randomizer=randomizer)
        assert together.value == pytest.approx(alone.value, rel=1e-12)
        assert together.standard_error == pytest.approx(alone.standard_error, rel=1e-9)
        assert together.degrees_of_freedom == alone.degrees_of_freedom
        assert (together.n, together.method, together.target) == (
            alone.n,
            alone.method,
            alone.target,
        )
        assert (together.lowest, together.highest) == (alone.lowest, alone.highest)


@pytest.mark.uncovered
@pytest.mark.parametrize("name", MECHANISMS)
@each_case("epsilon", [0.5, 2.0])
def test_moments_are_true_on_average(name: str, epsilon: float) -> None:
    """Over 6,000 rounds mean and spread are unbiased, and errors are as large as told.

    Limits of 6.5 standard errors: a false-alarm rate of 1e-10 each. The mean square of standardized
    errors has a standard error of 0.018, so that a standard error 10 % too small is seen. That of
    bits is a bound: it may be too large.
    """
    randomizer = randomizer_named(name, epsilon, domain=PUBLIC)
    readings = np.random.default_rng(2026).uniform(-20, 100, 64)
    source = SeededRandom(2026).child(f"{name} {epsilon}")
    rounds = randomizer.randomize(np.tile(readings, (6000, 1)), rng=source)
    found = moments_of_rounds(rounds, randomizer)
    off = found.mean - readings.mean()
    assert abs(off.mean()) < 6.5 * off.std() / math.sqrt(6000)
    told = float(np.square(off / found.standard_error).mean())
    assert told < 1 + 6.5 * math.sqrt(2 / 6000)
    if found.spread is None:
        return
    assert told > 1 - 6.5 * math.sqrt(2 / 6000)
    # Readings between grid points are rounded at random, which spreads them a little further.
    exact = (readings - PUBLIC.low) / PUBLIC.step
    up = exact - np.floor(exact)
    true = readings.var() + PUBLIC.step**2 * float((up * (1 - up)).mean())
    limit = 6.5 * found.spread.std() / math.sqrt(6000)
    assert abs(found.spread.mean() - true) < limit
    # The limit is no wider than what the planted error of a naive variance would be.
    naive = float(np.mean([randomizer.decode(row).var() for row in rounds[:200]]))
    assert abs(naive - true) > limit


@pytest.mark.parametrize("kind", [Hybrid, Optimal])
@pytest.mark.parametrize("reading", [40.0, 97.0])
def test_bits_of_some_do_not_shorten_the_errors_of_others(
    kind: type[Hybrid | Optimal], reading: float
) -> None:
    """A few who allow little send bits; those who allow more keep the error of their own law.

    Squares of 400 standardized errors average to 1.15 or less, because weights are estimated, and
    then to 1.8 with a probability below 1e-9. If all were read as bits, the reports of Hybrid near
    an end of the range would look so sure that it is 2.4.
    """
    budgets = (0.5,) * 20 + (4.0,) * 300
    randomizer = kind(budgets, Range(0, 100))
    source = SeededRandom(2026)
    scores = []
    for _ in range(400):
        noisy = randomizer.randomize(np.full(320, reading), rng=source)
        for estimator in (unbiased_mean, combined_mean):
            one = estimator(noisy, randomizer=randomizer, epsilon=budgets)
            scores.append(((one.value - reading) / one.standard_error) ** 2)
    assert np.mean(scores[0::2]) < 1.8
    assert np.mean(scores[1::2]) < 1.8


def test_degrees_grow_with_the_round() -> None:
    """Rare wild reports matter less, the more reports a round has."""
    piecewise = Piecewise(8.0, PUBLIC)
    places = piecewise.draw_many(np.full(60, 40.0), rng=SeededRandom(1))
    counts = Counts(places, np.ones(60, dtype=np.int64))
    few, some, many = moments_of(
        counts, piecewise, group=np.repeat([0, 1, 2], [2, 18, 40]), groups=3
    ).degrees_of_freedom
    assert few == 4.0 < some < many


def test_strange_reports_are_refused() -> None:
    """A place that the mechanism cannot draw is not averaged."""
    clamped = randomizer_named("budget-aware", 1.0, domain=PUBLIC)
    with pytest.raises(ValueError, match="reports must be such as this randomizer can draw"):
        moments_of(Counts.of([PUBLIC.steps + 1]), clamped)
    mixed = Laplace((1.0, 2.0), PUBLIC)
    with pytest.raises(ValueError, match="epsilon must be given"):
        moments_of(Counts.of([1]), mixed)
