"""Alarms on live answers: raised once, delivered until they arrived, shown everywhere."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError
from tests.broker import Mosquitto
from tests.fusion.conftest import CAMPAIGN, ROUND, Centre, app_of, ask, made_centre
from tests.fusion.test_mqtt import fusion_of
from tests.fusion.test_parts import POWER, STATES, draw, happen
from tests.patience import PATIENCE_S, until

from rase import SeededRandom
from rase.cli import main
from rase.fusion import alarms as room
from rase.fusion.alarms import AlarmEvent, Alarms, post_event
from rase.fusion.mechanism import randomizer_of
from rase.fusion.mqtt import fleet_discovery
from rase.fusion.settings import AlarmSettings, FusionBrokerSettings, FusionSettings
from rase.fusion.subscribers import add_subscriber

# Of each label: enough for the changes of the tests, and each report is really sealed.
DEVICES = 600
LEVEL = AlarmSettings(
    name="too-much",
    campaign="power",
    kind="above",
    level=1500,
    label="north",
    webhook="http://127.0.0.1:9/hook",
)
CHANGE = AlarmSettings(name="jump", campaign="power", kind="change", rounds=1)
SHARE = AlarmSettings(
    name="mostly-on", campaign="heat-pump", category="on", kind="above", level=0.5
)
UNKNOWN = AlarmSettings(name="nobody", campaign="no-such", kind="above", level=1)


@pytest.fixture
def centre(tmp_path: Path) -> Iterator[Centre]:
    """A fusion centre with a campaign of numbers by label and one of states."""
    with made_centre(tmp_path / "fusion.sqlite") as made:
        made.publisher.publish(POWER)
        made.publisher.publish(STATES)
        yield made


def alarms_of(centre: Centre) -> Alarms:
    """Return all alarms of the tests."""
    return Alarms(centre.database, centre.questions, [LEVEL, CHANGE, SHARE, UNKNOWN])


def power(centre: Centre, round: int, north: float) -> None:
    """Let a round pass in which the north needs so much, and the south 1000 W."""
    randomizer = randomizer_of(POWER)
    by_label = {
        number: randomizer.draw_many(
            [value] * DEVICES, rng=SeededRandom(10 * (round - ROUND) + number)
        ).tolist()
        for number, value in ((1, north), (2, 1000.0))
    }
    happen(centre, POWER, by_label, round)


def test_alarms_are_raised_once_and_end(centre: Centre) -> None:
    """A level of a label, a change of all, a share; rounds that were withheld say nothing."""
    found = alarms_of(centre)
    assert found.look() == 0
    assert {one.state for one in found.status()} == {"waiting"}
    for place, north in enumerate((1000.0, 1000.0, 2500.0, 2500.0, 2500.0, 1000.0)):
        power(centre, ROUND + place, north)
        found.look()
    happen(centre, STATES, {0: draw(STATES, ["on"] * 900 + ["off"] * 100)})
    found.look()
    happen(centre, STATES, {}, ROUND + 1)
    # A second process looks at the same rounds.
    alarms_of(centre).look()
    said = {
        name: [
            (one.round - ROUND, one.state) for one in reversed(found.history()) if one.alarm == name
        ]
        for name in found.names
    }
    assert said["too-much"] == [(2, "raised"), (5, "quiet")]
    assert said["jump"][0] == (2, "raised")
    assert (3, "quiet") in said["jump"]
    assert said["mostly-on"] == [(0, "raised")]
    assert said["nobody"] == []
    raised = next(one for one in found.history() if one.alarm == "too-much")
    assert (raised.label, raised.kind, raised.false_alarms_per_month) == ("north", "above", 0.1)
    by_name = {one.alarm: one for one in found.status()}
    assert by_name["too-much"].state == "quiet"
    assert by_name["too-much"].shift == 150
    assert by_name["too-much"].detection_rounds is None
    assert by_name["nobody"].detection_rounds is None


def test_revised_and_late_rounds_raise_nothing(centre: Centre) -> None:
    """Each round is looked at once, by its unbiased mean, which no later round revises.

    The campaign's own estimates are of `tracked` and are revised. A round that comes late, when a
    later one was looked at, is not looked at any more, however far beyond the level it is.
    """
    whole = LEVEL.model_copy(update={"name": "whole", "label": None})
    alarms = Alarms(centre.database, centre.questions, [whole])
    late = 6
    for place in range(12):
        if place != late:
            power(centre, ROUND + place, 4000.0 if place in (2, 9) else 500.0)
            alarms.look()
    said = alarms.history()
    assert [(one.round - ROUND, one.state) for one in reversed(said)] == [
        (2, "raised"), (3, "quiet"), (9, "raised"), (10, "quiet"),
    ]  # fmt: skip
    answers = centre.questions.between(POWER, ROUND, ROUND + 11)
    assert max(one.revision for one in answers) >= 1
    power(centre, ROUND + late, 4000.0)
    centre.clock.advance(3600)
    centre.rounds.tick()
    (known,) = centre.questions.between(POWER, ROUND + late, ROUND + late)
    assert known.require() > 1500
    assert alarms.look() == 0
    assert alarms.history() == said


def test_a_webhook_gets_each_change_until_it_took_it(
    centre: Centre, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that refuses is tried again; what was taken is not sent again."""
    fusion = replace(fusion_of(centre), alarms=alarms_of(centre))
    assert fusion.alarms is not None
    for place, north in enumerate((1000.0, 2500.0)):
        power(centre, ROUND + place, north)
    taken: list[tuple[str, AlarmEvent]] = []

    def refuse(url: str, event: AlarmEvent) -> None:
        raise httpx.ConnectError("no")

    fusion.alarms.look()
    power(centre, ROUND + 2, 2500.0)
    room._deliver(fusion, fusion.alarms, set(), post=refuse)
    assert [one.alarm for one in fusion.alarms.waiting()] == ["too-much"]
    power(centre, ROUND + 3, 1000.0)
    room._deliver(fusion, fusion.alarms, set(), post=refuse)
    waiting = fusion.alarms.waiting()
    assert {one.alarm for one in waiting} == {"too-much"}
    room._deliver(fusion, fusion.alarms, set(), post=lambda url, event: taken.append((url, event)))
    assert [(url, event.state) for url, event in taken] == [
        (LEVEL.webhook, one.state) for one in waiting
    ]
    assert fusion.alarms.waiting() == []


def test_a_webhook_is_sent_json() -> None:
    """And refusals are errors."""
    seen: list[Any] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(json.loads(request.content))
        return httpx.Response(200 if len(seen) == 1 else 500)

    event = AlarmEvent(
        alarm="a", campaign="c", label=None, category=None, kind="above", level=1.0,
        state="raised", round=7, time="2026-06-21T00:00:00Z", value=2.0, standard_error=0.1,
        false_alarms_per_month=0.1,
    )  # fmt: skip
    transport = httpx.MockTransport(handle)
    post_event("http://127.0.0.1/", event, transport=transport)
    assert seen[0]["state"] == "raised"
    with pytest.raises(httpx.HTTPStatusError):
        post_event("http://127.0.0.1/", event, transport=transport)


MEDIAN = replace(CAMPAIGN, id="typical", estimators=("median",))
HOPELESS = [
    AlarmSettings(name="median", campaign="typical", kind="above", level=1),
    AlarmSettings(name="which", campaign="heat-pump", kind="above", level=0.5),
    AlarmSettings(name="west", campaign="power", kind="above", level=1, label="west"),
    AlarmSettings(name="every", campaign="power", kind="above", level=1, label="*"),
    AlarmSettings(name="up", campaign="heat-pump", kind="above", level=0.5, category="up"),
]


def test_alarms_that_can_never_be_raised_are_refused_by_name(
    centre: Centre, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A campaign of the median alone has no mean to look at; others go on as if it was not there.

    The log says it once, the list every time, and the test event is not sent.
    """
    centre.publisher.publish(MEDIAN)
    found = Alarms(centre.database, centre.questions, [*HOPELESS, LEVEL])
    for place, north in enumerate((1000.0, 2500.0)):
        power(centre, ROUND + place, north)
        happen(centre, MEDIAN, {0: [2000] * 10}, ROUND + place)
    fusion, told = replace(fusion_of(centre), alarms=found), set[str]()
    for _ in range(2):
        room._deliver(fusion, found, told, post=lambda url, event: None)
    assert told == {one.name for one in HOPELESS}
    by_name = {one.alarm: one for one in found.status()}
    assert by_name["too-much"].problem is None
    assert by_name["too-much"].state == "raised"
    for name, words in (
        ("median", "'typical' must have unbiased_mean or tracked"),
        ("which", "category must be one of on, off, other"),
        ("west", "label must be one of north, south"),
        ("every", "label must be one label"),
        ("up", "category must be one of on, off, other"),
    ):
        assert by_name[name].state == "refused"
        assert words in str(by_name[name].problem)
    settings = FusionSettings(**{**BASE, "database": str(centre.address)}, alarms=HOPELESS)
    monkeypatch.setattr("rase.cli.fusion.fusion_settings", lambda config: settings)
    assert main(["fusion", "alarms", "list"]) == 0
    assert "median                   refused" in capsys.readouterr().out
    assert main(["fusion", "alarms", "test", "median"]) == 2
    assert "publish a version that has one" in capsys.readouterr().err


def test_a_test_event_goes_to_the_broker_as_well(
    centre: Centre, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Where the alarm stands, not retained; a broker that refuses it or is away is named."""
    secret, address = tmp_path / "secret", {"database": str(centre.address)}
    secret.touch(mode=0o600)
    secret.write_text("pass")
    mosquitto = Mosquitto(
        tmp_path / "broker", {"rase-fusion": "pass", "rase-reader": "pass"}, acl=True
    )

    def run(user: str) -> int:
        mqtt = FusionBrokerSettings(url=mosquitto.broker().url, user=user, password_file=secret)
        settings = FusionSettings(**{**BASE, **address}, alarms=[CHANGE], mqtt=mqtt)
        monkeypatch.setattr("rase.cli.fusion.fusion_settings", lambda config: settings)
        return main(["fusion", "alarms", "test", "jump"])

    seen: list[tuple[Any, bool]] = []
    client = replace(mosquitto.broker(), user="rase-reader", password=secret.read_text()).client(
        "seen"
    )
    ready = threading.Event()
    client.on_connect = lambda one, *_: one.subscribe("rase/+/alarm/+", 1)
    client.on_subscribe = lambda *_: ready.set()
    client.on_message = lambda _, __, message: seen.append(
        (json.loads(message.payload), message.retain)
    )
    client.connect("127.0.0.1", mosquitto.port)
    client.loop_start()
    try:
        assert ready.wait(PATIENCE_S)
        assert run("rase-fusion") == 0
        assert "the broker took a test event of jump" in capsys.readouterr().err
        until(lambda: bool(seen))
        assert (seen[0][0]["alarm"], seen[0][0]["state"], seen[0][1]) == ("jump", "test", False)
        assert run("rase-reader") == 3
        assert "did not take it: Not authorized" in capsys.readouterr().err
    finally:
        client.disconnect()
        client.loop_stop()
        mosquitto.kill()
    assert run("rase-fusion") == 3
    assert "ConnectionRefusedError" in capsys.readouterr().err


def test_alarms_are_shown_over_http_and_in_home_assistant(centre: Centre) -> None:
    """How each stands and what it said; a binary sensor each."""
    found = alarms_of(centre)
    for place, north in enumerate((1000.0, 2500.0)):
        power(centre, ROUND + place, north)
        found.look()
    token = add_subscriber(centre.database, "reader")
    headers = {"Authorization": f"Bearer {token}"}
    answer = ask(app_of(centre, alarms=found), "GET", "/v1/alarms", headers=headers).json()
    assert {one["alarm"]: one["state"] for one in answer["alarms"]}["too-much"] == "raised"
    assert {one["alarm"] for one in answer["history"]} == {"too-much", "jump"}
    none = ask(app_of(centre), "GET", "/v1/alarms", headers=headers).json()
    assert none == {"alarms": [], "history": [], "undelivered": 0}
    sensors = json.loads(fleet_discovery(POWER, found.all_settings).payload())["cmps"]
    assert sensors["alarm_too-much"]["p"] == "binary_sensor"
    assert sensors["alarm_too-much"]["stat_t"] == "rase/power/alarm/too-much"
    assert "alarm_mostly-on" not in sensors


BASE: dict[str, Any] = {
    "database": "fusion.sqlite",
    "signing_key_file": "a",
    "opening_key_files": ["b"],
    "shuffler_key": "aa" * 32,
    "registrar_key": "bb" * 32,
    "shuffler_url": "http://127.0.0.1:1",
}


@pytest.mark.parametrize(
    ("alarms", "words"),
    [
        ([{"name": "a", "campaign": "c", "kind": "odd"}], "kind"),
        ([{"name": "A b", "campaign": "c", "kind": "above"}], "name"),
        ([{"name": "a", "campaign": "c", "kind": "above"}] * 2, "different names"),
        ([{"name": "a", "campaign": "c", "kind": "change", "rounds": 9, "against": 3}], "against"),
        ([{"name": "a", "campaign": "c", "kind": "change", "level": -1}], "level"),
        ([{"name": "a", "campaign": "c", "kind": "above", "webhook": "http://far/"}], "webhook"),
    ],
)
def test_alarms_that_mean_nothing_are_refused(alarms: list[dict[str, Any]], words: str) -> None:
    """By name, before anything is served."""
    with pytest.raises(ValidationError, match=words):
        FusionSettings.model_validate({**BASE, "alarms": alarms})


def test_the_command_lists_and_tries_alarms(
    centre: Centre, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the settings, with the state of the database."""
    found = alarms_of(centre)
    for place, north in enumerate((1000.0, 2500.0)):
        power(centre, ROUND + place, north)
        found.look()
    settings = FusionSettings(**{**BASE, "database": str(centre.address)}, alarms=[LEVEL, CHANGE])
    monkeypatch.setattr("rase.cli.fusion.fusion_settings", lambda config: settings)
    assert main(["fusion", "alarms", "list"]) == 0
    shown = capsys.readouterr().out
    assert "too-much                 raised" in shown
    assert "at most 0.1 false alarms a month; a shift of 150 is not noticed" in shown
    assert main(["fusion", "alarms", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "rase/alarms/1"
    assert main(["fusion", "alarms", "history"]) == 0
    assert "too-much                 raised" in capsys.readouterr().out
    assert main(["fusion", "alarms", "history", "--json", "--count", "1"]) == 0
    assert len(json.loads(capsys.readouterr().out)["events"]) == 1
    assert main(["fusion", "alarms", "test", "other"]) == 2
    assert "one of the alarms, too-much, jump" in capsys.readouterr().err
    assert main(["fusion", "alarms", "test", "jump"]) == 2
    assert "no webhook" in capsys.readouterr().err
    assert main(["fusion", "alarms", "test", "too-much"]) == 3
    assert "did not take it: ConnectError" in capsys.readouterr().err
    monkeypatch.setattr("rase.fusion.alarms.post_event", lambda url, event: None)
    assert main(["fusion", "alarms", "test", "too-much"]) == 0
