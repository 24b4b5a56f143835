"""The arguments of privacy accounting, checked in one place."""

import math

from rase.privacy import MAX_EPSILON, MIN_EPSILON

__all__ = ["MOST_REPORTS", "checked_delta", "checked_epsilon", "checked_n", "checked_rounds"]

MOST_REPORTS = 10**9


def checked_epsilon(epsilon: object) -> float:
    """Return a budget of one report, or refuse it."""
    if isinstance(epsilon, bool | str) or not hasattr(epsilon, "__float__"):
        raise TypeError(f"epsilon must be a number or a randomizer, got {epsilon!r}.")
    value = float(epsilon)
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"epsilon must be greater than 0 and finite, got {value}.")
    if not MIN_EPSILON <= value <= MAX_EPSILON:
        raise ValueError(
            f"epsilon must be between {MIN_EPSILON:g} and {MAX_EPSILON:g}, got {value:g}."
        )
    return value


def checked_delta(delta: object) -> float:
    """Return a delta strictly between 0 and 1, or refuse it."""
    if isinstance(delta, bool | str) or not hasattr(delta, "__float__"):
        raise TypeError(f"delta must be a number, got {delta!r}.")
    value = float(delta)
    if not 1e-100 <= value < 1:
        raise ValueError(
            f"delta must be between 1e-100 and 1, got {value}; take well below 1 / n, such as 1e-6."
        )
    return value


def checked_n(n: object) -> int:
    """Return a number of reports that can hide among one another, or refuse it."""
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise TypeError(f"n must be a whole number, got {n!r}.")
    count = n.__index__()
    if not 2 <= count <= MOST_REPORTS:
        raise ValueError(
            f"n must be between 2 and {MOST_REPORTS}, got {count}; a single report has its local "
            "guarantee only."
        )
    return int(count)


def checked_rounds(rounds: object) -> int:
    """Return a number of rounds, or refuse it."""
    if isinstance(rounds, bool) or not hasattr(rounds, "__index__"):
        raise TypeError(f"rounds must be a whole number, got {rounds!r}.")
    count = rounds.__index__()
    if count < 1:
        raise ValueError(f"rounds must be at least 1, got {count}.")
    return int(count)
