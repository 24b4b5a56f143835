"""Tables to draw and to save: rows of a chart as text, and as CSV that spreadsheets read."""

import csv
import io
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, tzinfo
from itertools import chain
from typing import Any, Final

from starlette.responses import Response, StreamingResponse

from rase.theme.formatting import decimals, moment, near, number

__all__ = ["as_percent", "chart_rows", "csv_response", "csv_stream"]

_CSV: Final = "text/csv; charset=utf-8"
_SHARED: Final = frozenset(("value", "standard_error", "low", "high", "value_low", "value_high"))
# A spreadsheet would run a text that begins like this as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def chart_rows(
    points: Sequence[Mapping[str, Any]], round_s: int, *, zone: tzinfo = UTC
) -> list[tuple[Any, ...]]:
    """Return what a chart's table shows, as tuples: templates write hundreds of them.

    Args:
        points: Estimates as the fusion centre sends them, of one round each or of several.
        round_s: The length of a round; minutes are enough where it has no seconds.
        zone: In which times are written.

    Returns:
        Of each its status, how many rounds were withheld, its time, which of a window is its end,
        and that time as text; then mean, both ends of its interval and the number of reports, each
        followed by its text.
    """
    form = f"%Y-%m-%d {'%H:%M' if round_s % 60 == 0 else '%H:%M:%S'}"
    places = decimals(points)
    return [_chart_row(one, form, places, zone) for one in points]


def csv_response(rows: Sequence[Mapping[str, Any]], name: str) -> Response:
    """Return rows as a file with a head; what is None is empty.

    Args:
        rows: All with the same names.
        name: The name of the file.
    """
    head = [rows[0].keys()] if rows else []
    body = ([_cell(value) for value in row.values()] for row in rows)
    return Response(_lines(chain(head, body)), headers=_as_file(_CSV, name))


def csv_stream(
    pages: AsyncIterator[Sequence[Mapping[str, Any]]], name: str, *, columns: Sequence[str]
) -> Response:
    """Return rows as a file with a head, page by page: it may have any length.

    Args:
        pages: The rows; what they do not have is empty.
        name: The name of the file.
        columns: The names in its head.
    """

    async def lines() -> AsyncIterator[bytes]:
        yield _lines([columns])
        async for rows in pages:
            yield _lines([_cell(row.get(column)) for column in columns] for row in rows)

    return StreamingResponse(lines(), headers=_as_file(_CSV, name))


def as_percent(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return shares of states in per cent, as people read them, with all that belongs to them.

    Example:
        >>> as_percent([{"value": 0.25, "low": None, "n": 64}])
        [{'value': 25.0, 'low': None, 'n': 64}]
    """
    return [
        {
            name: 100 * value if name in _SHARED and value is not None else value
            for name, value in row.items()
        }
        for row in rows
    ]


def _as_file(media_type: str, name: str) -> dict[str, str]:
    return {
        "Content-Type": media_type,
        "Content-Disposition": f'attachment; filename="{name}"',
        "Cache-Control": "no-store",
    }


def _lines(rows: Iterable[Iterable[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _chart_row(
    one: Mapping[str, Any], form: str, places: int | None, zone: tzinfo
) -> tuple[Any, ...]:
    mean, low, high = one["value"], one["low"], one["high"]
    is_answered = one["status"] == "ok"
    fewest, most = one.get("n_low", one.get("n")), one.get("n_high", one.get("n"))
    count = number(fewest) if fewest == most else f"{number(fewest)} to {number(most)}"
    time = one["until"] if one.get("of_rounds", 1) > 1 else one["time"]
    return (
        one["status"],
        one.get("withheld", int(one["status"] == "too_few")),
        time,
        moment(time, form, zone),
        *(
            text
            for value in (mean, low, high)
            for text in ("" if value is None else value, near(value, low, high, places))
        ),
        fewest,
        count if is_answered else "–",
    )


def _cell(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value
