"""Columns of times to milliseconds, however times are written.

Conversion is one vectorised step per batch. Only where it fails is the wrong row looked for, by
bisection, so that the refusal can name it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rase.errors import DataError
from rase.tables.arrow import as_numpy
from rase.tables.dates import DateStyle
from rase.tables.plain import plain_column, refuse_null

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["TimeColumn"]

# Whole numbers up to here are seconds since 1970 (year 5138), larger ones finer units.
_LARGEST_SECOND = 100_000_000_000
_UNITS = ("seconds", "milliseconds", "microseconds", "nanoseconds")
# Written with a fraction, a smaller number is rather a count of days, or no time at all.
_SMALLEST_FRACTION = 100_000_000
_DAYS = (20_000, 80_000)
_COMPACT = r"^(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[01]\d[0-5]\d(?:[0-5]\d)?)?$"
# What ends a written time that has a zone: Z, or an offset behind the minutes or seconds.
_ZONE = r":\d\d(?:\.\d+)?\s*(?:[Zz]|[+-]\d\d(?::?\d\d)?)\s*$"
# How times may be written as text, tried in this sequence.
_WRITTEN = (
    pa.int64(),
    pa.timestamp("us"),
    pa.timestamp("us", tz="UTC"),
    pa.timestamp("ns"),
    pa.timestamp("ns", tz="UTC"),
    pa.float64(),
)
_NO_TIME = np.iinfo(np.int64).min
_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


@dataclass(slots=True, eq=False)
class TimeColumn:
    """Turn a column of times into milliseconds since 1970 (UTC) and keep note of how it was read.

    Args:
        name: The column's name, for messages.
        notes: How its numbers were understood.
        has_zone: Whether its texts have a zone; None before the first.
        timezone: The zone of times that name none; None for UTC.
        dates: How dates are written that are not ISO.
        doubts_days: Whether numbers may be days of a spreadsheet, of which it keeps the dates.
    """

    name: str
    notes: list[str] = field(default_factory=list)
    has_zone: bool | None = None
    timezone: str | None = None
    dates: DateStyle = field(default_factory=DateStyle)
    doubts_days: bool = False
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
        if self.timezone is not None and kind.tz is None:
            column = self._in_zone(column, first_row)
        ticks: NDArray[np.int64] = as_numpy(column.cast(pa.int64()))
        per_second = _PER_SECOND[kind.unit]
        if per_second == 1000:
            return ticks
        return ticks * 1000 if per_second == 1 else ticks // (per_second // 1000)

    def _in_zone(self, column: Any, first_row: int) -> Any:
        """Return times of a clock on a wall as moments; a clock that is set has two or none."""
        try:
            return pc.assume_timezone(column, self.timezone)
        except pa.ArrowInvalid:
            good, bad = 0, len(column)
        while bad - good > 1:
            middle = (good + bad) // 2
            try:
                pc.assume_timezone(column[good:middle], self.timezone)
            except pa.ArrowInvalid:
                bad = middle
            else:
                good = middle
        row, one = first_row + good, column[good : good + 1]
        try:
            pc.assume_timezone(one, self.timezone, nonexistent="earliest")
        except pa.ArrowInvalid:
            both = [
                pc.assume_timezone(one, self.timezone, ambiguous=which)[0].as_py().isoformat()
                for which in ("earliest", "latest")
            ]
            raise DataError(
                f"column {self.name!r} holds in row {row} a time that {self.timezone} had twice, "
                f"when clocks were set back: it may be {both[0]} or {both[1]}; write times with "
                "their offset, or say --times-in +01:00 if the clock was never set."
            ) from None
        raise DataError(
            f"column {self.name!r} holds in row {row} a time that {self.timezone} skipped when "
            "clocks were set forward; say --times-in UTC, or an offset such as +01:00, if the "
            "clock was never set."
        )

    def _read_dates(self, column: Any, first_row: int) -> Any | None:
        """Read texts as dates that are not ISO; None if one is none."""
        found = self.dates.read(column, name=self.name, first_row=first_row)
        if found is None:
            return None
        milliseconds, zones = found
        has_zone = bool(zones.any())
        if (has_zone and not zones.all()) or self.has_zone not in (None, has_zone):
            raise DataError(
                f"column {self.name!r} mixes times with and without a zone, as near row "
                f"{first_row + int(np.argmax(zones != zones[0]))}; write all of them in one way."
            )
        self.has_zone = has_zone
        note = f"dates in column {self.name!r} are read with the {self.dates.words}."
        is_year_first = pc.all(pc.match_substring_regex(column, r"^\d{4}")).as_py()
        if note not in self.notes and not is_year_first:
            self.notes.append(note)
        return pa.array(milliseconds, pa.timestamp("ms", tz="UTC" if has_zone else None))

    def _refuse_two_readings(self, column: Any, first_row: int) -> None:
        """Refuse numbers that are times in two ways: written together, or days of a sheet."""
        if len(column) and pc.all(pc.match_substring_regex(column, _COMPACT)).as_py():
            raise DataError(
                f"column {self.name!r} holds times with two readings, as in row {first_row}: "
                "20240531 may be 31 May 2024 or the second 20240531 after 1970; write times as "
                "2024-05-31T18:00:00Z."
            )
        if not pc.any(pc.match_substring(column, ".")).as_py():
            return
        numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        small = np.flatnonzero(np.abs(numbers) < _SMALLEST_FRACTION)
        if len(small):
            row = first_row + int(small[0])
            if _DAYS[0] < numbers[small[0]] < _DAYS[1]:
                raise self._days_or_seconds(row)
            raise DataError(
                f"column {self.name!r} holds no time in row {row}; write times as "
                "2024-05-31T18:00:00Z or as seconds since 1970."
            )

    def _days_or_seconds(self, row: int) -> DataError:
        return DataError(
            f"column {self.name!r} holds times with two readings, as in row {row}: it may be a "
            "spreadsheet's days since 1900 or seconds since 1970; write times as "
            "2024-05-31T18:00:00Z, or have the sheet show them as dates."
        )

    def _parse(self, column: Any, first_row: int) -> Any:
        """Read texts as numbers, ISO times or other dates; one way for a whole batch."""
        # Most batches are written like the one before.
        targets = [kind for kind in _WRITTEN if kind != self._written]
        for target in [*([] if self._written is None else [self._written]), *targets]:
            try:
                found = column.cast(target)
            except pa.ArrowInvalid:
                continue
            if not pa.types.is_timestamp(target):
                self._refuse_two_readings(column, first_row)
            # Arrow reads texts with a zone, or texts without one, never both.
            has_zone = getattr(target, "tz", None) is not None
            if len(column):
                if self.has_zone not in (None, has_zone):
                    self._refuse_mixture(column, first_row)
                self.has_zone = has_zone
            self._written = target
            return found
        self._refuse_mixture(column, first_row)
        dated = self._read_dates(column, first_row)
        if dated is not None:
            return dated
        reached = max(_first_failing(column, target) for target in _WRITTEN)
        raise DataError(
            f"column {self.name!r} holds no time in row {first_row + reached}, or one written "
            "unlike those before; write times as 2024-05-31T18:00:00Z or as seconds since 1970."
        )

    def _refuse_mixture(self, column: Any, first_row: int) -> None:
        """All batches to one way of writing: a clock without a zone is another clock."""
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
        numbers = as_numpy(column.cast(target, safe=False))
        wrong = np.flatnonzero(~np.isfinite(numbers) | (numbers == _NO_TIME))
        if len(wrong):
            what = "is too large" if np.isfinite(numbers[wrong[0]]) else "holds no time"
            raise DataError(
                f"column {self.name!r} {what} in row {first_row + int(wrong[0])}; write "
                "times as seconds or milliseconds since 1970."
            )
        size = np.abs(numbers)
        if self.doubts_days:
            days = np.flatnonzero((_DAYS[0] < numbers) & (numbers < _DAYS[1]))
            if len(days):
                raise self._days_or_seconds(first_row + int(days[0]))
        # How many thousands finer than a second the unit of each number is.
        finer = sum((size > _LARGEST_SECOND * 1000**power) for power in range(3))
        finer = np.asarray(finer, dtype=np.int64)
        unit = _UNITS[int(finer.max(initial=0))]
        kind = "numbers" if numbers.dtype.kind == "f" else "whole numbers"
        note = f"column {self.name!r} holds {kind}, read as {unit} since 1970 (UTC)."
        if note not in self.notes:
            self.notes.append(note)
        milliseconds = np.where(finer == 0, numbers * 1000, numbers)
        milliseconds = np.where(finer == 2, milliseconds // 1000, milliseconds)
        milliseconds = np.where(finer == 3, milliseconds // 1_000_000, milliseconds)
        if milliseconds.dtype.kind == "f":
            # A fraction such as .012 of a second is a little less as a float.
            milliseconds = np.floor(np.round(milliseconds, 3))
        return np.asarray(milliseconds, dtype=np.int64)


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
