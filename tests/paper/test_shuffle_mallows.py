"""The Mallows law: Eq. (4), Fig. 3 (m = 5) and the figure of Pr[centre]."""

import math

import numpy as np
import pytest
from tests.cases import each_case

from rase.shuffle.mallows import Mallows

MAHONIAN_5 = np.array([1, 4, 9, 15, 20, 22, 20, 15, 9, 4, 1])


@each_case("theta", [0.0, 0.1, 0.5, 1.0, 2.0])
def test_fig_3_the_law_of_the_distance_at_m_5(theta: float) -> None:
    """Pr[d = D] is the Mahonian number of D times e^(-theta D), normalised."""
    weights = MAHONIAN_5 * np.exp(-theta * np.arange(11))
    np.testing.assert_allclose(
        Mallows(5, theta).distance_pmf(), weights / weights.sum(), rtol=1e-13
    )


@each_case("theta", [0.1, 0.5, 1.0, 2.0])
def test_the_centre_is_the_mode_and_probability_decays_exponentially(theta: float) -> None:
    """Each of the 5! - 1 other orders is e^(-theta d) times as likely as the centre."""
    law = Mallows(5, theta)
    centre = law.log_probability([0, 1, 2, 3, 4])
    for order, distance in (([1, 0, 2, 3, 4], 1), ([1, 2, 0, 3, 4], 2), ([4, 3, 2, 1, 0], 10)):
        assert law.log_probability(order) - centre == pytest.approx(-theta * distance)


def test_the_probability_of_the_centre_grows_with_theta_and_falls_with_n() -> None:
    """Pr[centre] = 1/Z: 1/n! at theta 0, 1 at infinity, monotone between."""
    for n in (2, 5, 10, 20):
        laws = [Mallows(n, theta) for theta in (0.0, 0.1, 0.5, 1.0, 3.0, 10.0, math.inf)]
        centre = [law.log_probability(range(n)) for law in laws]
        assert centre == [-law.log_normaliser for law in laws]
        assert centre == sorted(centre)
        assert centre[0] == pytest.approx(-math.lgamma(n + 1))
        assert centre[-1] == 0
    for theta in (0.0, 0.1, 1.0, 3.0):
        by_n = [-Mallows(n, theta).log_normaliser for n in (1, 2, 5, 10, 20)]
        assert by_n == sorted(by_n, reverse=True)


def test_one_group_of_all_approaches_the_uniform_law() -> None:
    """Example 2: at k = 1 theta = alpha / C(n, 2) makes all orders nearly alike as n grows.

    The log-ratio of the most and the least likely order stays alpha, spread over ever more
    distances; the success of an observer of order approaches chance.
    """
    gains = []
    for n in (4, 16, 64, 256):
        law = Mallows(n, 30 / (n * (n - 1) / 2))
        gains.append(n * law.marginals().max(axis=0).mean())
    assert gains == sorted(gains, reverse=True)
    assert gains[-1] < 1.1
