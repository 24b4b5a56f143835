"""Readings of a table: rows whose devices are known by tags, and one reading a device and round.

Names end here. From a chunk of rows on, a device is 128 bits under the key of the run, a public
number by which it is counted, and its budget where devices differ in it. Then comes what every
device would do for itself before it randomizes: take its readings of a round, average them, and
contribute once. Of rows that repeat a time of their device the first counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rase.arrays import Flags, Floats, Places, Words
    from rase.domain import Range
    from rase.kernels.keyed import Tags

__all__ = ["Contributions", "Devices", "KeyedRows", "Quanta", "contributions_of", "distinct_tags"]

# So fine that the rounding to the grid does not notice, so coarse that sums of 2^17 are exact.
_QUANTUM_BITS = 30
_MOST_QUANTA = 2.0**36


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Devices:
    """Devices by their code.

    Args:
        tags: 128 bits under the run's key, for noise.
        public: A public number, for counting devices and for the order of arrival.
        epsilon: The budget of each, where devices differ in it; None otherwise.
        numbers: The number that each is called by, where all are; None where names are texts.
        label: The place of the label of each, where answers are asked for by label.
    """

    tags: Tags
    public: Words
    epsilon: Floats | None = None
    numbers: Places | None = None
    label: Places | None = None

    def __len__(self) -> int:
        """Return how many devices there are."""
        return len(self.tags)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class KeyedRows:
    """Rows that hold a reading, as columns of one length; without ``repr``.

    Args:
        time_ms: Milliseconds since 1970 (UTC).
        device: The code of each row's device.
        quanta: The reading in whole quanta of the range (`Quanta`).
        devices: The devices by code.
        null_ms: The times of rows that hold no reading.
    """

    time_ms: Places
    device: Places
    quanta: Floats
    devices: Devices
    null_ms: Places

    def sliced(self, number: int, slices: int) -> KeyedRows:
        """Return the rows of some devices; those without a reading count for the first slice."""
        if slices == 1:
            return self
        chosen = (self.devices.tags[:, 1] % np.uint64(slices))[self.device] == number
        return replace(
            self,
            time_ms=self.time_ms[chosen],
            device=self.device[chosen],
            quanta=self.quanta[chosen],
            null_ms=self.null_ms if number == 0 else self.null_ms[:0],
        )

    @classmethod
    def joined(cls, parts: Sequence[KeyedRows]) -> KeyedRows:
        """Return several as one, in their order; a device gets one code."""
        if len(parts) == 1:
            return parts[0]
        # Most parts of a table hold the same devices, whose tags are then the same array.
        every = list({id(part.devices.tags): part.devices for part in parts}.values())
        tags = np.concatenate([devices.tags for devices in every])
        first, code = distinct_tags(tags)
        public = np.concatenate([devices.public for devices in every])[first]
        budgets = [devices.epsilon for devices in every if devices.epsilon is not None]
        labels = [devices.label for devices in every if devices.label is not None]
        devices = Devices(
            tags.take(first, axis=0),
            public,
            np.concatenate(budgets)[first] if budgets else None,
            label=np.concatenate(labels)[first] if labels else None,
        )
        ends = np.cumsum([len(one) for one in every])
        codes = {
            id(one.tags): code[end - len(one) : end] for one, end in zip(every, ends, strict=True)
        }
        return cls(
            np.concatenate([part.time_ms for part in parts]),
            np.concatenate([codes[id(part.devices.tags)][part.device] for part in parts]),
            np.concatenate([part.quanta for part in parts]),
            devices,
            np.concatenate([part.null_ms for part in parts]),
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Contributions:
    """What devices contribute to rounds: columns of one length, in no special order.

    There is no ``repr``: these are readings before any noise.

    Args:
        round: The round number of each contribution.
        device: The code of the device.
        reading: The device's mean reading in the round, as measured.
    """

    round: Places
    device: Places
    reading: Floats


@dataclass(frozen=True, slots=True)
class Quanta:
    """Count readings in whole quanta of a public range, so that sums do not depend on their order.

    A quantum is the power of two that is 2^-30 of the range's width or a little less; readings lie
    at most 64 widths outside, where they would be clipped in any case.

    Args:
        domain: The public range.

    Example:
        >>> from rase.domain import Range
        >>> quanta = Quanta(Range(0, 3000))
        >>> quanta.readings(quanta.counts(np.array([0.25, 120.0, 1e9]))).tolist()
        [0.25, 120.0, 131072.0]
    """

    domain: Range

    @property
    def size(self) -> float:
        """The size of one quantum, in the unit of the readings."""
        return math.ldexp(1.0, math.frexp(self.domain.width)[1] - 1 - _QUANTUM_BITS)

    def counts(self, readings: Floats) -> Floats:
        """Return readings in whole quanta from the low end, as floats."""
        # What overflows lies outside, and is clipped.
        with np.errstate(over="ignore"):
            counts = (readings - self.domain.low) * (1 / self.size)
        np.rint(counts, out=counts)
        return np.clip(counts, -_MOST_QUANTA, _MOST_QUANTA, out=counts)

    def readings(self, counts: Floats) -> Floats:
        """Return readings again."""
        return self.domain.low + counts * self.size


def contributions_of(
    time_ms: Places,
    device: Places,
    *,
    value: Floats,
    interval_ms: int | None,
    takes_last: bool = False,
) -> tuple[Contributions, Places | None]:
    """Turn all rows of some devices and rounds, in any order, into one reading for each of them.

    Of rows with the same time and device the first counts, and what is left is averaged.

    Args:
        time_ms: Milliseconds since 1970 of each row.
        device: The code of each row's device: whole numbers from 0.
        value: The reading of each row; whole numbers where the mean must not depend on the order.
        interval_ms: The length of a round; None makes each time a round.
        takes_last: Whether the last reading of a round counts instead of their mean: states have
            none.

    Returns:
        The contributions, and how many rows each is the mean of; None where all are of one row.

    Example:
        >>> rows = np.array([1500, 0, 500, 0]), np.array([0, 0, 0, 0])
        >>> some, counts = contributions_of(*rows, value=np.array([8.0, 1, 3, 9]), interval_ms=1000)
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
    if takes_last:
        return Contributions(rounds[starts], codes[starts], values[starts + counts - 1]), counts
    means = np.add.reduceat(values, starts) / counts
    return Contributions(rounds[starts], codes[starts], means), counts


def _is_each_once(rounds: Places, codes: Places) -> bool:
    """Return whether no device is twice in a round; may say no where it would cost too much."""
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


def _starts(column: Places) -> Flags:
    is_start = np.ones(len(column), dtype=np.bool_)
    np.not_equal(column[1:], column[:-1], out=is_start[1:])
    return is_start


def distinct_tags(tags: Tags) -> tuple[Places, Places]:
    """Return where each different tag stands first, and the place of each among them."""
    # The planner reads a table's rounds without Arrow.
    from rase.tables.arrow import as_arrow, as_numpy

    # Found by hashing, which takes a fifth of the time of sorting.
    encoded = as_arrow(np.ascontiguousarray(tags[:, 0])).dictionary_encode()
    back = as_numpy(encoded.indices).astype(np.int64)
    first = np.zeros(len(encoded.dictionary), dtype=np.int64)
    # Of those that are written to one place the last stays.
    first[back[::-1]] = np.arange(len(back))[::-1]
    if (tags[first, 1][back] == tags[:, 1]).all():
        return first, back
    # Half a tag may be shared by two devices: once in 2^64 pairs.
    _, first, back = np.unique(tags, axis=0, return_index=True, return_inverse=True)
    return first, back.ravel()
