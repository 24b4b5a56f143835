"""Tables to draw and to save: rows of a chart as text, and as CSV that spreadsheets read."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from rase.look.words import moment, near, number
from rase.subscriber.operator import Raw

__all__ = ["chart_rows", "csv_response", "saved"]

# A spreadsheet would run a text that begins like this as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def chart_rows(points: Sequence[Mapping[str, Any]], round_s: int) -> list[tuple[Any, ...]]:
    """Return what a chart's table shows, as tuples: templates write hundreds of them.

    Args:
        points: Estimates as the fusion centre tells them, of one round each or of several.
        round_s: The length of a round; minutes are enough where it has no seconds.

    Returns:
        Of each its status, how many rounds were withheld, its time, and that time as text; then
        mean, both ends of its interval and the number of reports, each followed by its text.
    """
    form = f"%Y-%m-%d {'%H:%M' if round_s % 60 == 0 else '%H:%M:%S'}"
    return [_chart_row(one, form) for one in points]


def csv_response(rows: Sequence[Mapping[str, Any]], name: str) -> Response:
    """Return rows as a file with a head; what is None is empty.

    Args:
        rows: All with the same names.
        name: The name of the file.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if rows:
        writer.writerow(rows[0].keys())
        writer.writerows([_cell(value) for value in row.values()] for row in rows)
    return saved(Raw(text.getvalue().encode(), "text/csv; charset=utf-8"), name)


def saved(raw: Raw, name: str) -> Response:
    """Return bytes as a file that is saved and not shown.

    Args:
        raw: The bytes.
        name: The name of the file, letters, digits, dots and hyphens.
    """
    return Response(
        raw.body,
        headers={
            "Content-Type": raw.media_type,
            "Content-Disposition": f'attachment; filename="{name}"',
            "Cache-Control": "no-store",
        },
    )


def _chart_row(one: Mapping[str, Any], form: str) -> tuple[Any, ...]:
    mean, low, high = one["mean"], one["ci_low"], one["ci_high"]
    is_told = one["status"] == "ok"
    fewest, most = one.get("n_low", one.get("n")), one.get("n_high", one.get("n"))
    count = number(fewest) if fewest == most else f"{number(fewest)} to {number(most)}"
    return (
        one["status"],
        one.get("withheld", int(one["status"] == "too_few")),
        one["time"],
        moment(one["time"], form),
        *(
            text
            for value in (mean, low, high)
            for text in ("" if value is None else value, near(value, low, high))
        ),
        fewest,
        count if is_told else "–",
    )


def _cell(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value
