"""Chunks: some rows of a table as checked columns, with the names of their devices.

Every kind of table, file or frame, becomes chunks by the same rules (`rase.tables.columns`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rase.errors import DataError
from rase.kernels.keyed import RunKey
from rase.tables.columns import TimeColumn, not_utf8, plain_column, refuse_null, values_of
from rase.tables.keyed import Devices, KeyedRows
from rase.tables.readings import Quanta

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rase.arrays import Flags, Floats, Places
    from rase.tables.plan import RunPlan

__all__ = ["Chunk", "ColumnReader"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Chunk:
    """Rows as columns of one length; without ``repr``, for they are readings.

    Args:
        time_ms: Milliseconds since 1970 (UTC).
        device: The code of each row's device in ``names``.
        value: The reading, finite; 0 where there is none.
        is_valid: False where the row holds no reading.
        names: The devices by code: an Arrow array of texts.
    """

    time_ms: Places
    device: Places
    value: Floats
    is_valid: Flags
    names: Any

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self.time_ms)

    def keyed(
        self,
        key: RunKey,
        plan: RunPlan,
        *,
        rounds: tuple[int, int] | None = None,
        released: Places | None = None,
    ) -> KeyedRows:
        """Return the rows that hold a reading, their devices known by tags.

        Args:
            key: The key of the run.
            plan: Says the range, the rounds and the budgets of devices.
            rounds: The first round and the first behind the last; None for all rows.
            released: Rounds that were released before, whose rows are left out.
        """
        data, offsets = text_columns(self.names)
        tags, public = key.tags(data, offsets)
        budgets = None if plan.budgets is None else plan.budgets.of(self.names.to_pylist())
        is_inside = self._inside(rounds, released, plan.interval_ms)
        is_read = self.is_valid if is_inside is None else is_inside & self.is_valid
        is_null = ~self.is_valid if is_inside is None else is_inside & ~self.is_valid
        kept = slice(None) if is_read.all() else np.flatnonzero(is_read)
        return KeyedRows(
            self.time_ms[kept],
            self.device[kept],
            Quanta(plan.randomizer.domain).counts(self.value[kept]),
            Devices(tags, public, budgets),
            self.time_ms[is_null],
        )

    def _inside(
        self, rounds: tuple[int, int] | None, released: Places | None, interval_ms: int | None
    ) -> Flags | None:
        """Return which rows are asked for; None if all are."""
        is_inside = None
        if rounds is not None and len(self):
            first, behind = (bound * (interval_ms or 1) for bound in rounds)
            if first > self.time_ms.min() or self.time_ms.max() >= behind:
                is_inside = (self.time_ms >= first) & (self.time_ms < behind)
        if released is not None and len(released):
            is_new = ~np.isin(self.time_ms // (interval_ms or 1), released)
            is_inside = is_new if is_inside is None else is_inside & is_new
        return is_inside


class ColumnReader:
    """Turn Arrow columns into chunks, all batches of a table by one way of writing times.

    Args:
        time: The name of the column of times.
        device: The name of the column of devices.
        value: The name of the column of readings.
    """

    def __init__(self, time: str = "time", device: str = "device", value: str = "value") -> None:
        self.times = TimeColumn(time)
        self._device, self._value = device, value

    def chunk(self, time: Any, device: Any, value: Any, *, first_row: int) -> Chunk:
        """Check three Arrow arrays and return them as a chunk.

        Args:
            time: Timestamps, dates, texts or whole numbers.
            device: Texts or whole numbers.
            value: Numbers, or texts that are numbers.
            first_row: The number of the first row, for messages.

        Raises:
            DataError: If a row cannot be used. The message names the row and shows no reading.
        """
        codes, names = _devices(device, self._device, first_row)
        values, is_valid = values_of(value, name=self._value, first_row=first_row)
        return Chunk(
            self.times.milliseconds(time, first_row=first_row), codes, values, is_valid, names
        )


def text_columns(names: Any) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], Places]:
    """Return Arrow texts as their bytes in one row and the places between them."""
    _, offsets, data = names.cast(pa.large_string()).buffers()
    places = np.frombuffer(offsets, dtype=np.int64)[names.offset : names.offset + len(names) + 1]
    return np.frombuffer(data or b"", dtype=np.uint8), places


def names_of(texts: Iterable[str]) -> Any:
    """Return names as an Arrow array."""
    return pa.array(list(texts), pa.string())


def _devices(column: Any, name: str, first_row: int) -> tuple[Places, Any]:
    """Return the code of each row's device, and the devices by code."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_text = (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )
    if not (is_text or pa.types.is_integer(kind)):
        raise DataError(f"column {name!r} must hold texts or whole numbers, got {kind}.")
    if pa.types.is_integer(kind) and not pa.types.is_dictionary(column.type):
        refuse_null(column, name, first_row, "give every row its device")
        near = _near_numbers(column)
        if near is not None:
            return near
        column = column.cast(pa.string())
    if not pa.types.is_dictionary(column.type):
        column = plain_column(column).dictionary_encode()
    names = column.dictionary.cast(pa.string())
    try:
        # Parquet hands on whatever bytes a damaged file holds.
        names.validate(full=True)
    except pa.ArrowInvalid as error:
        raise not_utf8() from error
    trimmed = plain_column(names)
    if column.null_count or not trimmed.equals(column.dictionary):
        # Without blanks two names may be one, and a name of blanks is none.
        column = pa.DictionaryArray.from_arrays(column.indices, trimmed)
        column = column.dictionary_decode().dictionary_encode()
    refuse_null(column, name, first_row, "give every row its device")
    codes: Places = column.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, column.dictionary


def _near_numbers(column: Any) -> tuple[Places, Any] | None:
    """Return numbers near each other as codes, but for where they begin; None if they are far."""
    if pa.types.is_uint64(column.type):
        return None
    numbers: Places = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    first, last = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, -1)
    if last - first >= 4 * len(numbers):
        return None
    names = pa.array(np.arange(first, last + 1, dtype=np.int64)).cast(pa.string())
    return numbers - first, names
