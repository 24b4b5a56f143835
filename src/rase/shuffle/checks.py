"""Check the plain numbers that several parts of the room take as arguments."""

import math

__all__ = ["number_at_least", "positive_number", "whole_number"]


def whole_number(name: str, value: object, *, least: int) -> int:
    """Return ``value`` as an int, or refuse it.

    Raises:
        TypeError: If the value is not a whole number.
        ValueError: If the value is below ``least``.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be a whole number, got {value!r}.")
    number = int(value.__index__())
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}.")
    return number


def number_at_least(name: str, value: object, *, least: float) -> float:
    """Return ``value`` as a float, or refuse it; infinity passes, NaN does not.

    Raises:
        TypeError: If the value is not a number.
        ValueError: If the value is below ``least`` or NaN.
    """
    if isinstance(value, bool | str) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} must be a number, got {value!r}.")
    number = float(value)
    if not number >= least:
        raise ValueError(f"{name} must be at least {least:g}, got {number}.")
    return number


def positive_number(name: str, value: object) -> float:
    """Return ``value`` as a finite float above 0, or refuse it.

    Raises:
        TypeError: If the value is not a number.
        ValueError: If the value is not above 0, or not finite.
    """
    number = number_at_least(name, value, least=0.0)
    if number == 0 or math.isinf(number):
        raise ValueError(f"{name} must be above 0 and finite, got {number}.")
    return number
