"""Which mechanism: their names, and the one that is best for a mean at a given epsilon."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from rase.randomize.bounded import HYBRID_FROM, Duchi, Hybrid, Piecewise
from rase.randomize.budget_aware import BudgetAware, Laplace
from rase.stream import Precision, ValueRange

__all__ = ["MECHANISMS", "Mechanism", "best_mechanism", "mechanism_named"]

Mechanism = BudgetAware | Laplace | Duchi | Piecewise | Hybrid

MECHANISMS: Mapping[str, Callable[[float, ValueRange, Precision], Mechanism]] = MappingProxyType(
    {
        "budget-aware": BudgetAware,
        "laplace": lambda epsilon, value_range, _: Laplace(epsilon, value_range),
        "duchi": lambda epsilon, value_range, _: Duchi(epsilon, value_range),
        "piecewise": lambda epsilon, value_range, _: Piecewise(epsilon, value_range),
        "hybrid": lambda epsilon, value_range, _: Hybrid(epsilon, value_range),
    }
)


def mechanism_named(
    name: str, epsilon: float, *, value_range: ValueRange, precision: Precision
) -> Mechanism:
    """Return the mechanism of this name.

    Args:
        name: One of `MECHANISMS`, or ``auto`` for `best_mechanism`.
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
        raise ValueError(f"mechanism must be auto, {', '.join(MECHANISMS)}, got {name!r}.")
    return MECHANISMS[name](epsilon, value_range, precision)


def best_mechanism(epsilon: float) -> str:
    """Return the name of the mechanism whose decoded reports have the smallest worst variance.

    Up to a budget of about 0.61 Hybrid never tosses its coin and is Duchi's bit, the simpler of
    two equals; above, Hybrid is best. From about 8 on Piecewise is its equal within a few per cent.

    Example:
        >>> best_mechanism(0.5), best_mechanism(1.0)
        ('duchi', 'hybrid')
    """
    return "duchi" if epsilon <= HYBRID_FROM else "hybrid"
