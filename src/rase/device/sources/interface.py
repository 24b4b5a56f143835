"""The interface of every source, and how a number or a state is found in what a meter says."""

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from rase.errors import RaseError

__all__ = ["Reading", "Source", "SourceFailed", "number_in", "reading_in"]

# A number, or the name of a state.
Reading = float | str


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

    def read(self) -> Sequence[Reading]:
        """Return the readings since the last call, without waiting for one; maybe none.

        Raises:
            SourceFailed: If the source does not work now; it is asked again later.
        """
        ...

    def close(self) -> None:
        """Let go of files and the like."""
        ...


def reading_in(
    kind: str, value: object, *, scale: float = 1.0, states: Mapping[str, str] | None = None
) -> Reading:
    """Return a reading: a number, or a state by the name that the owner's table gives it.

    Args:
        kind: Which source.
        value: What the meter says.
        scale: What a number is multiplied by.
        states: The names of states by what the meter says, where it says states; what is not in it
            stays as it is, without blank ends.

    Raises:
        SourceFailed: If the value is neither.

    Example:
        >>> reading_in("http", b" 12.5 ", scale=2), reading_in("mqtt", b"ON", states={"ON": "on"})
        (25.0, 'on')
    """
    if states is None:
        return scale * number_in(kind, value)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, bool):
        value = "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise SourceFailed(kind, "must give a state as a text; it does not.")
    text = str(value).strip()
    return states.get(text, text)


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
