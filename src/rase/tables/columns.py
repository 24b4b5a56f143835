"""Arrow columns of any table to chunks: checked NumPy columns, and the names of their devices.

Every kind of table, file or frame, becomes chunks by these rules. Conversion is one vectorised step
per batch. Only where it fails is the wrong row looked for, by bisection, so that the refusal can
name it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rase.errors import DataError
from rase.tables.readings import Devices, KeyedRows, Quanta

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rase.arrays import Flags, Floats, Places
    from rase.kernels.keyed import RunKey
    from rase.tables.plan import RunPlan

__all__ = ["Chunk", "ColumnReader", "TimeColumn", "values_of"]

# Whole numbers up to here are seconds since 1970 (year 5138), larger ones milliseconds.
_LARGEST_SECOND = 100_000_000_000
_LARGEST_MILLISECOND = 1000 * _LARGEST_SECOND
# What ends a written time that has a zone: Z, or an offset behind the minutes or seconds.
_ZONE = r":\d\d(?:\.\d+)?\s*(?:[Zz]|[+-]\d\d(?::?\d\d)?)\s*$"
# How times may be written as text, tried in this sequence.
_WRITTEN = (
    pa.int64(),
    pa.timestamp("us"),
    pa.timestamp("us", tz="UTC"),
    pa.timestamp("ns"),
    pa.timestamp("ns", tz="UTC"),
)
_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


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
        names = self.names.cast(pa.large_string())
        _, offsets, data = names.buffers()
        places = np.frombuffer(offsets, dtype=np.int64)[names.offset :][: len(names) + 1]
        tags, public = key.tags(np.frombuffer(data or b"", dtype=np.uint8), places)
        budgets = None if plan.budgets is None else plan.budgets.of(self.names.to_pylist())
        is_read, is_null = self.is_valid, ~self.is_valid
        if rounds is not None or released is not None:
            is_asked = self._is_asked(plan.interval_ms or 1, rounds, released)
            is_read, is_null = is_read & is_asked, is_null & is_asked
        kept = slice(None) if is_read.all() else np.flatnonzero(is_read)
        return KeyedRows(
            self.time_ms[kept],
            self.device[kept],
            Quanta(plan.randomizer.domain).counts(self.value[kept]),
            Devices(tags, public, budgets),
            self.time_ms[is_null],
        )

    def _is_asked(
        self, interval_ms: int, rounds: tuple[int, int] | None, released: Places | None
    ) -> Flags:
        """Return which rows lie in some rounds and in none that was released."""
        is_asked = np.ones(len(self.time_ms), dtype=np.bool_)
        if rounds is not None:
            first, behind = (bound * interval_ms for bound in rounds)
            # Most row groups lie in the rounds of one part.
            if len(is_asked) and (first > self.time_ms.min() or self.time_ms.max() >= behind):
                is_asked &= (self.time_ms >= first) & (self.time_ms < behind)
        if released is not None:
            is_asked &= ~np.isin(self.time_ms // interval_ms, released)
        return is_asked


@dataclass(slots=True, eq=False)
class ColumnReader:
    """Turn Arrow columns into chunks, all batches of a table by one way of writing times.

    Args:
        times: How the column of times is read.
        device: The name of the column of devices.
        value: The name of the column of readings.
    """

    times: TimeColumn
    device: str
    value: str

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
        codes, names = _devices(device, self.device, first_row)
        values, is_valid = values_of(value, name=self.value, first_row=first_row)
        times = self.times.milliseconds(time, first_row=first_row)
        return Chunk(times, codes, values, is_valid, names)


@dataclass(slots=True, eq=False)
class TimeColumn:
    """Turn a column of times into milliseconds since 1970 (UTC) and keep note of how it was read.

    Args:
        name: The column's name, for messages.
        notes: How its numbers were understood.
        has_zone: Whether its texts have a zone; None before the first.
    """

    name: str
    notes: list[str] = field(default_factory=list)
    has_zone: bool | None = None
    _written: Any = None

    def milliseconds(self, column: Any, *, first_row: int) -> NDArray[np.int64]:
        """Return the times of a batch.

        Args:
            column: An Arrow array of timestamps, dates, texts or whole numbers.
            first_row: The number of the batch's first row, for messages.

        Returns:
            Milliseconds since 1970, rounded down.

        Raises:
            DataError: If the column is of another type, a row has no time that can be read, or
                some times are written with a zone and some without one.
        """
        column = plain_column(column)
        refuse_null(column, self.name, first_row, "give every row its time")
        kind = column.type
        if pa.types.is_string(kind):
            column = self._parse(column, first_row)
            kind = column.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            return self._from_number(column, first_row)
        if pa.types.is_date(kind):
            column = column.cast(pa.timestamp("s"))
            kind = column.type
        if not pa.types.is_timestamp(kind):
            raise DataError(
                f"column {self.name!r} must hold timestamps, dates, ISO texts or whole seconds "
                f"since 1970, got {kind}."
            )
        ticks: NDArray[np.int64] = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
        per_second = _PER_SECOND[kind.unit]
        if per_second == 1000:
            return ticks
        return ticks * 1000 if per_second == 1 else ticks // (per_second // 1000)

    def _parse(self, column: Any, first_row: int) -> Any:
        """Read texts as whole numbers or as ISO times; one way for a whole batch."""
        # Most batches are written like the one before.
        targets = [kind for kind in _WRITTEN if kind != self._written]
        for target in [*([] if self._written is None else [self._written]), *targets]:
            try:
                found = column.cast(target)
            except pa.ArrowInvalid:
                continue
            # Arrow reads texts with a zone, or texts without one, never both.
            has_zone = getattr(target, "tz", None) is not None
            if len(column):
                if self.has_zone not in (None, has_zone):
                    self._refuse_mixture(column, first_row)
                self.has_zone = has_zone
            self._written = target
            return found
        self._refuse_mixture(column, first_row)
        reached = max(_first_failing(column, target) for target in _WRITTEN)
        raise DataError(
            f"column {self.name!r} holds no time in row {first_row + reached}, or one written "
            "unlike those before; write times as 2024-05-31T18:00:00Z or as seconds since 1970."
        )

    def _refuse_mixture(self, column: Any, first_row: int) -> None:
        """Hold all batches to one way of writing: a clock without a zone is another clock."""
        has_zone = pc.match_substring_regex(column, _ZONE).to_numpy(zero_copy_only=False)
        odd = np.flatnonzero(has_zone != (has_zone[0] if self.has_zone is None else self.has_zone))
        if len(odd):
            raise DataError(
                f"column {self.name!r} mixes times with and without a zone, first in row "
                f"{first_row + int(odd[0])}; write all of them in one way, such as "
                "2024-05-31T18:00:00Z."
            )

    def _from_number(self, column: Any, first_row: int) -> NDArray[np.int64]:
        target = pa.float64() if pa.types.is_floating(column.type) else pa.int64()
        numbers = column.cast(target, safe=False).to_numpy(zero_copy_only=False)
        size = np.abs(numbers)
        wrong = np.flatnonzero(~((size <= _LARGEST_MILLISECOND) & (size >= 0)))
        if len(wrong):
            what = "is too large" if np.isfinite(numbers[wrong[0]]) else "holds no time"
            raise DataError(
                f"column {self.name!r} {what} in row {first_row + int(wrong[0])}; write "
                "times as seconds or milliseconds since 1970."
            )
        is_second = size <= _LARGEST_SECOND
        unit = "seconds" if is_second.all() else "milliseconds"
        kind = "numbers" if numbers.dtype.kind == "f" else "whole numbers"
        note = f"column {self.name!r} holds {kind}, read as {unit} since 1970 (UTC)."
        if note not in self.notes:
            self.notes.append(note)
        milliseconds = np.where(is_second, numbers * 1000, numbers)
        if milliseconds.dtype.kind == "f":
            # A fraction such as .012 of a second is a little less as a float.
            milliseconds = np.floor(np.round(milliseconds, 3))
        return np.asarray(milliseconds, dtype=np.int64)


def values_of(
    column: Any, *, name: str, first_row: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the values of a batch, and which rows hold one.

    Args:
        column: An Arrow array of numbers, or of texts that are numbers.
        name: The column's name, for messages.
        first_row: The number of the batch's first row, for messages.

    Returns:
        The values, 0 where there is none, and True where there is one.

    Raises:
        DataError: If the column is of another type, or a value is not a finite number.
    """
    column = plain_column(column)
    kind = column.type
    is_text = pa.types.is_string(kind)
    if not (
        is_text
        or any(
            test(kind)
            for test in (
                pa.types.is_integer,
                pa.types.is_floating,
                pa.types.is_decimal,
                pa.types.is_boolean,
                pa.types.is_null,
            )
        )
    ):
        raise DataError(f"column {name!r} must hold numbers, got {kind}.")
    try:
        column = column.cast(pa.float64())
    except pa.ArrowInvalid as error:
        row = first_row + _first_failing(column, pa.float64())
        raise DataError(
            f"column {name!r} must hold numbers, and row {row} does not; "
            "leave missing readings empty."
        ) from error
    is_valid = column.is_valid().to_numpy(zero_copy_only=False)
    values = column.fill_null(0.0).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        raise DataError(
            f"column {name!r} must hold finite numbers, and row {first_row + int(wrong[0])} holds "
            "NaN or infinity; leave missing readings empty."
        )
    return values, is_valid


def plain_column(column: Any) -> Any:
    """Return a column without a dictionary, all kinds of text as one, without blanks around it.

    Raises:
        DataError: If text is not UTF-8.
    """
    try:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
            column = column.cast(pa.string())
        if pa.types.is_string(column.type):
            # Parquet hands on whatever bytes a damaged file holds.
            column.validate(full=True)
            column = pc.utf8_trim_whitespace(column)
            # A field of blanks is as empty as an empty one.
            column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
    except pa.ArrowInvalid as error:
        raise not_utf8() from error
    return column


def not_utf8() -> DataError:
    """Return the refusal of text whose bytes were damaged; it shows none of it."""
    return DataError("the table holds text that is not UTF-8; write or copy the file again.")


def refuse_null(column: Any, name: str, first_row: int, remedy: str) -> None:
    """Refuse a column with an empty row.

    Raises:
        DataError: Naming the first such row, and what to do.
    """
    if column.null_count:
        row = first_row + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise DataError(f"column {name!r} is empty in row {row}; {remedy}.")


def _first_failing(column: Any, target: Any) -> int:
    """Return the place of the first element that cannot be cast to the target type."""
    good, bad = 0, len(column)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            column[good:middle].cast(target)
        except pa.ArrowInvalid:
            bad = middle
        else:
            good = middle
    return good


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
