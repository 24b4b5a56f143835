"""Rows whose devices are known by tags under the run's key: what noise is drawn from.

Names end here. From a chunk of rows on, a device is 128 bits under the key of the run, a public
number by which it is counted, and its budget where devices differ in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from rase.arrays import Floats, Places, Words
    from rase.kernels.keyed import Tags

__all__ = ["Devices", "KeyedRows", "distinct_tags"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Devices:
    """Devices by their code.

    Args:
        tags: 128 bits under the run's key, for noise.
        public: A public number, for counting devices and for the order of arrival.
        epsilon: The budget of each, where devices differ in it; None otherwise.
    """

    tags: Tags
    public: Words
    epsilon: Floats | None = None

    def __len__(self) -> int:
        """Return how many devices there are."""
        return len(self.tags)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class KeyedRows:
    """Rows that hold a reading, as columns of one length; without ``repr``.

    Args:
        time_ms: Milliseconds since 1970 (UTC).
        device: The code of each row's device.
        quanta: The reading in whole quanta of the range (`rase.tables.readings.Quanta`).
        devices: The devices by code.
        null_ms: The times of rows that hold no reading.
    """

    time_ms: Places
    device: Places
    quanta: Floats
    devices: Devices
    null_ms: Places

    def __len__(self) -> int:
        """Return how many rows with a reading there are."""
        return len(self.time_ms)

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
        devices = Devices(
            tags.take(first, axis=0), public, np.concatenate(budgets)[first] if budgets else None
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


def distinct_tags(tags: Tags) -> tuple[Places, Places]:
    """Return where each different tag stands first, and the place of each among them."""
    # Found by hashing, which takes a fifth of the time of sorting.
    encoded = pa.array(np.ascontiguousarray(tags[:, 0])).dictionary_encode()
    back = encoded.indices.to_numpy().astype(np.int64)
    first = np.zeros(len(encoded.dictionary), dtype=np.int64)
    # Of those that are written to one place the last stays.
    first[back[::-1]] = np.arange(len(back))[::-1]
    if (tags[first, 1][back] == tags[:, 1]).all():
        return first, back
    # Half a tag may be shared by two devices: once in 2^64 pairs.
    _, first, back = np.unique(tags, axis=0, return_index=True, return_inverse=True)
    return first, back.ravel()
