"""What a law is: whole numbers that define how a place is drawn and decoded.

One object serves the device (pure Python), the servers (NumPy) and the compiled kernels. From the
same random word all three draw the same place. A reading stands between two grid points. The law of
its report has partial sums that are mixed from those of the two points and truncated to whole
numbers, so each weight lies between the weights of the two points, and what is certified for the
grid holds for every reading.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from rase.lazy import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rase.arrays import Flags, Floats, Indices, Places, Words
    from rase.domain import Grid
    from rase.kernels.backend import Compiled
    from rase.kernels.entropy import Entropy
    from rase.kernels.words import Random
    from rase.laws.certificate import Drawn

__all__ = ["BoundedLaw", "Law", "RangeLaw", "grid_spots"]

# Reports drawn at once: so many words stay in the processor's cache until they are used. NumPy gets
# fewer, because its intermediate arrays must fit as well.
_AT_ONCE = 1 << 15
_AT_ONCE_IN_NUMPY = 1 << 13


class Law(ABC):
    """A channel from the points 0 .. ``steps`` of a domain to places, for one epsilon.

    A place is a whole number; some laws use places beyond both ends of the domain.
    """

    name: str
    steps: int

    @property
    @abstractmethod
    def largest_ratio(self) -> Drawn:
        """The weights that differ most between two readings, for the certificate."""

    @abstractmethod
    def weights(self, index: int) -> Mapping[int, int]:
        """Return the whole number with which each place is drawn for a point of the domain."""

    def as_fields(self) -> dict[str, Any]:
        """Return the whole numbers of the law as plain values, for devices in other languages.

        docs/reference/specification.md says how each kind draws a place from a word. Numbers
        of up to 64 bits are texts, because not every reader of JSON keeps them.

        Raises:
            ValueError: If the law has no table, as that of unclamped noise.
        """
        raise ValueError(f"the law must have a table to be listed, got {self.name}.")

    @abstractmethod
    def draw(self, index: int, share: int, entropy: Entropy) -> int:
        """Draw one place without NumPy.

        Args:
            index: The point at or below the reading.
            share: How far the reading lies towards the next point, in units of 2^-64.
            entropy: Where the random words come from.
        """

    @abstractmethod
    def draw_many(self, readings: Floats, grid: Grid, *, source: Random) -> Places | None:
        """Draw a place for each reading; return None if a reading is not finite."""

    @abstractmethod
    def is_place(self, place: Places) -> Flags:
        """Return which places this law can draw."""


class RangeLaw(Law):
    """A law over a range of numbers. All moments are in grid units, the index a whole number."""

    @property
    def extreme_places(self) -> tuple[int, ...]:
        """Places that include those with the smallest and the largest decoded value."""
        return tuple(self.weights(0))

    @abstractmethod
    def decode(self, place: Places) -> Floats:
        """Decode each place to a number whose expectation is the index."""

    @abstractmethod
    def decode_square(self, place: Places) -> Floats:
        """Decode each place to a number whose expectation is the squared index.

        Raises:
            NotIdentifiable: If the places carry no information about the square.
        """

    @abstractmethod
    def variance(self, index: Indices) -> Floats:
        """Return the variance of `decode` at each index."""

    @abstractmethod
    def cumulative(self, index: Indices, place: Floats) -> Floats:
        """Return ``Pr[drawn <= place]``; both arguments broadcast."""


class BoundedLaw(Law):
    """A law with finitely many places, which draws a report from one word."""

    def draw_many(self, readings: Floats, grid: Grid, *, source: Random) -> Places | None:
        """Draw a place for each reading, one word each; None if a reading is not finite.

        Validation: chi-square against the exact law in tests/laws/test_drawing.py.
        """
        from rase.kernels import backend

        flat = np.require(readings, dtype=np.float64, requirements=["C", "A"]).reshape(-1)
        places = np.empty(flat.size, dtype=np.int64)
        stream = source.stream()
        at_once = _AT_ONCE_IN_NUMPY if backend.native is None else _AT_ONCE
        for start in range(0, flat.size, at_once):
            some, out = flat[start : start + at_once], places[start : start + at_once]
            words = stream.words(some.size)
            if backend.native is not None:
                is_finite = self._fill_compiled(backend.native, grid, some, words, out)
            else:
                is_finite = self.fill_numpy(grid, some, words, out)
            if not is_finite:
                return None
        return places.reshape(readings.shape)

    def fill_numpy(self, grid: Grid, readings: Floats, words: Words, out: Places) -> bool:
        """Do with NumPy what the compiled kernel does; return whether all readings are finite."""
        if not np.isfinite(readings).all():
            return False
        out[:] = self._places_from(*grid_spots(readings, grid), words)
        return True

    @abstractmethod
    def _fill_compiled(
        self, native: Compiled, grid: Grid, readings: Floats, words: Words, out: Places
    ) -> bool:
        """Fill ``out`` with places; return whether all readings are finite."""

    @abstractmethod
    def _places_from(self, index: Places, share: Words, words: Words) -> Places:
        """Return the place that each word stands for, using NumPy alone."""


def grid_spots(readings: Floats, grid: Grid) -> tuple[Places, Words]:
    """Return the grid point at or below each reading, and the share of 2^64 towards the next."""
    low, step, steps = grid
    exact = readings - low
    exact /= step
    np.clip(exact, 0, steps, out=exact)
    index = exact.astype(np.int64)
    exact -= index
    # Below 2^63, so that the conversion is that of signed numbers, which processors have.
    exact *= 2.0**63
    share: Words = exact.astype(np.int64).view(np.uint64)
    share <<= np.uint64(1)
    return index, share
