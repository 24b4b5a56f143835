"""Text tables: the one reader of CSV, and files of times, devices and values read by it.

Messages of the reader underneath are not passed on: they quote rows of the table.
"""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv

from rase.errors import DataError
from rase.tables.columns import Chunk
from rase.tables.files import Files, TableFile
from rase.tables.layouts import Layout, find_layout
from rase.tables.plain import plain_column
from rase.tables.source import TableSource

__all__ = ["CsvSource", "open_csv", "wrong_row"]

_BLOCK_BYTES = 1 << 20
_SNIFFED_BYTES = 1 << 16
_SEPARATORS = ",;\t|"
_SEPARATOR_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)


class CsvSource(TableSource):
    """Text files, in the order of their paths.

    All columns are read as texts and converted later: guessing types from the first block fails
    when a later one looks different.

    Args:
        files: The files.

    Raises:
        DataError: If a header lacks a column. Files that cannot be read are skipped if ``files``
            says so.
    """

    def __init__(self, files: Files) -> None:
        super().__init__(files.place, files.columns, files.hints)
        self.files = files
        self.bad = len(files.bad)
        self._wanted: dict[TableFile, Layout] = {}
        self._separators: dict[TableFile, str] = {}
        for file in files.files:
            try:
                self._wanted[file] = self._find_layout(file)
            except DataError:
                if not files.skips_bad:
                    raise
                self.bad += 1
        self._learn()

    def _learn(self) -> None:
        """Look at rows until they show how numbers and dates are written."""
        numbers, times = self._reader.numbers, self._reader.times
        numbers.doubts_points = ";" in self._separators.values()
        for file, layout in self._wanted.items():
            row = 1
            for columns, _ in self._batches(file):
                texts = [plain_column(column) for column in columns]
                for readings in texts[-len(layout.values) :]:
                    numbers.look(readings, first_row=row)
                if layout.time is not None:
                    times.dates.look(texts[0].drop_null(), name=layout.time, first_row=row)
                if numbers.is_settled and times.dates.is_settled:
                    return
                row += len(texts[0])

    def _find_layout(self, file: TableFile) -> Layout:
        """Return which columns of a file hold what."""
        self._separators[file] = separator = self._separator(file)
        with self.files.opened(file) as handle:
            try:
                names = open_csv(
                    handle,
                    compression=file.compression,
                    separator=separator,
                    encoding=file.encoding,
                ).schema.names
            except _UNREADABLE as error:
                raise _unreadable(error, file) from error
        if separator != "," and len(names) > 1:
            self.note(f"{_SEPARATOR_NAMES[separator]} separate the columns.")
        return self.take(find_layout(names, self.columns, file.path, form=self.files.hints.form))

    def _separator(self, file: TableFile) -> str:
        """Return what separates the columns: what the first lines have the same number of."""
        with self.files.opened(file) as handle:
            try:
                stream = _stream(handle, file.compression)
                head = bytes(stream.read(_SNIFFED_BYTES)).decode(file.encoding, "replace")
            except _UNREADABLE as error:
                raise _unreadable(error, file) from error
        lines = head.lstrip("\ufeff").splitlines()[:20]
        # The last line may be cut off.
        lines = lines[:-1] if len(lines) > 1 else lines
        counts = {mark: _columns_of(lines, mark) for mark in _SEPARATORS}
        likely = [mark for mark in _SEPARATORS if counts[mark] > 1]
        fitting = [mark for mark in likely if self._fits(lines[0], mark)]
        if len(likely) > 1 and not fitting:
            either = " or ".join(_SEPARATOR_NAMES[mark] for mark in likely)
            raise DataError(
                f"the columns of {file.path} may be separated by {either}; say which columns it "
                "has with --time-column, --device-column and --value-column."
            )
        if likely:
            return (fitting or likely)[0]
        if all(_columns_of(lines[:1], mark) == 1 for mark in _SEPARATORS):
            # One column of readings: nothing separates it, least of all its decimal commas.
            return next((mark for mark in "|\t;" if mark not in head), ",")
        # Some row is wrong, which reading will find: the header alone decides.
        return max(_SEPARATORS, key=lambda mark: _columns_of(lines[:1], mark))

    def _fits(self, line: str, separator: str) -> bool:
        """Return whether a header has the columns that are wanted."""
        names = next(csv.reader([line], delimiter=separator), [])
        try:
            find_layout(names, self.columns, "", form=self.files.hints.form)
        except DataError:
            return False
        return True

    def chunks(self) -> Iterator[Chunk]:
        """Yield all rows in the order of the files."""
        before, total = 0, sum(file.size for file in self._wanted)
        rows = 0
        for file, layout in self._wanted.items():
            row = 1
            try:
                for columns, read_bytes in self._batches(file):
                    chunk = self._reader.rows(layout, columns, first_row=row, before=rows)
                    row, rows = row + len(columns[0]), rows + len(columns[0])
                    self.share_read = min((before + read_bytes) / max(total, 1), 1.0)
                    yield chunk
            except DataError as error:
                if len(self._wanted) == 1 or file.path in str(error):
                    raise
                raise DataError(f"{file.path}: {error}") from error
            before += file.size

    def _batches(self, file: TableFile) -> Iterator[tuple[list[Any], int]]:
        """Yield the three columns as texts, and how many bytes of the file were read for them."""
        wanted = self._wanted[file].names
        kinds = dict.fromkeys(wanted, pa.string())
        with self.files.opened(file) as handle:
            try:
                for batch in open_csv(
                    handle,
                    kinds,
                    compression=file.compression,
                    separator=self._separators[file],
                    encoding=file.encoding,
                ):
                    yield [batch.column(name) for name in wanted], handle.tell()
            except _UNREADABLE as error:
                raise _unreadable(error, file) from error


def open_csv(
    file: Any,
    kinds: Mapping[str, Any] | None = None,
    *,
    compression: str | None = None,
    separator: str = ",",
    names: Sequence[str] | None = None,
    missing: Sequence[str] = ("",),
    encoding: str = "utf-8",
) -> Any:
    """Open a text table by blocks of bytes, in one thread; what comes out are Arrow batches.

    Args:
        file: An open Arrow file.
        kinds: The Arrow type of each column that is read; None for all, their types guessed.
        compression: How the text was compressed; None if it was not.
        separator: What stands between two columns.
        names: What to call the columns instead of what the header says.
        missing: Which texts are no value.
        encoding: How the text is written as bytes.

    Raises:
        pyarrow.ArrowException: If it cannot be read. Its message may quote the table.
    """
    return pyarrow.csv.open_csv(
        _stream(file, compression),
        read_options=pyarrow.csv.ReadOptions(
            use_threads=False,
            block_size=_BLOCK_BYTES,
            skip_rows=0 if names is None else 1,
            column_names=names,
            encoding=encoding,
        ),
        parse_options=pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=kinds,
            include_columns=None if kinds is None else list(kinds),
            null_values=missing,
            strings_can_be_null=True,
        ),
    )


def _stream(file: Any, compression: str | None) -> Any:
    return pa.CompressedInputStream(file, compression) if compression else file


def _columns_of(lines: list[str], separator: str) -> int:
    """Return how many columns all lines have with a separator; 1 where they differ in it."""
    try:
        found = {len(row) for row in csv.reader(lines, delimiter=separator) if row}
    except csv.Error:
        return 1
    return found.pop() if len(found) == 1 else 1


def wrong_row(error: Exception) -> int | None:
    """Return which row has another number of columns, if that is what the reader says; else None.

    Arrow would also hand such a row to a function of ours, but decodes it first: for a row that is
    not UTF-8 that ends in a traceback on the terminal, which shows readings.
    """
    found = re.match(r"CSV parse error: Row #(\d+): Expected", str(error))
    # The header is row 1 for the reader underneath, row 0 for us.
    return None if found is None else int(found.group(1)) - 1


def _unreadable(error: Exception, file: TableFile) -> DataError:
    """Return the refusal of a text that the reader could not read; it quotes none of it."""
    row = wrong_row(error)
    if row is not None:
        return DataError(
            f"row {row} of {file.path} has another number of columns than the header; fix the row."
        )
    if "Empty CSV" in str(error):
        return DataError(f"{file.path} holds no rows; give a table with at least one reading.")
    if file.compression is not None and "Truncated" in str(error):
        return DataError(f"{file.path} is cut off; copy or compress it again.")
    return DataError(
        f"{file.path} cannot be read as CSV with a header line; save it as UTF-8 text with "
        "columns separated by commas, or as Parquet."
    )
