"""What a server says about itself: counters, log lines, spans, never a value or an identity.

Lines go to stderr as ``event key=value …``; the time is added by whoever collects them. Only the
names in `FIELDS` may appear, so that no report, key, address or device can, by a later mistake.
Spans have the same fields; they go nowhere unless the operator names a collector.
"""

import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final, Protocol, TextIO, TypeAlias

__all__ = ["FIELDS", "Ending", "Span", "Telemetry", "Tracer"]

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
        """Time a piece of work, for the collector of traces if there is one.

        Of an error only its kind is logged: its message may name files or hold what was sent.

        Raises:
            ValueError: If a field is not one of `FIELDS`.
        """
        span = Span(fields)
        if self.tracer is None:
            yield span
            return
        end, error = self.tracer.begin(name), None
        try:
            yield span
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            if not span.is_forgotten:
                end(span.fields, error)

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter; ``name`` is in the plural, without prefix or suffix."""
        with self._lock:
            self._counts[f"rase_{self.role}_{name}_total"] += amount

    def counters(self) -> Mapping[str, int]:
        """Return all counters by their Prometheus names."""
        with self._lock:
            return dict(sorted(self._counts.items()))


def _check_fields(fields: Mapping[str, str | float]) -> dict[str, str | float]:
    unknown = sorted(set(fields) - FIELDS)
    if unknown:
        raise ValueError(f"fields must be among those that reveal nothing, got {unknown}.")
    return dict(fields)


def _format_value(value: str | float) -> str:
    text = str(value)
    # A text with a blank or line break in it must not look like another field or line.
    return text if text.isprintable() and " " not in text and text else json.dumps(text)
