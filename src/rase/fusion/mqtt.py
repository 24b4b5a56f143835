"""Estimates to a broker: each final round and its windows, retained; entities for Home Assistant.

Who reads them there is the broker's business; unlike over HTTP, there is no access log.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, replace
from typing import Any, Final

from rase.answer import Answer
from rase.campaign import Campaign
from rase.errors import ConfigurationError
from rase.fusion.alarms import QUIET, RAISED, AlarmEvent
from rase.fusion.campaigns import known_campaigns
from rase.fusion.centre import FusionCentre
from rase.fusion.formats import as_json
from rase.fusion.parts import EVERY, Part
from rase.fusion.settings import AlarmSettings, FusionBrokerSettings
from rase.fusion.shares import shares_of_round
from rase.transport.broker import Broker
from rase.transport.discovery import Discovery, Entity, unit_fields
from rase.transport.session import BrokerSession
from rase.version import __version__
from rase.wire.frames import Topics

__all__ = ["fleet_discovery", "publishing", "send_test_event"]

_LOOK_S: Final = 1.0
_STATUS_S: Final = 60
# A status that nobody renews vanishes from the broker by itself.
_STATUS_LIFE_S: Final = 3 * _STATUS_S
# Entities whose last round is this many rounds old are shown as unavailable.
_STALE_ROUNDS: Final = 3
_TEST_S: Final = 10.0


def fleet_discovery(campaign: Campaign, alarms: Sequence[AlarmSettings] = ()) -> Discovery:
    """Return what Home Assistant is sent about a campaign's fleet.

    Args:
        campaign: The campaign.
        alarms: The alarms on its answers, each of which is a binary sensor.
    """
    found = _fleet_discovery(campaign)
    sensors = (
        Entity(
            f"alarm_{one.name}",
            f"Alarm {one.name}",
            "binary_sensor",
            {
                "val_tpl": "{{ value_json.state }}",
                "stat_t": Topics(campaign.id).alarm(one.name),
                "pl_on": RAISED,
                "pl_off": QUIET,
                "dev_cla": "problem",
            },
        )
        for one in alarms
        if one.campaign == campaign.id
    )
    return replace(found, entities=(*found.entities, *sensors))


def _fleet_discovery(campaign: Campaign) -> Discovery:
    if campaign.states is not None:
        return _discovery(campaign, _share_entities(campaign), model="private shares of states")
    mean = unit_fields(campaign.unit)
    by_label = (
        Entity(
            f"label_{number}",
            f"Mean of {label}",
            "sensor",
            {
                "val_tpl": "{{ value_json.value }}",
                "stat_t": Topics(campaign.id).label(label),
                **mean,
            },
        )
        for number, label in enumerate(campaign.labels, 1)
    )
    entities = (
        Entity("value", "Mean", "sensor", {"val_tpl": "{{ value_json.value }}", **mean}),
        Entity("low", "Interval low", "sensor", {"val_tpl": "{{ value_json.low }}", **mean}),
        Entity("high", "Interval high", "sensor", {"val_tpl": "{{ value_json.high }}", **mean}),
        *by_label,
        Entity("n", "Reports", "sensor", {"val_tpl": "{{ value_json.n }}", **unit_fields("")}),
        Entity(
            "local_epsilon",
            "Local epsilon",
            "sensor",
            {"val_tpl": "{{ value_json.local_epsilon }}", "ent_cat": "diagnostic"},
        ),
        *_shuffled_entities(campaign),
        Entity(
            "final",
            "Estimate is final",
            "sensor",
            {"val_tpl": "{{ value_json.final }}", "ent_cat": "diagnostic"},
        ),
        Entity(
            "time",
            "Last round",
            "sensor",
            {"val_tpl": "{{ value_json.time }}", "dev_cla": "timestamp"},
        ),
    )
    return _discovery(campaign, entities, model=f"private mean of {campaign.quantity}")


def _share_entities(campaign: Campaign) -> tuple[Entity, ...]:
    """Return an entity for the share of each state, of all devices and of each label."""
    topics = Topics(campaign.id)
    places = [("", "", topics.estimate)]
    places += [
        (f"label_{number}_", f" of {label}", topics.label(label))
        for number, label in enumerate(campaign.labels, 1)
    ]
    percent = {"unit_of_meas": "%", "stat_cla": "measurement"}
    return tuple(
        Entity(
            f"{key}share_{number}",
            f"Share {name}{words}",
            "sensor",
            {
                "val_tpl": f"{{{{ (100 * value_json.shares[{number}].value) | round(2) }}}}",
                "stat_t": topic,
                **percent,
            },
        )
        for key, words, topic in places
        for number, name in enumerate(campaign.categories)
    )


def _discovery(campaign: Campaign, entities: Iterable[Entity], *, model: str) -> Discovery:
    stale_s = _STALE_ROUNDS * campaign.round_s + campaign.grace_s
    return Discovery(
        id=f"rase_{campaign.id}",
        name=f"Fleet {campaign.id}",
        model=model,
        version=__version__,
        state_topic=Topics(campaign.id).estimate,
        entities=tuple(
            Entity(one.key, one.name, one.platform, {**one.fields, "exp_aft": stale_s})
            for one in entities
        ),
        shared={},
    )


def _shuffled_entities(campaign: Campaign) -> list[Entity]:
    """Return the promise towards the fusion centre as an entity, where there is one."""
    if campaign.shuffled_epsilon is None:
        return []
    shown = {"val_tpl": "{{ value_json.shuffled_epsilon }}", "ent_cat": "diagnostic"}
    return [Entity("shuffled_epsilon", "Shuffled epsilon", "sensor", shown)]


def send_test_event(settings: FusionBrokerSettings, event: AlarmEvent) -> None:
    """Publish a test event on the topic of its alarm; it is not retained, so the state stays.

    Args:
        settings: The broker.
        event: The event.

    Raises:
        ConfigurationError: If the broker cannot be reached, or refuses.
    """
    broker = Broker.of(settings)
    # A connection of its own, so that a running fusion centre keeps the one it has.
    client, topic = broker.client("", is_lasting=True), Topics(event.campaign).alarm(event.alarm)
    ended, problems = threading.Event(), list[str]()

    def on_connect(_: Any, __: Any, ___: Any, code: Any, ____: Any) -> None:
        if code.is_failure:
            problems.append(str(code))
            ended.set()
        else:
            client.publish(topic, json.dumps(asdict(event)).encode(), qos=1)

    def on_publish(_: Any, __: Any, ___: Any, code: Any, ____: Any) -> None:
        problems.extend([str(code)] if code.is_failure else [])
        ended.set()

    client.on_connect, client.on_publish = on_connect, on_publish
    try:
        client.connect(broker.host, broker.port, broker.keepalive_s)
    except (OSError, ValueError) as error:
        problems.append(type(error).__name__)
    else:
        client.loop_start()
        if not ended.wait(_TEST_S):
            problems.append("no answer")
        client.disconnect()
        client.loop_stop()
    if problems:
        raise ConfigurationError([f"fusion.mqtt: the broker did not take it: {problems[0]}."])


@asynccontextmanager
async def publishing(centre: FusionCentre, settings: FusionBrokerSettings) -> AsyncIterator[None]:
    """Publish estimates while the block lasts.

    Args:
        centre: Where they come from.
        settings: The broker.
    """
    publisher = _Publisher(centre, settings)
    centre.on_final.append(publisher.wake)
    task = asyncio.create_task(publisher.run())
    try:
        yield
    finally:
        centre.on_final.remove(publisher.wake)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await publisher.aclose()


class _Publisher:
    """The session, and which round of each campaign was published last."""

    def __init__(self, centre: FusionCentre, settings: FusionBrokerSettings) -> None:
        self._centre = centre
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._seen: dict[str, int] = {}
        self._status_sent_s: dict[str, float] = {}
        self._alarm_states: dict[str, str] = {}
        self._is_new = False
        self._publishing: asyncio.Future[None] | None = None
        self._session = BrokerSession(
            Broker.of(settings), settings.client_id or "rase-fusion", on_change=self._on_change
        )

    def wake(self) -> None:
        """Look for new rounds at once; may be called from any thread."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._woken.set)

    async def run(self) -> None:
        """Connect and publish, for ever; what fails is tried again."""
        self._session.start()
        while True:
            self._woken.clear()
            if self._session.is_up:
                self._publishing = asyncio.ensure_future(asyncio.to_thread(self._publish))
                try:
                    await asyncio.shield(self._publishing)
                except Exception as error:  # noqa: BLE001 - whatever it was, it is tried again
                    self._centre.telemetry.event("publish_failed", error=type(error).__name__)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), _LOOK_S)

    async def aclose(self) -> None:
        """Say farewell and disconnect."""
        if self._publishing is not None:
            # Its thread goes on when the task ends; "online" must not come after the farewell.
            await asyncio.gather(self._publishing, return_exceptions=True)
        last = [self._status(campaign, "offline") for campaign in self._seen]
        await asyncio.to_thread(self._session.stop, *last)

    def _publish(self) -> None:
        centre = self._centre
        if self._is_new:
            self._is_new = False
            self._seen.clear()
            self._alarm_states.clear()
            self._status_sent_s.clear()
        with self._centre.database.snapshot() as transaction:
            names = known_campaigns(transaction)
        questions = self._centre.questions
        for name in names:
            campaign = questions.campaign(name)
            if name not in self._seen:
                self._seen[name] = max(questions.last_sequence(campaign) - 1, 0)
                if self._settings.discovery:
                    alarms = () if centre.alarms is None else centre.alarms.all_settings
                    found = fleet_discovery(campaign, alarms)
                    self._session.publish(found.topic, found.payload(), is_retained=True)
            published: int | None = None
            for event in questions.events_after(campaign, self._seen[name]):
                # A round of states has several answers, and one message for all of them.
                if campaign.states is None or event.answer.round != published:
                    self._publish_round(campaign, event.answer)
                published = event.answer.round
                self._seen[name] = event.sequence
            passed_s = self._centre.clock.monotonic_s()
            if passed_s - self._status_sent_s.get(name, -float(_STATUS_S)) >= _STATUS_S:
                self._status_sent_s[name] = passed_s
                self._status(name, "online")
        self._publish_alarms()

    def _publish_alarms(self) -> None:
        """Publish how alarms stand, where that changed."""
        if self._centre.alarms is None:
            return
        self._centre.alarms.look()
        for one in self._centre.alarms.status():
            if one.round is not None and self._alarm_states.get(one.alarm) != one.state:
                topic = Topics(one.campaign).alarm(one.alarm)
                body = json.dumps(asdict(one), allow_nan=False).encode()
                self._session.publish(topic, body, is_retained=True)
                self._alarm_states[one.alarm] = one.state

    def _publish_round(self, campaign: Campaign, answer: Answer) -> None:
        """Publish the answer about a round, or its shares, and those of its labels."""
        topics, questions = Topics(campaign.id), self._centre.questions
        if campaign.states is None:
            self._publish_answer(campaign, answer)
            if campaign.labels:
                for one in questions.between(
                    campaign, answer.round, answer.round, part=Part(EVERY)
                ):
                    if one.label is not None:
                        topic = topics.label(one.label)
                        self._session.publish(topic, as_json(one), is_retained=True)
            return
        places: list[tuple[str | None, str]] = [(None, topics.estimate)]
        places += [(label, topics.label(label)) for label in campaign.labels]
        for label, topic in places:
            found = shares_of_round(questions, campaign, answer.round, label=label)
            # Of a label that was merged nothing is said; what stands there is of an earlier round.
            if label is None or found.top:
                body = json.dumps(asdict(found), allow_nan=False).encode()
                self._session.publish(topic, body, is_retained=True)
        self._centre.telemetry.count("estimates_published")

    def _publish_answer(self, campaign: Campaign, answer: Answer) -> None:
        topics = Topics(campaign.id)
        self._session.publish(topics.estimate, as_json(answer), is_retained=True)
        last = answer.round
        for w in self._settings.windows:
            (windowed,) = self._centre.questions.windows(
                campaign,
                w,
                first=last,
                last=last,
                strict=self._settings.strict,
            )
            self._session.publish(topics.window(w), as_json(windowed), is_retained=True)
        self._centre.telemetry.count("estimates_published")

    def _status(self, campaign: str, word: str) -> object:
        return self._session.publish(
            Topics(campaign).status("fusion"),
            json.dumps({"v": 1, "status": word}).encode(),
            is_retained=True,
            expires_s=_STATUS_LIFE_S,
        )

    def _on_change(self, reason: str | None) -> None:
        """Note in the network's thread what became of the connection."""
        if reason is None:
            # A broker that lost its memory is sent everything again, by the thread that publishes.
            self._is_new = True
            self._centre.telemetry.count("broker_connections")
            self._centre.telemetry.event("broker_connected")
            self.wake()
        else:
            self._centre.telemetry.event("broker_lost", error=reason)
