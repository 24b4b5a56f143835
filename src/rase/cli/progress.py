"""A progress line on stderr, for work that takes longer than two seconds at a terminal."""

import sys
import time
from types import TracebackType
from typing import Self, TextIO

__all__ = ["Progress"]

_PATIENCE_S = 2.0
_PAUSE_S = 0.1
_WIDTH = 30


class Progress:
    """Draw how far a work has come; draw nothing where nobody looks.

    Args:
        stream: Where to draw; nothing is drawn unless it is a terminal.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._is_seen = self._stream.isatty()
        self._next = time.monotonic() + _PATIENCE_S
        self._is_drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.clear()

    def show(self, what: str, share: float | None = None) -> None:
        """Draw the line anew, if it is time: what is being done, and how much of it is done."""
        if not self._is_seen or time.monotonic() < self._next:
            return
        bar = ""
        if share is not None:
            done = round(_WIDTH * min(share, 1.0))
            bar = f" [{'#' * done}{' ' * (_WIDTH - done)}] {100 * share:3.0f} %"
        self._stream.write(f"\r\x1b[K{what}{bar}")
        self._stream.flush()
        self._is_drawn = True
        self._next = time.monotonic() + _PAUSE_S

    def clear(self) -> None:
        """Take the line away."""
        if self._is_drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._is_drawn = False
