"""Made-up fleets whose true mean is known, drawings of their noise, and what ideal estimators say.

Two kinds: fleets that move together by one rule each, and appliances near the low end of a range.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    "draw_world",
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
        fleet: The fleet.
        rounds: How many rounds.
        after: For how many rounds after a change of the mean by more than a tenth of the width the
            intervals are scored as an event; 0 for none.
        is_resting: Whether its mean does not move.
        is_ordinary: Whether it is one of those that the estimator of dc99681 followed well.
        is_smooth: Whether its mean repeats or goes on without jumps, so that looking back helps.
    """

    fleet: Fleet | Appliances
    rounds: int
    after: int = 0
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
        "office hours": Case(Fleet(office, 100), 1008, _AFTER_EDGE),
        "weekend": Case(Fleet(weekend, 100), 1344, 6),
        "daily sine": Case(
            Fleet(wave(_DAY_H, 0.15), 100, own=0.05, jitter=0.05),
            700,
            is_ordinary=True,
            is_smooth=True,
        ),
        "jump up": Case(Fleet(step(0.15, 0.45), 100), 700, _AFTER_JUMP),
        "jump down": Case(Fleet(step(0.5, 0.05), 100), 700, _AFTER_JUMP),
        "spikes": Case(Fleet(spikes, 100), 900, 4),
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
    """What was drawn in one world: reports, and the truth behind them.

    Args:
        means: The unbiased means, one drawing a row.
        times_s: When each round began.
        truth: The true mean of each round.
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


def draw_world(case: Case, epsilon: float, world: int, *, drawings: range = DRAWINGS) -> World:
    """Draw the noise of one world some times.

    Args:
        case: The fleet.
        epsilon: The budget of a report.
        world: Decides offsets, jitter and phase.
        drawings: One drawing of the noise each.
    """
    mechanism = randomizer_named(
        "auto", epsilon, domain=UNIT, precision=Precision(beta=0.5, rho=0.9)
    )
    table = case.fleet.readings(world, rounds=case.rounds)
    is_there = ~np.isnan(table)
    reports = np.stack(
        [
            mechanism.randomize(table[is_there], rng=SeededRandom(10_000 * world + drawing))
            for drawing in drawings
        ]
    )
    means = run_means(reports, is_there.sum(axis=1), randomizer=mechanism)
    times_s: Floats = np.arange(case.rounds, dtype=np.float64) * case.fleet.every_s
    return World(means, times_s, np.nanmean(table, axis=1))


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
    """Return what the best linear filter of a week's memory says that knows the autocovariance."""
    truth, values = world.truth, world.means.values
    centred = truth - truth.mean()
    lags = [float(centred[lag:] @ centred[: len(centred) - lag]) for lag in range(_MEMORY)]
    covariance = np.array(lags) / len(centred)
    places = np.abs(np.subtract.outer(np.arange(_MEMORY), np.arange(_MEMORY)))
    noise = world.means.variances.mean(axis=0)
    found = np.empty_like(values)
    weights: dict[float, Floats] = {}
    for place in range(values.shape[1]):
        span = min(place + 1, _MEMORY)
        key = float(span) if np.ptp(noise) < 0.2 * noise.mean() else float(place)
        if key not in weights:
            recent = noise[place - span + 1 : place + 1][::-1]
            signal = covariance[places[:span, :span]]
            solved = np.linalg.solve(signal + np.diag(recent), covariance[:span])
            weights[key] = np.asarray(solved, dtype=np.float64)
        window = values[:, place - span + 1 : place + 1][:, ::-1] - truth.mean()
        found[:, place] = truth.mean() + window @ weights[key]
    return found


def events(truth: Floats, *, after: int) -> Flags:
    """Say which rounds follow a change of the mean by a tenth of the width, after the first week.

    Recurring edges can be learnt only once they have been seen.
    """
    found = np.zeros(len(truth), dtype=np.bool_)
    for place in np.flatnonzero(np.abs(np.diff(truth)) > 0.1) + 1:
        found[place : place + after] = True
    found[:_LEARNING] = False
    return found
