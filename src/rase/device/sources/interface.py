"""The interface of every source, and how a number is found in what a meter says."""

import math
from typing import Protocol

from rase.errors import RaseError

__all__ = ["Source", "SourceFailed", "number_in"]


class SourceFailed(RaseError):
    """A source gave no reading; the message never quotes what it gave instead.

    Args:
        kind: Which source.
        detail: One sentence.
    """

    exit_code = 2

    def __init__(self, kind: str, detail: str) -> None:
        self.kind = kind
        super().__init__(f"source {kind}: {detail}")


class Source(Protocol):
    """Give readings; times are of no interest, because rounds go by the agent's own clock."""

    def read(self) -> list[float]:
        """Return the readings since the last call, without waiting for one; maybe none.

        Raises:
            SourceFailed: If the source does not work now; it is asked again later.
        """
        ...

    def close(self) -> None:
        """Let go of files and the like."""
        ...


def number_in(kind: str, value: object) -> float:
    """Return a reading as a number.

    Raises:
        SourceFailed: If the value is not a number.
    """
    if isinstance(value, str | bytes | int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
        if math.isfinite(number):
            return number
    raise SourceFailed(kind, "must give a finite number; it does not.") from None
