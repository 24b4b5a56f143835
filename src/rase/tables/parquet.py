"""Parquet files: what their footers say before a row is read, and their rows as chunks.

All footers are read and compared first, so that a damaged file or one of another schema stops a run
before anything is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from rase.errors import DataError
from rase.tables.arrow import as_arrow
from rase.tables.columns import Chunk, ColumnReader
from rase.tables.files import Files, TableFile
from rase.tables.layouts import Layout, find_layout
from rase.tables.source import TableSource
from rase.tables.times import TimeColumn

if TYPE_CHECKING:
    from rase.arrays import Places

__all__ = ["ParquetSource", "RowGroup", "open_parquet", "read_groups", "row_groups"]

# Row groups may have any size; so many rows of one are held at a time, about as Spark writes them.
_CHUNK_ROWS = 1 << 17

# Readings of a batch where a table is wide.
_CELLS = 1 << 20


def open_parquet(files: Files) -> TableSource:
    """Open Parquet files of any layout.

    Raises:
        DataError: If a file cannot be read, or lacks a column.
    """
    for file in files.files:
        try:
            with files.opened(file) as handle:
                names = pyarrow.parquet.read_schema(handle).names
        except (pa.ArrowException, OSError, UnicodeDecodeError):
            # Reading all footers will say what is wrong, or leave the file out.
            continue
        try:
            layout = _layout_in(file, files, names)
        except DataError:
            if files.skips_bad:
                continue
            raise
        if not layout.is_plain:
            return _LaidOutParquet(files, layout)
        source = ParquetSource(replace(files, columns=layout.columns))
        source.take(layout)
        return source
    return ParquetSource(files)


def _layout_in(file: TableFile, files: Files, names: list[str]) -> Layout:
    kept = [name for name in file.partition if name not in names and name in files.columns]
    return find_layout([*names, *kept], files.columns, file.path, form=files.hints.form)


class _LaidOutParquet(TableSource):
    """Parquet files that lack a column, or have one for each device; read one after the other."""

    def __init__(self, files: Files, layout: Layout) -> None:
        super().__init__(files.place, files.columns, files.hints)
        self.files, self._layout = files, self.take(layout)
        self.bad = len(files.bad)

    def chunks(self) -> Iterator[Chunk]:
        """Yield all rows in the order of the files, with all devices of a row together."""
        names, rows = self._layout.names, 0
        for number, file in enumerate(self.files.files, start=1):
            row = 1
            with self.files.opened(file) as handle:
                try:
                    footer = pyarrow.parquet.ParquetFile(handle)
                    many = max(_CELLS // len(names), 1)
                    for batch in footer.iter_batches(many, columns=names, use_threads=False):
                        columns = [batch.column(name) for name in names]
                        chunk = self._reader.rows(self._layout, columns, first_row=row, before=rows)
                        row, rows = row + len(batch), rows + len(batch)
                        yield chunk
                except (pa.ArrowException, OSError, KeyError) as error:
                    raise _damaged(file) from error
            self.share_read = number / len(self.files.files)


class ParquetSource(TableSource):
    """Parquet files, in the order of their paths.

    Args:
        files: The files.

    Raises:
        DataError: If a footer cannot be read, lacks a column, or has columns of another kind than
            the first. Files that cannot be read are skipped if ``files`` says so.
    """

    def __init__(self, files: Files) -> None:
        super().__init__(files.place, files.columns, files.hints)
        self.files = files
        self.groups, damaged = row_groups(files)
        self.bad = len(files.bad) + len(damaged)
        self.skipped: set[tuple[int, int]] = set()
        self._passed_over = 0

    @property
    def rows(self) -> int:
        """How many rows are to be read by the footers, without those that could not be."""
        read = (
            group.rows for group in self.groups if (group.file, group.number) not in self.skipped
        )
        return sum(read) - self._passed_over

    def leave_out(self, rounds: Places, interval_ms: int) -> int:
        """Count no row of some rounds, and read no row group that holds nothing else.

        Args:
            rounds: The rounds, ascending.
            interval_ms: The length of a round.

        Returns:
            How many rows of these rounds there are.
        """
        kept, whole = list[RowGroup](), 0
        for group in self.groups:
            some = [group]
            if group.time_ms is not None:
                first, last = (time // interval_ms for time in group.time_ms)
                start, end = np.searchsorted(rounds, [first, last + 1])
                if end - start == last - first + 1:
                    whole += group.rows
                    continue
                some = [group] if end > start else []
            kept.append(group)
            for chunk in self.read(some):
                self._passed_over += chunk.count_in(rounds, interval_ms)
        self.groups = kept
        return whole + self._passed_over

    def chunks(self) -> Iterator[Chunk]:
        """Yield all rows in the order of the files, a row group at a time."""
        done, total = 0, sum(group.rows for group in self.groups)
        for chunk in self.read(self.groups):
            done += len(chunk.time_ms)
            self.share_read = done / total
            yield chunk

    def read(self, groups: Sequence[RowGroup]) -> Iterator[Chunk]:
        """Yield the rows of some row groups; several threads may do so at the same time."""
        # All batches of a table are held to one way of writing times.
        times = TimeColumn(self.columns.time, has_zone=self._reader.times.has_zone)
        times.timezone, times.dates = self._reader.times.timezone, self._reader.times.dates
        reader = ColumnReader(times, self.columns.device, self.columns.value)
        reader.numbers.asked = self._reader.numbers.asked
        reader.categories = self._reader.categories
        try:
            yield from read_groups(self.files, groups, reader=reader, skipped=self.skipped)
        finally:
            self._take_notes(reader)

    def _take_notes(self, reader: ColumnReader) -> None:
        times, other = self._reader.times, reader.times
        times.notes += [note for note in other.notes if note not in times.notes]
        if times.has_zone is None:
            times.has_zone = other.has_zone
        elif other.has_zone is not None and other.has_zone != times.has_zone:
            raise DataError(
                f"column {self.columns.time!r} mixes times with and without a zone; write all of "
                "them in one way, such as 2024-05-31T18:00:00Z."
            )


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Describe a row group by its footer.

    Args:
        file: The number of its file.
        number: Its number in the file.
        first_row: How many rows of the file come before it.
        rows: How many rows it has.
        time_ms: Its earliest and latest time; None where the footer does not say.
        devices: Its smallest and largest number of a device; None where names are texts, or the
            footer does not say.
    """

    file: int
    number: int
    first_row: int
    rows: int
    time_ms: tuple[int, int] | None
    devices: tuple[int, int] | None = None


def row_groups(files: Files) -> tuple[list[RowGroup], list[str]]:
    """Read all footers.

    Returns:
        The row groups in the order of the table, and the paths of damaged files, if these are
        skipped.

    Raises:
        DataError: If a file is damaged, lacks a column, or has columns of another kind than the
            first.
    """
    groups: list[RowGroup] = []
    bad = []
    schema: tuple[str, tuple[str, ...]] | None = None
    for number, file in enumerate(files.files):
        try:
            with files.opened(file) as handle:
                footer = pyarrow.parquet.ParquetFile(handle)
                kinds = _kinds(file, files, footer.schema_arrow)
                found = list(_groups(number, file, files, footer))
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            if not files.skips_bad:
                raise _damaged(file) from error
            bad.append(file.path)
            continue
        if schema is not None and schema[1] != kinds:
            _refuse_mixture(schema, (file.path, kinds), files)
        schema = schema or (file.path, kinds)
        groups += found
    if not any(group.rows for group in groups):
        raise DataError(f"{files.place} holds no rows; give a table with at least one reading.")
    return [group for group in groups if group.rows], bad


def read_groups(
    files: Files,
    groups: Sequence[RowGroup],
    *,
    reader: ColumnReader,
    skipped: set[tuple[int, int]],
) -> Iterator[Chunk]:
    """Yield the rows of row groups, those of large ones in several chunks.

    Args:
        files: The table.
        groups: Which row groups, those of a file together.
        reader: Checks the columns.
        skipped: Takes the file and number of row groups that could not be read.

    Raises:
        DataError: If a row cannot be used, or a file cannot be read and such are not skipped. The
            message names file and row.
    """
    for number in dict.fromkeys(group.file for group in groups):
        file = files.files[number]
        some = [group for group in groups if group.file == number]
        with files.opened(file) as handle:
            last, row = None, 0
            for group, table in _tables(files, file, some, handle):
                if table is None:
                    skipped.add((group.file, group.number))
                    continue
                row = row if group is last else group.first_row + 1
                columns = [_whole(table.column(name)) for name in files.columns]
                try:
                    yield reader.chunk(*columns, first_row=row)
                except DataError as error:
                    raise DataError(f"{file.path}: {error}") from error
                last, row = group, row + len(table)


def _tables(
    files: Files, file: TableFile, groups: Sequence[RowGroup], handle: Any
) -> Iterator[tuple[RowGroup, Any]]:
    """Yield row groups with their three columns, large ones in parts; None if one is unreadable."""
    partition = file.partition
    wanted = [name for name in files.columns if name not in partition]
    unreadable = (pa.ArrowException, OSError, UnicodeDecodeError)
    try:
        texts = [files.columns.device] if files.columns.device in wanted else []
        reader = pyarrow.parquet.ParquetFile(handle, read_dictionary=texts, pre_buffer=True)
    except unreadable as error:
        raise _damaged(file) from error
    for group in groups:
        # What cannot be read is left out whole.
        rows = max(group.rows, 1) if files.skips_bad else _CHUNK_ROWS
        try:
            for batch in reader.iter_batches(
                rows, row_groups=[group.number], columns=wanted, use_threads=False
            ):
                table = pa.Table.from_batches([batch])
                for name in set(files.columns) & set(partition):
                    table = table.append_column(name, pa.repeat(partition[name], len(table)))
                yield group, table
        except unreadable as error:
            if not files.skips_bad:
                raise _damaged(file) from error
            yield group, None


def _whole(column: Any) -> Any:
    joined = column.combine_chunks()
    if isinstance(joined, pa.ChunkedArray):
        return joined.chunk(0) if joined.num_chunks else pa.array([], column.type)
    return joined


def _damaged(file: TableFile) -> DataError:
    """Return the refusal of a file that cannot be read."""
    return DataError(
        f"{file.path} is a damaged Parquet file; write or copy it again, or leave it out with "
        "--skip-bad."
    )


def _kinds(file: TableFile, files: Files, schema: Any) -> tuple[str, ...]:
    partition = file.partition
    if lacking := {*files.columns} - {*partition, *schema.names}:
        raise DataError(
            f"{file.path} has no column {min(lacking)!r}; it has "
            f"{', '.join(map(repr, schema.names))}. Write all files with one schema."
        )
    return tuple(
        "text" if name in partition else _kind(schema.field(name).type) for name in files.columns
    )


def _kind(type_: Any) -> str:
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if pa.types.is_timestamp(type_):
        return "timestamps with a zone" if type_.tz else "timestamps without a zone"
    for name, test in (
        ("whole numbers", pa.types.is_integer),
        ("text", pa.types.is_string),
        ("text", pa.types.is_large_string),
        ("text", pa.types.is_string_view),
        ("numbers", pa.types.is_floating),
        ("numbers", pa.types.is_decimal),
    ):
        if test(type_):
            return name
    return str(type_)


def _refuse_mixture(
    first: tuple[str, tuple[str, ...]], other: tuple[str, tuple[str, ...]], files: Files
) -> None:
    # Readings may be whole in one file and have decimals in the next.
    numbers = {"whole numbers", "numbers", "null", "bool"}
    for place, name in enumerate(files.columns):
        one, two = first[1][place], other[1][place]
        if one != two and not (place == 2 and {one, two} <= numbers):
            raise DataError(
                f"column {name!r} holds {one} in {first[0]} and {two} in {other[0]}; write all "
                "files with one schema."
            )


def _groups(number: int, file: TableFile, files: Files, footer: Any) -> Iterator[RowGroup]:
    names = [footer.schema.column(place).path for place in range(len(footer.schema))]
    first_row = 0
    for group in range(footer.metadata.num_row_groups):
        found = footer.metadata.row_group(group)
        times = None
        if files.columns.time in names:
            times = _bounds(found.column(names.index(files.columns.time)))
        time_ms = _milliseconds(times, footer.schema_arrow, files)
        devices = None
        if files.columns.device in names:
            devices = _numbers(found.column(names.index(files.columns.device)))
        yield RowGroup(number, group, first_row, found.num_rows, time_ms, devices)
        first_row += found.num_rows


def _numbers(column: Any) -> tuple[int, int] | None:
    # Texts must not be looked at here: they may be damaged.
    statistics = column.statistics if column.physical_type in ("INT32", "INT64") else None
    if statistics is None or not statistics.has_min_max:
        return None
    low, high = statistics.min, statistics.max
    return (low, high) if isinstance(low, int) and low <= high < 1 << 63 else None


def _bounds(column: Any) -> tuple[Any, Any] | None:
    statistics = column.statistics
    if statistics is None or not statistics.has_min_max:
        return None
    bounds = statistics.min_raw, statistics.max_raw
    return bounds if isinstance(bounds[0], bytes | int) else None


def _milliseconds(bounds: Any, schema: Any, files: Files) -> tuple[int, int] | None:
    """Return bounds of times as the rows will be read; None for texts, whose order is another."""
    if bounds is None or not isinstance(bounds[0], int):
        return None
    name = files.columns.time
    type_ = schema.field(name).type
    if not (pa.types.is_timestamp(type_) or pa.types.is_integer(type_)):
        return None
    column = as_arrow(np.array(bounds, dtype=np.int64))
    column = column.cast(type_) if pa.types.is_timestamp(type_) else column
    first, last = TimeColumn(name, timezone=files.hints.timezone).milliseconds(column, first_row=1)
    return (int(first), int(last)) if first <= last else None
