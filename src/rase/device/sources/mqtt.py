"""Readings that a meter publishes to the broker in the home."""

import json
import secrets
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rase.device.sources.http import found_at
from rase.device.sources.interface import Reading, SourceFailed, reading_in
from rase.device.sources.presets import meter_of
from rase.errors import ConfigurationError
from rase.transport.broker import Broker

if TYPE_CHECKING:
    from paho.mqtt.client import Client, MQTTMessage

    from rase.device.settings import SourceSettings

__all__ = ["MqttSource"]

_MOST_WAITING: Final = 10_000
# What bare numbers are replaced by while a sensor has none; ESPHome knows the first two.
_NO_NUMBER: Final = (b"nan", b"none", b"unknown", b"unavailable", b"")


class MqttSource:
    """Listen to one topic, and give what came since it was asked last.

    A retained message is passed over: nobody knows when it was measured.

    Args:
        broker: The broker in the home.
        topic: Where the meter publishes.
        path: Where the number stands in a JSON message; empty if the message is the number.
        scale: What it is multiplied by.
        states: The names of states by what is said, where it is states; None for numbers.
    """

    KIND = "mqtt"

    def __init__(
        self,
        broker: Broker,
        topic: str,
        path: str = "",
        *,
        scale: float = 1.0,
        states: Mapping[str, str] | None = None,
    ) -> None:
        self._topic = topic
        self._path = path
        self._scale = scale
        self._states = states
        self._lock = threading.Lock()
        self._waiting: list[bytes] = []
        self._trouble: str | None = None
        self._client = broker.client(secrets.token_hex(8))
        self._client.on_connect = self._on_connect
        self._client.on_connect_fail = self._not_reached
        self._client.on_disconnect = self._on_disconnect
        self._client.on_message = self._on_message
        self._client.reconnect_delay_set(1, 60)
        self._client.connect_async(broker.host, broker.port, broker.keepalive_s)
        self._client.loop_start()

    @classmethod
    def from_settings(
        cls, settings: "SourceSettings", *, folder: Path, home: "Broker | None" = None
    ) -> "MqttSource":
        """Make the source that the section [source] describes."""
        if home is None:
            raise ConfigurationError(["source.kind mqtt must have a broker: set home.broker."])
        meter = meter_of(settings)
        return cls(home, meter.topic, meter.path, scale=settings.scale, states=settings.states)

    def read(self) -> list[Reading]:
        """Return the readings that came; none where the meter says null or nan.

        Raises:
            SourceFailed: If nothing came and the broker refuses or is away, or if a message has no
                number there; the others are lost, too.
        """
        with self._lock:
            waiting, self._waiting = self._waiting, []
            trouble = self._trouble
        if trouble is not None and not waiting:
            raise SourceFailed(self.KIND, f"the broker {trouble}.")
        found = [self._value(message) for message in waiting]
        return [
            reading_in(self.KIND, value, scale=self._scale, states=self._states)
            for value in found
            if value is not None
        ]

    def close(self) -> None:
        """Leave the broker."""
        self._client.disconnect()
        self._client.loop_stop()
        self._client.on_connect = self._client.on_message = None
        self._client.on_connect_fail = self._client.on_disconnect = None

    def _value(self, message: bytes) -> Any:
        if not self._path:
            return None if message.strip().lower() in _NO_NUMBER else message
        try:
            return found_at(json.loads(message), self._path)
        except (ValueError, RecursionError):
            raise SourceFailed(self.KIND, "must publish JSON; it does not.") from None

    def _on_connect(self, client: "Client", _: Any, flags: Any, code: Any, properties: Any) -> None:
        with self._lock:
            self._trouble = f"refuses: {code}" if code.is_failure else None
        if not code.is_failure:
            client.subscribe(self._topic)

    def _not_reached(self, client: "Client", _: Any) -> None:
        with self._lock:
            self._trouble = "does not answer"

    def _on_disconnect(
        self, client: "Client", _: Any, flags: Any, code: Any, properties: Any
    ) -> None:
        with self._lock:
            # A broker that refuses ends the connection, too, and has said why.
            self._trouble = self._trouble or "is gone"

    def _on_message(self, client: "Client", _: Any, message: "MQTTMessage") -> None:
        if message.retain:
            return
        with self._lock:
            self._waiting.append(bytes(message.payload))
            del self._waiting[:-_MOST_WAITING]
