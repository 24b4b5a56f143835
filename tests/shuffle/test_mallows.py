import itertools
import math
from typing import Any

import numpy as np
import pytest
from tests.cases import each_case

from rase.kernels.permute import inversion_count
from rase.kernels.words import SeededRandom
from rase.shuffle.mallows import Mallows

THETAS = (0.0, 1e-9, 1e-3, 0.1, 1.0, 5.0, 50.0)


def all_orders(n: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return all orders of n items, one a row."""
    return np.array(list(itertools.permutations(range(n))))


def enumerated(
    n: int, theta: float
) -> tuple[
    np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.float64]]
]:
    """Return the distances and probabilities of all orders, by definition."""
    distances = np.array([inversion_count(order) for order in all_orders(n)])
    weights = np.exp(-theta * distances)
    return distances, weights / weights.sum()


@each_case("theta", THETAS)
@each_case("n", range(1, 7))
def test_the_law_is_that_of_the_definition(n: int, theta: float) -> None:
    """Probabilities, moments, distances and marginals agree with enumeration up to n = 6."""
    law = Mallows(n, theta)
    distances, weights = enumerated(n, theta)
    logs = [law.log_probability(order) for order in all_orders(n)]
    np.testing.assert_allclose(np.exp(logs), weights, rtol=1e-12)
    np.testing.assert_allclose(law.log_normaliser, np.log(np.exp(-theta * distances).sum()))
    mean = (weights * distances).sum()
    np.testing.assert_allclose(law.mean_distance, mean, rtol=1e-12)
    variance = (weights * distances**2).sum() - mean**2
    np.testing.assert_allclose(law.distance_variance, variance, rtol=1e-6, atol=1e-19)
    pmf = np.bincount(distances, weights)
    np.testing.assert_allclose(law.distance_pmf(), pmf, rtol=1e-12)
    marginals = np.zeros((n, n))
    for order, weight in zip(all_orders(n), weights, strict=True):
        marginals[order, np.arange(n)] += weight
    np.testing.assert_allclose(law.marginals(), marginals, rtol=1e-11)


@each_case("theta", [0.0, 1e-7, 4 / 300, 0.1, 3.0])
def test_moments_of_many_items_agree_with_their_law(theta: float) -> None:
    """At n = 120 series and closed forms meet the moments of the distance's law."""
    law = Mallows(120, theta)
    pmf, distances = law.distance_pmf(), np.arange(120 * 119 // 2 + 1)
    assert pmf.sum() == pytest.approx(1, abs=1e-12)
    mean = float(pmf @ distances)
    assert law.mean_distance == pytest.approx(mean, rel=1e-11)
    assert law.distance_variance == pytest.approx(float(pmf @ (distances - mean) ** 2), rel=1e-10)


@each_case("theta", [0.0, 1e-3, 0.1, 2.0, 40.0])
def test_marginals_are_doubly_stochastic_and_symmetric(theta: float) -> None:
    """Every item has a slot and every slot an item; the law reads the same from all sides."""
    marginals = Mallows(151, theta).marginals()
    np.testing.assert_allclose(marginals.sum(axis=0), 1, rtol=1e-12)
    np.testing.assert_allclose(marginals.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(marginals, marginals.T, rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(marginals, marginals[::-1, ::-1], rtol=1e-9, atol=1e-300)


def test_at_infinite_theta_nothing_moves() -> None:
    """The identity has probability 1, everything else probability 0."""
    law = Mallows(4, math.inf)
    assert law.log_probability([0, 1, 2, 3]) == 0
    assert law.log_probability([1, 0, 2, 3]) == -math.inf
    assert law.mean_distance == law.distance_variance == 0
    assert law.distance_pmf().tolist() == [1, 0, 0, 0, 0, 0, 0]
    assert law.marginals().tolist() == np.eye(4).tolist()
    assert law.sample().tolist() == [0, 1, 2, 3]


def test_a_tiny_theta_is_no_theta() -> None:
    """Below 1e-16 the law is the uniform one."""
    assert Mallows(5, 9e-17) == Mallows(5, 0.0)
    assert Mallows(5, 2e-16).theta == 2e-16
    assert Mallows(5, 2e-16).samples(10, rng=SeededRandom(1)).shape == (10, 5)


@each_case("theta", [0.0, 0.3, 60.0])
def test_samples_are_orders_fixed_by_the_seed(theta: float) -> None:
    """Single draws and batches hold every item once and repeat with their seed."""
    law = Mallows(100, theta)
    order = law.sample(rng=SeededRandom(2026))
    assert sorted(order.tolist()) == list(range(100))
    assert order.tolist() == law.sample(rng=SeededRandom(2026)).tolist()
    batch = law.samples(3, rng=SeededRandom(2026))
    assert np.sort(batch, axis=1).tolist() == [list(range(100))] * 3


@each_case("theta", [0.02, 0.3, 2.0])
def test_fit_finds_the_theta_of_samples(theta: float) -> None:
    """The estimate solves the likelihood equation and lies within 6 standard errors of theta.

    False alarms: below 1e-8 for each theta. An estimate 30 % off is farther away.
    """
    law, count = Mallows(60, theta), 1000
    orders = law.samples(count, rng=SeededRandom(2026))
    fitted = Mallows.fit(orders)
    distances = [inversion_count(order) for order in orders]
    assert fitted.mean_distance == pytest.approx(np.mean(distances), rel=1e-12)
    error = 1 / math.sqrt(count * law.distance_variance)
    assert abs(fitted.theta - theta) < 6 * error < 0.15 * theta


def test_fit_reaches_both_ends() -> None:
    """Orders like uniform ones give theta 0, identities alone give infinity."""
    assert Mallows.fit([[2, 1, 0]]).theta == 0
    assert Mallows.fit([[0]]).theta == 0
    assert Mallows.fit([[0, 1, 2], [0, 1, 2]]).theta == math.inf
    nearly_all = np.tile(np.arange(50), (1000, 1))
    nearly_all[0, :2] = [1, 0]
    assert Mallows.fit(nearly_all).mean_distance == pytest.approx(1e-3, rel=1e-9)
    nearly_uniform = np.vstack([np.arange(9), np.arange(9)[::-1]])
    assert Mallows.fit(nearly_uniform).theta == 0


def test_fit_needs_orders() -> None:
    """Lists of other things are refused."""
    with pytest.raises(ValueError, match="orders must be a table of orders"):
        Mallows.fit([0, 1, 2])
    with pytest.raises(ValueError, match="orders must be a permutation"):
        Mallows.fit([[0, 0]])


def test_wrong_arguments_are_refused() -> None:
    """The errors name n, theta and the order."""
    with pytest.raises(ValueError, match="n must be at least 1"):
        Mallows(0, 1.0)
    with pytest.raises(ValueError, match="theta must be at least 0"):
        Mallows(3, -0.1)
    with pytest.raises(ValueError, match="order must hold 3 items, got 2"):
        Mallows(3, 1.0).log_probability([0, 1])


class Given:
    """Give crafted words first, then zeros."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        """Return the next words."""
        given, self.left = self.left[:count], self.left[count:]
        return np.array([*given, *[0] * (count - len(given))], dtype=np.uint64)


def test_no_order_is_left_out() -> None:
    """Where a word ends beyond the last table, the next one goes on from there.

    At theta 5 the table of 64 bits ends after 9 places. An order that no word gives would have an
    infinite loss towards a neighbour that one gives.
    """
    most = 2**64 - 1
    law = Mallows(64, 5.0)
    reached = []
    for further in ([0], [most // 2], [most - 1], [most, most, most, 0]):
        source: Any = Given(most, *[0] * 63, *further, most // 2)
        order = law._draw(1, source)
        assert sorted(order[0].tolist()) == list(range(64))
        reached.append(int(order[0, 0]))
    # The same first word for all: what follows decides how far the first item moves.
    assert reached == [8, 9, 10, 20]


def test_an_infinite_theta_moves_nothing() -> None:
    """Neither in one order nor in many."""
    law = Mallows(5, math.inf)
    assert law.sample(rng=SeededRandom(1)).tolist() == [0, 1, 2, 3, 4]
    assert law.samples(2, rng=SeededRandom(1)).tolist() == [[0, 1, 2, 3, 4]] * 2
