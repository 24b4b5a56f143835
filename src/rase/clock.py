"""Wall time to round numbers: a round is the only time that leaves a device.

Pure Python without NumPy, because the device agent imports it; ``round_number`` also takes arrays.
"""

import re
import time
from typing import Any, Protocol

__all__ = [
    "FIRST_PAUSE_S",
    "LONGEST_PAUSE_S",
    "Clock",
    "FakeClock",
    "SystemClock",
    "backoff_s",
    "parse_duration_s",
    "round_number",
    "round_start_s",
    "time_in_words",
]

# How long to wait before something is tried again: at first, and at most.
FIRST_PAUSE_S = 2.0
LONGEST_PAUSE_S = 300.0
_UNIT_S = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"(\d+)\s*([a-z]*)")


def backoff_s(failures: int, *, share: float, most_s: float = LONGEST_PAUSE_S) -> float:
    """Return how long to pause after some failures: twice as long each time, half of it by chance.

    Chance keeps those who failed together from coming back together, again and again.

    Args:
        failures: How often it has failed, at least once.
        share: A random number of [0, 1).
        most_s: The longest pause.

    Example:
        >>> [backoff_s(failures, share=0.5) for failures in (1, 2, 3, 20)]
        [1.5, 3.0, 6.0, 225.0]
    """
    longest = min(FIRST_PAUSE_S * 2.0 ** min(failures - 1, 30), most_s)
    return longest * (0.5 + share / 2)


def parse_duration_s(text: str) -> int:
    """Return the seconds of a duration such as ``90s``, ``15min``, ``1h``, ``7d``.

    Example:
        >>> parse_duration_s("15min")
        900

    Raises:
        ValueError: If the text is not a whole positive number and a unit.
    """
    match = _DURATION.fullmatch(text.strip().lower())
    unit = _UNIT_S.get((match.group(2) or "s") if match else "")
    if match is None or unit is None or int(match.group(1)) == 0:
        raise ValueError(f"a duration must look like 30s, 15min, 1h, 1d or 1w, got {text!r}.")
    return int(match.group(1)) * unit


def round_number(time_s: Any, interval_s: int) -> Any:
    """Return the round ``floor(time / interval)`` of a time in seconds since 1970.

    Example:
        >>> round_number(7200, 3600)
        2
    """
    return time_s // interval_s


def round_start_s(number: int, interval_s: int) -> int:
    """Return the second at which a round begins."""
    return number * interval_s


class Clock(Protocol):
    """A source of time; everything that needs it takes a clock, so that tests need not wait."""

    def now_s(self) -> float:
        """Return the seconds since 1970, by a clock that people may set."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds that only pass, from an unknown beginning."""
        ...


class SystemClock:
    """The time of the operating system."""

    __slots__ = ()

    def now_s(self) -> float:
        """Return the seconds since 1970."""
        return time.time()

    def monotonic_s(self) -> float:
        """Return seconds that only pass."""
        return time.monotonic()


class FakeClock:
    """A time that moves only when it is set, for tests and simulations.

    Args:
        now_s: Where it begins, in seconds since 1970.

    Example:
        >>> clock = FakeClock(7200)
        >>> clock.advance(10)
        >>> clock.now_s(), clock.monotonic_s()
        (7210.0, 10.0)
        >>> clock.jump(-3600)
        >>> clock.now_s(), clock.monotonic_s()
        (3610.0, 10.0)
    """

    __slots__ = ("_monotonic_s", "_now_s")

    def __init__(self, now_s: float) -> None:
        """Begin."""
        self._now_s = float(now_s)
        self._monotonic_s = 0.0

    def now_s(self) -> float:
        """Return the seconds since 1970."""
        return self._now_s

    def monotonic_s(self) -> float:
        """Return the seconds that passed since the clock was made."""
        return self._monotonic_s

    def advance(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            ValueError: If time would go backwards.
        """
        if seconds < 0:
            raise ValueError(f"seconds must be at least 0, got {seconds}; jump() sets a clock.")
        self._now_s += seconds
        self._monotonic_s += seconds

    def jump(self, seconds: float) -> None:
        """Set the clock forward or back, without time passing."""
        self._now_s += seconds


def time_in_words(time_s: float) -> str:
    """Return a time as RFC 3339 has it, in whole seconds.

    Example:
        >>> time_in_words(1782000000)
        '2026-06-21T00:00:00Z'
    """
    from datetime import UTC, datetime  # the agent starts without it

    return datetime.fromtimestamp(int(time_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
