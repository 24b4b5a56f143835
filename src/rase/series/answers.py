"""From estimates to answers: the one place where an estimate becomes a row of the schema."""

import functools
import math
from typing import Any

from rase.answer import Answer
from rase.counts.estimate import Estimate
from rase.counts.fleet import OF_FLEET
from rase.counts.registry import SMOOTHED

__all__ = ["answer_of", "finite", "number_fields", "row_of", "target_of"]

# The paper's estimators speak of the noisy reports instead.
_READINGS = "of the readings"
_UNSAID = Answer().as_fields()


def answer_of(estimate: Estimate | None, *, level: float = 0.95, **fields: Any) -> Answer:
    """Return an estimate as an answer.

    Args:
        estimate: The estimate; None where there is none, whose ``status`` says why.
        level: The coverage of the interval.
        fields: What else is known of it, by the names of `Answer`.
    """
    if estimate is None:
        return Answer(**fields)
    return Answer(**{**number_fields(estimate, level=level), **fields})


def row_of(estimate: Estimate, *, level: float = 0.95, **fields: Any) -> dict[str, Any]:
    """Return what `answer_of` returns as plain values by name, in a third of the time.

    Runs have hundreds of thousands of rounds.
    """
    return {**_UNSAID, **number_fields(estimate, level=level), **fields}


def number_fields(estimate: Estimate, *, level: float = 0.95) -> dict[str, Any]:
    """Return the numbers of an estimate by the names of `Answer`."""
    # Where the error is not known the bounds of the range are no interval.
    is_known = math.isfinite(estimate.standard_error)
    low, high = estimate.interval(level) if is_known else (math.nan, math.nan)
    return {
        "value": estimate.value,
        "standard_error": finite(estimate.standard_error),
        "low": finite(low),
        "high": finite(high),
        "n": estimate.n,
        "rounds": estimate.rounds,
        "of_rounds": estimate.of_rounds,
        "method": estimate.method,
        "revision": int(estimate.method == SMOOTHED),
        "target": target_of(estimate),
    }


def target_of(estimate: Estimate) -> str:
    """Return whose readings an estimate speaks of."""
    return _whose(estimate.target)


@functools.lru_cache(maxsize=64)
def _whose(target: str) -> str:
    # A window over rounds of several kinds names them all: it is of readings only if all are.
    targets = target.partition(", over ")[0].split(" and ")
    if all(target == OF_FLEET for target in targets):
        return "fleet"
    is_of_readings = all(_READINGS in target for target in targets)
    return "reporters" if is_of_readings else "reports"


def finite(number: float) -> float | None:
    """Return a number that JSON and databases can say; an infinite error is none."""
    return number if math.isfinite(number) else None
