"""Tables to draw and to save: rows of a chart as text, and as CSV that spreadsheets read."""

import csv
import io
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, tzinfo
from itertools import chain
from typing import Any, Final

from starlette.responses import Response, StreamingResponse

from rase.subscriber.operator import Raw
from rase.theme.formatting import decimals, moment, near, number

__all__ = ["chart_rows", "csv_response", "csv_stream", "file_response"]

_CSV: Final = "text/csv; charset=utf-8"
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
    return file_response(Raw(_lines(chain(head, body)), _CSV), name)


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


def file_response(raw: Raw, name: str) -> Response:
    """Return bytes as a file that is saved and not shown.

    Args:
        raw: The bytes.
        name: The name of the file, letters, digits, dots and hyphens.
    """
    return Response(raw.body, headers=_as_file(raw.media_type, name))


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
