"""Numbers as people write them: decimal commas, thousands, marks for nothing, units.

A table is read by one way of writing numbers. What sets the ways apart is collected while rows
are looked at; a number that has two readings in the end is refused with both of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rase.errors import DataError
from rase.tables.arrow import as_numpy, texts_as_arrow

__all__ = ["MISSING", "Decimal", "NumberStyle"]

Decimal = Literal["point", "comma"]

# What is written where there is no reading; compared in small letters.
MISSING = (
    *("-", "--", "---", ".", "?", "na", "n/a", "#n/a", "n.a.", "nan", "null", "nil", "none"),
    *("missing", "unavailable", "unknown"),
)
_EXPONENT = r"(?:[eE][-+]?\d+)?"
# Blanks of four kinds and two apostrophes, between groups of three digits.
_GROUPED = "^-?\\d{1,3}(?:[ \u00a0\u2009\u202f'\u2019]\\d{3})+(?:[.,]\\d+)?$"
_BETWEEN = "[ \u00a0\u2009\u202f'\u2019]"
_UNIT = r"^[-+]?\d[\d.,]*\s*[\p{L}°%µ€$£/]"


@dataclass(frozen=True, slots=True)
class _Shapes:
    """How numbers look whose decimals follow one mark and whose thousands stand between the other.

    Args:
        valid: Every number that may be written so.
        certain: Those that could not be written the other way.
        doubtful: Those with two readings: the mark before three digits.
    """

    valid: str
    certain: str
    doubtful: str


def _shapes(mark: str, other: str) -> _Shapes:
    m, o = rf"\{mark}", rf"\{other}"
    return _Shapes(
        valid=rf"^-?(?:\d{{1,3}}(?:{o}\d{{3}})+|\d*)(?:{m}\d*)?{_EXPONENT}$",
        certain=(
            rf"^-?(?:\d{{1,3}}(?:{o}\d{{3}})+{m}\d*|\d{{1,3}}(?:{o}\d{{3}}){{2,}}"
            rf"|\d*{m}(?:\d{{0,2}}|\d{{4,}}){_EXPONENT}|0\d*{m}\d+{_EXPONENT}"
            rf"|\d{{4,}}{m}\d+{_EXPONENT}|\d+{m}\d+[eE][-+]?\d+)$"
        ),
        doubtful=rf"^-?[1-9]\d{{0,2}}{m}\d{{3}}$",
    )


_WAYS: dict[Decimal, _Shapes] = {"point": _shapes(".", ","), "comma": _shapes(",", ".")}


@dataclass(slots=True, eq=False)
class NumberStyle:
    """Say how a table writes its numbers, and turn them into what Arrow reads.

    Args:
        asked: How decimals are written, where the user said so.
        doubts_points: Whether a point before three digits may stand between thousands: so where
            semicolons separate the columns.
        notes: What was understood otherwise than Arrow would.
    """

    asked: Decimal | None = None
    doubts_points: bool = False
    notes: list[str] = field(default_factory=list)
    _seen: dict[Decimal, int] = field(default_factory=dict)
    _doubtful: int | None = None

    @property
    def decimal(self) -> Decimal | None:
        """How decimals are written, as far as it was seen."""
        return self.asked or next(iter(self._seen), None)

    @property
    def is_settled(self) -> bool:
        """Whether no number that was looked at has two readings."""
        return self.decimal is not None or self._doubtful is None

    def look(self, texts: Any, *, first_row: int) -> None:
        """Take note of what some numbers show about the way all are written."""
        texts = texts.drop_null()
        both = pc.match_substring_regex(texts, r"[.,]")
        if self.asked is not None or not pc.any(both).as_py():
            return
        for decimal, shapes in _WAYS.items():
            self._doubt(texts, shapes, decimal, first_row=first_row)
            found = pc.match_substring_regex(texts, shapes.certain)
            if decimal not in self._seen and pc.any(found).as_py():
                self._seen[decimal] = first_row + int(np.argmax(as_numpy(found)))

    def _doubt(self, texts: Any, shapes: _Shapes, decimal: Decimal, *, first_row: int) -> None:
        if self._doubtful is not None or (decimal == "point" and not self.doubts_points):
            return
        found = pc.match_substring_regex(texts, shapes.doubtful)
        if pc.any(found).as_py():
            self._doubtful = first_row + int(np.argmax(as_numpy(found)))

    def settle(self, name: str) -> None:
        """Refuse numbers that have two readings.

        Raises:
            DataError: If some numbers are written with decimal commas and some with points, or
                nothing shows what a comma or a point stands for.
        """
        if len(self._seen) > 1:
            raise DataError(
                f"column {name!r} writes decimals with a point (as near row {self._seen['point']}) "
                f"and with a comma (as near row {self._seen['comma']}); write them in one way, or "
                "choose with --decimal point or --decimal comma."
            )
        if not self.is_settled:
            raise DataError(
                f"column {name!r} holds numbers with two readings, as near row {self._doubtful}: "
                "1,234 may be 1.234 (say --decimal comma) or 1234 (say --decimal point). The "
                "other way round, 1.234 is 1234 with --decimal comma."
            )

    def plain(self, column: Any, *, name: str, first_row: int) -> Any:
        """Return texts as numbers; null where there is none.

        Raises:
            DataError: If a text is no number, or has two readings.
        """
        lower = pc.utf8_lower(column)
        is_missing = pc.is_in(lower, texts_as_arrow(MISSING))
        if pc.any(is_missing).as_py():
            column = pc.if_else(is_missing, pa.scalar(None, pa.string()), column)
        column = pc.replace_substring(column, "\u2212", "-")
        column = pc.replace_substring_regex(column, r"^\+", "")
        grouped = pc.match_substring_regex(column, _GROUPED)
        if pc.any(grouped).as_py():
            column = pc.if_else(grouped, pc.replace_substring_regex(column, _BETWEEN, ""), column)
        self.look(column, first_row=first_row)
        self.settle(name)
        decimal = self.decimal or "point"
        self._refuse_others(column, decimal, name=name, first_row=first_row)
        mark, other = (".", ",") if decimal == "point" else (",", ".")
        if decimal == "comma":
            self.note(f"commas in column {name!r} are read as decimal commas.")
        elif pc.any(pc.match_substring(column, ",")).as_py():
            self.note(f"commas in column {name!r} are read as marks between thousands.")
        column = pc.replace_substring(column, other, "")
        return pc.replace_substring(column, mark, ".").cast(pa.float64())

    def _refuse_others(self, column: Any, decimal: Decimal, *, name: str, first_row: int) -> None:
        is_number = pc.match_substring_regex(column, _WAYS[decimal].valid)
        is_number = pc.and_(is_number, pc.match_substring_regex(column, r"\d"))
        is_number = is_number.fill_null(True) if is_number.null_count else is_number
        wrong = np.flatnonzero(~as_numpy(is_number))
        if not len(wrong):
            return
        row = first_row + int(wrong[0])
        if pc.match_substring_regex(column[int(wrong[0])], _UNIT).as_py():
            raise DataError(
                f"column {name!r} must hold numbers, and row {row} holds a number with its unit; "
                "take the units away, for rows may differ in them."
            )
        if not pc.match_substring_regex(column[int(wrong[0])], r"^[-+]?inf").as_py():
            raise DataError(
                f"column {name!r} must hold numbers, and row {row} does not; "
                "leave missing readings empty."
            )
        raise DataError(
            f"column {name!r} must hold finite numbers, and row {row} holds infinity; "
            "leave missing readings empty."
        )

    def note(self, sentence: str) -> None:
        """Keep a sentence, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)
