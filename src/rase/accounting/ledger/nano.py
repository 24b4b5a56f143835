"""Epsilon in whole billionths, so that sums never drift: rounded up to spend, down to limit.

Pure Python without NumPy, because the device agent imports it.
"""

from decimal import Decimal

__all__ = ["nano_from_limit", "nano_from_spending", "nano_to_epsilon"]

_NANO = 10**9
_MAX_EPSILON = 1_000_000


def nano_from_spending(name: str, epsilon: float) -> int:
    """Return an epsilon to be spent in billionths, rounded up.

    A float stands for the shortest decimal that names it, as its user typed it: 0.1 is a tenth, and
    ten of them make 1. The float itself, which no mechanism exceeds, may lie above that decimal by
    one part in 10^16; so little may a window lose beyond its budget.

    Example:
        >>> nano_from_spending("epsilon", 0.1), nano_from_spending("epsilon", 1 / 3)
        (100000000, 333333334)
    """
    numerator, denominator = _ratio(name, epsilon)
    return -(-numerator * _NANO // denominator)


def nano_from_limit(name: str, epsilon: float) -> int:
    """Return an epsilon that limits in billionths, rounded down.

    Example:
        >>> nano_from_limit("window_epsilon", 1 / 3)
        333333333
    """
    numerator, denominator = _ratio(name, epsilon)
    nano = numerator * _NANO // denominator
    if not nano:
        raise ValueError(f"{name} must be at least 1e-09, got {epsilon}.")
    return nano


def nano_to_epsilon(nano: int) -> float:
    """Return billionths as an epsilon.

    Below 10^6 a float names 15 digits without doubt, so the way back gives the same billionths.

    Example:
        >>> nano_to_epsilon(41_666_666)
        0.041666666
    """
    return nano / _NANO


def _ratio(name: str, epsilon: float) -> tuple[int, int]:
    """Return an epsilon as an exact fraction."""
    if isinstance(epsilon, bool | str) or not hasattr(epsilon, "__float__"):
        raise TypeError(f"{name} must be a number, got {epsilon!r}.")
    value = float(epsilon)
    if not 0 < value <= _MAX_EPSILON:
        raise ValueError(
            f"{name} must be greater than 0 and at most {_MAX_EPSILON}, got {epsilon}."
        )
    return Decimal(repr(value)).as_integer_ratio()
