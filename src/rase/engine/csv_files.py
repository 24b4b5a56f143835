"""Text files of a table, one after the other, as a stream of checked columns."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from rase.engine.arrow import CsvFile
from rase.engine.columns import DeviceCodes, TimeColumn, values_of
from rase.engine.files import Files
from rase.engine.table import Rows
from rase.errors import DataError

__all__ = ["CsvTable"]


class CsvTable:
    """Read text files in the order of their paths; a source of rows for rase.engine.stream.

    Args:
        files: The files.

    Raises:
        DataError: If a header lacks a column. Files that cannot be read are skipped if ``files``
            says so.
    """

    def __init__(self, files: Files) -> None:
        self.bad = len(files.bad)
        self._files = files
        self._time = TimeColumn(files.columns.time)
        self._codes = DeviceCodes(files.columns.device)
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
    def device_codes(self) -> dict[str, int]:
        """The code of every device seen so far, in the order of first appearance."""
        return self._codes.by_name

    @property
    def notes(self) -> list[str]:
        """What a reader should know about how the columns were understood."""
        return self._time.notes

    @property
    def share_read(self) -> float:
        """How much of the files the current reading has passed, from 0 to 1."""
        total = sum(file.size for file in self._files.files)
        inside = 0.0
        if self._current is not None:
            inside = self._current.share_read * self._current.size
        return min((self._bytes_before + inside) / max(total, 1), 1.0)

    def batches(self) -> Iterator[Rows]:
        """Read the rows from the start of the first file to the end of the last.

        Raises:
            DataError: If a row cannot be used, or no row holds a reading.
        """
        rows = readings = 0
        self._bytes_before = 0
        for file in self._opened:
            self._current = file
            for batch in self._batches(file):
                rows += len(batch)
                readings += int(np.count_nonzero(batch.is_valid))
                yield batch
            self._bytes_before += file.size
            self._current = None
        if not rows:
            raise DataError(
                f"{self._files.place} holds no rows; give a table with at least one reading."
            )
        if not readings:
            raise DataError(
                f"column {self._files.columns.value!r} of {self._files.place} is empty in all "
                f"{rows} rows; give a table with at least one reading."
            )

    def _batches(self, file: CsvFile) -> Iterator[Rows]:
        row = 1
        try:
            for time, device, value in file.batches():
                values, is_valid = values_of(value, name=self._files.columns.value, first_row=row)
                batch = Rows(
                    self._time.milliseconds(time, first_row=row),
                    self._codes.codes(device, first_row=row),
                    values,
                    is_valid,
                )
                row += len(batch)
                yield batch
        except DataError as error:
            if len(self._opened) == 1 or str(file.path) in str(error):
                raise
            raise DataError(f"{file.path}: {error}") from error
