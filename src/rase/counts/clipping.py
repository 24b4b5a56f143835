"""What clipping to a range adds to the mean of one round, given what that mean came to.

A fleet that moves is clipped more where its mean comes near an end of the range, and a mean of
clipped readings stays inside however far the fleet went. So what is predicted for all rounds alike
says too little for some rounds and too much for others.
"""

import math
from dataclasses import dataclass

import numpy as np

from rase.arrays import Floats
from rase.counts.shapes import Shapes

__all__ = ["DEGREES_OF_CLIPPING", "Clipping", "clipping_of"]

# Fleets move by jumps more often than normal chance allows, and what clipping adds is itself known
# through few moves: Student's t of so few degrees stands for both. Chosen on made-up fleets.
DEGREES_OF_CLIPPING = 3.0
# Where a random walk stands lies twice as far, in squares, from its mean as its past on average.
_PRESENT = 2.0
# Shapes that are followed, moves that each makes, and the farthest of them in standard deviations.
_COUNT, _MOVES, _FARTHEST = 100, 33, 8.0
# Shares go round the shapes by the golden ratio, so that any few shapes have few and many.
_TURN = (math.sqrt(5) - 1) / 2
# The moves are no finer: a mean that is known better than this share of the range does not count.
_FINEST = 0.01


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Clipping:
    """States that a fleet may be in, and the effect of clipping in each of them.

    Args:
        chances: The logarithm of how likely each state is before a round.
        clipped: The mean of the clipped readings in it.
        lost: By how much it lies below the mean of all readings within the limits.
        own: The variance of that loss from the chance of the n readings.
        width: The width of the range.
    """

    chances: Floats
    clipped: Floats
    lost: Floats
    own: Floats
    width: float

    def error_at(self, value: float, *, error: float) -> float:
        """Return the root mean square of what clipping adds, for a mean that came to ``value``.

        Args:
            value: The mean of a round's clipped readings, estimated.
            error: Its standard error, noise alone; infinite if nothing is known.

        Validation: intervals that hold it cover normal fleets that walk in
        tests/counts/test_clipping.py; measured slices in docs/explain/accuracy.md.
        """
        error = max(error, _FINEST * self.width)
        weights = self.chances - np.square((value - self.clipped) / error) / 2
        weights = np.exp(weights - weights.max())
        return math.sqrt(float(weights @ (np.square(self.lost) + self.own) / weights.sum()))


def clipping_of(
    shapes: Shapes, shares: tuple[Floats, Floats], reach: Floats, *, n: int
) -> Clipping:
    """Return what clipping to a range may do.

    A fleet of a shape (`rase.counts.shapes`) has a share of its variance in common: by so much
    its rounds move, and within a round its readings spread by the rest.

    Args:
        shapes: What the readings of all rounds may look like.
        shares: Shares of the variance that a round may have in common, and how likely each is.
        reach: The two ends of the range.
        n: How many readings a round has.
    """
    masses, moving = shapes.masses[:_COUNT], shapes.moving[:_COUNT]
    turns = (np.arange(len(masses)) * _TURN) % 1
    places = np.searchsorted(np.cumsum(shares[1]), turns).clip(max=shares[0].size - 1)
    share = shares[0][places][:, None]
    centre = (masses @ shapes.points)[:, None]
    deviation = np.sqrt(_PRESENT * share * shapes.variances()[:_COUNT, None])
    # Far moves are rare and alike: the grid grows coarser outwards.
    moves = np.sinh(np.linspace(-1, 1, _MOVES) * math.asinh(_FARTHEST))
    power = (DEGREES_OF_CLIPPING + 1) / 2
    chances = np.log(np.gradient(moves)) - power * np.log1p(moves**2 / DEGREES_OF_CLIPPING)
    spread = centre + np.sqrt(1 - share) * (shapes.points - centre)
    readings = spread[:, None, :] + moving[:, None, :] * (deviation * moves)[:, :, None]
    np.clip(readings, shapes.points[0], shapes.points[-1], out=readings)
    inside = readings.clip(reach[0], reach[1])
    outside = readings - inside

    def mean(of: Floats) -> Floats:
        found: Floats = np.einsum("sp,smp->sm", masses, of).ravel()
        return found

    lost = mean(outside)
    own = np.maximum(mean(np.square(outside)) - lost**2, 0.0) / n
    return Clipping(
        np.tile(chances, len(masses)), mean(inside), lost, own, float(reach[1] - reach[0])
    )
