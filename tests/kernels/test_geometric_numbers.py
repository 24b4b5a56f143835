"""Integer tables of geometric laws."""

import math

import numpy as np
import pytest
from scipy import stats
from tests.cases import each_case

from rase.kernels.digits import exact_geometric
from rase.kernels.fixed import FIXED_ONE, decay_powers
from rase.kernels.words import SeededRandom


@each_case("rate", [1e-9, 0.01, 1.0, 30.0])
def test_powers_are_exact_far_beyond_floats(rate: float) -> None:
    """Neighbouring powers agree with floats, and products of powers with powers of the sum."""
    powers = decay_powers(rate, 60)
    for k in (0, 1, 7, 59):
        assert powers[k] / FIXED_ONE == pytest.approx(math.exp(-rate * k), rel=1e-13)
    assert abs(powers[20] * powers[30] // FIXED_ONE - powers[50]) <= 200


@each_case("rate", [2.0, 0.3, 1e-3, 2e-5])
def test_geometric_numbers_follow_their_law(rate: float) -> None:
    """Chi-square at 1e-9 accepts the law and rejects a rate 30 % off, over one and two digits."""
    drawn = exact_geometric(rate, 40_000, SeededRandom(2026)).astype(np.float64)
    edges = np.unique(np.floor(-np.log1p(-np.arange(0, 1, 0.05)) / rate))
    edges = np.append(edges, np.inf)
    seen = np.histogram(drawn, edges)[0]

    def pvalue(actual: float) -> float:
        mass = -np.diff(np.exp(-actual * edges))
        return float(stats.chisquare(seen, mass * seen.sum()).pvalue)

    assert pvalue(rate) > 1e-9
    assert pvalue(1.3 * rate) < 1e-9
    assert pvalue(rate / 1.3) < 1e-9


def test_a_tiny_rate_gives_huge_numbers_and_a_huge_rate_zeros() -> None:
    """Both ends of the rates work: the mean is about 1 / rate, or nothing at all."""
    large = exact_geometric(1e-15, 2000, SeededRandom(2026)).astype(np.float64)
    assert large.mean() == pytest.approx(1e15, rel=0.15)
    assert not exact_geometric(100.0, 50, SeededRandom(2026)).any()
