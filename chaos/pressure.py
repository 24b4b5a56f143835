"""A bounded load from a process of its own: so many requests a second, whatever answers take."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from types import TracebackType
from typing import Final

__all__ = ["Pressed", "Pressure"]

_STEP_S: Final = 0.002
_GIVE_UP_S: Final = 10.0


@dataclass(slots=True)
class Pressed:
    """Tell how requests were answered.

    Args:
        seconds: From the first request to the last answer.
        statuses: Answers by status.
        took_s: How long each answer took, from the moment at which its request was due.
        waited_s: The same from the moment at which it was sent.
        without_retry: Refusals (429, 503) that did not say when to try again.
        behind: How many were never sent, as all connections were busy for ten seconds.
    """

    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    took_s: list[float] = field(default_factory=list)
    waited_s: list[float] = field(default_factory=list)
    without_retry: int = 0
    behind: int = 0

    def quantile_s(self, share: float) -> float:
        """Return the time within which a share of requests was answered."""
        ordered = sorted(self.took_s)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


class Pressure:
    """A process that sends; its time is not the server's."""

    def __init__(self) -> None:
        self._process = ProcessPoolExecutor(1, mp_context=get_context("spawn"))

    def press(
        self, port: int, requests: Sequence[bytes], *, a_second: float, connections: int
    ) -> Pressed:
        """Send so many requests a second over at most so many connections; wait for answers.

        A request that has to wait for a free connection waits on the server's account.
        """
        job = self._process.submit(_press, port, list(requests), a_second, connections)
        return job.result()

    def __enter__(self) -> "Pressure":
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the process."""
        self._process.shutdown()


class _Connection(asyncio.Protocol):
    """Send one request at a time, and note how it was answered."""

    def __init__(self, free: "deque[_Connection]", pressed: Pressed) -> None:
        self._free = free
        self._pressed = pressed
        self._answer = b""
        self._due_s = self._sent_s = 0.0
        self.is_busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._free.append(self)

    def send(self, data: bytes, due_s: float) -> None:
        self._due_s, self._sent_s, self.is_busy = due_s, time.perf_counter(), True
        self._transport.write(data)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, end, body = self._answer.partition(b"\r\n\r\n")
        lower = head.lower()
        length = int(lower.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        if not end or len(body) < length:
            return
        self._answer = b""
        status = int(head[9:12])
        self._pressed.statuses[status] += 1
        now_s = time.perf_counter()
        self._pressed.took_s.append(now_s - self._due_s)
        self._pressed.waited_s.append(now_s - self._sent_s)
        if status in (429, 503) and b"retry-after:" not in lower:
            self._pressed.without_retry += 1
        self.is_busy = False
        self._free.append(self)

    def connection_lost(self, error: Exception | None) -> None:
        if self.is_busy:
            self._pressed.statuses[0] += 1
            self.is_busy = False

    def close(self) -> None:
        self._transport.close()


def _press(port: int, requests: list[bytes], a_second: float, connections: int) -> Pressed:
    async def press() -> Pressed:
        loop = asyncio.get_running_loop()
        pressed, free = Pressed(), deque[_Connection]()
        made = [
            (await loop.create_connection(lambda: _Connection(free, pressed), "127.0.0.1", port))[1]
            for _ in range(connections)
        ]
        begin = time.perf_counter() + 0.05
        sent = 0
        while sent < len(requests):
            now = time.perf_counter()
            due = min(int((now - begin) * a_second), len(requests))
            while sent < due and free:
                free.popleft().send(requests[sent], begin + sent / a_second)
                sent += 1
            while sent < due and now - (begin + sent / a_second) > _GIVE_UP_S:
                pressed.behind += 1
                sent += 1
            await asyncio.sleep(_STEP_S)
        end = time.perf_counter() + _GIVE_UP_S
        while any(one.is_busy for one in made) and time.perf_counter() < end:
            await asyncio.sleep(_STEP_S)
        pressed.seconds = time.perf_counter() - begin
        pressed.behind += sum(one.is_busy for one in made)
        for one in made:
            one.is_busy = False
            one.close()
        return pressed

    return asyncio.run(press())
