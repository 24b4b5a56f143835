"""One live stream, and one answer, for all pages of a token: both are counted, pages are many."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from rase.subscriber.answers import FusionRefused, FusionUnreachable

__all__ = ["Hub"]

# A reader that is this far behind misses events; a page asks for everything new at the next one.
_MOST_WAITING: Final = 16
# How long an answer stands for others while no event comes: alerts say what is late.
_FRESH_S: Final = 10.0
_Answer = TypeVar("_Answer")


@dataclass(slots=True, eq=False)
class _Line:
    """One stream under way, and who listens to it."""

    readers: set["asyncio.Queue[bytes | None]"] = field(default_factory=set)
    newest: bytes = b""
    task: "asyncio.Task[None] | None" = None
    answers: "dict[str, tuple[float, asyncio.Future[Any]]]" = field(default_factory=dict)


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

    async def shared(
        self, key: str, question: str, ask: Callable[[], Awaitable[_Answer]]
    ) -> _Answer:
        """Ask once for all readers of a stream, until its next event or for some seconds.

        Args:
            key: The stream; without a reader of it everybody asks anew.
            question: Tells questions of one stream apart.
            ask: Asks; an answer that fails is not kept.
        """
        line = self._lines.get(key)
        if line is None:
            return await ask()
        now_s = asyncio.get_running_loop().time()
        asked_s, answer = line.answers.get(question, (0.0, None))
        if answer is None or now_s - asked_s > _FRESH_S:
            answer = asyncio.ensure_future(ask())
            line.answers[question] = now_s, answer
        try:
            # Whoever asked first may leave; the others still wait for the answer.
            found: _Answer = await asyncio.shield(answer)
        except Exception:
            if line.answers.get(question, (0.0, None))[1] is answer:
                del line.answers[question]
            raise
        return found

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
        line.answers = {}
    for waiting in line.readers:
        if waiting.qsize() < _MOST_WAITING:
            waiting.put_nowait(event)
