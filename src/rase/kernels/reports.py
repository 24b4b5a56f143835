"""Reports of clamped geometric noise, from readings and words in one sweep.

Report i uses words 2i (to round its reading to the grid) and 2i + 1 (for the noise): as many as a
block of the keystream holds, and in the sequence in which a device takes its own.
"""

import numpy as np
from numpy.typing import NDArray

from rase.kernels import backend
from rase.kernels.integers import rounded_up
from rase.kernels.table import IntegerTable
from rase.kernels.words import Random, Words
from rase.stream import ValueRange

__all__ = ["clamped_reports", "clamped_sums", "numpy_clamped_reports", "numpy_clamped_sums"]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

# Reports drawn at once: the words of so many stay in the processor's cache until they are used.
_AT_ONCE = 1 << 13
_GRID_TOLERANCE = 0.01


def clamped_reports(
    readings: Floats, table: IntegerTable, *, public: ValueRange, source: Random
) -> Floats | None:
    """Draw a report for each reading: round it to the grid at random, add noise, clamp.

    Args:
        readings: Any numbers; those outside the range are clipped to it.
        table: The weights of the noise ``-steps .. steps``.
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
    for start in range(0, flat.size, _AT_ONCE):
        some, out = flat[start : start + _AT_ONCE], reports[start : start + _AT_ONCE]
        words = stream.words(2 * some.size)
        if backend.native is None:
            is_done = numpy_clamped_reports(some, table, public=public, words=words, out=out)
        else:
            is_done = backend.native.clamped_reports(table.arrays, grid, some, words, out)
        if not is_done:
            return None
    return reports.reshape(readings.shape)


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


def numpy_clamped_reports(
    readings: Floats, table: IntegerTable, *, public: ValueRange, words: Words, out: Floats
) -> bool:
    """Fill ``out`` with reports by NumPy alone; tell whether all readings were finite."""
    if not np.isfinite(readings).all():
        return False
    exact = readings - public.low
    exact /= public.step
    np.clip(exact, 0, public.steps, out=exact)
    index = exact.astype(np.int64)
    exact -= index
    index += rounded_up(exact, words[0::2])
    index += table.numpy_indices(words[1::2])
    index -= public.steps
    np.clip(index, 0, public.steps, out=index)
    np.multiply(index, public.step, out=out)
    out += public.low
    return True


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
