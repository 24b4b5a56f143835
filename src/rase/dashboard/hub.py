"""One live stream for all pages of a token: streams are counted, and pages are many."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Final

from rase.subscriber.answers import FusionRefused, FusionUnreachable

__all__ = ["Hub"]

# A reader that is this far behind misses events; a page asks for everything new at the next one.
_MOST_WAITING: Final = 16


@dataclass(slots=True, eq=False)
class _Line:
    """One stream under way, and who listens to it."""

    readers: set["asyncio.Queue[bytes | None]"] = field(default_factory=set)
    newest: bytes = b""
    task: "asyncio.Task[None] | None" = None


class Hub:
    """Hand the events of one stream to many readers.

    A reader that comes later is told the newest event first, as if it had opened the stream.
    """

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}

    async def listen(
        self, key: str, source: Callable[[], AsyncIterator[bytes]]
    ) -> AsyncGenerator[bytes, None]:
        """Yield whole events until the stream ends; it is opened for the first reader alone.

        Args:
            key: Readers with the same key share a stream.
            source: Opens the stream.
        """
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line()
            line.task = asyncio.create_task(self._carry(key, line, source))
        waiting: asyncio.Queue[bytes | None] = asyncio.Queue()
        line.readers.add(waiting)
        if line.newest:
            waiting.put_nowait(line.newest)
        try:
            while (event := await waiting.get()) is not None:
                yield event
        finally:
            line.readers.discard(waiting)
            if not line.readers and line.task is not None:
                line.task.cancel()
                self._forget(key, line)

    async def _carry(
        self, key: str, line: _Line, source: Callable[[], AsyncIterator[bytes]]
    ) -> None:
        rest = b""
        try:
            async for piece in source():
                *events, rest = (rest + piece).split(b"\n\n")
                for event in events:
                    _tell(line, event + b"\n\n")
        except (FusionRefused, FusionUnreachable):
            # The reader's page asks again, and is told what is wrong.
            return
        finally:
            self._forget(key, line)
            for waiting in line.readers:
                waiting.put_nowait(None)

    def _forget(self, key: str, line: _Line) -> None:
        # Another line may have been opened under the same key meanwhile.
        if self._lines.get(key) is line:
            del self._lines[key]


def _tell(line: _Line, event: bytes) -> None:
    if b"data:" in event:
        line.newest = event
    for waiting in line.readers:
        if waiting.qsize() < _MOST_WAITING:
            waiting.put_nowait(event)
