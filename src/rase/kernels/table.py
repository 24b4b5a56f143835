"""Tables of integer weights that add up to 2^64, drawn from exactly with one word each.

A word falls into the weight whose partial sums enclose it, on a device by bisection, here by a
guide: the leading bits of the word lead to the first index it can fall into, from where it is a
step or none (Chen and Asau, "On generating random variates from an empirical distribution", AIIE
Transactions 1974). Alias tables would be as fast, but a device would draw other reports from the
same words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rase.lazy import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rase.arrays import Places, Words

__all__ = ["IntegerTable"]

# Cells for each weight: with fewer, more words need a second step; with more, caches overflow.
_CELLS_PER_WEIGHT = 2
_FEWEST_BITS, _MOST_BITS = 12, 18
_LAST_WORD = (1 << 64) - 1


class IntegerTable:
    """Partial sums of integer weights, and the guide into them.

    Args:
        sums: The first ``m`` partial sums of ``m + 1`` weights that add up to 2^64, ascending.

    Example:
        >>> table = IntegerTable([1 << 62, 1 << 63])
        >>> table.indices(np.array([0, 1 << 62, (1 << 64) - 1], dtype=np.uint64)).tolist()
        [0, 1, 2]
    """

    __slots__ = ("_is_crowded", "_shift", "arrays", "bounds", "guide", "sums")

    def __init__(self, sums: Sequence[int] | Words) -> None:
        """Build the guide once."""
        self.sums: Words = np.array(sums, dtype=np.uint64)
        bits = (_CELLS_PER_WEIGHT * self.sums.size).bit_length()
        bits = min(max(bits, _FEWEST_BITS), _MOST_BITS)
        self._shift = np.uint64(64 - bits)
        starts = np.arange(1 << bits, dtype=np.uint64) << self._shift
        found = np.searchsorted(self.sums, starts, side="right")
        self.guide: NDArray[np.uint32] = found.astype(np.uint32)
        ends = np.append(found[1:], self.sums.size)
        self._is_crowded: NDArray[np.bool_] = ends - found > 1
        # As the compiled kernels take them: bounds between which each weight's words fall, up to a
        # power of two of weights, the guide with crowded cells marked, how many boundaries.
        self.bounds: Words = np.full(
            (1 << self.sums.size.bit_length()) + 2, _LAST_WORD, dtype=np.uint64
        )
        self.bounds[0] = 0
        self.bounds[1 : self.sums.size + 1] = self.sums
        self.arrays = (
            self.bounds,
            self.guide | (self._is_crowded.astype(np.uint32) << np.uint32(31)),
            self.sums.size,
        )

    def indices(self, words: Words) -> Places:
        """Return for each word the index of the weight it falls into.

        Validation: bisection by every boundary's neighbours in tests/laws/test_twins.py.
        """
        from rase.kernels import backend

        if backend.native is None:
            return self.numpy_indices(words.reshape(-1)).reshape(words.shape)
        drawn = np.empty(words.shape, dtype=np.int64)
        backend.native.draw_indices(self.arrays, np.ascontiguousarray(words), drawn)
        return drawn

    def numpy_indices(self, words: Words) -> Places:
        """Do what `indices` does, with NumPy alone."""
        if not self.sums.size:
            return np.zeros(words.shape, dtype=np.int64)
        cells = words >> self._shift
        index = self.guide.take(cells).astype(np.int64)
        # A cell that holds one boundary needs one comparison; the last index has none to come.
        step = self.sums.take(index, mode="clip") <= words
        step &= index < self.sums.size
        index += step
        crowded = np.flatnonzero(self._is_crowded.take(cells))
        index[crowded] = np.searchsorted(self.sums, words[crowded], side="right")
        return index
