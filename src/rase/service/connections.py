"""Limits of connections in the server itself: how many, how long for headers and bodies, how large.

uvicorn bounds none of these. One timer looks at all connections; a request costs no timer of its
own. Addresses are counted while their connections are open, and kept nowhere.
"""

import asyncio
import json
import resource
from collections import Counter
from dataclasses import dataclass
from functools import partial
from heapq import nlargest
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, Final

from pydantic import Field
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from rase.service.settings import Settings
from rase.service.telemetry import Telemetry
from rase.wire.problems import MEDIA_TYPE

__all__ = ["ConnectionGuard", "ConnectionSettings", "guarded_protocol", "network_of"]

# What a server opens besides connections: database, listener, log, processes.
_OTHER_FILES: Final = 64
_LOOKS: Final = 4
_BODY_BYTES_PER_S: Final = 1 << 16
# The most bytes that may frame one byte of a chunked body: whoever sends them singly needs six.
_FRAMING: Final = 16
_RETRY_S: Final = 5
# When a server is full, a newcomer keeps its place this long, and this share of all closes at once:
# looking for the oldest then costs little for each connection.
_KEEPS_PLACE_S: Final = 1.0
_GIVES_WAY: Final = 16
_HEADERS, _BODY, _SERVING = range(3)
_END: Final = b"\r\n\r\n"
# Called by name: every request passes here, and super() costs more than what is added.
_BASE: Final = HttpToolsProtocol


class ConnectionSettings(Settings):
    """What one server takes from the network.

    Args:
        max_connections: The most connections at once; never more than the process may open files.
            When there are as many, those that the server has waited for longest give way.
        max_connections_per_address: The most of one address (of a network of 64 bits for IPv6);
            this machine's own are not bounded by it, since a proxy speaks for everybody.
        max_header_bytes: The most bytes of a request's first line and headers.
        header_s: How many seconds a connection may take to send them.
        body_s: How many seconds a body may take, and one more for each 64 KiB that arrived.
        idle_s: How many seconds a connection stays open without a request; devices keep theirs for
            a minute.
    """

    max_connections: int = Field(default=8192, ge=1)
    max_connections_per_address: int = Field(default=256, ge=1)
    max_header_bytes: int = Field(default=16384, ge=1024)
    header_s: float = Field(default=10.0, gt=0)
    body_s: float = Field(default=30.0, gt=0)
    idle_s: int = Field(default=75, ge=1)


@dataclass(frozen=True, slots=True)
class _Refusal:
    """An answer that is given below the app, before the connection is closed."""

    status: int
    detail: str


_FULL: Final = _Refusal(503, "This server has as many connections as it takes.")
_TOO_MANY: Final = _Refusal(429, "This address has as many connections as one may have.")
_TOO_LARGE: Final = _Refusal(431, "The headers are larger than this server takes.")
_TOO_SLOW: Final = _Refusal(408, "The request took longer than this server waits.")


class ConnectionGuard:
    """Count the connections of one server and close those that take too long.

    Args:
        limits: What the operator decided.
        telemetry: Counts what was refused; never an address.
    """

    def __init__(self, limits: ConnectionSettings, telemetry: Telemetry) -> None:
        self.limits = limits
        self._telemetry = telemetry
        # Beyond this the system would accept nothing at all, not even to refuse it.
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = max(1, min(limits.max_connections, files - _OTHER_FILES))
        self._open: set[_GuardedProtocol] = set()
        self._by_network: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None

    def admit(self, connection: "_GuardedProtocol", network: str | None) -> _Refusal | None:
        """Count a new connection; return why it is refused, None if it is not.

        Args:
            connection: The connection.
            network: What it is counted by; None if it is this machine's own.
        """
        if (
            network is not None
            and self._by_network.get(network, 0) >= self.limits.max_connections_per_address
        ):
            self._telemetry.count("connections_refused")
            return _TOO_MANY
        if len(self._open) >= self._most and not self._make_room(connection.loop.time()):
            self._telemetry.count("connections_refused")
            return _FULL
        if network is not None:
            self._by_network[network] += 1
        self._open.add(connection)
        if self._timer is None:
            self._look_again(connection.loop)
        return None

    def _make_room(self, now_s: float) -> bool:
        """Close those that have kept a full server waiting longest; return whether there are any.

        Otherwise whoever holds enough slow connections would keep everybody else out.
        """
        slow = [one for one in self._open if one.waiting_s(now_s) >= _KEEPS_PLACE_S]
        most = max(1, self._most // _GIVES_WAY)
        for connection in nlargest(most, slow, key=lambda one: one.waiting_s(now_s)):
            connection.give_way()
            self._telemetry.count("connections_slow")
        return bool(slow)

    def forget(self, connection: "_GuardedProtocol", network: str | None) -> None:
        """Take a connection that has ended out of the counts."""
        if connection not in self._open:
            return
        self._open.discard(connection)
        if network is not None:
            self._by_network[network] -= 1
            if not self._by_network[network]:
                del self._by_network[network]

    def _look_again(self, loop: asyncio.AbstractEventLoop) -> None:
        pause_s = min(self.limits.header_s, self.limits.body_s) / _LOOKS
        self._timer = loop.call_later(min(pause_s, 1.0), self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now_s = loop.time()
        for connection in tuple(self._open):
            if connection.close_if_slow(now_s):
                self._telemetry.count("connections_slow")
        self._timer = None
        if self._open:
            self._look_again(loop)


def guarded_protocol(limits: ConnectionSettings, telemetry: Telemetry) -> Any:
    """Return what uvicorn makes a connection with (its setting ``http``), with limits.

    Args:
        limits: What the operator decided.
        telemetry: Counts what was refused.
    """
    return partial(_GuardedProtocol, ConnectionGuard(limits, telemetry))


def network_of(host: str) -> str | None:
    """Return what an address is counted by: itself, or its network of 64 bits; None if it is here.

    Example:
        >>> network_of("192.0.2.7"), network_of("2001:db8::1:2"), network_of("127.0.0.1")
        ('192.0.2.7', '2001:db8::', None)
    """
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        # A socket of the file system has no address.
        return None
    if address.version == 6 and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_loopback:
        return None
    if address.version == 4:
        return str(address)
    return str(ip_address(int(address) >> 64 << 64))


class _GuardedProtocol(HttpToolsProtocol):
    """One connection: uvicorn's own, which also notes what it waits for and since when.

    A request that comes in one piece, as a report does, costs next to nothing here: whatever takes
    longer is looked at after the parser has seen it.
    """

    def __init__(self, guard: ConnectionGuard, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._guard = guard
        self._most_bytes = guard.limits.max_header_bytes
        self._network: str | None = None
        self._waits_for = _HEADERS
        self._since_s = 0.0
        # Of the present headers or body: its bytes so far, the last of them, and those delivered.
        self._seen = 0
        self._tail = b""
        self._body_bytes = 0
        self._refusal: _Refusal | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since_s = self.loop.time()
        self._network = network_of(self.client[0]) if self.client else None
        refusal = self._guard.admit(self, self._network)
        if refusal is not None:
            self._refuse(refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        self._guard.forget(self, self._network)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None:
            return
        waited_for, cycle = self._waits_for, self.cycle
        if waited_for == _SERVING:
            # The first byte of the next request, or of an endless run of empty lines.
            self._waits_for = _HEADERS
            self._seen = 0
            self._tail = b""
        if len(data) > self._most_bytes - self._seen and self._is_too_large(data):
            self._refuse(_TOO_LARGE)
            return
        _BASE.data_received(self, data)
        if self._waits_for != _SERVING:
            self._note(data, is_new=waited_for == _SERVING, has_headers=self.cycle is not cycle)

    def _is_too_large(self, data: bytes) -> bool:
        if self._waits_for != _HEADERS:
            return False
        end = (self._tail + data).find(_END)
        return end < 0 or self._seen - len(self._tail) + end > self._most_bytes

    def _note(self, data: bytes, *, is_new: bool, has_headers: bool) -> None:
        """Note how far a request has come that is not whole yet."""
        if has_headers:
            # What else was in this piece may be an earlier request's: counting begins after it.
            self._waits_for, self._since_s = _BODY, self.loop.time()
            self._seen = self._body_bytes = 0
            return
        self._seen += len(data)
        if self._waits_for == _HEADERS:
            self._tail = (self._tail + data)[1 - len(_END) :]
            if is_new:
                self._since_s = self.loop.time()
        elif self._seen > 2 * self._most_bytes + _FRAMING * self._body_bytes:
            # Trailers without end, or chunks that are nothing but framing.
            self._refuse(_TOO_LARGE)

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        _BASE.on_body(self, body)

    def on_message_complete(self) -> None:
        self._waits_for = _SERVING
        _BASE.on_message_complete(self)

    def waiting_s(self, now_s: float) -> float:
        """Return how long the server has waited for a request or its rest; 0 if it does not."""
        if self.flow.read_paused or self.transport.is_closing():
            return 0.0
        if self._waits_for == _SERVING:
            idle = self.timeout_keep_alive_task
            return 0.0 if idle is None else now_s - idle.when() + self.timeout_keep_alive
        return now_s - self._since_s

    def give_way(self) -> None:
        """Leave the place to a newcomer, before the time for headers or body is over."""
        self._guard.forget(self, self._network)
        if self._waits_for == _SERVING:
            # Between two requests: an answer now would be taken for that to the next.
            self.transport.close()
        else:
            self._refuse(_FULL)

    def close_if_slow(self, now_s: float) -> bool:
        """Close the connection if it has kept the server waiting too long; return whether."""
        if self._waits_for == _SERVING or self.transport.is_closing():
            return False
        if self.flow.read_paused:
            # The app is the slow one: what it does not take yet, nobody can send.
            self._since_s = now_s
            return False
        limits = self._guard.limits
        if self._waits_for == _HEADERS:
            patience_s = limits.header_s
        else:
            patience_s = limits.body_s + self._body_bytes / _BODY_BYTES_PER_S
        if now_s - self._since_s < patience_s:
            return False
        self._refuse(_TOO_SLOW)
        return True

    def _refuse(self, refusal: _Refusal) -> None:
        self._refusal = refusal
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            # The app may have begun its answer; nothing may be written into it.
            self.transport.abort()
            return
        title = HTTPStatus(refusal.status).phrase
        document = {"type": "about:blank", "title": title, "status": refusal.status}
        body = json.dumps({**document, "detail": refusal.detail}).encode()
        lines = [
            f"HTTP/1.1 {refusal.status} {title}",
            f"content-type: {MEDIA_TYPE}",
            f"content-length: {len(body)}",
            *([f"retry-after: {_RETRY_S}"] if refusal in (_FULL, _TOO_MANY) else []),
            "connection: close",
        ]
        self.transport.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        self.transport.close()
