"""Which mechanism is best for a mean at a budget, by the worst variance of a decoded report."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import cast

from rase.randomize.bounded import HYBRID_FROM, Duchi, Hybrid
from rase.randomize.ladder import LOWEST_RUNG, programme_below
from rase.randomize.optimal import Optimal
from rase.stream import ValueRange

__all__ = ["OPTIMAL_FROM", "auto", "best_mechanism"]

# Below, the optimum is less than 6 % better than one bit, which is simpler to send and to check.
OPTIMAL_FROM = 0.6


def auto(epsilon: float | Sequence[float], value_range: ValueRange) -> Duchi | Hybrid | Optimal:
    """Return the mechanism that is best for a mean at this budget: see `best_mechanism`.

    Args:
        epsilon: The budget of one report, or one for each contributor.
        value_range: The public range.

    Raises:
        ValueError: If a budget lies outside [1e-4, 30].

    Example:
        >>> [type(auto(epsilon, ValueRange(0, 1))).__name__ for epsilon in (0.5, 1, 4)]
        ['Duchi', 'Optimal', 'Optimal']
    """
    # Duchi's constructor refuses what is no budget before the best is looked for.
    bit = Duchi(cast("float | tuple[float, ...]", epsilon), value_range)
    best = best_mechanism(bit.epsilon)
    if best == "duchi":
        return bit
    return (Optimal if best == "optimal" else Hybrid)(bit.epsilon, value_range)


def best_mechanism(epsilon: float | Sequence[float]) -> str:
    """Return the name of the mechanism whose decoded reports have the smallest worst variance.

    Where every budget is below 0.6 it is Duchi's bit. Otherwise it is the optimal channel, unless
    the budget lies so far above a rung of its ladder, or above the ladder itself, that Hybrid or
    Duchi's bit with the whole budget has less. Contributors who differ in their budgets share one
    mechanism: the one with the smallest worst variance of the mean of all their reports.

    Args:
        epsilon: The budget of one report, or one for each contributor.

    Raises:
        ValueError: If there is no budget.

    Example:
        >>> best_mechanism(0.5), best_mechanism(1.0), best_mechanism(20.0)
        ('duchi', 'optimal', 'hybrid')
        >>> best_mechanism([0.5, 2.0])
        'optimal'
    """
    budgets = Counter(epsilon if isinstance(epsilon, Sequence) else [epsilon])
    if not budgets:
        raise ValueError("epsilon must hold at least one budget, got none.")
    if max(budgets) < OPTIMAL_FROM:
        return "duchi"
    worst = {
        name: math.fsum(count * variance(budget) for budget, count in budgets.items())
        for name, variance in (
            ("optimal", _optimal_worst),
            ("duchi", _duchi_worst),
            ("hybrid", _hybrid_worst),
        )
    }
    return min(worst, key=lambda name: worst[name])


def _optimal_worst(epsilon: float) -> float:
    """Return the variance of the channel that serves a budget; below the ladder it is the bit."""
    if epsilon < LOWEST_RUNG:
        return _duchi_worst(epsilon)
    return programme_below(epsilon).worst_variance


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
