"""What commands write: results as text, CSV, Parquet and JSON, each as it comes, and progress.

A file appears whole or not at all: it is written next to its place and renamed when all is done.
"""

import csv
import hashlib
import io
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar, Final, Protocol, TextIO, get_args

import click

from rase.answer import Answer, without_infinities
from rase.atomic_files import replacing, replacing_folder
from rase.domain import Categories, Domain
from rase.version import __version__

if TYPE_CHECKING:
    from rase.tables.files import Files
    from rase.tables.plan import RunPlan
    from rase.tables.quantities import Quantities

__all__ = [
    "WITHOUT",
    "JsonSink",
    "Row",
    "Sink",
    "TextSink",
    "as_json",
    "check_not_read",
    "check_out",
    "decimals_for",
    "file_sink",
    "manifest_path",
    "show_progress",
    "write_manifest",
]

Row = Mapping[str, Any]
_ENDINGS = (".csv", ".parquet", ".json")
_PARQUET_ROWS = 10_000
# What people see where a row has none of it: of all labels, or a mean among shares.
WITHOUT: Final = {"label": "all", "category": "mean"}
# A progress line comes after so long, is drawn again after so long, and has a bar of this width.
_PATIENCE_S = 2.0
_PAUSE_S = 0.1
_BAR = 30


class Sink(Protocol):
    """Something that takes rows of results, and at the end what there is to say of all of them."""

    def add(self, row: Row) -> None:
        """Take the next row."""

    def finish(self, tail: Mapping[str, Any]) -> None:
        """Write what is left; ``tail`` says what became of the whole run."""


def check_out(path: Path, *, is_folder: bool = False) -> None:
    """Refuse a place that cannot be written, before any work is done.

    Args:
        path: The file to be.
        is_folder: Whether it will be a folder of files, which must not be there yet.

    Raises:
        click.BadParameter: If the ending is unknown or the folder cannot be written to.
    """
    if is_folder:
        if path.exists():
            raise click.BadParameter(f"--out must be a folder that is not there yet, got {path}.")
        _check_writable(path)
        return
    if path.suffix not in _ENDINGS:
        raise click.BadParameter(f"--out must end in {', '.join(_ENDINGS)}, got {path.name!r}.")
    if path.is_dir():
        raise click.BadParameter(f"--out must be a file, got the folder {path}.")
    _check_writable(path)


def check_not_read(path: Path, read: Iterable[str | Path | None]) -> None:
    """Refuse to put results in the place of what they are made from: nobody could get it back.

    Args:
        path: The file to be.
        read: The files that are read; names that are no files are passed over.

    Raises:
        click.BadParameter: If the file is one of them.
    """
    for file in read:
        with suppress(OSError):
            if file is not None and path.samefile(file):
                raise click.BadParameter(f"--out must be another file than {file}, which is read.")


def _check_writable(path: Path) -> None:
    if not path.parent.is_dir():
        raise click.BadParameter(f"--out must lie in a folder that exists, got {path.parent}.")
    if not os.access(path.parent, os.W_OK):
        raise click.BadParameter(f"--out must lie in a folder you may write to, got {path.parent}.")


@contextmanager
def file_sink(
    path: Path, head: Mapping[str, Any], *, partition_by: str | None = None
) -> Iterator[Sink]:
    """Open a sink by the file's ending, which takes its place only if all went well.

    Args:
        path: The file to be.
        head: What describes the run; kept in formats that have a place for it.
        partition_by: "day", "month" or "year" for a folder with a Parquet file for each of these.
    """
    if partition_by is not None:
        with replacing_folder(path) as part:
            yield _FolderSink(part, head, partition_by)
        return
    with replacing(path) as file:
        if path.suffix == ".parquet":
            yield _ParquetSink(file, head)
            return
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        yield JsonSink(text, head) if path.suffix == ".json" else _CsvSink(text)
        text.flush()


@contextmanager
def show_progress(stream: TextIO | None = None) -> Iterator[Callable[..., None]]:
    """Draw how far work has come, if it takes longer than two seconds and somebody looks.

    Args:
        stream: Where to draw, stderr unless given; nothing is drawn unless it is a terminal.

    Yields:
        A function of what is being done, and how much of it is done (from 0 to 1, if that is
        known).
    """
    screen = sys.stderr if stream is None else stream
    if not screen.isatty():
        yield lambda _what, _share=None: None
        return
    begun_s = time.monotonic()
    drawn_s: list[float] = []

    def show(what: str, share: float | None = None) -> None:
        now_s = time.monotonic()
        if now_s < (drawn_s[-1] + _PAUSE_S if drawn_s else begun_s + _PATIENCE_S):
            return
        bar = ""
        if share is not None:
            done = round(_BAR * min(share, 1.0))
            bar = f" [{'#' * done}{' ' * (_BAR - done)}] {100 * share:3.0f} %"
        screen.write(f"\r\x1b[K{what}{bar}")
        screen.flush()
        drawn_s[:] = [now_s]

    try:
        yield show
    finally:
        if drawn_s:
            screen.write("\r\x1b[K")
            screen.flush()


class TextSink:
    """Write aligned columns for people.

    Args:
        stream: Where to write.
        widths: The columns, by name, and how wide each is; numbers stand right.
        decimals: How many decimals numbers have; by quantity where there are several.
    """

    def __init__(
        self, stream: TextIO, widths: Mapping[str, int], *, decimals: int | Mapping[str, int]
    ) -> None:
        self._stream = stream
        self._widths = widths
        self._decimals = decimals
        self._has_head = False

    def add(self, row: Row) -> None:
        """Write a line, before the first one the names of the columns."""
        lines = [self._cells(row)] if self._has_head else [list(self._widths), self._cells(row)]
        self._has_head = True
        for cells in lines:
            padded = (
                text.ljust(width)
                if isinstance(row[name], str) or name in WITHOUT
                else text.rjust(width)
                for text, (name, width) in zip(cells, self._widths.items(), strict=True)
            )
            self._stream.write("  ".join(padded).rstrip() + "\n")

    def _cells(self, row: Row) -> list[str]:
        values = (
            WITHOUT.get(name, "unknown") if row[name] is None else row[name]
            for name in self._widths
        )
        decimals = self._decimals
        if not isinstance(decimals, int):
            decimals = decimals[row["quantity"]]
        return [
            f"{value:.{decimals}f}" if isinstance(value, float) else str(value) for value in values
        ]

    def finish(self, tail: Mapping[str, Any]) -> None:
        """Write nothing more; people read the rest on stderr."""
        self._stream.flush()


class JsonSink:
    """Write one JSON document without holding its rows.

    Args:
        stream: Where to write.
        head: The members before ``results``, ``schema`` among them.
    """

    def __init__(self, stream: TextIO, head: Mapping[str, Any]) -> None:
        self._stream = stream
        self._before = f'{as_json(head)[:-1]}, "results": [\n'

    def add(self, row: Row) -> None:
        """Write a row as an object."""
        self._stream.write(self._before + as_json(row))
        self._before = ",\n"

    def finish(self, tail: Mapping[str, Any]) -> None:
        """Close the list and add the members of ``tail``."""
        members = f", {as_json(tail)[1:]}" if tail else "}"
        self._stream.write(f"\n]{members}\n")
        self._stream.flush()


class _CsvSink:
    def __init__(self, stream: TextIO) -> None:
        self._writer = csv.writer(stream, lineterminator="\n")
        self._has_head = False

    def add(self, row: Row) -> None:
        if not self._has_head:
            self._writer.writerow(row)
            self._has_head = True
        self._writer.writerow(row.values())

    def finish(self, tail: Mapping[str, Any]) -> None:
        pass


class _ParquetSink:
    def __init__(self, file: IO[bytes], head: Mapping[str, Any]) -> None:
        self._file = file
        self._head = head
        self._rows: list[Row] = []
        self._writer: Any = None

    def add(self, row: Row) -> None:
        self._rows.append(row)
        if len(self._rows) >= _PARQUET_ROWS:
            self._write()

    def finish(self, tail: Mapping[str, Any]) -> None:
        if self._rows:
            self._write()
        self._writer.add_key_value_metadata({"rase": as_json({**self._head, **tail})})
        self._writer.close()

    def _write(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet

        table = pa.Table.from_pylist([dict(row) for row in self._rows])
        self._rows = []
        if self._writer is None:
            self._writer = pyarrow.parquet.ParquetWriter(self._file, _schema_of(table))
        # Errors may be unknown in these rows and known in those before.
        self._writer.write_table(table.cast(self._writer.schema))


def _schema_of(table: Any) -> Any:
    """Return the types of a table's columns; one that is empty so far has that of an answer."""
    import pyarrow as pa

    numbers = {one.name for one in fields(Answer) if float in get_args(one.type)}
    return pa.schema(
        one.with_type(pa.float64() if one.name in numbers else pa.string())
        if pa.types.is_null(one.type)
        else one
        for one in table.schema
    )


class _FolderSink:
    """Write a Hive-partitioned folder of Parquet files."""

    _LENGTHS: ClassVar = {"year": 4, "month": 7, "day": 10}

    def __init__(self, folder: Path, head: Mapping[str, Any], partition_by: str) -> None:
        self._folder = folder
        self._head = head
        self._name = partition_by
        self._rows: dict[str, list[Row]] = {}

    def add(self, row: Row) -> None:
        part = str(row["time"])[: self._LENGTHS[self._name]]
        self._rows.setdefault(part, []).append(row)

    def finish(self, tail: Mapping[str, Any]) -> None:
        for part, rows in self._rows.items():
            folder = self._folder / f"{self._name}={part}"
            folder.mkdir()
            with (folder / "part-0.parquet").open("wb") as file:
                sink = _ParquetSink(file, self._head)
                for row in rows:
                    sink.add(row)
                sink.finish(tail)


def as_json(value: Any, *, indent: int | None = None) -> str:
    """Return a value as JSON text; an infinite error is null there."""
    return json.dumps(without_infinities(value), indent=indent, ensure_ascii=False, allow_nan=False)


def write_manifest(
    out: Path,
    files: "Files",
    *,
    head: Mapping[str, Any],
    plan: "RunPlan | Quantities",
    tail: Mapping[str, Any],
    engine: str,
) -> Path:
    """Write the manifest of results that are in their place: what was done to which files.

    Args:
        out: The file or folder of results.
        files: The table.
        head: What was asked.
        plan: What was done.
        tail: What became of it, with which guarantees.
        engine: Where it was done.

    Returns:
        Where the manifest is.
    """
    path = manifest_path(out)
    content = {
        "schema": "rase.run.manifest/2",
        "version": __version__,
        "noise": "secure" if head["parameters"]["seed"] is None else "seeded, for study only",
        "engine": engine,
        "parameters": head["parameters"],
        "input": {
            "place": files.place,
            "kind": files.files[0].kind,
            "columns": list(files.columns),
            "hints": asdict(files.hints),
            "fingerprint": files.fingerprint,
            "files": files.listing,
            **({} if files.snapshot is None else {"snapshot": asdict(files.snapshot)}),
        },
        **plan.described(),
        **tail,
        "results": [
            {"file": str(file.relative_to(out.parent)), "sha256": _sha256(file)}
            for file in (sorted(out.rglob("*.parquet")) if out.is_dir() else [out])
        ],
    }
    with replacing(path) as file:
        file.write(f"{json.dumps(json.loads(as_json(content)), indent=1)}\n".encode())
    return path


def manifest_path(out: Path) -> Path:
    """Return where the manifest of some results is."""
    return out / "manifest.json" if out.is_dir() else out.with_name(f"{out.name}.manifest.json")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def decimals_for(public: Domain) -> int:
    """Return how many decimals show readings of a range to about one part in ten thousand.

    Shares have four.
    """
    if isinstance(public, Categories):
        return 4
    return min(max(4 - math.ceil(math.log10(public.width)), 0), 12)
