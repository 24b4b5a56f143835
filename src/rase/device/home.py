"""What the owner sees on the home broker: budget left, last sent, a switch for sharing.

It says nothing that the owner cannot read with ``rase budget``, and goes to the owner's broker
alone, never to the one that collects.
"""

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from rase.accounting.ledger import LedgerUnusable
from rase.clock import Clock, time_in_words
from rase.device.folder import DeviceFolder
from rase.device.journal import Journal
from rase.device.reporter import LedgerFace
from rase.device.settings import AT_HOME
from rase.transport.broker import Broker
from rase.transport.discovery import Discovery, Entity
from rase.transport.session import Arrived, BrokerSession
from rase.version import __version__

if TYPE_CHECKING:
    from rase.device.fleet import Against

__all__ = ["HomeEntities", "owner_discovery"]

_WORDS: Final = {b"ON": True, b"OFF": False}


def owner_discovery(name: str, at_home: str = AT_HOME[0]) -> Discovery:
    """Return what describes a device to Home Assistant.

    Args:
        name: The device's name at home, of small letters, digits, - and _.
        at_home: What the owner's broker gets of the comparison with the fleet, of `AT_HOME`.
    """
    root = f"rase/agent/{name}"
    compared: tuple[Entity, ...] = ()
    if at_home != AT_HOME[0]:
        shown = {"val_tpl": "{{ value_json.fleet }}"}
        shown |= {"stat_cla": "measurement"} if at_home == "difference" else {}
        compared = (Entity("fleet", "Against the fleet", "sensor", shown),)
    entities = (
        Entity(
            "budget_left",
            "Budget left",
            "sensor",
            {"val_tpl": "{{ value_json.budget_left }}", "stat_cla": "measurement"},
        ),
        Entity(
            "last_sent",
            "Last sent",
            "sensor",
            {"val_tpl": "{{ value_json.last_sent }}", "dev_cla": "timestamp"},
        ),
        Entity(
            "share",
            "Share",
            "switch",
            {"val_tpl": "{{ value_json.share }}", "cmd_t": f"{root}/share/set"},
        ),
        *compared,
    )
    return Discovery(
        id=f"rase_agent_{name}",
        name=f"RASE {name}",
        model="device agent",
        version=__version__,
        state_topic=f"{root}/state",
        entities=entities,
        shared={"avty_t": f"{root}/availability"},
    )


class HomeEntities:
    """Keep the owner's entities up to date, and obey the switch.

    It is a journal, too, that passes notes on: so it learns when an envelope was taken. Cover
    reports look like others there.

    Args:
        broker: The broker in the home.
        name: The device's name there.
        folder: Where sharing is paused and resumed.
        clock: Gives the time.
        journal: Where notes go.
        at_home: What goes here of the comparison with the fleet, of `AT_HOME`. The difference and
            the public mean give away the device's own mean, so the owner must ask for it.
    """

    def __init__(
        self,
        broker: Broker,
        name: str,
        *,
        folder: DeviceFolder,
        clock: Clock,
        journal: Journal,
        at_home: str = AT_HOME[0],
    ) -> None:
        self._root = f"rase/agent/{name}"
        self._folder = folder
        self._clock = clock
        self._journal = journal
        self._sent_s: float | None = None
        self._published = b""
        self._state: dict[str, Any] = {"v": 1}
        self._at_home = at_home
        self._discovery = owner_discovery(name, at_home)
        tag = hashlib.sha256(b"rase 1 home" + folder.device_secret()).hexdigest()[:8]
        self._session = BrokerSession(
            broker,
            # Two agents of one name would otherwise end each other's connections for ever.
            f"rase-agent-{name}-{tag}",
            subscriptions=[f"{self._root}/share/set"],
            on_message=self._on_switch,
            on_change=self._on_change,
            will=(f"{self._root}/availability", b"offline"),
        )
        self._session.start()

    def note(self, event: str, **fields: object) -> None:
        """Write down an event."""
        if event == "sent":
            self._sent_s = self._clock.now_s()
        self._journal.note(event, **fields)

    def publish_state(self, ledger: LedgerFace, against: "Sequence[Against]" = ()) -> None:
        """Publish how things stand, if that changed.

        Args:
            ledger: What is spent.
            against: The device compared with the fleet.
        """
        try:
            status = ledger.status(int(self._clock.now_s()))
        except LedgerUnusable:
            # The agent has reported it already; here the last state stays.
            return
        self._state = {
            "v": 1,
            "share": "OFF" if self._folder.is_paused or self._folder.is_off else "ON",
            "budget_left": min(status.span_left, status.total_left),
            "last_sent": None if self._sent_s is None else time_in_words(self._sent_s),
            **self._details_of(against),
        }
        self._publish()

    def _details_of(self, against: "Sequence[Against]") -> dict[str, Any]:
        """Return what the owner wants to see here of the comparison with the fleet."""
        if self._at_home == AT_HOME[0]:
            return {}
        words = {one.state: one.word for one in against}
        if self._at_home == "words":
            if None in words or not words:
                return {"fleet": words.get(None)}
            return {"fleet": ", ".join(f"{state} {word}" for state, word in words.items())}
        rows = {
            one.state or "mean": {
                "difference": one.own - one.fleet,
                "low": one.own - one.high,
                "high": one.own - one.low,
                "rounds": one.rounds,
            }
            for one in against
        }
        first = next(iter(rows.values()), None)
        return {"fleet": None if first is None else first["difference"], "details": rows}

    def close(self) -> None:
        """Say that the agent is not there, and leave."""
        last = self._session.publish(f"{self._root}/availability", b"offline", is_retained=True)
        self._session.stop(last)

    def _publish(self) -> None:
        state = json.dumps(self._state).encode()
        if state != self._published and self._session.is_up:
            self._published = state
            self._session.publish(f"{self._root}/state", state, is_retained=True)

    def _on_change(self, reason: str | None) -> None:
        if reason is not None:
            return
        # After a connection everything is published again.
        self._published = b""
        found = self._discovery
        self._session.publish(found.topic, found.payload(), is_retained=True)
        self._session.publish(f"{self._root}/availability", b"online", is_retained=True)
        if len(self._state) > 1:
            self._publish()

    def _on_switch(self, arrived: Arrived) -> None:
        is_on = _WORDS.get(arrived.payload)
        if is_on is not None:
            # A folder that cannot be written stays as it is; the next state is right again.
            with suppress(OSError):
                self._folder.resume() if is_on else self._folder.pause()
                self._state = {
                    **self._state,
                    "share": "ON" if is_on and not self._folder.is_off else "OFF",
                }
                self._publish()
        self._session.acknowledge(arrived)
