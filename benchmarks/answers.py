"""Can answers of `tracked` be relied on: intervals, events, errors, windows, looking back, cost?

On made-up fleets in a range of 0 to 1 whose true mean is known (`benchmarks.worlds`): twenty
drawings of the noise, four in each of five worlds, at five epsilons. Errors are compared to those
of the unbiased mean, of the mean of all earlier rounds, of a linear filter that knows the true
autocovariance, and of the estimator at commit dc99681, which is read from the history of the
repository and also says what a round may cost. Worlds from 501 on served the choice of numbers;
those reported here did not. Takes hours of a core. The paper's estimators are compared on measured
data by `accuracy`.
"""

import importlib.util
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import PeerMissing, Row, Target, taken_in_turn
from benchmarks.worlds import (
    CASES,
    DRAWINGS,
    UNIT,
    Case,
    Followed,
    World,
    draw_world,
    events,
    follow,
    history,
    ideal,
)
from rase.counts.estimate import Estimate, student_quantile
from rase.counts.registry import SMOOTHED
from rase.domain import Range
from rase.series.bank import FilterBank
from rase.series.smoother import smooth_record
from rase.series.tracker import Tracker

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
WORLDS = range(1, 6)
# A week of hours: before it much of what moves cannot have been seen.
BURN_IN = 168
EARLIER = "dc99681"
_NORMAL = student_quantile(0.95, math.inf)
_QUICK = ("flat", "spikes", "homes that rest at night")
# Windows of so many rounds, of which rounds are missing by chance and some at the most; every
# fourth is scored.
WINDOW, _MISSING, _MOST_MISSING, _EVERY_WINDOW = 24, 0.06, 3, 4
# A round is timed in blocks of so many, and again after so many rounds.
_BLOCK, _LONG, _LONG_QUICK = 64, 100_000, 1_000


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield for each fleet and epsilon what intervals and errors are like, and what rounds cost."""
    earlier = bank_of_commit(EARLIER)
    yield _exact_windows(series=2 if quick else 20)
    yield from _costs(earlier, rounds=_LONG_QUICK if quick else _LONG)
    for name in _QUICK if quick else CASES:
        for epsilon in EPSILONS[1:2] if quick else EPSILONS:
            worlds = [
                draw_world(
                    CASES[name], epsilon, world, drawings=DRAWINGS[:1] if quick else DRAWINGS
                )
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
    yield from _coverage(size, worlds, ours=ours, theirs=theirs)
    if case.after:
        yield _events(size, case, worlds, ours)
    yield from _errors(size, case, worlds, ours=ours, theirs=theirs)
    yield from _looking_back(size, worlds, ours, is_gain=case.is_smooth and epsilon <= 1)
    yield from _windows(size, worlds)


def _coverage(
    size: str, worlds: list[World], *, ours: list[Followed], theirs: list[Followed]
) -> Iterator[Row]:
    """Yield how often intervals hold, in the first week and after it."""
    held = np.concatenate([_held(one, world) for one, world in zip(ours, worlds, strict=True)])
    pairs = zip(theirs, worlds, strict=True)
    before = float(np.mean([_held(one, world)[:, BURN_IN:].mean() for one, world in pairs]))
    late, early = float(held[:, BURN_IN:].mean()), float(held[:, :BURN_IN].mean())
    limits = {"in the first week": (early, 0.85), "after the first week": (late, 0.92)}
    for when, (share, limit) in limits.items():
        yield Row(
            f"95 % intervals {when}",
            "the truth",
            size,
            share,
            "share of rounds covered",
            target=Target("at least", limit),
            note=f"dc99681 {before:.3f} after the first week",
        )
    if _is_seen(worlds, ours):
        yield Row(
            "95 % intervals where motion exceeds the error",
            "the truth",
            size,
            late,
            "share of rounds covered",
            target=Target("at most", 0.98),
        )


def _events(size: str, case: Case, worlds: list[World], ours: list[Followed]) -> Row:
    """Return how often intervals hold after a change of the mean."""
    event = np.concatenate(
        [
            _held(one, world)[:, events(world.truth, after=case.after)].ravel()
            for one, world in zip(ours, worlds, strict=True)
        ]
    )
    error = float(np.sqrt(np.mean([world.means.variances.mean() for world in worlds])))
    largest = max(float(np.abs(np.diff(world.truth)).max()) for world in worlds)
    return Row(
        f"95 % intervals in the {case.after} rounds after a change",
        "the truth",
        size,
        float(event.mean()),
        "share of rounds covered",
        target=Target("at least", 0.85) if largest >= 2 * error else None,
        note=f"of {event.size} rounds; a change is {largest / error:.1f} errors of a single round",
    )


def _errors(
    size: str, case: Case, worlds: list[World], *, ours: list[Followed], theirs: list[Followed]
) -> Iterator[Row]:
    """Yield how large the error is against a constant, the round alone and other filters."""
    pairs = list(zip(ours, worlds, strict=True))
    error = _root([one.values - world.truth for one, world in pairs], first=1)
    alone = _root([world.means.values - world.truth for world in worlds], first=1)
    constant = _root([history(world) - world.truth for world in worlds], first=1)
    target = Target("at most", 1.05) if _is_seen(worlds, ours) else None
    if case.is_resting:
        target = Target("at most", 1.2 if case.rounds <= 600 else 1.05)
    means = "its RMSE / the other RMSE"
    yield Row(
        "error of tracked",
        "the better of unbiased mean and constant",
        size,
        error / min(alone, constant),
        means,
        target=target,
        note=f"RMSE {error:.4g}; / unbiased {error / alone:.3f}, / constant {error / constant:.3f}",
    )
    late = _root([one.values - world.truth for one, world in pairs], first=BURN_IN)
    oracle = _root([ideal(world) - world.truth for world in worlds], first=BURN_IN)
    yield Row(
        "error of tracked",
        "a linear filter that knows the autocovariance",
        size,
        late / oracle,
        means,
        target=Target("at most", 1.15) if _is_seen(worlds, ours) else None,
    )
    earlier = _root([one.values - w.truth for one, w in zip(theirs, worlds, strict=True)], first=1)
    yield Row(
        "error of tracked",
        EARLIER,
        size,
        error / earlier,
        means,
        target=Target("at most", 1.02) if case.is_ordinary else None,
    )


def _looking_back(
    size: str, worlds: list[World], ours: list[Followed], *, is_gain: bool
) -> Iterator[Row]:
    """Yield how many times nearer the truth is when all rounds of the record are known."""
    before, after, held, revised = [], [], [], []
    for one, world in zip(ours, worlds, strict=True):
        if one.evidence is None or one.sampling is None:
            raise ValueError("ours must be followed by the present filters.")
        for drawing in range(len(one.values)):
            smoothed = smooth_record(
                world.times_s.tolist(),
                _estimates(world.means.values[drawing], np.sqrt(world.means.variances[drawing])),
                filtered=_estimates(one.values[drawing], one.reach[drawing] / _NORMAL),
                evidence=one.evidence[drawing],
                sampling=one.sampling.tolist(),
            )
            values = np.array([estimate.value for estimate in smoothed])
            ends = np.array([estimate.interval() for estimate in smoothed])
            before.append(np.square(one.values[drawing] - world.truth).mean())
            after.append(np.square(values - world.truth).mean())
            held.append(((ends[:, 0] <= world.truth) & (world.truth <= ends[:, 1])).mean())
            revised.append(np.mean([estimate.method == SMOOTHED for estimate in smoothed]))
    yield Row(
        "smoothed",
        "filtered",
        size,
        float(np.sqrt(np.mean(before) / np.mean(after))),
        "its RMSE / our RMSE",
        target=Target("at least", 1.25 if is_gain else 1 / 1.03),
        note=f"{np.mean(revised):.0%} of the rounds revised",
    )
    yield Row(
        "95 % intervals of smoothed",
        "the truth",
        size,
        float(np.mean(held)),
        "share of rounds covered",
        target=Target("at least", 0.9),
    )


def _windows(size: str, worlds: list[World]) -> Iterator[Row]:
    """Yield how good windows of 24 are of which up to three rounds are missing."""
    ours, plain, held = [], [], []
    for number, world in enumerate(worlds):
        is_there = np.random.default_rng(number).uniform(size=len(world.truth)) >= _MISSING
        for place, found in _windows_of(world, is_there):
            last = slice(place - WINDOW + 1, place + 1)
            truth, (low, high) = float(world.truth[last].mean()), found.interval()
            ours.append(found.value - truth)
            plain.append(float(world.means.values[0, last][is_there[last]].mean()) - truth)
            held.append(low <= truth <= high)
    yield Row(
        f"windows of {WINDOW}, up to {_MOST_MISSING} rounds missing",
        "the mean of the rounds that are there",
        size.replace("drawings", "drawings of which the first of each world"),
        math.sqrt(np.square(ours).mean() / np.square(plain).mean()),
        "its RMSE / the other RMSE",
    )
    yield Row(
        f"95 % intervals of windows of {WINDOW}",
        "the truth",
        size,
        float(np.mean(held)),
        f"share of {len(held)} windows covered",
        target=Target("at least", 0.92),
    )


def _windows_of(world: World, is_there: Flags) -> Iterator[tuple[int, Estimate]]:
    """Yield windows of the first drawing, after the first week, by the round they end with."""
    means, every_s = world.means, float(world.times_s[1] - world.times_s[0])
    tracker = Tracker(UNIT, window=WINDOW, every_s=every_s)
    for place in np.flatnonzero(is_there).tolist():
        alone = Estimate(
            float(means.values[0, place]),
            math.sqrt(means.variances[0, place]),
            n=int(means.sizes[place]),
            method="unbiased_mean",
            target="mean",
            degrees_of_freedom=math.inf if means.degrees is None else float(means.degrees[place]),
        )
        spread = None if means.spreads is None else float(means.spreads[0, place])
        tracker.update(float(world.times_s[place]), alone, spread=spread)
        found = tracker.mean_of_last() if place >= BURN_IN and place % _EVERY_WINDOW == 0 else None
        if found is not None and found.rounds >= WINDOW - _MOST_MISSING:
            yield place, found


def _exact_windows(*, series: int) -> Row:
    """Return the error of windows against the exact law, on series that one model draws.

    The model wanders by a twentieth of the range a day. Knowing it, the mean of a window of which
    three rounds are missing follows from one solve over all rounds.
    """
    rounds, noise, rng = 240, 0.05, np.random.default_rng(7)
    hours = np.arange(rounds)
    covariance = 0.04 + 0.05**2 / 24 * np.minimum.outer(hours, hours)
    is_there = np.ones(rounds, dtype=np.bool_)
    is_there[[-20, -9, -2]] = False
    weights = np.where(hours >= rounds - WINDOW, 1 / WINDOW, 0.0)
    seen = covariance[np.ix_(is_there, is_there)] + noise**2 * np.eye(int(is_there.sum()))
    gain = np.linalg.solve(seen, covariance[is_there] @ weights)
    ours, exact = [], []
    for _ in range(series):
        truth = 0.5 + np.linalg.cholesky(covariance + 1e-12 * np.eye(rounds)) @ rng.normal(
            size=rounds
        )
        values = truth + noise * rng.normal(size=rounds)
        tracker = Tracker(Range(-1, 2), window=WINDOW, every_s=3600.0)
        for place in np.flatnonzero(is_there).tolist():
            alone = Estimate(values[place], noise, n=50, method="unbiased_mean", target="mean")
            tracker.update(3600.0 * place, alone)
        found = tracker.mean_of_last()
        if found is not None:
            ours.append(found.value - weights @ truth)
            exact.append(0.5 + gain @ (values[is_there] - 0.5) - weights @ truth)
    return Row(
        f"windows of {WINDOW}, 3 rounds missing",
        "the exact law of the model",
        f"{len(ours)} simulated series",
        math.sqrt(np.square(ours).mean() / np.square(exact).mean()),
        "its RMSE / the other RMSE",
        target=Target("at most", 1.05),
    )


def _costs(earlier: ModuleType, *, rounds: int) -> Iterator[Row]:
    """Yield what a round costs against the earlier estimator, and after many rounds."""
    ours, theirs, later = (_Clocked(kind) for kind in (FilterBank, earlier.FilterBank, FilterBank))
    for block in (ours, theirs):
        block.go_on(10)
    found = taken_in_turn(ours.go_on, theirs.go_on)
    yield Row(
        "a round of tracked",
        EARLIER,
        f"{_BLOCK} rounds after {10 * _BLOCK}",
        found.ratio,
        target=Target("at most", 1.1),
        ours_s=found.ours_s,
        theirs_s=found.theirs_s,
        repeats=found.repeats,
    )
    later.go_on(rounds // _BLOCK)
    found = taken_in_turn(later.go_on, ours.go_on)
    yield Row(
        f"a round of tracked after {rounds:,}",
        "one of the first thousand",
        f"{_BLOCK} rounds",
        found.ratio,
        target=Target("at most", 1.1),
        ours_s=found.ours_s,
        theirs_s=found.theirs_s,
        repeats=found.repeats,
    )


class _Clocked:
    """Take noise around a constant into a bank, block by block.

    Args:
        kind: What makes the bank.
    """

    def __init__(self, kind: Callable[..., Any]) -> None:
        self._bank = kind(UNIT.low, UNIT.width)
        self._rng = np.random.default_rng(1)
        self._round = 0

    def go_on(self, blocks: int = 1) -> None:
        """Take so many blocks in."""
        for _ in range(blocks):
            # Values that repeat would be learnt as a cycle.
            for value in 0.3 + 0.1 * self._rng.normal(size=(_BLOCK, 1)):
                self._bank.step(3600.0 * self._round, value, variance=0.01, n=50)
                self._round += 1


def _estimates(values: Floats, errors: Floats) -> list[Estimate]:
    return [
        Estimate(
            value, error, n=1, method="tracked", target="mean", lowest=UNIT.low, highest=UNIT.high
        )
        for value, error in zip(values.tolist(), errors.tolist(), strict=True)
    ]


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


def _is_seen(worlds: list[World], ours: list[Followed]) -> bool:
    """Say whether the mean moves by more than the error with which it is followed."""
    pairs = zip(ours, worlds, strict=True)
    error = _root([one.values - world.truth for one, world in pairs], first=BURN_IN)
    return float(np.mean([world.truth.std() for world in worlds])) > error


def _held(followed: Followed, world: World) -> Flags:
    # Ends beyond the range are cut, which loses no truth.
    return np.asarray(np.abs(followed.values - world.truth) <= followed.reach)


def _root(errors: list[Floats], *, first: int) -> float:
    return float(np.sqrt(np.mean([np.square(one[:, first:]).mean() for one in errors])))
