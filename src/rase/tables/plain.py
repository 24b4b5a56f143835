"""Arrow columns as files and frames hand them over, made plain; and what none of them may hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rase.errors import DataError
from rase.tables.arrow import as_numpy

__all__ = ["not_utf8", "plain_column", "refuse_null"]


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
            if column.null_count or not as_numpy(pc.binary_length(column)).all():
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
