"""A server's certificate that ends in the middle of a round costs time, and no report."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from tests.shuffler.certificates import Authority

from rase.transport.http import ClientTls, HttpTransport

HOUR = 3600


class Server(HTTPServer):
    """Take reports over TLS, with a certificate that can be exchanged."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: list[bytes] = []
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that trusts no certificate hangs up."""


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def setup(self) -> None:
        # Here and not at accepting, so that a failed handshake is no failed server.
        self.request = self.server.context.wrap_socket(self.request, server_side=True)
        super().setup()

    def finish(self) -> None:
        super().finish()
        self.request.close()

    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""


@contextmanager
def serving() -> Iterator[Server]:
    """Run a server until the block ends."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_an_expired_certificate_is_waited_out(world: Any, tmp_path: Path) -> None:
    """Nothing is sent while it is expired; renewed in the same round, the same report is."""
    authority = Authority(tmp_path, "ca")
    valid, expired = authority.issue("valid"), authority.issue("expired", days=-1)
    agent = world.agent()
    world.source.always = 10.0
    with serving() as server:
        url = f"https://127.0.0.1:{server.server_port}"
        agent._outbox._transport = HttpTransport(url, tls=ClientTls(authority.file))
        server.context.load_cert_chain(*valid)
        world.run(agent, HOUR - 1)
        before = len(server.bodies)
        assert before == len(world.notes.of("sent"))
        server.context.load_cert_chain(*expired)
        world.run(agent, 200)
        assert len(server.bodies) == before
        assert world.notes.of("unreachable")
        assert len(agent.outbox) == 1
        server.context.load_cert_chain(*valid)
        world.run(agent, 390)
        assert len(server.bodies) == before + 1
        assert len(agent.outbox) == 0
    assert world.notes.of("dropped") == []
    assert world.ledgers[0].status(int(world.clock.now_s())).total_spent == 1.0
