"""A way to an ASGI app in the same process, for httpx: answers come piece by piece.

httpx has such a transport, but it hands an answer over only when it is complete; a live stream
never is.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
from starlette.types import ASGIApp, Message

__all__ = ["InsideTransport"]


class InsideTransport(httpx.AsyncBaseTransport):
    """Send requests to an app without a network.

    Args:
        app: The app; it sees requests as if they came from this machine.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Call the app, and return as soon as its answer has begun."""
        body = await request.aread()
        call = _Call(body)
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": request.url.scheme,
            "path": request.url.path,
            "raw_path": request.url.raw_path.split(b"?")[0],
            "query_string": request.url.query,
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "server": (request.url.host, request.url.port or 80),
            "client": ("127.0.0.1", 0),
        }
        call.task = asyncio.create_task(self._run(scope, call))
        try:
            await call.begun.wait()
        except asyncio.CancelledError:
            # Nobody will read the answer; the app must not go on for nothing.
            await call.aclose()
            raise
        if call.status == 0:
            await call.task
            raise httpx.RemoteProtocolError("the app ended without an answer", request=request)
        return httpx.Response(call.status, headers=call.headers, stream=call, request=request)

    async def _run(self, scope: dict[str, Any], call: "_Call") -> None:
        try:
            await self._app(scope, call.receive, call.send)
        except Exception:  # noqa: BLE001 - the app has answered and logged it; a peer sees no more
            call.has_failed = True
        finally:
            call.pieces.put_nowait(None)
            call.begun.set()


class _Call(httpx.AsyncByteStream):
    """One request under way: what the app receives and sends."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self._gone = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self.begun = asyncio.Event()
        self.pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.has_failed = False

    async def receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = list(message["headers"])
            self.begun.set()
        elif message["type"] == "http.response.body" and message.get("body"):
            self.pieces.put_nowait(message["body"])

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await self.pieces.get()) is not None:
            yield piece
        if self.has_failed:
            raise httpx.ReadError("the app failed in the middle of its answer")

    async def aclose(self) -> None:
        self._gone.set()
        if self.task is not None and not self.task.done():
            self.task.cancel()
            await asyncio.wait([self.task])
