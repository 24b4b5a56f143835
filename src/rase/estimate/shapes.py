"""Shapes that a fleet's readings may have: what few noisy reports leave possible of them.

A histogram of cells needs thousands of reports. Which range serves a mean is asked with a few
hundred, so the readings are taken to be normal, or spread over orders of magnitude from a limit on
(lognormal, with some readings at the limit itself: appliances that are off). Which of these, where
and how wide stays open as far as the reports leave it open.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from rase.estimate.decoder import Floats

__all__ = ["Shapes", "shapes_of"]

# Shapes followed together, how sharply evidence may be taken in at once, and moves after each.
_COUNT = 400
_LEAST_KEPT = 0.5
_MOVES = 2
# Scales are looked for down to this share of the limits' width.
_FINEST = 1 / 4000
# The spread of the logarithm of rare readings.
_RARE_WIDTH = 0.7
_FLOOR = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class Shapes:
    """Hold the masses that each possible shape puts on some points.

    Args:
        points: Readings, ascending; the first and the last are the limits.
        masses: One shape a row, all equally likely; rows sum to 1.
    """

    points: Floats
    masses: Floats

    def lost_above(self, ends: Floats, *, power: int = 1) -> Floats:
        """Return E[max(reading - end, 0)^power] for each shape (row) and end."""
        lost: Floats = self.masses @ np.maximum(self.points[:, None] - ends, 0.0) ** power
        return lost

    def lost_below(self, ends: Floats, *, power: int = 1) -> Floats:
        """Return E[max(end - reading, 0)^power] likewise."""
        lost: Floats = self.masses @ np.maximum(ends - self.points[:, None], 0.0) ** power
        return lost


def shapes_of(
    edges: Floats, likelihood: Callable[[Floats], Floats], *, chance: Generator
) -> Shapes:
    """Draw shapes with the chance that evidence gives them.

    Sequential Monte Carlo with tempering (Del Moral, Doucet, Jasra 2006): evidence is taken in by
    small parts, after each of which shapes that explain it are repeated and moved a little.

    Args:
        edges: Edges of cells, ascending, from one limit to the other; readings stand at the cells'
            middles or at a limit.
        likelihood: Returns the log-likelihood of each row of masses on the points.
        chance: Of the drawing.

    Validation: finds planted normals and lognormals in tests/estimate/test_ranges.py.
    """
    law = _Law(edges)
    states = law.prior(8 * _COUNT, chance)
    found = likelihood(law.masses(states))
    taken = 0.0
    while True:
        part = _next_part(found, 1 - taken)
        weights = np.exp(part * (found - found.max()))
        chosen = chance.choice(len(states), size=_COUNT, p=weights / weights.sum())
        states, found = states[chosen], found[chosen]
        taken += part
        for _ in range(_MOVES):
            tried = law.moved(states, chance)
            reached = likelihood(law.masses(tried))
            wins = np.log(chance.random(_COUNT)) < taken * (reached - found)
            states = np.where(wins[:, None], tried, states)
            found = np.where(wins, reached, found)
        if taken >= 1:
            return Shapes(law.points, law.masses(states))


def _next_part(found: Floats, most: float) -> float:
    """Return how much evidence to take in for about half of the shapes to stay."""
    low, high = 0.0, most
    for _ in range(30):
        part = high if low == 0.0 and high == most else (low + high) / 2
        weights = np.exp(part * (found - found.max()))
        kept = weights.sum() ** 2 / np.square(weights).sum() / min(len(found), 2 * _COUNT)
        if kept >= _LEAST_KEPT:
            if part == most:
                return most
            low = part
        elif part == most:
            high = most * (1 - 1e-12)
        else:
            high = part
    return max(low, 1e-9 * most)


class _Law:
    """Turn states, numbers between 0 and 1, into masses on points.

    A state is (kind, place, scale, spread, share, distance): kind 0 is normal, 1 lognormal from the
    lower limit, 2 lognormal from the upper one. Lognormal readings may have a second, rarer kind
    among them, farther out: the appliances that are on.
    """

    def __init__(self, edges: Floats) -> None:
        self.low, self.width = float(edges[0]), float(edges[-1] - edges[0])
        self.points = np.concatenate([edges[:1], (edges[1:] + edges[:-1]) / 2, edges[-1:]])
        self._unit = (edges[1:-1] - self.low) / self.width

    def prior(self, count: int, chance: Generator) -> Floats:
        states = chance.random((count, 6))
        states[:, 0] = chance.integers(3, size=count)
        return states

    def moved(self, states: Floats, chance: Generator) -> Floats:
        """Return every state moved along the others of its kind; back inside at the borders."""
        # Differences of two others have the right scale in every direction (ter Braak 2006).
        first, second = chance.integers(len(states), size=(2, len(states)))
        same = (states[first, 0] == states[:, 0]) & (states[second, 0] == states[:, 0])
        step = np.where(same[:, None], states[first] - states[second], 0.0)
        tried = states + chance.choice([0.3, 0.7, 1.2], size=len(states))[:, None] * step
        tried[:, 1:] += 0.01 * chance.normal(size=tried[:, 1:].shape)
        # Reflection keeps the proposal symmetric.
        tried[:, 1:] = 1 - np.abs(1 - np.abs(tried[:, 1:]) % 2)
        moved: Floats = tried
        return moved

    def masses(self, states: Floats) -> Floats:
        kind, place, scale, spread, share, distance = (states[:, [column]] for column in range(6))
        size = _FINEST ** (1 - scale)  # log-uniform up to the whole width
        normal = _below((self._unit - place) / (size / 2))
        # ``place`` is the share of readings at the limit itself, ``spread`` that of the logarithm.
        width = 0.2 + 2.3 * spread
        near = np.log(np.maximum(self._unit, _FLOOR)) - np.log(size)
        far = np.log(np.maximum(1 - self._unit, _FLOOR)) - np.log(size)
        rare, out = share**2 / 2, distance * np.log(1 / size)
        upward = _below(near / width) * (1 - rare) + rare * _below((near - out) / _RARE_WIDTH)
        downward = _below(far / width) * (1 - rare) + rare * _below((far - out) / _RARE_WIDTH)
        upward, downward = place + (1 - place) * upward, (1 - place) * (1 - downward)
        inner = np.where(kind == 0, normal, np.where(kind == 1, upward, downward))
        ends = np.zeros((len(states), 1))
        masses = np.diff(inner, axis=1, prepend=ends, append=ends + 1)
        # What stands at a limit is no part of the cell beside it.
        at_low = np.where(kind == 1, place, 0.0)
        at_high = np.where(kind == 2, place, 0.0)
        masses[:, :1] -= at_low
        masses[:, -1:] -= at_high
        whole: Floats = np.hstack([at_low, np.maximum(masses, 0.0), at_high])
        return whole


def _below(z: Floats) -> Floats:
    """Return the normal distribution function, within 2e-4 (Page 1977)."""
    bounded = np.clip(z, -8, 8)
    half: Floats = (1 + np.tanh(np.sqrt(2 / np.pi) * (bounded + 0.044715 * bounded**3))) / 2
    return half
