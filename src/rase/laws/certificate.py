"""Certificates: the exact epsilon of a law, computed from its whole numbers.

Pure Python without NumPy, so that a device can show its own.
"""

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from rase.kernels.fixed import log_ratio

__all__ = ["Certificate", "Drawn"]


class Drawn(NamedTuple):
    """The weights that a law draws with, and where its privacy loss is largest, in grid units.

    The attributes are those of `Certificate`, in which ``epsilon`` is the ``drawn_epsilon``, and
    indices and place become readings and report.
    """

    law: str
    epsilon: float
    total: int | None
    indices: tuple[float, float]
    place: int
    ratio: tuple[int, int] | None
    exponent: tuple[int, int] | None = None

    @property
    def effective_epsilon(self) -> float:
        """The logarithm of the ratio, or the exponent, as a float that is never below it."""
        if self.ratio is not None:
            return log_ratio(*self.ratio)
        exact = Fraction(*(self.exponent or (0, 1)))
        nearest = float(exact)
        return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The exact epsilon of the integer weights, and what it was computed from.

    Args:
        law: Which law reports are drawn from.
        epsilon: The budget asked for.
        drawn_epsilon: The budget the weights were made for: at most the one asked for.
        effective_epsilon: The largest log-ratio of two readings' weights for one report, rounded
            up; never above ``epsilon``.
        steps: How many steps the public grid has.
        total: What the weights of one reading add up to; None where reports have no end.
        readings: The two grid points that differ most.
        report: The report that tells them apart best.
        ratio: Its weights for the two, as whole numbers; None where a formula decides.
        exponent: Where a formula decides: the log-ratio as a fraction of two whole numbers.
        rounding: What becomes of readings between grid points.

    Raises:
        ValueError: If the effective epsilon exceeds the one asked for, or is not that of the ratio.
    """

    law: str
    epsilon: float
    drawn_epsilon: float
    effective_epsilon: float
    steps: int
    total: int | None
    readings: tuple[float, float]
    report: float
    ratio: tuple[int, int] | None
    exponent: tuple[int, int] | None = None
    rounding: str = (
        "Readings between grid points are rounded to one of their two neighbours at random, "
        "without bias; a mixture of the neighbours' laws, which has no larger ratio."
    )

    def __post_init__(self) -> None:
        """Check that the epsilon follows from the ratio and does not exceed the one asked for."""
        if self.effective_epsilon > self.epsilon:
            raise ValueError(
                f"effective_epsilon must be at most epsilon {self.epsilon}, "
                f"got {self.effective_epsilon}."
            )
        if self.ratio is not None and log_ratio(*self.ratio) != self.effective_epsilon:
            raise ValueError("effective_epsilon must be the logarithm of ratio, rounded up.")

    def __str__(self) -> str:
        """Return the certificate as one sentence."""
        stated, wished = f"{self.effective_epsilon:.12g}", f"{self.epsilon:.12g}"
        less = "" if stated == wished else f", less than the {wished} asked for"
        source = "formula" if self.ratio is None else "table"
        return f"epsilon {stated} per report{less}, verified exactly from the noise {source}"

    def to_json(self) -> dict[str, Any]:
        """Return plain values; whole numbers of more than 53 bits as texts, which JSON keeps."""
        values = asdict(self) | {"sentence": str(self)}
        for name in ("ratio", "exponent"):
            if values[name] is not None:
                values[name] = [str(part) for part in values[name]]
        values["total"] = None if self.total is None else str(self.total)
        values["readings"] = list(self.readings)
        return values
