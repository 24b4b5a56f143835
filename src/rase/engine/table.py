"""Open a table of readings, CSV or Parquet, as a stream of checked columns.

The file is read in batches, so memory does not depend on its length. What cannot be used is
refused with one line that says where it is and what to do, and shows no reading.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rase.errors import DataError

if TYPE_CHECKING:
    from rase.engine.arrow import ArrowFile
    from rase.engine.columns import DeviceCodes, TimeColumn

__all__ = ["Rows", "Table", "checked_rows", "open_table", "some_readings"]

_SNIFFED_BYTES = 4096


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Rows:
    """Hold a batch of rows as four columns of one length; without ``repr``, for they are readings.

    Args:
        time_ms: Milliseconds since 1970 (UTC).
        device: The code of the row's device: 0, 1, ... in the order of first appearance.
        value: The reading, finite; 0 where there is none.
        is_valid: False where the row holds no reading.
    """

    time_ms: NDArray[np.int64]
    device: NDArray[np.int64]
    value: NDArray[np.float64]
    is_valid: NDArray[np.bool_]

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self.time_ms)


def open_table(
    path: str | PathLike[str],
    *,
    time_column: str = "time",
    device_column: str = "device",
    value_column: str = "value",
    batch_rows: int = 65_536,
) -> "Table":
    """Open a file of readings: ``.csv``, ``.csv.gz`` or ``.parquet``, recognised by its content.

    Times may be timestamps, dates, ISO texts or whole numbers since 1970 (seconds, or milliseconds
    where larger than 1e11); those without a zone count as UTC. Devices may be texts or whole
    numbers. Empty values are readings that were not taken.

    Args:
        path: The file.
        time_column: Name of the column of times.
        device_column: Name of the column of device identities.
        value_column: Name of the column of readings.
        batch_rows: How many rows of a Parquet file are read at once.

    Returns:
        The table, of which nothing but the header has been read.

    Raises:
        DataError: If the file cannot be read as a table with these columns, or pyarrow is missing.
    """
    try:
        from rase.engine.arrow import ArrowFile, CsvFile, ParquetFile
        from rase.engine.columns import DeviceCodes, TimeColumn
    except ModuleNotFoundError as error:
        raise DataError(
            'reading tables needs pyarrow; install it with: pip install "rase-iot[batch]".'
        ) from error
    place = Path(path)
    wanted = (time_column, device_column, value_column)
    file: ArrowFile
    match _kind(place):
        case "parquet":
            file = ParquetFile(place, wanted, batch_rows)
        case kind:
            file = CsvFile(place, wanted, compression="gzip" if kind == "gzip" else None)
    return Table(
        file, time=TimeColumn(time_column), codes=DeviceCodes(device_column), value=value_column
    )


class Table:
    """A table of readings that can be read from the start any number of times; see `open_table`."""

    def __init__(
        self, file: "ArrowFile", *, time: "TimeColumn", codes: "DeviceCodes", value: str
    ) -> None:
        self._file = file
        self._time = time
        self._codes = codes
        self._value = value

    @property
    def path(self) -> Path:
        """Where the table lies."""
        return self._file.path

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
        """How much of the file the current reading has passed, from 0 to 1."""
        return self._file.share_read

    def batches(self) -> Iterator[Rows]:
        """Read the rows from the start.

        Yields:
            Batches of rows in the order of the file.

        Raises:
            DataError: If a row cannot be used, or no row holds a reading.
        """
        rows = checked_rows(self._file, time=self._time, codes=self._codes, value=self._value)
        yield from some_readings(rows, value=self._value, place=self.path)


def checked_rows(
    file: "ArrowFile", *, time: "TimeColumn", codes: "DeviceCodes", value: str
) -> Iterator[Rows]:
    """Read the rows of one file from its start.

    Args:
        file: The file.
        time: Reads its times.
        codes: Knows its devices.
        value: The name of its column of readings.

    Raises:
        DataError: If a row cannot be used.
    """
    from rase.engine.columns import values_of

    row = 1
    for times, devices, column in file.batches():
        values, is_valid = values_of(column, name=value, first_row=row)
        batch = Rows(
            time.milliseconds(times, first_row=row),
            codes.codes(devices, first_row=row),
            values,
            is_valid,
        )
        row += len(batch)
        yield batch


def some_readings(batches: Iterable[Rows], *, value: str, place: object) -> Iterator[Rows]:
    """Pass the rows of a table on, and refuse it at its end if there was no reading.

    Args:
        batches: The rows.
        value: The name of the column of readings.
        place: What to call the table.

    Raises:
        DataError: If no row holds a reading.
    """
    rows = readings = 0
    for batch in batches:
        rows += len(batch)
        readings += int(np.count_nonzero(batch.is_valid))
        yield batch
    if not rows:
        raise DataError(f"{place} holds no rows; give a table with at least one reading.")
    if not readings:
        raise DataError(
            f"column {value!r} of {place} is empty in all {rows} rows; "
            "give a table with at least one reading."
        )


def _kind(path: Path) -> str:
    """Tell the kind of a file by its first bytes; a name can lie."""
    if path.is_dir():
        raise DataError(f"{path} is a directory; give one CSV or Parquet file.")
    try:
        with path.open("rb") as file:
            head = file.read(_SNIFFED_BYTES)
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}; check the path.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be opened: {error.strerror}.") from error
    if not head:
        raise DataError(f"{path} is empty; give a table with at least one reading.")
    if head.startswith(b"PAR1"):
        return "parquet"
    if path.suffix in {".parquet", ".pq"}:
        raise DataError(f"{path} is not Parquet, whatever its name says; write the file again.")
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    if b"\0" in head:
        raise DataError(
            f"{path} is neither text nor Parquet; save the table as CSV (UTF-8) or Parquet."
        )
    return "csv"
