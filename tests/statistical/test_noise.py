"""The laws of noise, tested by chance with stated false-alarm rates."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.cases import each_case

from rase import (
    BudgetAware,
    Duchi,
    Hybrid,
    Laplace,
    Optimal,
    Piecewise,
    Precision,
    Range,
    RangeRandomizer,
    SeededRandom,
    SquareWave,
)

Maker = Callable[[float], RangeRandomizer]
PUBLIC = Range(0, 100)
COUNT = 60_000


def clamped(epsilon: float) -> RangeRandomizer:
    """Make a BR that always clamps."""
    return BudgetAware(epsilon, PUBLIC, Precision(beta=0, rho=0.9))


MAKERS: dict[str, Maker] = {
    "clamped": clamped,
    "laplace": lambda epsilon: Laplace(epsilon, PUBLIC),
    "duchi": lambda epsilon: Duchi(epsilon, PUBLIC),
    "piecewise": lambda epsilon: Piecewise(epsilon, PUBLIC),
    "square-wave": lambda epsilon: SquareWave(epsilon, PUBLIC),
    "hybrid": lambda epsilon: Hybrid(epsilon, PUBLIC),
    "optimal": lambda epsilon: Optimal(epsilon, PUBLIC),
}
each = each_case("name", MAKERS)


def pvalue(
    randomizer: RangeRandomizer, reading: float, seen: NDArray[np.int64], edges: NDArray[np.float64]
) -> float:
    """Return the chi-square p-value of binned reports under a randomizer's law."""
    expected = randomizer.report_probabilities([reading], edges)[0] * seen.sum()
    usual = expected >= 5
    rest = [seen[~usual].sum()], [expected[~usual].sum()]
    observed, mass = np.append(seen[usual], rest[0]), np.append(expected[usual], rest[1])
    if mass[-1] < 5:
        observed, mass = (
            np.append(observed[:-2], observed[-2:].sum()),
            np.append(mass[:-2], mass[-2:].sum()),
        )
    return float(stats.chisquare(observed, mass * observed.sum() / mass.sum()).pvalue)


@each
@each_case("epsilon", [0.5, 1.0, 4.0])
@each_case("reading", [0.0, 30.0, 100.0])
def test_reports_follow_the_law(name: str, epsilon: float, reading: float) -> None:
    """Chi-square over 60 bins of 60,000 reports. False alarms: 54 tests at 1e-9."""
    randomizer = MAKERS[name](epsilon)
    reports = randomizer.randomize(np.full(COUNT, reading), rng=SeededRandom(2026))
    scale = float(np.max(randomizer.scale))
    edges = np.unique(
        np.concatenate([[-np.inf], np.linspace(-3 * scale, 100 + 3 * scale, 61), [np.inf]])
    )
    seen = np.histogram(reports, edges)[0]
    assert pvalue(randomizer, reading, seen, edges) > 1e-9


@each
@each_case("epsilon", [0.5, 1.0, 4.0])
def test_a_scale_thirty_percent_off_would_be_noticed(name: str, epsilon: float) -> None:
    """The same check rejects reports drawn with a budget 30 % too large or too small."""
    randomizer = MAKERS[name](epsilon)
    scale = float(np.max(randomizer.scale))
    edges = np.unique(
        np.concatenate([[-np.inf], np.linspace(-3 * scale, 100 + 3 * scale, 61), [np.inf]])
    )
    for wrong in (epsilon * 1.3, epsilon / 1.3):
        reports = MAKERS[name](wrong).randomize(np.zeros(COUNT), rng=SeededRandom(2026))
        seen = np.histogram(reports, edges)[0]
        # A report outside the alphabet of the right law counts as noticed, too.
        impossible = seen[randomizer.report_probabilities([0.0], edges)[0] < 1e-15].sum()
        assert impossible or pvalue(randomizer, 0.0, seen, edges) < 1e-9


@pytest.mark.uncovered
@each
@each_case("epsilon", [0.1, 1.0, 4.0])
@each_case("reading", [0.0, 12.34, 50.0, 100.0])
def test_decoded_reports_have_the_stated_mean_and_variance(
    name: str, epsilon: float, reading: float
) -> None:
    """Mean within 6.2 standard errors (false alarms 72 at 1e-9), variance within 6.2 of its own.

    A variance 30 % off lies outside the band for every mechanism here.
    """
    randomizer = MAKERS[name](epsilon)
    reports = randomizer.randomize(np.full(COUNT, reading), rng=SeededRandom(2026))
    decoded = randomizer.decode(reports)
    variance = float(randomizer.variance(reading))
    assert abs(decoded.mean() - reading) < 6.2 * math.sqrt(variance / COUNT)
    fourth = float(np.mean((decoded - reading) ** 4))
    band = 6.2 * math.sqrt(max(fourth - variance**2, 0) / COUNT)
    spread = float(np.mean((decoded - reading) ** 2))
    assert abs(spread - variance) < band + 1e-9 * variance
    assert band < 0.3 * variance


def test_readings_between_grid_points_stay_unbiased() -> None:
    """Rounding to the grid is random, so the mean of a coarse grid's reports is the reading.

    False alarms: below 1e-8. Rounding down would be off by 30 standard errors.
    """
    coarse = Range(0, 1, 2)
    br = BudgetAware(8.0, coarse, Precision(beta=0, rho=0.9))
    decoded = br.decode(br.randomize(np.full(COUNT, 0.2), rng=SeededRandom(2026)))
    error = math.sqrt(float(br.variance(0.2)) / COUNT)
    assert abs(decoded.mean() - 0.2) < 6 * error
    assert 30 * error < 0.2
