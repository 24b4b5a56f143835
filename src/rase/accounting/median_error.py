"""The expected error of the median of reports, from the chances with which they fall below points.

The median lies below a point if more than half of the reports do. Their number is a sum of
independent signs, nearly normal with mean n G and variance n V, G the mean over readings of the
chance g(x) to fall below the point and V that of g(x) (1 - g(x)). So the median is the point at
which sqrt(n) (G - 1/2) / sqrt(V) equals a standard normal number.
"""

import math
from dataclasses import dataclass

import numpy as np

from rase.accounting.binomial import Floats
from rase.domain import Range

__all__ = ["SignLaw", "line_over", "worst_of_two_ends"]

_PER_WIDTH = 512
_OUTSIDE = 96
# Shares of readings at the upper end that are tried for the worst fleet; the law is symmetric.
_SHARES = np.linspace(0.0, 0.5, 17)
_NODES = np.linspace(-6.0, 6.0, 241)
_WEIGHTS = np.exp(-np.square(_NODES) / 2)
_WEIGHTS /= _WEIGHTS.sum()
_FARTHEST = 40.0
_TINY = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class SignLaw:
    """Hold how many reports fall below each point, in the mean and in variance.

    Args:
        points: Ascending points.
        below: The mean share of reports at or below each point, G.
        spread: The mean of g (1 - g) over readings, V.
    """

    points: Floats
    below: Floats
    spread: Floats

    def sampled(self, sampling: float) -> "SignLaw":
        """Return the law where those who report are drawn by chance, and this share is not.

        The variance of g over readings is what g (1 - g) lacks to G (1 - G).
        """
        among = np.maximum(self.below * (1 - self.below) - self.spread, 0.0)
        return SignLaw(self.points, self.below, self.spread + sampling * among)

    def moments(self, n: int) -> tuple[float, float]:
        """Return mean and standard deviation of the median of n reports."""
        size = np.sqrt(n * np.maximum(self.spread, _TINY))
        turn = np.clip(n * (self.below - 0.5) / size, -_FARTHEST, _FARTHEST)
        # Equal up to rounding must not turn back, or interpolation would jump.
        turn = np.maximum.accumulate(turn)
        # One report more or less: for even n the median is the middle of two such points.
        apart = 0.0 if n % 2 else 1 / float(np.interp(0.0, turn, size))
        lower = np.interp(_NODES - apart / 2, turn, self.points)
        upper = np.interp(_NODES + apart / 2, turn, self.points)
        medians = (lower + upper) / 2
        mean = float(_WEIGHTS @ medians)
        return mean, math.sqrt(float(_WEIGHTS @ np.square(medians - mean)))


def line_over(public: Range, *, reach: float) -> Floats:
    """Return points that resolve the reports: dense in the range, and half a step about its ends.

    Args:
        public: The public range.
        reach: How far beyond the ends reports must be looked at; 0 where they are clamped.
    """
    half = public.step / 2
    inside = np.linspace(public.low, public.high, _PER_WIDTH + 1)[1:-1]
    ends = (public.low - half, public.low + half, public.high - half, public.high + half)
    line: Floats = np.unique(np.concatenate((inside, ends)))
    if not reach:
        return line
    if reach <= public.width:
        beyond = np.linspace(0.0, reach + 4 * public.step, _PER_WIDTH // 2)[1:] + half
    else:
        beyond = np.geomspace(public.step, reach, _OUTSIDE) + half
    return np.concatenate((public.low - beyond[::-1], line, public.high + beyond))


def worst_of_two_ends(
    points: Floats, ends: Floats, n: int, *, low: float, high: float, sampling: float = 0.0
) -> tuple[float, float]:
    """Return the largest bias and the largest noise of the median in fleets that read the ends.

    Args:
        points: Ascending points.
        ends: Two rows: the chance below each point of a report of the lower and the upper end.
        n: How many reports.
        low: The lower end.
        high: The upper end.
        sampling: The share of the fleet that does not report, by chance.
    """
    signs = ends * (1 - ends)
    biases, noises = [], []
    for share in _SHARES:
        weights = np.array([1 - share, share])
        law = SignLaw(points, weights @ ends, weights @ signs).sampled(sampling)
        centre, noise = law.moments(n)
        biases.append(abs(centre - low - share * (high - low)))
        noises.append(noise)
    return max(biases), max(noises)
