"""The ladder of optimal channels that is shipped, and which of them serves a budget.

The law of a report must follow from the campaign alone, because devices and fusion centre never
meet; so it is read from the ladder everywhere, and never solved where it is used. A budget between
two rungs is served by the rung below: less epsilon is spent than allowed. Pure Python without
NumPy, because the device agent draws from it.
"""

import json
from bisect import bisect_right
from functools import lru_cache

from rase.errors import DataError
from rase.laws.programme import Programme

__all__ = ["LOWEST_RUNG", "programme_below", "rung_below", "rungs"]

LOWEST_RUNG = 0.25
_FILE = "optimal.jsonl"


def rungs() -> tuple[float, ...]:
    """Return the budgets on the ladder, ascending.

    Example:
        >>> 1.0 in rungs(), rungs()[0], rungs()[-1]
        (True, 0.25, 8.0)
    """
    return tuple(_lines())


def rung_below(epsilon: float) -> float | None:
    """Return the largest rung that is at most a budget; None if the budget is below all.

    Example:
        >>> rung_below(1.02), rung_below(30), rung_below(0.2)
        (1.0, 8.0, None)
    """
    known = rungs()
    place = bisect_right(known, epsilon)
    return known[place - 1] if place else None


@lru_cache(maxsize=128)
def programme_below(epsilon: float) -> Programme:
    """Return the channel of the largest rung that is at most a budget.

    Raises:
        ValueError: If the budget is below the ladder.
        DataError: If the package's file was damaged.
    """
    rung = rung_below(epsilon)
    if rung is None:
        raise ValueError(f"epsilon must be at least {LOWEST_RUNG:g}, got {epsilon}.")
    return _programme(rung)


@lru_cache(maxsize=128)
def _programme(rung: float) -> Programme:
    try:
        return Programme.from_fields(json.loads(_lines()[rung]))
    except DataError as error:
        raise DataError(f"{_FILE} of this package: {error} Install the package again.") from error


@lru_cache(maxsize=1)
def _lines() -> dict[float, str]:
    """Return the text of each rung; parsed only where it is used."""
    # Put off, because importing it takes longer than all else a device does to start.
    from importlib.resources import files

    text = files("rase.laws").joinpath(_FILE).read_text(encoding="utf-8")
    found = {}
    for line in text.splitlines():
        # Fields stand in one order, so the budget can be told without parsing the rest.
        start = line.index('"epsilon":') + len('"epsilon":')
        found[float(line[start : line.index(",", start)])] = line
    return found
