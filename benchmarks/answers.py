"""Can answers of `tracked` be relied on: intervals, events, errors, looking back?

On fourteen made-up fleets in a range of 0 to 1, whose true mean is known: twenty drawings of the
noise, four in each of five worlds, at five epsilons. The error is compared to that of the unbiased
mean, of the mean of all earlier rounds, of a linear filter that knows the true autocovariance, and
of the estimator at commit dc99681, which is read from the history of the repository. Worlds from
501 on served the choice of numbers; those reported here did not. Takes more than an hour of a core.
"""

import importlib.util
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import PeerMissing, Row, Target
from benchmarks.together import Fleet, drift, flat, office, square, wave
from rase.counts.estimate import Estimate, student_quantile
from rase.counts.registry import SMOOTHED
from rase.domain import Precision, Range
from rase.kernels.words import SeededRandom
from rase.laws.registry import randomizer_named
from rase.series.bank import FilterBank
from rase.series.runs import RunMeans, run_means
from rase.series.smoother import smooth_record

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
WORLDS, DRAWINGS = range(1, 6), range(4)
UNIT = Range(0, 1)
# A week of hours: before it much of what moves cannot have been seen.
BURN_IN = 168
EARLIER = "dc99681"
_HOUR_S, _DAY_H = 3600.0, 24.0
_NORMAL = student_quantile(0.95, math.inf)
# How many rounds the ideal linear filter looks back at.
_MEMORY = 168
# A jump counts for so many rounds; a recurring edge for the round of the change and the next.
_AFTER_JUMP, _AFTER_EDGE = 24, 2


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
    """

    fleet: Fleet
    rounds: int
    after: int = 0
    is_resting: bool = False


CASES: Mapping[str, Case] = MappingProxyType(
    {
        "sine of 3.3 h": Case(Fleet(wave(3.3, 0.1), 50), 700),
        "sine of 3.3 h, 1000 devices": Case(Fleet(wave(3.3, 0.1), 1000), 400),
        "tide of 12.42 h": Case(Fleet(wave(12.42, 0.25), 50), 700),
        "square wave of 5 h": Case(Fleet(square, 50), 700),
        "sine of 90 min, by minutes": Case(Fleet(wave(1.5, 0.1), 60, 60.0), 900),
        "office hours": Case(Fleet(office, 100), 1008, _AFTER_EDGE),
        "weekend": Case(Fleet(weekend, 100), 1344, 6),
        "daily sine": Case(Fleet(wave(_DAY_H, 0.15), 100, own=0.05, jitter=0.05), 700),
        "jump up": Case(Fleet(step(0.15, 0.45), 100), 700, _AFTER_JUMP),
        "jump down": Case(Fleet(step(0.5, 0.05), 100), 700, _AFTER_JUMP),
        "spikes": Case(Fleet(spikes, 100), 900, 4),
        "drift": Case(Fleet(drift, 100), 700),
        "flat": Case(Fleet(flat, 50), 700, is_resting=True),
        "5 and 200 in turns": Case(
            Fleet(wave(_DAY_H, 0.1), 200, few=5, own=0.15, jitter=0.05), 700
        ),
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
    """What an estimator says of each round, one drawing a row: values, and how far they reach."""

    values: Floats
    reach: Floats


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield for each fleet and epsilon what intervals and errors are like."""
    earlier = bank_of_commit(EARLIER)
    for name in ("flat", "spikes") if quick else CASES:
        case = CASES[name]
        for epsilon in EPSILONS[1:2] if quick else EPSILONS:
            worlds = [
                draw(case, epsilon, world, drawings=DRAWINGS[:1] if quick else DRAWINGS)
                for world in (WORLDS[:1] if quick else WORLDS)
            ]
            yield from rows_of(name, epsilon, worlds, earlier=earlier)


def rows_of(
    name: str, epsilon: float, worlds: list[World], *, earlier: ModuleType
) -> Iterator[Row]:
    """Yield the figures of one fleet at one epsilon."""
    case = CASES[name]
    size = f"{name}, epsilon {epsilon:g}, {sum(len(one.means.values) for one in worlds)} drawings"
    ours = [follow(one, FilterBank) for one in worlds]
    theirs = [follow(one, earlier.FilterBank) for one in worlds]
    held = np.concatenate([_held(one, world) for one, world in zip(ours, worlds, strict=True)])
    late, early = float(held[:, BURN_IN:].mean()), float(held[:, :BURN_IN].mean())
    pairs = zip(theirs, worlds, strict=True)
    before = float(np.mean([_held(one, world)[:, BURN_IN:].mean() for one, world in pairs]))
    yield Row(
        "95 % intervals after the first week",
        "the truth",
        size,
        late,
        "share of rounds covered",
        target=Target("at least", 0.92),
        note=f"covered {late:.3f}, in the first week {early:.3f}; dc99681 {before:.3f}",
    )
    if case.after:
        event = np.concatenate(
            [
                _held(one, world)[:, events(world.truth, after=case.after)].ravel()
                for one, world in zip(ours, worlds, strict=True)
            ]
        )
        error = float(np.sqrt(np.mean([world.means.variances.mean() for world in worlds])))
        largest = max(float(np.abs(np.diff(world.truth)).max()) for world in worlds)
        yield Row(
            f"95 % intervals in the {case.after} rounds after a change",
            "the truth",
            size,
            float(event.mean()),
            "share of rounds covered",
            target=Target("at least", 0.85) if largest >= 2 * error else None,
            note=f"covered {event.mean():.3f} of {event.size}; a change is {largest / error:.1f} "
            "errors of a single round",
        )
    yield _errors(size, case, worlds, ours=ours, theirs=theirs)
    yield _looking_back(size, worlds, ours)


def _errors(
    size: str, case: Case, worlds: list[World], *, ours: list[Followed], theirs: list[Followed]
) -> Row:
    """Return how large the error is against the better of the unbiased mean and the constant."""
    pairs = list(zip(ours, worlds, strict=True))
    error = _root([one.values - world.truth for one, world in pairs], first=1)
    earlier = _root([one.values - w.truth for one, w in zip(theirs, worlds, strict=True)], first=1)
    alone = _root([world.means.values - world.truth for world in worlds], first=1)
    constant = _root([history(world) - world.truth for world in worlds], first=1)
    late = _root([one.values - world.truth for one, world in pairs], first=BURN_IN)
    oracle = _root([ideal(world) - world.truth for world in worlds], first=BURN_IN)
    return Row(
        "error of tracked",
        "the better of unbiased mean and constant",
        size,
        error / min(alone, constant),
        "its RMSE / the smaller RMSE",
        target=Target("at most", 1.2 if case.is_resting else 1.05),
        note=f"RMSE {error:.4g}; / dc99681 {error / earlier:.3f}, / unbiased {error / alone:.3f}, "
        f"/ constant {error / constant:.3f}, / ideal linear filter {late / oracle:.3f}",
    )


def _looking_back(size: str, worlds: list[World], ours: list[Followed]) -> Row:
    """Return how many times nearer the truth is when all rounds of the record are known."""
    before, after, held, revised = [], [], [], []
    for one, world in zip(ours, worlds, strict=True):
        for drawing in range(len(one.values)):
            smoothed = smooth_record(
                world.times_s.tolist(),
                _estimates(world.means.values[drawing], np.sqrt(world.means.variances[drawing])),
                filtered=_estimates(one.values[drawing], one.reach[drawing] / _NORMAL),
            )
            values = np.array([estimate.value for estimate in smoothed])
            ends = np.array([estimate.interval() for estimate in smoothed])
            before.append(np.square(one.values[drawing] - world.truth).mean())
            after.append(np.square(values - world.truth).mean())
            held.append(((ends[:, 0] <= world.truth) & (world.truth <= ends[:, 1])).mean())
            revised.append(np.mean([estimate.method == SMOOTHED for estimate in smoothed]))
    return Row(
        "smoothed",
        "filtered",
        size,
        float(np.sqrt(np.mean(before) / np.mean(after))),
        "its RMSE / our RMSE",
        target=Target("at least", 1 / 1.03),
        note=f"covered {np.mean(held):.3f}; {np.mean(revised):.0%} of the rounds revised",
    )


def _estimates(values: Floats, errors: Floats) -> list[Estimate]:
    return [
        Estimate(
            value, error, n=1, method="tracked", target="mean", lowest=UNIT.low, highest=UNIT.high
        )
        for value, error in zip(values.tolist(), errors.tolist(), strict=True)
    ]


def draw(case: Case, epsilon: float, world: int, *, drawings: range = DRAWINGS) -> World:
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
    return Followed(values, reach)


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
    found[:BURN_IN] = False
    return found


def bank_of_commit(commit: str) -> ModuleType:
    """Return the module of filters as it was at a commit of this repository.

    Raises:
        PeerMissing: If the history is not here.
    """
    folder = Path(__file__).parent.parent
    shown = subprocess.run(
        ["git", "show", f"{commit}:src/rase/estimate/bank.py"],  # noqa: S607 - found on the path
        cwd=folder,
        capture_output=True,
        check=False,
    )
    if shown.returncode:
        raise PeerMissing(f"commit {commit} is not here: clone the repository with its history")
    with tempfile.TemporaryDirectory() as kept:
        file = Path(kept) / "bank_of_commit.py"
        file.write_bytes(shown.stdout)
        spec = importlib.util.spec_from_file_location(f"bank_{commit}", file)
        if spec is None or spec.loader is None:
            raise PeerMissing(f"the filters of commit {commit} cannot be read")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    return module


def _held(followed: Followed, world: World) -> Flags:
    # Ends beyond the range are cut, which loses no truth.
    return np.asarray(np.abs(followed.values - world.truth) <= followed.reach)


def _root(errors: list[Floats], *, first: int) -> float:
    return float(np.sqrt(np.mean([np.square(one[:, first:]).mean() for one in errors])))
