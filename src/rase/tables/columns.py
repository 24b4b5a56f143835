"""Arrow columns to checked NumPy columns: milliseconds and finite numbers.

Conversion is one vectorised step per batch. Only where it fails is the wrong row looked for, by
bisection, so that the refusal can name it.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rase.errors import DataError

__all__ = ["TimeColumn", "not_utf8", "plain_column", "refuse_null", "values_of"]

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


class TimeColumn:
    """Turn a column of times into milliseconds since 1970 (UTC) and keep note of how it was read.

    Args:
        name: The column's name, for messages.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.notes: list[str] = []
        self.has_zone: bool | None = None
        self._written: Any = None

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
            self._check_zone(column, first_row)
            column = self._parsed(column, first_row)
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

    def _check_zone(self, column: Any, first_row: int) -> None:
        """Hold all batches to one way of writing: a clock without a zone is another clock."""
        has_zone = pc.match_substring_regex(column, _ZONE).to_numpy(zero_copy_only=False)
        if self.has_zone is None and len(has_zone):
            self.has_zone = bool(has_zone[0])
        odd = np.flatnonzero(has_zone != self.has_zone)
        if len(odd):
            raise DataError(
                f"column {self.name!r} mixes times with and without a zone, first in row "
                f"{first_row + int(odd[0])}; write all of them in one way, such as "
                "2024-05-31T18:00:00Z."
            )

    def _parsed(self, column: Any, first_row: int) -> Any:
        """Read texts as whole numbers or as ISO times; one way for a whole batch."""
        # Most batches are written like the one before.
        targets = [kind for kind in _WRITTEN if kind != self._written]
        for target in [*([] if self._written is None else [self._written]), *targets]:
            try:
                found = column.cast(target)
            except pa.ArrowInvalid:
                continue
            self._written = target
            return found
        reached = max(_first_failing(column, target) for target in _WRITTEN)
        raise DataError(
            f"column {self.name!r} holds no time in row {first_row + reached}, or one written "
            "unlike those before; write times as 2024-05-31T18:00:00Z or as seconds since 1970."
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
