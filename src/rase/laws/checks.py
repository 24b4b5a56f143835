"""What is refused before anything is drawn: readings that are no numbers, budgets out of bounds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

from rase.lazy import numpy as np
from rase.privacy import MAX_EPSILON, MIN_EPSILON

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from rase.arrays import Floats

__all__ = ["as_readings", "check_budgets", "check_epsilon"]


def as_readings(readings: ArrayLike) -> Floats:
    """Return readings as floats, or refuse them without showing one.

    Raises:
        TypeError: If they are not numbers.
    """
    try:
        return np.asarray(readings, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        # The error underneath quotes what it could not read.
        raise TypeError("readings must be numbers, got something else.") from None


def check_epsilon(value: object) -> float:
    """Return a budget as a float, or refuse it.

    Raises:
        TypeError: If it is not a number.
        ValueError: If it lies outside [1e-4, 30].
    """
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise TypeError(f"epsilon must be a number, got {value!r}.")
    budget = float(value)
    if not (math.isfinite(budget) and budget > 0):
        raise ValueError(f"epsilon must be greater than 0 and finite, got {budget}.")
    if not MIN_EPSILON <= budget <= MAX_EPSILON:
        raise ValueError(
            f"epsilon must be between {MIN_EPSILON:g} and {MAX_EPSILON:g}, got {budget:g}."
        )
    return budget


def check_budgets(epsilon: object) -> float | tuple[float, ...]:
    """Return one budget, or one for each contributor, as floats; or refuse them.

    Raises:
        TypeError: If one is not a number.
        ValueError: If one lies outside [1e-4, 30], or there is none.
    """
    if isinstance(epsilon, str | bytes):
        raise TypeError(f"epsilon must be a number, got {epsilon!r}.")
    # Arrays have a shape; those without dimensions are numbers.
    if isinstance(epsilon, Sequence) or bool(getattr(epsilon, "shape", False)):
        budgets = list(cast("Iterable[object]", epsilon))
        if not budgets:
            raise ValueError("epsilon must hold one budget for each contributor, got none.")
        return tuple(check_epsilon(value) for value in budgets)
    return check_epsilon(epsilon)
