"""How long tests wait for what must happen: so long that only something that hangs exceeds it.

No test asserts how fast anything is. Where it waits for a process, a thread or a socket it waits
for a condition, and `PATIENCE_S` is only the time after which it gives up. Where time must pass in
the test's own loop, `turn_on` turns the loop's clock.
"""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from rase.clock import SystemClock

__all__ = ["PATIENCE_S", "turn_on", "until"]

PATIENCE_S: Final = 300
# Soon enough for what happens at once, seldom enough to leave the processor to slow programs.
_FIRST_PAUSE_S: Final = 0.005
_LAST_PAUSE_S: Final = 0.1


def until(is_so: Callable[[], bool], *, logs: Path | None = None) -> None:
    """Return once something holds; fail when the patience ends.

    Args:
        is_so: Asked again and again.
        logs: A folder of log files that a failure shows.
    """
    clock, never = SystemClock(), threading.Event()
    end_s = clock.monotonic_s() + PATIENCE_S
    pause_s = _FIRST_PAUSE_S
    while not is_so():
        if clock.monotonic_s() > end_s:
            found = sorted(logs.glob("*.log")) if logs else []
            texts = [f"{path.name}:\n{path.read_text()}" for path in found]
            pytest.fail("\n".join([f"still not so after {PATIENCE_S:g} s.", *texts]))
        never.wait(pause_s)
        pause_s = min(1.2 * pause_s, _LAST_PAUSE_S)


def turn_on(seconds: float) -> None:
    """Let time pass in the running loop, for its timers and for all who ask it for the time."""
    loop = asyncio.get_running_loop()
    early = loop.time
    loop.time = lambda: early() + seconds  # type: ignore[method-assign]
