"""Checks before anything is drawn: readings that are not numbers, budgets out of bounds."""

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
    """Return readings as floats, without ever showing one in an error.

    Raises:
        TypeError: If the readings are not numbers; texts are none, whatever they say.
    """
    try:
        found = np.asarray(readings)
        # NumPy would read the texts.
        if found.dtype.kind in "SU" or (
            found.dtype.kind == "O" and any(isinstance(one, str | bytes) for one in found.flat)
        ):
            raise TypeError
        return np.asarray(readings, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        # The error underneath quotes what it could not read.
        raise TypeError("readings must be numbers, got something else.") from None


def check_epsilon(value: object) -> float:
    """Return a budget as a float.

    Raises:
        TypeError: If the budget is not a number.
        ValueError: If the budget lies outside [1e-4, 30].
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
    """Return one budget, or one for each contributor, as floats.

    Raises:
        TypeError: If a budget is not a number.
        ValueError: If a budget lies outside [1e-4, 30], or there are no budgets.
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
