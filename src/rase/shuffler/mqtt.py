"""Reports through a broker: acknowledged after the commit, answered, and the policy kept there.

Several intake processes share one subscription (MQTT 5); each has a client id of its own and a
session that the broker keeps. What is not acknowledged when a process dies, the broker brings
again, perhaps to another; a report that was stored before is known by its bytes.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from rase.clock import Clock
from rase.service.broker_settings import BrokerSettings
from rase.service.telemetry import Telemetry
from rase.shuffler.report_handler import ReportHandler
from rase.transport.broker import Broker
from rase.transport.session import Arrived, BrokerSession
from rase.wire.frames import TAG_BYTES, Policy, Topics, answer_frame, report_id

__all__ = ["MqttIntake", "mqtt_intake"]

_SHARED: Final = "$share/rase/" + Topics("+").report("+")
_LOOK_S: Final = 1.0
_STATUS_S: Final = 60
# A status that nobody renews vanishes from the broker by itself.
_STATUS_LIFE_S: Final = 3 * _STATUS_S
_RETRY_S: Final = 5.0
_UNAVAILABLE: Final = 503


@asynccontextmanager
async def mqtt_intake(
    handler: ReportHandler, settings: BrokerSettings, *, clock: Clock, telemetry: Telemetry
) -> AsyncIterator[None]:
    """Take reports in through a broker while the block lasts.

    Args:
        handler: Checks and stores them.
        settings: The broker.
        clock: Gives which versions are published.
        telemetry: Logs what happens.
    """
    intake = MqttIntake(
        handler,
        Broker.of(settings),
        client_id=settings.client_id or "rase-shuffler",
        clock=clock,
        telemetry=telemetry,
    )
    task = asyncio.create_task(intake.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await intake.aclose()


class MqttIntake:
    """The session of one intake process.

    Args:
        handler: Checks and stores reports.
        broker: How the broker is reached.
        client_id: Fixed, and different for each process.
        clock: Gives which versions are published.
        telemetry: Logs what happens.
    """

    def __init__(
        self,
        handler: ReportHandler,
        broker: Broker,
        *,
        client_id: str,
        clock: Clock,
        telemetry: Telemetry,
    ) -> None:
        self._handler = handler
        self._clock = clock
        self._telemetry = telemetry
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._policies: dict[str, bytes] = {}
        self._status_sent_s = -float(_STATUS_S)
        self._is_new = False
        self._renewing = False
        self._session = BrokerSession(
            broker,
            client_id,
            subscriptions=[_SHARED],
            on_message=self._hand_over,
            on_change=self._on_change,
        )

    async def run(self) -> None:
        """Connect; publish policies and status whenever they change, for ever."""
        self._session.start()
        while True:
            self._woken.clear()
            if self._session.is_up:
                if self._is_new:
                    self._is_new = False
                    self._policies.clear()
                self._publish_policies()
                self._publish_status()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), _LOOK_S)

    async def aclose(self) -> None:
        """Answer what is under way, say farewell, and disconnect; the broker keeps the session."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_RETRY_S)
        last = [self._status(campaign, "offline") for campaign in self._policies]
        await asyncio.to_thread(self._session.stop, *last)

    def _publish_policies(self) -> None:
        documents, now_s = self._handler.documents, self._clock.now_s()
        if documents.keyset is None:
            return
        for campaign in {agreed.campaign.id for agreed in documents}:
            versions = documents.published_bytes(campaign, now_s=now_s)
            if versions is None:  # pragma: no cover - it was in the documents
                continue
            policy = Policy(versions, documents.signed_keyset).to_bytes()
            if self._policies.get(campaign) != policy:
                self._session.publish(Topics(campaign).policy, policy, is_retained=True)
                self._policies[campaign] = policy
                self._status_sent_s = -float(_STATUS_S)
                self._telemetry.event("policy_published", campaign=campaign)

    def _publish_status(self) -> None:
        passed_s = self._clock.monotonic_s()
        if passed_s - self._status_sent_s >= _STATUS_S:
            self._status_sent_s = passed_s
            for campaign in self._policies:
                self._status(campaign, "online")

    def _status(self, campaign: str, word: str) -> object:
        status = {"v": 1, "status": word}
        return self._session.publish(
            Topics(campaign).status("shuffler"),
            json.dumps(status).encode(),
            is_retained=True,
            expires_s=_STATUS_LIFE_S,
        )

    def _on_change(self, reason: str | None) -> None:
        """Note in the network's thread what became of the connection."""
        if reason is None:
            # A broker that lost its memory is sent everything once more, by the loop's own thread.
            self._is_new = True
            self._telemetry.count("broker_connections")
            self._telemetry.event("broker_connected")
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._woken.set)
        else:
            self._telemetry.event("broker_lost", error=reason)

    def _hand_over(self, arrived: Arrived) -> None:
        """Bring a message from the network's thread into the event loop's."""
        # The loop may have ended meanwhile; the broker keeps the message.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._begin, arrived)

    def _begin(self, arrived: Arrived) -> None:
        task = self._loop.create_task(self._take(arrived))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take(self, arrived: Arrived) -> None:
        _, campaign, _, handle = arrived.topic.split("/")
        self._telemetry.count("mqtt_messages")
        try:
            reply, key = await self._handler.take_frame(handle, arrived.payload)
        except Exception as error:  # noqa: BLE001 - logged by its kind; it is of this message alone
            self._telemetry.event("unexpected", error=type(error).__name__)
            # Done with: its device sends the same bytes again until it is answered.
            self._session.acknowledge(arrived)
            return
        answer = answer_frame(report_id(arrived.payload[:-TAG_BYTES]), handle, reply, key)
        # Not kept for a device that has gone: it asks again, with the same bytes.
        self._session.publish(Topics(campaign).answer(handle), answer, qos=0)
        if reply.status == _UNAVAILABLE:
            self._renew_later()
        else:
            self._session.acknowledge(arrived)

    def _renew_later(self) -> None:
        """Have the broker bring again what could not be stored, after a pause for all of it."""
        if not self._renewing:
            self._renewing = True
            self._loop.call_later(_RETRY_S, self._renew)

    def _renew(self) -> None:
        self._renewing = False
        self._session.renew()
