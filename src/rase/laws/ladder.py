"""The ladder of shipped optimal channels, and which of them is used for a budget.

The law of a report must follow from the campaign alone, because devices and fusion centre never
meet; so it is read from the ladder everywhere, and never solved where it is used. A budget between
two rungs is served by the rung above, mixed with its own blanket. Pure Python without NumPy,
because the device agent draws from it.
"""

import json
from bisect import bisect_left
from functools import lru_cache

from rase.errors import DataError
from rase.laws.programme import Programme

__all__ = ["LOWEST_RUNG", "programme_at", "rungs"]

LOWEST_RUNG = 0.25
_FILE = "optimal.jsonl"


def rungs() -> tuple[float, ...]:
    """Return the budgets on the ladder, ascending.

    Example:
        >>> 1.0 in rungs(), rungs()[0], rungs()[-1]
        (True, 0.25, 8.5)
    """
    return tuple(_lines())


@lru_cache(maxsize=128)
def programme_at(epsilon: float) -> Programme:
    """Return the channel for a budget.

    That of its rung; between two rungs the one above, mixed with its own blanket down to the
    budget; above the ladder the highest.

    Raises:
        ValueError: If the budget is below the ladder.
        DataError: If the package's file was damaged.

    Example:
        >>> programme_at(1.02).epsilon, programme_at(30).epsilon
        (1.02, 8.5)
    """
    if not epsilon >= LOWEST_RUNG:
        raise ValueError(f"epsilon must be at least {LOWEST_RUNG:g}, got {epsilon}.")
    known = rungs()
    place = min(bisect_left(known, epsilon), len(known) - 1)
    above = _programme(known[place])
    return above.mix_blanket(epsilon) if epsilon < above.epsilon else above


@lru_cache(maxsize=128)
def _programme(rung: float) -> Programme:
    try:
        return Programme.from_fields(json.loads(_lines()[rung]))
    except DataError as error:
        raise DataError(f"{_FILE} of this package: {error} Install the package again.") from error


@lru_cache(maxsize=1)
def _lines() -> dict[float, str]:
    """Return the text of each rung; it is parsed only when used."""
    # Put off, because importing it takes longer than all else a device does to start.
    from importlib.resources import files

    text = files("rase.laws").joinpath(_FILE).read_text(encoding="utf-8")
    found = {}
    for line in text.splitlines():
        # Fields stand in one order, so the budget can be read without parsing the rest.
        start = line.index('"epsilon":') + len('"epsilon":')
        found[float(line[start : line.index(",", start)])] = line
    return found
