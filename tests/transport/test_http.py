"""HTTP by the standard library, against a real server."""

import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from benchmarks.loading.ports import held_port
from tests.patience import PATIENCE_S

from rase.errors import ConfigurationError
from rase.transport.http import MAX_ANSWER_BYTES, ClientTls, HttpTransport
from rase.transport.interface import Unreachable
from rase.wire.frames import authorization_of


class Server(HTTPServer):
    """Answer as a test wishes, and remember what came."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.body, self.headers = 200, b"answer", {"ETag": '"7"'}
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self.server.seen.append(
            (self.command, self.path, dict(self.headers), self.rfile.read(length))
        )
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    do_POST = do_GET  # noqa: N815 - the name that the base class looks for

    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    """A server on this machine."""
    made = Server()
    thread = threading.Thread(target=made.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def test_a_document_is_asked_for_with_its_tag(server: Server) -> None:
    """The answer has status, body and tag; the known tag is sent along."""
    answer = HttpTransport(server.url + "/root/").get("/v1/keyset", etag='"6"')
    assert (answer.status, answer.body, answer.etag) == (200, b"answer", '"7"')
    method, path, headers, _ = server.seen[0]
    assert (method, path, headers["If-None-Match"]) == ("GET", "/root/v1/keyset", '"6"')
    assert headers["Connection"] == "close"


def test_a_request_carries_a_tag_and_no_secret(server: Server) -> None:
    """Exactly the bytes arrive, with their type and a tag; the secret stays here."""
    server.status, server.headers = 429, {"Retry-After": "17"}
    transport = HttpTransport(server.url)
    answer = transport.post("/v1/reports", b"\x00\xff", content_type="x/y", credential="a1.tok")
    assert (answer.status, answer.retry_after_s, answer.etag) == (429, 17.0, None)
    _, _, headers, body = server.seen[0]
    assert body == b"\x00\xff"
    assert headers["Content-Type"] == "x/y"
    assert headers["Authorization"] == authorization_of(b"\x00\xff", "a1.tok")
    assert "tok" not in str(headers)
    transport.post("/v1/enrolments", b"{}", content_type="application/json")
    assert "Authorization" not in server.seen[1][2]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("Wed, 21 Oct 2026 07:28:00 GMT", None), ("-3", None), ("1000000", 3600.0)],
)
def test_odd_retry_after_is_bounded(server: Server, text: str, seconds: float | None) -> None:
    """Dates and nonsense count as none, very long times as an hour."""
    server.headers = {"Retry-After": text}
    assert HttpTransport(server.url).get("/").retry_after_s == seconds


def test_a_server_that_does_not_answer_is_unreachable(server: Server) -> None:
    """A closed port, silence and nonsense are one kind of failure, with exit code 4."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(Unreachable, match="does not answer: ") as caught:
            HttpTransport(f"http://127.0.0.1:{port}", timeout_s=0.05).get("/")
        assert caught.value.exit_code == 4
    with pytest.raises(Unreachable, match="Connection refused"):
        HttpTransport(f"http://127.0.0.1:{held_port()}", timeout_s=PATIENCE_S).get("/")


def test_nonsense_is_unreachable() -> None:
    """An answer that is no HTTP is told by its kind."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def babble() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"what?\r\n\r\n")

        thread = threading.Thread(target=babble)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(Unreachable, match="NotHttp"):
            HttpTransport(url, timeout_s=PATIENCE_S).get("/")
        thread.join()


def test_a_kept_connection_that_ends_is_replaced() -> None:
    """Closed while idle, closed at the moment of the request, or too old: nobody notices."""
    asked: list[bytes] = []
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"
    is_closed = threading.Event()

    def serve(listener: socket.socket) -> None:
        for number in range(4):
            connection, _ = listener.accept()
            with connection:
                asked.append(connection.recv(4096))
                connection.sendall(answer + str(number).encode())
                if number == 1:
                    # The next request comes, and no answer to it.
                    connection.recv(4096)
            is_closed.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        transport = HttpTransport(url, timeout_s=PATIENCE_S, kept_s=PATIENCE_S)
        assert transport.get("/").body == b"0"
        is_closed.wait(PATIENCE_S)
        assert transport.get("/").body == b"1"
        assert transport.post("/", b"x", content_type="x/y").body == b"2"
        transport._kept[:] = [one._replace(until_s=0.0) for one in transport._kept]
        assert transport.get("/").body == b"3"
        thread.join()
    assert len(asked) == 4


def test_a_kept_connection_that_hangs_is_no_reason_to_wait_twice() -> None:
    """Silence over a kept connection is silence, and the connection is not kept for longer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        transport = HttpTransport(url, timeout_s=PATIENCE_S, kept_s=PATIENCE_S)
        thread = threading.Thread(target=transport.get, args=("/",))
        thread.start()
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 304 Not Modified\r\n\r\n")
            thread.join()
            transport._kept[0].connection.settimeout(0.05)
            with pytest.raises(Unreachable, match="TimeoutError"):
                transport.get("/")
        assert transport._kept == []


def test_an_endless_answer_is_refused(server: Server) -> None:
    """No more than a megabyte is read."""
    server.body = bytes(MAX_ANSWER_BYTES + 1)
    with pytest.raises(Unreachable, match="answers more than"):
        HttpTransport(server.url).get("/")


@pytest.mark.parametrize(
    "url", ["", "meter", "ftp://x", "http://", "http://[x", "https://x?y", "https://x:port"]
)
def test_addresses_must_be_such(url: str) -> None:
    """What is no address of http or https is a mistake in the settings."""
    with pytest.raises(ConfigurationError, match=r"url must (be an address|have neither query)"):
        HttpTransport(url)


@pytest.mark.parametrize(
    "url",
    ["https://me:hush@x", "ftp://me:hush@x", "https://me:hush@x:port"],
)
def test_an_address_with_a_password_is_refused_and_not_quoted(url: str) -> None:
    """Addresses are told in messages and journals."""
    with pytest.raises(ConfigurationError, match="must not hold a user or password") as refused:
        HttpTransport(url)
    assert "hush" not in str(refused.value)


def test_what_no_header_can_hold_is_refused_before_it_is_sent(server: Server) -> None:
    """Letters beyond ASCII are mistakes of the settings; of a server's ETag, none at all."""
    for url in ("https://x.example/küche", "https://x.example/a b"):
        with pytest.raises(ConfigurationError, match="a path of plain ASCII"):
            HttpTransport(url)
    assert HttpTransport("https://küche.example")._authority == "xn--kche-0ra.example"
    with pytest.raises(ConfigurationError, match="token must be printable ASCII"):
        HttpTransport("https://x.example", bearer="schlüssel")
    server.headers = {"ETag": "\xfc"}
    assert HttpTransport(server.url).get("/").etag is None


def test_plain_http_is_for_this_machine_only() -> None:
    """Reports never travel in the clear; meters in the home may."""
    with pytest.raises(ConfigurationError, match="must begin with https"):
        HttpTransport("http://192.168.1.20")
    HttpTransport("http://192.168.1.20", insecure_http=True)
    HttpTransport("http://localhost:8000")


def test_tls_is_checked_against_the_pinned_authority(
    server: Server, tmp_path: Path, authority: tuple[Path, Path]
) -> None:
    """With the right authority the answer comes; with the system's it does not."""
    certificate, key = authority
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    url = f"https://localhost:{server.server_port}"
    assert HttpTransport(url, tls=ClientTls(certificate)).get("/").body == b"answer"
    with pytest.raises(Unreachable, match=r"localhost does not answer"):
        HttpTransport(url).get("/")
    with pytest.raises(ConfigurationError, match="tls_ca_file must be a file of certificates"):
        HttpTransport(url, tls=ClientTls(tmp_path / "none.pem"))
    (tmp_path / "bad.pem").write_text("nothing")
    with pytest.raises(ConfigurationError, match="tls_ca_file must be a file of certificates"):
        HttpTransport(url, tls=ClientTls(tmp_path / "bad.pem"))


@pytest.fixture
def authority(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for localhost that is its own authority, and its key."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    begin = datetime(2020, 1, 1, tzinfo=UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=36_500))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = tmp_path / "ca.pem", tmp_path / "ca.key"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files
