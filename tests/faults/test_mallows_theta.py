"""The theta that Mallows orders are drawn with is the stated one, to within a percent."""

import math

import numpy as np
import pytest

from rase.kernels.permute import inversion_count
from rase.kernels.words import SeededRandom
from rase.shuffle.mallows import Mallows

ITEMS = 1000
ORDERS = 1500
# Two-sided false alarms of 2e-9; a theta 1 % off moves the mean by about 12 standard errors.
MOST = 6.0


@pytest.mark.parametrize("theta", [0.03, 0.3, 1.0])
def test_a_theta_one_percent_off_is_noticed(theta: float) -> None:
    """The mean distance of many large orders is that of the law, and of no law 1 % beside it."""
    stated = Mallows(ITEMS, theta)
    assert deviation(stated, drawn_by=stated) < MOST
    for factor in (0.99, 1.01):
        assert deviation(stated, drawn_by=Mallows(ITEMS, factor * theta)) > MOST


@pytest.mark.parametrize("theta", [0.03, 1.0])
def test_single_orders_have_the_stated_theta(theta: float) -> None:
    """Orders that are drawn one by one have the mean distance of the law as well."""
    stated, source = Mallows(ITEMS, theta), SeededRandom(2026)
    distances = [inversion_count(stated.sample(rng=source)) for _ in range(ORDERS)]
    assert standard_errors(stated, distances) < MOST


def deviation(stated: Mallows, *, drawn_by: Mallows) -> float:
    """Return by how many standard errors drawn orders miss the mean distance of a law."""
    orders = drawn_by.samples(ORDERS, rng=SeededRandom(2026))
    return standard_errors(stated, [inversion_count(order) for order in orders])


def standard_errors(stated: Mallows, distances: list[int]) -> float:
    """Return how far the mean of distances is from that of a law, in its standard errors."""
    error = math.sqrt(stated.distance_variance / len(distances))
    return abs(float(np.mean(distances)) - stated.mean_distance) / error
