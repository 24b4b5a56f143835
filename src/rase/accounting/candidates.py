"""The mechanisms that are planned with, by their names."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from rase.randomize.bounded import Duchi, Hybrid, Piecewise
from rase.randomize.budget_aware import BudgetAware, Laplace
from rase.randomize.choice import best_mechanism
from rase.randomize.optimal import Optimal
from rase.stream import Precision, ValueRange

__all__ = ["MECHANISMS", "Mechanism", "mechanism_named"]

Mechanism = BudgetAware | Laplace | Duchi | Piecewise | Hybrid | Optimal

MECHANISMS: Mapping[str, Callable[[float, ValueRange, Precision], Mechanism]] = MappingProxyType(
    {
        "budget-aware": BudgetAware,
        "laplace": lambda epsilon, value_range, _: Laplace(epsilon, value_range),
        "duchi": lambda epsilon, value_range, _: Duchi(epsilon, value_range),
        "piecewise": lambda epsilon, value_range, _: Piecewise(epsilon, value_range),
        "hybrid": lambda epsilon, value_range, _: Hybrid(epsilon, value_range),
        "optimal": lambda epsilon, value_range, _: Optimal(epsilon, value_range),
    }
)


def mechanism_named(
    name: str, epsilon: float, *, value_range: ValueRange, precision: Precision
) -> Mechanism:
    """Return the mechanism of this name.

    Args:
        name: One of `MECHANISMS`, or ``auto`` for `rase.randomize.choice.best_mechanism`.
        epsilon: The budget of one report.
        value_range: The public range.
        precision: The (beta, rho) asked for; only ``budget-aware`` looks at it.

    Raises:
        ValueError: If there is none of this name, or epsilon is out of bounds.

    Example:
        >>> public, precision = ValueRange(0, 1), Precision(0.5, 0.9)
        >>> type(mechanism_named("laplace", 1, value_range=public, precision=precision)).__name__
        'Laplace'
    """
    if name == "auto":
        name = best_mechanism(epsilon)
    if name not in MECHANISMS:
        raise ValueError(f"mechanism must be one of auto, {', '.join(MECHANISMS)}, got {name!r}.")
    return MECHANISMS[name](epsilon, value_range, precision)
