"""The mechanisms that are planned with: those whose amplification and errors are computed."""

from typing import Final, cast

from rase.campaign import AUTO, MECHANISMS, PROBE
from rase.randomize.bounded import Duchi, Hybrid, Piecewise
from rase.randomize.budget_aware import BudgetAware, Laplace
from rase.randomize.optimal import Optimal
from rase.randomize.registry import randomizer_named
from rase.stream import Precision, ValueRange

__all__ = ["CHOICES", "PLANNED", "Mechanism", "mechanism_named"]

Mechanism = BudgetAware | Laplace | Duchi | Piecewise | Hybrid | Optimal

# The square wave is for distributions, not for means.
PLANNED: Final = tuple(name for name in MECHANISMS if name != PROBE)
CHOICES: Final = (AUTO, *PLANNED)


def mechanism_named(
    name: str, epsilon: float, *, value_range: ValueRange, precision: Precision
) -> Mechanism:
    """Return the mechanism of this name.

    Args:
        name: One of `CHOICES`.
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
    if name not in CHOICES:
        raise ValueError(f"mechanism must be one of {', '.join(CHOICES)}, got {name!r}.")
    found = randomizer_named(name, epsilon, value_range=value_range, precision=precision)
    return cast("Mechanism", found)
