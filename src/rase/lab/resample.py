"""Convert a stream of readings at any times to a regular table of rounds and devices."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rase.errors import DataError
from rase.tables.rows import Rows

__all__ = ["Gaps", "Grid", "gaps_of", "usual_interval_ms"]

Number = TypeVar("Number", np.float64, np.uint32)

# 50 million cells of a sum and a count are 600 MB; a study with more wants longer rounds.
_MOST_CELLS = 50_000_000
_REGULAR_SHARE = 0.8


class Grid:
    """Average readings into cells of one round and one device.

    Memory grows with the cells, never with the rows: each cell holds a sum and a count.

    Args:
        interval_ms: The length of a round; round boundaries are its multiples since 1970 (UTC).
        start_ms: Readings before are left out.
        end_ms: Readings from here on are left out.

    Example:
        >>> grid = Grid(1000)
        >>> grid.add(np.array([0, 500, 2500]), np.array([0, 0, 0]), np.array([1.0, 3.0, 8.0]))
        >>> times_ms, means = grid.means()
        >>> times_ms.tolist(), means.tolist()
        ([0, 1000, 2000], [[2.0], [nan], [8.0]])
    """

    def __init__(
        self, interval_ms: int, *, start_ms: int | None = None, end_ms: int | None = None
    ) -> None:
        self.interval_ms = interval_ms
        self._start_ms = start_ms
        self._end_ms = end_ms
        self._first = 0  # the round of row 0
        self._rounds = 0
        self._devices = 0
        self._sum: NDArray[np.float64] = np.zeros((0, 0))
        self._count: NDArray[np.uint32] = np.zeros((0, 0), dtype=np.uint32)

    def add(
        self, time_ms: NDArray[np.int64], device: NDArray[np.int64], value: NDArray[np.float64]
    ) -> None:
        """Take readings in any order.

        Raises:
            DataError: If the table of rounds and devices would grow too large to hold.
        """
        is_inside = np.ones(len(time_ms), dtype=np.bool_)
        if self._start_ms is not None:
            is_inside &= time_ms >= self._start_ms
        if self._end_ms is not None:
            is_inside &= time_ms < self._end_ms
        if not is_inside.all():
            time_ms, device, value = time_ms[is_inside], device[is_inside], value[is_inside]
        if not len(time_ms):
            return
        rounds = time_ms // self.interval_ms
        self._make_room(int(rounds.min()), int(rounds.max()), int(device.max()) + 1)
        cells = (rounds - self._first, device)
        np.add.at(self._sum, cells, value)
        np.add.at(self._count, cells, 1)

    def means(
        self, *, least: float = 1, devices: int | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the start of each round and the means, NaN where fewer than ``least`` readings.

        Args:
            least: How many readings a cell needs.
            devices: How many columns to return, where devices without any reading must have one.
        """
        count = self._count[: self._rounds, : self._devices]
        means = np.full((self._rounds, self._devices if devices is None else devices), np.nan)
        has_enough = count >= max(least, 1)
        np.divide(
            self._sum[: self._rounds, : self._devices],
            count,
            out=means[:, : self._devices],
            where=has_enough,
        )
        times = (self._first + np.arange(self._rounds, dtype=np.int64)) * self.interval_ms
        return times, means

    def _make_room(self, first: int, last: int, devices: int) -> None:
        if not self._rounds:
            self._first = first
        before = max(self._first - first, 0)
        rounds = max(self._rounds + before, last - min(first, self._first) + 1)
        devices = max(devices, self._devices)
        if rounds * devices > _MOST_CELLS:
            raise DataError(
                f"{rounds} rounds x {devices} devices are more than a study can hold; give longer "
                "rounds (every), or a shorter span (start, end)."
            )
        if before or rounds > self._sum.shape[0] or devices > self._sum.shape[1]:
            # A quarter more each time, so that a growing table costs linear time.
            shape = (
                _roomy(rounds, self._sum.shape[0]),
                _roomy(devices, self._sum.shape[1]),
            )
            self._sum = _move_rows(self._sum, shape, before, self._rounds)
            self._count = _move_rows(self._count, shape, before, self._rounds)
        self._first = min(first, self._first)
        self._rounds, self._devices = rounds, devices


def usual_interval_ms(batches: list[Rows]) -> int | None:
    """Return the time between two rows of a device, or None if it is not nearly always the same.

    Example:
        >>> rows = Rows(np.array([0, 0, 60, 60]), np.array([0, 1, 0, 1]), np.ones(4), np.ones(4))
        >>> usual_interval_ms([rows])
        60
    """
    time_ms = np.concatenate([rows.time_ms for rows in batches])
    device = np.concatenate([rows.device for rows in batches])
    by_device = np.argsort(device, kind="stable")
    steps = np.diff(time_ms[by_device])[np.diff(device[by_device]) == 0]
    steps = steps[steps > 0]
    if not len(steps):
        return None
    lengths, counts = np.unique(steps, return_counts=True)
    most = int(np.argmax(counts))
    return int(lengths[most]) if counts[most] >= _REGULAR_SHARE * len(steps) else None


@dataclass(frozen=True, slots=True)
class Gaps:
    """What is missing in a table of readings.

    Args:
        null_share: Share of cells without a reading.
        empty_rounds: Rounds in which no device has a reading.
        longest_empty: The most such rounds in a row.
        silent: Devices without any reading.
        constant: Devices whose readings are all the same.
    """

    null_share: float
    empty_rounds: int
    longest_empty: int
    silent: tuple[int, ...]
    constant: tuple[int, ...]


def gaps_of(values: NDArray[np.float64]) -> Gaps:
    """Return what a table of rounds x devices lacks.

    Example:
        >>> gaps_of(np.array([[1.0, np.nan], [np.nan, np.nan], [1.0, np.nan]])).longest_empty
        1
    """
    is_null = np.isnan(values)
    is_empty = is_null.all(axis=1)
    edges = np.flatnonzero(np.diff(np.concatenate(([0], is_empty.astype(np.int8), [0]))))
    lengths = edges[1::2] - edges[::2]
    is_silent = is_null.all(axis=0)
    low = np.where(is_null, np.inf, values).min(axis=0, initial=np.inf)
    high = np.where(is_null, -np.inf, values).max(axis=0, initial=-np.inf)
    return Gaps(
        null_share=float(is_null.mean()) if is_null.size else 0.0,
        empty_rounds=int(is_empty.sum()),
        longest_empty=int(lengths.max(initial=0)),
        silent=tuple(np.flatnonzero(is_silent).tolist()),
        constant=tuple(np.flatnonzero(~is_silent & (low == high)).tolist()),
    )


def _roomy(wanted: int, have: int) -> int:
    return have if wanted <= have else wanted + (wanted // 4 if have else 0)


def _move_rows(
    table: NDArray[Number], shape: tuple[int, int], before: int, rounds: int
) -> NDArray[Number]:
    larger = np.zeros(shape, dtype=table.dtype)
    larger[before : before + rounds, : table.shape[1]] = table[:rounds]
    return larger
