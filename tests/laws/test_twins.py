"""The same words give the same places in C and in NumPy, whatever the sizes."""

from bisect import bisect_right
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import each_case
from tests.twins import FixedWords, assert_same, twice

from rase.domain import Range
from rase.kernels import backend
from rase.kernels.digits import exact_geometric
from rase.kernels.table import IntegerTable
from rase.kernels.words import SeededRandom
from rase.laws.geometric import ClampedLaw
from rase.laws.ladder import programme_at
from rase.laws.law import BoundedLaw
from rase.laws.optimal import ProgrammeLaw
from rase.laws.parts import bit_alone, mixed_up, one_of_many, window_alone
from rase.laws.programme import mixed_sum
from rase.laws.windows import PartsLaw

SIZES = [0, 1, 2, 63, 64, 65, 1024, 1025, 4097]
LARGE = 10**6 + 3
PUBLIC = Range(-5, 95)
LAWS: dict[str, Callable[[float, int], BoundedLaw]] = {
    "clamped": ClampedLaw,
    "bit": lambda epsilon, steps: PartsLaw(epsilon, bit_alone(epsilon, steps), "bit"),
    "window": lambda epsilon, steps: PartsLaw(epsilon, window_alone(epsilon, steps), "window"),
    "mixture": lambda epsilon, steps: PartsLaw(epsilon, mixed_up(epsilon, steps), "mixture"),
    "response": lambda epsilon, steps: PartsLaw(epsilon, one_of_many(epsilon, steps), "response"),
    "rows": lambda epsilon, steps: ProgrammeLaw(programme_at(max(epsilon, 0.25)), steps),
}


@pytest.fixture(autouse=True)
def both(native: backend.Compiled) -> None:
    """Need both twins."""


@cache
def law_named(name: str, epsilon: float, steps: int) -> BoundedLaw:
    """Return a law; its tables do not change by drawing from them."""
    return LAWS[name](epsilon, steps)


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


@each_case("name", LAWS)
@each_case("n", [*SIZES, 32_767, 32_769, LARGE])
@each_case(("epsilon", "steps"), [(1.0, 4096), (30.0, 4096), (1e-4, 1), (2.0, 65536), (3.0, 1000)])
def test_places_are_the_same(name: str, n: int, epsilon: float, steps: int) -> None:
    """Inside and outside the range, on grid points and between them, to the last bit."""
    if n == LARGE and (epsilon, steps) != (1.0, 4096):
        return
    public = Range(-5, 95.3, steps)
    law = law_named(name, epsilon, steps)
    readings = np.random.default_rng(2026).uniform(-30, 120, n)
    readings[::3] = public.low + public.step * np.floor(readings[::3] % steps)
    readings[:4] = [1e300, -1e300, public.high, public.low][:n]
    words = [0, 2**64 - 1, 2**63, 2**63 - 1, 1, 2**64 - 2]
    assert_same(lambda: law.draw_many(readings, public.grid, source=FixedWords(words[:n])))


@each_case("epsilon", [1.0, 3.0, 8.0])
@each_case("steps", [1, 33, 64, 4096])
def test_words_at_boundaries_of_rows_give_the_same_places(epsilon: float, steps: int) -> None:
    """At every partial sum of the inputs and of a reading between two, and beside them."""
    law = ProgrammeLaw(programme_at(epsilon), steps)
    public = Range(0, steps, steps)
    for reading in (0.0, steps / 3, steps - 2.0**-20, float(steps)):
        index, part = int(reading), Fraction(reading) % 1
        inputs = Fraction(index + part) * law.parts / steps
        below, share = int(inputs), int((inputs % 1) * 2**64)
        under, over = (law._sums[min(below + more, law.parts)] for more in (0, 1))
        mixed = [mixed_sum(*pair, share) for pair in zip(under, over, strict=True)]
        near = {total + more for total in (*under, *over, *mixed) for more in (-1, 0, 1)}
        words = sorted(word for word in near if word < 2**64)
        readings = np.full(len(words), reading)
        places = assert_same(
            lambda: law.draw_many(readings, public.grid, source=FixedWords(words))  # noqa: B023
        )
        assert places.tolist() == [law._outputs[bisect_right(mixed, word)] for word in words]


@each_case("strange", [np.nan, np.inf, -np.inf])
def test_strange_readings_are_refused_by_both(strange: float) -> None:
    """Neither draws a report of what is no number."""
    readings = np.full(300, 1.0)
    readings[299] = strange
    for make in LAWS.values():
        law = make(1.0, 4096)
        drawn = twice(
            lambda law=law: law.draw_many(readings, PUBLIC.grid, source=SeededRandom(1))  # type: ignore[misc]
        )
        assert drawn == (None, None)
