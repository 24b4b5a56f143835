"""Unbounded geometric numbers, drawn exactly: every value has its exact probability.

Tables have 64 bits; where a word falls on a boundary of one, further words decide, and what lies
beyond the last table is drawn again from there. Either happens once in 2^52 draws.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from rase.kernels.fixed import (
    FIXED_ONE,
    NEGLIGIBLE,
    decay_powers,
    digit_sums,
    geometric_digits,
    word_sums,
)
from rase.kernels.table import IntegerTable
from rase.lazy import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from rase.arrays import Places, Words
    from rase.kernels.entropy import Entropy
    from rase.kernels.words import Keystream, Random

__all__ = [
    "Digit",
    "draw_geometric",
    "exact_digits",
    "exact_geometric",
    "rate_within",
    "settled_index",
    "tail_sums",
]

# Gaps are computed with 40 digits to spare, so one this far outside of (0, 1) is so without doubt.
_DOUBT = Decimal("1e-20")
# Words drawn at once: so many stay in the processor's cache until they are used.
_AT_ONCE = 1 << 13


class Digit(NamedTuple):
    """One digit of a geometric number."""

    weight: int
    rate: float
    sums: array[int]
    size: int | None
    """How many values it has; None for the highest digit, which has no end."""

    def draw_digit(self, word: int, entropy: Entropy) -> int:
        """Return the digit that a word stands for, with more words where they are needed."""
        index = settled_index(self.sums, word, rate=self.rate, size=self.size, more=entropy.word)
        if self.size is None and index == len(self.sums):
            return index + self.draw_digit(entropy.word(), entropy)
        return index


def rate_within(epsilon: float, steps: int) -> float:
    """Return the largest rate whose ``steps``-fold is at most epsilon, in fractions.

    Example:
        >>> rate_within(1.0, 4096)
        0.000244140625
    """
    rate = epsilon / steps
    while Fraction(rate) * steps > Fraction(epsilon):
        rate = math.nextafter(rate, 0.0)
    return rate


@lru_cache(maxsize=64)
def exact_digits(rate: float) -> tuple[Digit, ...]:
    """Return the digits of a geometric number, the lowest first."""
    *lower, (weight, highest) = geometric_digits(rate) or [(1, rate)]
    digits = []
    for lower_weight, lower_rate in lower:
        sums = digit_sums(lower_rate)
        digits.append(Digit(lower_weight, lower_rate, sums, len(sums) + 1))
    return (*digits, Digit(weight, highest, tail_sums(highest), None))


def draw_geometric(digits: tuple[Digit, ...], entropy: Entropy) -> int:
    """Draw one value without NumPy.

    Validation: word for word that of `exact_geometric` (tests/kernels/test_digits.py).
    """
    return sum(digit.weight * digit.draw_digit(entropy.word(), entropy) for digit in digits)


def tail_sums(rate: float) -> array[int]:
    """Return the table of the highest digit: ``Pr[G <= k]``, and a rest below 2^-64 for the tail.

    A geometric number forgets its past, so what falls into the rest is the table's size and
    another draw.
    """
    powers = decay_powers(rate, math.ceil(NEGLIGIBLE / rate) + 2)
    return word_sums(map(FIXED_ONE.__sub__, powers[1:]))


def settled_index(
    sums: array[int], word: int, *, rate: float, size: int | None, more: Callable[[], int]
) -> int:
    """Return the digit that a word stands for, exactly: at a boundary more words decide.

    A word is the first 64 bits of a uniform number u. Partial sums are real numbers of which the
    table has 64 bits, so a word equal to one of them does not show on which side u lies. That
    happens once in 2^52 draws; deciding it makes the drawn law the geometric one itself.

    Args:
        sums: The table of a digit, as from `digit_sums` or `tail_sums`.
        word: The word drawn.
        rate: The rate of the digit.
        size: How many values the digit has; None for the highest, which has no end.
        more: Draws another word.
    """
    index = bisect_left(sums, word)
    bits = 64
    while index < len(sums) and sums[index] == word >> (bits - 64):
        with localcontext() as context:
            context.prec = 40 + bits
            partial = 1 - (-Decimal(rate) * (index + 1)).exp()
            if size is not None:
                partial /= 1 - (-Decimal(rate) * size).exp()
            gap = partial * (1 << bits) - word
        if gap <= -_DOUBT:
            index += 1
        elif gap >= 1 + _DOUBT:
            break
        else:
            word, bits = word << 64 | more(), bits + 64
    return index


def exact_geometric(rate: float, count: int, source: Random | Keystream) -> Places:
    """Draw ``count`` values G with ``Pr[G = g]`` proportional to ``exp(-rate * g)``, exactly.

    Args:
        rate: Positive; at least 1e-16.
        count: How many values.
        source: Where the words come from.

    Validation: boundaries decided by crafted words, and chi-square, in
    tests/kernels/test_digits.py.
    """
    values = np.zeros(count, dtype=np.uint64)
    for digit, table in _tables(rate):
        for start in range(0, count, _AT_ONCE):
            _add_digit(digit, table, values[start : start + _AT_ONCE], source)
    return values.view(np.int64)


def _add_digit(
    digit: Digit, table: IntegerTable, values: Words, source: Random | Keystream
) -> None:
    """Add one digit times its weight to each value."""
    from rase.kernels import backend

    words = source.words(values.size)
    if backend.native is not None:
        kept = values.copy()
        arguments = table.arrays, words, digit.weight, values, digit.size is None
        if backend.native.add_settled(*arguments):
            return
        values[:] = kept
    values += _settle_digits(digit, table, words, source) * np.uint64(digit.weight)


def _settle_digits(
    digit: Digit, table: IntegerTable, words: Words, source: Random | Keystream
) -> Words:
    """Draw a digit with NumPy; further words decide what the first leave open."""
    drawn = table.numpy_indices(words)
    # A boundary counts as passed where the word equals it; those words are looked at again.
    is_open = (drawn > 0) & (table.bounds[drawn] == words)
    if digit.size is None:
        is_open |= drawn == table.sums.size
    for place in np.flatnonzero(is_open):
        drawn[place] = digit.draw_digit(int(words[place]), _OneByOne(source))
    return drawn.astype(np.uint64)


class _OneByOne:
    """Give the words of a source one at a time."""

    def __init__(self, source: Random | Keystream) -> None:
        self._source = source

    def word(self) -> int:
        return int(self._source.words(1)[0])


@lru_cache(maxsize=64)
def _tables(rate: float) -> tuple[tuple[Digit, IntegerTable], ...]:
    return tuple((digit, IntegerTable(digit.sums)) for digit in exact_digits(rate))
