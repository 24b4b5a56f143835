"""Binomial laws in floating point."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from tests.cases import each_case

from rase.accounting.binomial import log_tail, probabilities, window


@each_case("chance", [0.5, 0.1, 0.997])
@each_case("trials", [0, 1, 2, 15, 16, 17, 60])
def test_probabilities_equal_exact_fractions(trials: int, chance: float) -> None:
    """Small laws agree with rational arithmetic to twelve digits."""
    exact = Fraction(chance)
    wanted = [
        float(math.comb(trials, k) * exact**k * (1 - exact) ** (trials - k))
        for k in range(trials + 1)
    ]
    assert probabilities(np.arange(trials + 1), trials, chance) == pytest.approx(wanted, rel=1e-12)


def test_probabilities_of_large_laws_keep_their_digits() -> None:
    """Up to 1e9 trials the ratio of neighbours is that of the law, also far out."""
    trials, chance = 10**9, math.exp(-1.0)
    middle = round(trials * chance)
    hits = middle + np.array([-100_000, -5_000, 0, 5_000, 100_000])
    ratio = probabilities(hits + 1, trials, chance) / probabilities(hits, trials, chance)
    wanted = (trials - hits) / (hits + 1) * chance / (1 - chance)
    assert ratio == pytest.approx(wanted, rel=1e-11)
    assert probabilities(np.arange(middle - 200_000, middle + 200_000), trials, chance).sum() == (
        pytest.approx(1, abs=1e-11)
    )


def test_nothing_lies_outside_the_support() -> None:
    """Counts below 0 or above the trials have probability 0."""
    assert probabilities(np.array([-1, 6]), 5, 0.3).tolist() == [0.0, 0.0]


@each_case(("trials", "chance"), [(0, 0.5), (1, 0.9), (50, 0.02), (10**6, 0.37)])
@each_case("log_mass", [-5.0, -30.0])
def test_a_window_leaves_out_no_more_than_it_says(
    trials: int, chance: float, log_mass: float
) -> None:
    """The mass beyond each end is at most the mass allowed, and the window is narrow."""
    low, high = window(trials, chance, log_mass)
    assert 0 <= low <= trials * chance <= high + 1
    assert high <= trials
    assert stats.binom.cdf(low - 1, trials, chance) <= math.exp(log_mass)
    assert stats.binom.sf(high, trials, chance) <= math.exp(log_mass)
    assert high - low <= 2 * math.sqrt(-log_mass * trials) + 2


def test_the_tail_bound_is_a_bound() -> None:
    """It is never below the true tail, on either side."""
    for count in range(41):
        below, above = stats.binom.cdf(count, 40, 0.3), stats.binom.sf(count - 1, 40, 0.3)
        assert math.exp(log_tail(count, 40, 0.3)) >= min(below, above) * (1 - 1e-12)
