"""Wide tables, as many UCI data sets are: a column of times and one column of values per device."""

import csv
import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from rase.errors import DataError
from rase.tables.columns import TimeColumn, values_of
from rase.tables.csv import wrong_row
from rase.tables.rows import Rows

__all__ = ["Decimal", "WideTable", "header_of"]

Decimal = Literal["auto", "point", "comma"]

_BLOCK_BYTES = 1 << 20
_PARQUET_CELLS = 1 << 20
_SEPARATORS = ",;\t|"
# Beside OSError, what reading a damaged gzip file raises.
_UNREADABLE = (OSError, EOFError, zlib.error, UnicodeDecodeError)
_DECIMAL_COMMA = re.compile(r"\d,\d")


class WideTable:
    """Read a wide table, CSV or Parquet, as a stream of readings.

    Args:
        path: The file: commas, semicolons, tabs or bars between columns, a header line, maybe gzip.
        time_column: The name of the column of times; None for the first.
        decimal: How decimals are written; "auto" takes a comma for one where a semicolon
            separates columns and a comma stands between digits in the first rows.

    Raises:
        DataError: If it has no column of that name, two of one name, or none but times.
    """

    def __init__(
        self, path: Path, *, time_column: str | None = None, decimal: Decimal = "auto"
    ) -> None:
        self.path = path
        names, self._separator = header_of(path)
        self._place = 0
        if time_column is not None:
            if time_column not in names:
                raise DataError(f"{path} has no column {time_column!r}; check --time-column.")
            self._place = names.index(time_column)
        self.names = tuple(name for place, name in enumerate(names) if place != self._place)
        if not self.names:
            raise DataError(f"{path} has no column beside the times; give one column per device.")
        double = {name for name in self.names if self.names.count(name) > 1}
        if double:
            raise DataError(f"{path} has two columns named {min(double)!r}; keep one.")
        if "" in self.names:
            raise DataError(f"{path} has a column without a name; name every device's column.")
        self._columns = names
        self._time = TimeColumn(names[self._place] or "time")
        self._is_comma = decimal == "comma" or (
            decimal == "auto" and self._separator == ";" and _has_decimal_comma(path)
        )
        self.share_read = 0.0

    @property
    def notes(self) -> list[str]:
        """What a reader should know about how the columns were understood."""
        commas = ["commas in numbers are read as decimal commas."] if self._is_comma else []
        return [*commas, *self._time.notes]

    def batches(self) -> Iterator[Rows]:
        """Read the readings from the start.

        Yields:
            The readings of some rows, by time and then device.

        Raises:
            DataError: If a row cannot be used, time does not go forward, or no row has a reading.
        """
        row = readings = 0
        last = -(1 << 62)
        for columns in self._record_batches():
            times = self._time.milliseconds(columns[self._place], first_row=row + 1)
            back = np.flatnonzero(np.diff(times, prepend=last) <= 0)
            if len(back):
                raise DataError(
                    f"row {row + int(back[0]) + 1} of {self.path} repeats a time or goes back; "
                    "sort the rows by time and keep one per time."
                )
            values, is_valid = self._values(columns, first_row=row + 1)
            row += len(times)
            last = int(times[-1]) if len(times) else last
            readings += int(is_valid.sum())
            devices = np.arange(len(self.names))
            yield Rows(
                np.repeat(times, len(devices)),
                np.tile(devices, len(times)),
                values.ravel(),
                is_valid.ravel(),
            )
        if not readings:
            raise DataError(f"{self.path} holds no reading; give a table with at least one.")

    def _values(
        self, columns: list[Any], *, first_row: int
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        shape = (len(columns[0]), len(self.names))
        values, is_valid = np.empty(shape), np.empty(shape, dtype=np.bool_)
        others = [place for place in range(len(columns)) if place != self._place]
        for column, place in enumerate(others):
            texts = columns[place]
            if self._is_comma:
                texts = pc.replace_substring(texts, ",", ".")
            values[:, column], is_valid[:, column] = values_of(
                texts, name=self.names[column], first_row=first_row
            )
        return values, is_valid

    def _record_batches(self) -> Iterator[list[Any]]:
        try:
            if self._separator is None:
                yield from self._parquet_batches()
            else:
                yield from self._csv_batches()
        except (pa.ArrowException, OSError) as error:
            row = wrong_row(error)
            if row is not None:
                raise DataError(
                    f"row {row} of {self.path} has another number of columns than the "
                    "header; mend the row."
                ) from error
            raise DataError(
                f"{self.path} cannot be read to its end; save it again as UTF-8 text or Parquet."
            ) from error

    def _parquet_batches(self) -> Iterator[list[Any]]:
        with pyarrow.parquet.ParquetFile(
            self.path, buffer_size=_BLOCK_BYTES, pre_buffer=False
        ) as file:
            done = 0
            for batch in file.iter_batches(max(_PARQUET_CELLS // len(self._columns), 1)):
                done += batch.num_rows
                self.share_read = done / file.metadata.num_rows
                yield batch.columns

    def _csv_batches(self) -> Iterator[list[Any]]:
        size = self.path.stat().st_size
        # Columns are renamed to their places: a header may repeat a name or leave one out.
        places = [str(place) for place in range(len(self._columns))]
        with pa.OSFile(str(self.path)) as file:
            reader = pyarrow.csv.open_csv(
                pa.CompressedInputStream(file, "gzip") if _is_gzip(self.path) else file,
                read_options=pyarrow.csv.ReadOptions(
                    use_threads=False, block_size=_BLOCK_BYTES, skip_rows=1, column_names=places
                ),
                parse_options=pyarrow.csv.ParseOptions(delimiter=self._separator),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(places, pa.string()),
                    null_values=["", "NA", "NaN", "nan", "?"],
                    strings_can_be_null=True,
                ),
            )
            for batch in reader:
                self.share_read = file.tell() / size
                yield batch.columns


def header_of(path: Path) -> tuple[list[str], str | None]:
    """Return the names of a table's columns, and what separates them; None for Parquet.

    Raises:
        DataError: If the file cannot be opened, or is neither text nor Parquet.
    """
    try:
        with path.open("rb") as raw:
            if raw.read(4) == b"PAR1":
                return list(pyarrow.parquet.read_schema(path).names), None
        with _opened(path) as file:
            line = file.readline(_BLOCK_BYTES).decode("utf-8-sig").strip("\r\n")
        separator = max(_SEPARATORS, key=line.count)
        names = next(csv.reader([line], delimiter=separator), [])
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}; check the path.") from error
    except (*_UNREADABLE, csv.Error, pa.ArrowException) as error:
        raise DataError(
            f"{path} cannot be read as a table; save it as CSV (UTF-8) or Parquet."
        ) from error
    if not line.strip():
        raise DataError(f"{path} has no header line; give a table with at least one reading.")
    return [name.strip() for name in names], separator


def _has_decimal_comma(path: Path) -> bool:
    try:
        with _opened(path) as file:
            file.readline(_BLOCK_BYTES)
            return any(
                _DECIMAL_COMMA.search(file.readline(_BLOCK_BYTES).decode("utf-8", "replace"))
                for _ in range(100)
            )
    except _UNREADABLE:
        # Reading all of it will say what is wrong.
        return False


def _opened(path: Path) -> BinaryIO | gzip.GzipFile:
    if _is_gzip(path):
        return gzip.open(path, "rb")
    return path.open("rb")


def _is_gzip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"
