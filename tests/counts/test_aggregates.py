"""Total, count and variance of the readings."""

import math

import numpy as np
import pytest
from scipy import stats
from tests.cases import each_case

from rase.counts.aggregates import count, total, variance
from rase.counts.counts import Counts
from rase.counts.mean import unbiased_mean
from rase.counts.moments import moments_of, square_variance_bounds
from rase.domain import Precision, Range
from rase.errors import NotIdentifiable
from rase.kernels.words import SeededRandom
from rase.laws.geometric import BudgetAware, Laplace
from rase.laws.randomizer import RangeRandomizer
from rase.laws.windows import Duchi, Hybrid, Piecewise, SquareWave

REACH = Range(0, 3000)
CLAMPED = BudgetAware(2.0, REACH, Precision(beta=0.5, rho=0.9))


def test_the_total_is_n_times_the_mean() -> None:
    """Value and error of the mean are scaled by n."""
    reports = CLAMPED.randomize(np.linspace(0, 3000, 64), rng=SeededRandom(1))
    mean, done = unbiased_mean(reports, randomizer=CLAMPED), total(reports, randomizer=CLAMPED)
    assert done.value == 64 * mean.value
    assert done.standard_error == 64 * mean.standard_error
    assert (done.method, done.target) == ("total", "sum of the readings")


def test_counting_without_bounds_is_exact() -> None:
    """The number of reports is public."""
    done = count([0.0, 3000.0, 0.0], randomizer=CLAMPED)
    assert (done.value, done.standard_error, done.n) == (3, 0, 3)


@pytest.mark.parametrize(
    ("above", "below", "truth", "target"),
    [
        (1500.0, None, 600, "number of readings above 1500"),
        (None, 1500.0, 1400, "number of readings below 1500"),
        (750.0, 2250.0, 0, "number of readings above 750 and below 2250"),
        (-1e9, 1e9, 2000, "number of readings above -1e+09 and below 1e+09"),
    ],
)
def test_counts_find_two_crowds(
    above: float | None, below: float | None, truth: int, target: str
) -> None:
    """Of 2000 readings in two crowds, counts between bounds are right within 4 errors and 12 %."""
    readings = np.where(np.arange(2000) < 1400, 300.0, 2700.0)
    randomizer = Piecewise(4.0, REACH)
    reports = randomizer.randomize(readings, rng=SeededRandom(2026))
    done = count(reports, randomizer=randomizer, above=above, below=below, rng=SeededRandom(1))
    assert abs(done.value - truth) <= min(4 * done.standard_error, 240) + 1e-6
    assert done.target == target


def test_bounds_the_wrong_way_round_are_refused() -> None:
    """An empty interval is a slip."""
    with pytest.raises(ValueError, match="above must be less than below, got above 2 and below 1"):
        count([0.0], randomizer=CLAMPED, above=2, below=1)


@pytest.mark.uncovered
@pytest.mark.parametrize(
    "randomizer",
    [CLAMPED, Laplace(2.0, REACH), Piecewise(2.0, REACH), Hybrid(2.0, REACH)],
)
def test_variance_is_unbiased_and_its_error_honest(randomizer: RangeRandomizer) -> None:
    """Over 3000 rounds of 64 readings the variance, before it is moved to 0, averages to the truth.

    False-alarm rate 6e-7 for the mean; the reported error is not below 90 % of the scatter, and one
    30 % smaller would be.
    """
    readings = np.linspace(0, 1, 64) ** 2 * 3000
    rows = randomizer.randomize(np.tile(readings, (3000, 1)), rng=SeededRandom(2026))
    done = [variance(row, randomizer=randomizer) for row in rows]
    counted = [Counts.of(randomizer.places_of(row)) for row in rows]
    spreads = [moments_of(one, randomizer).spread for one in counted]
    values = np.array([math.nan if one is None else float(one[0]) for one in spreads])
    assert [one.value for one in done] == pytest.approx(np.maximum(values, 0.0).tolist())
    assert all(
        ("below 0" in one.target) == (value < 0) for one, value in zip(done, values, strict=True)
    )
    assert abs(values.mean() - readings.var()) <= 5 * values.std() / math.sqrt(3000)
    assert abs(values.mean() - 1.3 * readings.var()) > 5 * values.std() / math.sqrt(3000)
    error = math.sqrt(np.mean([one.standard_error**2 for one in done]))
    assert 0.9 <= error / values.std() <= 1.25
    assert 0.7 * error / values.std() < 0.9


@pytest.mark.uncovered
@each_case("made", [SquareWave, Piecewise])
@each_case("epsilon", [0.1, 1.0, 4.0, 12.0])
@each_case("n", [10, 100])
def test_intervals_of_the_variance_hold_at_both_ends_of_epsilon(
    made: type[RangeRandomizer], epsilon: float, n: int
) -> None:
    """Of 200 rounds 95 % or more, also where a rare wild report decides and few are there.

    A fleet about one point, and one at both ends. False-alarm rate below 1e-9 at 95 % coverage; a
    single wild report of the square wave at epsilon 12 used to leave 83 %.
    """
    randomizer = made(epsilon, REACH)
    for readings in (np.linspace(850, 950, n), np.where(np.arange(n) % 4, 10.0, 2900.0)):
        rows = randomizer.randomize(np.tile(readings, (200, 1)), rng=SeededRandom(7))
        ends = [variance(row, randomizer=randomizer).interval() for row in rows]
        held = sum(low <= readings.var() <= high for low, high in ends)
        assert stats.binom.cdf(held, 200, 0.95) > 1e-9
        least, greatest = square_variance_bounds(randomizer, float(readings.mean()))
        assert 0 < least <= greatest
    # Where the noise is small so is the interval: the readings' own spread is no error.
    if epsilon == 12.0 and n == 100:
        even = np.linspace(0, 3000, n)
        told = variance(randomizer.randomize(even, rng=SeededRandom(1)), randomizer=randomizer)
        assert told.standard_error < 0.6 * float(np.square(even - 1500).std()) / math.sqrt(n)


@pytest.mark.uncovered
@each_case(("fleet", "participation"), [(20, 0.8), (100, 0.2), (1000, 0.02), (1000, 0.9)])
@each_case("epsilon", [0.1, 1.0, 12.0])
def test_totals_hold_where_few_report_by_chance(
    fleet: int, participation: float, epsilon: float
) -> None:
    """Of 200 rounds with other reporters each 95 % or more hold the sum of the whole fleet.

    False-alarm rate below 1e-9 at 95 %: the number of those who report is a matter of chance.
    """
    readings = np.linspace(500, 3000, fleet)
    randomizer = Duchi(epsilon, REACH) if epsilon < 1 else Piecewise(epsilon, REACH)
    chance, source, held = np.random.default_rng(1), SeededRandom(4), 0
    for _ in range(200):
        here = readings[chance.random(fleet) < participation]
        reports = randomizer.randomize(here if here.size else readings[:1], rng=source)
        low, high = total(reports, randomizer=randomizer, participation=participation).interval()
        held += bool(low <= readings.sum() <= high)
    assert stats.binom.cdf(held, 200, 0.95) > 1e-9


def test_variance_with_budgets_of_their_own() -> None:
    """Mixed budgets are decoded each by its own; within 5 errors of the truth (rate 6e-7)."""
    budgets = np.resize([1.0, 4.0], 5000)
    randomizer = Laplace(tuple(budgets.tolist()), REACH)
    readings = np.linspace(0, 3000, 5000)
    reports = randomizer.randomize(readings, rng=SeededRandom(2026))
    done = variance(reports, randomizer=randomizer, epsilon=budgets)
    assert abs(done.value - readings.var()) <= 5 * done.standard_error


def test_the_variance_of_one_reading_is_zero_with_unknown_error() -> None:
    """One report gives the value 0 and no error."""
    done = variance([1500.0], randomizer=Laplace(1.0, REACH))
    assert done.value == pytest.approx(0, abs=1e-6)
    assert done.standard_error == math.inf


def test_bits_tell_neither_variance_nor_counts() -> None:
    """Duchi's reports carry the mean only, and the refusals say so."""
    randomizer = Duchi(1.0, REACH)
    reports = randomizer.randomize(np.linspace(0, 3000, 64), rng=SeededRandom(1))
    with pytest.raises(NotIdentifiable):
        variance(reports, randomizer=randomizer)
    with pytest.raises(NotIdentifiable, match="only the mean"):
        count(reports, randomizer=randomizer, above=100)


@each_case("randomizer", [Hybrid(4.0, REACH), Duchi(4.0, REACH)])
@each_case("knows_fleet", [True, False])
def test_a_total_of_a_fleet_holds_the_silent_too(
    randomizer: Hybrid | Duchi, knows_fleet: bool
) -> None:
    """Scaled by size or by chance, the total is unbiased and its error holds who was silent.

    Over 200 drawings of who reports the standardized errors average to 0 within 5 standard errors
    (6e-7), and their squares to no more than 1.6, which 1 exceeds with probability below 1e-6;
    without the chance of silence they average to far more.
    """
    fleet, chance = 400, 0.5
    rng = np.random.default_rng(2026)
    readings = rng.uniform(REACH.low, REACH.high, fleet)
    scores, naive = [], []
    for seed in range(200):
        told = rng.random(fleet) < chance
        noisy = randomizer.randomize(readings[told], rng=SeededRandom(seed))
        size = {"fleet": fleet} if knows_fleet else {"participation": chance}
        found = total(noisy, randomizer=randomizer, **size)
        plain = total(noisy, randomizer=randomizer)
        off = found.value - readings.sum()
        scores.append(off / found.standard_error)
        naive.append(off / plain.standard_error / (found.value / plain.value))
    assert abs(np.mean(scores)) < 5 / np.sqrt(200)
    assert np.mean(np.square(scores)) < 1.6
    assert np.mean(np.square(naive)) > 1.2 * np.mean(np.square(scores))


def test_sizes_that_cannot_be_are_refused() -> None:
    """A fleet is no smaller than what reported, a chance is one, and one of them is enough."""
    randomizer = Hybrid(4.0, REACH)
    noisy = randomizer.randomize([1.0, 2.0], rng=SeededRandom(1))
    for more, message in (
        ({"fleet": 1}, "fleet must be at least the 2"),
        ({"participation": 0.0}, "participation must be above 0"),
        ({"participation": 1.5}, "participation must be above 0"),
        ({"fleet": 3, "participation": 0.5}, "must not both be given"),
    ):
        with pytest.raises(ValueError, match=message):
            total(noisy, randomizer=randomizer, **more)
    assert total(noisy[:1], randomizer=randomizer, fleet=5).standard_error < np.inf
