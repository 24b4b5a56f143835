"""Which mechanism is best for a mean at a budget, by the worst variance of a decoded report."""

import math

from rase.randomize.bounded import HYBRID_FROM, Duchi, Hybrid
from rase.randomize.ladder import programme_below
from rase.randomize.optimal import Optimal
from rase.stream import ValueRange

__all__ = ["OPTIMAL_FROM", "auto", "best_mechanism"]

# Below, the optimum is less than 6 % better than one bit, which is simpler to send and to check.
OPTIMAL_FROM = 0.6


def auto(epsilon: float, value_range: ValueRange) -> Duchi | Hybrid | Optimal:
    """Return the mechanism that is best for a mean at this budget: see `best_mechanism`.

    Args:
        epsilon: The budget of one report, the same for all contributors.
        value_range: The public range.

    Raises:
        ValueError: If epsilon lies outside [1e-4, 30].

    Example:
        >>> [type(auto(epsilon, ValueRange(0, 1))).__name__ for epsilon in (0.5, 1, 4)]
        ['Duchi', 'Optimal', 'Optimal']
    """
    # Duchi's constructor refuses what is no budget before the best is looked for.
    bit = Duchi(epsilon, value_range)
    best = best_mechanism(bit.budgets[-1])
    if best == "duchi":
        return bit
    return (Optimal if best == "optimal" else Hybrid)(epsilon, value_range)


def best_mechanism(epsilon: float) -> str:
    """Return the name of the mechanism whose decoded reports have the smallest worst variance.

    Below 0.6 it is Duchi's bit. Above, the optimal channel, unless the budget lies so far above a
    rung of its ladder, or above the ladder itself, that Hybrid or Duchi's bit with the whole budget
    has less.

    Example:
        >>> best_mechanism(0.5), best_mechanism(1.0), best_mechanism(20.0)
        ('duchi', 'optimal', 'hybrid')
    """
    if epsilon < OPTIMAL_FROM:
        return "duchi"
    worst = {
        "optimal": programme_below(epsilon).worst_variance,
        "duchi": _duchi_worst(epsilon),
        "hybrid": _hybrid_worst(epsilon),
    }
    return min(worst, key=lambda name: worst[name])


def _duchi_worst(epsilon: float) -> float:
    """Return the variance of a bit in the middle of the range, in squared widths."""
    return 1 / (2 * math.tanh(epsilon / 2)) ** 2


def _hybrid_worst(epsilon: float) -> float:
    """Return Hybrid's variance (Wang et al., Theorem 3), the same at all readings."""
    if epsilon <= HYBRID_FROM:
        return _duchi_worst(epsilon)
    root, whole = math.exp(epsilon / 2), math.exp(epsilon)
    window = (root + 3) / (3 * root * (root - 1))
    bit = (whole + 1) ** 2 / (root * (whole - 1) ** 2)
    return (window + bit) / 4
