"""Geometric numbers without end, many at once: the NumPy side of rase.kernels.digits."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rase.kernels.digits import Digit, exact_digits
from rase.kernels.integers import draw_from
from rase.kernels.words import Random, Words

__all__ = ["exact_geometric"]


def exact_geometric(rate: float, count: int, source: Random) -> NDArray[np.int64]:
    """Draw ``count`` values G with ``Pr[G = g]`` proportional to ``exp(-rate * g)``, exactly.

    Args:
        rate: Positive; at least 1e-16.
        count: How many values.
        source: Where the words come from.

    Validation: boundaries decided by crafted words, and chi-square, in
    tests/kernels/test_unbounded.py.
    """
    values = np.zeros(count, dtype=np.int64)
    for digit, table in _tables(rate):
        words = source.words(count)
        drawn = draw_from(table, words)
        # A boundary counts as passed where the word equals it; those words are looked at again.
        doubtful = (drawn > 0) & (table[np.maximum(drawn - 1, 0)] == words)
        if digit.size is None:
            doubtful |= drawn == table.size
        for place in np.flatnonzero(doubtful):
            drawn[place] = digit.drawn(int(words[place]), _OneByOne(source))
        values += drawn * digit.weight
    return values


class _OneByOne:
    """Give the words of a source one at a time."""

    def __init__(self, source: Random) -> None:
        self._source = source

    def word(self) -> int:
        return int(self._source.words(1)[0])


@lru_cache(maxsize=64)
def _tables(rate: float) -> tuple[tuple[Digit, Words], ...]:
    return tuple((digit, np.array(digit.sums, dtype=np.uint64)) for digit in exact_digits(rate))
