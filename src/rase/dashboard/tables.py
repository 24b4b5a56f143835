"""Tables to save: rows as CSV that spreadsheets and pandas read."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from rase.subscriber.operator import Raw

__all__ = ["csv_response", "saved"]

# A spreadsheet would run a text that begins like this as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


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


def _cell(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value
