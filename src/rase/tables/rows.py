"""Rows of a table as checked columns, and where they come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from rase.arrays import Flags, Floats, Places

__all__ = ["NamedSource", "RowSource", "Rows"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Rows:
    """A batch of rows as columns of one length; without ``repr``, because they are readings.

    Args:
        time_ms: Milliseconds since 1970 (UTC).
        device: The code of the row's device: a whole number from 0.
        value: The reading, finite; 0 where there is none.
        is_valid: False where the row holds no reading.
    """

    time_ms: Places
    device: Places
    value: Floats
    is_valid: Flags

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self.time_ms)


class RowSource(Protocol):
    """Whatever yields batches of rows: a synthetic fleet, a prepared data set."""

    def batches(self) -> Iterator[Rows]:
        """Yield the rows from the start; a device has the same code in all of them."""


@runtime_checkable
class NamedSource(RowSource, Protocol):
    """A source that knows the names behind its codes; codes of others stand for themselves."""

    @property
    def device_codes(self) -> Mapping[str, int]:
        """The code of every device seen so far, in the order of the codes."""
