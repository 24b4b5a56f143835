"""Answers as servers frame them, well and badly, on a real pair of sockets."""

import socket

import pytest
from tests.patience import PATIENCE_S

from rase.transport.http import NotHttp, Response, exchange

OK = b"HTTP/1.1 200 OK\r\n"


def answered(data: bytes, *, most: int = 10, path: str = "/x", **more: str) -> Response:
    """Send a request to a server that answers these bytes and hangs up."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(PATIENCE_S)
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        return exchange(ours, "GET", path, headers={"Host": "h", **more}, body=None, most=most)


def test_a_request_is_written_as_it_must_be() -> None:
    """One head with the framing, then exactly the body."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(OK + b"Content-Length: 0\r\n\r\n")
        exchange(ours, "POST", "/v1/x", headers={"Host": "h:1"}, body=b"\0\r\n", most=1)
        assert theirs.recv(4096) == (
            b"POST /v1/x HTTP/1.1\r\nHost: h:1\r\nConnection: close\r\n"
            b"Accept-Encoding: identity\r\nContent-Length: 3\r\n\r\n\0\r\n"
        )


@pytest.mark.parametrize(
    ("data", "is_last"),
    [
        (OK + b"Content-Length: 1\r\n\r\na", False),
        (b"HTTP/1.1 304 Not Modified\r\n\r\n", False),
        (b"HTTP/1.1 304 Not Modified\r\nConnection: Close\r\n\r\n", True),
        (OK + b"Content-Length: 1\r\nConnection: close\r\n\r\na", True),
        (OK + b"\r\na", True),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", True),
        (OK + b"Content-Length: 99\r\n\r\n0123456789ABCDEF", True),
    ],
)
def test_a_connection_is_used_again_only_if_nothing_is_left_in_it(
    data: bytes, is_last: bool
) -> None:
    """The answer must be whole, and the other side must not have said that it is the last."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(PATIENCE_S)
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        found = exchange(ours, "GET", "/", headers={"Host": "h"}, body=None, most=10, is_last=False)
        assert found.is_last == is_last
        assert b"Connection" not in theirs.recv(4096)


@pytest.mark.parametrize(
    ("data", "body"),
    [
        (b"Content-Length: 3\r\n\r\nabcdef", b"abc"),
        (b"\r\nabc", b"abc"),
        (b"Transfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\n\r\n", b"abc"),
        (b"Content-Length: 0\r\n\r\n", b""),
        # One byte more than was wanted says that there are more.
        (b"Content-Length: 99\r\n\r\n0123456789ABCDEF", b"0123456789A"),
        (b"\r\n0123456789ABCDEF", b"0123456789A"),
        (b"Transfer-Encoding: Chunked\r\n\r\nff\r\n0123456789ABCDEF", b"0123456789A"),
    ],
)
def test_a_body_ends_where_its_framing_says(data: bytes, body: bytes) -> None:
    """By a length, by chunks, or with the connection; never more than was wanted."""
    assert answered(OK + data).body == body


def test_headers_and_interim_answers() -> None:
    """Names are in small letters, the first of two counts; 1xx is passed over; 304 has no body."""
    data = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 304 Not Modified\r\n"
    found = answered(data + b'ETag:  "7" \r\netag: no\r\nContent-Length: 5\r\n\r\n')
    assert found == Response(304, {"etag": '"7"', "content-length": "5"}, b"")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"what?\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/1.1 200 OK",
        OK + b"no colon\r\n\r\n",
        OK + b"name : blank\r\n\r\n",
        OK + b"a: " + b"x" * 9000 + b"\r\n\r\n",
        OK + b"a: b\r\n" * 101 + b"\r\n",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Content-Length: 5\r\n\r\nabc",
        OK + b"Transfer-Encoding: gzip\r\n\r\nabc",
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nab",
        OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
    ],
)
def test_what_is_no_answer_is_refused(data: bytes) -> None:
    """Nonsense, endless heads and answers that break off are all named the same."""
    with pytest.raises(NotHttp):
        answered(data)


@pytest.mark.parametrize(
    "more", [{"path": "/a b"}, {"path": "/a\r\nX: y"}, {"X": "y\r\nZ: z"}, {"X": "é"}]
)
def test_a_request_cannot_be_split(more: dict[str, str]) -> None:
    """Line breaks in path or headers are refused before anything is sent."""
    with pytest.raises(ValueError, match="printable ASCII"):
        answered(OK, **more)  # type: ignore[arg-type]
