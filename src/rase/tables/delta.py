"""Which files a Delta table has now, by its own log: others in its folder hold rows of the past."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from rase.errors import DataError

__all__ = ["Snapshot", "read_log"]

# What a table may ask of its readers that changes nothing in which rows its files hold.
_HARMLESS = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Name the state of a table that was read.

    Args:
        format: Whose log it was.
        table: The table's own id.
        version: The number of the state.
    """

    format: str
    table: str
    version: int


def read_log(folder: str) -> tuple[Snapshot, list[str]]:
    """Return the latest state of a table, and its files.

    Args:
        folder: The table's folder, which holds its log.

    Raises:
        DataError: If the log cannot be read, or asks for what is not understood here.
    """
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ModuleNotFoundError as error:
        raise DataError(
            f"{folder} is a table of Delta, whose log says which files count; to read it "
            'pip install "rase-iot[delta]", or write its current rows as Parquet elsewhere.'
        ) from error
    try:
        table = DeltaTable(folder)
        _check_readable(folder, table)
        # In the log paths are written as in an address.
        kept = pa.table(table.get_add_actions()).column("path").to_pylist()
        paths = [str(Path(folder) / unquote(path)) for path in kept]
        return Snapshot("delta", str(table.metadata().id), table.version()), paths
    except (DeltaError, OSError, ValueError) as error:
        raise DataError(
            f"the log of the Delta table {folder} cannot be read; look at it with Delta's own "
            "tools, or write its current rows as Parquet elsewhere."
        ) from error


def _check_readable(folder: str, table: Any) -> None:
    """Refuse tables whose files hold rows that do not count, or columns by other names."""
    protocol, settings = table.protocol(), table.metadata().configuration
    asked = set(protocol.reader_features or ()) - _HARMLESS
    if settings.get("delta.columnMapping.mode", "none") != "none":
        asked.add("columnMapping")
    if asked:
        raise DataError(
            f"the Delta table {folder} uses {', '.join(sorted(asked))}, which is not understood "
            "here; write its current rows as Parquet elsewhere."
        )
