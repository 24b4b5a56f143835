"""The same words give the same results in C and in NumPy, whatever the sizes."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.cases import each_case
from tests.twins import FixedWords, assert_same, twice

from rase.kernels import backend
from rase.kernels.digits import _tables
from rase.kernels.integers import integers_from
from rase.kernels.permute import (
    disagreement_count,
    inversion_count,
    is_permutation,
    order_from_codes,
    order_from_swaps,
    orders_from_codes,
    orders_from_free_codes,
    shuffle_rows,
    shuffle_values,
    uniform_order,
    uniform_orders,
    values_in_order,
)
from rase.kernels.words import SeededRandom
from rase.shuffle.mallows import Mallows
from rase.shuffle.permutation import kendall_tau

SIZES = [0, 1, 2, 63, 64, 65, 1024, 1025, 4097]
LARGE = 10**6 + 3


@pytest.fixture(autouse=True)
def both(native: backend.Compiled) -> None:
    """Need both twins."""


@each_case("n", [*SIZES, 40_000, 140_003])
def test_uniform_orders_are_the_same(n: int) -> None:
    """One order, from every number of items: within a batch of words, over several, over 2^17."""
    order = assert_same(lambda: uniform_order(n, SeededRandom(2026)))
    assert is_permutation(order)


@pytest.mark.slow
def test_uniform_orders_of_a_million_items_are_the_same() -> None:
    """The same for as many items as the largest of the other kernels."""
    assert is_permutation(assert_same(lambda: uniform_order(LARGE, SeededRandom(2026))))


@each_case("rounds", [0, 1, 3, 40, 700])
@each_case("n", [0, 1, 2, 63, 64, 65])
def test_batches_of_uniform_orders_are_the_same(rounds: int, n: int) -> None:
    """Many orders at once, few rounds and many."""
    orders = assert_same(lambda: uniform_orders(rounds, n, SeededRandom(2026)))
    assert (np.sort(orders, axis=1) == np.arange(n)).all()


@each_case("theta", [0.0, 1e-12, 1e-3, 0.05, 0.25, 1.0, 5.0, 800.0, float("inf")])
@each_case("n", [1, 2, 63, 64, 65, 1025, 5000])
def test_mallows_orders_are_the_same(n: int, theta: float) -> None:
    """One order and a batch, at every theta."""
    law = Mallows(n, theta)
    assert is_permutation(assert_same(lambda: law.sample(rng=SeededRandom(2026))))
    assert_same(lambda: law.samples(5, rng=SeededRandom(2026)))


@pytest.mark.uncovered
@pytest.mark.parametrize("theta", [1e-3, 0.25])
def test_mallows_orders_of_a_million_items_are_the_same(theta: float) -> None:
    """Four levels of the tree against twenty levels of merges."""
    assert_same(lambda: Mallows(LARGE, theta).sample(rng=SeededRandom(2026)))


@given(
    st.sampled_from([1, 2, 3, 63, 64, 65, 127, 128, 129, 1023, 1024, 1025]),
    st.integers(1, 5),
    st.integers(0, 2**32),
    st.integers(0, 63),
)
def test_free_codes_of_any_size_give_the_same_orders(
    n: int, rounds: int, seed: int, shift: int
) -> None:
    """Codes up to 2^64 - 1 are taken modulo what remains."""
    free = (SeededRandom(seed).words(rounds * n) >> np.uint64(shift)).reshape(rounds, n)

    def drawn() -> NDArray[np.int64]:
        orders = np.empty(free.shape, np.int64)
        orders_from_free_codes(free, out=orders)
        return orders

    orders = assert_same(drawn)
    assert (np.sort(orders, axis=1) == np.arange(n)).all()
    codes = (free % np.arange(n, 0, -1, dtype=np.uint64)).astype(np.int64)
    assert np.array_equal(assert_same(lambda: orders_from_codes(codes)), orders)


@each_case("code", [0, 1])
def test_extreme_codes_give_the_same_orders(code: int) -> None:
    """Always the first and always the last of the remaining items."""
    n = 20_000
    codes = np.arange(n - 1, -1, -1) * code
    assert np.array_equal(
        assert_same(lambda: order_from_codes(codes)), np.arange(n)[:: -1 if code else 1]
    )


@each_case("n", [65, 1000, 1024, 1025, 16_384, 16_385, 70_000])
@each_case("change", [0, 1, 70, 600])
def test_small_codes_that_grow_give_the_same_orders(n: int, change: int) -> None:
    """Words that empty from the front, words left behind, and a tree that takes over midway."""
    remaining = np.arange(n, 0, -1)
    codes = (SeededRandom(2026).words(n) % np.uint64(7)).astype(np.int64) % remaining
    codes[change:] = (SeededRandom(1).words(n) % remaining.astype(np.uint64)).astype(np.int64)[
        change:
    ]
    assert is_permutation(assert_same(lambda: order_from_codes(codes)))
    # The first item stays behind while everything else is taken: many empty words to pass.
    ones = np.minimum(np.ones(n, np.int64), remaining - 1)
    assert assert_same(lambda: order_from_codes(ones))[-1] == 0


@each_case("n", [16_384, 16_385, 20_000, 140_003])
@each_case("theta", [2e-2, 1e-3, 2e-4, 1e-5])
def test_codes_that_stay_near_give_the_same_orders(n: int, theta: float) -> None:
    """Items a few thousand places ahead, some farther, and so many that the tree takes over."""
    words = SeededRandom(2026).words(n).astype(np.float64) / 2.0**64
    free = (-np.log1p(-words) / theta).astype(np.int64)
    codes = free % np.arange(n, 0, -1)
    assert is_permutation(assert_same(lambda: order_from_codes(codes)))
    # Small first, any in the middle, small again: the tree goes on from what is left.
    codes[n // 4 : n // 2] = (SeededRandom(1).words(n) % np.uint64(n // 2)).astype(np.int64)[
        n // 4 : n // 2
    ]
    assert is_permutation(assert_same(lambda: order_from_codes(codes)))


@each_case("n", [3, 64, 65, 20_000])
def test_orders_may_take_the_memory_of_their_codes(n: int) -> None:
    """Each code is read before its item is written."""
    free = SeededRandom(5).words(3 * n).reshape(3, n) >> np.uint64(50)

    def apart() -> NDArray[np.int64]:
        orders = np.empty(free.shape, np.int64)
        orders_from_free_codes(free, out=orders)
        return orders

    def together() -> NDArray[np.int64]:
        codes = free.copy()
        orders_from_free_codes(codes, out=codes.view(np.int64))
        return codes.view(np.int64)

    assert np.array_equal(assert_same(together), assert_same(apart))


@each_case("rate", [3.0, 0.3, 1e-3, 1e-6])
def test_words_at_a_boundary_are_left_open(native: backend.Compiled, rate: float) -> None:
    """No word that equals a partial sum is settled in C, crowded or not; its neighbours are."""
    for digit, table in _tables(rate):
        words = np.array(digit.sums[:: max(len(digit.sums) // 60, 1)], np.uint64)
        for shift, is_settled in ((0, False), (1, True)):
            for word in words[words < 2**64 - 2] + np.uint64(shift):
                one, value = np.array([word], np.uint64), np.zeros(1, np.uint64)
                arguments = table.arrays, one, 1, value, False
                is_near = word in table.sums
                assert native.add_settled(*arguments) == (is_settled and not is_near)
                if is_settled and not is_near:
                    assert value[0] == np.searchsorted(table.sums, word, side="right")


@each_case("n", [*SIZES, LARGE])
def test_inversions_are_the_same(n: int) -> None:
    """Of a random order and of the two extreme ones."""
    order = uniform_order(n, SeededRandom(2026))
    for some in (order, np.arange(n), np.arange(n)[::-1]):
        compiled, by_numpy = twice(lambda some=some: inversion_count(some))  # type: ignore[misc]
        assert compiled == by_numpy
    assert compiled == n * (n - 1) // 2


@each_case("n", [*SIZES, LARGE])
def test_disagreements_are_inversions(n: int) -> None:
    """Two orders disagree in the inversions of one seen from the other; NumPy counts those."""
    a, b = uniform_order(n, SeededRandom(1)), uniform_order(n, SeededRandom(2))
    places = np.empty(n, np.int64)
    places[b] = np.arange(n)
    compiled, by_numpy = twice(lambda: disagreement_count(a, b))
    assert compiled == inversion_count(places[a])
    assert by_numpy is None


@given(st.lists(st.integers(-2, 7), max_size=7), st.lists(st.integers(-2, 7), max_size=7))
def test_what_is_no_order_is_seen_by_both(a: list[int], b: list[int]) -> None:
    """Duplicates and strangers make both say no; disagreements are then not counted."""
    first, second = np.array(a, np.int64), np.array(b, np.int64)
    compiled, by_numpy = twice(lambda: is_permutation(first))
    assert compiled == by_numpy == (sorted(a) == list(range(len(a))))
    is_right = len(a) == len(b) and sorted(a) == sorted(b) == list(range(len(a)))
    assert (twice(lambda: disagreement_count(first, second))[0] is not None) == is_right


@given(st.integers(1, 400), st.integers(0, 2**32))
def test_interchanges_are_the_same(n: int, seed: int) -> None:
    """Partners before and behind a place."""
    partners = (SeededRandom(seed).words(n) % np.uint64(n)).astype(np.int64)
    assert_same(lambda: order_from_swaps(partners))


@given(st.lists(st.integers(1, 2**32), max_size=50), st.integers(0, 2**32))
def test_integers_below_bounds_are_the_same(bounds: list[int], seed: int) -> None:
    """Any bounds up to 2^32."""
    words = SeededRandom(seed).words(len(bounds))
    source = SeededRandom(0)
    assert_same(lambda: integers_from(words, np.array(bounds, np.int64), source=source))


@each_case("n", [3, 40_000])
def test_a_refused_word_is_replaced_alike(n: int) -> None:
    """A word of 0 is refused for bounds that do not divide 2^64; the next of the stream follows."""
    order = assert_same(lambda: uniform_order(n, FixedWords([0])))
    assert is_permutation(order)
    orders = assert_same(lambda: uniform_orders(50, 3, FixedWords([7, 7, 7, 0])))
    assert (np.sort(orders, axis=1) == np.arange(3)).all()
    source_words = np.array([0, 1 << 63], np.uint64)
    assert_same(lambda: integers_from(source_words, np.array([3, 3]), source=SeededRandom(1)))


@each_case("n", [0, 1, 65, 3000])
def test_kendall_distances_are_the_same(n: int) -> None:
    """Counted at once in C, by way of an inverse in NumPy."""
    a, b = uniform_order(n, SeededRandom(1)), uniform_order(n, SeededRandom(2))
    compiled, by_numpy = twice(lambda: kendall_tau(a, b))
    assert compiled == by_numpy


def test_strange_partners_and_orders_are_refused() -> None:
    """A partner that does not exist is an IndexError in both; what is no order is not counted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "native", backend.compiled)
        with pytest.raises(ValueError, match="order must be a permutation"):
            inversion_count(np.array([1, 1]))
    for native in (backend.compiled, None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(backend, "native", native)
            with pytest.raises(IndexError):
                order_from_swaps(np.array([0, 5]))


def test_rows_of_floats_are_shuffled_as_their_places() -> None:
    """Shuffled values are the values at the places of a uniform order."""
    values = np.random.default_rng(1).normal(size=(200, 9))

    def shuffled() -> NDArray[np.float64]:
        rows = values.copy()
        shuffle_rows(rows, SeededRandom(3))
        return rows

    orders = uniform_orders(200, 9, SeededRandom(3))
    assert np.array_equal(assert_same(shuffled), np.take_along_axis(values, orders, axis=1))


@each_case(
    "values",
    [
        np.linspace(0, 1, 9001),
        np.array([math.nan, -0.0, 0.0, math.inf]),
        np.linspace(0, 1, 70, dtype=np.float32),
        np.arange(70, dtype=np.int16),
        np.arange(70, dtype=">i8"),
        np.arange(140.0)[::2],
        np.arange(140).reshape(70, 2),
        np.array(["a", "bb", "ccc"]),
        np.array([1, "two", None], dtype=object),
        np.empty(0),
    ],
)
def test_values_of_any_kind_stand_where_a_uniform_order_puts_them(values: NDArray[Any]) -> None:
    """Values that are moved in place and those that are picked by an order end up alike."""
    kept = values.copy()
    order = uniform_order(len(values), SeededRandom(3))

    def as_seen(shuffled: NDArray[Any]) -> bytes | list[Any]:
        return shuffled.tolist() if values.dtype.hasobject else shuffled.tobytes()

    expected = as_seen(values[order])
    for moved in twice(lambda: shuffle_values(values, SeededRandom(3))):
        assert as_seen(moved) == expected
        assert moved.dtype == values.dtype
    for moved in twice(lambda: values_in_order(values, order.copy())):
        assert as_seen(moved) == expected
        assert moved.dtype == values.dtype
    assert as_seen(values) == as_seen(kept)


def test_items_that_do_not_exist_have_no_value() -> None:
    """An order of other items is refused by both."""
    for native in (backend.compiled, None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(backend, "native", native)
            with pytest.raises(IndexError):
                values_in_order(np.arange(2.0), np.array([0, 5]))


def test_long_rows_are_shuffled_one_by_one() -> None:
    """Rows longer than a piece of words have each an order of its own."""
    n = 9000

    def shuffled() -> NDArray[np.int64]:
        rows = np.tile(np.arange(n), (2, 1))
        shuffle_rows(rows, SeededRandom(3))
        return rows

    source = SeededRandom(3)
    expected = [uniform_order(n, source), uniform_order(n, source)]
    assert np.array_equal(assert_same(shuffled), expected)


def test_orders_too_long_for_the_compiled_kernels_go_to_numpy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limit of 32 bits only decides who works: results stay."""
    expected = uniform_order(700, SeededRandom(1)), Mallows(700, 0.1).sample(rng=SeededRandom(1))
    monkeypatch.setattr(backend, "MOST_ITEMS", 699)
    assert np.array_equal(uniform_order(700, SeededRandom(1)), expected[0])
    assert np.array_equal(Mallows(700, 0.1).sample(rng=SeededRandom(1)), expected[1])
    assert inversion_count(expected[0][::-1]) == 700 * 699 // 2 - inversion_count(expected[0])
    assert disagreement_count(expected[0], expected[1]) is None


@each_case("codes", [[1, 0, 1], [-1, 0, 0]])
def test_codes_out_of_bounds_do_not_leave_the_arrays(codes: list[int]) -> None:
    """What is no code is left to NumPy, which has its own opinion; nothing crashes."""
    assert_same(lambda: order_from_codes(np.array(codes)))
