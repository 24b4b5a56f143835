"""Shapes that a fleet's readings may have: what few noisy reports leave possible of them.

A histogram of cells needs thousands of reports. Which range serves a mean is asked with a few
hundred, so the readings are taken to be normal, or spread over orders of magnitude from a limit on
(lognormal, with some readings at the limit itself: appliances that are off). Which of these, where
and how wide stays open as far as the reports leave it open.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from rase.arrays import Floats

__all__ = ["Shapes", "shapes_of"]

# Shapes followed together, how sharply evidence may be taken in at once, and moves after each.
_COUNT = 400
_LEAST_KEPT = 0.5
_MOVES = 6
# Scales are looked for down to this share of the limits' width.
_FINEST = 1 / 4000
# The spread of the logarithm of rare readings.
_RARE_WIDTH = 0.7
_FLOOR = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class Shapes:
    """The masses that each possible shape puts on some points.

    Args:
        points: Readings, ascending; the first and the last are the limits.
        masses: One shape a row, all equally likely; rows sum to 1.
        moving: How far each point of each shape moves when the mean of all readings moves by 1:
            as far if they are normal, in proportion to the way from the limit if lognormal.
    """

    points: Floats
    masses: Floats
    moving: Floats

    def lost_above(self, ends: Floats, *, power: int = 1) -> Floats:
        """Return E[max(reading - end, 0)^power] for each shape (row) and end."""
        lost: Floats = self.masses @ np.maximum(self.points[:, None] - ends, 0.0) ** power
        return lost

    def lost_below(self, ends: Floats, *, power: int = 1) -> Floats:
        """Return E[max(end - reading, 0)^power] likewise."""
        lost: Floats = self.masses @ np.maximum(ends - self.points[:, None], 0.0) ** power
        return lost

    def moved_above(self, ends: Floats) -> Floats:
        """Return by how much readings above each end move when the mean of all moves by 1."""
        moved: Floats = (self.masses * self.moving) @ (self.points[:, None] > ends)
        return moved

    def moved_below(self, ends: Floats) -> Floats:
        """Return the same of the readings below each end."""
        moved: Floats = (self.masses * self.moving) @ (self.points[:, None] < ends)
        return moved

    def quantiles(self, shares: Sequence[float]) -> Floats:
        """Return the readings below which the shares lie, for each shape (row)."""
        # Half of what stands at a point lies below it, so that readings are found between points.
        below = np.cumsum(self.masses, axis=1) - self.masses / 2
        return np.array([np.interp(shares, row, self.points) for row in below])

    def variances(self) -> Floats:
        """Return the variance of the readings of each shape."""
        mean = self.masses @ self.points
        variance: Floats = np.maximum(self.masses @ self.points**2 - mean**2, 0.0)
        return variance


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

    Validation: finds planted normals and lognormals in tests/counts/test_ranges.py.
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
            tried = law.move_states(states, chance)
            reached = likelihood(law.masses(tried))
            wins = np.log(chance.random(_COUNT)) < taken * (reached - found)
            states = np.where(wins[:, None], tried, states)
            found = np.where(wins, reached, found)
        if taken >= 1:
            masses = law.masses(states)
            return Shapes(law.points, masses, law.moving(states, masses))


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

    def move_states(self, states: Floats, chance: Generator) -> Floats:
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
        kind = states[:, 0]
        whole = np.zeros((len(states), self.points.size))
        normal = np.flatnonzero(kind == 0)
        whole[normal, 1:-1] = self._normal(states[normal])
        upward = np.flatnonzero(kind == 1)
        whole[upward, :-1] = self._from_limit(states[upward], self._unit)
        downward = np.flatnonzero(kind == 2)
        mirrored = self._from_limit(states[downward], 1 - self._unit[::-1])
        whole[downward, 1:] = mirrored[:, ::-1]
        return whole

    def moving(self, states: Floats, masses: Floats) -> Floats:
        """Return how far each point moves when the mean of all readings moves by 1."""
        kind = states[:, :1]
        way = np.where(kind == 2, self.points[-1] - self.points, self.points - self.points[0])
        mean = (masses * way).sum(axis=1, keepdims=True)
        moving: Floats = np.where(kind == 0, 1.0, way / np.maximum(mean, _FLOOR))
        return moving

    def _normal(self, states: Floats) -> Floats:
        """Return the masses of cells, one row for each normal state."""
        place, size = states[:, [1]], self._size(states)
        below = _below((self._unit - place) / (size / 2))
        return _steps(below)

    def _from_limit(self, states: Floats, unit: Floats) -> Floats:
        """Return the mass at the limit and those of cells from there on."""
        # ``place`` is the share of readings at the limit itself, ``spread`` that of the logarithm.
        _, place, _, spread, share, distance = (states[:, [column]] for column in range(6))
        size = self._size(states)
        near = np.log(np.maximum(unit, _FLOOR)) - np.log(size)
        rare, out = share**2 / 2, distance * np.log(1 / size)
        below = _below(near / (0.2 + 2.3 * spread)) * (1 - rare)
        below += rare * _below((near - out) / _RARE_WIDTH)
        return np.hstack([place, (1 - place) * _steps(below)])

    def _size(self, states: Floats) -> Floats:
        size: Floats = _FINEST ** (1 - states[:, [2]])  # log-uniform up to the whole width
        return size


def _steps(below: Floats) -> Floats:
    """Return the masses between the places at which a distribution function is known."""
    ends = np.zeros((len(below), 1))
    return np.diff(below, axis=1, prepend=ends, append=ends + 1)


def _below(z: Floats) -> Floats:
    """Return the normal distribution function, within 2e-4 (Page 1977)."""
    bounded = np.clip(z, -8, 8)
    # A cube as a product: powers are ten times as slow, and this is where all time goes.
    bent = np.sqrt(2 / np.pi) * bounded * (1 + 0.044715 * (bounded * bounded))
    half: Floats = (1 + np.tanh(bent)) / 2
    return half
