"""Made-up homes: the mean power of each in every hour, tens of thousands of them in seconds.

Simulating every appliance of a large fleet would take minutes, so a few hundred homes are simulated
(`rase.lab.fleet.SyntheticFleet`, eight appliances each), and every home of the fleet lives like one
of them: with a size, a clock and a load on standby of its own.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rase.lab.fleet import SyntheticFleet

__all__ = ["Homes"]

_PATTERNS: Final = 600
_APPLIANCES: Final = 8
_HALF_HOURS: Final = 48
_HALF_HOUR_S: Final = 1800
# From home to home: how much is used, when, and what is never switched off.
_SIZE_SPREAD: Final = 0.3
_SHIFTS: Final = (-1, 0, 1)
_STANDBY_W: Final = (20.0, 90.0)


@dataclass(frozen=True)
class Homes:
    """Simulate the hourly power of many homes.

    Args:
        homes: How many.
        days: How many days.
        seed: The world: the same seed gives the same homes and the same days.
        patterns: How many homes are simulated in full; the others live like one of them.

    Raises:
        ValueError: If a number is too small.

    Example:
        >>> homes = Homes(homes=100, days=1, seed=1, patterns=5)
        >>> homes.power_w.shape
        (24, 100)
    """

    homes: int
    days: int
    seed: int = 1
    patterns: int = _PATTERNS

    def __post_init__(self) -> None:
        """Check the numbers once."""
        for name, least in (("homes", 1), ("days", 1), ("seed", 0), ("patterns", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}.")

    @cached_property
    def power_w(self) -> NDArray[np.float64]:
        """The mean power of each home in each hour, hours x homes."""
        rng = np.random.default_rng([self.seed, 3])
        patterns = self._simulate_patterns()
        pattern = rng.integers(0, patterns.shape[1], self.homes)
        size = rng.lognormal(-(_SIZE_SPREAD**2) / 2, _SIZE_SPREAD, self.homes)
        standby_w = rng.uniform(*_STANDBY_W, self.homes)
        shift = rng.choice(_SHIFTS, self.homes)
        power = np.empty((self.days * _HALF_HOURS // 2, self.homes))
        for one in _SHIFTS:
            shifted = np.roll(patterns, one, axis=0)
            hourly = shifted.reshape(-1, 2, patterns.shape[1]).mean(axis=1)
            power[:, shift == one] = hourly[:, pattern[shift == one]]
        return power * size + standby_w

    def _simulate_patterns(self) -> NDArray[np.float64]:
        """Return the mean power of each simulated home in each half-hour, half-hours x homes."""
        count = min(self.patterns, self.homes)
        fleet = SyntheticFleet(
            devices=_APPLIANCES * count, days=self.days, seed=self.seed, interval_s=_HALF_HOUR_S
        )
        days = [
            np.asarray(day.value).reshape(_HALF_HOURS, count, _APPLIANCES).sum(axis=2)
            for day in fleet.batches()
        ]
        return np.concatenate(days)
