"""Alarms on live answers: raised once, delivered until they arrived, shown everywhere."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError
from tests.fusion.conftest import ROUND, Centre, app_of, ask, made_centre
from tests.fusion.test_mqtt import fusion_of
from tests.fusion.test_parts import POWER, STATES, draw, happen

from rase import SeededRandom
from rase.cli import main
from rase.fusion import alarms as room
from rase.fusion.alarms import AlarmEvent, Alarms, post_event
from rase.fusion.mechanism import randomizer_of
from rase.fusion.mqtt import fleet_discovery
from rase.fusion.settings import AlarmSettings, FusionSettings
from rase.fusion.subscribers import add_subscriber

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
            [value] * 2000, rng=SeededRandom(10 * (round - ROUND) + number)
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
    room._deliver(fusion, fusion.alarms, post=refuse)
    assert [one.alarm for one in fusion.alarms.waiting()] == ["too-much"]
    power(centre, ROUND + 3, 1000.0)
    room._deliver(fusion, fusion.alarms, post=refuse)
    waiting = fusion.alarms.waiting()
    assert {one.alarm for one in waiting} == {"too-much"}
    room._deliver(fusion, fusion.alarms, post=lambda url, event: taken.append((url, event)))
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
    assert none == {"alarms": [], "history": []}
    sensors = json.loads(fleet_discovery(POWER, found.all_settings).payload())["cmps"]
    assert sensors["alarm_too-much"]["p"] == "binary_sensor"
    assert sensors["alarm_too-much"]["stat_t"] == "rase/power/alarm/too-much"
    assert "alarm_mostly-on" not in sensors


BASE: dict[str, Any] = {
    "database": "fusion.sqlite",
    "signing_key_file": "a",
    "opening_key_files": ["b"],
    "shuffler_key": "aa" * 32,
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
