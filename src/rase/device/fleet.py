"""You against the fleet: the owner's mean and the public estimates of the same rounds, at home.

Estimates come as retained messages of a broker that the owner names. Reading them sends nothing but
the subscription, the same for every device of a campaign: the broker learns that somebody reads,
and the fusion centre nothing. The comparison is made here and stays here.
"""

import json
import math
import secrets
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rase.campaign import Campaign
from rase.device.comparison import RoundSeen
from rase.device.states import reported
from rase.wire.frames import Topics

if TYPE_CHECKING:
    from paho.mqtt.client import Client, MQTTMessage

    from rase.transport.broker import Broker

__all__ = ["Against", "FleetEstimates", "FleetReader", "compare"]

# As many as the owner's page keeps of the device.
_MOST_ROUNDS: Final = 192
_MOST_BYTES: Final = 1 << 17


@dataclass(frozen=True, slots=True)
class _Known:
    value: float
    # The larger half of its interval: one that ends at the range has a short side.
    reach: float


@dataclass(frozen=True, slots=True)
class Against:
    """The device and the fleet, over the rounds that are known of both.

    Args:
        state: The state whose share it is about; None for a mean.
        own: The device's own mean, or share of the rounds.
        fleet: The fleet's.
        low: Lower end of the interval of the fleet's.
        high: Its upper end.
        rounds: How many rounds.
    """

    state: str | None
    own: float = field(repr=False)
    fleet: float
    low: float
    high: float
    rounds: int

    @property
    def word(self) -> str:
        """Say ``above`` or ``below`` where that is sure, and else ``alike``.

        Guarantee: where both are the same it says ``alike`` in 95 of 100 cases or more, as far as
        the intervals of the estimates hold; errors of rounds are added up as if all of them went
        the same way. Tested by simulation in tests/device/test_fleet_estimates.py.
        """
        if self.own > self.high:
            return "above"
        return "below" if self.own < self.low else "alike"


class FleetEstimates:
    """Keep the public estimates of the last rounds; safe to use from several threads.

    Args:
        campaign: The campaign's id; messages about another one are left out.
    """

    def __init__(self, campaign: str) -> None:
        self._campaign = campaign
        self._lock = threading.Lock()
        self._rounds: dict[int, Mapping[str | None, _Known]] = {}

    @property
    def rounds(self) -> dict[int, Mapping[str | None, _Known]]:
        """What is known by round: by state, or under None where it is a mean."""
        with self._lock:
            return dict(self._rounds)

    def take(self, payload: bytes) -> bool:
        """Keep what a message says; return whether it said something.

        Whoever writes to the broker writes this: what cannot be read is left out.
        """
        found: dict[str | None, _Known] = {}
        numbers = set()
        for row in _rows_in(payload):
            known = self._read(row)
            if known is None:
                return False
            round, state, one = known
            numbers.add(round)
            found[state] = one
        if len(numbers) != 1:
            return False
        with self._lock:
            self._rounds[numbers.pop()] = found
            while len(self._rounds) > _MOST_ROUNDS:
                del self._rounds[min(self._rounds)]
        return True

    def _read(self, row: Any) -> tuple[int, str | None, _Known] | None:
        if not isinstance(row, dict) or row.get("campaign") != self._campaign:
            return None
        round, state = row.get("round"), row.get("category")
        numbers = [row.get(name) for name in ("value", "low", "high")]
        is_plain = (
            isinstance(round, int)
            and not isinstance(round, bool)
            and (state is None or isinstance(state, str))
            and all(
                isinstance(one, int | float) and not isinstance(one, bool) and math.isfinite(one)
                for one in numbers
            )
        )
        if not is_plain:
            return None
        value, low, high = (float(one) for one in numbers if one is not None)
        return int(round or 0), state, _Known(value, max(high - value, value - low, 0.0))


class FleetReader:
    """Read the retained estimates of a campaign until closed; the network has a thread of its own.

    Args:
        broker: Where they are published.
        estimates: Takes them.
        campaign: The campaign's id.
    """

    def __init__(self, broker: "Broker", estimates: FleetEstimates, campaign: str) -> None:
        topic = Topics(campaign).estimate
        # A name of its own for each run, and no lasting session: the broker cannot know whether
        # it is the same device as yesterday.
        self._client = broker.client(f"rase-{secrets.token_hex(8)}")
        self._client.on_connect = lambda client, *_: client.subscribe(topic, 0)
        self._estimates = estimates
        self._client.on_message = self._on_message
        self._client.reconnect_delay_set(1, 300)
        self._client.connect_async(broker.host, broker.port, broker.keepalive_s)
        self._client.loop_start()

    def _on_message(self, client: "Client", _: Any, message: "MQTTMessage") -> None:
        self._estimates.take(bytes(message.payload))

    def close(self) -> None:
        """Leave."""
        self._client.disconnect()
        self._client.loop_stop()
        self._client.on_connect = self._client.on_message = None


def compare(
    rounds: Iterable[RoundSeen], estimates: FleetEstimates, campaign: Campaign
) -> list[Against]:
    """Compare the device with the fleet; nothing if no round is known of both.

    A mean is clipped to the campaign's range first, as the fleet's readings are.

    Args:
        rounds: What the device measured.
        estimates: What is public about the fleet.
        campaign: What both are about.
    """
    known = estimates.rounds
    pairs = [
        (one.measured, known[one.round])
        for one in rounds
        if one.measured is not None and one.round in known
    ]
    states: tuple[str | None, ...] = campaign.categories or (None,)
    found = []
    for state in states:
        own, fleet = [], []
        for measured, public in pairs:
            if state in public:
                own.append(_own(measured, state, campaign))
                fleet.append(public[state])
        if own:
            value = math.fsum(one.value for one in fleet) / len(fleet)
            # Rounds of an estimate that remembers go wrong together: no error cancels another.
            reach = math.fsum(one.reach for one in fleet) / len(fleet)
            mean = math.fsum(own) / len(own)
            found.append(Against(state, mean, value, value - reach, value + reach, len(own)))
    return found


def _rows_in(payload: bytes) -> list[Any]:
    try:
        document = json.loads(payload) if len(payload) <= _MOST_BYTES else None
    except (ValueError, RecursionError):
        return []
    rows = document.get("shares", [document]) if isinstance(document, dict) else []
    return rows if isinstance(rows, list) else []


def _own(measured: float, state: str | None, campaign: Campaign) -> float:
    if state is None:
        return min(max(measured, campaign.low), campaign.high)
    return float(reported(campaign, measured) == state)
