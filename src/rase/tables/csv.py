"""Three columns of a CSV file, batch by batch.

Messages of the reader underneath are not passed on: they quote rows of the table.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from rase.errors import DataError

__all__ = ["CsvFile", "match_columns", "wrong_row"]

_Columns = tuple[Any, Any, Any]

_BLOCK_BYTES = 1 << 20
_NAMES_SHOWN = 10


class CsvFile:
    """Read a CSV file, plain or compressed, by blocks of bytes.

    All columns are read as texts and converted later: guessing types from the first block fails
    when a later one looks different.
    """

    def __init__(
        self,
        path: Path,
        wanted: Sequence[str],
        *,
        compression: str | None,
        opened: Callable[[], AbstractContextManager[Any]] | None = None,
    ) -> None:
        self.path = path
        self._compression = compression
        self._opened = opened or (lambda: pa.OSFile(str(path)))
        self._bytes_read = 0
        with self._opened() as file:
            self._bytes: int = file.size()
            schema = self._reader(file, None).schema
        try:
            names = schema.names
        except UnicodeDecodeError as error:
            raise self._unreadable(error) from error
        self._wanted = match_columns(names, wanted, path)

    @property
    def size(self) -> int:
        """How many bytes the file has."""
        return self._bytes

    @property
    def share_read(self) -> float:
        """How much of the file the current reading has passed."""
        return self._bytes_read / self._bytes

    def batches(self) -> Iterator[_Columns]:
        """Yield the wanted columns as texts."""
        with self._opened() as file:
            reader = self._reader(file, self._wanted)
            while True:
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
                except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
                    raise self._unreadable(error) from error
                self._bytes_read = file.tell()
                yield _columns(batch, self._wanted)

    def _reader(self, file: Any, wanted: list[str] | None) -> Any:
        text = {} if wanted is None else dict.fromkeys(wanted, pa.string())
        try:
            return pyarrow.csv.open_csv(
                pa.CompressedInputStream(file, self._compression) if self._compression else file,
                read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
                parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types=text,
                    include_columns=wanted,
                    null_values=[""],
                    strings_can_be_null=True,
                ),
            )
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> DataError:
        row = wrong_row(error)
        if row is not None:
            return DataError(
                f"row {row} of {self.path} has another number of columns than the "
                "header; fix the row."
            )
        if "Empty CSV" in str(error):
            return DataError(f"{self.path} holds no rows; give a table with at least one reading.")
        if self._compression is not None and "Truncated" in str(error):
            return DataError(f"{self.path} is cut off; copy or compress it again.")
        return DataError(
            f"{self.path} cannot be read as CSV with a header line; save it as UTF-8 text with "
            "columns separated by commas, or as Parquet."
        )


def wrong_row(error: Exception) -> int | None:
    """Return which row has another number of columns, if that is what the reader says; else None.

    Arrow would also hand such a row to a function of ours, but decodes it first: for a row that is
    not UTF-8 that ends in a traceback on the terminal, which shows readings.
    """
    found = re.match(r"CSV parse error: Row #(\d+): Expected", str(error))
    # The header is row 1 for the reader underneath, row 0 for us.
    return None if found is None else int(found.group(1)) - 1


def match_columns(names: list[str], wanted: Sequence[str], path: Path | str) -> list[str]:
    """Return the names of the wanted columns as the file spells them.

    Raises:
        DataError: If one is missing or occurs twice.
    """
    found = []
    roles = ("time", "device", "value")
    for role, name in zip(roles[: len(wanted)], wanted, strict=True):
        spelled = [given for given in names if given.strip() == name]
        if len(spelled) > 1:
            raise DataError(f"{path} has {len(spelled)} columns named {name!r}; keep one.")
        if not spelled:
            raise DataError(_missing(names, name, role=role, path=path))
        found += spelled
    return found


def _missing(names: list[str], name: str, *, role: str, path: Path | str) -> str:
    # Where the header is missing its place is taken by a row of readings, which must not be shown.
    if any(_is_number(given) for given in names):
        return f"{path} has no header line; write one above the rows: time,device,value."
    shown = ", ".join(map(repr, names[:_NAMES_SHOWN]))
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    message = f"{path} has no column {name!r}; it has {shown}{more}"
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        return f"{message}: separate the columns by commas."
    by_lower = {given.strip().lower(): given.strip() for given in names}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    meant = f": did you mean {by_lower[close[0]]!r}?" if close else "."
    return f"{message}{meant} Choose the column with --{role}-column."


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _columns(batch: Any, wanted: list[str]) -> _Columns:
    time, device, value = (batch.column(batch.schema.get_field_index(name)) for name in wanted)
    return time, device, value
