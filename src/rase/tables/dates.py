"""Dates as people write them: 31.03.2024 14:00, 03/31/2024 2 PM, 31-Mar-2024, 2024/03/31.

Arrow reads ISO times; this reads the rest, with one order of day and month for a whole table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rase.errors import DataError

if TYPE_CHECKING:
    from rase.arrays import Flags, Places

__all__ = ["DateOrder", "DateStyle"]

DateOrder = Literal["day-first", "month-first"]

_WRITTEN = (
    r"^(?P<a>\d{1,4})(?P<s>[-./ ])(?P<b>\d{1,2}|[A-Za-z]{3,9})(?P<t>[-./ ])(?P<c>\d{1,4})"
    r"(?:(?:[Tt]|,? +)(?P<hour>\d{1,2})(?:[:.](?P<minute>\d{2})(?:[:.](?P<second>\d{2})"
    r"(?:[.,](?P<part>\d{1,9}))?)?)?(?: ?(?P<half>[AaPp])\.?[Mm]\.?)?"
    r"(?: ?(?P<zone>[Zz]|UTC|GMT|[-+]\d{2}(?::?\d{2})?))?)?$"
)
_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)
_NAMES = [*(name[:3] for name in _MONTHS), *_MONTHS]
_DAY_MS = 86_400_000


@dataclass(slots=True, eq=False)
class DateStyle:
    """Say in which order a table writes day and month, and read its dates.

    Args:
        asked: The order, where the user said so.
        is_day_first: The order that was seen; None before any.
    """

    asked: DateOrder | None = None
    is_day_first: bool | None = None
    _doubtful: int | None = None

    @property
    def is_settled(self) -> bool:
        """Whether no date that was looked at has two readings."""
        return self._order is not None or self._doubtful is None

    @property
    def _order(self) -> bool | None:
        return self.is_day_first if self.asked is None else self.asked == "day-first"

    def look(self, texts: Any, *, name: str, first_row: int) -> None:
        """Take note of what some dates show about the order of day and month.

        Raises:
            DataError: If some can only have the day first, and others only the month.
        """
        if pc.all(pc.match_substring_regex(texts, r"^\d{4}\D")).as_py():
            # With the year first day and month cannot be mistaken.
            return
        fields = _Fields(pc.extract_regex(texts, _WRITTEN))
        is_open = fields.is_open
        if self.asked is not None or not is_open.any():
            return
        day, month = is_open & (fields.a > 12), is_open & (fields.b > 12)
        for is_day_first, shows in ((True, day), (False, month)):
            if not shows.any():
                continue
            if self.is_day_first is (not is_day_first):
                row = first_row + int(np.argmax(shows))
                raise DataError(
                    f"column {name!r} writes the day first in some rows and the month first in "
                    f"others, as in row {row}; write all dates in one way, such as 2024-05-31."
                )
            self.is_day_first = is_day_first
        if self._doubtful is None:
            self._doubtful = first_row + int(np.argmax(is_open))

    def read(self, texts: Any, *, name: str, first_row: int) -> tuple[Places, Flags] | None:
        """Return milliseconds of a column of dates, and which have a zone; None if one is none.

        Where a date has no zone the milliseconds are those of the clock that was read.

        Raises:
            DataError: If day and month of a date may be either.
        """
        self.look(texts, name=name, first_row=first_row)
        fields = _Fields(pc.extract_regex(texts, _WRITTEN))
        if not fields.is_date.all():
            return None
        if not self.is_settled:
            raise DataError(
                f"column {name!r} holds dates with two readings, first in row {self._doubtful}: "
                "one like 03/04/2024 may be 3 April (say --dates day-first) or March 4 (say "
                "--dates month-first)."
            )
        return fields.milliseconds(is_day_first=self._order is not False)

    @property
    def words(self) -> str:
        """How dates were read, for a note."""
        return "month first" if self._order is False else "day first"


class _Fields:
    """The parts of dates as columns of numbers; -1 where a part is missing or no number."""

    def __init__(self, found: Any) -> None:
        self._found = found
        self.is_date: Flags = found.is_valid().to_numpy(zero_copy_only=False)
        self.a, self.c = self._number("a"), self._number("c")
        letters = pc.match_substring_regex(self._text("b"), "[A-Za-z]")
        named = pc.index_in(pc.utf8_lower(self._text("b")), pa.array(_NAMES)).fill_null(-1)
        self._is_named: Flags = letters.to_numpy(zero_copy_only=False)
        month = named.to_numpy(zero_copy_only=False).astype(np.int64) % 12 + 1
        # A word that is no month is no month either way.
        month[named.to_numpy(zero_copy_only=False) < 0] = 99
        self.b: Places = np.where(self._is_named, month, self._number("b"))
        mark = self._text("s")
        width = pc.utf8_length(self._text("a")).to_numpy(zero_copy_only=False)
        self._is_year_first: Flags = width == 4
        is_dot = pc.equal(mark, ".").to_numpy(zero_copy_only=False)
        years = pc.utf8_length(self._text("c")).to_numpy(zero_copy_only=False)
        # 31.03.24 is of 2024; 05/06/07 could be of 2007 or of 2005.
        self._is_short: Flags = is_dot & (years == 2) & ~self._is_year_first
        is_whole = np.where(self._is_year_first, years <= 2, (years == 4) | self._is_short)
        is_even = pc.equal(mark, self._text("t")).to_numpy(zero_copy_only=False)
        self.is_date &= is_whole & is_even & (width != 3)
        self.is_open: Flags = self.is_date & ~(self._is_year_first | self._is_named | is_dot)

    def _text(self, name: str) -> Any:
        return pc.fill_null(pc.struct_field(self._found, name), "")

    def _number(self, name: str) -> Places:
        texts = self._text(name)
        is_number = pc.match_substring_regex(texts, r"^\d+$")
        numbers: Places = (
            pc.if_else(is_number, texts, "-1").cast(pa.int64()).to_numpy(zero_copy_only=False)
        )
        return numbers

    def milliseconds(self, *, is_day_first: bool) -> tuple[Places, Flags] | None:
        """Return the milliseconds, and which have a zone; None if one is no date."""
        swaps = self.is_open & (not is_day_first)
        day = np.where(self._is_year_first, self.c, np.where(swaps, self.b, self.a))
        month = np.where(swaps, self.a, self.b)
        year = np.where(self._is_year_first, self.a, self.c + 2000 * self._is_short)
        hour, is_hour = self._hours()
        minute, second = (np.maximum(self._number(name), 0) for name in ("minute", "second"))
        if not (is_hour & (month >= 1) & (month <= 12) & (day >= 1)).all():
            return None
        if not ((minute < 60) & (second < 60) & (year >= 1)).all():
            return None
        months = (year - 1970) * 12 + month - 1
        first = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
        length = (months + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
        if not (day <= length - first).all():
            return None
        part = pc.utf8_slice_codeunits(pc.utf8_rpad(self._text("part"), 3, "0"), 0, 3)
        fraction: Places = part.cast(pa.int64()).to_numpy(zero_copy_only=False)
        clock = ((hour * 60 + minute) * 60 + second) * 1000 + fraction
        offset, has_zone = self._offsets()
        return (first + day - 1) * _DAY_MS + clock - offset, has_zone

    def _hours(self) -> tuple[Places, Flags]:
        hour = np.maximum(self._number("hour"), 0)
        half = pc.utf8_lower(self._text("half"))
        is_twelve = ~pc.equal(half, "").to_numpy(zero_copy_only=False)
        is_late = pc.equal(half, "p").to_numpy(zero_copy_only=False)
        is_hour = np.where(is_twelve, (hour >= 1) & (hour <= 12), hour < 24)
        return np.where(is_twelve, hour % 12 + 12 * is_late, hour), is_hour

    def _offsets(self) -> tuple[Places, Flags]:
        zone = self._text("zone")
        has_zone: Flags = ~pc.equal(zone, "").to_numpy(zero_copy_only=False)
        digits = pc.replace_substring_regex(zone, r"[^\d]", "")
        digits = pc.utf8_rpad(digits, 4, "0").cast(pa.int64()).to_numpy(zero_copy_only=False)
        minutes = digits // 100 * 60 + digits % 100
        sign = np.where(pc.starts_with(zone, "-").to_numpy(zero_copy_only=False), -1, 1)
        return sign * minutes * 60_000, has_zone
