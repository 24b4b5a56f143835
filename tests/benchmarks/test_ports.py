"""Ports that are held for servers."""

import socket

import pytest
from benchmarks.loading.ports import held_port


def test_a_held_port_is_for_one_server_after_another() -> None:
    """Servers that reuse addresses listen on it in turn; between them connections are refused."""
    port = held_port()
    for _ in range(3):
        with (
            socket.create_server(("127.0.0.1", port)) as server,
            socket.create_connection(("127.0.0.1", port)),
        ):
            server.accept()[0].close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))


def test_nobody_else_is_given_a_held_port() -> None:
    """Neither a server that asks for any port nor one that wants it for itself gets it."""
    port = held_port()
    given = []
    for _ in range(500):
        with socket.create_server(("127.0.0.1", 0)) as other:
            given.append(other.getsockname()[1])
    assert port not in given
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
