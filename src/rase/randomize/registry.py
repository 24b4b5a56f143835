"""Every mechanism by its name: the one place where names become randomizers."""

from collections.abc import Callable, Mapping
from typing import Any

from rase.campaign import AUTO, CHOICES
from rase.randomize.bounded import Duchi, Hybrid, Piecewise
from rase.randomize.budget_aware import BudgetAware, Laplace
from rase.randomize.choice import auto
from rase.randomize.grid import GridRandomizer
from rase.randomize.optimal import Optimal
from rase.randomize.square_wave import SquareWave
from rase.stream import Precision, ValueRange

__all__ = ["randomizer_named"]


_PLAIN: Mapping[str, Callable[[Any, ValueRange], GridRandomizer]] = {
    "laplace": Laplace,
    "duchi": Duchi,
    "piecewise": Piecewise,
    "hybrid": Hybrid,
    "optimal": Optimal,
    "square-wave": SquareWave,
}


def randomizer_named(
    name: str,
    epsilon: float | tuple[float, ...],
    *,
    value_range: ValueRange,
    precision: Precision,
) -> GridRandomizer:
    """Return the randomizer of a mechanism.

    Args:
        name: One of `rase.campaign.CHOICES`; ``auto`` is `rase.randomize.choice.best_mechanism`.
        epsilon: The budget of one report, or one for each contributor.
        value_range: The public range.
        precision: The (beta, rho) asked for; only ``budget-aware`` looks at it.

    Raises:
        ValueError: If there is none of this name, or a budget lies outside [1e-4, 30].

    Example:
        >>> public, precision = ValueRange(0, 1), Precision(0.5, 0.9)
        >>> type(randomizer_named("laplace", 1, value_range=public, precision=precision)).__name__
        'Laplace'
    """
    if name not in CHOICES:
        raise ValueError(f"mechanism must be one of {', '.join(CHOICES)}, got {name!r}.")
    if name == AUTO:
        return auto(epsilon, value_range)
    if name == "budget-aware":
        return BudgetAware(epsilon, value_range, precision)
    return _PLAIN[name](epsilon, value_range)
