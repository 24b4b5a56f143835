"""How much a sender may send: counts in windows of a minute, kept in memory only."""

from collections import Counter
from collections.abc import Hashable
from typing import Final

from rase.clock import Clock
from rase.service.http import HttpProblem
from rase.wire.problems import PROBLEM_TYPES, Problem

__all__ = ["RateLimit", "too_many"]

_WINDOW_S: Final = 60


class RateLimit:
    """Refuse a sender who asks more often than so many times a minute.

    Args:
        per_minute: How often.
        clock: Tells when a minute is over.
    """

    def __init__(self, per_minute: int, clock: Clock) -> None:
        self._most = per_minute
        self._clock = clock
        self._counts: Counter[Hashable] = Counter()
        self._end_s = 0.0

    def check(self, sender: Hashable) -> None:
        """Count a request.

        Raises:
            HttpProblem: ``too-many``, with the seconds to wait.
        """
        now_s = self._clock.monotonic_s()
        if now_s >= self._end_s:
            self._counts.clear()
            self._end_s = now_s + _WINDOW_S
        self._counts[sender] += 1
        if self._counts[sender] > self._most:
            raise too_many(self._end_s - now_s)


def too_many(retry_s: float) -> HttpProblem:
    """Return the refusal that says when to try again."""
    problem = Problem(PROBLEM_TYPES["too-many"], "Send the same bytes again later.")
    return HttpProblem(problem, headers={"Retry-After": str(max(1, round(retry_s + 0.5)))})
