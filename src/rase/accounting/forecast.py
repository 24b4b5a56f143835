"""What `tracked` will achieve on a fleet like the one at hand, computed before anything runs.

How well the mean can be followed depends on how it moves, which no formula knows; so the estimator
is tried on readings one holds, with seeded noise that protects nobody and is thrown away.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from rase.counts.estimate import student_quantile
from rase.domain import Range
from rase.kernels.words import SeededRandom
from rase.laws.randomizer import RangeRandomizer
from rase.series.runs import RunMeans, Runs, run_means, runs_of

__all__ = [
    "Floats",
    "Forecast",
    "Mechanisms",
    "Remedy",
    "forecast_error",
    "forecast_of",
    "remedies",
    "tried_remedies",
]

Floats = NDArray[np.float64]
Mechanisms = Callable[[float, Range], RangeRandomizer]

# Remedies are tried by doubling; what would take more than this is no remedy. They are tried on
# ten days of hours, with fewer trials.
_MOST_TIMES = 16
_MOST_EPSILON = 16.0
_TRIED_ROUNDS = 240
_TRIALS = range(1, 7)
# Trials go on, some at a time, until the 95 % interval of the error reaches no further above it.
# With a small epsilon the first rounds decide, and single trials differ by a third or more.
_SOME_TRIALS = 16
_NEAR_ENOUGH = 1.05
# Other days differ from these by at least this share, and as parts of these rounds differ from each
# other. The first part, in which everything is learnt, is left out; neighbours of the seven others
# are alike, so that two of them count as one.
_OTHER_DAYS, _INDEPENDENT, _OF_OTHERS = 0.08, 3.5, 0.9
# Reports that are held at once.
_AT_ONCE = 4_000_000


@dataclass(frozen=True, slots=True)
class Forecast:
    """Say how far estimates will be off.

    Args:
        rounds: How many rounds were tried.
        tracked: The root mean square error of `tracked`.
        alone: That of each round's unbiased mean by itself.
        history: That of the constant learnt from earlier rounds.
        coverage: The share of 95 % intervals of `tracked` that held the truth.
        skill_low: The lower end of the 95 % interval of the skill, by the scatter of the trials;
            0 for a single trial, which shows nothing of it.
        error_low: The same of `tracked`; 0 likewise.
        error_high: Its upper end; infinite for a single trial.
        other_low: Lower end of the 90 % interval for the error of one run on as many other rounds
            of such a fleet; 0 for a single trial or fewer than nine rounds.
        other_high: Its upper end; infinite likewise.
    """

    rounds: int
    tracked: float
    alone: float
    history: float
    coverage: float
    skill_low: float = 0.0
    error_low: float = 0.0
    error_high: float = math.inf
    other_low: float = 0.0
    other_high: float = math.inf

    @property
    def skill(self) -> float:
        """How many times smaller the error of `tracked` is than that of the constant."""
        return self.history / self.tracked if self.tracked else math.inf

    @property
    def beats_constant(self) -> bool:
        """Whether following the rounds is worth more than repeating their mean.

        Trials may be lucky, so the lower end of the skill's interval has to be above 1.
        """
        return self.skill_low > 1.0


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


def forecast_error(
    readings: Floats,
    times_s: Floats,
    *,
    mechanism: RangeRandomizer,
    seeds: Sequence[int] = range(1, 65),
    copies: int = 1,
    on_trial: Callable[[float], None] = lambda share: None,
) -> Forecast:
    """Try the estimator on readings, with seeded noise.

    The truth is the mean of the readings of a round as clipped to the range.

    Args:
        readings: Rounds x devices; NaN where a device has none. Rounds without any are left out.
        times_s: When each round began, ascending.
        mechanism: How reports are made.
        seeds: One trial each. After every 16 it is enough if the error is known to 5 %; how far it
            may be off is part of the forecast.
        copies: How many devices like each there are: to see what a larger fleet would bring.
        on_trial: Called with the share done, to show progress.

    Raises:
        ValueError: If there are fewer than two rounds with readings, or no seeds.
    """
    if not seeds:
        raise ValueError("seeds must hold one trial or more, got none.")
    some = ~np.isnan(readings).all(axis=1)
    if np.count_nonzero(some) < 2:
        raise ValueError("readings must hold two rounds or more.")
    public = mechanism.domain
    rows = [row[~np.isnan(row)].clip(public.low, public.high) for row in readings[some]]
    truth = np.array([row.mean() for row in rows])
    every = np.concatenate([np.tile(row, copies) for row in rows])
    sizes = np.array([copies * len(row) for row in rows])
    parts: list[Runs] = []
    for start in range(0, len(seeds), _SOME_TRIALS):
        portion = range(start, min(start + _SOME_TRIALS, len(seeds)))
        drawn = _means(every, sizes, mechanism, seeds=seeds, portion=portion, on_trial=on_trial)
        parts.append(runs_of(drawn, times_s[some], truth=truth, value_range=public))
        forecast = forecast_of(_join_runs(parts), len(rows))
        if forecast.error_high <= _NEAR_ENOUGH * forecast.tracked:
            break
    return forecast


def forecast_of(runs: Runs, rounds: int) -> Forecast:
    """Return what trials of so many rounds show of others like them."""
    squares = np.square(np.stack([runs.tracked, runs.alone, runs.history]))
    tracked, alone, history = np.sqrt(squares.mean(axis=1)).tolist()
    trials = squares.shape[1]
    found = Forecast(rounds, tracked, alone, history, float(runs.coverage.mean()))
    if trials < 2:
        return found
    # Both errors are of the same drawings, so each trial is left out once (the jackknife).
    kept = squares.sum(axis=1, keepdims=True) - squares
    reach = student_quantile(0.95, trials - 1)
    of_skill = reach * _jackknife(0.5 * np.log(kept[2] / kept[0]))
    of_error = reach * _jackknife(0.5 * np.log(kept[0]))
    of_others = student_quantile(_OF_OTHERS, 6) * _scatter_of_others(runs)
    is_known = math.isfinite(of_others)
    return replace(
        found,
        other_low=tracked * math.exp(-of_others) if is_known else 0.0,
        other_high=tracked * math.exp(of_others) if is_known else math.inf,
        skill_low=found.skill * math.exp(-of_skill),
        error_low=tracked * math.exp(-of_error),
        error_high=tracked * math.exp(of_error),
    )


def _scatter_of_others(runs: Runs) -> float:
    """Return how far the error of one run on other days is off, as a deviation of its logarithm.

    What makes it differ: the drawing of the noise, as single trials do; and the days, as parts of
    the rounds that were tried do. Both means, of these days and of the others, are off by that.
    """
    parts = runs.parts.mean(axis=0)[1:]
    of_days = float(parts.std(ddof=1) / parts.mean()) / 2 * math.sqrt(2 / _INDEPENDENT)
    of_noise = float(np.log(runs.tracked).std(ddof=1))
    return math.sqrt(of_days**2 + of_noise**2 + _OTHER_DAYS**2)


def remedies(
    readings: Floats,
    times_s: Floats,
    *,
    mechanism_of: Mechanisms,
    epsilon: float,
    value_range: Range,
) -> tuple[Remedy, ...]:
    """Return what would beat the constant, one change at a time; none where nothing tried does.

    Devices and epsilon are doubled, up to 16 times; the range is cut to the 99.9 % of the readings
    nearest to each other, where that is narrower. The last says something of the readings.
    """
    readings, times_s = readings[:_TRIED_ROUNDS], times_s[:_TRIED_ROUNDS]

    def forecast_remedy(mechanism: RangeRandomizer, times: int) -> Forecast:
        return forecast_error(readings, times_s, mechanism=mechanism, seeds=_TRIALS, copies=times)

    low, high = np.nanquantile(readings, [0.0005, 0.9995]).tolist()
    narrow = None
    if high - low < 0.9 * value_range.width and high > low:
        narrow = Range(low, high, value_range.steps)
    return tried_remedies(
        forecast_remedy,
        mechanism_of=mechanism_of,
        epsilon=epsilon,
        value_range=value_range,
        devices=readings.shape[1],
        narrow=narrow,
    )


def tried_remedies(
    tried: Callable[[RangeRandomizer, int], Forecast],
    *,
    mechanism_of: Mechanisms,
    epsilon: float,
    value_range: Range,
    devices: int,
    narrow: Range | None,
) -> tuple[Remedy, ...]:
    """Return what would beat the constant, one change at a time.

    Args:
        tried: Forecasts for a mechanism and so many times the devices.
        mechanism_of: Makes the mechanism of a budget and a range.
        epsilon: The budget of a report.
        value_range: The public range.
        devices: How many devices there are.
        narrow: A narrower range to try; None for none.
    """
    found = []
    doublings = [2**power for power in range(1, _MOST_TIMES.bit_length())]
    for times in doublings:
        forecast = tried(mechanism_of(epsilon, value_range), times)
        if forecast.beats_constant:
            found.append(Remedy("devices", float(times * devices), forecast.skill))
            break
    for times in doublings:
        if times * epsilon > _MOST_EPSILON:
            break
        forecast = tried(mechanism_of(times * epsilon, value_range), 1)
        if forecast.beats_constant:
            found.append(Remedy("epsilon", times * epsilon, forecast.skill))
            break
    if narrow is not None:
        forecast = tried(mechanism_of(epsilon, narrow), 1)
        if forecast.beats_constant:
            found.append(Remedy("range", narrow.width, forecast.skill))
    return tuple(found)


def _means(
    every: Floats,
    sizes: NDArray[np.int64],
    mechanism: RangeRandomizer,
    *,
    seeds: Sequence[int],
    portion: range,
    on_trial: Callable[[float], None],
) -> RunMeans:
    """Draw the noise of a portion of the trials, a few at a time; return what rounds show."""
    parts = []
    at_once = max(_AT_ONCE // len(every), 1)
    for start in range(portion.start, portion.stop, at_once):
        on_trial(start / len(seeds))
        some = seeds[start : min(start + at_once, portion.stop)]
        drawn = [mechanism.randomize(every, rng=SeededRandom(seed)) for seed in some]
        parts.append(run_means(np.stack(drawn), sizes, randomizer=mechanism))
    spreads = [part.spreads for part in parts if part.spreads is not None]
    return RunMeans(
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.variances for part in parts]),
        np.concatenate(spreads) if spreads else None,
        sizes,
        parts[0].degrees,
    )


def _join_runs(parts: Sequence[Runs]) -> Runs:
    """Return the runs of several portions as one."""
    return Runs(
        *(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(Runs))
    )


def _jackknife(left_out: Floats) -> float:
    """Return the standard error of a number from its values with one trial left out each."""
    count = len(left_out)
    return math.sqrt((count - 1) / count * float(np.square(left_out - left_out.mean()).sum()))
