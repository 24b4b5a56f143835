"""Made-up appliances: heavy-tailed, on and off, of different sizes, near the low end of a range.

Ordinary fleets move little and lie near zero, because a range is chosen so that the largest device
fits in. They are made of rules alone; none of their numbers was fitted to measured readings.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

__all__ = ["APPLIANCES", "Appliances"]

Floats = NDArray[np.float64]

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Appliances:
    """A fleet of devices that are on and off, in a range of 0 to 1.

    Args:
        devices: How many there are.
        median: What a middling device takes while it is on.
        tail: The standard deviation of the logarithm of that, between devices.
        on_by_day: How often a device is on between 7 and 23 o'clock.
        on_by_night: The same at night.
        lasting_h: For how long a device stays on or off: 0 if every round is drawn for itself.
        standby: The share of its power that a device takes while it is off.
        every_s: The length of a round.
    """

    devices: int
    median: float
    tail: float
    on_by_day: float
    on_by_night: float
    lasting_h: float = 0.0
    standby: float = 0.05
    every_s: float = _HOUR_S

    def readings(self, world: int, *, rounds: int) -> Floats:
        """Return rounds x devices."""
        rng = np.random.default_rng([world, self.devices, 77])
        sizes = self.median * np.exp(self.tail * rng.normal(size=self.devices))
        hours = (np.arange(rounds) * (self.every_s / _HOUR_S) + 24 * rng.uniform()) % 24
        chances = np.where((hours >= 7) & (hours < 23), self.on_by_day, self.on_by_night)
        stays = math.exp(-self.every_s / _HOUR_S / self.lasting_h) if self.lasting_h else 0.0
        table, is_on = np.empty((rounds, self.devices)), rng.uniform(size=self.devices) < chances[0]
        for place, chance in enumerate(chances.tolist()):
            drawn = rng.uniform(size=self.devices) < chance
            is_on = np.where(rng.uniform(size=self.devices) < stays, is_on, drawn)
            table[place] = np.where(is_on, rng.uniform(0.5, 1.0, self.devices), self.standby)
        return np.asarray((table * sizes).clip(0, 1))


APPLIANCES: Mapping[str, Appliances] = MappingProxyType(
    {
        "appliances by hours": Appliances(64, 0.02, 1.2, 0.35, 0.15),
        "ten appliances by minutes": Appliances(10, 0.08, 1.0, 0.2, 0.05, 0.5, every_s=60.0),
        "homes that rest at night": Appliances(100, 0.06, 0.8, 0.6, 0.05, 2.0),
        "few that differ much": Appliances(20, 0.03, 1.6, 0.9, 0.9, 0.0),
    }
)
