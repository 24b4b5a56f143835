"""A synthetic fleet: homes with appliances, their routines, and the power each one draws.

Made for demonstrations and tests where no measured data may be shipped. Nobody lives here, so the
randomness is an ordinary seeded generator; no noise for privacy comes from this module.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from rase.tables.rows import Rows

__all__ = ["Appliance", "SyntheticFleet"]

Minutes = NDArray[np.float64]

_DAY_MIN = 1440
_DAY_MS = 86_400_000
# The longest programme that begins before midnight and ends after it.
_OVERLAP_MIN = 480
_FIRST_DAY_MS = 1_402_185_600_000  # 2014-06-08, a Sunday, where the measured comparison begins
_SUNDAY_TO_SATURDAY = 7
_DAYS_TO_FIRST_DAY = -13  # from midsummer, 21 June


@dataclass(frozen=True, slots=True)
class Appliance:
    """A kind of appliance: its power, and when people use it.

    Args:
        name: The kind.
        share: How common it is in the fleet, relative to the others.
        power_w: Smallest and largest power while on.
        minutes: Shortest and longest time on.
        uses_per_day: Fewest and most uses of a day; 0 for what cycles by itself.
        routines: Where in the day of its home uses fall: share, anchor and offset in minutes.
        heating_w: Power of a water heater inside, on for the first quarter of a use.
        standby_w: Largest power while off.
        winter: How much more it is used in midwinter than in midsummer, as a share; below 0 less.
    """

    name: str
    share: float
    power_w: tuple[float, float]
    minutes: tuple[float, float]
    uses_per_day: tuple[float, float] = (0.0, 0.0)
    routines: tuple[tuple[float, str, float], ...] = ()
    heating_w: float = 0.0
    standby_w: float = 0.0
    winter: float = 0.0

    @property
    def is_cycling(self) -> bool:
        """Whether a thermostat switches it, day and night."""
        return not self.routines

    @property
    def sums_of_shares(self) -> NDArray[np.float64]:
        """The partial sums of the shares of its routines, up to 1."""
        return _sums_of_shares(self.routines)


@cache
def _sums_of_shares(routines: tuple[tuple[float, str, float], ...]) -> NDArray[np.float64]:
    sums = np.cumsum([share for share, _, _ in routines])
    return np.asarray(sums / sums[-1])


_MEALS = ((0.45, "wake", 25.0), (0.2, "noon", 0.0), (0.35, "home", 50.0))
_EVENING = ((0.15, "wake", 40.0), (0.1, "noon", 60.0), (0.75, "home", 120.0))
_CHORES = ((0.3, "wake", 60.0), (0.3, "noon", 0.0), (0.4, "home", 60.0))
_AFTER_DINNER = ((0.15, "wake", 60.0), (0.1, "noon", 30.0), (0.75, "home", 110.0))

# Shares follow the 64 appliances of the measured slice (28 of them cool, 9 boil water, ...).
APPLIANCES = (
    Appliance("fridge", 8, (55, 105), (10, 25), winter=-0.25),
    Appliance("freezer", 8, (90, 150), (12, 30), winter=-0.2),
    Appliance("fridge-freezer", 12, (95, 160), (12, 40), winter=-0.25),
    Appliance("kettle", 9, (2300, 3000), (2, 4), (2.5, 5.5), _MEALS, winter=0.2),
    Appliance("dishwasher", 6, (60, 120), (70, 110), (0.7, 1.1), _AFTER_DINNER, heating_w=1300),
    Appliance("washing machine", 3, (100, 200), (60, 100), (0.8, 1.2), _CHORES, heating_w=1100),
    Appliance("tumble dryer", 1, (600, 950), (50, 80), (0.5, 0.9), _CHORES, winter=0.8),
    Appliance(
        "television", 10, (30, 150), (70, 150), (2.0, 4.0), _EVENING, standby_w=0.5, winter=0.3
    ),
    Appliance("microwave", 3, (900, 1300), (2, 6), (1.5, 3.0), _MEALS, standby_w=2.0),
    Appliance("computer", 2, (25, 90), (60, 200), (1.5, 3.0), _EVENING, standby_w=2.0, winter=0.2),
    Appliance("lights", 2, (20, 80), (90, 200), (1.5, 2.5), _EVENING, winter=1.2),
)


@dataclass(frozen=True)
class SyntheticFleet:
    """Simulate the mean power of a fleet of appliances, day by day.

    People of a home get up, leave, come back; weekends are later and busier. Appliances they switch
    run when these routines say, thermostats cycle all day; winter brings light and tea, summer warm
    kitchens. A home whose collection fails has no readings until it works again. Power is simulated
    by minutes and averaged. A day is made when it is asked for, so a long fleet costs no memory.

    How near it comes to measured appliances stands in ``docs/guides/own-data.md``.

    Args:
        devices: How many appliances.
        days: How many days.
        seed: The world: the same seed gives the same homes and the same days.
        interval_s: The time between readings: whole minutes that divide a day.
        outages_per_year: How often the collection of a home fails.

    Raises:
        ValueError: If a number is too small, or ``interval_s`` does not divide a day into minutes.

    Example:
        >>> fleet = SyntheticFleet(devices=4, days=2, seed=1)
        >>> sum(len(day) for day in fleet.batches()), fleet.names[0]
        (192, 'home-1 fridge')
    """

    devices: int = 64
    days: int = 25
    seed: int = 1
    interval_s: int = 3600
    outages_per_year: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers once."""
        for name, least in (("devices", 1), ("days", 1), ("seed", 0), ("outages_per_year", 0)):
            if not getattr(self, name) >= least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}.")
        if self.interval_s < 60 or self.interval_s % 60 or 86_400 % self.interval_s:
            raise ValueError(
                "interval_s must be whole minutes that divide a day, such as 60, 900 or 3600, got "
                f"{self.interval_s}."
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The identity of each device, which names its home and kind."""
        return tuple(appliance.name for appliance in self._installed_devices)

    def batches(self) -> Iterator[Rows]:
        """Simulate the fleet from the first day.

        Yields:
            The rows of one day, by time and then device.
        """
        rng = np.random.default_rng([self.seed, 1])
        outages = _Outages(self.seed, -(-self.devices // _DEVICES_PER_HOME), self.outages_per_year)
        per_round = self.interval_s // 60
        rounds = _DAY_MIN // per_round
        time_ms = np.repeat(np.arange(rounds) * (1000 * self.interval_s), self.devices)
        device = np.tile(np.arange(self.devices), rounds)
        home = np.arange(self.devices) // _DEVICES_PER_HOME
        running_on = np.zeros((self.devices, _OVERLAP_MIN))
        means = np.zeros((self.devices, rounds))
        for day in range(self.days):
            for place, one in enumerate(self._installed_devices):
                minutes = np.zeros(_DAY_MIN + _OVERLAP_MIN)
                minutes[:_OVERLAP_MIN] = running_on[place]
                one.run(day, minutes, rng)
                running_on[place] = minutes[_DAY_MIN:]
                means[place] = minutes[:_DAY_MIN].reshape(rounds, per_round).mean(axis=1)
            is_valid = outages.is_measured(day, rounds)[home].T.ravel()
            value = np.where(is_valid, means.T.ravel(), 0.0)
            yield Rows(_FIRST_DAY_MS + day * _DAY_MS + time_ms, device, value, is_valid)

    @cached_property
    def _installed_devices(self) -> "tuple[_Installed, ...]":
        rng = np.random.default_rng([self.seed, 0])
        shares = np.array([kind.share for kind in APPLIANCES])
        # Low-discrepancy choice: every prefix of the fleet has nearly the wanted mix.
        places = (np.arange(self.devices) * 0.6180339887498949 + 0.02) % 1
        kinds = np.searchsorted(np.cumsum(shares) / shares.sum(), places, side="right")
        homes = [_Home.draw(rng) for _ in range(-(-self.devices // _DEVICES_PER_HOME))]
        names: dict[str, None] = {}
        installed = []
        for place, kind in enumerate(kinds):
            number = place // _DEVICES_PER_HOME + 1
            name = f"home-{number} {APPLIANCES[kind].name}"
            name = name if name not in names else f"{name} 2"
            names[name] = None
            installed.append(_Installed.draw(name, APPLIANCES[kind], homes[number - 1], rng))
        return tuple(installed)


_DEVICES_PER_HOME = 4
# Spread of the time of a use from device to device, and from day to day.
_OWN_ROUTINE_MIN = 60.0
_DAILY_ROUTINE_MIN = 45.0


@dataclass(frozen=True, slots=True)
class _Home:
    """The routines of a home, in minutes of the day."""

    wake: float
    home: float
    lie_in: float

    @classmethod
    def draw(cls, rng: np.random.Generator) -> "_Home":
        return cls(wake=rng.normal(415, 35), home=rng.normal(1020, 50), lie_in=rng.uniform(20, 120))

    def anchor(self, name: str, *, is_weekend: bool) -> float:
        if name == "wake":
            return self.wake + self.lie_in * is_weekend
        return 780.0 if name == "noon" else self.home - 60 * is_weekend


class _Outages:
    """When the collection of each home failed, in minutes since the first day."""

    def __init__(self, seed: int, homes: int, per_year: float) -> None:
        self._rng = np.random.default_rng([seed, 2])
        self._per_day = per_year / 365.25
        self._begin = np.zeros(homes)
        self._end = np.zeros(homes)

    def is_measured(self, day: int, rounds: int) -> NDArray[np.bool_]:
        """Return which rounds of a day each home measured, homes x rounds; days ascend.

        A round counts as measured if at least half of it was.
        """
        homes = len(self._end)
        midnight = day * _DAY_MIN
        fails = self._rng.random(homes) < self._per_day
        begin = midnight + self._rng.uniform(0, _DAY_MIN, homes)
        # Half of them are repaired within six hours, one in twenty takes two days or more.
        length = np.minimum(self._rng.lognormal(np.log(360), 1.2, homes), 14 * _DAY_MIN)
        is_new = fails & (begin >= self._end)
        self._begin = np.where(is_new, begin, self._begin)
        self._end = np.where(is_new, begin + length, self._end)
        edges = midnight + np.linspace(0, _DAY_MIN, rounds + 1)
        dark = np.minimum(self._end[:, None], edges[1:]) - np.maximum(
            self._begin[:, None], edges[:-1]
        )
        measured: NDArray[np.bool_] = dark <= _DAY_MIN / rounds / 2
        return measured


@dataclass(frozen=True, slots=True)
class _Installed:
    """One appliance in its home, with its own power and customs."""

    name: str
    kind: Appliance
    power_w: float
    home: _Home
    on_min: float
    off_min: float
    uses_per_day: float
    standby_w: float
    shift_min: float

    @classmethod
    def draw(
        cls, name: str, kind: Appliance, home: _Home, rng: np.random.Generator
    ) -> "_Installed":
        on_min = rng.uniform(*kind.minutes)
        return cls(
            name=name,
            kind=kind,
            home=home,
            power_w=rng.uniform(*kind.power_w),
            on_min=on_min,
            # A compressor runs between a quarter and half of the time.
            off_min=on_min * rng.uniform(0.8, 2.8),
            uses_per_day=rng.uniform(*kind.uses_per_day),
            standby_w=rng.uniform(0, kind.standby_w),
            shift_min=rng.normal(0, _OWN_ROUTINE_MIN),
        )

    def run(self, day: int, minutes: Minutes, rng: np.random.Generator) -> None:
        """Add the power of one day to its minutes and those after midnight."""
        season = 1 + self.kind.winter * _winter(day)
        if self.kind.is_cycling:
            self._cycle(minutes, self.off_min / season, rng)
            return
        minutes[:_DAY_MIN] += self.standby_w
        is_weekend = day % _SUNDAY_TO_SATURDAY in {0, 6}
        uses = rng.poisson(self.uses_per_day * season * (1.25 if is_weekend else 1.0))
        # The numbers of `rng.choice` with these shares, without all that it checks every time.
        for routine in self.kind.sums_of_shares.searchsorted(
            rng.random(uses), side="right"
        ).tolist():
            _, anchor, offset = self.kind.routines[routine]
            centre = self.home.anchor(anchor, is_weekend=is_weekend) + offset + self.shift_min
            start = int(min(max(rng.normal(centre, _DAILY_ROUTINE_MIN), 0), _DAY_MIN - 1))
            if minutes[start] > self.standby_w:
                continue  # it is still running
            length = max(int(min(rng.uniform(0.6, 1.4) * self.on_min, _OVERLAP_MIN)), 1)
            minutes[start : start + length] = self.power_w
            minutes[start : start + length // 4] += self.kind.heating_w

    def _cycle(self, minutes: Minutes, off_min: float, rng: np.random.Generator) -> None:
        at = rng.uniform(-off_min, 0)
        # What rng.uniform(0.8, 1.2) draws, at a fraction of its cost for a single number.
        low, width, drawn = 0.8, 1.2 - 0.8, rng.random
        while at < _DAY_MIN:
            # Doors are opened and kitchens are warm by day: rests are shorter then.
            warmth = 1.15 - 0.3 * math.exp(-(((at - 1000) / 300) ** 2))
            begin = at + off_min * warmth * (low + width * drawn())
            end = begin + self.on_min * (low + width * drawn())
            minutes[max(int(begin), 0) : min(max(int(end), 0), _DAY_MIN)] = self.power_w
            at = end


def _winter(day: int) -> float:
    """Return how deep in winter a day is: 0 at midsummer, 1 at midwinter."""
    return 0.5 - 0.5 * math.cos(2 * math.pi * (day + _DAYS_TO_FIRST_DAY) / 365.25)
