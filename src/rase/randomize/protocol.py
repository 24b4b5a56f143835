"""The face of every randomizer, and of the law it draws a report from."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rase.kernels.words import Random
from rase.privacy import LocalDP
from rase.randomize.certificate import Drawn
from rase.stream import ValueRange

__all__ = ["Codes", "Flags", "Floats", "Indices", "Law", "Randomizer", "SweepingLaw"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Indices = NDArray[np.int64] | NDArray[np.float64]
Flags = NDArray[np.bool_]


class Randomizer(Protocol):
    """Turn readings into reports of which each is ε-locally differentially private.

    `rase.testing.check_randomizer` holds what every implementation must do.
    """

    def __hash__(self) -> int:
        """Identify the mechanism: what follows from it alone is computed once."""
        ...

    @property
    def value_range(self) -> ValueRange:
        """The public range and its grid."""
        ...

    @property
    def epsilon(self) -> float | tuple[float, ...]:
        """The budget of one report; a tuple holds one budget for each contributor."""
        ...

    @property
    def scale(self) -> float | tuple[float, ...]:
        """The noise scale λ = Δ(x) / ε, in the form of ``epsilon``."""
        ...

    @property
    def guarantee(self) -> LocalDP:
        """What one report promises to its device."""
        ...

    def randomize(self, readings: ArrayLike, *, rng: Random | None = None) -> Floats:
        """Return one report for each reading."""
        ...

    def decode(self, reports: ArrayLike, *, epsilon: ArrayLike | None = None) -> Floats:
        """Return for each report a value whose expectation is the reading."""
        ...

    def decode_square(self, reports: ArrayLike, *, epsilon: ArrayLike | None = None) -> Floats:
        """Return for each report a value whose expectation is the squared reading."""
        ...

    def variance(self, reading: ArrayLike, *, epsilon: ArrayLike | None = None) -> Floats:
        """Return the exact variance of a decoded report of ``reading``."""
        ...

    def report_probabilities(self, readings: ArrayLike, edges: ArrayLike) -> Floats:
        """Return ``Pr[edges[b] <= report < edges[b + 1]]`` for each reading (row) and bin."""
        ...


class Law(Protocol):
    """A channel in grid units: from an index 0 .. steps to a report code, a whole number.

    A code is a place on the grid; some laws use places beyond its two ends. An index is a whole
    number, but for laws that mix more finely than between grid points.
    """

    def reports(self, readings: Floats, public: ValueRange, *, source: Random) -> Floats | None:
        """Return one report for each reading; None if a reading is not finite."""
        ...

    def decode(self, code: Codes) -> Floats:
        """Return the unbiased index of each code."""
        ...

    def decode_square(self, code: Codes) -> Floats:
        """Return an unbiased squared index for each code."""
        ...

    def variance(self, index: Indices) -> Floats:
        """Return the variance of ``decode`` at each index."""
        ...

    def cumulative(self, index: Indices, code: Floats) -> Floats:
        """Return ``Pr[drawn <= code]``; ``index`` and ``code`` broadcast."""
        ...

    def is_code(self, code: Codes) -> Flags:
        """Say which codes this law can draw."""
        ...

    def weights(self, index: int) -> Mapping[int, int]:
        """Return the whole number with which each code is drawn for an index."""
        ...

    @property
    def drawn(self) -> Drawn:
        """What the law is drawn with, and where it gives most away."""
        ...


@runtime_checkable
class SweepingLaw(Protocol):
    """A law that sums up many reports in one sweep, for speed."""

    def round_sums(self, reports: Floats, public: ValueRange) -> tuple[Floats, Floats] | None:
        """Return for each row Σ decoded and Σ (decoded^2 - decoded square), in grid units.

        None if a report is not one of this law.
        """
        ...
