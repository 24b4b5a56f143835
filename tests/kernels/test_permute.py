import itertools
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.cases import each_case

from rase.kernels.permute import (
    inversion_count,
    order_from_codes,
    order_from_swaps,
    orders_from_codes,
    uniform_order,
)
from rase.kernels.words import SeededRandom

pytestmark = pytest.mark.usefixtures("kernels")


def picked_one_by_one(codes: list[int]) -> list[int]:
    """Take the items from a list, as the definition says."""
    remaining = list(range(len(codes)))
    return [remaining.pop(code) for code in codes]


def some_codes(n: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return n codes from seeded words."""
    words = SeededRandom(seed).words(n)
    return (words % np.arange(n, 0, -1, dtype=np.uint64)).astype(np.int64)


@each_case("n", [0, 1, 2, 5, 63, 64, 65, 127, 128, 129, 1000, 4097])
def test_codes_pick_among_the_remaining_items(n: int) -> None:
    """Orders built by merging runs are those of picking items one by one."""
    codes = some_codes(n, seed=n)
    assert order_from_codes(codes).tolist() == picked_one_by_one(codes.tolist())


@each_case("n", [1, 6, 64, 600])
def test_a_batch_of_codes_gives_the_orders_of_its_rows(n: int) -> None:
    """A table of codes gives row by row what single rounds give, short or long."""
    codes = np.stack([some_codes(n, seed) for seed in range(3)])
    orders = orders_from_codes(codes)
    assert orders.tolist() == [picked_one_by_one(row) for row in codes.tolist()]


@each_case("n", [6, 600])
def test_a_batch_without_rounds_is_empty(n: int) -> None:
    """No rounds in, no rounds out."""
    assert orders_from_codes(np.empty((0, n), np.int64)).shape == (0, n)


def test_all_codes_of_five_items_give_all_orders() -> None:
    """Codes and orders correspond one to one."""
    codes = list(itertools.product(*(range(m) for m in range(5, 0, -1))))
    orders = orders_from_codes(np.array(codes))
    assert len({tuple(order) for order in orders.tolist()}) == math.factorial(5)


@pytest.mark.uncovered
@given(st.permutations(range(40)), st.integers(0, 40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_inversions_are_counted_as_defined(items: list[int], n: int) -> None:
    """The bitwise count equals the count over all pairs, for every length."""
    order = [item for item in items if item < n]
    pairs = itertools.combinations(order, 2)
    assert inversion_count(np.array(order, np.int64)) == sum(a > b for a, b in pairs)


@each_case("n", [1, 64, 1000, 100_000])
def test_inversions_are_the_sum_of_the_codes(n: int) -> None:
    """An order has as many inversions as its codes add up to, and the reverse has the most."""
    codes = some_codes(n, seed=3)
    assert inversion_count(order_from_codes(codes)) == codes.sum()
    assert inversion_count(np.arange(n)[::-1]) == n * (n - 1) // 2


@pytest.mark.slow
def test_inversions_of_ten_million_items_are_exact() -> None:
    """The count holds where the sum leaves 32 bits by far."""
    n = 10_000_000
    assert inversion_count(np.arange(n)[::-1]) == n * (n - 1) // 2


def test_swaps_follow_the_printed_loop() -> None:
    """Interchanges are made in turn, each on the outcome of those before."""
    assert order_from_swaps(np.array([2, 1, 2])).tolist() == [2, 1, 0]
    assert order_from_swaps(np.array([1, 2, 3, 3])).tolist() == [1, 2, 3, 0]
    assert order_from_swaps(np.empty(0, np.int64)).tolist() == []


@each_case("n", [0, 1, 2, 100])
def test_a_uniform_order_is_a_permutation_fixed_by_its_words(n: int) -> None:
    """The same words give the same order, and it holds every item once."""
    order = uniform_order(n, SeededRandom(2026))
    assert sorted(order.tolist()) == list(range(n))
    assert order.tolist() == uniform_order(n, SeededRandom(2026)).tolist()
