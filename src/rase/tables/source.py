"""Where rows come from: files, frames in memory, other sources; all read by the same rules.

`open_source` is the one door: whatever it gets, a path or a data frame, becomes chunks of checked
columns. The run, the planner, the attacks and the lab read tables through it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import islice
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa

from rase.domain import Categories
from rase.errors import DataError
from rase.tables.columns import Chunk, ColumnReader, Hints
from rase.tables.dates import DateStyle
from rase.tables.files import Files, find_files
from rase.tables.layouts import Columns, Layout, find_layout
from rase.tables.numbers import NumberStyle
from rase.tables.readings import Contributions, contributions_of
from rase.tables.rows import NamedSource, Rows, RowSource
from rase.tables.times import TimeColumn

__all__ = ["TableSource", "open_source"]

_FRAME_ROWS = 1 << 20


class TableSource(ABC):
    """A table that can be read from the start any number of times.

    Attributes:
        place: What to call the table.
        columns: How its columns are called.
        bad: How many files, and parts of files, could not be read so far.
        is_wide: Whether each column of readings is a device.
        share_read: How much of the table the current reading has passed, from 0 to 1.
        notes: What a reader should know about how the columns were understood.
        device_codes: The code of every device that `batches` has met, in the order of the codes.
    """

    def __init__(self, place: str, columns: Columns, hints: Hints | None = None) -> None:
        self.place, self.columns = place, columns
        self.bad = 0
        self.is_wide = False
        self.device_codes: dict[str, int] = {}
        self.share_read = 0.0
        hints = hints or Hints()
        times = TimeColumn(
            columns.time, timezone=hints.timezone, dates=DateStyle(asked=hints.dates)
        )
        numbers = NumberStyle(asked=hints.decimal)
        self._reader = ColumnReader(times, columns.device, columns.value, numbers)
        self.notes = self._reader.times.notes
        # One list for all notes, in the order in which they were taken.
        self._reader.numbers.notes = self.notes

    def note(self, sentence: str) -> None:
        """Keep what was guessed, once."""
        self._reader.numbers.note(sentence)

    def take(self, layout: Layout) -> Layout:
        """Call columns in messages as the table does, and keep what was guessed of them."""
        self._reader.times.name, self._reader.device, self._reader.value = layout.columns
        self.is_wide = layout.is_wide
        for sentence in layout.notes:
            self.note(sentence)
        return layout

    def expect(self, categories: Categories | dict[str, int] | None) -> None:
        """Say that readings are names: of categories, or any, which are added; or numbers again."""
        self._reader.categories = categories

    @property
    def categories(self) -> Categories | None:
        """The categories of which readings are names; None for numbers."""
        found = self._reader.categories
        return None if isinstance(found, dict) else found

    @abstractmethod
    def chunks(self) -> Iterator[Chunk]:
        """Yield all rows in the order of the table.

        Raises:
            DataError: If a row cannot be used.
        """

    def batches(self) -> Iterator[Rows]:
        """Yield all rows, each device with one code from its first appearance on.

        Raises:
            DataError: If a row cannot be used, or no row holds a reading.
        """
        rows = readings = 0
        for batch in self._numbered():
            rows += len(batch.time_ms)
            readings += int(np.count_nonzero(batch.is_valid))
            yield batch
        self.check_some(rows, readings)

    def check_some(self, rows: int, readings: int) -> None:
        """Refuse a table without a reading.

        Raises:
            DataError: If there are no rows, or no row holds a reading.
        """
        if not rows:
            raise DataError(f"{self.place} holds no rows; give a table with at least one reading.")
        if not readings:
            raise DataError(
                f"column {self.columns.value!r} of {self.place} is empty in all {rows} rows; "
                "give a table with at least one reading."
            )

    def _numbered(self) -> Iterator[Rows]:
        known = self.device_codes
        for chunk in self.chunks():
            present, first = np.unique(chunk.device, return_index=True)
            codes = np.zeros(len(chunk.names), dtype=np.int64)
            for code in present[np.argsort(first)].tolist():
                codes[code] = known.setdefault(chunk.names[code].as_py(), len(known))
            yield Rows(chunk.time_ms, codes[chunk.device], chunk.value, chunk.is_valid)

    def device_names(self) -> list[str]:
        """Read the table once and return the names of its devices, by first appearance."""
        for _ in self._numbered():
            continue
        return list(self.device_codes)

    def contributions(self, interval_ms: int | None) -> Contributions:
        """Read the table once and return one reading for each device and round.

        For what is planned or studied with data one holds: readings are averaged as they are.
        """
        parts = list(self.batches())
        columns = (
            np.concatenate([getattr(part, name)[part.is_valid] for part in parts])
            for name in ("time_ms", "device", "value")
        )
        time_ms, device, value = columns
        return contributions_of(time_ms, device, value=value, interval_ms=interval_ms)[0]


def open_source(
    table: Any,
    *,
    columns: Columns | None = None,
    skips_bad: bool = False,
    hints: Hints | None = None,
) -> TableSource:
    """Open a table: a path, a glob, files that were found, a data frame, a mapping, a source.

    Args:
        table: What to read.
        columns: How the columns are called; for files that were found it is known.
        skips_bad: Whether what cannot be read is left out and counted; for files.
        hints: What is known about the way it is written.

    Raises:
        DataError: If the data cannot be read as a table with these columns.
    """
    from rase.tables.csv import CsvSource
    from rase.tables.parquet import open_parquet
    from rase.tables.sheets import SheetSource

    named = columns or Columns()
    if isinstance(table, TableSource):
        return table
    if isinstance(table, str | PathLike):
        table = find_files(str(table), columns=named, skips_bad=skips_bad, hints=hints)
    if isinstance(table, Files):
        if table.files[0].kind == "parquet":
            return open_parquet(table)
        return CsvSource(table) if table.files[0].kind == "csv" else SheetSource(table)
    if callable(getattr(table, "batches", None)):
        return _RowsSource(table, named)
    return _FrameSource(table, named, hints or Hints())


class _FrameSource(TableSource):
    """A table in memory: a mapping of columns, a pandas or Polars frame, an Arrow table."""

    def __init__(self, table: Any, columns: Columns, hints: Hints) -> None:
        super().__init__("the table", columns, hints)
        if callable(getattr(table, "collect_schema", None)):
            # A LazyFrame of Polars is a plan of a table.
            table = table.collect()
        if getattr(getattr(table, "index", None), "dtype", np.dtype("i")).kind == "M":
            # pandas keeps times as names of rows as often as in a column.
            table = table.reset_index(names=table.index.name or columns.time)
        layout = find_layout(_names_of(table), columns, "the table", form=hints.form)
        self._layout = self.take(layout)
        self._columns = [_arrow_column(table, name) for name in layout.names]
        if len({len(column) for column in self._columns}) > 1:
            *first, last = layout.names
            raise DataError(f"the columns {', '.join(first)} and {last} must have one length.")

    def chunks(self) -> Iterator[Chunk]:
        """Yield all rows."""
        for start in range(0, len(self._columns[0]), _FRAME_ROWS):
            parts = [column.slice(start, _FRAME_ROWS) for column in self._columns]
            yield self._reader.rows(self._layout, parts, first_row=start + 1, before=start)


class _RowsSource(TableSource):
    """Rows that were checked elsewhere: a synthetic fleet, a prepared data set."""

    def __init__(self, source: RowSource, columns: Columns) -> None:
        super().__init__("the table", columns)
        self._source = source
        self._names: list[str] = []

    def chunks(self) -> Iterator[Chunk]:
        """Yield all rows."""
        for rows in self._source.batches():
            yield Chunk(rows.time_ms, rows.device, rows.value, rows.is_valid, self._known(rows))

    def _known(self, rows: Rows) -> Any:
        count = int(rows.device.max(initial=-1)) + 1
        have = len(self._names)
        if count > have:
            if isinstance(self._source, NamedSource):
                self._names += islice(self._source.device_codes, have, None)
            else:
                self._names += map(str, range(have, count))
        return pa.array(self._names, pa.string())


def _names_of(table: Any) -> list[str]:
    """Return the names of the columns of a table in memory."""
    for attribute in ("column_names", "columns", "keys"):
        found = getattr(table, attribute, None)
        if found is not None:
            names = list(found() if callable(found) else found)
            return names if all(isinstance(name, str) for name in names) else [*map(str, names)]
    raise DataError(
        "the table must be a data frame or a mapping with the columns time, device and value, "
        f"got {type(table).__name__}; `rase run` takes files."
    )


def _arrow_column(table: Any, name: str) -> Any:
    """Return a column of a table in memory as one Arrow array."""
    try:
        column = table[name]
    except TypeError as error:
        raise DataError(
            "the table must be a data frame or a mapping with the columns time, device and value, "
            f"got {type(table).__name__}; `rase run` takes files."
        ) from error
    except (KeyError, IndexError, ValueError) as error:
        raise DataError(f"the table must have a column {name!r}.") from error
    return _as_arrow(column, name)


def _as_arrow(column: Any, name: str) -> Any:
    if isinstance(column, pa.ChunkedArray):
        joined = column.combine_chunks()
        return joined.chunk(0) if isinstance(joined, pa.ChunkedArray) else joined
    if isinstance(column, pa.Array):
        return column
    if hasattr(column, "to_arrow"):  # Polars
        return _as_arrow(column.to_arrow(), name)
    if isinstance(column, np.ndarray) and column.dtype.kind == "M":
        # Arrow knows no minutes or hours.
        is_fine = np.datetime_data(column.dtype)[0] in ("D", "s", "ms", "us", "ns")
        column = column if is_fine else column.astype("datetime64[s]")
    if getattr(column, "ndim", 1) != 1:
        raise DataError(f"{name} must hold one item a row, got {column.ndim} dimensions.")
    try:
        # What is missing in pandas is NaN, None or NaT; all are null here.
        return pa.array(column, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        # The error underneath quotes what it could not read.
        raise DataError(
            f"column {name!r} must hold items of one kind, got something else; leave missing "
            "readings None or NaN."
        ) from None
