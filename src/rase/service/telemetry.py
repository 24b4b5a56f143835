"""What a server says about itself: counters and log lines, never a value or an identity.

Lines go to stderr as ``event key=value …``; the time is added by whoever collects them. Only the
names in `FIELDS` may appear, so that no report, key, address or device can, by a later mistake.
"""

import json
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, TextIO

__all__ = ["FIELDS", "Telemetry"]

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
        "state",
        "status",
        "version",
    }
)


class Telemetry:
    """Count what happens and write log lines.

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
        self._stream = stream
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def event(self, name: str, **fields: str | float) -> None:
        """Write one line, if it can be written.

        Raises:
            ValueError: If a field is not one of `FIELDS`.
        """
        unknown = sorted(set(fields) - FIELDS)
        if unknown:
            raise ValueError(f"fields must be among those that tell nothing, got {unknown}.")
        words = [self.role, name, *(f"{key}={_shown(value)}" for key, value in fields.items())]
        # The log may be on the disk that is full; no server fails for want of a line.
        with suppress(OSError):
            print(*words, file=self._stream or sys.stderr, flush=True)

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter; ``name`` is in the plural, without prefix or suffix."""
        with self._lock:
            self._counts[f"rase_{self.role}_{name}_total"] += amount

    def counters(self) -> Mapping[str, int]:
        """Return all counters by their Prometheus names."""
        with self._lock:
            return dict(sorted(self._counts.items()))


def _shown(value: str | float) -> str:
    text = str(value)
    # A text with a blank or line break in it must not look like another field or line.
    return text if text.isprintable() and " " not in text and text else json.dumps(text)
