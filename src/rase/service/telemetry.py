"""What a server says about itself: counters, log lines, spans, never a value or an identity.

Lines go to stderr as ``event key=value …``; the time is added by whoever collects them. Only the
names in `FIELDS` may appear, so that no report, key, address or device can, by a later mistake.
Spans have the same fields; they go nowhere unless the operator names a collector.
"""

import json
import sys
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final, Protocol, TextIO, TypeAlias

from rase.clock import SystemClock

__all__ = ["BOUNDS_S", "FIELDS", "Durations", "Ending", "Span", "Telemetry", "Tracer"]

BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""The upper ends in seconds between which durations are counted."""

FIELDS: Final = frozenset(
    {
        "attempt",
        "batches",
        "campaign",
        "count",
        "error",
        "host",
        "key_id",
        "method",
        "n",
        "part",
        "port",
        "problem",
        "retry_s",
        "role",
        "round",
        "route",
        "state",
        "status",
        "version",
    }
)


Ending: TypeAlias = Callable[[Mapping[str, str | float], str | None], None]
"""Ends a span, with its fields and the kind of error that ended it, if one did."""


class Tracer(Protocol):
    """Take the spans of a server somewhere."""

    def begin(self, name: str) -> Ending:
        """Begin a span and return what ends it; a span that is never ended is never sent."""
        ...


class Span:
    """What is reported of one piece of work when it ends.

    Args:
        fields: What is known at its beginning; each one of `FIELDS`.
    """

    __slots__ = ("fields", "is_forgotten")

    def __init__(self, fields: Mapping[str, str | float]) -> None:
        self.fields = _check_fields(fields)
        self.is_forgotten = False

    def add_fields(self, **fields: str | float) -> None:
        """Add what is known by now.

        Raises:
            ValueError: If a field is not one of `FIELDS`.
        """
        self.fields |= _check_fields(fields)

    def forget(self) -> None:
        """Leave this one out: there was nothing to do."""
        self.is_forgotten = True


class Durations:
    """How long pieces of work took: how many at most each of `BOUNDS_S`, and all together.

    Args:
        counts: For each bound, and for no bound, how many lay below it and above the one before.
        total_s: The sum of all.
    """

    __slots__ = ("counts", "total_s")

    def __init__(self, counts: Iterable[int] = (), total_s: float = 0.0) -> None:
        self.counts = list(counts) or [0] * (len(BOUNDS_S) + 1)
        self.total_s = total_s

    def add(self, seconds: float) -> None:
        """Count one more."""
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.total_s += seconds


class Telemetry:
    """Count what happens, write log lines and time pieces of work.

    Args:
        role: The server's name, at the start of its counters and lines.
        stream: Where lines go; stderr if None.

    Example:
        >>> telemetry = Telemetry("shuffler", stream=sys.stdout)
        >>> telemetry.event("round_released", round=7, n=64, method="uniform")
        shuffler round_released round=7 n=64 method=uniform
        >>> telemetry.count("reports_stored", 64)
        >>> telemetry.counters()
        {'rase_shuffler_reports_stored_total': 64}
    """

    def __init__(self, role: str, *, stream: TextIO | None = None) -> None:
        self.role = role
        self.tracer: Tracer | None = None
        self._stream = stream
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._durations: dict[str, Durations] = {}
        self._clock = SystemClock()

    def event(self, name: str, **fields: str | float) -> None:
        """Write one line, if it can be written.

        Raises:
            ValueError: If a field is not one of `FIELDS`.
        """
        checked = _check_fields(fields)
        words = [
            self.role,
            name,
            *(f"{key}={_format_value(value)}" for key, value in checked.items()),
        ]
        # The log may be on the disk that is full; no server fails for want of a line.
        with suppress(OSError):
            print(*words, file=self._stream or sys.stderr, flush=True)

    @contextmanager
    def span(self, name: str, **fields: str | float) -> Iterator[Span]:
        """Time a piece of work, for the metrics, and for the collector of traces if there is one.

        Of an error only its kind is logged: its message may name files or hold what was sent.

        Raises:
            ValueError: If a field is not one of `FIELDS`.
        """
        span, begin_s = Span(fields), self._clock.monotonic_s()
        end = None if self.tracer is None else self.tracer.begin(name)
        error = None
        try:
            yield span
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            if not span.is_forgotten:
                with self._lock:
                    timed = self._durations.setdefault(name, Durations())
                    timed.add(self._clock.monotonic_s() - begin_s)
                if end is not None:
                    end(span.fields, error)

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter; ``name`` is in the plural, without prefix or suffix."""
        with self._lock:
            self._counts[f"rase_{self.role}_{name}_total"] += amount

    def counters(self) -> Mapping[str, int]:
        """Return all counters by their Prometheus names."""
        with self._lock:
            return dict(sorted(self._counts.items()))

    def durations(self) -> Mapping[str, Durations]:
        """Return how long pieces of work took, by the name of the span."""
        with self._lock:
            return {
                name: Durations(one.counts, one.total_s) for name, one in self._durations.items()
            }


def _check_fields(fields: Mapping[str, str | float]) -> dict[str, str | float]:
    unknown = sorted(set(fields) - FIELDS)
    if unknown:
        raise ValueError(f"fields must be among those that reveal nothing, got {unknown}.")
    return dict(fields)


def _format_value(value: str | float) -> str:
    text = str(value)
    # A text with a blank or line break in it must not look like another field or line.
    return text if text.isprintable() and " " not in text and text else json.dumps(text)
