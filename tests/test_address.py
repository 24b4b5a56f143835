"""Addresses are taken as a socket would take them, and in the clear on this machine alone."""

import pytest
from tests.cases import each_case

from rase.address import split_address
from rase.errors import ConfigurationError
from rase.fusion.countersign import HttpCountersigner
from rase.subscriber.questions import base_url
from rase.transport.broker import Broker
from rase.transport.http import HttpTransport

NO_ADDRESSES = [
    "",
    "fusion.example",
    "ftp://fusion.example",
    "https://",
    "https://[::1",
    "https://fusion.example:http",
    "https://fusion.example:70000",
    "https://fusion..example",
    f"https://{'f' * 64}.example",
]


@each_case("url", NO_ADDRESSES)
def test_what_no_socket_could_use_is_refused(url: str) -> None:
    """Broken numbers, ports and labels are told before anything is asked."""
    with pytest.raises(ValueError, match="must be an address of http or https"):
        split_address(url, plain="http", secure="https")
    for take in (HttpTransport, HttpCountersigner, base_url):
        with pytest.raises(ConfigurationError, match="url must be an address of http or https"):
            take(url)
    with pytest.raises(ConfigurationError, match="a broker must be an address of mqtt or mqtts"):
        Broker(url=url.replace("https", "mqtts"))


@each_case("host", ["localhost", "127.0.0.1", "127.8.8.8", "[::1]"])
def test_this_machine_needs_no_tls(host: str) -> None:
    """All numbers of the loopback are this machine, for everybody."""
    url = f"http://{host}:8702"
    assert split_address(url, plain="http", secure="https").port == 8702
    HttpTransport(url)
    HttpCountersigner(url)
    assert base_url(url) == url
    assert Broker(url=f"mqtt://{host}").port == 1883


@each_case("host", ["fusion.example", "10.0.0.1", "localhost.example", "[::2]"])
def test_other_machines_need_tls(host: str) -> None:
    """A plain scheme is refused unless it is asked for by name."""
    for take in (HttpTransport, HttpCountersigner, base_url):
        take(f"https://{host}")
        with pytest.raises(ConfigurationError, match="must begin with https:// except on this"):
            take(f"http://{host}")
    HttpTransport(f"http://{host}", insecure_http=True)
    with pytest.raises(ConfigurationError, match="must begin with mqtts:// except on this"):
        Broker(url=f"mqtt://{host}")
    Broker(url=f"mqtt://{host}", insecure_mqtt=True)


@each_case("url", ["http://me:secret@fusion.example", "https://me:secret@[::1"])
def test_passwords_in_addresses_are_not_told(url: str) -> None:
    """The refusal does not repeat the address."""
    with pytest.raises(ConfigurationError, match="must not hold a user") as caught:
        base_url(url)
    assert "secret" not in str(caught.value)


def test_an_at_sign_in_a_path_is_none_of_a_user() -> None:
    """Only what stands before the host is a user."""
    parts = split_address("https://meter.example/a@b", plain="http", secure="https")
    assert parts.path == "/a@b"
