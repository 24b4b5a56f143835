"""Meters in the home: what their makers document, published to a real broker."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.broker import Mosquitto
from tests.patience import PATIENCE_S, until

from rase.device.behaviour import Behaviour
from rase.device.collection import Collection
from rase.device.settings import settings_of
from rase.device.sources import open_source
from rase.device.sources.homeassistant import HomeAssistantSource
from rase.device.sources.interface import SourceFailed, number_in
from rase.device.sources.mqtt import MqttSource
from rase.device.sources.presets import PRESETS, meter_of
from rase.device.sources.units import factor_between
from rase.device.ways import broker_at_home, report_transport_of
from rase.errors import ConfigurationError
from rase.transport.http import HttpTransport
from rase.transport.interface import Answer, Unreachable
from rase.transport.memory import MemoryTransport, Message
from rase.transport.mqtt import MqttTransport
from rase.transport.session import BrokerSession

if TYPE_CHECKING:
    from tests.device.conftest import World

KEY = "fb" * 32
OTHER = "fc" * 32

# tasmota.github.io/docs/MQTT: telemetry goes to tele/%topic%/SENSOR; the object ENERGY as in
# github.com/arendst/Tasmota/issues/1621. Power in W and Total in kWh, as Tasmota itself announces
# them to Home Assistant.
TASMOTA = {
    "Time": "2026-01-17T18:59:50",
    "ENERGY": {
        "TotalStartTime": "2025-11-01T07:31:22",
        "Total": 1.956,
        "Yesterday": 0.054,
        "Today": 0.049,
        "Period": 0,
        "Power": 9,
        "ApparentPower": 21,
        "ReactivePower": 19,
        "Factor": 0.43,
        "Voltage": 231,
        "Current": 0.089,
    },
}
# Meters of several phases give an array.
TASMOTA_PHASES = {"Time": "2026-01-17T18:59:50", "ENERGY": {"Total": 9.5, "Power": [110, 0, 42]}}
# shelly-api-docs.shelly.cloud/gen2/ComponentsAndServices/Mqtt: with status_ntf, which is off by
# default, "the entire status payload of components" goes to <topic_prefix>/status/<component:id>;
# ComponentsAndServices/Switch: apower in W, aenergy.total in Wh, temperature.tC in °C or null.
SHELLY = {
    "id": 0,
    "source": "WS_in",
    "output": True,
    "apower": 8.9,
    "voltage": 237.5,
    "current": 0.041,
    "aenergy": {"total": 6.532, "by_minute": [45.199, 47.141, 88.397], "minute_ts": 1626935779},
    "temperature": {"tC": 23.5, "tF": 74.4},
}
# www.zigbee2mqtt.io/guide/usage/mqtt_topics_and_messages: zigbee2mqtt/FRIENDLY_NAME, always JSON,
# the names and units of a device's page under "Exposes": power (W), energy (kWh), temperature (°C).
ZIGBEE = {"state": "ON", "linkquality": 87, "power": 12.3, "energy": 1.5, "temperature": 21.5}
# Preset, quantity, topic, payload, reading and unit. Without JSON: shelly-gen1 is
# shelly-api-docs.shelly.cloud/gen1, MQTT of Shelly1PM: relay/0/power in W, relay/0/energy in
# watt-minutes (Home Assistant's own integration divides it by 60 for Wh, too); esphome is
# esphome.io/components/mqtt: <topic_prefix>/sensor/<object id>/state, the number alone.
PAYLOADS: list[tuple[str, str, str, Any, float, str | None]] = [
    ("tasmota", "power", "tele/it/SENSOR", TASMOTA, 9.0, "W"),
    ("tasmota", "energy", "tele/it/SENSOR", TASMOTA, 1.956, "kWh"),
    ("shelly", "power", "it/status/switch:0", SHELLY, 8.9, "W"),
    ("shelly", "energy", "it/status/switch:0", SHELLY, 6.532, "Wh"),
    ("shelly", "temperature", "it/status/switch:0", SHELLY, 23.5, "°C"),
    ("shelly-gen1", "power", "shellies/it/relay/0/power", 23.87, 23.87, "W"),
    ("shelly-gen1", "energy", "shellies/it/relay/0/energy", 1234, 1234.0, "Wmin"),
    ("zigbee2mqtt", "power", "zigbee2mqtt/it", ZIGBEE, 12.3, "W"),
    ("zigbee2mqtt", "energy", "zigbee2mqtt/it", ZIGBEE, 1.5, "kWh"),
    ("zigbee2mqtt", "temperature", "zigbee2mqtt/it", ZIGBEE, 21.5, "°C"),
    ("esphome", "house_power", "it/sensor/house_power/state", 345.6, 345.6, None),
]


def settings(**source: Any) -> Any:
    """Return a device's settings with a source at home."""
    return settings_of(
        {
            "device": {
                "shuffler": "https://shuffler.example",
                "campaign": "street-power",
                "fusion_key": KEY,
                "shuffler_key": OTHER,
                "registrar": "https://registrar.example",
                "registrar_key": "B" * 42 + "E",
            },
            "owner": {"report_epsilon": 1, "span_epsilon": 24, "total_epsilon": 1000},
            "source": {"kind": "mqtt", **source},
            "home": {"broker": "mqtt://home.example"},
        },
        {},
    )


def mistakes(**source: Any) -> str:
    """Return what is wrong about a source."""
    with pytest.raises(ConfigurationError) as caught:
        settings(**source)
    return str(caught.value)


@pytest.fixture(scope="module")
def mosquitto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    """A broker at home."""
    broker = Mosquitto(tmp_path_factory.mktemp("home") / "broker", {"owner": "hush"})
    yield broker
    broker.kill()


@pytest.fixture
def meter(mosquitto: Mosquitto) -> Iterator[BrokerSession]:
    """What publishes in the place of meters."""
    session = BrokerSession(mosquitto.broker("owner", "hush"), "meter")
    session.start()
    assert session.wait_up(10)
    yield session
    session.stop()


@pytest.mark.parametrize("row", PAYLOADS, ids=[f"{row[0]}-{row[1]}" for row in PAYLOADS])
def test_presets_read_what_makers_document(
    row: tuple[str, str, str, Any, float, str | None],
) -> None:
    """A preset names the topic, the place of the number and its unit.

    Checked against the makers' documentation, which is named beside each payload above.
    """
    preset, quantity, topic, payload, reading, unit = row
    found = meter_of(settings(preset=preset, meter="it", quantity=quantity).source)
    assert (found.topic, found.unit) == (topic, unit)
    assert float(value_in(found.path, json.dumps(payload).encode())) == reading


def value_in(path: str, payload: bytes) -> Any:
    """Return what a source finds in a message."""
    source = object.__new__(MqttSource)
    source._path = path
    return source._value(payload)


def test_one_phase_of_several_can_be_named() -> None:
    """Where Tasmota gives an array, a path into it overrules the preset; without, it is refused."""
    payload = json.dumps(TASMOTA_PHASES).encode()
    plain = meter_of(settings(preset="tasmota", meter="it").source)
    with pytest.raises(SourceFailed, match="finite number"):
        number_in("mqtt", value_in(plain.path, payload))
    chosen = settings(preset="tasmota", meter="it", json_path="ENERGY.Power.2")
    found = meter_of(chosen.source)
    assert (found.topic, found.unit) == ("tele/it/SENSOR", "W")
    assert value_in(found.path, payload) == 42


@pytest.mark.parametrize("payload", [b"nan", b"None", b"NaN ", b"unavailable", b""])
def test_a_sensor_without_a_value_gives_no_reading(payload: bytes) -> None:
    """ESPHome publishes nan, or None with publish_nan_as_none; that is no failure of the source."""
    assert value_in("", payload) is None
    assert value_in("", b"21.5") == b"21.5"


def test_every_preset_is_tested() -> None:
    """No preset is without a payload."""
    assert {row[0] for row in PAYLOADS} == set(PRESETS)


def test_a_meter_is_read_through_the_broker(
    mosquitto: Mosquitto, meter: BrokerSession, tmp_path: Path
) -> None:
    """Messages since the last question become readings; retained ones, of unknown age, do not."""
    topic = "tele/it/SENSOR"
    old = json.dumps(TASMOTA).encode()
    meter.publish(topic, old, is_retained=True).wait_for_publish(PATIENCE_S)
    chosen = settings(preset="tasmota", meter="it", scale=2.0)
    source = open_source(chosen.source, tmp_path, home=mosquitto.broker("owner", "hush"))
    assert isinstance(source, MqttSource)
    try:
        until(source._client.is_connected)
        found: list[float | str] = []

        def is_read() -> bool:
            meter.publish(topic, json.dumps(TASMOTA).encode())
            found.extend(source.read())
            return bool(found)

        until(is_read)
        assert set(found) == {18.0}
        while source.read():
            pass
        meter.publish(topic, b'{"ENERGY": {"Power": null}}').wait_for_publish(PATIENCE_S)
        meter.publish(topic, b'{"ENERGY": {"Power": 4}}').wait_for_publish(PATIENCE_S)
        until(lambda: 8.0 in source.read())
        for payload in (b"nonsense", b'{"ENERGY": {"Power": "high"}}'):
            meter.publish(topic, payload).wait_for_publish(PATIENCE_S)
            with pytest.raises(SourceFailed):
                until(lambda: bool(source.read()))
    finally:
        source.close()


def test_a_home_broker_that_refuses_is_told(mosquitto: Mosquitto) -> None:
    """A wrong password is a failure of the source, not of the agent."""
    source = MqttSource(mosquitto.broker("owner", "wrong"), "a")

    with pytest.raises(SourceFailed, match="refuses: Not authorized"):
        until(lambda: bool(source.read()))
    source.close()


def test_a_home_broker_that_goes_away_is_told_until_it_is_back(mosquitto: Mosquitto) -> None:
    """Otherwise an owner would not learn why nothing but cover reports is sent."""
    source = MqttSource(mosquitto.broker("owner", "hush"), "a")
    try:
        until(source._client.is_connected)
        assert source.read() == []
        mosquitto.kill()
        with pytest.raises(SourceFailed, match="the broker is gone"):
            until(lambda: bool(source.read()))
        with pytest.raises(SourceFailed, match="the broker does not answer"):
            until(lambda: "answer" in (source._trouble or "") and bool(source.read()))
        mosquitto.start()
        until(lambda: source._trouble is None)
        assert source.read() == []
    finally:
        source.close()


def test_other_meters_need_a_topic() -> None:
    """Whatever publishes numbers can be read by topic, path, unit and scale."""
    chosen = settings(topic="attic/meter", json_path="a.0", unit="kW", scale=0.5)
    found = meter_of(chosen.source)
    assert (found.topic, found.path, found.unit) == ("attic/meter", "a.0", "kW")
    moved = settings(preset="tasmota", meter="it", topic="home/tele/it/SENSOR")
    assert meter_of(moved.source).topic == "home/tele/it/SENSOR"
    assert meter_of(moved.source).path == "ENERGY.Power"


def test_mistakes_about_meters_are_named() -> None:
    """Each says what is missing."""
    assert "source.preset or source.topic is missing" in mistakes()
    assert "source.preset must be one of tasmota, shelly" in mistakes(preset="fritz")
    assert "source.meter is missing" in mistakes(preset="tasmota")
    assert "source.aggregate must be one of mean, last, incr" in mistakes(topic="a", aggregate="x")
    with pytest.raises(ConfigurationError, match="quantity must be one of power, energy, got"):
        meter_of(settings(preset="tasmota", meter="it", quantity="voltage").source)
    for topic in ("", "a/#", "+/a"):
        with pytest.raises(ConfigurationError, match="must name one topic"):
            meter_of(settings(topic=topic).source)
    tables: dict[str, Any] = {
        "device": {"broker_user": "x"},
        "home": {"name": "My Home"},
        "source": {"kind": "mqtt", "topic": "a"},
    }
    with pytest.raises(ConfigurationError) as caught:
        settings_of(
            {
                "device": {
                    "shuffler": "https://s.example",
                    "campaign": "a",
                    "fusion_key": KEY,
                    "shuffler_key": OTHER,
                    "registrar": "https://registrar.example",
                    "registrar_key": "B" * 42 + "E",
                    **tables["device"],
                },
                "owner": {"report_epsilon": 1, "span_epsilon": 1, "total_epsilon": 1},
                "source": tables["source"],
                "home": tables["home"],
            },
            {},
        )
    text = str(caught.value)
    assert "device.broker is missing" in text
    assert "home.broker is missing" in text
    assert "home.name must have small letters" in text


def test_counters_become_increments() -> None:
    """A counter's rise is counted over rounds and resets; where it began is not."""
    counter = Collection("increments")
    for round, reading in ((1, 10.0), (1, 10.5), (2, 11.0), (2, 0.2), (2, 0.3), (3, 0.3)):
        counter.add(round, reading)
    assert counter.take(1) == pytest.approx(0.5)
    assert counter.take(2) == pytest.approx(0.5 + 0.2 + 0.1)
    assert counter.take(3) == 0.0
    assert counter.take(4) is None


def test_a_counter_that_dips_was_not_reset() -> None:
    """A little less than before is no new beginning, or a meter's whole life would be one round."""
    counter = Collection("increments")
    for reading in (1000.0, 1000.5, 1000.4, 1000.5, 1001.0, 901.0, 1002.0):
        counter.add(1, reading)
    assert counter.take(1) == pytest.approx(2.0)
    for reading in (900.0, 901.0):
        counter.add(2, reading)
    assert counter.take(2) == pytest.approx(901.0)


def test_a_counter_below_nothing_adds_nothing() -> None:
    """Meters that feed in may count below 0; falling is no use, and rising is."""
    counter = Collection("increments")
    for reading in (-1.0, -3.0, -2.5):
        counter.add(1, reading)
    assert counter.take(1) == pytest.approx(0.5)


def test_a_pause_hides_what_a_counter_did() -> None:
    """After a pause counting begins anew: what was used meanwhile is in no round."""
    counter = Collection("increments")
    counter.add(1, 10.0)
    counter.clear()
    counter.add(2, 99.0)
    assert counter.take(2) is None
    counter.add(2, 100.0)
    assert counter.take(2) == 1.0


def test_last_takes_the_newest() -> None:
    """The newest reading of a round stands for it."""
    collection = Collection("last")
    for reading in (1.0, 3.0, 2.0):
        collection.add(7, reading)
    assert collection.take(7) == 2.0
    with pytest.raises(ValueError, match="aggregate must be one of"):
        Collection("median")


def test_units_are_turned_or_refused() -> None:
    """Multiples are converted; what is no multiple is never taken for the same."""
    assert factor_between("Wmin", "Wh") == pytest.approx(1 / 60)
    assert factor_between("kWh", "Wh") == pytest.approx(1000)
    assert factor_between("°C", "°C") == 1.0
    assert factor_between("A", "A") == 1.0
    assert factor_between("kWh", "W") is None


def test_an_agent_takes_no_reading_of_another_unit(world: "World") -> None:
    """Readings are converted into the campaign's unit, and refused where they cannot be."""
    agent = world.agent(behaviour=Behaviour(unit="kW"), source=_Always(0.5))
    agent.step()
    assert agent._collection.take(agent._present_round(world.shuffler.campaign)) == 500.0
    other = world.agent(behaviour=Behaviour(unit="°C"), source=_Always(20.0))
    other.step()
    assert {"kind": "unit"} in world.notes.of("source-failed")


class _Always:
    def __init__(self, reading: float) -> None:
        self._reading = reading

    def read(self) -> list[float]:
        """Return the reading."""
        return [self._reading]

    def close(self) -> None:
        """Have nothing to let go of."""


def home_assistant(*answers: Answer | Exception, unit: str | None = None) -> HomeAssistantSource:
    """Return a source whose Home Assistant gives these answers."""
    waiting = list(answers)

    def handle(message: Message) -> Answer:
        assert message.path == "/api/states/sensor.house_power"
        answer = waiting.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return HomeAssistantSource(
        "http://ha.example",
        "sensor.house_power",
        token="hush",  # noqa: S106 - of a test
        unit=unit,
        transport=MemoryTransport(handle),
    )


def state(value: str, unit: str = "kW") -> Answer:
    """Return a state as Home Assistant's REST interface documents it."""
    document = {
        "attributes": {"friendly_name": "House power", "unit_of_measurement": unit},
        "entity_id": "sensor.house_power",
        "last_changed": "2026-05-30T21:43:29.204838+00:00",
        "last_updated": "2026-05-30T21:43:29.204838+00:00",
        "state": value,
    }
    return Answer(200, json.dumps(document).encode())


def test_home_assistant_is_asked_for_a_state() -> None:
    """A number is turned into the unit asked for; an entity without a state has no reading."""
    source = home_assistant(state("0.25"), state("unavailable"), state("unknown"), unit="W")
    assert [source.read() for _ in range(3)] == [[250.0], [], []]
    assert home_assistant(state("0.25")).read() == [0.25]
    source.close()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Unreachable("away."), "away"),
        (Answer(401), "refuses the token"),
        (Answer(403), "ip_bans.yaml"),
        (Answer(404), "knows no such entity"),
        (Answer(500), "answers 500"),
        (Answer(200, b"nonsense"), "must answer JSON"),
        (state("on", "W"), "finite number"),
        (state("20", "°C"), "is in °C, not in W"),
    ],
)
def test_home_assistant_fails_by_name(answer: Answer | Exception, words: str) -> None:
    """Each failure says what to look at, and quotes no state."""
    with pytest.raises(SourceFailed, match=words):
        home_assistant(answer, unit="W").read()


def test_an_entity_has_a_domain() -> None:
    """What cannot be an entity is a mistake; the token is read from its file."""
    with pytest.raises(ConfigurationError, match=r"must look like sensor\.house_power"):
        HomeAssistantSource("http://ha.example", "../config", token="hush")  # noqa: S106


def test_sources_and_brokers_come_from_settings(tmp_path: Path) -> None:
    """Tokens and passwords are read from files for their owner only."""
    secret = tmp_path / "token"
    secret.touch(mode=0o600)
    secret.write_text("hush\n")
    chosen = settings(
        kind="homeassistant",
        url="http://ha.example:8123",
        entity="sensor.house_power",
        token_file="token",  # noqa: S106
    )
    source = open_source(chosen.source, tmp_path)
    assert isinstance(source, HomeAssistantSource)
    assert isinstance(source._transport, HttpTransport)
    assert source._transport._bearer == {"Authorization": "Bearer hush"}
    home = broker_at_home(chosen.home, tmp_path)
    assert home is not None
    assert home.port == 1883
    secret.chmod(0o644)
    with pytest.raises(ConfigurationError, match="token"):
        open_source(chosen.source, tmp_path)


def test_a_device_with_a_broker_reports_through_it(tmp_path: Path) -> None:
    """The setting alone decides; handle and password follow from the credential."""
    tables: dict[str, Any] = {
        "device": {
            "shuffler": "https://shuffler.example",
            "campaign": "street-power",
            "fusion_key": KEY,
            "shuffler_key": OTHER,
            "registrar": "https://registrar.example",
            "registrar_key": "B" * 42 + "E",
            "broker": "mqtts://broker.example",
        },
        "owner": {"report_epsilon": 1, "span_epsilon": 24, "total_epsilon": 1000},
        "source": {"kind": "stdin"},
    }
    transport = report_transport_of(settings_of(tables, {}), tmp_path, "abc.secret")
    assert isinstance(transport, MqttTransport)
    assert transport._broker.user == "abc"
    assert "secret" not in str(transport._broker.password)
    del tables["device"]["broker"]
    assert isinstance(report_transport_of(settings_of(tables, {}), tmp_path, "a.b"), HttpTransport)
    assert broker_at_home(settings_of(tables, {}).home, tmp_path) is None


def test_without_a_broker_the_package_for_mqtt_is_not_loaded() -> None:
    """A device that speaks HTTP does not pay for MQTT."""
    code = (
        "import rase.device.program, rase.device.agent, rase.transport.http, sys;"
        "print(any(name.startswith(('paho', 'rase.transport.mqtt')) for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
