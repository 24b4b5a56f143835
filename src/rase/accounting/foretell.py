"""What `auto` will achieve on a fleet like the one at hand, told before anything runs.

How well the mean can be followed depends on how it moves, which no formula knows; so the estimator
is tried on readings one holds, with seeded noise that protects nobody and is thrown away.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rase.accounting.candidates import Mechanism
from rase.estimate.mean import unbiased_mean
from rase.estimate.skill import SkillTally
from rase.estimate.tracker import Tracker, spread_of
from rase.kernels.words import SeededRandom
from rase.stream import ValueRange

__all__ = ["Forecast", "Remedy", "foretell", "remedies"]

Floats = NDArray[np.float64]
Mechanisms = Callable[[float, ValueRange], Mechanism]

# Remedies are tried by doubling; what would take more than this is no remedy. They are tried on
# ten days of hours. Whatever is said to beat the constant must do so clearly: trials may be lucky.
_MOST_TIMES = 16
_TRIED_ROUNDS = 240
_TRIALS = (1, 2, 3)
_CLEARLY = 1.1


@dataclass(frozen=True, slots=True)
class Forecast:
    """Say how far estimates will be off.

    Args:
        rounds: How many rounds were tried.
        tracked: The root mean square error of `auto`.
        alone: That of each round's unbiased mean by itself.
        history: That of the constant learnt from earlier rounds.
        coverage: The share of 95 % intervals of `auto` that held the truth.
    """

    rounds: int
    tracked: float
    alone: float
    history: float
    coverage: float

    @property
    def skill(self) -> float:
        """How many times smaller the error of `auto` is than that of the constant."""
        return self.history / self.tracked if self.tracked else math.inf

    @property
    def beats_constant(self) -> bool:
        """Whether following the rounds is clearly worth more than repeating their mean.

        Forecasts of eight trials are off by 7 % or so; a skill within that of 1 is no promise.
        """
        return self.skill > _CLEARLY


@dataclass(frozen=True, slots=True)
class Remedy:
    """Name a change after which the constant is beaten.

    Args:
        what: The parameter: ``devices``, ``epsilon`` or ``range``.
        value: Its new value; for a range its width.
        skill: What it would bring.
    """

    what: str
    value: float
    skill: float


def foretell(
    readings: Floats,
    times_s: Floats,
    *,
    mechanism: Mechanism,
    seeds: Sequence[int] = range(1, 9),
    copies: int = 1,
    on_trial: Callable[[float], None] = lambda share: None,
) -> Forecast:
    """Try the estimator on readings, with seeded noise.

    The truth is the mean of the readings of a round as clipped to the range.

    Args:
        readings: Rounds x devices; NaN where a device has none. Rounds without any are left out.
        times_s: When each round began, ascending.
        mechanism: How reports are made.
        seeds: One trial each. Errors of single trials of a month of hours differ by about 20 %, of
            the mean of eight by 7 %.
        copies: How many devices like each there are: to see what a larger fleet would bring.
        on_trial: Called with the share done, to show progress.

    Raises:
        ValueError: If there are fewer than two rounds with readings.
    """
    some = ~np.isnan(readings).all(axis=1)
    if np.count_nonzero(some) < 2:
        raise ValueError("readings must hold two rounds or more.")
    public = mechanism.value_range
    rows = [row[~np.isnan(row)].clip(public.low, public.high) for row in readings[some]]
    squares = np.zeros(4)
    for place, seed in enumerate(seeds):
        on_trial(place / len(seeds))
        tracked, alone = _try(rows, times_s[some], mechanism, rng=SeededRandom(seed), copies=copies)
        squares += (tracked.rmse**2, alone.rmse**2, tracked.history**2, tracked.coverage)
    means = squares / len(seeds)
    tracked_rmse, alone_rmse, history = np.sqrt(means[:3]).tolist()
    return Forecast(len(rows), tracked_rmse, alone_rmse, history, float(means[3]))


def remedies(
    readings: Floats,
    times_s: Floats,
    *,
    mechanism_of: Mechanisms,
    epsilon: float,
    value_range: ValueRange,
) -> tuple[Remedy, ...]:
    """Return what would beat the constant, one change at a time; none where nothing tried does.

    Devices and epsilon are doubled, up to 16 times; the range is cut to the 99.9 % of the readings
    nearest to each other, where that is narrower. The last says something of the readings.
    """
    found = []
    readings, times_s = readings[:_TRIED_ROUNDS], times_s[:_TRIED_ROUNDS]
    times = 2
    while times <= _MOST_TIMES:
        made = mechanism_of(epsilon, value_range)
        forecast = foretell(readings, times_s, mechanism=made, seeds=_TRIALS, copies=times)
        if forecast.beats_constant:
            devices = float(times * readings.shape[1])
            found.append(Remedy("devices", devices, forecast.skill))
            break
        times *= 2
    times = 2
    while times <= _MOST_TIMES and times * epsilon <= 16:
        made = mechanism_of(times * epsilon, value_range)
        forecast = foretell(readings, times_s, mechanism=made, seeds=_TRIALS)
        if forecast.beats_constant:
            found.append(Remedy("epsilon", times * epsilon, forecast.skill))
            break
        times *= 2
    low, high = np.nanquantile(readings, [0.0005, 0.9995]).tolist()
    if high - low < 0.9 * value_range.width and high > low:
        narrow = ValueRange(low, high, value_range.steps)
        forecast = foretell(
            readings, times_s, mechanism=mechanism_of(epsilon, narrow), seeds=_TRIALS
        )
        if forecast.beats_constant:
            found.append(Remedy("range", narrow.width, forecast.skill))
    return tuple(found)


def _try(
    rows: list[Floats], times_s: Floats, mechanism: Mechanism, *, rng: SeededRandom, copies: int
) -> tuple[SkillTally, SkillTally]:
    """Return the scores of `auto` and of each round by itself."""
    tracker = Tracker(mechanism.value_range)
    tracked, single = (SkillTally(mechanism.value_range) for _ in range(2))
    reports = mechanism.randomize(np.concatenate([np.tile(row, copies) for row in rows]), rng=rng)
    ends = np.cumsum([copies * len(row) for row in rows])
    parts = np.split(reports, ends[:-1])
    for row, time_s, some in zip(rows, times_s.tolist(), parts, strict=True):
        alone = unbiased_mean(some, randomizer=mechanism)
        told = tracker.update(time_s, alone, spread=spread_of(some, randomizer=mechanism))
        truth = float(row.mean())
        tracked.add(told, alone=alone, truth=truth)
        single.add(alone, alone=alone, truth=truth)
    return tracked, single
