"""Spreadsheets: the sheet that is meant becomes a table in memory, read by the rules of all tables.

Cells that a sheet shows as dates are times; numbers stay numbers. Columns that mix kinds become
texts, so that a mark for nothing among numbers is read as in CSV.
"""

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from typing import Any

import pyarrow as pa

from rase.errors import DataError
from rase.tables.columns import Chunk
from rase.tables.files import Files, TableFile
from rase.tables.layouts import Layout, find_layout
from rase.tables.source import TableSource

__all__ = ["SheetSource"]

# What a spreadsheet shows instead of a result.
_ERRORS = frozenset({"#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!"})


class SheetSource(TableSource):
    """Spreadsheets, in the order of their paths; each is held in memory while it is read.

    Args:
        files: The files.

    Raises:
        DataError: If a file cannot be read, or it is not clear which of its sheets is meant.
    """

    def __init__(self, files: Files) -> None:
        super().__init__(files.place, files.columns, files.hints)
        self._reader.times.doubts_days = True
        self._tables: list[tuple[Layout, Any]] = []
        self.bad = len(files.bad)
        for file in files.files:
            try:
                table = self._table(files, file)
                names = table.column_names
                layout = find_layout(names, files.columns, file.path, form=files.hints.form)
            except DataError:
                if not files.skips_bad:
                    raise
                self.bad += 1
            else:
                self._tables.append((self.take(layout), table))

    def chunks(self) -> Iterator[Chunk]:
        """Yield all rows, a file at a time."""
        before = 0
        for layout, table in self._tables:
            columns = [table.column(name).combine_chunks() for name in layout.names]
            yield self._reader.rows(layout, columns, first_row=1, before=before)
            before += table.num_rows
            self.share_read = 1.0

    def _table(self, files: Files, file: TableFile) -> Any:
        """Return a file's sheet; its first row that is not empty is the header."""
        try:
            import python_calamine as calamine
        except ModuleNotFoundError as error:
            raise DataError(
                f"{file.path} is a spreadsheet; to read it pip install "
                '"rase-iot[sheets]", or save the sheet as CSV.'
            ) from error
        with files.opened(file) as handle:
            try:
                book = calamine.CalamineWorkbook.from_filelike(handle)
                name = self._sheet(book, file, files.hints.sheet)
                rows = book.get_sheet_by_name(name).to_python(skip_empty_area=True)
            except (calamine.CalamineError, calamine.ZipError, OSError) as error:
                raise DataError(
                    f"{file.path} is an archive that cannot be read as a spreadsheet; unpack it, "
                    "remove its password, or save the sheet as CSV."
                ) from error
        header, *cells = [row for row in rows if any(cell != "" for cell in row)]
        if not cells:
            raise DataError(f"{file.path} holds no rows; give a table with at least one reading.")
        columns = zip(*cells, strict=True)
        return pa.table([_column(column) for column in columns], [_text(cell) for cell in header])

    def _sheet(self, book: Any, file: TableFile, asked: str | None) -> str:
        """Return the name of the sheet that is meant."""
        if asked is not None:
            if asked not in book.sheet_names:
                raise DataError(
                    f"{file.path} has no sheet {asked!r}; it has {_listed(book.sheet_names)}."
                )
            return asked
        filled = [name for name in book.sheet_names if book.get_sheet_by_name(name).end]
        if not filled:
            raise DataError(f"{file.path} is empty; give a table with at least one reading.")
        if len(filled) > 1:
            raise DataError(
                f"{file.path} has several sheets, and each may be the table: {_listed(filled)}; "
                "choose one with --sheet."
            )
        self.note(f"sheet {filled[0]!r} of {file.path} is read.")
        return str(filled[0])


def _column(cells: tuple[Any, ...]) -> Any:
    """Return cells as numbers, as times, or as texts; empty ones are null."""
    known = [None if cell == "" or cell in _ERRORS else cell for cell in cells]
    kinds = {type(cell) for cell in known if cell is not None}
    if kinds and kinds <= {int, float}:
        # A sheet has no whole numbers, but devices are called by them.
        is_whole = all(cell is None or float(cell).is_integer() for cell in known)
        return pa.array(known, pa.float64()).cast(pa.int64() if is_whole else pa.float64())
    if kinds and kinds <= {date, datetime}:
        # A sheet keeps days as floats, so a full hour is a little more or less.
        ticks = [None if cell is None else round(_seconds(cell) * 1000) for cell in known]
        return pa.array(ticks, pa.timestamp("ms"))
    return pa.array([None if cell is None else _text(cell) for cell in known], pa.string())


def _seconds(cell: date) -> float:
    """Return seconds since 1970 by the clock that the sheet shows."""
    whole = cell if isinstance(cell, datetime) else datetime.combine(cell, time())
    return (whole - datetime(1970, 1, 1)) / timedelta(seconds=1)  # noqa: DTZ001


def _text(cell: Any) -> str:
    """Return a cell as it would be written in a text table."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return cell.isoformat() if isinstance(cell, date) else str(cell)


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names))
