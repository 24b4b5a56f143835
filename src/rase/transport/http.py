"""HTTP for devices: TLS, a pinned authority, limits of time and size, ETags; no other library.

A connection may be kept for the next message, so that a device that reports every minute does not
agree on TLS every minute. The standard library's client imports e-mail for HTTP/1.1, which takes as
long as starting an interpreter.
Framing follows RFC 9112 (sections 4 to 7): a length, chunks, or the end of the connection.
Compressions are not asked for, redirections not followed, cookies not kept.
"""

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from rase.address import split_address
from rase.clock import SystemClock
from rase.errors import ConfigurationError
from rase.transport.interface import MAX_RETRY_AFTER_S, Answer, Unreachable
from rase.wire.private_files import is_open_to_others

if TYPE_CHECKING:
    import socket
    import ssl
    from io import BufferedReader

__all__ = [
    "MAX_ANSWER_BYTES",
    "ClientTls",
    "HttpTransport",
    "NoAnswer",
    "NotHttp",
    "Response",
    "exchange",
]

MAX_ANSWER_BYTES: Final = 1 << 20
_PORTS = {"http": 80, "https": 443}
_MUST_BE = "must be a certificate and its private key in PEM, without a password:"


@dataclass(frozen=True, slots=True)
class ClientTls:
    """Say how a device and its server recognise each other below HTTP.

    Args:
        ca_file: The only authority whose certificates are accepted; None for the system's.
        certificate_file: The device's own certificate, where the server asks for one.
        key_file: Its private key, for its owner only; None if it is in ``certificate_file``.
    """

    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None

    def context(self) -> "ssl.SSLContext":
        """Return what a connection needs.

        Raises:
            ConfigurationError: If a file cannot be used, or others can read the private key.
        """
        import ssl

        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:  # an SSLError is one, too
            raise ConfigurationError(
                [f"tls_ca_file must be a file of certificates: {self.ca_file}: {_reason(error)}."]
            ) from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.certificate_file is not None:
            self._add_certificate(context, self.certificate_file)
        return context

    def _add_certificate(self, context: "ssl.SSLContext", certificate_file: Path) -> None:
        private = self.key_file or certificate_file
        try:
            mode = private.stat().st_mode & 0o777
            if is_open_to_others(private, mode):
                raise ConfigurationError(
                    [f"{private} must be for its owner only (chmod 600), got {mode:o}."]
                )
            # An empty password, because a program nobody watches must not ask for one.
            context.load_cert_chain(certificate_file, self.key_file, password="")
        except OSError as error:
            raise ConfigurationError(
                [f"tls_certificate_file and tls_key_file {_MUST_BE} {private}: {_reason(error)}."]
            ) from None


class HttpTransport:
    """Speak to one server, over a connection that is kept for some seconds if that is wanted.

    A kept connection that the server has closed is replaced, and the message sent again: whatever
    is sent here may arrive twice. Proxy variables of the environment are not looked at.

    Args:
        url: The root of the service. Must be https, except on this machine.
        tls: Authority and certificate for https.
        timeout_s: How long to wait for each step of the connection.
        insecure_http: Accept http to any host; for meters in the home, never for reports.
        bearer: A token that every question shows.
        kept_s: For how long an idle connection is kept; 0 for a connection for each message.

    Raises:
        ConfigurationError: If the address or a file of ``tls`` cannot be used.

    Example:
        >>> HttpTransport("http://meters.example")
        Traceback (most recent call last):
        rase.errors.ConfigurationError: url must begin with https:// except on this machine, got
        'http://meters.example'.
    """

    def __init__(
        self,
        url: str,
        *,
        tls: ClientTls | None = None,
        timeout_s: float = 30.0,
        insecure_http: bool = False,
        bearer: str | None = None,
        kept_s: float = 0.0,
    ) -> None:
        try:
            parts = split_address(
                url, plain="http", secure="https", is_plain_anywhere=insecure_http
            )
        except ValueError as error:
            raise ConfigurationError([f"url {error}"]) from None
        if parts.query or parts.fragment:
            raise ConfigurationError([f"url must have neither query nor fragment, got {url!r}."])
        if not _is_plain(parts.path) or " " in parts.path:
            raise ConfigurationError([f"url must have a path of plain ASCII, got {url!r}."])
        if bearer is not None and not _is_plain(bearer):
            raise ConfigurationError(["the token must be printable ASCII; it is not."])
        # As it is sent in a header and looked up: letters beyond ASCII by their other spelling.
        host, port = (parts.hostname or "").encode("idna").decode(), parts.port
        self._host, self._port = host, port or _PORTS[parts.scheme]
        name = f"[{host}]" if ":" in host else host
        self._authority = name if port is None else f"{name}:{port}"
        self._root = parts.path.rstrip("/")
        self._timeout_s = timeout_s
        self._bearer = {} if bearer is None else {"Authorization": f"Bearer {bearer}"}
        self._context = (tls or ClientTls()).context() if parts.scheme == "https" else None
        self._kept_s = kept_s
        self._kept: list[_Kept] = []
        weakref.finalize(self, _close_all, self._kept)

    def get(self, path: str, *, etag: str | None = None) -> Answer:
        """Ask for a document.

        Raises:
            Unreachable: If no answer came.
        """
        known = {} if etag is None else {"If-None-Match": etag}
        return self._ask("GET", path, None, {**self._bearer, **known})

    def post(
        self, path: str, body: bytes, *, content_type: str, credential: str | None = None
    ) -> Answer:
        """Hand over bytes.

        Raises:
            Unreachable: If no answer came; the other side may have got the bytes all the same.
        """
        headers = {"Content-Type": content_type}
        if credential is not None:
            from rase.wire.frames import authorization_of

            headers["Authorization"] = authorization_of(body, credential)
        return self._ask("POST", path, body, headers)

    def _ask(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        fields = {"Host": self._authority, "Accept": "*/*", **headers}
        asked = _Request(method, self._root + path, fields, body)
        try:
            response = self._ask_kept(asked)
            if response is None:
                response = self._exchange(self._connection(), asked)
        except (OSError, NotHttp) as error:
            # What went wrong is reported by its kind: a message may quote what was sent.
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise Unreachable(f"{self._host} does not answer: {reason}.") from None
        if len(response.body) > MAX_ANSWER_BYTES:
            raise Unreachable(f"{self._host} answers more than {MAX_ANSWER_BYTES} bytes.")
        etag = response.headers.get("etag")
        return Answer(
            response.status,
            response.body,
            # Only a version that can be sent back counts.
            etag=etag if etag and _is_plain(etag) else None,
            retry_after_s=_retry_after_s(response.headers.get("retry-after")),
        )

    def _ask_kept(self, asked: "_Request") -> "Response | None":
        """Return the answer over a kept connection; None if there is none that still works."""
        while self._kept:
            connection, until_s = self._kept.pop()
            if SystemClock().monotonic_s() >= until_s or _has_ended(connection):
                connection.close()
                continue
            try:
                return self._exchange(connection, asked)
            except (ConnectionError, NoAnswer):
                # It ended in this moment.
                continue
        return None

    def _exchange(self, connection: "socket.socket", asked: "_Request") -> "Response":
        try:
            response = exchange(
                connection,
                asked.method,
                asked.path,
                headers=asked.headers,
                body=asked.body,
                most=MAX_ANSWER_BYTES,
                is_last=not self._kept_s,
            )
        except BaseException:
            connection.close()
            raise
        if response.is_last:
            connection.close()
        else:
            self._kept.append(_Kept(connection, SystemClock().monotonic_s() + self._kept_s))
        return response

    def _connection(self) -> "socket.socket":
        # Imported with the first message: a start without one is quicker for it.
        import socket

        connection = socket.create_connection((self._host, self._port), self._timeout_s)
        try:
            # Head and body leave together, and no answer waits for an acknowledgement.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is None:
                return connection
            return self._context.wrap_socket(connection, server_hostname=self._host)
        except BaseException:
            connection.close()
            raise


def _is_plain(text: str) -> bool:
    """Return whether a text can stand in a header."""
    return text.isascii() and text.isprintable()


def _reason(error: OSError) -> str:
    return getattr(error, "reason", None) or error.strerror or "not readable"


def _retry_after_s(text: str | None) -> float | None:
    """Return the seconds of a Retry-After header; dates and nonsense count as none."""
    if text is None or not text.strip().isdecimal():
        return None
    return min(float(text), MAX_RETRY_AFTER_S)


_MAX_LINE: Final = 8192
_MAX_HEADERS: Final = 100
_CONTINUE, _NO_CONTENT, _NOT_MODIFIED = 100, 204, 304


class NotHttp(Exception):
    """The other side does not answer as HTTP does, or breaks off."""


class NoAnswer(NotHttp):
    """The connection ended before a byte of an answer came."""


class Response(NamedTuple):
    """Status, headers by their names in small letters, and at most so many bytes as were wanted.

    The connection can be used again unless the answer was its last.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    is_last: bool = True


class _Request(NamedTuple):
    """What is asked, whatever connection it goes over."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes | None


class _Kept(NamedTuple):
    """An idle connection, and until when it may be used."""

    connection: "socket.socket"
    until_s: float


def _close_all(kept: list[_Kept]) -> None:
    for one in kept:
        one.connection.close()
    kept.clear()


def _has_ended(connection: "socket.socket") -> bool:
    """Return whether something came over an idle connection: its end, or what nobody asked for."""
    from select import select

    return bool(select([connection], [], [], 0)[0])


def exchange(
    connection: "socket.socket",
    method: str,
    path: str,
    *,
    headers: Mapping[str, str],
    body: bytes | None,
    most: int,
    is_last: bool = True,
) -> Response:
    """Send a request and return the answer.

    Args:
        connection: A fresh one, or one that the answer before left open.
        method: Such as GET.
        path: Path and question.
        headers: Besides those of the framing.
        body: What to send along; None for nothing.
        most: The most bytes of the answer's body to read; one more means that there are more.
        is_last: Whether the other side should close the connection after its answer.

    Raises:
        ValueError: If path or a header could be taken for something else.
        NotHttp: If the answer is none; `NoAnswer` if nothing came.
        OSError: If the connection fails.
    """
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {text}" for name, text in headers.items())]
    lines += ["Connection: close"] if is_last else []
    lines.append("Accept-Encoding: identity")
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    if not all(line.isprintable() and line.isascii() for line in lines) or " " in path:
        raise ValueError("path and headers must be printable ASCII, the path without blanks.")
    head = "\r\n".join(lines).encode("ascii") + b"\r\n\r\n"
    connection.sendall(head + (body or b""))
    with connection.makefile("rb") as answer:
        if not answer.peek(1):
            raise NoAnswer("nothing came.")
        status = _CONTINUE
        while status // 100 == 1:
            status, found = _head(answer)
        if status in (_NO_CONTENT, _NOT_MODIFIED):
            return Response(status, found, b"", is_last or _ends(found))
        data = _body(answer, found, most)
        is_whole = "content-length" in found and len(data) <= most
        return Response(status, found, data, is_last or not is_whole or _ends(found))


def _ends(headers: Mapping[str, str]) -> bool:
    return "close" in headers.get("connection", "").lower()


def _head(answer: "BufferedReader") -> tuple[int, dict[str, str]]:
    version, _, rest = _line(answer).partition(" ")
    code = rest[:3]
    if version not in ("HTTP/1.0", "HTTP/1.1") or not (code.isdecimal() and len(code) == 3):
        raise NotHttp("no status line.")
    headers: dict[str, str] = {}
    for _ in range(_MAX_HEADERS):
        line = _line(answer)
        if not line:
            return int(code), headers
        name, colon, text = line.partition(":")
        if not colon or name != name.strip():
            raise NotHttp("a header without a name.")
        headers.setdefault(name.lower(), text.strip())
    raise NotHttp("too many headers.")


def _body(answer: "BufferedReader", headers: Mapping[str, str], most: int) -> bytes:
    coding = headers.get("transfer-encoding")
    if coding is not None:
        if coding.lower() != "chunked":
            raise NotHttp("a coding that was not asked for.")
        return _chunks(answer, most)
    length = headers.get("content-length")
    if length is None:
        return answer.read(most + 1)
    if not length.isdecimal():
        raise NotHttp("a length that is no number.")
    return _exactly(answer, min(int(length[:20]), most + 1))


def _chunks(answer: "BufferedReader", most: int) -> bytes:
    body = b""
    while len(body) <= most:
        text = _line(answer).partition(";")[0].strip()
        try:
            size = int(text, 16)
        except ValueError:
            raise NotHttp("a chunk without a size.") from None
        if size <= 0:
            return body
        body += _exactly(answer, min(size, most + 1))
        if len(body) <= most and _line(answer):
            raise NotHttp("a chunk that does not end.")
    return body


def _exactly(answer: "BufferedReader", count: int) -> bytes:
    found = answer.read(count)
    if len(found) < count:
        raise NotHttp("the answer breaks off.")
    return found


def _line(answer: "BufferedReader") -> str:
    line = answer.readline(_MAX_LINE)
    if not line.endswith(b"\n"):
        raise NotHttp("a line that does not end.")
    return line.decode("latin-1").rstrip("\r\n")
