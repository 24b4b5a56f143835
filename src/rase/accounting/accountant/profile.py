"""Privacy profiles: delta at every epsilon, proven from above, and the losses that they stand for.

A profile h(a) = sup over events of P - a Q, with a = e^epsilon, is convex and falling, and every
such function from (0, 1) on belongs to some pair of laws (Zhu, Dong, Wang, "Optimal accounting of
differential privacy via characteristic function", AISTATS 2022). A few of its points are enough:
h is a convex minorant of points (a_i, d_i) with d_i >= h(a_i), and their lower convex hull is the
largest one, so the hull is a profile, too, and dominates h (Doroshenko, Ghazi, Kamath, Kumar,
Manurangsi, "Connect the dots: tighter discrete approximations of privacy loss distributions", PETS
2022). The jumps of its slope are the masses of Q, and a times them those of P.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from rase.accounting.binomial import Floats

__all__ = ["Losses", "Profile", "connect_dots"]

# Points within a standard deviation of the loss, and how fast they become sparser further out.
_PER_DEVIATION = 8
_GROWTH, _FAR_GROWTH = 1.03, 1.15
_SPARSE_BELOW, _FAR_BELOW = 1e-4, 1e-3
# The deviation of a Gaussian loss by its delta at epsilon 0.
_DEVIATION = math.sqrt(2 * math.pi)
# The first step as a share of the whole curve, at most.
_COARSEST = 1 / 16
_FLATTEST = 1e-12
# What is left out of the curve, as a share of the delta that will be asked for.
_FLOOR = 1e-8
_FAR_MASS = 1e-7


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """The law of the loss ln P/Q under P.

    Args:
        values: The losses.
        masses: The probability of each under P.
        lost: The mass under P of losses that are not bounded.
    """

    values: Floats
    masses: Floats
    lost: float = 0.0

    def delta(self, epsilon: float) -> float:
        """Return the profile of the pair at epsilon."""
        above = self.values > epsilon
        gains = -np.expm1(epsilon - self.values[above]) * self.masses[above]
        return min(1.0, float(gains.sum()) + self.lost)

    def deltas(self, epsilons: Floats) -> Floats:
        """Return `delta` at many epsilons."""
        return np.array([self.delta(float(epsilon)) for epsilon in epsilons])


class Profile(ABC):
    """Bound delta at any epsilon for one round, in both orders of two neighbours.

    Args:
        local_epsilon: The epsilon of one report, which no loss exceeds.
        delta: The delta about which will be asked: the curve is followed far below it.
    """

    theorem: str

    def __init__(self, local_epsilon: float, *, delta: float) -> None:
        self.local_epsilon = local_epsilon
        self.asked_delta = delta

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """Return an upper bound on the divergence of the round at epsilon, at least 0."""

    @cached_property
    def losses(self) -> Losses:
        """A pair that dominates the round: the hull of some points of the curve.

        What little mass the hull puts on the largest loss, beyond the last point, counts as lost:
        a tilt would make it the whole law.
        """
        whole = connect_dots(self._points(), self.local_epsilon)
        far = float(whole.masses[-1])
        if far > _FAR_MASS * self.asked_delta:
            return whole
        return Losses(whole.values[1:-1], whole.masses[1:-1], far + float(whole.masses[0]))

    def _points(self) -> list[tuple[float, float]]:
        start = self.delta(0.0)
        points = [(0.0, start)]
        deviation = max(_DEVIATION * start, _FLATTEST)
        step = min(deviation / _PER_DEVIATION, self.local_epsilon * _COARSEST)
        epsilon, found = 0.0, start
        while found > _FLOOR * self.asked_delta:
            if found < _FAR_BELOW * self.asked_delta:
                step *= _FAR_GROWTH
            elif found < _SPARSE_BELOW * start:
                step *= _GROWTH
            epsilon += step
            if epsilon >= self.local_epsilon:
                break
            found = self.delta(epsilon)
            points.append((epsilon, found))
        return points


def connect_dots(points: list[tuple[float, float]], highest: float) -> Losses:
    """Return a symmetric pair whose profile is the hull of points and of their mirror images.

    A pair of which both orders have one profile has h(a) = 1 - a + a h(1/a), so points above
    epsilon 0 determine those below, and the loss under Q is the reflection of that under P.

    Args:
        points: Pairs (epsilon, delta) from epsilon 0 on, ascending, each delta at or above the
            profile's.
        highest: An epsilon above all others at which delta is 0.
    """
    upper = [(math.exp(epsilon), delta, epsilon) for epsilon, delta in points]
    upper.append((math.exp(highest), 0.0, highest))
    mirrored = [(1 / a, 1 - 1 / a + d / a, -epsilon) for a, d, epsilon in upper[:0:-1]]
    hull = _lower_hull([(0.0, 1.0, -math.inf), *mirrored, *upper])
    kept = [point for point in hull if point[2] >= 0]
    if kept[0][2] > 0:
        # The hull passes epsilon 0 below its point, on the chord to a mirror image.
        a, d, _ = kept[0]
        kept.insert(0, (1.0, (a - 1 + 2 * d) / (a + 1), 0.0))
    return _mirrored_losses(kept)


def _mirrored_losses(points: list[tuple[float, float, float]]) -> Losses:
    """Return the losses whose profile joins points from epsilon 0 on, and their mirror images."""
    slopes = [(right[1] - left[1]) / (right[0] - left[0]) for left, right in pairwise(points)]
    jumps = np.maximum(np.diff([*slopes, 0.0]), 0.0)
    values = np.array([epsilon for _, _, epsilon in points[1:]])
    likely = jumps * np.exp(values)
    middle = max(0.0, 1 - float((likely + jumps).sum()))
    return Losses(
        np.concatenate((-values[::-1], [0.0], values)),
        np.concatenate((jumps[::-1], [middle], likely)),
    )


def _lower_hull(points: list[tuple[float, float, float]]) -> list[tuple[float, float, float]]:
    """Return the points of the lower convex hull, by Andrew's chain."""
    hull: list[tuple[float, float, float]] = []
    for point in points:
        while len(hull) > 1 and _is_above(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return hull


def _is_above(
    left: tuple[float, float, float],
    middle: tuple[float, float, float],
    right: tuple[float, float, float],
) -> bool:
    """Return whether the middle lies on or above the chord of the other two."""
    rise, run = right[1] - left[1], right[0] - left[0]
    return (middle[1] - left[1]) * run >= rise * (middle[0] - left[0])
