"""Rows of a table as checked columns, and where they come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from rase.errors import DataError

if TYPE_CHECKING:
    from rase.arrays import Flags, Floats, Places

__all__ = ["NamedSource", "RowSource", "Rows", "refuse_empty"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Rows:
    """A batch of rows as columns of one length; without ``repr``, for they are readings.

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


def refuse_empty(batches: Iterable[Rows], *, value: str, place: object) -> Iterator[Rows]:
    """Pass the rows of a table on, and refuse it at its end if there was no reading.

    Args:
        batches: The rows.
        value: The name of the column of readings.
        place: What to call the table.

    Raises:
        DataError: If no row holds a reading.
    """
    rows = readings = 0
    for batch in batches:
        rows += len(batch)
        readings += int(np.count_nonzero(batch.is_valid))
        yield batch
    check_some(rows, readings, value=value, place=place)


def check_some(rows: int, readings: int, *, value: str, place: object) -> None:
    """Refuse a table without a reading.

    Raises:
        DataError: If there are no rows, or no row holds a reading.
    """
    if not rows:
        raise DataError(f"{place} holds no rows; give a table with at least one reading.")
    if not readings:
        raise DataError(
            f"column {value!r} of {place} is empty in all {rows} rows; "
            "give a table with at least one reading."
        )
