import math

import numpy as np
import pytest
from tests.cases import each_case

from rase.shuffle.attacker import order_attack
from rase.shuffle.mallows import Mallows


@each_case("theta", [0.0, 1e-9, 0.03, 0.7, 5.0, 60.0])
@each_case("n", [1, 2, 7, 100, 300])
def test_small_rounds_are_exact(n: int, theta: float) -> None:
    """Up to n = 512 the numbers are those of the marginals, the first slot the most exposed."""
    marginals = Mallows(n, theta).marginals()
    attack = order_attack(n, theta)
    best = marginals.max(axis=0)
    assert attack.mean_success == pytest.approx(best.mean(), rel=1e-12)
    assert attack.exposed_success == pytest.approx(best.max(), rel=1e-12)
    assert attack.exposed_success == pytest.approx(best[attack.exposed_slot], rel=1e-12)
    assert attack.stay_share == pytest.approx(np.trace(marginals) / n, rel=1e-12)


@pytest.mark.uncovered
@each_case("n", [513, 800])
@each_case("theta_times_n", [1e-6, 0.1, 1, 4, 10, 25])
def test_the_limit_of_large_rounds_is_close(n: int, theta_times_n: float) -> None:
    """Below theta 0.05 the limit differs from the exact law by less than 0.1 %."""
    assert_close_to_exact(n, theta_times_n / n, tolerance=1e-3)


@pytest.mark.uncovered
@each_case("theta", [0.05, 0.3, 5.0])
def test_ends_and_middle_make_up_large_rounds(theta: float) -> None:
    """From theta 0.05 on, ends and middle of a smaller round give the larger one."""
    assert_close_to_exact(900, theta, tolerance=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("theta", [1e-4, 4 / 1500, 0.02, 0.049, 0.051, 1.0])
def test_rounds_of_fifteen_hundred_are_close(theta: float) -> None:
    """Both ways hold at n = 1500 within 0.1 %."""
    assert_close_to_exact(1500, theta, tolerance=1e-3)


def assert_close_to_exact(n: int, theta: float, *, tolerance: float) -> None:
    """Compare with the marginals of all n items."""
    marginals = Mallows(n, theta).marginals()
    attack = order_attack(n, theta)
    assert attack.mean_success == pytest.approx(marginals.max(axis=0).mean(), rel=tolerance)
    assert attack.stay_share == pytest.approx(np.trace(marginals) / n, rel=tolerance)
    assert attack.exposed_success == pytest.approx(marginals.max(), rel=1e-12)


def test_four_over_n_is_twice_chance() -> None:
    """At theta = 4/n the best observer succeeds twice as often as by chance, at every size."""
    for n in (100, 10_000, 1_000_000):
        assert n * order_attack(n, 4 / n).mean_success == pytest.approx(2, rel=3e-3)


def test_extremes_of_theta_are_sensible() -> None:
    """Nothing moves at infinity; at zero the observer guesses."""
    still = order_attack(10_000, math.inf)
    assert still.mean_success == still.stay_share == still.exposed_success == 1
    assert order_attack(10_000, 0.0).mean_success == 1e-4
