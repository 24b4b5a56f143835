"""The owner's mean beside the fleet's: made at home, from public estimates, and honest."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.broker import Mosquitto
from tests.device.conftest import CAMPAIGN, START_ROUND, World
from tests.device.owning import HOURS, owned
from tests.device.test_home import Panel
from tests.device.test_settings import TABLES
from tests.patience import until
from tests.transport.test_discovery import check_discovery

from rase import Range, SeededRandom
from rase.counts.counts import Counts
from rase.counts.mean import unbiased_mean
from rase.device.comparison import RoundSeen
from rase.device.fleet import Against, FleetEstimates, FleetReader, compare
from rase.device.folder import DeviceFolder
from rase.device.home import HomeEntities, owner_discovery
from rase.device.settings import settings_of
from rase.errors import ConfigurationError
from rase.laws.optimal import Optimal
from rase.transport.session import BrokerSession
from rase.wire.frames import Topics

STATES = replace(
    CAMPAIGN, low=0, high=0, mechanism="randomized-response", categories=("on", "off", "other")
)


def message(number: int, mean: float, reach: float, **more: object) -> bytes:
    """Return a published estimate, as far as it is read."""
    row = {"campaign": CAMPAIGN.id, "round": number, "value": mean}
    return json.dumps(row | {"low": mean - reach, "high": mean + reach} | more).encode()


def seen(*measured: float | None) -> list[RoundSeen]:
    """Return what a device measured, from round 0 on."""
    return [RoundSeen(round, one) for round, one in enumerate(measured)]


def test_only_rounds_known_of_both_are_compared() -> None:
    """Clipped as the fleet's readings are; errors are averaged, as if all went one way."""
    fleet = FleetEstimates(CAMPAIGN.id)
    assert compare(seen(1.0), fleet, CAMPAIGN) == []
    for round, (value, reach) in enumerate(((400.0, 30.0), (500.0, 50.0), (900.0, 10.0))):
        assert fleet.take(message(round, value, reach))
    # A revision of the same round takes its place.
    assert fleet.take(message(1, 520.0, 40.0, revision=1))
    (found,) = compare(seen(300.0, 5000.0, None, 800.0), fleet, CAMPAIGN)
    assert found == Against(None, (300.0 + CAMPAIGN.high) / 2, 460.0, 425.0, 495.0, 2)
    assert found.word == "above"
    assert "3300" not in repr(found)
    assert str(found.own) not in repr(found)


def test_states_are_compared_by_their_shares_of_rounds() -> None:
    """Each beside the public share; what was measured stays a place of the campaign."""
    fleet = FleetEstimates(CAMPAIGN.id)
    rows = [
        {"campaign": CAMPAIGN.id, "round": 0, "category": name, "value": share}
        | {"low": share - 0.1, "high": share + 0.1}
        for name, share in (("on", 0.5), ("off", 0.3), ("other", 0.2))
    ]
    assert fleet.take(json.dumps({"shares": rows}).encode())
    found = {one.state: one for one in compare(seen(1.0, 0.0), fleet, STATES)}
    assert {name: (one.own, one.word) for name, one in found.items()} == {
        "on": (0.0, "below"),
        "off": (1.0, "above"),
        "other": (0.0, "below"),
    }


@pytest.mark.parametrize(
    "payload",
    [
        b"\xff",
        b"[1]",
        b'{"shares": 7}',
        b'{"shares": [7]}',
        b"[" * 5000,
        b" " * 200_000,
        message(0, math.nan, 1.0),
        message(0, 1.0, math.inf),
        message(0, 1.0, 1.0, campaign="another"),
        message(0, 1.0, 1.0, value=True),
        message(0, 1.0, 1.0, low=None),
        message(0, 1.0, 1.0, round="7"),
        message(0, 1.0, 1.0, category=[]),
        json.dumps({"shares": [json.loads(message(r, 1.0, 1.0)) for r in (1, 2)]}).encode(),
    ],
)
def test_what_cannot_be_read_is_left_out(payload: bytes) -> None:
    """Whoever may write to the broker writes such things."""
    fleet = FleetEstimates(CAMPAIGN.id)
    assert not fleet.take(payload)
    assert fleet.rounds == {}


def test_only_the_last_rounds_are_kept() -> None:
    """Memory does not grow."""
    fleet = FleetEstimates(CAMPAIGN.id)
    for round in range(500):
        fleet.take(message(round, 1.0, 1.0))
    assert (len(fleet.rounds), min(fleet.rounds)) == (192, 308)


def test_what_is_said_of_two_that_are_the_same_is_rarely_wrong() -> None:
    """At most 5 of 100 are told that they differ; of 1,000 trials 79 or more come once in 50,000.

    For one round as for four. Where they differ by four errors nearly all are told so, and an
    interval that is a third too short would be noticed.
    """
    law, trials, n = Optimal(1.0, Range(0, 3000)), 1000, 60
    wrong = short = found = 0
    for rounds in (1, 4):
        places = law.draw_many(np.full(trials * rounds * n, 1200.0), rng=SeededRandom(rounds))
        for each in places.reshape(trials // 2 * 2, rounds, n)[: trials // 2]:
            fleet, reach = FleetEstimates(CAMPAIGN.id), 0.0
            for round, reports in enumerate(each):
                one = unbiased_mean(Counts.of(reports), randomizer=law)
                low, high = one.interval(0.95)
                reach = max(high - one.value, one.value - low)
                assert fleet.take(message(round, one.value, reach, low=low, high=high))
            (same,) = compare(seen(*[1200.0] * rounds), fleet, HOURS)
            wrong += same.word != "alike"
            middle = (same.low + same.high) / 2
            short += rounds == 1 and abs(middle - 1200.0) > 2 / 3 * (same.high - middle)
            (other,) = compare(seen(*[min(1200.0 + 2 * reach, 3000.0)] * rounds), fleet, HOURS)
            found += other.word == "above"
    assert wrong < 79
    assert short > 60
    assert found > 900


def test_the_page_shows_both_and_sends_nothing(tmp_path: Path) -> None:
    """The card has both means, the interval and what it means; without a broker there is none."""
    fleet = FleetEstimates(CAMPAIGN.id)
    with owned(tmp_path / "device", estimates=fleet) as device:
        device.run(1)
        assert "No round is known yet of both" in device.get().text
        device.run(3)
        for round in range(START_ROUND, START_ROUND + 4):
            fleet.take(message(round, 2000.0, 100.0))
        text = device.get().text
        assert "You against the fleet" in text
        assert "yours is below" in text
        assert "1,900" in text
        envelopes = [one.envelope for one in device.comparison.rounds if one.envelope]
        assert not any(b"2000" in one for one in envelopes)
    with owned(tmp_path / "other") as device:
        device.run(2)
        assert "You against the fleet" not in device.get().text


def test_retained_estimates_arrive(tmp_path: Path) -> None:
    """At once, and each new one; the subscription is all that is sent."""
    mosquitto = Mosquitto(tmp_path / "broker")
    topic = Topics(CAMPAIGN.id).estimate
    session = BrokerSession(mosquitto.broker(), "fusion")
    session.start()
    fleet = FleetEstimates(CAMPAIGN.id)
    try:
        assert session.wait_up(10)
        session.publish(topic, message(7, 1.0, 1.0), is_retained=True).wait_for_publish(10)
        reader = FleetReader(mosquitto.broker(), fleet, CAMPAIGN.id)
        until(lambda: 7 in fleet.rounds)
        session.publish(topic, message(8, 2.0, 1.0), is_retained=True)
        until(lambda: 8 in fleet.rounds)
        reader.close()
    finally:
        session.stop()
        mosquitto.kill()


@pytest.mark.parametrize(
    ("told", "state"),
    [
        ("nothing", {}),
        ("words", {"fleet": "below"}),
        (
            "difference",
            {
                "fleet": -100.0,
                "details": {
                    "mean": {"difference": -100.0, "low": -150.0, "high": -50.0, "rounds": 2}
                },
            },
        ),
    ],
)
def test_home_is_told_what_the_owner_asked_for(
    world: World, tmp_path: Path, told: str, state: dict[str, Any]
) -> None:
    """Nothing unless asked; a word, which holds no number; or the difference."""
    mosquitto = Mosquitto(tmp_path / "broker")
    panel = Panel(mosquitto)
    entities = HomeEntities(
        mosquitto.broker(),
        "attic",
        folder=DeviceFolder(world.folder),
        clock=world.clock,
        journal=world.notes,
        at_home=told,
    )
    try:
        until(lambda: panel.last.get("rase/agent/attic/availability") == b"online")
        entities.publish_state(world.ledger(), [Against(None, 400.0, 500.0, 450.0, 550.0, 2)])
        found = panel.state()
        assert {name: found[name] for name in ("fleet", "details") if name in found} == state
        topic = owner_discovery("attic", told).topic
        until(lambda: topic in panel.last)
        assert ("fleet" in check_discovery(topic, panel.last[topic])["cmps"]) == bool(state)
        shares = [Against(one, 0.5, 0.6, 0.4, 0.8, 2) for one in ("on", "off")]
        if told == "words":
            entities.publish_state(world.ledger(), shares)
            until(lambda: panel.state()["fleet"] == "on alike, off alike")
    finally:
        entities.close()
        panel.close()
        mosquitto.kill()


def home(**fleet: object) -> dict[str, Any]:
    """Return settings with a broker at home and these of the fleet."""
    return {**TABLES, "home": {"broker": "mqtt://192.168.1.10"}, "fleet": fleet}


def test_settings_of_the_fleet_are_checked() -> None:
    """The word home stands for the owner's broker; what does not go together is named."""
    assert settings_of(home(broker="home"), {}).fleet.at_home == "nothing"
    assert settings_of(home(broker="home", at_home="words"), {}).fleet.at_home == "words"
    for tables, words in (
        (home(at_home="words"), "fleet.broker and home.broker must be given"),
        (home(broker="home", at_home="all"), "fleet.at_home must be one of nothing, words"),
        (home(user="me"), "fleet.broker is missing"),
        ({**home(broker="home"), "home": {}}, "home.broker is missing: fleet.broker"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            settings_of(tables, {})
