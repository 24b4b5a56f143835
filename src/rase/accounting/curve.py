"""From a curve delta(epsilon) to the epsilon at a given delta, from both sides."""

import math
from collections.abc import Callable

__all__ = ["crossing"]

_PRECISION = 1e-6
_SMALLEST = 1e-300
_SMALLEST_STEP = 1e-12


def crossing(
    delta_of: Callable[[float], float],
    delta: float,
    *,
    highest: float,
    lowest: float = 0.0,
    precision: float = _PRECISION,
) -> tuple[float, float]:
    """Return epsilons a hair apart, the first with more than ``delta``, the second with at most it.

    Both ends were evaluated, or are ``highest``; so the second is an upper bound wherever
    ``delta_of`` is one, and the first a lower bound wherever ``delta_of`` is one. Nothing rests on
    the search being exact.

    Args:
        delta_of: A falling curve.
        delta: The level.
        highest: An epsilon at which the level is known to be met.
        lowest: An epsilon to look above.
        precision: How far apart the two may be, as a share.

    Returns:
        ``(low, high)``; both are ``lowest`` where its delta is at most ``delta`` already.
    """
    start = delta_of(lowest)
    if start <= delta:
        return lowest, lowest
    low, high = lowest, highest
    # The curve is nearly a parabola in logs: interpolate ln delta along epsilon squared.
    above, below = math.log(start / delta), -math.inf
    side = trials = 0
    while high - low > precision * high + _SMALLEST_STEP:
        trials += 1
        is_bisecting = trials % 4 == 0
        trial = (low + high) / 2 if is_bisecting else _between(low, high, above, below)
        value = math.log(max(delta_of(trial), _SMALLEST) / delta)
        if value > 0:
            low, above = trial, value
            # Illinois: an end that stays twice is weighted down, or it would stay for ever.
            below = below / 2 if side == 1 else below
            side = 1
        else:
            high, below = trial, value
            above = above / 2 if side == -1 else above
            side = -1
    return low, high


def _between(low: float, high: float, above: float, below: float) -> float:
    """Return a trial strictly inside the bracket."""
    if below < -50 or above > 50:
        return math.sqrt(low * high) if low else high / 4
    share = above / (above - below) if above > below else 0.5
    guess = math.sqrt(low * low + share * (high * high - low * low))
    margin = _PRECISION * high / 3
    return min(max(guess, low + margin), high - margin)
