"""Estimates on a real broker: retained, complete, with entities for Home Assistant."""

import asyncio
import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.broker import Mosquitto
from tests.fusion.conftest import CAMPAIGN, ROUND, parcel, reports
from tests.fusion.test_parts import POWER, STATES, live
from tests.patience import PATIENCE_S, until
from tests.storage.engines import setting_of
from tests.transport.test_discovery import check_discovery

from rase.answer import FIELDS
from rase.cli import main
from rase.clock import FakeClock
from rase.errors import StorageError
from rase.fusion.centre import FusionCentre
from rase.fusion.mqtt import fleet_discovery, publishing
from rase.fusion.query import Questions
from rase.fusion.settings import FusionBrokerSettings
from rase.service.telemetry import Telemetry
from rase.wire.frames import Topics

if TYPE_CHECKING:
    from tests.fusion.conftest import Centre

TOPICS = Topics(CAMPAIGN.id)


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Mosquitto]:
    """A broker that lets everybody do everything."""
    broker = Mosquitto(tmp_path / "broker")
    yield broker
    broker.kill()


class Reader:
    """Hold the last message of each topic, as a subscriber does."""

    def __init__(self, mosquitto: Mosquitto) -> None:
        self.last: dict[str, bytes] = {}
        self._client = mosquitto.broker().client("reader")
        self._client.on_connect = lambda client, *_: client.subscribe("#", 1)
        self._client.on_message = lambda client, _, message: self.last.update(
            {message.topic: bytes(message.payload)}
        )
        self._client.connect("127.0.0.1", mosquitto.port)
        self._client.loop_start()

    def json(self, topic: str) -> Any:
        """Return a message, once it is there."""
        until(lambda: bool(self.last.get(topic)))
        return json.loads(self.last[topic])

    def close(self) -> None:
        """Leave."""
        self._client.disconnect()
        self._client.loop_stop()


def finish(centre: FusionCentre, clock: FakeClock, round: int = ROUND) -> None:
    """Make a round final."""
    sent = parcel(reports([1, 2, 3, 4, 5], round=round), round=round)
    clock.jump(CAMPAIGN.closes_s(round) + 60 - clock.now_s())
    sent.deliver(centre)
    clock.advance(120)
    assert centre.tick()


def fusion_of(centre: "Centre") -> FusionCentre:
    """Return the parts as the app has them."""
    return FusionCentre(
        database=centre.database,
        clock=centre.clock,
        intake=centre.intake,
        rounds=centre.rounds,
        questions=centre.questions,
        telemetry=Telemetry("fusion", stream=io.StringIO()),
    )


@contextmanager
def published(fusion: FusionCentre, settings: FusionBrokerSettings) -> Iterator[None]:
    """Publish from a loop in a thread of its own."""
    stop, started = threading.Event(), threading.Event()

    async def run() -> None:
        async with publishing(fusion, settings):
            started.set()
            while not stop.is_set():
                await asyncio.sleep(0.01)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        assert started.wait(PATIENCE_S)
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.any_store
def test_the_farewell_is_the_last_word(
    centre: "Centre", mosquitto: Mosquitto, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is being told when the server ends is told before: nobody is online after the end."""
    fusion = fusion_of(centre)
    finish(fusion, centre.clock)
    held, go = threading.Event(), threading.Event()
    asked = fusion.questions.events_after

    def slowly(*question: Any) -> Any:
        held.set()
        assert go.wait(PATIENCE_S)
        return asked(*question)

    monkeypatch.setattr(fusion.questions, "events_after", slowly)
    settings = FusionBrokerSettings(url=mosquitto.broker().url, windows=[1])
    # Held until the end has begun; however late it is let go, the farewell waits for it.
    later = threading.Timer(0.3, go.set)
    with published(fusion, settings):
        assert held.wait(PATIENCE_S)
        later.start()
    later.join()
    reader = Reader(mosquitto)
    assert reader.json(TOPICS.estimate)["round"] == ROUND
    assert reader.json(TOPICS.status("fusion"))["status"] == "offline"
    reader.close()


@pytest.mark.parametrize("w", [0, -1, 10_001])
def test_windows_that_nobody_can_answer_are_refused_before_the_start(w: int) -> None:
    """Otherwise no round would ever be published."""
    with pytest.raises(ValueError, match="windows"):
        FusionBrokerSettings(url="mqtts://broker.example", windows=[w])


def test_final_rounds_are_published(centre: "Centre", mosquitto: Mosquitto) -> None:
    """Each final round is retained with its error and promise, windows and status beside it."""
    fusion = fusion_of(centre)
    finish(fusion, centre.clock)
    settings = FusionBrokerSettings(url=mosquitto.broker().url, windows=[1, 2], discovery=True)
    reader = Reader(mosquitto)
    with published(fusion, settings):
        first = reader.json(TOPICS.estimate)
        assert tuple(first) == FIELDS
        assert (first["round"], first["n"], first["status"]) == (ROUND, 5, "ok")
        assert first["low"] < first["value"] < first["high"]
        assert reader.json(TOPICS.window(1))["value"] == first["value"]
        assert reader.json(TOPICS.window(2))["status"] == "gap"
        assert reader.json(TOPICS.status("fusion"))["status"] == "online"
        found = fleet_discovery(CAMPAIGN)
        reader.json(found.topic)
        check_discovery(found.topic, reader.last[found.topic])
        finish(fusion, centre.clock, ROUND + 1)
        until(lambda: reader.json(TOPICS.estimate)["round"] == ROUND + 1)
        until(lambda: reader.json(TOPICS.window(2))["status"] == "ok")
        # A broker without a memory is told again.
        mosquitto.kill()
        (mosquitto.folder / "mosquitto.db").unlink(missing_ok=True)
        reader.close()
        mosquitto.start()
        reader = Reader(mosquitto)
        assert reader.json(TOPICS.estimate)["round"] == ROUND + 1
    until(lambda: reader.json(TOPICS.status("fusion"))["status"] == "offline")
    reader.close()


@pytest.mark.uncovered
@pytest.mark.parametrize(("strict", "status"), [(False, "ok"), (True, "gap")])
def test_windows_that_lack_a_round_are_published_unless_strict(
    centre: "Centre", mosquitto: Mosquitto, *, strict: bool, status: str
) -> None:
    """With how many rounds they rest on, and the verdict beside them."""
    fusion = fusion_of(centre)
    for round in (ROUND, ROUND + 1, ROUND + 3):
        finish(fusion, centre.clock, round)
    settings = FusionBrokerSettings(url=mosquitto.broker().url, windows=[4], strict=strict)
    reader = Reader(mosquitto)
    with published(fusion, settings):
        found = reader.json(TOPICS.window(4))
        assert "unknown yet" in reader.json(TOPICS.estimate)["verdict"]
    assert (found["status"], found["rounds"], found["of_rounds"]) == (status, 3, 4)
    assert (found["value"] is None, found["verdict"] is None) == (strict, strict)
    reader.close()


def test_a_database_that_fails_is_told_and_tried_again(
    centre: "Centre", mosquitto: Mosquitto, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Publishing goes on once the database answers again."""
    fusion = fusion_of(centre)
    finish(fusion, centre.clock)
    failures = [StorageError("full")]
    campaign = Questions.campaign

    def failing(self: Questions, name: str | None) -> Any:
        if failures:
            raise failures.pop()
        return campaign(self, name)

    monkeypatch.setattr(Questions, "campaign", failing)
    reader = Reader(mosquitto)
    with published(fusion, FusionBrokerSettings(url=mosquitto.broker().url)):
        assert reader.json(TOPICS.estimate)["round"] == ROUND
    reader.close()


def test_fleet_entities_are_as_documented() -> None:
    """Mean, interval, n, epsilon and last round; the mean of power is a measurement in W."""
    found = fleet_discovery(CAMPAIGN)
    document = check_discovery(found.topic, found.payload())
    assert set(document["cmps"]) == {"value", "low", "high", "n", "local_epsilon", "final", "time"}
    mean = document["cmps"]["value"]
    assert (mean["unit_of_meas"], mean["dev_cla"], mean["stat_cla"]) == (
        "W",
        "power",
        "measurement",
    )
    assert document["stat_t"] == TOPICS.estimate


def test_entities_are_published_and_cleaned(
    centre: "Centre",
    *,
    mosquitto: Mosquitto,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``rase ha`` puts the fleet's entities on the broker and takes them back."""
    centre.database.close()
    config, address = tmp_path / "rase.toml", centre.address
    peer = "fc" * 32
    config.write_text(
        f"""
[fusion]
database = "{setting_of(address)}"
signing_key_file = "s"
opening_key_files = ["o"]
shuffler_key = "{peer}"
registrar_key = "{"ab" * 32}"
shuffler_url = "http://127.0.0.1:1"
[fusion.mqtt]
url = "{mosquitto.broker().url}"
"""
    )
    reader = Reader(mosquitto)
    topic = fleet_discovery(CAMPAIGN).topic
    assert main(["ha", "publish", "--config", str(config)]) == 0
    assert capsys.readouterr().out == f"{topic}\n"
    check_discovery(topic, json.dumps(reader.json(topic)).encode())
    capsys.readouterr()
    assert main(["ha", "clean", "--config", str(config)]) == 0
    until(lambda: reader.last[topic] == b"")
    reader.close()
    # Nothing else: the estimates are also for those who have no Home Assistant.
    assert capsys.readouterr().out == f"{topic}\n"
    assert main(["ha", "clean"]) == 2
    mosquitto.kill()
    monkeypatch.setattr("rase.cli.ha._PATIENCE_S", 0.2)
    assert main(["ha", "publish", "--config", str(config)]) == 4
    assert "does not take the messages" in capsys.readouterr().err
    config.write_text(config.read_text().partition("[fusion.mqtt]")[0])
    assert main(["ha", "publish", "--config", str(config)]) == 3
    assert "fusion.mqtt is missing" in capsys.readouterr().err


@pytest.mark.sqlite
def test_shares_and_labels_are_published(centre: "Centre", mosquitto: Mosquitto) -> None:
    """All shares of a round in one retained message, each label under a topic of its own."""
    fusion = fusion_of(centre)
    live(centre)
    reader = Reader(mosquitto)
    settings = FusionBrokerSettings(url=mosquitto.broker().url, discovery=True)
    try:
        with published(fusion, settings):
            power = Topics("power")
            north = reader.json(power.label("north"))
            assert (north["label"], north["method"]) == ("north", "unbiased_mean")
            until(lambda: bool(reader.last.get(Topics("heat-pump").estimate)))
            shares = reader.json(Topics("heat-pump").estimate)
            assert [one["status"] for one in shares["shares"]] == ["too_few"]
            bins = reader.json(Topics("power-bins").estimate)
            assert len(bins["shares"]) == 4
            assert len(bins["above"]) == 3
            found = fleet_discovery(STATES)
            check_discovery(found.topic, found.payload())
            assert "label_1_share_0" in json.loads(found.payload())["cmps"]
            by_label = fleet_discovery(POWER)
            check_discovery(by_label.topic, by_label.payload())
    finally:
        reader.close()
