"""A look at a broker, for whoever checks an installation: may we connect, write, what is there?

MQTT 5, because earlier versions do not say that a client may not write. What is written goes to
a campaign that does not exist, is empty and not retained: every rule of the ACL with ``+`` in the
campaign's place covers it, and nobody waits for it.
"""

import secrets
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from rase.transport.broker import Broker
from rase.transport.interface import Unreachable
from rase.wire.frames import Topics

if TYPE_CHECKING:
    from paho.mqtt.client import Client, MQTTMessage

__all__ = ["BrokerProbe", "probing"]

_TIMEOUT_S: Final = 5.0
# Retained messages follow the answer to a subscription at once.
_RETAINED_S: Final = 1.0
_RECONNECT_S: Final = 1


@contextmanager
def probing(broker: Broker) -> "Iterator[BrokerProbe]":
    """Connect to a broker for a look.

    Raises:
        Unreachable: If it does not answer, its certificate is not accepted, or it refuses the user.
        ConfigurationError: If a file for TLS cannot be used.
    """
    probe = BrokerProbe(broker)
    try:
        probe.connect()
        yield probe
    finally:
        probe.close()


class BrokerProbe:
    """One short connection.

    Args:
        broker: How the broker is reached.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._turned = threading.Condition()
        self._connected: Any = None
        self._granted: set[int] = set()
        self._written: dict[int, Any] = {}
        self._retained: dict[str, bytes] = {}
        # A name of its own: a server's would end that server's session.
        self._client = broker.client(f"rase-doctor-{secrets.token_hex(8)}", is_lasting=True)
        self._client.reconnect_delay_set(_RECONNECT_S, _RECONNECT_S)
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_publish = self._on_publish
        self._client.on_message = self._on_message
        # A campaign of nobody's.
        self.topics = Topics(f"doctor-{secrets.token_hex(8)}")

    def connect(self) -> None:
        """Connect and log in.

        Raises:
            Unreachable: Saying why not.
        """
        broker = self._broker
        try:
            if urlsplit(broker.url).scheme == "mqtts":
                self._shake_hands()
            self._client.connect(broker.host, broker.port, broker.keepalive_s, clean_start=True)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise Unreachable(f"{broker.url} does not answer: {reason}.") from None
        self._client.loop_start()
        if not self._wait(lambda: self._connected is not None):
            raise Unreachable(f"{broker.url} does not answer as a broker with MQTT 5 does.")
        if self._connected.is_failure:
            raise Unreachable(f"{broker.url} refuses the user: {self._connected}.")

    def may_write(self, topic: str) -> bool:
        """Write an empty message that is not retained; return whether the broker allowed it.

        It connects again to a broker that ends the connection when it denies something.

        Raises:
            Unreachable: If it did not answer.
        """
        sent = self._client.publish(topic, b"", qos=1)
        if not self._wait(lambda: sent.mid in self._written):
            raise Unreachable(f"{self._broker.url} does not say whether {topic} may be written.")
        return not self._written[sent.mid].is_failure

    def read_retained(self, topic: str) -> Mapping[str, bytes]:
        """Return what is kept under a topic, as far as this user may read it.

        Raises:
            Unreachable: If the broker did not answer.
        """
        _, number = self._client.subscribe(topic, qos=1)
        if number is None or not self._wait(lambda: number in self._granted):
            raise Unreachable(f"{self._broker.url} does not let us subscribe to {topic}.")
        # Nothing shows that no more will come.
        self._wait(lambda: False, _RETAINED_S)
        return dict(self._retained)

    def close(self) -> None:
        """Leave."""
        self._client.disconnect()
        self._client.loop_stop()
        self._client.on_connect = self._client.on_subscribe = None
        self._client.on_publish = self._client.on_message = None

    def _shake_hands(self) -> None:
        """Try TLS alone first: paho leaves its socket open when a certificate is not accepted."""
        broker, context = self._broker, self._broker.tls.context()
        with socket.create_connection((broker.host, broker.port), _TIMEOUT_S) as connection:
            try:
                context.wrap_socket(connection, server_hostname=broker.host).close()
            except ssl.SSLCertVerificationError as error:
                raise Unreachable(
                    f"the certificate of {broker.url} is not accepted: {error.verify_message}."
                ) from None
            except OSError as error:
                reason = error.strerror or type(error).__name__
                raise Unreachable(f"{broker.url} does not speak TLS as we do: {reason}.") from None

    def _wait(self, is_so: Any, timeout_s: float | None = None) -> bool:
        with self._turned:
            return bool(self._turned.wait_for(is_so, timeout_s or _TIMEOUT_S))

    def _on_connect(self, client: "Client", _: Any, flags: Any, code: Any, more: Any) -> None:
        with self._turned:
            # A broker that refuses is asked again by the client; the first answer counts.
            self._connected = self._connected or code
            self._turned.notify_all()

    def _on_subscribe(self, client: "Client", _: Any, mid: int, codes: Any, more: Any) -> None:
        with self._turned:
            if not codes[0].is_failure:
                self._granted.add(mid)
            self._turned.notify_all()

    def _on_publish(self, client: "Client", _: Any, mid: int, code: Any, more: Any) -> None:
        with self._turned:
            self._written[mid] = code
            self._turned.notify_all()

    def _on_message(self, client: "Client", _: Any, message: "MQTTMessage") -> None:
        with self._turned:
            if message.retain:
                self._retained[message.topic] = bytes(message.payload)
            self._turned.notify_all()
