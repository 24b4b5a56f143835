"""Readers of foreign formats: wide tables, and the house files of the original REFIT download.

A wide table, as many UCI data sets are, has a column of times and one column of values per device.

Irregular rows of REFIT become means per round, house by house. Both releases are read:
``CLEAN_House1.csv`` with a column ``Issues``, and the older ``House_1.csv`` without. Rows may be
unsorted or double; ``Unix`` alone gives the time, in UTC. A value holds until the next row, for
rows were written on change; where rows stop for longer there was an outage.
"""

import csv
import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from numpy.typing import NDArray

from rase.errors import DataError
from rase.tables.columns import TimeColumn, values_of
from rase.tables.csv import open_csv, wrong_row
from rase.tables.numbers import NumberStyle
from rase.tables.rows import Rows

__all__ = [
    "Decimal",
    "RefitFiles",
    "WideTable",
    "header_of",
    "house_batches",
    "is_refit_header",
    "refit_houses",
]

Decimal = Literal["auto", "point", "comma"]

_BLOCK_BYTES = 1 << 20
_PARQUET_CELLS = 1 << 20
_SEPARATORS = ",;\t|"
# Besides OSError, what reading a damaged gzip file raises.
_UNREADABLE = (OSError, EOFError, zlib.error, UnicodeDecodeError)
# Commas are replaced before.
_POINT = NumberStyle(asked="point")
_DECIMAL_COMMA = re.compile(r"\d,\d")


class WideTable:
    """Read a wide table, CSV or Parquet, as a stream of readings.

    Args:
        path: The file: commas, semicolons, tabs or bars between columns, a header line, maybe gzip.
        time_column: The name of the column of times; None for the first.
        decimal: How decimals are written; "auto" takes a comma for one where a semicolon
            separates columns and a comma stands between digits in the first rows.

    Raises:
        DataError: If no column has that name, two have the same, or there are only times.
    """

    def __init__(
        self, path: Path, *, time_column: str | None = None, decimal: Decimal = "auto"
    ) -> None:
        self.path = path
        names, self._separator = header_of(path)
        self._place = 0
        if time_column is not None:
            if time_column not in names:
                raise DataError(f"{path} has no column {time_column!r}; check --time-column.")
            self._place = names.index(time_column)
        self.names = tuple(name for place, name in enumerate(names) if place != self._place)
        if not self.names:
            raise DataError(f"{path} has no column besides the times; give one column per device.")
        double = {name for name in self.names if self.names.count(name) > 1}
        if double:
            raise DataError(f"{path} has two columns named {min(double)!r}; keep one.")
        if "" in self.names:
            raise DataError(f"{path} has a column without a name; name every device's column.")
        self._columns = names
        self._time = TimeColumn(names[self._place] or "time")
        self._is_comma = decimal == "comma" or (
            decimal == "auto" and self._separator == ";" and _has_decimal_comma(path)
        )
        self.share_read = 0.0

    @property
    def notes(self) -> list[str]:
        """What a reader should know about how the columns were understood."""
        commas = ["commas in numbers are read as decimal commas."] if self._is_comma else []
        return [*commas, *self._time.notes]

    def batches(self) -> Iterator[Rows]:
        """Read the readings from the start.

        Yields:
            The readings of some rows, by time and then device.

        Raises:
            DataError: If a row cannot be used, time does not go forward, or no row has a reading.
        """
        row = readings = 0
        last = -(1 << 62)
        for columns in self._record_batches():
            times = self._time.milliseconds(columns[self._place], first_row=row + 1)
            back = np.flatnonzero(np.diff(times, prepend=last) <= 0)
            if len(back):
                raise DataError(
                    f"row {row + int(back[0]) + 1} of {self.path} repeats a time or goes back; "
                    "sort the rows by time and keep one per time."
                )
            values, is_valid = self._values(columns, first_row=row + 1)
            row += len(times)
            last = int(times[-1]) if len(times) else last
            readings += int(is_valid.sum())
            devices = np.arange(len(self.names))
            yield Rows(
                np.repeat(times, len(devices)),
                np.tile(devices, len(times)),
                values.ravel(),
                is_valid.ravel(),
            )
        if not readings:
            raise DataError(f"{self.path} holds no reading; give a table with at least one.")

    def _values(
        self, columns: list[Any], *, first_row: int
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        shape = (len(columns[0]), len(self.names))
        values, is_valid = np.empty(shape), np.empty(shape, dtype=np.bool_)
        others = [place for place in range(len(columns)) if place != self._place]
        for column, place in enumerate(others):
            texts = columns[place]
            if self._is_comma:
                texts = pc.replace_substring(texts, ",", ".")
            values[:, column], is_valid[:, column] = values_of(
                texts, name=self.names[column], first_row=first_row, numbers=_POINT
            )
        return values, is_valid

    def _record_batches(self) -> Iterator[list[Any]]:
        try:
            if self._separator is None:
                yield from self._parquet_batches()
            else:
                yield from self._csv_batches()
        except (pa.ArrowException, OSError) as error:
            row = wrong_row(error)
            if row is not None:
                raise DataError(
                    f"row {row} of {self.path} has another number of columns than the "
                    "header; fix the row."
                ) from error
            raise DataError(
                f"{self.path} cannot be read to its end; save it again as UTF-8 text or Parquet."
            ) from error

    def _parquet_batches(self) -> Iterator[list[Any]]:
        with pyarrow.parquet.ParquetFile(
            self.path, buffer_size=_BLOCK_BYTES, pre_buffer=False
        ) as file:
            done = 0
            for batch in file.iter_batches(max(_PARQUET_CELLS // len(self._columns), 1)):
                done += batch.num_rows
                self.share_read = done / file.metadata.num_rows
                yield batch.columns

    def _csv_batches(self) -> Iterator[list[Any]]:
        size = self.path.stat().st_size
        # Columns are renamed to their places: a header may repeat a name or leave one out.
        places = [str(place) for place in range(len(self._columns))]
        with pa.OSFile(str(self.path)) as file:
            reader = open_csv(
                file,
                dict.fromkeys(places, pa.string()),
                compression="gzip" if _is_gzip(self.path) else None,
                separator=self._separator or ",",
                names=places,
                missing=["", "NA", "NaN", "nan", "?"],
            )
            for batch in reader:
                self.share_read = file.tell() / size
                yield batch.columns


def header_of(path: Path) -> tuple[list[str], str | None]:
    """Return the names of a table's columns, and what separates them; None for Parquet.

    Raises:
        DataError: If the file cannot be opened, or is neither text nor Parquet.
    """
    try:
        with path.open("rb") as raw:
            if raw.read(4) == b"PAR1":
                return list(pyarrow.parquet.read_schema(path).names), None
        with _open_table(path) as file:
            line = file.readline(_BLOCK_BYTES).decode("utf-8-sig").strip("\r\n")
        separator = max(_SEPARATORS, key=line.count)
        names = next(csv.reader([line], delimiter=separator), [])
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}; check the path.") from error
    except (*_UNREADABLE, csv.Error, pa.ArrowException) as error:
        raise DataError(
            f"{path} cannot be read as a table; save it as CSV (UTF-8) or Parquet."
        ) from error
    if not line.strip():
        raise DataError(f"{path} has no header line; give a table with at least one reading.")
    return [name.strip() for name in names], separator


def _has_decimal_comma(path: Path) -> bool:
    try:
        with _open_table(path) as file:
            file.readline(_BLOCK_BYTES)
            return any(
                _DECIMAL_COMMA.search(file.readline(_BLOCK_BYTES).decode("utf-8", "replace"))
                for _ in range(100)
            )
    except _UNREADABLE:
        # Reading all of it will say what is wrong.
        return False


def _open_table(path: Path) -> BinaryIO | gzip.GzipFile:
    if _is_gzip(path):
        return gzip.open(path, "rb")
    return path.open("rb")


def _is_gzip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


_APPLIANCES = tuple(f"Appliance{number}" for number in range(1, 10))
_HEADER = ("Time", "Unix", "Aggregate", *_APPLIANCES)
_FILE = re.compile(r"(?:CLEAN_)?House_?(\d{1,2})\.csv", re.IGNORECASE)
# Sensors were polled every 6 to 8 s: how long a value holds that no row follows in time.
_POLL_S = 8
# A damaged time must not make room for all rounds between it and the others.
_LATEST_S = 1 << 40
_LONGEST_S = 20 * 366 * 86_400


@dataclass(eq=False, kw_only=True)
class RefitFiles:
    """Read REFIT houses as a stream of one reading per device and round.

    A reading of a round is the mean over the time measured in it. Where an appliance reads more
    than ``spike_w``, or a row is marked by ``Issues``, its time counts as not measured: a guess
    such as 0 would enter the mean. Of rows with one time the last counts.

    Args:
        houses: The number and the file of each house; see `refit_houses`.
        interval_s: The length of a round.
        start_s: Rows before may be skipped; seconds since 1970.
        end_s: Rows from here on may be skipped.
        min_coverage: The share of a round that must be measured; below, there is no reading.
        outage_s: Rows further apart than this have an outage between them.
        spike_w: The most an appliance can draw.
        has_mains: Whether the mains (``H01-AGG``) count as a device besides the nine appliances.
        keeps_issues: Whether rows marked by ``Issues`` (the appliances sum to more than the mains)
            count as measured.
    """

    houses: tuple[tuple[int, Path], ...]
    interval_s: int
    start_s: int | None = None
    end_s: int | None = None
    min_coverage: float = 0.5
    outage_s: int = 120
    spike_w: float = 4000.0
    has_mains: bool = False
    keeps_issues: bool = False
    share_read: float = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """The devices, ``H01-A1`` for Appliance1 of house 1."""
        short = [*(f"A{number}" for number in range(1, 10)), *(["AGG"] if self.has_mains else [])]
        return tuple(f"H{house:02d}-{name}" for house, _ in self.houses for name in short)

    def batches(self) -> Iterator[Rows]:
        """Read house after house; no more than one is held.

        Yields:
            The readings of a house, by device and then time.

        Raises:
            DataError: If a file is not as the original, or cut short.
        """
        columns = (*_APPLIANCES, *(("Aggregate",) if self.has_mains else ()))
        for number, (_, path) in enumerate(self.houses):
            house = self._read(path, columns, number)
            if house is None:
                continue
            edges_s = _edges(house.time_s, self.interval_s)
            for place, column in enumerate(columns):
                # Taken out, so that a house shrinks while its means are made.
                watts = np.concatenate(house.watts.pop(column))[house.order]
                if column != "Aggregate":
                    watts[watts > self.spike_w] = np.nan
                means = self._means(house, watts, edges_s)
                is_valid = ~np.isnan(means)
                device = np.full(len(means), number * len(columns) + place)
                yield Rows(1000 * edges_s[:-1], device, np.where(is_valid, means, 0.0), is_valid)

    def _means(
        self, house: "_House", watts: NDArray[np.float32], edges_s: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Integrate a step function exactly between the edges of the rounds."""
        held = np.where(np.isnan(watts), np.int32(0), house.held_s)
        energy = np.diff(_integral(np.nan_to_num(watts, copy=False), held, house.time_s, edges_s))
        measured = np.diff(_integral(np.ones(1), held, house.time_s, edges_s))
        is_enough = (measured > 0) & (measured >= self.min_coverage * self.interval_s)
        means = np.full(len(energy), np.nan)
        np.divide(energy, measured, out=means, where=is_enough)
        return means

    def _read(self, path: Path, columns: tuple[str, ...], number: int) -> "_House | None":
        times: list[NDArray[np.int64]] = []
        marked: list[NDArray[np.bool_]] = []
        watts: dict[str, list[NDArray[np.float32]]] = {column: [] for column in columns}
        rows = 0
        for batch, share in house_batches(path, columns):
            self.share_read = (number + share) / len(self.houses)
            rows += batch.num_rows
            time_s = batch.column("Unix").to_numpy()
            kept = np.ones(len(time_s), dtype=np.bool_)
            if self.start_s is not None:
                kept &= time_s >= self.start_s - self.outage_s
            if self.end_s is not None:
                kept &= time_s < self.end_s + self.outage_s
            times.append(time_s[kept])
            for column, parts in watts.items():
                parts.append(batch.column(column).to_numpy(zero_copy_only=False)[kept])
            if "Issues" in batch.schema.names and not self.keeps_issues:
                issues = batch.column("Issues").to_numpy(zero_copy_only=False)[kept]
                marked.append(issues == 1)
        if not rows:
            raise DataError(f"{path} holds no rows below its header; copy or unpack it again.")
        time_s = np.concatenate(times)
        if not len(time_s):
            return None
        order = np.argsort(time_s, kind="stable").astype(np.int32)
        time_s = time_s[order]
        if not 0 <= time_s[0] <= time_s[-1] < min(_LATEST_S, time_s[0] + _LONGEST_S):
            raise DataError(
                f"Unix must be seconds since 1970 within twenty years, and {path} holds others; "
                "copy or unpack it again."
            )
        apart_s = np.diff(time_s, append=time_s[-1] + _POLL_S)
        is_outage = apart_s > self.outage_s
        held_s = np.where(is_outage, min(_POLL_S, self.outage_s), apart_s).astype(np.int32)
        if marked:
            held_s[np.concatenate(marked)[order]] = 0
        return _House(time_s, held_s, order, watts)


def refit_houses(path: Path) -> tuple[tuple[int, Path], ...]:
    """Return the houses of a folder of the download, or the one of a single file, by number.

    Raises:
        DataError: If there is no house, or a house occurs twice.
    """
    if path.is_file():
        match = re.search(r"House_?(\d{1,2})\.csv$", path.name, re.IGNORECASE)
        if match is None:
            raise DataError(
                f"the name of {path} must name its house, such as CLEAN_House1.csv; rename it."
            )
        return ((int(match.group(1)), path),)
    found: dict[int, Path] = {}
    for file in sorted(path.iterdir()):
        match = _FILE.fullmatch(file.name)
        if match is None:
            continue
        house = int(match.group(1))
        if house in found:
            raise DataError(
                f"{path} holds house {house} twice, {found[house].name} and {file.name}; keep the "
                "files of one release."
            )
        found[house] = file
    if not found:
        what = "is empty" if not any(path.iterdir()) else "holds no REFIT house file"
        raise DataError(
            f"{path} {what}; give a folder with CLEAN_House1.csv ... or House_1.csv ..., or one "
            "CSV or Parquet file."
        )
    return tuple(sorted(found.items()))


def is_refit_header(names: list[str]) -> bool:
    """Whether a table with these columns is a REFIT house."""
    return names[: len(_HEADER)] == list(_HEADER)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _House:
    """The rows of one house in time: how long each value holds, and the values yet unsorted."""

    time_s: NDArray[np.int64]
    held_s: NDArray[np.int32]
    order: NDArray[np.int32]
    watts: dict[str, list[NDArray[np.float32]]]


def house_batches(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[Any, float]]:
    """Yield the wanted columns of a house, block by block, and the share of the file read."""
    try:
        with pa.OSFile(str(path)) as file:
            reader = _reader(file, path, columns)
            size = path.stat().st_size
            for batch in reader:
                if batch.column("Unix").null_count:
                    raise DataError(f"{path} has rows without Unix; copy or unpack it again.")
                yield batch, file.tell() / size
    except (pa.ArrowException, OSError) as error:
        row = wrong_row(error)
        if row is not None:
            raise DataError(
                f"row {row} of {path} is cut short; copy or unpack the file again."
            ) from error
        if "Empty CSV" in str(error):
            return
        raise DataError(
            f"{path} cannot be read as a REFIT house, whole watts under the header "
            "Time,Unix,Aggregate,Appliance1, ...; copy or unpack it again."
        ) from error


def _reader(file: Any, path: Path, columns: tuple[str, ...]) -> Any:
    with path.open("rb") as raw:
        names = raw.readline(_BLOCK_BYTES).decode("utf-8-sig", "replace").strip().split(",")
    lacking = [name for name in _HEADER if name not in names]
    if lacking:
        raise DataError(
            f"{path} has no column {lacking[0]}; a REFIT house has Time,Unix,Aggregate,"
            "Appliance1, ..., Appliance9 and maybe Issues. Copy or unpack it again."
        )
    kinds = {"Unix": pa.int64(), **dict.fromkeys(columns, pa.float32())}
    if "Issues" in names:
        kinds["Issues"] = pa.float32()
    return open_csv(file, kinds, missing=["", "NaN", "nan"])


def _edges(time_s: NDArray[np.int64], interval_s: int) -> NDArray[np.int64]:
    """Return the starts of all rounds the times fall into, and the end of the last."""
    first, last = int(time_s[0]) // interval_s, int(time_s[-1]) // interval_s
    return np.arange(first, last + 2, dtype=np.int64) * interval_s


def _integral(
    height: NDArray[Any],
    held_s: NDArray[np.int32],
    time_s: NDArray[np.int64],
    edges_s: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return the integral up to each edge of steps of a height, held from a time on."""
    whole = np.multiply(height, held_s, dtype=np.float64)
    np.cumsum(whole, out=whole)
    place = np.searchsorted(time_s, edges_s, side="right") - 1
    inside = np.maximum(place, 0)
    # The step under the edge counts up to the edge only.
    rest = np.maximum(held_s[inside] - (edges_s - time_s[inside]), 0)
    step = np.broadcast_to(height, time_s.shape)[inside]
    return np.where(place < 0, 0.0, whole[inside] - step * rest)
