"""Rows of a table to one reading per device and round, in a stream or at once.

What every device would do for itself before it randomizes: take its readings of a round, average
them, and contribute once. Of rows that repeat a time of their device the first counts. Memory grows
with the number of devices, never with rows or rounds.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rase.errors import DataError
from rase.stream import ValueRange

__all__ = ["Collector", "Contributions", "Quanta", "combined"]

# So fine that the rounding to the grid does not notice, so coarse that sums of 2^17 are exact.
_QUANTUM_BITS = 30
_MOST_QUANTA = 2.0**36


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Contributions:
    """Hold what devices contribute to rounds: three columns of one length, in no special order.

    There is no ``repr``: these are readings before any noise.

    Args:
        round: The round number of each contribution.
        contributor: The code of the device.
        reading: The device's mean reading in the round, as measured.
    """

    round: NDArray[np.int64]
    contributor: NDArray[np.int64]
    reading: NDArray[np.float64]

    def __len__(self) -> int:
        """Return how many contributions there are."""
        return len(self.round)


@dataclass(frozen=True, slots=True)
class Quanta:
    """Count readings in whole quanta of a public range, so that sums do not depend on their order.

    A quantum is the power of two that is 2^-30 of the range's width or a little less; readings lie
    at most 64 widths outside, where they would be clipped in any case.

    Args:
        value_range: The public range.

    Example:
        >>> from rase.stream import ValueRange
        >>> quanta = Quanta(ValueRange(0, 3000))
        >>> quanta.readings(quanta.counts(np.array([0.25, 120.0, 1e9]))).tolist()
        [0.25, 120.0, 131072.0]
    """

    value_range: ValueRange

    @property
    def size(self) -> float:
        """The size of one quantum, in the unit of the readings."""
        return math.ldexp(1.0, math.frexp(self.value_range.width)[1] - 1 - _QUANTUM_BITS)

    def counts(self, readings: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return readings in whole quanta from the low end, as floats."""
        # What overflows lies outside, and is clipped.
        with np.errstate(over="ignore"):
            counts = (readings - self.value_range.low) * (1 / self.size)
        np.rint(counts, out=counts)
        return np.clip(counts, -_MOST_QUANTA, _MOST_QUANTA, out=counts)

    def readings(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return readings again."""
        return self.value_range.low + counts * self.size


def combined(
    time_ms: NDArray[np.int64],
    device: NDArray[np.int64],
    *,
    value: NDArray[np.float64],
    interval_ms: int | None,
) -> tuple[Contributions, NDArray[np.int64] | None]:
    """Turn all rows of some devices and rounds, in any order, into one reading for each of them.

    The same rule as the `Collector`'s, without its demand on the order: of rows with the same time
    and device the first counts, and what is left is averaged.

    Args:
        time_ms: Milliseconds since 1970 of each row.
        device: The code of each row's device: whole numbers from 0.
        value: The reading of each row; whole numbers where the mean must not depend on the order.
        interval_ms: As for the `Collector`.

    Returns:
        The contributions, and how many rows each is the mean of; None where all are of one row.

    Example:
        >>> rows = np.array([1500, 0, 500, 0]), np.array([0, 0, 0, 0])
        >>> some, counts = combined(*rows, value=np.array([8.0, 1, 3, 9]), interval_ms=1000)
        >>> some.round.tolist(), some.reading.tolist(), counts.tolist()
        ([0, 1], [2.0, 8.0], [2, 1])
    """
    rounds = time_ms if interval_ms is None else time_ms // interval_ms
    if _is_each_once(rounds, device):
        return Contributions(rounds, device, value), None
    # The sort is stable: of equal times the first row stays first. Sorted tables cost it little.
    order = np.lexsort((time_ms, device))
    times, codes = time_ms[order], device[order]
    is_new = _starts(codes) | _starts(times)
    codes, rounds, values = codes[is_new], rounds[order][is_new], value[order][is_new]
    starts = np.flatnonzero(_starts(codes) | _starts(rounds))
    counts = np.diff(starts, append=len(values))
    means = np.add.reduceat(values, starts) / counts
    return Contributions(rounds[starts], codes[starts], means), counts


def _is_each_once(rounds: NDArray[np.int64], codes: NDArray[np.int64]) -> bool:
    """Tell whether no device occurs twice in a round; may say no where it would cost too much."""
    if not len(rounds):
        return True
    places = rounds - rounds.min()
    if places.max() > len(rounds):
        # Rounds by their times: a table has one in every so many milliseconds.
        places //= max(int(np.gcd.reduce(places)), 1)
    devices = int(codes.max()) + 1
    cells = (int(places.max()) + 1) * devices
    if cells > 8 * len(rounds) + (1 << 16):
        return False
    places *= devices
    places += codes
    seen = np.zeros(cells, dtype=np.bool_)
    seen[places] = True
    return int(np.count_nonzero(seen)) == len(places)


class Collector:
    """Turn rows (time, device, value) that come in batches into one reading per device and round.

    Several readings of a device in one round are averaged before any noise, because a second
    report would spend the device's budget twice. Null readings do not report. Rows may be sorted
    by device and then time, or by time with devices interleaved: needed is only that the time of
    each device does not go back. Where it stands still the first reading counts.

    Args:
        interval_ms: The length of a round in milliseconds; None makes every distinct time a round
            of its own, whose number is the time.
        refuses_repeats: Whether a row that repeats a time of its device is refused, not left out.

    Attributes:
        rows: How many rows have been added.
        nulls: How many of them held no reading.
        duplicates: How many repeated a time of their device, and were left out.
        devices: How many devices have been seen.

    Raises:
        ValueError: If ``interval_ms`` is not positive.

    Example:
        >>> collector = Collector(interval_ms=1000)
        >>> done = collector.add([0, 500, 1500], device=[0, 0, 0], value=[1.0, 3.0, 8.0])
        >>> done.round.tolist(), done.reading.tolist()
        ([0], [2.0])
        >>> collector.finish().reading.tolist()
        [8.0]
    """

    def __init__(self, interval_ms: int | None, *, refuses_repeats: bool = False) -> None:
        """Start with no device seen."""
        if interval_ms is not None and interval_ms <= 0:
            raise ValueError(f"interval_ms must be greater than 0, got {interval_ms}.")
        self.interval_ms = interval_ms
        self.refuses_repeats = refuses_repeats
        self.rows = 0
        self.nulls = 0
        self.duplicates = 0
        self._is_seen = np.zeros(0, dtype=np.bool_)
        # Of devices with a reading, the time of the latest.
        self._is_known = np.zeros(0, dtype=np.bool_)
        self._last_time = np.zeros(0, dtype=np.int64)
        # The round each device is in: its number, the sum and the count of its readings so far.
        self._round = np.zeros(0, dtype=np.int64)
        self._sum = np.zeros(0, dtype=np.float64)
        self._count = np.zeros(0, dtype=np.int64)

    @property
    def devices(self) -> int:
        """How many devices have been seen."""
        return int(np.count_nonzero(self._is_seen))

    def add(
        self,
        time_ms: ArrayLike,
        device: ArrayLike,
        *,
        value: ArrayLike,
        is_valid: ArrayLike | None = None,
    ) -> Contributions:
        """Take a batch of rows and return the contributions that are complete by now.

        Args:
            time_ms: Milliseconds since 1970 of each row.
            device: The code of each row's device: whole numbers from 0.
            value: The value of each row.
            is_valid: False where the row holds no reading; None if all rows hold one.

        Returns:
            One contribution per device and round that a later row of the device has closed.

        Raises:
            ValueError: If the columns differ in length.
            DataError: If a device's time goes backwards, or stands still and repeats are refused.
                The message names the row, counted from 1 over all batches.
        """
        times = np.asarray(time_ms, dtype=np.int64)
        codes = np.asarray(device, dtype=np.int64)
        values = np.asarray(value, dtype=np.float64)
        valid = (
            np.ones(len(times), np.bool_) if is_valid is None else np.asarray(is_valid, np.bool_)
        )
        if not len(times) == len(codes) == len(values) == len(valid):
            raise ValueError(
                "the columns must have one length, got "
                f"{len(times)}, {len(codes)}, {len(values)} and {len(valid)}."
            )
        if not len(times):
            return _contributions([])
        self._grow(int(codes.max()) + 1)
        self._is_seen[codes] = True
        # Where repeats are refused, a null repeats a time as well.
        places = np.arange(len(valid)) if self.refuses_repeats else np.flatnonzero(valid)
        # A stable sort keeps each device's rows in the order in which they came.
        places = places[np.argsort(codes[places], kind="stable")]
        codes, times, values = codes[places], times[places], values[places]
        is_new = self._is_forward(codes, times, places)
        if self.refuses_repeats:
            is_new &= valid[places]
        self.rows += len(valid)
        self.nulls += int(np.count_nonzero(~valid))
        self.duplicates += 0 if self.refuses_repeats else int(np.count_nonzero(~is_new))
        codes, times, values = codes[is_new], times[is_new], values[is_new]
        rounds = times if self.interval_ms is None else times // self.interval_ms
        return self._close(codes, rounds, values)

    def finish(self) -> Contributions:
        """Return the contributions to the round each device was in at the end."""
        rest = self._take(np.flatnonzero(self._count))
        self._count[:] = 0
        return _contributions([rest])

    def _is_forward(
        self, codes: NDArray[np.int64], times: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return which rows are later than the one before of their device; refuse earlier ones."""
        is_first = _starts(codes)
        before = np.empty_like(times)
        before[1:] = times[:-1]
        before[is_first] = self._last_time[codes[is_first]]
        has_before = ~is_first
        has_before[is_first] = self._is_known[codes[is_first]]
        is_repeat = has_before & (times == before)
        wrong = np.flatnonzero(has_before & (times < before) | is_repeat & self.refuses_repeats)
        if len(wrong):
            first = wrong[np.argmin(rows[wrong])]
            row = self.rows + int(rows[first]) + 1
            if is_repeat[first]:
                raise DataError(
                    f"row {row} repeats a time of its device; keep one row per time and device."
                )
            raise DataError(
                f"row {row} goes back in time for its device; sort the table by device and time."
            )
        is_last = _ends(codes)
        self._last_time[codes[is_last]] = times[is_last]
        self._is_known[codes[is_last]] = True
        is_new: NDArray[np.bool_] = ~is_repeat
        return is_new

    def _close(
        self, codes: NDArray[np.int64], rounds: NDArray[np.int64], values: NDArray[np.float64]
    ) -> Contributions:
        if not len(codes):
            return _contributions([])
        starts = np.flatnonzero(_starts(codes) | _starts(rounds))
        sums = np.add.reduceat(values, starts)
        counts = np.diff(starts, append=len(values))
        codes, rounds = codes[starts], rounds[starts]
        # A device's first segment goes on with its open round, or closes it.
        first = np.flatnonzero(_starts(codes))
        owner = codes[first]
        goes_on = (self._count[owner] > 0) & (self._round[owner] == rounds[first])
        sums[first[goes_on]] += self._sum[owner[goes_on]]
        counts[first[goes_on]] += self._count[owner[goes_on]]
        closed = self._take(owner[~goes_on & (self._count[owner] > 0)])
        # Its last segment stays open: the next batch may hold more of the same round.
        is_last = _ends(codes)
        owner = codes[is_last]
        self._round[owner] = rounds[is_last]
        self._sum[owner] = sums[is_last]
        self._count[owner] = counts[is_last]
        done = ~is_last
        return _contributions([closed, (rounds[done], codes[done], sums[done] / counts[done])])

    def _take(self, owner: NDArray[np.int64]) -> "_Columns":
        return self._round[owner], owner, self._sum[owner] / self._count[owner]

    def _grow(self, devices: int) -> None:
        have = len(self._count)
        if devices <= have:
            return
        # Twice the room each time, so that a table of ever new devices costs linear time.
        more = max(devices, 2 * have) - have
        self._is_seen = np.append(self._is_seen, np.zeros(more, np.bool_))
        self._is_known = np.append(self._is_known, np.zeros(more, np.bool_))
        self._last_time = np.append(self._last_time, np.zeros(more, np.int64))
        self._round = np.append(self._round, np.zeros(more, np.int64))
        self._sum = np.append(self._sum, np.zeros(more))
        self._count = np.append(self._count, np.zeros(more, np.int64))


_Columns = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


def _starts(column: NDArray[np.int64]) -> NDArray[np.bool_]:
    is_start = np.ones(len(column), dtype=np.bool_)
    np.not_equal(column[1:], column[:-1], out=is_start[1:])
    return is_start


def _ends(column: NDArray[np.int64]) -> NDArray[np.bool_]:
    is_end = np.ones(len(column), dtype=np.bool_)
    np.not_equal(column[1:], column[:-1], out=is_end[:-1])
    return is_end


def _contributions(parts: list[_Columns]) -> Contributions:
    if not parts:
        empty = np.zeros(0, dtype=np.int64)
        return Contributions(empty, empty, np.zeros(0))
    rounds, contributors, readings = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Contributions(rounds, contributors, readings)
