"""Geometric numbers without end: exact at every boundary and beyond every table."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from tests.cases import each_case

from rase.kernels import digits
from rase.kernels.digits import (
    draw_geometric,
    exact_digits,
    exact_geometric,
    rate_within,
    settled_index,
    tail_sums,
)
from rase.kernels.fixed import WORD, digit_sums
from rase.kernels.words import SeededRandom


class Given:
    """Give crafted words, one by one or many at once."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def word(self) -> int:
        """Return the next word."""
        return self.left.pop(0)

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next words."""
        return np.array([self.word() for _ in range(count)], dtype=np.uint64)


def boundary(rate: float, index: int, *, size: int | None, bits: int) -> int:
    """Return the first bits of the partial sum up to an index, computed apart from the code."""
    with localcontext() as context:
        context.prec = 200
        exact = 1 - (-Decimal(rate) * (index + 1)).exp()
        if size is not None:
            exact /= 1 - (-Decimal(rate) * size).exp()
        return int(exact * (1 << bits))


@each_case("size", [None, 4096])
@each_case("index", [0, 3, 200])
def test_further_words_decide_at_a_boundary(size: int | None, index: int) -> None:
    """One bit below the partial sum is the smaller digit, one above the larger, at any depth."""
    rate = 0.01
    sums = tail_sums(rate) if size is None else digit_sums(rate)
    for depth in (2, 3):
        exact = boundary(rate, index, size=size, bits=64 * depth)
        for word, expected in ((exact - 1, index), (exact + 1, index + 1)):
            parts = [(word >> 64 * place) % WORD for place in reversed(range(depth))]
            entropy = Given(*parts[1:])
            found = settled_index(sums, parts[0], rate=rate, size=size, more=entropy.word)
            assert found == expected
            # The words differ in the last bit only, so all of them were needed.
            assert not entropy.left


def test_boundaries_that_share_their_bits_are_told_apart() -> None:
    """Where several partial sums begin with the same 64 bits, more words find the one meant."""
    rate = 0.3
    sums = tail_sums(rate)
    shared = max(k for k in range(len(sums) - 1) if sums[k] == sums[k + 1])
    for index in (shared, shared + 1):
        exact = boundary(rate, index, size=None, bits=128) + 1
        entropy = Given(exact % WORD, 0)
        found = settled_index(sums, exact >> 64, rate=rate, size=None, more=entropy.word)
        assert found == index + 1


def test_what_lies_beyond_the_table_is_drawn_again_from_there() -> None:
    """The largest words lead into the tail; the next word continues behind the table."""
    rate = 2.0
    (digit,) = exact_digits(rate)
    most = WORD - 1
    first = draw_geometric((digit,), Given(most, most, most, most, 0))
    assert first >= len(digit.sums)
    many = exact_geometric(rate, 1, Given(most, most, most, most, 0))  # type: ignore[arg-type]
    assert many.tolist() == [first]


def test_boundary_words_are_settled_in_batches_too() -> None:
    """NumPy looks at doubtful words again, and draws what one value at a time would."""
    rate = 0.5
    exact = boundary(rate, 4, size=None, bits=128)
    for word, expected in ((exact - 1, 4), (exact + 1, 5)):
        drawn = exact_geometric(rate, 2, Given(word >> 64, 0, word % WORD))  # type: ignore[arg-type]
        assert drawn.tolist() == [expected, 0]
        assert draw_geometric(exact_digits(rate), Given(word >> 64, word % WORD)) == expected


@each_case("rate", [1e-6, 0.02, 1.0, 60.0])
def test_batches_are_single_values_word_for_word(rate: float) -> None:
    """One value from a batch is the value of the pure sampler with the same words."""
    digits = exact_digits(rate)
    for seed in range(1, 9):
        one = exact_geometric(rate, 1, SeededRandom(seed))[0]
        source = SeededRandom(seed)
        words = Given(*(int(source.words(1)[0]) for _ in digits))
        assert draw_geometric(digits, words) == one


@each_case("rate", [0.001, 0.7])
def test_values_follow_the_geometric_law(rate: float) -> None:
    """Chi-square over 30 bins of 50,000 values. False alarms: 2 tests at 1e-9; 30 % off is seen."""
    values = exact_geometric(rate, 50_000, SeededRandom(2026))
    assert _pvalue(values, rate) > 1e-9
    assert _pvalue(values, 1.3 * rate) < 1e-9


def _pvalue(values: NDArray[np.int64], rate: float) -> float:
    edges = np.unique(np.floor(stats.geom.ppf(np.linspace(0, 1, 31)[1:-1], -math.expm1(-rate))))
    chances = np.diff(np.concatenate([[0], -np.expm1(-rate * edges), [1]]))
    seen = np.histogram(values, np.concatenate([[-0.5], edges - 0.5, [np.inf]]))[0]
    return float(stats.chisquare(seen, chances * values.size).pvalue)


@each_case("steps", [1, 3, 4096, 165])
@each_case("epsilon", [1e-4, 0.3, 1.0, 2.9, 30.0])
def test_the_rate_is_the_largest_within_the_budget(epsilon: float, steps: int) -> None:
    """As many rates as steps are at most epsilon in fractions, and one unit more would exceed."""
    rate = rate_within(epsilon, steps)
    assert Fraction(rate) * steps <= Fraction(epsilon)
    assert Fraction(math.nextafter(rate, 1e9)) * steps > Fraction(epsilon)


def test_tables_are_kept() -> None:
    """A rate's tables are built once."""
    assert digits._tables(0.25) is digits._tables(0.25)
