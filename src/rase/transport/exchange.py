"""One HTTP/1.1 request and its answer on a connection of its own: all that a device speaks.

The standard library's client imports e-mail and TLS for it, which takes as long as starting an
interpreter. Framing follows RFC 9112 (sections 4 to 7): a length, chunks, or the end of the
connection. Compressions are not asked for, redirections not followed, cookies not kept.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from io import BufferedReader
    from socket import socket

__all__ = ["NotHttp", "Response", "exchange"]

_MAX_LINE: Final = 8192
_MAX_HEADERS: Final = 100
_CONTINUE, _NO_CONTENT, _NOT_MODIFIED = 100, 204, 304


class NotHttp(Exception):
    """The other side does not answer as HTTP does, or breaks off."""


class Response(NamedTuple):
    """Status, headers by their names in small letters, and at most so many bytes as were wanted."""

    status: int
    headers: dict[str, str]
    body: bytes


def exchange(
    connection: "socket",
    method: str,
    path: str,
    *,
    headers: Mapping[str, str],
    body: bytes | None,
    most: int,
) -> Response:
    """Send a request and return the answer.

    Args:
        connection: A fresh one; it is used up.
        method: Such as GET.
        path: Path and question.
        headers: Besides those of the framing.
        body: What to send along; None for nothing.
        most: The most bytes of the answer's body to read; one more means that there are more.

    Raises:
        ValueError: If path or a header could be taken for something else.
        NotHttp: If the answer is none.
        OSError: If the connection fails.
    """
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {text}" for name, text in headers.items())]
    lines += ["Connection: close", "Accept-Encoding: identity"]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    if not all(line.isprintable() and line.isascii() for line in lines) or " " in path:
        raise ValueError("path and headers must be printable ASCII, the path without blanks.")
    head = "\r\n".join(lines).encode("ascii") + b"\r\n\r\n"
    connection.sendall(head + (body or b""))
    with connection.makefile("rb") as answer:
        status = _CONTINUE
        while status // 100 == 1:
            status, found = _head(answer)
        if status in (_NO_CONTENT, _NOT_MODIFIED):
            return Response(status, found, b"")
        return Response(status, found, _body(answer, found, most))


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
