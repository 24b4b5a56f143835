"""How an MQTT broker is reached: address, TLS, user and password, and a client of paho for it."""

import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self
from urllib.parse import urlsplit

from rase.address import split_address
from rase.errors import ConfigurationError
from rase.transport.http import ClientTls

if TYPE_CHECKING:
    from paho.mqtt.client import Client

__all__ = ["Broker", "Reachable"]

_PORTS: Final = {"mqtt": 1883, "mqtts": 8883}
_KEEPALIVE_S: Final = 60


class Reachable(Protocol):
    """What an operator wrote down of a broker, in either server's settings."""

    @property
    def url(self) -> str:
        """Its address."""
        ...

    def tls_files(self) -> tuple[Path | None, Path | None, Path | None]:
        """Return authority, certificate and its key."""
        ...

    def secrets(self) -> dict[str, Any]:
        """Return what logs in: user and password, read now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """How a broker is reached.

    Args:
        url: mqtts://host:port, or mqtt:// on this machine.
        user: The name to show; None for none.
        password: What proves it.
        tls: Authority and certificate for mqtts.
        timeout_s: How long to wait for each step.
        insecure_mqtt: Accept mqtt to any host; for a broker in the home, never for reports.

    Raises:
        ConfigurationError: If the address cannot be used.

    Example:
        >>> Broker(url="mqtt://broker.example")
        Traceback (most recent call last):
        rase.errors.ConfigurationError: a broker must begin with mqtts:// except on this machine,
        got 'mqtt://broker.example'.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: ClientTls = field(default_factory=ClientTls)
    timeout_s: float = 30.0
    insecure_mqtt: bool = False

    @classmethod
    def of(cls, settings: Reachable) -> Self:
        """Return how the broker of some settings is reached.

        Raises:
            ConfigurationError: If the address or a file cannot be used.
        """
        return cls(url=settings.url, tls=ClientTls(*settings.tls_files()), **settings.secrets())

    def __post_init__(self) -> None:
        """Check the address once."""
        try:
            parts = split_address(
                self.url, plain="mqtt", secure="mqtts", is_plain_anywhere=self.insecure_mqtt
            )
        except ValueError as error:
            raise ConfigurationError([f"a broker {error}"]) from None
        if parts.path not in ("", "/") or parts.query:
            raise ConfigurationError([f"a broker must be mqtts://host:port, got {self.url!r}."])

    @property
    def host(self) -> str:
        """The name or number of the machine."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """The port; the usual one of the scheme if none is named."""
        parts = urlsplit(self.url)
        return parts.port or _PORTS[parts.scheme]

    def client(self, client_id: str, *, is_lasting: bool = False) -> "Client":
        """Return a client that is not connected yet.

        Args:
            client_id: Its name to the broker; it must reveal nothing about the machine.
            is_lasting: MQTT 5 with acknowledgement by hand, for servers; otherwise 3.1.1, for
                devices.

        Raises:
            ConfigurationError: If a file for TLS cannot be used.
        """
        # Only whoever uses a broker pays for the package.
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

        client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            clean_session=None if is_lasting else True,
            protocol=MQTTProtocolVersion.MQTTv5 if is_lasting else MQTTProtocolVersion.MQTTv311,
            manual_ack=is_lasting,
        )
        client.connect_timeout = self.timeout_s
        client.on_socket_open = _without_delay
        if self.user is not None:
            client.username_pw_set(self.user, self.password)
        if urlsplit(self.url).scheme == "mqtts":
            client.tls_set_context(self.tls.context())
        return client

    @property
    def keepalive_s(self) -> int:
        """After how long a silent connection is asked whether it still is one."""
        return _KEEPALIVE_S


def _without_delay(client: "Client", _: Any, connection: Any) -> None:
    """Send small messages at once: an answer would wait for the acknowledgement before it."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
