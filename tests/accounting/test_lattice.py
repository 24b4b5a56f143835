"""Sums of many numbers on a lattice."""

import math

import numpy as np
import pytest
from scipy import stats
from tests.cases import each_case

from rase.accounting.lattice import Lattice, split


def test_splitting_keeps_mass_and_mean_and_widens_the_spread() -> None:
    """The lattice law is a spread of the given one: convex functions grow."""
    values, masses = np.array([-0.73, 0.11, 0.5]), np.array([0.2, 0.5, 0.3])
    law = split(values, masses, 0.25)
    assert law.masses.sum() == pytest.approx(1)
    assert law.moments()[0] == pytest.approx(float((values * masses).sum()))
    for level in (-0.5, 0.0, 0.2):
        lattice = float((law.masses * np.maximum(law.values - level, 0)).sum())
        assert lattice >= float((masses * np.maximum(values - level, 0)).sum()) - 1e-12


def test_a_tilt_moves_the_mean() -> None:
    """The tilt found gives the mean asked for; a mean already passed needs none."""
    law = Lattice(0.5, -4, np.array([0.5, 0.2, 0.1, 0.1, 0.05, 0.05]))
    assert law.moments(law.tilt_for(0.0))[0] == pytest.approx(0.0, abs=2e-3)
    assert law.tilt_for(-1.9) == 0.0
    assert law.tilt_for(99.0) > 1e11


def test_the_highest_place_holds_mass() -> None:
    """An atom on the lattice leaves no empty place above it, so any tilt has something to lift."""
    law = split(np.array([-1.0, 0.5]), np.array([1.0, 1e-200]), 0.25)
    assert law.values[-1] == 0.5
    assert law.moments(1e9)[0] == pytest.approx(0.5)


@each_case("tilt", [0.0, 0.7])
def test_a_sum_of_coins_is_binomial(tilt: float) -> None:
    """The untilted law of a sum of 40 coins has full relative accuracy where the tilt puts it."""
    coin = Lattice(1.0, 0, np.array([0.7, 0.3]))
    tilted, log_factor = coin.sum_of(40, tilt=tilt, size=64)
    counts = np.arange(8, 20)
    law = tilted[counts] * np.exp(log_factor - tilt * counts)
    assert law == pytest.approx(stats.binom.pmf(counts, 40, 0.3), rel=1e-10)


def test_a_cycle_too_short_only_adds() -> None:
    """Sums beyond the cycle land on others, which never get less than their own mass."""
    coin = Lattice(1.0, -1, np.array([0.5, 0.0, 0.5]))
    tilted, _ = coin.sum_of(40, tilt=0.0, size=16)
    places = np.arange(-8, 8)
    own = np.where(places % 2 == 0, stats.binom.pmf((places + 40) // 2, 40, 0.5), 0.0)
    assert (tilted[places % 16] >= own - 1e-15).all()


def test_the_tail_bound_is_a_bound() -> None:
    """Chernoff's bound is above the tail, and says so where nothing can be."""
    coin = Lattice(1.0, 0, np.array([0.7, 0.3]))
    for level in (15, 20, 30, 40):
        assert math.exp(coin.log_tail(40, level)) >= stats.binom.sf(level - 1, 40, 0.3)
    assert coin.log_tail(40, 41.0) == -math.inf
