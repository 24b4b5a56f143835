"""Limits of shares by the law of the number of votes: exact, and shortened where that is close."""

import numpy as np
import pytest
from scipy import stats
from tests.cases import each_case

from rase.arrays import Floats
from rase.counts.votes import share_error

NORMAL = {0.9: 1.644854, 0.95: 1.959964, 0.99: 2.575829, 0.999: 3.290527}


def law_of(n: int, there: int, chances: tuple[float, float]) -> Floats:
    """Return the chance of each number of votes, by SciPy."""
    often, seldom = chances
    return np.convolve(
        stats.binom.pmf(np.arange(there + 1), there, often),
        stats.binom.pmf(np.arange(n - there + 1), n - there, seldom),
    )


def coverage(n: int, there: int, chances: tuple[float, float], *, level: float) -> float:
    """Return how often the interval holds the true share, over every number of votes."""
    often, seldom = chances
    law, held = law_of(n, there, chances), 0.0
    for votes in np.flatnonzero(law > 1e-12).tolist():
        centre = min(max((votes / n - seldom) / (often - seldom), 0.0), 1.0)
        reach = NORMAL[level] * share_error(votes, n, often, seldom)
        held += float(law[votes]) * (abs(centre - there / n) <= reach + 1e-6)
    return held


@each_case("n", [1, 2, 10, 60, 300])
@each_case("chances", [(0.52, 0.48), (0.5, 0.1), (0.75, 0.25), (0.94, 0.004), (0.9999, 2e-6)])
def test_intervals_of_few_reports_cover_at_least_their_level(
    n: int, chances: tuple[float, float]
) -> None:
    """Summed over every number of votes, at any share, so there are no false alarms."""
    for there in sorted({0, 1, n // 10, n // 2, n - 1, n}):
        for level in NORMAL:
            assert coverage(n, there, chances, level=level) >= level


@each_case("chances", [(0.52, 0.48), (0.5, 0.1), (0.94, 0.05)])
def test_intervals_of_many_reports_are_not_too_long(chances: tuple[float, float]) -> None:
    """Of 2,000, by the score: 94.9 to 97 %, at the ends, where half of a side is cut, to 98.5 %."""
    for there in (0, 200, 1000, 1800, 2000):
        most = 0.985 if there in {0, 2000} else 0.97
        if chances == (0.52, 0.48):
            most = 1.0 if there in {200, 1000, 1800} else most
        assert 0.949 <= coverage(2000, there, chances, level=0.95) <= most


@each_case(("n", "chances"), [(600, (0.99, 0.001)), (2000, (0.9999, 1e-5))])
def test_many_reports_with_little_noise_are_exact_too(n: int, chances: tuple[float, float]) -> None:
    """Where the number of votes hardly varies, limits are exact at any n."""
    for there in (0, 3, n // 2, n):
        assert 0.95 <= coverage(n, there, chances, level=0.95) <= 1


def test_an_error_is_never_below_that_of_the_law() -> None:
    """No report at all for a category leaves an error, as does a single one."""
    assert share_error(0, 1, 0.9, 0.1) == pytest.approx(0.61, abs=0.02)
    for votes in (0, 1, 50, 100):
        own = np.sqrt(100 * 0.9 * 0.1) / 80
        assert share_error(votes, 100, 0.9, 0.1) >= own / 1.0001
