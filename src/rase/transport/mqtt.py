"""MQTT 3.1.1 for devices: campaign and keys as a retained message, reports at QoS 1.

Each question has a connection of its own, with a random client id, no last will and nothing
retained: a lasting session would show the broker when somebody is at home. The broker's
acknowledgement is not taken for the shuffler's: a report is sent again, the same bytes, until the
shuffler itself has answered.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from rase.clock import SystemClock
from rase.errors import WireError
from rase.transport.broker import Broker
from rase.transport.interface import MAX_RETRY_AFTER_S, Answer, Unreachable
from rase.wire.frames import (
    Policy,
    Reply,
    Topics,
    broker_password,
    credential_key,
    handle_of,
    read_answer,
    report_frame,
    report_id,
)
from rase.wire.problems import PROBLEM_TYPES, Problem

if TYPE_CHECKING:
    from paho.mqtt.client import Client, MQTTMessage

__all__ = ["MqttTransport"]

_REPORTS_PATH: Final = "/v1/reports"
_KEYSET_PATH: Final = "/v1/keyset"


class MqttTransport:
    """Speak to the shuffler through a broker.

    Args:
        broker: How the broker is reached; without a user, the device's handle and a password
            derived from its credential are shown.
        campaign: The campaign's id.
        credential: The device's; its secret part never leaves this process.
    """

    def __init__(self, broker: Broker, *, campaign: str, credential: str) -> None:
        self._topics = Topics(campaign)
        self._versions_path = f"/v1/campaigns/{campaign}/versions"
        self._handle = handle_of(credential)
        self._key = credential_key(credential.partition(".")[2])
        if broker.user is None:
            broker = replace(broker, user=self._handle, password=broker_password(self._key))
        self._broker = broker
        self._clock = SystemClock()
        # What the last message held besides what was asked for.
        self._extra: dict[str, bytes] = {}

    def get(self, path: str, *, etag: str | None = None) -> Answer:
        """Ask for the campaign's versions or the keyset; both come in one message.

        Raises:
            Unreachable: If no answer came.
        """
        if path not in (self._versions_path, _KEYSET_PATH):
            return Answer(404)
        if path not in self._extra:
            policy = self._policy()
            self._extra = {self._versions_path: policy.versions, _KEYSET_PATH: policy.keyset}
        body = self._extra.pop(path)
        found = hashlib.sha256(body).hexdigest()[:32]
        return Answer(304, etag=found) if found == etag else Answer(200, body, etag=found)

    def post(
        self, path: str, body: bytes, *, content_type: str, credential: str | None = None
    ) -> Answer:
        """Publish a report and wait for the shuffler's answer.

        Raises:
            Unreachable: If none came; the shuffler may have got the report all the same.
        """
        if path != _REPORTS_PATH:
            return Answer(404)
        expected, found = report_id(body), list[Reply]()

        def take(payload: bytes) -> None:
            read = read_answer(payload, self._handle, self._key)
            # A late answer to an earlier report is not this one's.
            if read is not None and read[0] == expected:
                found.append(read[1])

        with self._subscription(self._topics.answer(self._handle), take) as (client, turn):
            client.publish(
                self._topics.report(self._handle),
                report_frame(body, self._handle, self._key),
                qos=1,
            )
            turn(lambda: bool(found), "the shuffler does not answer")
        reply = found[0]
        if reply.problem is None:
            return Answer(reply.status)
        kind = PROBLEM_TYPES.get(reply.problem)
        problem = b"" if kind is None else Problem(kind).to_json()
        # Not every answer has a tag: a broker may have written any number there.
        wait_s = None
        if reply.retry_after_s is not None:
            wait_s = min(max(reply.retry_after_s, 0), MAX_RETRY_AFTER_S)
        return Answer(reply.status, problem, retry_after_s=wait_s)

    def _policy(self) -> Policy:
        found = list[bytes]()
        with self._subscription(self._topics.policy, found.append) as (_, turn):
            turn(lambda: bool(found), "no campaign is published")
        try:
            return Policy.from_bytes(found[0])
        except WireError:
            raise Unreachable(f"{self._broker.host} holds no policy of this protocol.") from None

    @contextmanager
    def _subscription(
        self, topic: str, take: Callable[[bytes], None]
    ) -> "Iterator[tuple[Client, Callable[[Callable[[], bool], str], None]]]":
        """Connect and subscribe; yield the client and what turns its wheel until something is."""
        client = self._broker.client(secrets.token_hex(8))
        refused, granted = list[str](), list[int]()

        def on_connect(client: "Client", _: Any, flags: Any, code: Any, properties: Any) -> None:
            if code.is_failure:
                refused.append(f"the broker refuses: {code}")
            else:
                client.subscribe(topic, qos=1)

        def on_subscribe(client: "Client", _: Any, mid: int, codes: Any, properties: Any) -> None:
            if codes[0].is_failure:
                refused.append("the broker refuses the subscription")
            else:
                granted.append(mid)

        def on_message(client: "Client", _: Any, message: "MQTTMessage") -> None:
            take(bytes(message.payload))

        client.on_connect = on_connect
        client.on_subscribe = on_subscribe
        client.on_message = on_message

        def turn(is_done: Callable[[], bool], why: str) -> None:
            end_s = self._clock.monotonic_s() + self._broker.timeout_s
            while not is_done():
                left_s = end_s - self._clock.monotonic_s()
                is_up = left_s > 0 and client.loop(min(left_s, 1.0)) == 0
                if refused or not is_up:
                    reason = refused[0] if refused else why if left_s <= 0 else "connection lost"
                    raise Unreachable(f"{self._broker.host}: {reason}.")

        try:
            client.connect(self._broker.host, self._broker.port, self._broker.keepalive_s)
            turn(lambda: bool(granted), "the broker does not answer")
            yield client, turn
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise Unreachable(f"{self._broker.host} does not answer: {reason}.") from None
        finally:
            with suppress(OSError):
                client.disconnect()
                # One more turn, so that the farewell is sent.
                client.loop(0.1)
            # Without these the client is let go of at once, and its sockets with it.
            client.on_connect = client.on_subscribe = client.on_message = None
