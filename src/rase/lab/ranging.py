"""How near range feedback comes to the best range there is, on measured data."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rase.engine.ranging import RangeFeedback, worst_noise
from rase.kernels.words import SeededRandom
from rase.lab.panel import Panel
from rase.randomize.choice import auto
from rase.stream import ValueRange

__all__ = ["AFTER", "BestRange", "FeedbackTrace", "best_range", "follow_feedback"]

Floats = NDArray[np.float64]

# The rounds in which the range may be learnt before its error counts.
AFTER = 48
_CANDIDATES = 40


@dataclass(frozen=True, slots=True)
class BestRange:
    """Hold the fixed range with the least error, chosen with knowledge of all readings.

    Args:
        low: Its lower end.
        high: Its upper end.
        rmse: The root mean square error of the unbiased mean with it, clipping included.
        inner: The readings between which nine tenths of all lie. With few devices and a small
            epsilon the best range is hardly more than a constant, and far inside.
    """

    low: float
    high: float
    rmse: float
    inner: tuple[float, float]

    def widened(self, times: float, *, floor: float | None) -> ValueRange:
        """Return a range so many times as wide as the best and the inner readings together.

        It begins at a physical floor; without one, what it was widened from stands at three tenths
        of it, not in its middle.
        """
        low, high = min(self.low, self.inner[0]), max(self.high, self.inner[1])
        width = times * (high - low)
        start = floor if floor is not None else low - 0.3 * (width - (high - low))
        return ValueRange(start, start + width)


@dataclass(frozen=True, slots=True)
class FeedbackTrace:
    """Hold what one run with range feedback came to.

    Args:
        rmse: The error of the unbiased mean of the rounds from the 48th on, probing ones included.
        ranges: The ranges chosen: (first round, low, high).
        widths: The width of the range in each round.
    """

    rmse: float
    ranges: tuple[tuple[int, float, float], ...]
    widths: tuple[float, ...]


def best_range(panel: Panel, *, epsilon: float, rounds: int) -> BestRange:
    """Find the best fixed range for the rounds from the 48th on.

    Args:
        panel: The readings.
        epsilon: The budget of one report; the best mechanism for means has it.
        rounds: How many rounds of the panel to take.
    """
    rows = _rows(panel, rounds)[AFTER:]
    every = np.concatenate(rows)
    noise = worst_noise(auto(epsilon, ValueRange(0, 1)))
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


def follow_feedback(
    panel: Panel, start: ValueRange, *, epsilon: float, rounds: int, seed: int
) -> FeedbackTrace:
    """Run range feedback from a range on, and measure the error of each round's unbiased mean.

    Args:
        panel: The readings.
        start: The range to begin with, and the widest allowed.
        epsilon: The budget of one report, probing or not.
        rounds: How many rounds of the panel to take.
        seed: Of the noise.
    """
    feedback = RangeFeedback(epsilon, start)
    source = SeededRandom(seed)
    errors, widths = [], []
    ranges: list[tuple[int, float, float]] = []
    for place, row in enumerate(_rows(panel, rounds)):
        before, randomizer = feedback.value_range, feedback.randomizer
        reports = randomizer.randomize(row, rng=source)
        errors.append(float(randomizer.decode(reports).mean() - row.mean()))
        widths.append(before.width)
        feedback.learn(reports, rng=source)
        now = feedback.value_range
        if now != before:
            ranges.append((place + 1, now.low, now.high))
    rmse = math.sqrt(float(np.mean(np.square(errors[AFTER:]))))
    return FeedbackTrace(rmse, tuple(ranges), tuple(widths))


def _rows(panel: Panel, rounds: int) -> list[Floats]:
    rows = [row[~np.isnan(row)] for row in panel.values]
    return [row for row in rows if len(row)][:rounds]
