"""Many, slow and oversized connections meet limits in the server itself; others do not."""

import asyncio
import io
import json
import resource
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
import uvicorn
from starlette.types import Message, Receive, Scope, Send
from tests.patience import PATIENCE_S, turn_on

from rase.service import connections
from rase.service.connections import ConnectionSettings, guarded_protocol, network_of
from rase.service.telemetry import Telemetry
from rase.transport.http import HttpTransport

REQUEST = b"POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"


class Echo:
    """An app that answers with the length of what it was sent; it may be held up."""

    def __init__(self) -> None:
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.seen: list[Message] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, then answer."""
        assert scope["type"] == "http"
        await self.may_read.wait()
        size = 0
        while True:
            message = await receive()
            self.seen.append(message)
            size += len(message.get("body", b""))
            if not message.get("more_body", False):
                break
        await self.may_answer.wait()
        body = str(size).encode()
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class Server:
    """A server that runs in the test's own loop."""

    def __init__(self, **limits: Any) -> None:
        self.app = Echo()
        self.telemetry = Telemetry("test", stream=io.StringIO())
        settings = ConnectionSettings(**limits)
        self.config = uvicorn.Config(
            self.app,
            http=guarded_protocol(settings, self.telemetry),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",
            timeout_keep_alive=settings.idle_s,
            timeout_graceful_shutdown=1,
        )
        self.running = uvicorn.Server(self.config)
        self.address: tuple[str, int] = ("127.0.0.1", 0)
        self._writers: list[asyncio.StreamWriter] = []

    def count(self, name: str) -> int:
        """Return a counter."""
        return self.telemetry.counters().get(f"rase_test_{name}_total", 0)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection; it is closed at the end of the test."""
        reader, writer = await asyncio.open_connection(*self.address)
        self._writers.append(writer)
        return reader, writer

    async def until_open(self, count: int) -> None:
        """Return once the server has so many connections."""
        while len(self.running.server_state.connections) < count:
            await asyncio.sleep(0)

    async def hang_up(self) -> None:
        """Close the test's side of all connections."""
        for writer in self._writers:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


def run(server_of: Callable[[], Server], work: Callable[[Server], Awaitable[None]]) -> None:
    """Serve, and let a test talk to the server."""

    async def main() -> None:
        server = server_of()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server.address = listener.getsockname()
            serving = asyncio.create_task(server.running.serve(sockets=[listener]))
            try:
                await work(server)
            finally:
                await server.hang_up()
                server.running.should_exit = True
                await serving

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


def status_of(answer: bytes) -> int:
    """Return the status of an answer; 0 if the connection was closed without one."""
    return int(answer.split()[1]) if answer else 0


def test_slow_headers_are_closed_and_others_are_served() -> None:
    """60 connections that never end their headers are closed; meanwhile requests are answered."""

    async def work(server: Server) -> None:
        slow = [await server.connect() for _ in range(60)]
        for number, (_, writer) in enumerate(slow):
            # Nothing at all, a part of a line, and the half of a header.
            writer.write((b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX-")[number % 3])
        reader, writer = await server.connect()
        for _ in range(3):
            writer.write(REQUEST)
            assert status_of(await reader.readuntil(b"\r\n\r\n3")) == 200
        await server.until_open(61)
        turn_on(31)
        answers = await asyncio.gather(*(reader.read() for reader, _ in slow))
        assert {status_of(answer) for answer in answers} == {408}

    server: list[Server] = []

    def make() -> Server:
        server.append(Server(header_s=30))
        return server[0]

    run(make, work)
    # The ordinary connection may be idle for longer; uvicorn itself then ends it.
    assert server[0].count("connections_slow") == 60


def test_headers_that_trickle_are_slow_however_often_they_come() -> None:
    """A byte now and then does not begin the time again; nor do empty lines after an answer."""

    async def trickle(server: Server, first: bytes, drop: bytes) -> None:
        reader, writer = await server.connect()
        writer.write(first)
        if first.endswith(b"abc"):
            await reader.readuntil(b"\r\n\r\n3")
        reading = asyncio.create_task(reader.read())
        while not reading.done():
            writer.write(drop)
            turn_on(1)
            await asyncio.sleep(0)
        # What was sent after the end may have reset the connection before the answer was read.
        error = reading.exception()
        assert isinstance(error, OSError) or status_of(reading.result()) == 408

    async def work(server: Server) -> None:
        await trickle(server, b"GET / HTTP/1.1\r\n", b"X: y\r\n")
        await trickle(server, REQUEST, b"\r\n")
        assert server.count("connections_slow") == 2

    run(lambda: Server(header_s=30), work)


def test_slow_bodies_are_cut_off() -> None:
    """A body that does not come ends its connection; the app sees that its sender is gone."""

    async def work(server: Server) -> None:
        slow = [await server.connect() for _ in range(20)]
        for _, writer in slow:
            writer.write(REQUEST[:-2])
        while len(server.app.seen) < 20:
            await asyncio.sleep(0)
        turn_on(11)
        answers = await asyncio.gather(
            *(reader.read() for reader, _ in slow), return_exceptions=True
        )
        # Reset or closed, but never answered.
        assert all(isinstance(one, OSError) or one == b"" for one in answers)
        assert server.count("connections_slow") == 20
        while sum(one["type"] == "http.disconnect" for one in server.app.seen) < 20:
            await asyncio.sleep(0)

    run(lambda: Server(body_s=10), work)


def test_a_slow_app_is_not_the_senders_fault() -> None:
    """A large body that the app does not take yet is not slow, however long that lasts."""

    async def work(server: Server) -> None:
        server.app.may_read.clear()
        reader, writer = await server.connect()
        size = 1 << 22
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size)
        writer.write(bytes(size))
        while not any(one.flow.read_paused for one in server.running.server_state.connections):  # type: ignore[union-attr]
            await asyncio.sleep(0)
        # Another connection is closed meanwhile, so time enough has passed.
        other, _ = await server.connect()
        await server.until_open(2)
        turn_on(31)
        assert status_of(await other.read()) == 408
        server.app.may_read.set()
        answer = await reader.readuntil(str(size).encode())
        assert status_of(answer) == 200
        await writer.drain()

    run(lambda: Server(header_s=30, body_s=10), work)


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 5000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 5000,
        b"GET /" + b"y" * 5000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 800,
        REQUEST + b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 5000 + b"\r\n\r\n",
    ],
)
def test_large_headers_are_refused(sent: bytes) -> None:
    """One large header, many small ones, a long address, whole or not: 431 and closed."""

    async def work(server: Server) -> None:
        reader, writer = await server.connect()
        if sent.startswith(REQUEST):
            writer.write(REQUEST)
            await reader.readuntil(b"\r\n\r\n3")
        writer.write(sent.removeprefix(REQUEST))
        answer = await reader.read()
        assert status_of(answer) == 431
        document = json.loads(answer.partition(b"\r\n\r\n")[2])
        assert (document["status"], document["type"]) == (431, "about:blank")

    run(lambda: Server(max_header_bytes=4096), work)


def test_memory_of_headers_is_bounded() -> None:
    """Of headers without end no more is taken than the limit and what one read brings."""
    taken = 0

    async def work(server: Server) -> None:
        nonlocal taken
        reader, writer = await server.connect()
        writer.write(b"GET / HTTP/1.1\r\nX: ")
        reading = asyncio.create_task(reader.read())
        piece = b"y" * 65536
        # Far more than the buffers of both sides of a socket hold.
        while not reading.done() and taken < 1 << 28:
            writer.write(piece)
            taken += len(piece)
            try:
                await writer.drain()
            except ConnectionError:
                break
        writer.close()
        await asyncio.wait([reading])

    run(Server, work)
    assert taken < 1 << 28


def test_trailers_without_end_are_cut_off() -> None:
    """What follows a chunked body, and chunks that are nearly all framing, are bounded as well."""

    async def work(server: Server) -> None:
        head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
        for flood in (b"0\r\nX: " + b"y" * 20_000, b"1;" + b"x" * 20_000):
            reader, writer = await server.connect()
            server.app.seen.clear()
            writer.write(head)
            while not server.app.seen:
                await asyncio.sleep(0)
            writer.write(flood)
            answer = await asyncio.gather(reader.read(), return_exceptions=True)
            assert isinstance(answer[0], OSError) or answer[0] == b""
        reader, writer = await server.connect()
        # Byte by byte is wasteful but allowed.
        writer.write(head + b"1\r\nz\r\n" * 5000 + b"0\r\n\r\n")
        assert status_of(await reader.readuntil(b"5003")) == 200

    run(lambda: Server(max_header_bytes=4096), work)


def test_a_request_behind_a_large_body_is_not_taken_for_headers() -> None:
    """Requests that come in one piece are told apart: the body of one is no header of the next."""

    async def work(server: Server) -> None:
        reader, writer = await server.connect()
        large = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n" + bytes(9000)
        writer.write(large + REQUEST[:20])
        assert status_of(await reader.readuntil(b"9000")) == 200
        writer.write(REQUEST[20:] + large)
        assert status_of(await reader.readuntil(b"\r\n\r\n3")) == 200
        assert status_of(await reader.readuntil(b"\r\n\r\n9000")) == 200

    run(lambda: Server(max_header_bytes=4096), work)


def test_nothing_is_written_into_an_answer() -> None:
    """Where an earlier request of the connection is still served, a refusal only cuts it off."""

    async def work(server: Server) -> None:
        server.app.may_answer.clear()
        reader, writer = await server.connect()
        writer.write(REQUEST)
        while not server.app.seen:
            await asyncio.sleep(0)
        writer.write(b"GET / HTTP/1.1\r\nX: " + b"y" * 5000)
        answer = await asyncio.gather(reader.read(), return_exceptions=True)
        assert isinstance(answer[0], OSError) or answer[0] == b""
        server.app.may_answer.set()

    run(lambda: Server(max_header_bytes=4096), work)


def test_a_slow_answer_is_nobodys_limit() -> None:
    """A request that is whole may be served for as long as it takes, and its connection stays."""

    async def work(server: Server) -> None:
        server.app.may_answer.clear()
        reader, writer = await server.connect()
        writer.write(REQUEST)
        while not server.app.seen:
            await asyncio.sleep(0)
        other, _ = await server.connect()
        await server.until_open(2)
        turn_on(31)
        assert status_of(await other.read()) == 408
        server.app.may_answer.set()
        assert status_of(await reader.readuntil(b"\r\n\r\n3")) == 200

    run(lambda: Server(header_s=30, body_s=10), work)


def test_bad_requests_are_answered_as_before() -> None:
    """What is no HTTP gets the parser's own answer."""

    async def work(server: Server) -> None:
        reader, writer = await server.connect()
        writer.write(b"no request\r\n\r\n")
        assert status_of(await reader.read()) == 400

    run(Server, work)


def test_connections_are_bounded_and_given_back() -> None:
    """One more than may be open is answered 503; once one has ended there is room again."""

    async def work(server: Server) -> None:
        held = [await server.connect() for _ in range(5)]
        for reader, writer in held:
            writer.write(REQUEST)
            await reader.readuntil(b"\r\n\r\n3")
        reader, writer = await server.connect()
        answer = await reader.read()
        assert status_of(answer) == 503
        assert b"retry-after: 5" in answer
        writer.close()
        assert server.count("connections_refused") == 1
        held[0][1].close()
        status = 0
        while status != 200:
            reader, writer = await server.connect()
            writer.write(REQUEST)
            status = status_of(await reader.read(16))
            writer.close()

    run(lambda: Server(max_connections=5), work)


def test_slow_connections_that_fill_the_server_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as many slow ones as there are places, with hours of time: a newcomer is served."""
    monkeypatch.setattr(connections, "_KEEPS_PLACE_S", PATIENCE_S / 2)

    async def work(server: Server) -> None:
        slow = [await server.connect() for _ in range(64)]
        for number, (_, writer) in enumerate(slow):
            # Nothing at all, the half of a header, and a body that does not come.
            writer.write((b"", b"GET / HTTP/1.1\r\nX-", REQUEST[:-2])[number % 3])
        while server.count("connections_refused") < 32 or len(server.app.seen) < 10:
            await asyncio.sleep(0)
        turn_on(PATIENCE_S / 2)
        # Each of these is new to the server, and none is told to come back.
        for _ in range(20):
            reader, writer = await server.connect()
            writer.write(REQUEST)
            assert status_of(await reader.readuntil(b"\r\n\r\n3")) == 200
        assert 2 <= server.count("connections_slow") <= 32
        assert server.count("connections_refused") == 32

    run(lambda: Server(max_connections=32, header_s=3600, body_s=3600), work)


def test_who_came_a_moment_ago_keeps_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A newcomer displaces nobody who has not kept the server waiting for its while."""
    monkeypatch.setattr(connections, "_KEEPS_PLACE_S", PATIENCE_S)

    async def work(server: Server) -> None:
        held = [await server.connect() for _ in range(5)]
        await server.until_open(5)
        reader, _ = await server.connect()
        assert status_of(await reader.read()) == 503
        for reader, writer in held:
            writer.write(REQUEST)
            assert status_of(await reader.readuntil(b"\r\n\r\n3")) == 200
        assert server.count("connections_slow") == 0

    run(lambda: Server(max_connections=5, header_s=3600), work)


def test_idle_connections_give_way_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept connections hold no place against a newcomer, and are closed without an answer."""
    monkeypatch.setattr(connections, "_KEEPS_PLACE_S", PATIENCE_S / 2)

    async def work(server: Server) -> None:
        idle = [await server.connect() for _ in range(5)]
        for reader, writer in idle:
            writer.write(REQUEST)
            assert status_of(await reader.readuntil(b"\r\n\r\n3")) == 200
        reader, _ = await server.connect()
        assert status_of(await reader.read()) == 503
        turn_on(PATIENCE_S / 2)
        for _ in range(3):
            reader, writer = await server.connect()
            writer.write(REQUEST)
            assert status_of(await reader.readuntil(b"\r\n\r\n3")) == 200
        assert server.count("connections_slow") == 3
        while sum(reader.at_eof() for reader, _ in idle) < 3:
            await asyncio.sleep(0)

    run(lambda: Server(max_connections=5, idle_s=3600), work)


def test_a_device_keeps_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten messages of a device take one connection; without keeping they take ten."""
    admitted: list[object] = []
    admit = connections.ConnectionGuard.admit

    def count(guard: Any, connection: Any, network: str | None) -> Any:
        admitted.append(connection)
        return admit(guard, connection, network)

    monkeypatch.setattr(connections.ConnectionGuard, "admit", count)

    async def work(server: Server) -> None:
        url = f"http://127.0.0.1:{server.address[1]}"

        def talk(kept_s: float) -> None:
            transport = HttpTransport(url, timeout_s=PATIENCE_S, kept_s=kept_s)
            for number in range(5):
                sent = transport.post("/v1/reports", bytes(number), content_type="x/y")
                assert sent.body == str(number).encode()
                assert transport.get("/v1/keyset").status == 200

        for kept_s, expected in ((60.0, 1), (0.0, 10)):
            admitted.clear()
            await asyncio.to_thread(talk, kept_s)
            assert len(admitted) == expected

    run(Server, work)


def test_never_more_connections_than_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system allows few open files, the server refuses before it can open none."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (connections._OTHER_FILES + 2, 10_000))

    async def work(server: Server) -> None:
        held = [await server.connect() for _ in range(2)]
        for reader, writer in held:
            writer.write(REQUEST)
            await reader.readuntil(b"\r\n\r\n3")
        reader, writer = await server.connect()
        assert status_of(await reader.read()) == 503

    run(Server, work)


class FromElsewhere(asyncio.Transport):
    """A connection from an address that no test machine has."""

    def __init__(self, host: str) -> None:
        super().__init__({"peername": (host, 1), "sockname": ("192.0.2.1", 80)})
        self.written = b""
        self.is_closed = False

    def write(self, data: Any) -> None:
        """Remember what is answered."""
        self.written += bytes(data)

    def close(self) -> None:
        """Note the end."""
        self.is_closed = True

    def is_closing(self) -> bool:
        """Say whether it has ended."""
        return self.is_closed


def test_one_address_cannot_take_all_connections() -> None:
    """Each has its share, an IPv6 network of 64 bits one together; this machine's proxy has all."""

    async def main() -> None:
        server = Server(max_connections_per_address=2)
        server.config.load()
        state = uvicorn.Server(server.config).server_state

        def connect(host: str) -> tuple[Any, FromElsewhere]:
            make: Any = server.config.http_protocol_class
            protocol = make(config=server.config, server_state=state, app_state={})
            transport = FromElsewhere(host)
            protocol.connection_made(transport)
            return protocol, transport

        first, _ = connect("192.0.2.7")
        connect("192.0.2.7")
        assert status_of(connect("192.0.2.7")[1].written) == 429
        assert connect("192.0.2.8")[1].written == b""
        for last in "12":
            assert connect(f"2001:db8:0:1::{last}")[1].written == b""
        assert status_of(connect("2001:db8:0:1:ffff::")[1].written) == 429
        assert connect("2001:db8:0:2::1")[1].written == b""
        assert all(connect("127.0.0.1")[1].written == b"" for _ in range(5))
        first.connection_lost(None)
        assert connect("192.0.2.7")[1].written == b""

    asyncio.run(main())


def test_addresses_are_forgotten_with_their_connections() -> None:
    """Nothing of an address is kept once its last connection has ended."""

    async def main() -> None:
        server = Server()
        server.config.load()
        state = uvicorn.Server(server.config).server_state
        make: Any = server.config.http_protocol_class
        protocol = make(config=server.config, server_state=state, app_state={})
        protocol.connection_made(FromElsewhere("192.0.2.7"))
        guard = protocol._guard
        assert dict(guard._by_network) == {"192.0.2.7": 1}
        protocol.connection_lost(None)
        assert (dict(guard._by_network), guard._open) == ({}, set())

    asyncio.run(main())


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("::ffff:127.0.0.1", None),
        ("::1", None),
        ("fe80::1%eth0", "fe80::"),
        ("/run/rase.sock", None),
        ("", None),
    ],
)
def test_networks(host: str, network: str | None) -> None:
    """What an address is counted by."""
    assert network_of(host) == network


def test_a_thread_may_serve_as_well() -> None:
    """The guard starts its timer in whatever loop the connection is of."""
    done = threading.Event()

    async def work(server: Server) -> None:
        reader, writer = await server.connect()
        writer.write(REQUEST)
        assert status_of(await reader.readuntil(b"\r\n\r\n3")) == 200
        writer.close()
        done.set()

    thread = threading.Thread(target=run, args=(Server, work))
    thread.start()
    thread.join(PATIENCE_S)
    assert done.is_set()
