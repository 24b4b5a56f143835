"""The house files of the original REFIT download: irregular rows become means per round.

House by house. Both releases are read: ``CLEAN_House1.csv`` with a column ``Issues``, and the older
``House_1.csv`` without. Rows may be unsorted or double; ``Unix`` alone gives the time, in UTC. A
value holds until the next row, for rows were written on change; where rows stop for longer there
was an outage.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rase.errors import DataError
from rase.tables.csv import open_csv, wrong_row
from rase.tables.rows import Rows

__all__ = ["RefitFiles", "house_batches", "is_refit_house", "refit_houses"]

_BLOCK_BYTES = 1 << 20
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


def is_refit_house(path: Path) -> bool:
    """Return whether a file begins as a REFIT house does."""
    return _names_of(path)[: len(_HEADER)] == list(_HEADER)


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
    names = _names_of(path)
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


def _names_of(path: Path) -> list[str]:
    with path.open("rb") as raw:
        return raw.readline(_BLOCK_BYTES).decode("utf-8-sig", "replace").strip().split(",")


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
