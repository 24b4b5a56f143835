"""The drawn laws against the enumerated ones, by chi-square over all orders."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.cases import each_case

from rase.kernels.integers import chosen_with
from rase.kernels.permute import inversion_count, uniform_orders
from rase.kernels.words import SeededRandom
from rase.shuffle.mallows import Mallows
from rase.shuffle.shufflers import cyclic_order

Orders = NDArray[np.int64]
Law = NDArray[np.float64]

FALSE_ALARM = 1e-6


def all_orders(n: int) -> Orders:
    """Return all orders of n items, one a row."""
    return np.array(list(itertools.permutations(range(n))))


def evidence_against(law: Law, orders: Orders) -> float:
    """Return the smaller p-value, doubled, of two tests that orders follow a law.

    One is chi-square over all orders, rare ones pooled to at least 10 expected draws. The other
    compares the mean number of inversions, which sees a small error of theta first.
    """
    n, count = orders.shape[1], len(orders)
    cell_of = np.full(n**n, -1)
    digits = n ** np.arange(n)
    cell_of[all_orders(n) @ digits] = np.arange(math.factorial(n))
    observed = np.bincount(cell_of[orders @ digits], minlength=law.size)
    if observed[law == 0].any():
        return 0.0
    pool_of = pools(law * count)
    expected = np.bincount(pool_of, law * count)
    found = np.bincount(pool_of, observed)
    chi_square = float(((found - expected) ** 2 / expected).sum())
    by_cells = float(stats.chi2.sf(chi_square, expected.size - 1))
    distances = np.array([inversion_count(order) for order in all_orders(n)])
    mean = law @ distances
    error = math.sqrt(law @ (distances - mean) ** 2 / count)
    by_mean = 2 * float(stats.norm.sf(abs(observed @ distances / count - mean) / error))
    return 2 * min(by_cells, by_mean)


def pools(expected: Law) -> Orders:
    """Number cells so that rare ones share a pool of at least 10 expected draws."""
    pool_of = np.zeros(expected.size, np.int64)
    pool, filled = 0, 0.0
    for cell in np.argsort(-expected):
        pool_of[cell] = pool
        filled += expected[cell]
        if filled >= 10:
            pool, filled = pool + 1, 0.0
    # The rarest are not left with a pool that is too small.
    pool_of[pool_of == pool] = max(pool - 1, 0)
    return pool_of


def law_of(log_probability: Callable[[Orders], float], n: int) -> Law:
    """Return the probabilities of all orders."""
    return np.exp([log_probability(order) for order in all_orders(n)])


@pytest.mark.uncovered
@pytest.mark.parametrize(
    ("n", "theta", "count"),
    [
        (5, 0.01, 2_000_000),
        (5, 0.25, 50_000),
        (5, 1.0, 50_000),
        (5, 5.0, 50_000),
        (6, 0.25, 50_000),
        (6, 1.0, 50_000),
        (6, 5.0, 50_000),
        pytest.param(6, 0.01, 2_000_000, marks=pytest.mark.slow),
        pytest.param(6, 1.0, 2_000_000, marks=pytest.mark.slow),
    ],
)
def test_mallows_draws_its_law(n: int, theta: float, count: int) -> None:
    """Batches follow the law over all orders, and a theta 30 % too large is seen.

    False alarms: 1e-6 for each case.
    """
    law = law_of(Mallows(n, theta).log_probability, n)
    orders = Mallows(n, theta).samples(count, rng=SeededRandom(2026))
    assert evidence_against(law, orders) > FALSE_ALARM
    faulty = Mallows(n, 1.3 * theta).samples(count, rng=SeededRandom(2026))
    assert evidence_against(law, faulty) < FALSE_ALARM


@pytest.mark.uncovered
def test_single_draws_of_mallows_follow_the_law() -> None:
    """Draws one by one follow the same law as batches; 30 % too large a theta is seen.

    False alarms: 1e-6.
    """
    law = law_of(Mallows(5, 0.5).log_probability, 5)
    source = SeededRandom(2026)
    right, faulty = (
        np.stack([Mallows(5, theta).sample(rng=source) for _ in range(8000)])
        for theta in (0.5, 0.65)
    )
    assert evidence_against(law, right) > FALSE_ALARM
    assert evidence_against(law, faulty) < FALSE_ALARM


@each_case("n", [5, 6])
def test_uniform_draws_all_orders_alike(n: int) -> None:
    """Uniform orders, and Mallows orders of theta 0, are uniform; 30 % sorted pairs are seen.

    False alarms: 1e-6 for each of three checks.
    """
    law = np.full(math.factorial(n), 1 / math.factorial(n))
    source = SeededRandom(2026)
    orders = uniform_orders(100_000, n, source)
    assert evidence_against(law, orders) > FALSE_ALARM
    assert evidence_against(law, Mallows(n, 0.0).samples(100_000, rng=source)) > FALSE_ALARM
    is_hit = chosen_with(np.full(len(orders), 0.3), source)
    orders[is_hit, :2] = np.sort(orders[is_hit, :2], axis=1)
    assert evidence_against(law, orders) < FALSE_ALARM


def test_the_cyclic_loop_draws_all_cycles_alike() -> None:
    """The paper's loop is uniform over the 24 cycles of 5; 30 % of one cycle more are seen.

    False alarms: 1e-6.
    """
    moves = [sum(order[i] == i for i in range(5)) for order in all_orders(5)]
    is_cycle = np.array(
        [
            not fixed and cycle_length(order) == 5
            for order, fixed in zip(all_orders(5), moves, strict=True)
        ]
    )
    law = is_cycle / is_cycle.sum()
    source = SeededRandom(2026)
    orders = np.stack([cyclic_order(5, source) for _ in range(8000)])
    assert evidence_against(law, orders) > FALSE_ALARM
    orders[chosen_with(np.full(len(orders), 0.3), source)] = [1, 2, 3, 4, 0]
    assert evidence_against(law, orders) < FALSE_ALARM


def cycle_length(order: Orders) -> int:
    """Return the length of the cycle that item 0 is in."""
    item, length = int(order[0]), 1
    while item:
        item, length = int(order[item]), length + 1
    return length
