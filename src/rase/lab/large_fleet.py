"""Synthetic tables of any size: a few hundred simulated homes stand for millions of meters.

Every day a pool of appliances is simulated (rase.lab.fleet); each meter follows one of them at a
moment and a size of its own. Made for tests of engines at scale, with the faults real tables have:
gaps, repeated rows, and a round far larger than all others. Nobody lives here, so the randomness is
an ordinary seeded generator; no noise for privacy comes from this module.
"""

import errno
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from rase.atomic_files import replacing_folder
from rase.lab.fleet import SyntheticFleet
from rase.tables.rows import Rows

__all__ = ["LargeFleet", "write_large_fleet"]

_POOL = 256
_MOST_ROWS = 1 << 18
_DAY_S = 86_400
_SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("ms", tz="UTC")),
        ("device", pa.int64()),
        ("value", pa.float64()),
    ],
    metadata={"title": "synthetic fleet", "unit": "W"},
)


@dataclass(frozen=True, slots=True)
class LargeFleet:
    """A fleet of meters, and the faults in its table.

    Args:
        devices: How many meters.
        days: How many days.
        seed: The same seed gives the same table.
        interval_s: The time between readings: whole minutes that divide a day.
        gaps: The share of readings that are missing; half of them as rows without a value.
        duplicates: The share of rows that come twice, the second time with another value.
        skew: How many times as many rows as others the first round at noon has, by meters that
            report in no other.

    Raises:
        ValueError: If a number is out of its bounds.

    Example:
        >>> fleet = LargeFleet(devices=1000, days=1, interval_s=3600)
        >>> sum(len(rows) for rows in fleet.batches(0))
        24000
    """

    devices: int
    days: int
    seed: int = 1
    interval_s: int = 900
    gaps: float = 0.0
    duplicates: float = 0.0
    skew: float = 1.0

    def __post_init__(self) -> None:
        """Check the numbers once."""
        for name in ("gaps", "duplicates"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be from 0 to below 1, got {getattr(self, name)}.")
        if not (math.isfinite(self.skew) and self.skew >= 1):
            raise ValueError(f"skew must be at least 1, got {self.skew}.")
        _ = self._pool

    @property
    def rounds_a_day(self) -> int:
        """How many readings a meter takes a day."""
        return _DAY_S // self.interval_s

    @property
    def _pool(self) -> SyntheticFleet:
        return SyntheticFleet(
            devices=min(self.devices, _POOL),
            days=self.days,
            seed=self.seed,
            interval_s=self.interval_s,
        )

    def pool_days(self) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """Yield for each day its first moment in milliseconds, and the pool's readings by round."""
        for rows in self._pool.batches():
            yield int(rows.time_ms[0]), rows.value.reshape(self.rounds_a_day, -1)

    def batches(self, day: int) -> Iterator[Rows]:
        """Yield the rows of one day, by time and then meter."""
        for number, (begin_ms, pool) in enumerate(self.pool_days()):
            if number == day:
                yield from self.day(number, begin_ms, pool)

    def day(self, day: int, begin_ms: int, pool: NDArray[np.float64]) -> Iterator[Rows]:
        """Yield the rows of a day whose pool has been simulated."""
        rng = np.random.default_rng([self.seed, day, 3])
        own = np.random.default_rng([self.seed, 4])
        rounds = self.rounds_a_day
        meters = np.arange(self.devices)
        shift = own.integers(0, max(rounds // 12, 1), self.devices)
        size = own.uniform(0.7, 1.3, self.devices)
        kind = meters % pool.shape[1]
        at_once = max(_MOST_ROWS // self.devices, 1)
        for first in range(0, rounds, at_once):
            some = np.arange(first, min(first + at_once, rounds))
            values = pool[(some[:, np.newaxis] - shift) % rounds, kind] * size
            rows = Rows(
                np.repeat(begin_ms + 1000 * self.interval_s * some, self.devices),
                np.tile(meters, len(some)),
                np.round(values.reshape(-1), 1),
                np.ones(values.size, dtype=np.bool_),
            )
            yield self._with_faults(rows, rng)
            if day == 0 and first <= rounds // 2 < first + at_once and self.skew > 1:
                yield self._crowd(begin_ms + 500 * _DAY_S, rng)

    def _with_faults(self, rows: Rows, rng: np.random.Generator) -> Rows:
        if not self.gaps and not self.duplicates:
            return rows
        drawn = rng.random(len(rows))
        places = np.flatnonzero(drawn >= self.gaps / 2)
        is_valid = (drawn >= self.gaps)[places]
        # A repeated row comes behind the first, so that no time goes back.
        times = 1 + (rng.random(len(places)) < self.duplicates)
        places, is_valid = np.repeat(places, times), np.repeat(is_valid, times)
        value = rows.value[places]
        value[1:] += places[1:] == places[:-1]
        return Rows(rows.time_ms[places], rows.device[places], value, is_valid)

    def _crowd(self, time_ms: int, rng: np.random.Generator) -> Rows:
        count = int((self.skew - 1) * self.devices)
        value = np.round(rng.uniform(0, 3000, count), 1)
        meters = self.devices + np.arange(count)
        return Rows(np.full(count, time_ms), meters, value, np.ones(count, dtype=np.bool_))


def write_large_fleet(
    fleet: LargeFleet,
    folder: Path,
    *,
    kind: str = "parquet",
    on_progress: Callable[[float], None] | None = None,
) -> int:
    """Write a fleet as a Hive-partitioned folder, a file for each day, in the memory of a batch.

    The folder appears when all is written, or not at all.

    Args:
        fleet: The fleet.
        folder: The folder, which must not be there yet.
        kind: "parquet", "csv" or "csv.gz".
        on_progress: Called with the share written after every day.

    Returns:
        How many rows were written.

    Raises:
        ValueError: If the kind is another.
        FileExistsError: If the folder is there.
    """
    if kind not in {"parquet", "csv", "csv.gz"}:
        raise ValueError(f'kind must be "parquet", "csv" or "csv.gz", got {kind!r}.')
    if folder.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder))
    with replacing_folder(folder) as made:
        return _write_days(fleet, made, kind=kind, on_progress=on_progress)


def _write_days(
    fleet: LargeFleet, folder: Path, *, kind: str, on_progress: Callable[[float], None] | None
) -> int:
    written = 0
    for number, (begin_ms, pool) in enumerate(fleet.pool_days()):
        part = folder / f"day={np.datetime64(begin_ms, 'ms').astype('datetime64[D]')}"
        part.mkdir()
        with _writer(part / f"part-0.{kind}", kind) as writer:
            for rows in fleet.day(number, begin_ms, pool):
                writer.write_batch(_record_batch(rows))
                written += len(rows)
        if on_progress is not None:
            on_progress((number + 1) / fleet.days)
    return written


@contextmanager
def _writer(path: Path, kind: str) -> Iterator[Any]:
    if kind == "parquet":
        with pyarrow.parquet.ParquetWriter(path, _SCHEMA, compression="zstd") as writer:
            yield writer
        return
    compression = "gzip" if kind == "csv.gz" else None
    with (
        pa.output_stream(str(path), compression=compression) as file,
        pyarrow.csv.CSVWriter(file, _SCHEMA) as writer,
    ):
        yield writer


def _record_batch(rows: Rows) -> Any:
    return pa.record_batch(
        [
            pa.array(rows.time_ms).cast(_SCHEMA.field("time").type),
            pa.array(rows.device.astype(np.int64)),
            pa.array(rows.value, mask=None if rows.is_valid.all() else ~rows.is_valid),
        ],
        schema=_SCHEMA,
    )
