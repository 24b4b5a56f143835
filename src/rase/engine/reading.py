"""Read a piece of a Parquet table as checked columns: times, device codes, readings.

Rows outside the piece are left to the piece they belong to. Nothing read here is ever stored.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from numpy.typing import NDArray

from rase.engine.columns import TimeColumn, values_of
from rase.engine.files import Files, TableFile
from rase.engine.footers import Device, RowGroup, damaged
from rase.engine.pieces import Piece
from rase.errors import DataError

__all__ = ["PieceRows", "read_piece", "text_columns"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PieceRows:
    """Hold the rows of a piece as columns; without ``repr``, for they are readings.

    Args:
        time_ms: Milliseconds since 1970 (UTC).
        device: The code of each row's device.
        value: The reading, finite; 0 where there is none.
        is_valid: False where the row holds no reading.
        names: The devices by code: an Arrow array of texts.
        notes: How the columns were understood.
        has_zone: Whether written times have a zone; None if times are not written.
        skipped: Row groups that could not be read: file and number.
    """

    time_ms: NDArray[np.int64]
    device: NDArray[np.int64]
    value: NDArray[np.float64]
    is_valid: NDArray[np.bool_]
    names: Any
    notes: tuple[str, ...] = ()
    has_zone: bool | None = None
    skipped: tuple[tuple[int, int], ...] = ()

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self.time_ms)

    def without_rows(self) -> "PieceRows":
        """Return what is known of the reading, and no reading."""
        none = np.zeros(0, dtype=np.int64)
        return PieceRows(
            none,
            none,
            np.zeros(0),
            np.zeros(0, np.bool_),
            None,
            self.notes,
            self.has_zone,
            self.skipped,
        )


@dataclass(slots=True)
class _Parts:
    """What has been read of a piece, row group by row group."""

    files: Files
    piece: Piece
    interval_ms: int | None
    times: TimeColumn
    time_ms: list[NDArray[np.int64]] = field(default_factory=list)
    device: list[Any] = field(default_factory=list)
    value: list[NDArray[np.float64]] = field(default_factory=list)
    is_valid: list[NDArray[np.bool_]] = field(default_factory=list)
    skipped: list[tuple[int, int]] = field(default_factory=list)

    def take(self, group: RowGroup, table: Any) -> None:
        """Check the rows of a row group and keep those of the piece."""
        columns, first_row = self.files.columns, group.first_row + 1
        column = {name: _whole(table.column(name)) for name in columns.names}
        time_ms = self.times.milliseconds(column[columns.time], first_row=first_row)
        device = _devices(column[columns.device], columns.device, first_row)
        value, is_valid = values_of(column[columns.value], name=columns.value, first_row=first_row)
        inside = _inside(self.piece, group, time_ms, device, self.interval_ms)
        if inside is not None:
            time_ms, value, is_valid = time_ms[inside], value[inside], is_valid[inside]
            device = device.filter(pa.array(inside))
        self.time_ms.append(time_ms)
        self.device.append(device)
        self.value.append(value)
        self.is_valid.append(is_valid)


def read_piece(files: Files, piece: Piece, *, interval_ms: int | None) -> PieceRows:
    """Read the rows of a piece.

    Args:
        files: The table.
        piece: Which rows.
        interval_ms: The length of a round; None where each time is one.

    Raises:
        DataError: If a row cannot be used, or a file cannot be read and such are not skipped. The
            message names file and row.
    """
    times = TimeColumn(files.columns.time)
    parts = _Parts(files, piece, interval_ms, times)
    for file, groups in _by_file(files, piece):
        with files.opened(file) as handle:
            for group, table in _tables(files, file, groups, handle):
                if table is None:
                    parts.skipped.append((group.file, group.number))
                    continue
                try:
                    parts.take(group, table)
                except DataError as error:
                    raise DataError(f"{file.path}: {error}") from error
    device, names = _joined(parts.device)
    return PieceRows(
        np.concatenate(parts.time_ms or [np.zeros(0, np.int64)]),
        device,
        np.concatenate(parts.value or [np.zeros(0)]),
        np.concatenate(parts.is_valid or [np.zeros(0, np.bool_)]),
        names,
        tuple(times.notes),
        times.has_zone,
        tuple(parts.skipped),
    )


def text_columns(names: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return Arrow texts as their bytes in one row and the places between them."""
    _, offsets, data = names.cast(pa.large_string()).buffers()
    places = np.frombuffer(offsets, dtype=np.int64)[names.offset : names.offset + len(names) + 1]
    return np.frombuffer(data or b"", dtype=np.uint8), places


def _by_file(files: Files, piece: Piece) -> Iterator[tuple[TableFile, list[RowGroup]]]:
    numbers = dict.fromkeys(group.file for group in piece.groups)
    for number in numbers:
        yield files.files[number], [group for group in piece.groups if group.file == number]


def _tables(
    files: Files, file: TableFile, groups: list[RowGroup], handle: Any
) -> Iterator[tuple[RowGroup, Any]]:
    """Yield each row group with its three columns; None where it cannot be read."""
    partition = file.partition
    wanted = [name for name in files.columns.names if name not in partition]
    try:
        texts = [files.columns.device] if files.columns.device in wanted else []
        reader = pyarrow.parquet.ParquetFile(handle, read_dictionary=texts, pre_buffer=True)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise damaged(file) from error
    for group in groups:
        try:
            table = reader.read_row_group(group.number, columns=wanted, use_threads=False)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            if not files.skips_bad:
                raise damaged(file) from error
            yield group, None
            continue
        for name in set(files.columns.names) & set(partition):
            table = table.append_column(name, pa.repeat(partition[name], len(table)))
        yield group, table


def _whole(column: Any) -> Any:
    joined = column.combine_chunks()
    if isinstance(joined, pa.ChunkedArray):
        return joined.chunk(0) if joined.num_chunks else pa.array([], column.type)
    return joined


def _devices(column: Any, name: str, first_row: int) -> Any:
    """Return the devices as whole numbers or a dictionary of texts; refuse what is no device."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_integer(kind)
    ):
        raise DataError(f"column {name!r} must hold texts or whole numbers, got {kind}.")
    if column.null_count:
        row = first_row + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise DataError(f"column {name!r} is empty in row {row}; give every row its device.")
    if pa.types.is_integer(column.type):
        return column
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    names = column.dictionary.cast(pa.string())
    return pa.DictionaryArray.from_arrays(column.indices.cast(pa.int32()), names)


def _joined(parts: list[Any]) -> tuple[NDArray[np.int64], Any]:
    """Return one code for each row and the names by code."""
    if not parts:
        return np.zeros(0, np.int64), pa.array([], pa.string())
    if pa.types.is_uint64(parts[0].type):
        parts = [_devices(part.cast(pa.string()), "", 0) for part in parts]
    if pa.types.is_integer(parts[0].type):
        numbers = _whole(pa.chunked_array(parts).cast(pa.int64())).to_numpy(zero_copy_only=False)
        first, last = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, -1)
        if last - first < 4 * len(numbers):
            # Numbers near each other are codes themselves, but for where they begin.
            names = pa.array(np.arange(first, last + 1, dtype=numbers.dtype)).cast(pa.string())
            return numbers.astype(np.int64) - first, names
        parts = [_devices(pa.array(numbers).cast(pa.string()), "", 0)]
    device = _whole(pa.chunked_array(parts).unify_dictionaries())
    return device.indices.to_numpy(zero_copy_only=False).astype(np.int64), device.dictionary


def _inside(
    piece: Piece,
    group: RowGroup,
    time_ms: NDArray[np.int64],
    device: Any,
    interval_ms: int | None,
) -> NDArray[np.bool_] | None:
    """Return which rows belong to the piece; None if all do."""
    if piece.rounds is not None:
        first, behind = (bound * (interval_ms or 1) for bound in piece.rounds)
        if group.time_ms and first <= group.time_ms[0] and group.time_ms[1] < behind:
            return None
        return (time_ms >= first) & (time_ms < behind)
    if piece.devices is None:
        return None
    if pa.types.is_integer(device.type):
        return _between(device, *piece.devices)
    is_inside = _between(device.dictionary, *piece.devices)
    inside: NDArray[np.bool_] = is_inside[device.indices.to_numpy(zero_copy_only=False)]
    return inside


def _between(names: Any, first: Device | None, behind: Device | None) -> NDArray[np.bool_]:
    inside = np.ones(len(names), dtype=np.bool_)
    if pa.types.is_integer(names.type):
        numbers = names.to_numpy(zero_copy_only=False)
        if first is not None:
            inside &= numbers >= first
        if behind is not None:
            inside &= numbers < behind
        return inside
    texts = names.cast(pa.binary())
    if first is not None:
        inside &= pc.greater_equal(texts, pa.scalar(first)).to_numpy(zero_copy_only=False)
    if behind is not None:
        inside &= pc.less(texts, pa.scalar(behind)).to_numpy(zero_copy_only=False)
    return inside
