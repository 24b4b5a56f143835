"""Readings from a column of a CSV file, a row each time it is asked; a growing file goes on."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rase.device.sources.interface import Reading, SourceFailed, reading_in

if TYPE_CHECKING:
    from rase.device.settings import SourceSettings
    from rase.transport.broker import Broker

__all__ = ["CsvSource"]


class CsvSource:
    """Read the next row of a file with a header line.

    At the end of the file there is no reading, until a row is appended.

    Args:
        path: The file.
        column: The name of the column.
        scale: What its numbers are multiplied by.
        states: The names of states by what is said, where it is states; None for numbers.

    Raises:
        SourceFailed: If there is no such file or column.
    """

    KIND = "csv"

    def __init__(
        self,
        path: Path,
        column: str,
        *,
        scale: float = 1.0,
        states: Mapping[str, str] | None = None,
    ) -> None:
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise SourceFailed(self.KIND, f"{path}: {error.strerror}.") from None
        names = _fields(self._line().decode("utf-8-sig", "replace"))
        if column not in names:
            self._file.close()
            raise SourceFailed(self.KIND, f"{path} must have a column {column!r}.")
        self._place = names.index(column)
        self._scale = scale
        self._states = states

    @classmethod
    def from_settings(
        cls, settings: "SourceSettings", *, folder: Path, home: "Broker | None" = None
    ) -> "CsvSource":
        """Make the source that the section [source] describes."""
        return cls(
            folder / (settings.path or ""),
            settings.column or "",
            scale=settings.scale,
            states=settings.states,
        )

    def read(self) -> list[Reading]:
        """Return the reading of the next row.

        Raises:
            SourceFailed: If the file cannot be read, or the row has no number there; the one after
                it is next.
        """
        line = self._line()
        if not line.strip():
            return []
        try:
            row = _fields(line.decode())
        except ValueError:
            raise SourceFailed(self.KIND, "must be text in UTF-8.") from None
        if len(row) <= self._place:
            raise SourceFailed(self.KIND, "a row is too short.")
        return [reading_in(self.KIND, row[self._place], scale=self._scale, states=self._states)]

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _line(self) -> bytes:
        """Return the next whole line; a line that is being written is left for later."""
        try:
            start = self._file.tell()
            line = self._file.readline()
            if line.endswith(b"\n"):
                return line
            self._file.seek(start)
        except OSError as error:
            # The disk that it is on may have been taken away.
            raise SourceFailed(self.KIND, f"cannot be read: {error.strerror}.") from None
        return b""


def _fields(line: str) -> list[str]:
    """Return the fields of a line; none if the csv module cannot tell them apart."""
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        # A lone carriage return within a line, or a field of more than 131072 characters.
        return []
