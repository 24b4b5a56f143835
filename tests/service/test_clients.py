"""Clients on this machine go past every proxy; others go through the one of the environment."""

import asyncio
import socket
import threading
from collections.abc import Iterator

import httpx
import pytest
from benchmarks.loading.ports import held_port

from rase.errors import ConfigurationError
from rase.fusion.countersign import HttpCountersigner, NotCountersigned
from rase.service import clients
from rase.subscriber.answers import FusionUnreachable
from rase.subscriber.client import AsyncSubscriber, Subscriber
from rase.wire.keys import Keyset, OpeningKey, Role

LOOPBACK = ("localhost", "127.0.0.1", "127.0.0.9", "[::1]")


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """A proxy that the environment names; yields what reached it."""
    seen: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"):
            monkeypatch.setenv(name, address)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    seen.append(connection.recv(65536))
                    connection.sendall(b"HTTP/1.1 502 No\r\nContent-Length: 0\r\n\r\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield seen
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.fixture
def closed_port() -> int:
    """A port of this machine on which nobody listens."""
    return held_port()


@pytest.mark.uncovered
@pytest.mark.parametrize("host", LOOPBACK)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_loopback_goes_past_the_proxy(proxy: list[bytes], scheme: str, host: str) -> None:
    """No proxy of the environment is even made for it."""
    made = clients.client(f"{scheme}://{host}:8702")
    assert made._mounts == {}
    made.close()
    assert asyncio.run(mounts_of(f"{scheme}://{host}:8702")) == {}


async def mounts_of(url: str) -> object:
    """Return through what a client for asyncio goes."""
    async with clients.async_client(url) as made:
        return made._mounts


def test_every_client_of_loopback_is_such_a_one(proxy: list[bytes], closed_port: int) -> None:
    """Countersigner and subscribers: nothing reaches the proxy."""
    url = f"http://127.0.0.1:{closed_port}"
    keys = [OpeningKey.generate(role, 1) for role in Role]
    configs = tuple(key.config(not_before_s=0, not_after_s=2**35) for key in keys)
    with pytest.raises(NotCountersigned, match="does not answer"):
        HttpCountersigner(url).keyset(Keyset(version=1, cache_s=60, configs=configs), bytes(64))
    with Subscriber(url, "x") as centre, pytest.raises(FusionUnreachable):
        centre.average()

    async def ask() -> None:
        async with AsyncSubscriber(url, "x") as centre:
            await centre.average()

    with pytest.raises(FusionUnreachable):
        asyncio.run(ask())
    assert proxy == []


def test_others_go_through_the_proxy(proxy: list[bytes]) -> None:
    """It is asked for a tunnel, and sees no token."""
    with Subscriber("https://fusion.example", "secret") as centre, pytest.raises(FusionUnreachable):
        centre.average()
    assert proxy[0].startswith(b"CONNECT fusion.example:443")
    assert b"secret" not in b"".join(proxy)


@pytest.mark.parametrize("value", ["socks5://127.0.0.1:1", "nonsense://x", "x:y:z"])
def test_a_proxy_that_cannot_be_used_is_a_mistake_of_settings(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """It is named, without a traceback; this machine does not mind it."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ALL_PROXY", value)
    with pytest.raises(ConfigurationError, match="ALL_PROXY"):
        clients.client("https://fusion.example")
    clients.client("http://localhost").close()


def test_certificates_of_the_environment_are_trusted_on_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SSL_CERT_FILE counts for https on loopback too."""
    asked: list[bool] = []
    real = httpx.create_ssl_context

    def noted() -> object:
        asked.append(True)
        return real()

    monkeypatch.setattr(httpx, "create_ssl_context", noted)
    clients.client("https://localhost").close()
    clients.client("http://localhost").close()
    assert asked == [True]
