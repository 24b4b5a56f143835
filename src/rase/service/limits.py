"""How much a sender may ask: so often a minute, so many at once; counts are in memory only."""

import threading
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Final

from rase.clock import Clock
from rase.service.http import HttpProblem
from rase.wire.problems import PROBLEM_TYPES, Problem

__all__ = ["AtOnce", "RateLimit", "too_many"]

_WINDOW_S: Final = 60
_MOST_SENDERS: Final = 1_000_000
_OTHERS: Final = object()


class RateLimit:
    """Refuse a sender who asks more often than so many times a minute.

    Args:
        per_minute: How often.
        clock: Shows when a minute is over.
        most_senders: How many are counted one by one in a minute, so that memory is bounded; those
            beyond share one count.
    """

    def __init__(self, per_minute: int, clock: Clock, *, most_senders: int = _MOST_SENDERS) -> None:
        self._most = per_minute
        self._clock = clock
        self._most_senders = most_senders
        self._counts: Counter[Hashable] = Counter()
        self._end_s = 0.0
        self._lock = threading.Lock()

    def check(self, sender: Hashable) -> None:
        """Count a request.

        Raises:
            HttpProblem: ``too-many``, with the seconds to wait.
        """
        now_s = self._clock.monotonic_s()
        with self._lock:
            if now_s >= self._end_s:
                self._counts.clear()
                self._end_s = now_s + _WINDOW_S
            if len(self._counts) >= self._most_senders and sender not in self._counts:
                sender = _OTHERS
            count = self._counts[sender] = self._counts.get(sender, 0) + 1
        if count > self._most:
            raise too_many(self._end_s - now_s)


class AtOnce:
    """Refuse more than so many at once, of one sender and of all together.

    Args:
        most: How many of all.
        of_one: How many of one sender; as many as of all if None.
        retry_s: When to try again.
    """

    def __init__(self, most: int, *, of_one: int | None = None, retry_s: float = 5) -> None:
        self._most = most
        self._of_one = most if of_one is None else of_one
        self._retry_s = retry_s
        self._lock = threading.Lock()
        self._counts: Counter[Hashable] = Counter()

    @contextmanager
    def hold(self, sender: Hashable) -> Iterator[None]:
        """Take a place and give it back at the end of the block.

        Raises:
            HttpProblem: ``too-many``, if none is free.
        """
        with self._lock:
            if self._counts.total() >= self._most or self._counts[sender] >= self._of_one:
                raise too_many(self._retry_s)
            self._counts[sender] += 1
        try:
            yield
        finally:
            with self._lock:
                self._counts[sender] -= 1
                # Names of those who left are not kept.
                self._counts = +self._counts


def too_many(retry_s: float) -> HttpProblem:
    """Return the refusal that says when to try again."""
    problem = Problem(PROBLEM_TYPES["too-many"], "Try again later.")
    return HttpProblem(problem, headers={"Retry-After": str(max(1, round(retry_s + 0.5)))})
