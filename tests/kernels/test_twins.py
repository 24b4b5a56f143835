"""The same words give the same results in C and in NumPy, whatever the sizes."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.cases import each_case

from rase.kernels import backend
from rase.kernels.fixed import clamped_table
from rase.kernels.integers import integers_from
from rase.kernels.parts import bit_alone, mixed_up, window_alone
from rase.kernels.permute import (
    disagreement_count,
    inversion_count,
    is_permutation,
    order_from_codes,
    order_from_swaps,
    orders_from_codes,
    orders_from_free_codes,
    shuffle_rows,
    uniform_order,
    uniform_orders,
)
from rase.kernels.reports import (
    ClampedKernel,
    Kernel,
    PartsKernel,
    RowsKernel,
    clamped_sums,
    draw_reports,
)
from rase.kernels.table import IntegerTable
from rase.kernels.unbounded import exact_geometric
from rase.kernels.words import SeededRandom, Words
from rase.randomize.ladder import programme_below
from rase.shuffle.mallows import Mallows
from rase.shuffle.permutation import kendall_tau
from rase.stream import ValueRange

SIZES = [0, 1, 2, 63, 64, 65, 1024, 1025, 4097]
LARGE = 10**6 + 3
PUBLIC = ValueRange(-5, 95)


class FixedWords(SeededRandom):
    """Return the given words first, then random ones."""

    def __init__(self, first: list[int]) -> None:
        super().__init__(2026)
        self.first = first

    def words(self, count: int) -> Words:
        """Return what is left of the given words, then random ones."""
        given_words, self.first = self.first[:count], self.first[count:]
        return np.concatenate(
            [np.array(given_words, np.uint64), super().words(count - len(given_words))]
        )


@pytest.fixture(autouse=True)
def both(native: backend.Compiled) -> None:
    """Need both twins."""


def twice(work: Callable[[], Any]) -> tuple[Any, Any]:
    """Do the same on the compiled and on the NumPy kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "native", backend.compiled)
        compiled = work()
        patch.setattr(backend, "native", None)
        return compiled, work()


def assert_same(work: Callable[[], NDArray[Any] | None]) -> NDArray[Any]:
    """Check that both give the same array, type and shape included."""
    compiled, by_numpy = twice(work)
    assert compiled.dtype == by_numpy.dtype
    assert compiled.shape == by_numpy.shape
    assert np.array_equal(compiled, by_numpy)
    return np.asarray(compiled)


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


@given(
    st.lists(st.integers(0, 2**64 - 1), max_size=60, unique=True),
    st.lists(st.integers(0, 2**64 - 1), max_size=40),
)
def test_draws_from_any_table_are_the_same(sums: list[int], words: list[int]) -> None:
    """At boundaries, beside them and at both ends; bisection says what is right."""
    ascending = np.array(sorted(sums), np.uint64)
    near = [(total + offset) % 2**64 for total in sums for offset in (-1, 0, 1)]
    drawn = np.array([*words, *near, 0, 2**64 - 1], np.uint64)
    table = IntegerTable(ascending)
    expected = np.searchsorted(ascending, drawn, side="right")
    assert np.array_equal(assert_same(lambda: table.indices(drawn)), expected)


@each_case("rate", [1e-14, 1e-9, 1e-6, 1.0 / 4096, 0.01, 0.7, 40.0, 60.0])
def test_exact_geometric_numbers_are_the_same(rate: float) -> None:
    """From five digits to one; a word that settles nothing is followed by others in both."""
    assert_same(lambda: exact_geometric(rate, 5001, SeededRandom(2026)))
    assert_same(lambda: exact_geometric(rate, 70, FixedWords([5, 2**64 - 1, 7])))


def clamped_kernel(epsilon: float, steps: int) -> Kernel:
    """Return the kernel of clamped noise."""
    return ClampedKernel(IntegerTable(clamped_table(epsilon, steps).sums), steps)


def rows_kernel(epsilon: float, steps: int) -> Kernel:
    """Return the kernel of the optimal channel."""
    programme = programme_below(max(epsilon, 0.25))
    sums = np.array([np.cumsum(np.array(row[:-1], np.uint64)) for row in programme.rows])
    return RowsKernel(sums, np.array(programme.places(steps)), steps)


KERNELS: dict[str, Callable[[float, int], Kernel]] = {
    "clamped": clamped_kernel,
    "bit": lambda epsilon, steps: PartsKernel(bit_alone(epsilon, steps)),
    "window": lambda epsilon, steps: PartsKernel(window_alone(epsilon, steps)),
    "mixture": lambda epsilon, steps: PartsKernel(mixed_up(epsilon, steps)),
    "rows": rows_kernel,
}


@cache
def kernel_named(name: str, epsilon: float, steps: int) -> Kernel:
    """Return a kernel; its tables do not change by drawing from them."""
    return KERNELS[name](epsilon, steps)


@each_case("kernel", KERNELS)
@each_case("n", [*SIZES, 32_767, 32_769, LARGE])
@each_case(("epsilon", "steps"), [(1.0, 4096), (30.0, 4096), (1e-4, 1), (2.0, 65536), (3.0, 1000)])
def test_reports_are_the_same(kernel: str, n: int, epsilon: float, steps: int) -> None:
    """Inside and outside the range, on grid points and between them, to the last bit."""
    if n == LARGE and (epsilon, steps) != (1.0, 4096):
        return
    public = ValueRange(-5, 95.3, steps)
    law = kernel_named(kernel, epsilon, steps)
    readings = np.random.default_rng(2026).uniform(-30, 120, n)
    readings[::3] = public.low + public.step * np.floor(readings[::3] % steps)
    readings[:4] = [1e300, -1e300, public.high, public.low][:n]
    words = [0, 2**64 - 1, 2**63, 2**63 - 1, 1, 2**64 - 2]
    assert_same(lambda: draw_reports(readings, law, public=public, source=FixedWords(words[:n])))


@each_case("n", [*SIZES, LARGE])
def test_sums_of_reports_are_the_same(n: int) -> None:
    """Sums of places and counts of ends, whatever the number of reports."""
    places = (SeededRandom(2026).words(n) % np.uint64(4097)).astype(np.float64)
    reports = PUBLIC.low + PUBLIC.step * places
    sums, by_numpy = twice(lambda: clamped_sums(reports.reshape(1, -1), PUBLIC))
    assert [column.tolist() for column in sums] == [column.tolist() for column in by_numpy]


@each_case("strange", [np.nan, np.inf, -np.inf])
def test_strange_readings_and_reports_are_refused_by_both(strange: float) -> None:
    """Neither draws a report of what is no number, nor sums what is no point of the grid."""
    readings = np.full(300, 1.0)
    readings[299] = strange
    for make in KERNELS.values():
        law = make(1.0, 4096)
        drawn = twice(
            lambda law=law: draw_reports(readings, law, public=PUBLIC, source=SeededRandom(1))  # type: ignore[misc]
        )
        assert drawn == (None, None)
    between = PUBLIC.low + 1.5 * PUBLIC.step
    for report in (strange, between, PUBLIC.low - PUBLIC.step, PUBLIC.high + PUBLIC.step):
        reports = np.full((3, 2), PUBLIC.low)
        reports[2, 1] = report
        assert twice(lambda reports=reports: clamped_sums(reports, PUBLIC)) == (None, None)  # type: ignore[misc]


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
