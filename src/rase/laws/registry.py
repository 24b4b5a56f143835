"""Every mechanism by its name: the one list from which all others are derived.

To add a mechanism, write its law and randomizer in a module of this room and add a line below.
Campaigns, command-line choices, the planner, the audit and the docs follow from it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, overload

from rase.domain import PAPER_PRECISION, Categories, Domain, Precision, Range

if TYPE_CHECKING:
    from rase.laws.randomizer import Randomizer, RangeRandomizer
    from rase.laws.response import CategoryRandomizer

__all__ = [
    "AUTO",
    "CHOICES",
    "FOR_MEANS",
    "MEAN_CHOICES",
    "MECHANISMS",
    "OPTIMAL_FROM",
    "PROBE",
    "REGISTRY",
    "auto",
    "best_for_shares",
    "best_mechanism",
    "mechanisms_of",
    "randomizer_kind",
    "randomizer_named",
]

# Name, domain, module and class. Modules are imported when a mechanism is first used: a device that
# starts needs the names alone.
REGISTRY: Final[Mapping[str, tuple[type[Range | Categories], str, str]]] = MappingProxyType(
    {
        "budget-aware": (Range, "geometric", "BudgetAware"),
        "laplace": (Range, "geometric", "Laplace"),
        "duchi": (Range, "windows", "Duchi"),
        "piecewise": (Range, "windows", "Piecewise"),
        "hybrid": (Range, "windows", "Hybrid"),
        "optimal": (Range, "optimal", "Optimal"),
        "square-wave": (Range, "windows", "SquareWave"),
        "randomized-response": (Categories, "response", "RandomizedResponse"),
        "block-design": (Categories, "response", "BlockDesign"),
    }
)
# What a person may ask for, the default first: auto is the best mechanism at the budget.
AUTO: Final = "auto"
# What probing rounds report by.
PROBE: Final = "square-wave"
# Below, the optimum is about 6 % better at most than one bit, which is simpler to send and check.
OPTIMAL_FROM = 0.6


def mechanisms_of(domain: type[Range | Categories]) -> tuple[str, ...]:
    """Return the names of the mechanisms for a kind of domain.

    Example:
        >>> mechanisms_of(Categories)
        ('randomized-response', 'block-design')
    """
    return tuple(name for name, entry in REGISTRY.items() if entry[0] is domain)


# The mechanisms for numbers, and what may be asked for where numbers are measured.
MECHANISMS: Final = mechanisms_of(Range)
CHOICES: Final = (AUTO, *MECHANISMS)
# Those made for means, with which the planner plans: the square wave is for distributions.
FOR_MEANS: Final = tuple(name for name in MECHANISMS if name != PROBE)
MEAN_CHOICES: Final = (AUTO, *FOR_MEANS)


def randomizer_kind(name: str) -> type[Randomizer]:
    """Return the class of a mechanism.

    Raises:
        KeyError: If no mechanism has the name.
    """
    _, module, kind = REGISTRY[name]
    found: type[Randomizer] = getattr(import_module(f"rase.laws.{module}"), kind)
    return found


@overload
def randomizer_named(
    name: str,
    epsilon: float | tuple[float, ...],
    *,
    domain: Range,
    precision: Precision = PAPER_PRECISION,
) -> RangeRandomizer: ...


@overload
def randomizer_named(
    name: str,
    epsilon: float | tuple[float, ...],
    *,
    domain: Categories,
    precision: Precision = PAPER_PRECISION,
) -> CategoryRandomizer: ...


def randomizer_named(
    name: str,
    epsilon: float | tuple[float, ...],
    *,
    domain: Domain,
    precision: Precision = PAPER_PRECISION,
) -> Randomizer:
    """Return the randomizer of a mechanism.

    Args:
        name: The name of a mechanism for this domain, or ``auto``.
        epsilon: The budget of one report, or one for each contributor.
        domain: The public domain.
        precision: The (beta, rho) asked for, which only ``budget-aware`` looks at; the paper's
            unless given.

    Raises:
        ValueError: If no mechanism of this domain has the name, or a budget lies outside
            [1e-4, 30].

    Example:
        >>> type(randomizer_named("laplace", 1, domain=Range(0, 1))).__name__
        'Laplace'
    """
    if name == AUTO:
        return auto(epsilon, domain)
    if name not in REGISTRY or not isinstance(domain, REGISTRY[name][0]):
        known = ", ".join((AUTO, *mechanisms_of(type(domain))))
        raise ValueError(f"mechanism must be one of {known}, got {name!r}.")
    more = (precision,) if name == "budget-aware" else ()
    return randomizer_kind(name)(epsilon, domain, *more)


@overload
def auto(epsilon: float | Sequence[float], domain: Range) -> RangeRandomizer: ...


@overload
def auto(epsilon: float | Sequence[float], domain: Categories) -> CategoryRandomizer: ...


def auto(epsilon: float | Sequence[float], domain: Domain) -> Randomizer:
    """Return the best mechanism at a budget: for a mean, or for the shares of categories.

    Args:
        epsilon: The budget of one report, or one for each contributor.
        domain: The public domain.

    Raises:
        ValueError: If a budget lies outside [1e-4, 30].

    Example:
        >>> [type(auto(epsilon, Range(0, 1))).__name__ for epsilon in (0.5, 1, 4)]
        ['Duchi', 'Optimal', 'Optimal']
    """
    from rase.laws.checks import check_budgets

    # Bad budgets are refused before the best mechanism is looked for.
    budgets = check_budgets(epsilon)
    if isinstance(domain, Categories):
        name = best_for_shares(budgets, len(domain.names))
    else:
        name = best_mechanism(budgets)
    return randomizer_kind(name)(budgets, domain)


def best_mechanism(epsilon: float | Sequence[float]) -> str:
    """Return the name of the mechanism whose decoded reports have the smallest worst variance.

    Where every budget is below 0.6 it is Duchi's bit. Otherwise it is the optimal channel, unless
    the budget lies so far above its ladder that Hybrid with the whole budget has less.
    Contributors who differ in their budgets share one mechanism: the one with the smallest worst
    variance of the mean of all their reports.

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


def best_for_shares(epsilon: float | Sequence[float], categories: int) -> str:
    """Return the name of the mechanism whose shares have the smallest variance in sum.

    That sum is the same whatever the readings are, so none has a worse case.

    Args:
        epsilon: The budget of one report, or one for each contributor.
        categories: How many categories there are.

    Example:
        >>> best_for_shares(1.0, 16), best_for_shares(4.0, 16)
        ('block-design', 'randomized-response')
    """
    from rase.laws.designs import design_for, response_variance, total_variance

    budgets = Counter(epsilon if isinstance(epsilon, Sequence) else [epsilon])
    single = sum(times * response_variance(categories, one) for one, times in budgets.items())
    of_sets = sum(
        times * total_variance(design_for(categories, one), categories, one)
        for one, times in budgets.items()
    )
    return "randomized-response" if single <= of_sets else "block-design"


def _optimal_worst(epsilon: float) -> float:
    """Return the variance of the channel that serves a budget; below the ladder it is the bit."""
    from rase.laws.ladder import LOWEST_RUNG, programme_at

    if epsilon < LOWEST_RUNG:
        return _duchi_worst(epsilon)
    return programme_at(epsilon).worst_variance


def _duchi_worst(epsilon: float) -> float:
    """Return the variance of a bit in the middle of the range, in squared widths."""
    return 1 / (2 * math.tanh(epsilon / 2)) ** 2


def _hybrid_worst(epsilon: float) -> float:
    """Return Hybrid's variance (Wang et al., Theorem 3), the same at all readings."""
    from rase.laws.parts import HYBRID_FROM

    if epsilon <= HYBRID_FROM:
        return _duchi_worst(epsilon)
    root, whole = math.exp(epsilon / 2), math.exp(epsilon)
    window = (root + 3) / (3 * root * (root - 1))
    bit = (whole + 1) ** 2 / (root * (whole - 1) ** 2)
    return (window + bit) / 4
