"""Which files make up a table: one, a folder, a glob; here or in an object store.

Local paths and the addresses that pyarrow knows (``s3://``, ``gs://``, ``abfs://``, ``hdfs://``,
``file://``) are listed alike. Files are recognised by their first bytes; a name can lie.
Which files a Delta table has now, its own log says: others in its folder hold rows of the past.
"""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final, Self
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs

from rase.errors import DataError
from rase.tables.columns import Hints
from rase.tables.layouts import Columns

__all__ = ["CATALOGUE", "Files", "Snapshot", "TableFile", "find_files", "read_log"]

_SNIFFED_BYTES = 4096
# At least two letters: one may be a drive.
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
# What a compressed text begins with, and what pyarrow calls the way it was compressed.
_WIDE_LETTERS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}
_KINDS = {"parquet": "Parquet", "csv": "CSV", "sheet": "spreadsheets"}
# Spreadsheets of both kinds are archives of several files.
_ARCHIVE = b"PK\x03\x04"
# What the name of a table in a cluster's catalogue begins with, in place of a path.
CATALOGUE: Final = "table:"
_OF_DELTA = "Give the folder of the whole table, on this machine; or write"
# Folders that hold the log of a table: its format, and what lies in a folder that is one.
_TABLE_LOGS = {
    "_delta_log": ("Delta", "*"),
    "metadata": ("Iceberg", "*.metadata.json*"),
    ".hoodie": ("Hudi", "*"),
}
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


@dataclass(frozen=True, slots=True)
class TableFile:
    """Describe one file of a table.

    Args:
        path: Its path in its file system.
        size: Its length in bytes.
        modified_ns: When it was last changed; 0 where the store does not say.
        kind: "parquet", "csv" or "sheet".
        compression: How a text was compressed; None if it was not.
        encoding: How a text was written as bytes.
    """

    path: str
    size: int
    modified_ns: int
    kind: str
    compression: str | None = None
    encoding: str = "utf-8"

    @property
    def partition(self) -> dict[str, str]:
        """The columns that Hive keeps in the path, as in ``region=north/day=2024-01-01``."""
        parts = (part.partition("=") for part in PurePosixPath(self.path).parent.parts)
        return {name: value for name, mark, value in parts if mark and name}


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a table, in the order in which their rows count.

    Args:
        place: What was asked for, as it was typed.
        files: The files by path, all of one kind.
        columns: How the columns are called.
        skips_bad: Whether what cannot be read is left out and counted, instead of refused.
        bad: What was left out already, because it is no table at all.
        hints: What the user says about the way the table is written.
        held: The bytes of a table that can be read only once, such as standard input.
        snapshot: Which state of the table its log names, where it has one.
    """

    place: str
    files: tuple[TableFile, ...]
    columns: Columns = field(default_factory=Columns)
    skips_bad: bool = False
    bad: tuple[str, ...] = ()
    hints: Hints = field(default_factory=Hints)
    held: bytes | None = field(default=None, repr=False)
    snapshot: Snapshot | None = None

    def __post_init__(self) -> None:
        """Refuse files of several kinds."""
        if not self.files:
            raise DataError(f"{self.place} holds no tables; give CSV or Parquet files.")
        kinds = {_KINDS[file.kind]: file.path for file in self.files}
        if len(kinds) > 1:
            mixed = " and ".join(f"{kind} ({kinds[kind]})" for kind in sorted(kinds, reverse=True))
            raise DataError(
                f"{self.place} mixes {mixed}; give files of one kind, such as by a glob in quotes."
            )

    @property
    def name(self) -> str:
        """What to call the table in a line."""
        return PurePosixPath(self.place).name or self.place

    @property
    def listing(self) -> list[dict[str, Any]]:
        """Every file with its size and time of change, for a manifest."""
        return [
            {"path": file.path, "bytes": file.size, "modified_ns": file.modified_ns}
            for file in self.files
        ]

    @property
    def fingerprint(self) -> str:
        """A hash of the listing: another one where a file was added, taken away or changed."""
        return hashlib.sha256(json.dumps(self.listing).encode()).hexdigest()

    def absolute(self) -> Self:
        """Return the same with paths that hold in every folder of this machine."""
        if _ADDRESS.match(self.place):
            return self
        files = tuple(replace(one, path=str(Path(one.path).absolute())) for one in self.files)
        return replace(self, files=files)

    @contextmanager
    def opened(self, file: TableFile) -> Iterator[Any]:
        """Open a file for reading at any place in it.

        Raises:
            DataError: If the file cannot be opened.
        """
        if self.held is not None:
            yield pa.BufferReader(self.held)
            return
        try:
            handle = _file_system(self.place)[0].open_input_file(file.path)
        except OSError as error:
            raise DataError(f"{file.path} cannot be opened: {_reason(error)}.") from error
        with handle:
            yield handle


def find_files(
    place: str,
    *,
    columns: Columns | None = None,
    skips_bad: bool = False,
    hints: Hints | None = None,
    paths: Sequence[str] | None = None,
) -> Files:
    """List the files of a table.

    Args:
        place: A file, a folder (all below it counts, but names that begin with ``.`` or ``_``) or a
            glob; a local path or an address of an object store. ``-`` is standard input; it and
            pipes are held in memory, so that no reading is written to a disk.
        columns: How the columns are called.
        skips_bad: Whether files that are no tables are left out and counted.
        hints: What is known about the way the table is written.
        paths: Its files, where a catalogue names them.

    Raises:
        DataError: If there is nothing, or something that is no table.
    """
    if place == "-" or Path(place).is_fifo():
        return _read_pipe(place, columns or Columns(), hints or Hints())
    if place.startswith(CATALOGUE) and not Path(place).exists():
        raise DataError(
            f"{place} is a table of a cluster's catalogue, which Spark knows; add --engine spark "
            "and --master, or give the folder of its files."
        )
    system, base = _file_system(place)
    found, bad = [], []
    snapshot, infos = None, [] if paths is None else _files_at(paths)
    if paths is None:
        snapshot, infos = _by_log(system, base)
        infos = _list_folder(system, base, place) if snapshot is None else infos
    for info in infos:
        try:
            found.append(_table_file(system, info))
        except DataError:
            if not skips_bad:
                raise
            bad.append(info.path)
    return Files(
        place,
        tuple(found),
        columns or Columns(),
        skips_bad,
        tuple(bad),
        hints or Hints(),
        snapshot=snapshot,
    )


def _files_at(paths: Sequence[str]) -> list[Any]:
    infos = [system.get_file_info(path) for system, path in map(_file_system, paths)]
    return sorted(infos, key=lambda info: info.path)


def _by_log(system: Any, base: str) -> tuple[Snapshot | None, list[Any]]:
    """Return the state of a Delta table on this machine, and its files; None for other places."""
    is_local = isinstance(system, pyarrow.fs.LocalFileSystem)
    log = Path(base) / "_delta_log"
    if not (is_local and log.is_dir() and any(log.iterdir())):
        return None, []
    snapshot, paths = read_log(base)
    return snapshot, sorted(system.get_file_info(paths), key=lambda info: info.path)


def _read_pipe(place: str, columns: Columns, hints: Hints) -> Files:
    """Read all of standard input or of a pipe."""
    try:
        content = sys.stdin.buffer.read() if place == "-" else Path(place).read_bytes()
    except OSError as error:
        raise DataError(f"{place} cannot be read: {_reason(error)}.") from error
    name = "standard input" if place == "-" else place
    # What has no time of change is known by its content.
    known = int.from_bytes(hashlib.sha256(content).digest()[:7])
    file = _file_of(name, content[:_SNIFFED_BYTES], size=len(content), modified=known)
    return Files(name, (file,), columns, hints=hints, held=content)


def _file_system(place: str) -> tuple[Any, str]:
    if not _ADDRESS.match(place):
        return pyarrow.fs.LocalFileSystem(), place
    try:
        system, path = pyarrow.fs.FileSystem.from_uri(place)
    except (pa.ArrowException, OSError, ValueError) as error:
        if "Unrecognized filesystem" in str(error):
            raise DataError(
                f"{place} lies in a store that pyarrow does not know; use s3://, gs://, abfs://, "
                "hdfs:// or file://, or copy the files."
            ) from error
        raise DataError(f"{place} cannot be reached: {_reason(error)}.") from error
    return system, path


def _list_folder(system: Any, base: str, place: str) -> list[Any]:
    is_local = isinstance(system, pyarrow.fs.LocalFileSystem)
    try:
        if any(mark in base for mark in "*?[") and not (is_local and Path(base).exists()):
            infos = _match_pattern(system, base, is_local=is_local)
        else:
            infos = [system.get_file_info(base)]
            if infos[0].type == pyarrow.fs.FileType.Directory:
                infos = _below(system, base, place)
    except OSError as error:
        raise DataError(f"{place} cannot be listed: {_reason(error)}.") from error
    if not infos or infos[0].type == pyarrow.fs.FileType.NotFound:
        raise DataError(f"there is no file {place}; check the path.")
    # Who names one file of a table means that file.
    if infos[0].path != base:
        _refuse_table_logs(system, infos, place)
    return sorted(infos, key=lambda info: info.path)


def _match_pattern(system: Any, pattern: str, *, is_local: bool) -> list[Any]:
    if is_local:
        # Absolute patterns are no business of Path.glob.
        found = glob.glob(pattern, recursive=True)  # noqa: PTH207
        paths = [path for path in found if Path(path).is_file()]
        return list(system.get_file_info(paths)) if paths else []
    fixed = PurePosixPath(pattern)
    while any(mark in str(fixed) for mark in "*?["):
        fixed = fixed.parent
    infos = system.get_file_info(pyarrow.fs.FileSelector(str(fixed), recursive=True))
    return [info for info in infos if info.is_file and fnmatch.fnmatch(info.path, pattern)]


def _below(system: Any, base: str, place: str) -> list[Any]:
    infos = system.get_file_info(pyarrow.fs.FileSelector(base, recursive=True))
    root = PurePosixPath(base)
    shown = [info for info in infos if info.is_file and not _is_hidden(info.path, root)]
    if not shown:
        raise DataError(f"the folder {place} holds no tables; give CSV or Parquet files.")
    return shown


def _refuse_table_logs(system: Any, infos: Sequence[Any], place: str) -> None:
    """Refuse files of a table whose log says which of them count: some may be deleted rows."""
    folders = {parent for info in infos for parent in PurePosixPath(info.path).parents}
    logs = [str(folder / name) for folder in sorted(folders) for name in _TABLE_LOGS]
    for info in system.get_file_info(logs):
        if info.type != pyarrow.fs.FileType.Directory:
            continue
        format_, sign = _TABLE_LOGS[PurePosixPath(info.path).name]
        inside = system.get_file_info(pyarrow.fs.FileSelector(info.path))
        if any(fnmatch.fnmatch(PurePosixPath(one.path).name, sign) for one in inside):
            raise DataError(
                f"{place} belongs to a table of {format_}: its log, {info.path}, says which files "
                f"count, and is not read here. {_OF_DELTA if format_ == 'Delta' else 'Write'} its "
                "current rows as Parquet into a folder of their own, and give that."
            )


def _is_hidden(path: str, root: PurePosixPath) -> bool:
    parts = PurePosixPath(path).parts[len(root.parts) :]
    return any(part.startswith((".", "_")) for part in parts)


def _table_file(system: Any, info: Any) -> TableFile:
    path = info.path
    is_local = isinstance(system, pyarrow.fs.LocalFileSystem)
    try:
        # By Python where possible: what waits for a pipe can then be interrupted.
        with Path(path).open("rb") if is_local else system.open_input_file(path) as file:
            head = file.read(_SNIFFED_BYTES)
    except OSError as error:
        raise DataError(f"{path} cannot be opened: {_reason(error)}.") from error
    modified = 0 if info.mtime_ns is None else int(info.mtime_ns)
    return _file_of(path, head, size=info.size, modified=modified)


def _file_of(path: str, head: bytes, *, size: int, modified: int) -> TableFile:
    """Return what a file is by its first bytes."""
    if not head:
        raise DataError(f"{path} is empty; give a table with at least one reading.")
    if head.startswith(b"PAR1"):
        return TableFile(path, size, modified, "parquet")
    if PurePosixPath(path).suffix in {".parquet", ".pq"}:
        raise DataError(f"{path} is not Parquet, whatever its name says; write the file again.")
    for magic, compression in _COMPRESSED.items():
        if head.startswith(magic):
            return TableFile(path, size, modified, "csv", compression)
    for mark, encoding in _WIDE_LETTERS.items():
        if head.startswith(mark):
            return TableFile(path, size, modified, "csv", encoding=encoding)
    if head.startswith(_ARCHIVE):
        return TableFile(path, size, modified, "sheet")
    if b"\0" in head:
        raise DataError(
            f"{path} is neither text nor Parquet; save the table as CSV (UTF-8) or Parquet."
        )
    return TableFile(path, size, modified, "csv")


def _reason(error: Exception) -> str:
    """Return why a file system refuses, in one line and without a full stop."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()).rstrip(".")


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
