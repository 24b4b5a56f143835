"""Geometric numbers without end, many at once: the NumPy side of rase.kernels.digits."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rase.kernels import backend
from rase.kernels.digits import Digit, exact_digits
from rase.kernels.table import IntegerTable
from rase.kernels.words import Keystream, Random, Words

__all__ = ["exact_geometric"]


def exact_geometric(rate: float, count: int, source: Random | Keystream) -> NDArray[np.int64]:
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
        words = source.words(count)
        if backend.native is not None:
            kept = values.copy()
            arguments = table.arrays, words, digit.weight, values, digit.size is None
            if backend.native.add_settled(*arguments):
                continue
            values = kept
        values += _settled(digit, table, words, source) * np.uint64(digit.weight)
    return values.view(np.int64)


def _settled(digit: Digit, table: IntegerTable, words: Words, source: Random | Keystream) -> Words:
    """Draw a digit by NumPy, and settle with further words what the first leave open."""
    drawn = table.numpy_indices(words)
    # A boundary counts as passed where the word equals it; those words are looked at again.
    is_open = (drawn > 0) & (table.bounds[drawn] == words)
    if digit.size is None:
        is_open |= drawn == table.sums.size
    for place in np.flatnonzero(is_open):
        drawn[place] = digit.drawn(int(words[place]), _OneByOne(source))
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
