"""A load of HTTP requests from a process of its own: each connection sends one, waits, sends on."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from types import TracebackType

__all__ = ["Load", "Sent", "request"]


@dataclass(frozen=True, slots=True)
class Sent:
    """Say how long a load took by the clock on the wall, and how it was answered."""

    wall_s: float
    statuses: Counter[int]


class Load:
    """A process that sends; its time is not the server's."""

    def __init__(self) -> None:
        self._process = ProcessPoolExecutor(1, mp_context=get_context("spawn"))

    def send(self, ports: Sequence[int], requests: Sequence[bytes], *, connections: int) -> Sent:
        """Send all requests over so many connections, to each server in turn; wait for answers."""
        return self._process.submit(_send, list(ports), list(requests), connections).result()

    def steady(
        self, ports: Sequence[int], requests: Sequence[bytes], *, a_second: float
    ) -> list[float]:
        """Send so many requests a second, whatever the answers take; return how long each took.

        A request that has to wait for a free connection waits on the server's account.
        """
        return self._process.submit(_steady, list(ports), list(requests), a_second).result()

    def __enter__(self) -> "Load":
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


def request(
    path: str, authorization: str, *, method: str = "POST", body: bytes = b"", media_type: str = ""
) -> bytes:
    """Return the bytes of one request."""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {authorization}\r\n"
        f"Content-Type: {media_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class _Sender(asyncio.Protocol):
    """Send the next request when the last is answered, until none waits."""

    def __init__(self, waiting: deque[bytes], statuses: Counter[int]) -> None:
        self._waiting = waiting
        self._statuses = statuses
        self._answer = b""
        self.is_done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._next()

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, end, body = self._answer.partition(b"\r\n\r\n")
        if not end or len(body) < _length(head):
            return
        self._answer = b""
        self._statuses[int(head[9:12])] += 1
        self._next()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.is_done.done():
            self.is_done.set_exception(error or ConnectionError("the server hung up."))

    def _next(self) -> None:
        if self._waiting:
            self._transport.write(self._waiting.popleft())  # type: ignore[attr-defined]
        else:
            self.is_done.set_result(None)
            self._transport.close()


def _length(head: bytes) -> int:
    after = head.lower().partition(b"content-length:")[2]
    return int(after.partition(b"\r\n")[0])


def _send(ports: list[int], requests: list[bytes], connections: int) -> Sent:
    async def send() -> Sent:
        loop = asyncio.get_running_loop()
        waiting, statuses = deque(requests), Counter[int]()
        start = time.perf_counter()
        made = [
            await loop.create_connection(
                lambda: _Sender(waiting, statuses), "127.0.0.1", ports[number % len(ports)]
            )
            for number in range(connections)
        ]
        for _, sender in made:
            await sender.is_done
        return Sent(time.perf_counter() - start, statuses)

    return asyncio.run(send())


_CONNECTIONS = 64


def _steady(ports: list[int], requests: list[bytes], a_second: float) -> list[float]:
    async def send() -> list[float]:
        free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        for number in range(_CONNECTIONS):
            port = ports[number % len(ports)]
            free.put_nowait(await asyncio.open_connection("127.0.0.1", port))
        start = time.perf_counter() + 0.1

        async def one(place: int, data: bytes) -> float:
            due = start + place / a_second
            await asyncio.sleep(due - time.perf_counter())
            reader, writer = await free.get()
            writer.write(data)
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(_length(head))
            free.put_nowait((reader, writer))
            if head[9:12] != b"201":
                raise RuntimeError(f"the server answered {head[9:12].decode()}.")
            return time.perf_counter() - due

        took = await asyncio.gather(*(one(place, data) for place, data in enumerate(requests)))
        while not free.empty():
            free.get_nowait()[1].close()
        return list(took)

    return asyncio.run(send())
