"""The files of a table as one stream of checked columns, in the order of their paths.

For text, and for what needs the order; Parquet is otherwise read in pieces (`rase.engine.local`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rase.engine.arrow import CsvFile
from rase.engine.buckets import check_zones
from rase.engine.columns import DeviceCodes, TimeColumn, not_utf8
from rase.engine.files import Files
from rase.engine.footers import row_groups
from rase.engine.pieces import Piece
from rase.engine.reading import PieceRows, read_piece
from rase.engine.table import Rows, checked_rows, some_readings
from rase.errors import DataError

__all__ = ["CsvTable", "FilesTable", "ParquetTable", "in_order"]


class FilesTable(ABC):
    """The rows of files, which can be read from the start any number of times.

    Args:
        files: The files.

    Attributes:
        device_codes: The code of every device seen so far, in the order of first appearance.
        notes: What a reader should know about how the columns were understood.
        bad: How many files, and parts of files, could not be read so far.
    """

    def __init__(self, files: Files) -> None:
        self.device_codes: dict[str, int] = {}
        self.notes: list[str] = []
        self.bad = len(files.bad)
        self._files = files

    @property
    @abstractmethod
    def share_read(self) -> float:
        """How much of the files the current reading has passed, from 0 to 1."""

    def batches(self) -> Iterator[Rows]:
        """Read the rows from the start of the first file to the end of the last.

        Raises:
            DataError: If a row cannot be used, or no row holds a reading.
        """
        value = self._files.columns.value
        yield from some_readings(self._all_rows(), value=value, place=self._files.place)

    @abstractmethod
    def _all_rows(self) -> Iterator[Rows]:
        """Read the rows, whether or not there is a reading among them."""


def in_order(files: Files) -> FilesTable:
    """Return the table that files make up.

    Raises:
        DataError: If a file cannot be read as a table with these columns.
    """
    return CsvTable(files) if files.kind == "csv" else ParquetTable(files)


class CsvTable(FilesTable):
    """Read text files in the order of their paths; a source of rows for rase.engine.stream.

    Args:
        files: The files.

    Raises:
        DataError: If a header lacks a column. Files that cannot be read are skipped if ``files``
            says so.
    """

    def __init__(self, files: Files) -> None:
        super().__init__(files)
        self._time = TimeColumn(files.columns.time)
        self._codes = DeviceCodes(files.columns.device)
        self.device_codes, self.notes = self._codes.by_name, self._time.notes
        self._opened: list[CsvFile] = []
        self._bytes_before = 0
        self._current: CsvFile | None = None
        for file in files.files:
            try:
                self._opened.append(
                    CsvFile(
                        Path(file.path),
                        files.columns.names,
                        compression=file.compression,
                        opened=partial(files.opened, file),
                    )
                )
            except DataError:
                if not files.skips_bad:
                    raise
                self.bad += 1

    @property
    def share_read(self) -> float:
        """How much of the files the current reading has passed, from 0 to 1."""
        total = sum(file.size for file in self._files.files)
        inside = 0.0
        if self._current is not None:
            inside = self._current.share_read * self._current.size
        return min((self._bytes_before + inside) / max(total, 1), 1.0)

    def _all_rows(self) -> Iterator[Rows]:
        self._bytes_before = 0
        for file in self._opened:
            self._current = file
            yield from self._batches(file)
            self._bytes_before += file.size
            self._current = None

    def _batches(self, file: CsvFile) -> Iterator[Rows]:
        value = self._files.columns.value
        try:
            yield from checked_rows(file, time=self._time, codes=self._codes, value=value)
        except DataError as error:
            if len(self._opened) == 1 or str(file.path) in str(error):
                raise
            raise DataError(f"{file.path}: {error}") from error


class ParquetTable(FilesTable):
    """Read Parquet files in the order of their paths; a source of rows for rase.engine.stream.

    One row group is held at a time.

    Args:
        files: The files.

    Raises:
        DataError: If a footer cannot be read, lacks a column, or has columns of another kind than
            the first. Files that cannot be read are skipped if ``files`` says so.
    """

    def __init__(self, files: Files) -> None:
        super().__init__(files)
        self._groups, damaged = row_groups(files)
        self.bad += len(damaged)
        self._skipped: set[tuple[int, int]] = set()
        self._zones: set[bool] = set()
        self._rows = sum(group.rows for group in self._groups)
        self._rows_read = 0

    @property
    def share_read(self) -> float:
        """How much of the files the current reading has passed, from 0 to 1."""
        return self._rows_read / self._rows

    def _all_rows(self) -> Iterator[Rows]:
        self._rows_read = 0
        for group in self._groups:
            piece = Piece(0, (group,), rounds=None, devices=None, buckets=(0, 0))
            read = read_piece(self._files, piece, interval_ms=None)
            self._note(read)
            yield Rows(read.time_ms, self._codes(read), read.value, read.is_valid)
            self._rows_read += group.rows

    def _note(self, read: PieceRows) -> None:
        # A second reading skips the same again.
        self.bad += len(set(read.skipped) - self._skipped)
        self._skipped.update(read.skipped)
        self.notes += [note for note in read.notes if note not in self.notes]
        if read.has_zone is not None:
            self._zones.add(read.has_zone)
        check_zones(self._files, self._zones)

    def _codes(self, read: PieceRows) -> NDArray[np.int64]:
        """Return a code for each row that holds for all row groups, 0 for the first device seen."""
        known = self.device_codes
        try:
            read.names.validate(full=True)
        except pa.ArrowInvalid as error:
            raise not_utf8() from error
        present, first = np.unique(read.device, return_index=True)
        codes = np.zeros(len(read.names), dtype=np.int64)
        for code in present[np.argsort(first)]:
            codes[code] = known.setdefault(read.names[code].as_py(), len(known))
        return codes[read.device]
