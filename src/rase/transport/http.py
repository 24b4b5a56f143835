"""HTTP for devices: TLS, a pinned authority, limits of time and size, ETags; no other library."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rase.address import split_address
from rase.errors import ConfigurationError
from rase.transport.face import MAX_RETRY_AFTER_S, Answer, Unreachable
from rase.wire.private_files import is_open_to_others

if TYPE_CHECKING:
    import socket
    import ssl

__all__ = ["MAX_ANSWER_BYTES", "ClientTls", "HttpTransport"]

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
    """Speak to one server; each message has a connection of its own.

    Connections are not kept: a device sends once in a round, and a lasting connection would tell
    when it is switched on. Proxy variables of the environment are not looked at.

    Args:
        url: The root of the service. Must be https, except on this machine.
        tls: Authority and certificate for https.
        timeout_s: How long to wait for each step of the connection.
        insecure_http: Accept http to any host; for meters in the home, never for reports.
        bearer: A token that every question shows.

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
            headers["Authorization"] = f"Bearer {credential}"
        return self._ask("POST", path, body, headers)

    def _ask(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        from rase.transport.exchange import NotHttp, exchange

        told = {"Host": self._authority, "Accept": "*/*", **headers}
        try:
            with self._connection() as connection:
                response = exchange(
                    connection,
                    method,
                    self._root + path,
                    headers=told,
                    body=body,
                    most=MAX_ANSWER_BYTES,
                )
        except (OSError, NotHttp) as error:
            # What went wrong is told by its kind: a message may quote what was sent.
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise Unreachable(f"{self._host} does not answer: {reason}.") from None
        if len(response.body) > MAX_ANSWER_BYTES:
            raise Unreachable(f"{self._host} answers more than {MAX_ANSWER_BYTES} bytes.")
        return Answer(
            response.status,
            response.body,
            etag=_etag(response.headers.get("etag")),
            retry_after_s=_retry_after_s(response.headers.get("retry-after")),
        )

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


def _etag(text: str | None) -> str | None:
    """Return a version that can be sent back; another is none."""
    return text if text is not None and _is_plain(text) else None


def _reason(error: OSError) -> str:
    return getattr(error, "reason", None) or error.strerror or "not readable"


def _retry_after_s(text: str | None) -> float | None:
    """Return the seconds of a Retry-After header; dates and nonsense count as none."""
    if text is None or not text.strip().isdecimal():
        return None
    return min(float(text), MAX_RETRY_AFTER_S)
