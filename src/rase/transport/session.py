"""MQTT 5 for servers: one lasting session, acknowledged by hand, connected again by itself.

The client id is fixed and the session outlives the connection, so that the broker keeps what
arrives while the server is away. A message is acknowledged only in the connection that brought it:
in the next one the broker brings it again.
"""

import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rase.transport.broker import Broker

if TYPE_CHECKING:
    from paho.mqtt.client import Client, MQTTMessage

__all__ = ["Arrived", "BrokerSession"]

_KEPT_S: Final = 86_400
_MOST_AT_ONCE: Final = 2000
_FAREWELL_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Arrived:
    """One message as the broker brought it.

    Args:
        topic: Where it was published.
        payload: The bytes.
        number: By which it is acknowledged ...
        connection: ... in this connection alone.
    """

    topic: str
    payload: bytes = field(repr=False)
    number: int
    connection: int


class BrokerSession:
    """Keep a session with a broker until it is stopped; the network has a thread of its own.

    Args:
        broker: How it is reached.
        client_id: Fixed, and different for each process.
        subscriptions: What to subscribe to, at QoS 1; retained messages are not asked for.
        on_message: Called in the network's thread for each message.
        on_change: Called there when the connection is made and the broker has answered the
            subscriptions (None), when it is refused or lost (why), and when a subscription is
            refused (why), for then nothing will arrive.
        will: Topic and message that the broker publishes, retained, if the connection is lost.
    """

    def __init__(
        self,
        broker: Broker,
        client_id: str,
        *,
        subscriptions: Sequence[str] = (),
        on_message: Callable[[Arrived], None] = lambda arrived: None,
        on_change: Callable[[str | None], None] = lambda reason: None,
        will: tuple[str, bytes] | None = None,
    ) -> None:
        self._broker = broker
        self._subscriptions = tuple(subscriptions)
        self._on_message = on_message
        self._on_change = on_change
        self._connection = 0
        self._is_up = threading.Event()
        self._client = broker.client(client_id, is_lasting=True)
        self._client.on_connect = self._on_connect
        self._client.on_disconnect = self._on_disconnect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_arrival
        self._client.reconnect_delay_set(1, 30)
        if will is not None:
            self._client.will_set(*will, qos=1, retain=True)

    @property
    def is_up(self) -> bool:
        """Whether it is connected now, and the broker has answered its subscriptions."""
        return self._is_up.is_set()

    def start(self) -> None:
        """Begin to connect, and never give up."""
        properties = _properties("CONNECT")
        properties.SessionExpiryInterval = _KEPT_S if self._subscriptions else 0
        properties.ReceiveMaximum = _MOST_AT_ONCE
        self._client.connect_async(
            self._broker.host,
            self._broker.port,
            self._broker.keepalive_s,
            clean_start=not self._subscriptions,
            properties=properties,
        )
        self._client.loop_start()

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        is_retained: bool = False,
        qos: int = 1,
        expires_s: int | None = None,
    ) -> Any:
        """Hand a message over; it is sent when there is a connection.

        Returns:
            What shows whether it was sent.
        """
        properties = None
        if expires_s is not None:
            properties = _properties("PUBLISH")
            properties.MessageExpiryInterval = expires_s
        return self._client.publish(
            topic, payload, qos=qos, retain=is_retained, properties=properties
        )

    def acknowledge(self, arrived: Arrived) -> None:
        """Acknowledge a message to the broker."""
        if arrived.connection == self._connection:
            self._client.ack(arrived.number, 1)

    def renew(self) -> None:
        """Connect again, so that the broker brings what was not acknowledged once more."""
        connection: Any = self._client.socket()
        if connection is not None:
            # The network's thread notices, and connects again after its pause.
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def wait_up(self, timeout_s: float) -> bool:
        """Return whether there is a connection, waiting so long for it."""
        return self._is_up.wait(timeout_s)

    def stop(self, *last: Any) -> None:
        """Disconnect; the broker keeps the session.

        Args:
            *last: What `publish` returned for messages that must still be sent.
        """
        for message in last:
            # A broker that is away cannot be notified.
            with suppress(RuntimeError, ValueError):
                message.wait_for_publish(_FAREWELL_S if self.is_up else 0.01)
        self._client.disconnect()
        self._client.loop_stop()
        # Without these the client is let go of with the session, and its sockets at once.
        self._client.on_connect = self._client.on_disconnect = None
        self._client.on_subscribe = self._client.on_message = None

    def _on_connect(self, client: "Client", _: Any, flags: Any, code: Any, properties: Any) -> None:
        if code.is_failure:
            self._on_change(str(code))
            return
        from paho.mqtt.subscribeoptions import SubscribeOptions

        self._connection += 1
        if not self._subscriptions:
            self._now_up()
            return
        # Up when the broker has answered: what is sent before, it gives to nobody.
        options = SubscribeOptions(qos=1, retainHandling=SubscribeOptions.RETAIN_DO_NOT_SEND)
        client.subscribe([(topic, options) for topic in self._subscriptions])

    def _on_disconnect(
        self, client: "Client", _: Any, flags: Any, code: Any, properties: Any
    ) -> None:
        self._is_up.clear()
        self._on_change(str(code))

    def _on_subscribe(
        self, client: "Client", _: Any, number: int, codes: Any, properties: Any
    ) -> None:
        self._now_up()
        for code in codes:
            if code.is_failure:
                self._on_change(f"the subscription is refused: {code}")

    def _now_up(self) -> None:
        self._is_up.set()
        self._on_change(None)

    def _on_arrival(self, client: "Client", _: Any, message: "MQTTMessage") -> None:
        self._on_message(
            Arrived(message.topic, bytes(message.payload), message.mid, self._connection)
        )


def _properties(packet: str) -> Any:
    from paho.mqtt import packettypes, properties

    make: Any = properties.Properties
    return make(getattr(packettypes.PacketTypes, packet))
