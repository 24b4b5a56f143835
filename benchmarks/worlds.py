"""Made-up fleets whose true mean is known, drawings of their noise, and what ideal estimators say.

Two kinds: fleets that move together by one rule each, and appliances near the low end of a range.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from benchmarks.appliances import APPLIANCES, Appliances
from benchmarks.together import Fleet, drift, flat, office, square, wave
from rase.counts.estimate import student_quantile
from rase.domain import Precision, Range
from rase.kernels.words import SeededRandom
from rase.laws.registry import randomizer_named
from rase.series.bank import FilterBank
from rase.series.runs import RunMeans, run_means

__all__ = [
    "CASES",
    "DRAWINGS",
    "UNIT",
    "Case",
    "Followed",
    "World",
    "change_point",
    "draw_panel",
    "draw_world",
    "draw_worlds",
    "events",
    "follow",
    "history",
    "ideal",
]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

UNIT = Range(0, 1)
DRAWINGS = range(4)
_DAY_H = 24.0
# How many rounds the ideal linear filter looks back at.
_MEMORY = 168
# A jump counts for so many rounds; a recurring edge for the round of the change and the next.
_AFTER_JUMP, _AFTER_EDGE = 24, 2
# What is learnt of an edge or a cycle in the first week is not held against an event.
_LEARNING = 168
# How far the logarithms of variances of noise may differ that are taken as alike.
_EVEN = 0.2


def weekend(hours: Floats, phase: float) -> Floats:
    """Return a daily wave that lies higher on two days of seven."""
    days = np.floor(hours / _DAY_H + math.floor(7 * phase))
    return np.asarray(
        0.3 + 0.1 * np.sin(2 * math.pi * hours / _DAY_H) + np.where(days % 7 >= 5, 0.2, 0.0)
    )


def step(before: float, after: float) -> Callable[[Floats, float], Floats]:
    """Return a mean that jumps once, after 330 to 370 hours."""

    def mean(hours: Floats, phase: float) -> Floats:
        return np.where(hours < 330 + math.floor(40 * phase), before, after)

    return mean


def spikes(hours: Floats, phase: float) -> Floats:
    """Return 0.2, and 0.6 for four hours in every ninety."""
    return np.where((hours + math.floor(90 * phase)) % 90 < 4, 0.6, 0.2)


@dataclass(frozen=True, slots=True)
class Case:
    """A fleet, how many rounds it is followed, and which rounds are events.

    Args:
        fleet: The fleet; None if its readings were measured.
        rounds: How many rounds.
        after: For how many rounds after a change of the mean by more than a tenth of the width the
            intervals are scored as an event; 0 for none.
        least_change: How many errors of a single round a change must be, so that intervals are
            asked to hold after it.
        is_resting: Whether its mean does not move.
        is_ordinary: Whether it is one of those that the estimator of dc99681 followed well.
        is_smooth: Whether its mean repeats or goes on without jumps, so that looking back helps.
    """

    fleet: Fleet | Appliances | None
    rounds: int
    after: int = 0
    least_change: float = 2.0
    is_resting: bool = False
    is_ordinary: bool = False
    is_smooth: bool = False


CASES: Mapping[str, Case] = MappingProxyType(
    {
        "sine of 3.3 h": Case(Fleet(wave(3.3, 0.1), 50), 700, is_smooth=True),
        "sine of 3.3 h, 1000 devices": Case(Fleet(wave(3.3, 0.1), 1000), 400, is_smooth=True),
        "tide of 12.42 h": Case(Fleet(wave(12.42, 0.25), 50), 700, is_smooth=True),
        "square wave of 5 h": Case(Fleet(square, 50), 700),
        "sine of 90 min, by minutes": Case(Fleet(wave(1.5, 0.1), 60, 60.0), 900, is_smooth=True),
        "office hours": Case(Fleet(office, 100), 1008, _AFTER_EDGE, least_change=0.0),
        "weekend": Case(Fleet(weekend, 100), 1344, 6, least_change=0.0),
        "daily sine": Case(
            Fleet(wave(_DAY_H, 0.15), 100, own=0.05, jitter=0.05),
            700,
            is_ordinary=True,
            is_smooth=True,
        ),
        "jump up": Case(Fleet(step(0.15, 0.45), 100), 700, _AFTER_JUMP),
        "jump down": Case(Fleet(step(0.5, 0.05), 100), 700, _AFTER_JUMP),
        "spikes": Case(Fleet(spikes, 100), 900, 4, least_change=4.0),
        "drift": Case(Fleet(drift, 100), 700, is_ordinary=True),
        "flat": Case(Fleet(flat, 50), 600, is_resting=True),
        "flat, 5,000 rounds": Case(Fleet(flat, 50), 5000, is_resting=True),
        "5 and 200 in turns": Case(
            Fleet(wave(_DAY_H, 0.1), 200, few=5, own=0.15, jitter=0.05), 700
        ),
        **{
            name: Case(
                fleet,
                1200 if fleet.every_s < 600 else 700,
                # Those by minutes are ordinary, too, but not asked for.
                is_ordinary=fleet.every_s >= 600,
            )
            for name, fleet in APPLIANCES.items()
        },
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """What was drawn: reports, and the truth behind them, one drawing a row.

    Args:
        means: The unbiased means.
        times_s: When each round began.
        truth: The true mean of each round; drawings of one world share it.
    """

    means: RunMeans
    times_s: Floats
    truth: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Followed:
    """What an estimator says of each round, one drawing a row.

    Args:
        values: The estimates.
        reach: How far their 95 % intervals reach.
        evidence: How well each of its models predicted the record; None of the earlier one.
        sampling: How far rounds are off by who reported, as variances; likewise.
    """

    values: Floats
    reach: Floats
    evidence: Floats | None = None
    sampling: Floats | None = None


def draw_worlds(
    case: Case, *, epsilon: float, worlds: Iterable[int], drawings: range = DRAWINGS
) -> World:
    """Draw the noise of some worlds some times each, all in one, so that one bank follows them.

    Rounds of all worlds are equally sure, as `follow` supposes: they have as many reports, and the
    law of the noise hardly depends on the readings.
    """
    return _joined([draw_world(case, epsilon, world, drawings=drawings) for world in worlds])


def draw_world(case: Case, epsilon: float, world: int, *, drawings: range = DRAWINGS) -> World:
    """Draw the noise of one world some times.

    Args:
        case: The fleet.
        epsilon: The budget of a report.
        world: Decides offsets, jitter and phase.
        drawings: One drawing of the noise each.
    """
    if case.fleet is None:
        raise ValueError("case must have a fleet; measured readings are drawn by draw_panel.")
    table = case.fleet.readings(world, rounds=case.rounds)
    times_s: Floats = np.arange(case.rounds, dtype=np.float64) * case.fleet.every_s
    seeds = range(10_000 * world + drawings.start, 10_000 * world + drawings.stop)
    return _drawn(table, times_s, epsilon, seeds)


def draw_panel(
    readings: Floats, times_s: Floats, *, epsilon: float, value_range: Range, seeds: range
) -> World:
    """Draw the noise of measured readings some times, with their range moved to 0 to 1.

    Args:
        readings: Rounds x devices; NaN where a device did not report. Rounds without any are left
            out.
        times_s: When each round began.
        epsilon: The budget of a report.
        value_range: The public range; readings are clipped to it.
        seeds: One drawing of the noise each.
    """
    table = (readings.clip(value_range.low, value_range.high) - value_range.low) / value_range.width
    some = ~np.isnan(table).all(axis=1)
    return _drawn(table[some], times_s[some], epsilon, seeds)


def _drawn(table: Floats, times_s: Floats, epsilon: float, seeds: range) -> World:
    mechanism = randomizer_named(
        "auto", epsilon, domain=UNIT, precision=Precision(beta=0.5, rho=0.9)
    )
    is_there = ~np.isnan(table)
    reports = np.stack(
        [mechanism.randomize(table[is_there], rng=SeededRandom(seed)) for seed in seeds]
    )
    means = run_means(reports, is_there.sum(axis=1), randomizer=mechanism)
    return World(means, times_s, np.tile(np.nanmean(table, axis=1), (len(seeds), 1)))


def _joined(worlds: list[World]) -> World:
    means = [world.means for world in worlds]
    spreads = [one.spreads for one in means if one.spreads is not None]
    joined = RunMeans(
        np.concatenate([one.values for one in means]),
        np.concatenate([one.variances for one in means]),
        np.concatenate(spreads) if spreads else None,
        means[0].sizes,
        means[0].degrees,
    )
    return World(joined, worlds[0].times_s, np.concatenate([world.truth for world in worlds]))


def follow(world: World, kind: Callable[..., Any]) -> Followed:
    """Follow all drawings of a world by a bank of filters."""
    means = world.means
    bank = kind(UNIT.low, UNIT.width, runs=len(means.values))
    values, reach = np.empty_like(means.values), np.empty_like(means.values)
    sampling = np.zeros(means.values.shape[1])
    for place, time_s in enumerate(world.times_s.tolist()):
        belief = bank.step(
            time_s,
            means.values[:, place],
            variance=float(means.variances[:, place].mean()),
            n=int(means.sizes[place]),
            **_tails(means, place, is_new=kind is FilterBank),
        )
        if means.spreads is not None:
            bank.learn_spread(means.spreads[:, place])
        values[:, place] = belief.means
        quantiles = [student_quantile(0.95, degrees) for degrees in belief.degrees.tolist()]
        reach[:, place] = quantiles * np.sqrt(belief.variances)
        sampling[place] = getattr(bank, "sampling", 0.0)
    return Followed(values, reach, getattr(bank, "evidence", None), sampling)


def _tails(means: RunMeans, place: int, *, is_new: bool) -> dict[str, float]:
    """Return what only the present filters are told: how heavy the tails of the noise are."""
    if not is_new or means.degrees is None:
        return {}
    return {"degrees": float(means.degrees[place])}


def history(world: World) -> Floats:
    """Return the mean of all earlier unbiased means, within the range."""
    values = world.means.values
    sums = np.cumsum(values, axis=1)[:, :-1] / np.arange(1, values.shape[1])
    return np.asarray(np.concatenate([values[:, :1], sums], axis=1).clip(UNIT.low, UNIT.high))


def ideal(world: World) -> Floats:
    """Return what the best linear filter of a week's memory says that knows the autocovariance.

    That of all worlds together, each about its own mean.
    """
    values = world.means.values
    level = world.truth.mean(axis=1, keepdims=True)
    centred = world.truth - level
    rounds = centred.shape[1]
    memory = min(_MEMORY, rounds)
    lags = [float((centred[:, lag:] * centred[:, : rounds - lag]).sum()) for lag in range(memory)]
    covariance = np.array(lags) / centred.size
    places = np.abs(np.subtract.outer(np.arange(memory), np.arange(memory)))
    # Noise that differs by less than a fifth is taken as alike.
    noise = np.exp(_EVEN * np.round(np.log(world.means.variances.mean(axis=0)) / _EVEN))
    found = np.empty_like(values)
    weights: dict[bytes, Floats] = {}
    for place in range(rounds):
        span = min(place + 1, memory)
        recent = noise[place - span + 1 : place + 1][::-1]
        key = recent.tobytes()
        if key not in weights:
            signal = covariance[places[:span, :span]]
            solved = np.linalg.solve(signal + np.diag(recent), covariance[:span])
            weights[key] = np.asarray(solved, dtype=np.float64)
        window = values[:, place - span + 1 : place + 1][:, ::-1] - level
        found[:, place] = level[:, 0] + window @ weights[key]
    return found


def events(truth: Floats, *, after: int) -> Flags:
    """Say which rounds follow a change of the mean by a tenth of the width, after the first week.

    Recurring edges can be learnt only once they have been seen.
    """
    found = np.zeros(truth.shape, dtype=np.bool_)
    for row, place in np.argwhere(np.abs(np.diff(truth, axis=1)) > 0.1):
        found[row, place + 1 : place + 1 + after] = True
    found[:, :_LEARNING] = False
    return found


def change_point(values: Floats, truth: Floats, *, noise: float, rate: float, size: float) -> Flags:
    """Say in which rounds a 95 % interval holds that knows all but when the mean jumps.

    An ideal: the mean rests but for one jump, the chance of which is known for every round, as are
    the noise and the law of sizes, a normal one. Every moment of the jump is a hypothesis; given
    one, the mean is a normal number.

    Args:
        values: Unbiased means, one run a row.
        truth: The true means.
        noise: The variance of ``values``.
        rate: The chance of a jump in a round.
        size: The variance of its size.
    """
    runs, rounds = values.shape
    means, variances = np.zeros((runs, 1)), np.array([1e6])
    weights = np.zeros((runs, 1))
    held = np.zeros(values.shape, dtype=np.bool_)
    for place in range(rounds):
        if place:
            # No jump so far comes first; the others began with a jump before some round.
            jump = weights[:, :1] + math.log(rate)
            weights = np.concatenate([weights[:, :1] + math.log1p(-rate), weights[:, 1:], jump], 1)
            means = np.concatenate([means, means[:, :1]], axis=1)
            variances = np.append(variances, variances[0] + size)
        totals = variances + noise
        surprises = values[:, place, None] - means
        weights = weights - 0.5 * (np.log(totals) + surprises**2 / totals)
        weights -= weights.max(axis=1, keepdims=True)
        means = means + variances / totals * surprises
        variances = variances * noise / totals
        below = ndtr((truth[:, place, None] - means) / np.sqrt(variances))
        shares = np.exp(weights)
        chance = (shares * below).sum(axis=1) / shares.sum(axis=1)
        held[:, place] = (chance >= 0.025) & (chance <= 0.975)
    return held
