"""How close range feedback comes to the best possible range, on measured data."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rase.counts.ranges import TRACKED_ROUNDS
from rase.counts.registry import TRACKED
from rase.domain import Range
from rase.kernels.words import SeededRandom
from rase.lab.panel import Panel
from rase.laws.registry import auto
from rase.series.runs import run_means, runs_of
from rase.tables.feedback import RangeFeedback, worst_noise
from rase.tables.plan import RunPlan
from rase.tables.rows import Rows
from rase.tables.run import run

__all__ = [
    "AFTER",
    "BestRange",
    "FeedbackTrace",
    "best_range",
    "best_tracked_range",
    "follow_feedback",
]

Floats = NDArray[np.float64]

# The rounds in which the range may be learnt before its error counts.
AFTER = 48
_CANDIDATES = 40
# Where ends of a range for `tracked` are tried, as shares of the readings below them; the drawings
# of the noise that choose among them, and those that measure the choice.
_TRIED = (0.0, 0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.995, 1.0)
_SEARCH, _MEASURE = range(101, 104), range(1, 9)


@dataclass(frozen=True, slots=True)
class BestRange:
    """The fixed range with the smallest error, chosen with knowledge of all readings.

    Args:
        low: Its lower end.
        high: Its upper end.
        rmse: The root mean square error of a round with it, clipping included.
        inner: The readings between which nine tenths of all lie. With few devices and a small
            epsilon the best range is hardly more than a constant, and far inside.
    """

    low: float
    high: float
    rmse: float
    inner: tuple[float, float]

    def widen(self, times: float, *, floor: float | None) -> Range:
        """Return a range so many times as wide as the best and the inner readings together.

        It begins at a physical floor; without one, what it was widened from stands at three tenths
        of it, not in its middle.
        """
        low, high = min(self.low, self.inner[0]), max(self.high, self.inner[1])
        width = times * (high - low)
        start = floor if floor is not None else low - 0.3 * (width - (high - low))
        return Range(start, start + width)


@dataclass(frozen=True, slots=True)
class FeedbackTrace:
    """The result of one run with range feedback.

    Args:
        rmse: The error of the rounds from the 48th on, probing ones included, against the mean of
            the readings as measured.
        coverage: The share of their 95 % intervals that held it.
        ranges: The ranges chosen: (first round, low, high).
        widths: The width of the range in each round.
    """

    rmse: float
    coverage: float
    ranges: tuple[tuple[int, float, float], ...]
    widths: tuple[float, ...]


def best_range(panel: Panel, *, epsilon: float, rounds: int) -> BestRange:
    """Find the best fixed range for unbiased means, for the rounds from the 48th on.

    Args:
        panel: The readings.
        epsilon: The budget of one report; the best mechanism for means has it.
        rounds: How many rounds of the panel to take.
    """
    rows = _rows(panel, rounds)[AFTER:]
    every = np.concatenate(rows)
    noise = worst_noise(auto(epsilon, Range(0, 1)))
    count = np.array([len(row) for row in rows])
    starts = np.concatenate([[0], np.cumsum(count)[:-1]])
    inner = (float(np.quantile(every, 0.05)), float(np.quantile(every, 0.95)))
    best = BestRange(*inner, math.inf, inner)
    ends = _ends(every, np.add.reduceat(every, starts) / count)
    for place, low in enumerate(ends):
        for high in ends[place + 1 :]:
            from_noise = noise * (high - low) ** 2 * float(np.mean(1 / count))
            if from_noise >= best.rmse**2:
                break
            clipped = np.add.reduceat(every.clip(low, high) - every, starts) / count
            rmse = math.sqrt(float(np.square(clipped).mean()) + from_noise)
            if rmse < best.rmse:
                best = BestRange(float(low), float(high), rmse, inner)
    return best


def _ends(every: Floats, means: Floats) -> Floats:
    """Return the ends that are tried, ascending.

    Among them are places close to the mean of all: where noise is large, the best range is hardly
    wider than that, and in skewed readings the mean is no quantile near the middle.
    """
    tails = np.concatenate([[0.0], np.geomspace(2e-4, 0.6, _CANDIDATES)])
    around = means.mean() + means.std() * np.linspace(-2, 2, _CANDIDATES + 1)
    shares = np.unique(np.concatenate([tails, 1 - tails]))
    ends: Floats = np.unique(np.concatenate([np.quantile(every, shares), around]))
    return ends


def best_tracked_range(panel: Panel, *, epsilon: float, rounds: int) -> BestRange:
    """Find the best fixed range for the estimator `tracked`, for the rounds from the 48th on.

    There is no formula for its error, so about a hundred ranges are tried with drawings of the
    noise, and the best is measured with others.

    Args:
        panel: The readings.
        epsilon: The budget of one report.
        rounds: How many rounds of the panel to take.
    """
    alone = best_range(panel, epsilon=epsilon, rounds=rounds)
    rows = _rows(panel, rounds)[AFTER:]
    every, means = np.concatenate(rows), np.array([row.mean() for row in rows])
    around = means.mean() + means.std() * np.array([-1, -0.05, 0.05, 1])
    ends = np.unique(
        np.concatenate([np.quantile(every, _TRIED), around, [alone.low, alone.high]])
    ).tolist()
    errors = {
        (low, high): _tracked_error(panel, Range(low, high), epsilon, rounds, _SEARCH)
        for place, low in enumerate(ends)
        for high in ends[place + 1 :]
    }
    low, high = min(errors, key=errors.__getitem__)
    rmse = _tracked_error(panel, Range(low, high), epsilon, rounds, _MEASURE)
    return BestRange(low, high, rmse, alone.inner)


def _tracked_error(panel: Panel, reach: Range, epsilon: float, rounds: int, seeds: range) -> float:
    rows, times_s = _rows(panel, rounds), _times_s(panel, rounds)
    every, sizes = np.concatenate(rows), np.array([len(row) for row in rows])
    randomizer = auto(epsilon, reach)
    reports = np.stack([randomizer.randomize(every, rng=SeededRandom(seed)) for seed in seeds])
    runs = runs_of(
        run_means(reports, sizes, randomizer=randomizer),
        times_s,
        truth=np.array([row.mean() for row in rows]),
        value_range=reach,
        first=AFTER,
    )
    return float(runs.tracked.mean())


def follow_feedback(
    panel: Panel,
    start: Range,
    *,
    epsilon: float,
    rounds: int,
    seed: int,
    estimator: str = "unbiased_mean",
) -> FeedbackTrace:
    """Run range feedback from a range on, and measure the error of each round.

    Args:
        panel: The readings.
        start: The range to begin with, and the widest allowed.
        epsilon: The budget of one report, probing or not.
        rounds: How many rounds of the panel to take.
        seed: Of the noise.
        estimator: Whose error is measured; for ``tracked`` the range is chosen for what it
            averages.
    """
    averaged = TRACKED_ROUNDS if estimator == TRACKED else 1
    feedback = RangeFeedback(epsilon, start, averaged=averaged)
    plan = RunPlan(
        randomizer=auto(epsilon, start),
        estimator=estimator,
        feedback=lambda: feedback,
        truth=True,
    )
    errors, held = [], []
    for result in run(_Readings(panel, rounds), plan, rng=SeededRandom(seed)):
        found, truth = result.estimate, result.truth or 0.0
        low, high = found.interval()
        errors.append(found.value - truth)
        held.append(low <= truth <= high)
    widths = np.full(len(errors), start.width)
    for first, chosen in feedback.choices:
        widths[first:] = chosen.width
    return FeedbackTrace(
        rmse=math.sqrt(float(np.mean(np.square(errors[AFTER:])))),
        coverage=float(np.mean(held[AFTER:])),
        ranges=tuple((first, chosen.low, chosen.high) for first, chosen in feedback.choices),
        widths=tuple(widths.tolist()),
    )


class _Readings:
    """The first rounds of a panel as a table, device by device."""

    def __init__(self, panel: Panel, rounds: int) -> None:
        chosen = _places(panel, rounds)
        self._times_ms, self._values = panel.times_ms[chosen], panel.values[chosen]

    def batches(self) -> Iterator[Rows]:
        rounds, devices = self._values.shape
        values = self._values.T.ravel()
        is_valid = ~np.isnan(values)
        yield Rows(
            np.tile(self._times_ms, devices),
            np.repeat(np.arange(devices), rounds),
            np.where(is_valid, values, 0.0),
            is_valid,
        )


def _places(panel: Panel, rounds: int) -> NDArray[np.intp]:
    """Return which rounds are taken: the first so many that hold a reading."""
    return np.flatnonzero(~np.isnan(panel.values).all(axis=1))[:rounds]


def _rows(panel: Panel, rounds: int) -> list[Floats]:
    return [row[~np.isnan(row)] for row in panel.values[_places(panel, rounds)]]


def _times_s(panel: Panel, rounds: int) -> Floats:
    return np.asarray(panel.times_ms[_places(panel, rounds)] / 1000)
