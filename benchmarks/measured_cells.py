"""What a fleet at one epsilon is like: intervals, errors, looking back, windows; figures alone."""

import math
from collections.abc import Callable, Iterator
from functools import cached_property
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from benchmarks.cells import Figures
from benchmarks.worlds import DRAWINGS, UNIT, Case, Followed, World, events, follow, history, ideal
from rase.counts.estimate import Estimate, student_quantile
from rase.counts.registry import SMOOTHED
from rase.series.bank import FilterBank
from rase.series.smoother import smooth_record
from rase.series.tracker import Tracker

__all__ = ["BURN_IN", "MOST_MISSING", "WINDOW", "Cell"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# A week of hours: before it much of what moves cannot have been seen.
BURN_IN = 168
# Windows of so many rounds, of which rounds are missing by chance and some at the most; every
# fourth is scored, on the first drawing of some worlds.
WINDOW, MOST_MISSING = 24, 3
_MISSING, _EVERY_WINDOW, _WINDOW_WORLDS = 0.06, 4, 3
_NORMAL = student_quantile(0.95, math.inf)


class Cell:
    """One fleet at one epsilon, drawn and followed when it is first asked for.

    Args:
        case: The fleet.
        draw: Draws its noise.
        earlier: The estimator that ours is compared to.
    """

    def __init__(self, case: Case, draw: Callable[[], World], *, earlier: ModuleType) -> None:
        self._case, self._draw, self._earlier = case, draw, earlier

    @cached_property
    def world(self) -> World:
        """The drawings."""
        return self._draw()

    @cached_property
    def ours(self) -> Followed:
        """What is said of them."""
        return follow(self.world, FilterBank)

    def followed(self) -> Figures:
        """Return how often intervals hold and how large errors are."""
        world, ours = self.world, self.ours
        theirs = follow(world, self._earlier.FilterBank)
        held, off = _held(ours, world), ours.values - world.truth
        late = _root(off, first=BURN_IN)
        found = {
            "early": float(held[:, :BURN_IN].mean()),
            "late": float(held[:, BURN_IN:].mean()),
            "earlier late": float(_held(theirs, world)[:, BURN_IN:].mean()),
            "seen": float(np.mean(world.truth.std(axis=1)) > late),
            "error": _root(off, first=1),
            "alone": _root(world.means.values - world.truth, first=1),
            "constant": _root(history(world) - world.truth, first=1),
            "earlier": _root(theirs.values - world.truth, first=1),
            "late error": late,
            "ideal": _root(ideal(world) - world.truth, first=BURN_IN),
        }
        if self._case.after:
            event = held[events(world.truth, after=self._case.after)]
            largest = float(np.abs(np.diff(world.truth, axis=1)).max())
            error = math.sqrt(float(world.means.variances.mean()))
            found |= {"event": float(event.mean()), "change": largest / error}
        return found

    def looked_back(self) -> Figures:
        """Return how many times nearer the truth is when all rounds of the record are known."""
        world, ours = self.world, self.ours
        if ours.evidence is None or ours.sampling is None:
            raise ValueError("ours must be followed by the present filters.")
        before, after, held, revised = [], [], [], []
        for drawing, truth in enumerate(world.truth):
            errors = np.sqrt(world.means.variances[drawing])
            smoothed = smooth_record(
                world.times_s.tolist(),
                _estimates(world.means.values[drawing], errors),
                filtered=_estimates(ours.values[drawing], ours.reach[drawing] / _NORMAL),
                evidence=ours.evidence[drawing],
                sampling=ours.sampling.tolist(),
            )
            values = np.array([estimate.value for estimate in smoothed])
            ends = np.array([estimate.interval() for estimate in smoothed])
            before.append(np.square(ours.values[drawing] - truth).mean())
            after.append(np.square(values - truth).mean())
            held.append(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean())
            revised.append(np.mean([estimate.method == SMOOTHED for estimate in smoothed]))
        return {
            "gain": float(np.sqrt(np.mean(before) / np.mean(after))),
            "held": float(np.mean(held)),
            "revised": float(np.mean(revised)),
        }

    def windows(self) -> Figures:
        """Return how good windows are of which some rounds are missing."""
        ours, plain, held = [], [], []
        world = self.world
        for row in range(0, len(world.truth), len(DRAWINGS))[:_WINDOW_WORLDS]:
            rng = np.random.default_rng(row)
            is_there = rng.uniform(size=len(world.times_s)) >= _MISSING
            for place, found in _windows_of(world, row, is_there):
                last = slice(place - WINDOW + 1, place + 1)
                truth, (low, high) = float(world.truth[row, last].mean()), found.interval()
                ours.append(found.value - truth)
                plain.append(float(world.means.values[row, last][is_there[last]].mean()) - truth)
                held.append(low <= truth <= high)
        return {
            "ratio": math.sqrt(np.square(ours).mean() / np.square(plain).mean()),
            "held": float(np.mean(held)),
            "count": float(len(held)),
        }


def _windows_of(world: World, row: int, is_there: Flags) -> Iterator[tuple[int, Estimate]]:
    """Yield windows of a drawing, after the first week, by the round they end with."""
    means, every_s = world.means, float(np.diff(world.times_s).min())
    tracker = Tracker(UNIT, window=WINDOW, every_s=every_s)
    for place in np.flatnonzero(is_there).tolist():
        alone = Estimate(
            float(means.values[row, place]),
            math.sqrt(means.variances[row, place]),
            n=int(means.sizes[place]),
            method="unbiased_mean",
            target="mean",
            degrees_of_freedom=math.inf if means.degrees is None else float(means.degrees[place]),
        )
        spread = None if means.spreads is None else float(means.spreads[row, place])
        tracker.update(float(world.times_s[place]), alone, spread=spread)
        found = tracker.mean_of_last() if place >= BURN_IN and place % _EVERY_WINDOW == 0 else None
        if found is not None and found.rounds >= WINDOW - MOST_MISSING:
            yield place, found


def _estimates(values: Floats, errors: Floats) -> list[Estimate]:
    return [
        Estimate(
            value, error, n=1, method="tracked", target="mean", lowest=UNIT.low, highest=UNIT.high
        )
        for value, error in zip(values.tolist(), errors.tolist(), strict=True)
    ]


def _held(followed: Followed, world: World) -> Flags:
    # Ends beyond the range are cut, which loses no truth.
    return np.asarray(np.abs(followed.values - world.truth) <= followed.reach)


def _root(errors: Floats, *, first: int) -> float:
    return float(np.sqrt(np.square(errors[:, first:]).mean()))
