"""Reports of every bounded law, from readings and one word each.

A reading stands between two grid points. The law of its report has partial sums that are mixed of
those of the two points and truncated to whole numbers; each weight then lies between the weights of
the two points, so what is certified of the grid holds for every reading. One word falls into one of
these weights, which rounds the reading and draws its noise at once.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rase.kernels import backend
from rase.kernels.integers import high_product
from rase.kernels.parts import Parts
from rase.kernels.table import IntegerTable
from rase.kernels.words import Random, Words
from rase.stream import ValueRange

__all__ = [
    "ClampedKernel",
    "Kernel",
    "PartsKernel",
    "RowsKernel",
    "clamped_sums",
    "draw_reports",
    "grid_places",
    "mixed_rows",
    "numpy_clamped_sums",
    "numpy_reports",
]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
# First point, step and how many steps.
Grid = tuple[float, float, int]

# Reports drawn at once: the words of so many stay in the processor's cache until they are used. In
# NumPy fewer, whose intermediate arrays are small enough to be kept by the allocator.
_AT_ONCE = 1 << 15
_AT_ONCE_IN_NUMPY = 1 << 13
_GRID_TOLERANCE = 0.01
_GUIDE_BITS = 10
_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)


class Kernel(Protocol):
    """Draw the reports of one law, by compiled code or by NumPy, from the same words."""

    def compiled(
        self, native: backend.Compiled, grid: Grid, readings: Floats, words: Words, out: Floats
    ) -> bool:
        """Fill ``out`` with reports; tell whether all readings were finite."""
        ...

    def codes(self, index: Counts, share: Words, words: Words) -> Counts:
        """Return by NumPy alone the place of each report."""
        ...


def draw_reports(
    readings: Floats, kernel: Kernel, *, public: ValueRange, source: Random
) -> Floats | None:
    """Draw a report for each reading, one word each.

    Args:
        readings: Any numbers; those outside the range are clipped to it.
        kernel: The law.
        public: The range and its grid.
        source: Where the words come from.

    Returns:
        The reports as points of the grid; None if a reading is not finite.

    Validation: chi-square against the exact law in tests/kernels/test_reports.py.
    """
    flat = np.require(readings, dtype=np.float64, requirements=["C", "A"]).reshape(-1)
    reports: Floats = np.empty(flat.size)
    grid = (public.low, public.step, public.steps)
    stream = source.stream()
    at_once = _AT_ONCE_IN_NUMPY if backend.native is None else _AT_ONCE
    for start in range(0, flat.size, at_once):
        some, out = flat[start : start + at_once], reports[start : start + at_once]
        words = stream.words(some.size)
        if backend.native is None:
            is_done = numpy_reports(some, kernel, public=public, words=words, out=out)
        else:
            is_done = kernel.compiled(backend.native, grid, some, words, out)
        if not is_done:
            return None
    return reports.reshape(readings.shape)


def numpy_reports(
    readings: Floats, kernel: Kernel, *, public: ValueRange, words: Words, out: Floats
) -> bool:
    """Fill ``out`` with reports by NumPy alone; tell whether all readings were finite."""
    if not np.isfinite(readings).all():
        return False
    index, share = grid_places(readings, public)
    np.multiply(kernel.codes(index, share, words), public.step, out=out)
    out += public.low
    return True


def grid_places(readings: Floats, public: ValueRange) -> tuple[Counts, Words]:
    """Return the grid point at or below each reading, and the share of 2^64 towards the next."""
    exact = readings - public.low
    exact /= public.step
    np.clip(exact, 0, public.steps, out=exact)
    index = exact.astype(np.int64)
    exact -= index
    # Below 2^63, so that the conversion is that of signed numbers, which processors have.
    exact *= 2.0**63
    share: Words = exact.astype(np.int64).view(np.uint64)
    share <<= np.uint64(1)
    return index, share


class ClampedKernel:
    """Add noise from a table and clamp.

    Args:
        table: The weights of the noise ``-steps .. steps``.
        steps: How many steps the grid has.
    """

    __slots__ = ("_steps", "table")

    def __init__(self, table: IntegerTable, steps: int) -> None:
        """Keep the table."""
        self.table, self._steps = table, steps

    def compiled(
        self, native: backend.Compiled, grid: Grid, readings: Floats, words: Words, out: Floats
    ) -> bool:
        """Fill ``out`` with reports; tell whether all readings were finite."""
        return native.clamped_reports(self.table.arrays, grid, readings, words, out)

    def codes(self, index: Counts, share: Words, words: Words) -> Counts:
        """Return by NumPy alone the place of each report."""
        noise = self.table.numpy_indices(words)
        start = self.table.bounds.take(noise)
        noise += 1
        weight = self.table.bounds.take(noise)
        weight -= start
        # Neighbours have the same noise one step apart: the first words of a weight round up.
        index += words - start < high_product(share, weight)
        index += noise
        index -= self._steps + 1
        return np.clip(index, 0, self._steps, out=index)


class PartsKernel:
    """Draw a place of a window, far from it, or of a bit.

    Args:
        parts: The weights.
    """

    __slots__ = ("_parts",)

    def __init__(self, parts: Parts) -> None:
        """Keep the weights."""
        self._parts = parts

    def compiled(
        self, native: backend.Compiled, grid: Grid, readings: Floats, words: Words, out: Floats
    ) -> bool:
        """Fill ``out`` with reports; tell whether all readings were finite."""
        return native.window_or_bit_reports(self._parts.numbers, grid, readings, words, out)

    def codes(self, index: Counts, share: Words, words: Words) -> Counts:
        """Return by NumPy alone the place of each report."""
        parts = self._parts
        if not parts.near:
            return self._bits(index, share, words)
        codes = self._windows(index, share, words)
        if parts.slope:
            chosen = np.flatnonzero(words >= np.uint64(parts.window_total))
            rest = words[chosen] - np.uint64(parts.window_total)
            codes[chosen] = self._bits(index[chosen], share[chosen], rest)
        return codes

    def _bits(self, index: Counts, share: Words, words: Words) -> Counts:
        parts = self._parts
        high = high_product(share, np.uint64(parts.slope))
        high += index.astype(np.uint64) * np.uint64(parts.slope) + np.uint64(parts.flip)
        return np.where(words < high, parts.steps + parts.margin, -parts.margin)

    def _windows(self, index: Counts, share: Words, words: Words) -> Counts:
        parts = self._parts
        inside = np.uint64(parts.near * parts.width)
        place = (words // np.uint64(parts.near)).astype(np.int64)
        moved = high_product(share, np.uint64(parts.near - parts.far))
        place[(place == 0) & (words < moved)] = parts.width
        far = ((words - inside) // np.uint64(parts.far)).astype(np.int64)
        far += np.where(far < index, 0, parts.width)
        codes: Counts = np.where(words < inside, index + place, far)
        codes -= parts.half
        return codes


class RowsKernel:
    """Draw from a channel of few inputs, between which the rows are mixed.

    Args:
        sums: For each input the partial sums of its weights, but for the last, which is 2^64.
        places: The place each weight stands for.
        steps: How many steps the grid has.
    """

    __slots__ = ("_guide", "_places", "_steps", "_sums")

    def __init__(self, sums: Words, places: Counts, steps: int) -> None:
        """Build a guide for each row: the first weight that words of equal leading bits reach."""
        self._sums, self._places, self._steps = np.ascontiguousarray(sums), places, steps
        starts = np.arange(1 << _GUIDE_BITS, dtype=np.uint64) << np.uint64(64 - _GUIDE_BITS)
        found = [np.searchsorted(row, starts, side="right") for row in self._sums]
        self._guide = np.array(found, dtype=np.uint32)

    def compiled(
        self, native: backend.Compiled, grid: Grid, readings: Floats, words: Words, out: Floats
    ) -> bool:
        """Fill ``out`` with reports; tell whether all readings were finite."""
        rows = (self._sums, self._guide, self._places)
        return native.row_reports(rows, grid, readings, words, out)

    def codes(self, index: Counts, share: Words, words: Words) -> Counts:
        """Return by NumPy alone the place of each report."""
        below, mixed = mixed_rows(index, share, gaps=len(self._sums) - 1, steps=self._steps)
        above = np.minimum(below + 1, len(self._sums) - 1)
        first, second = (self._fallen(row, words) for row in (below, above))
        drawn, end = np.minimum(first, second), np.maximum(first, second)
        # Mixed sums lie between those of the two rows, and so does what a word falls into.
        waiting = np.flatnonzero(drawn < end)
        while waiting.size:
            at = drawn[waiting]
            over, under = self._sums[above[waiting], at], self._sums[below[waiting], at]
            gap = np.where(over < under, under - over, over - under)
            moved = high_product(mixed[waiting], gap)
            sums = np.where(over < under, under - moved, under + moved)
            waiting = waiting[sums <= words[waiting]]
            drawn[waiting] += 1
            waiting = waiting[drawn[waiting] < end[waiting]]
        return np.asarray(self._places[drawn])

    def _fallen(self, row: Counts, words: Words) -> Counts:
        """Return the weight of its own row that each word falls into."""
        cells = (words >> np.uint64(64 - _GUIDE_BITS)).astype(np.int64)
        drawn = self._guide[row, cells].astype(np.int64)
        last = self._sums.shape[1]
        waiting = np.flatnonzero(drawn < last)
        while waiting.size:
            passed = self._sums[row[waiting], drawn[waiting]] <= words[waiting]
            waiting = waiting[passed]
            drawn[waiting] += 1
            waiting = waiting[drawn[waiting] < last]
        return drawn


def mixed_rows(index: Counts, share: Words, *, gaps: int, steps: int) -> tuple[Counts, Words]:
    """Return the input below each place of a grid, and the share of 2^64 towards the next.

    Args:
        index: Grid points.
        share: How far beyond them, of 2^64.
        gaps: How many equal parts the inputs cut the grid into.
        steps: How many steps it has.
    """
    wide = np.uint64(gaps)
    whole = index.astype(np.uint64) * wide + high_product(share, wide)
    low = share * wide
    below, rest = np.divmod(whole, np.uint64(steps))
    # (rest * 2^64 + low) / steps, in two halves.
    upper, rest = np.divmod(rest << _HALF | low >> _HALF, np.uint64(steps))
    lower = (rest << _HALF | low & _LOW_HALF) // np.uint64(steps)
    return below.astype(np.int64), upper << _HALF | lower


def clamped_sums(reports: Floats, public: ValueRange) -> tuple[Counts, Counts, Counts] | None:
    """Return for each row of reports the sum of their places and how many stand at either end.

    Args:
        reports: One round a row, at least one.
        public: The range and its grid.

    Returns:
        Sums of places from 0 to ``steps``, counts of place 0, counts of place ``steps``; None if a
        report is not a point of the grid.
    """
    table = np.require(reports, dtype=np.float64, requirements=["C", "A"])
    if backend.native is None:
        return numpy_clamped_sums(table, public)
    grid = (public.low, public.step, public.steps)
    sums, lows, highs = np.empty((3, len(table)), dtype=np.int64)
    is_done = backend.native.clamped_sums(grid, table, sums, lows, highs)
    return (sums, lows, highs) if is_done else None


def numpy_clamped_sums(reports: Floats, public: ValueRange) -> tuple[Counts, Counts, Counts] | None:
    """Return what `clamped_sums` does, by NumPy alone."""
    exact = (reports - public.low) / public.step
    # NaN passes no comparison, and infinity is clipped to an end it is far from.
    codes = np.rint(np.clip(exact, 0, public.steps))
    if not (np.abs(exact - codes) < _GRID_TOLERANCE).all():
        return None
    places = codes.astype(np.int64)
    lows, highs = (places == 0).sum(axis=1), (places == public.steps).sum(axis=1)
    return places.sum(axis=1), lows, highs
