"""The fleet in a real Home Assistant: entities appear by themselves, with class, unit and state."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.broker import Mosquitto
from tests.fusion.conftest import CAMPAIGN, ROUND, made_centre
from tests.fusion.test_mqtt import TOPICS, Reader, finish, fusion_of, published
from tests.fusion.test_parts import STATES, draw, happen
from tests.home_assistant import HomeAssistant
from tests.patience import until

from rase.fusion.alarms import Alarms
from rase.fusion.mqtt import fleet_discovery
from rase.fusion.settings import AlarmSettings, FusionBrokerSettings
from rase.transport.session import BrokerSession

if TYPE_CHECKING:
    from tests.fusion.conftest import Centre

MEAN = "sensor.fleet_street_power_mean"
ALARM = "binary_sensor.fleet_heat_pump_alarm_mostly_on"
MOSTLY_ON = AlarmSettings(
    name="mostly-on", campaign="heat-pump", category="on", kind="above", level=0.5
)


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Mosquitto]:
    """A broker that lets everybody do everything."""
    broker = Mosquitto(tmp_path / "broker")
    yield broker
    broker.kill()


@pytest.mark.sqlite
@pytest.mark.homeassistant
def test_the_fleet_appears_by_itself(
    centre: "Centre", mosquitto: Mosquitto, tmp_path: Path
) -> None:
    """Seven entities with the published numbers; they follow a new round, vanish when cleaned."""
    fusion = fusion_of(centre)
    finish(fusion, centre.clock)
    home = HomeAssistant(tmp_path / "ha", mosquitto)
    reader = Reader(mosquitto)
    settings = FusionBrokerSettings(url=mosquitto.broker().url, discovery=True)
    try:
        with published(fusion, settings):
            told = reader.json(TOPICS.estimate)
            until(lambda: home.state(MEAN).get("state") == str(told["value"]))
            found = home.entities("sensor", "fleet_street_power")
            assert len(found) == 7
            mean = found[MEAN]["attributes"]
            assert mean["unit_of_measurement"] == CAMPAIGN.unit
            assert mean["device_class"] == "power"
            assert mean["state_class"] == "measurement"
            assert found["sensor.fleet_street_power_reports"]["state"] == "5"
            epsilon = found["sensor.fleet_street_power_local_epsilon"]["state"]
            assert float(epsilon) == told["local_epsilon"]
            last = found["sensor.fleet_street_power_last_round"]
            assert last["attributes"]["device_class"] == "timestamp"
            assert last["state"] == told["time"].replace("Z", "+00:00")
            low, high = (
                float(found[f"sensor.fleet_street_power_interval_{end}"]["state"])
                for end in ("low", "high")
            )
            assert low < float(found[MEAN]["state"]) < high
            finish(fusion, centre.clock, ROUND + 1)
            until(lambda: reader.json(TOPICS.estimate)["round"] == ROUND + 1)
            newest = reader.json(TOPICS.estimate)
            until(lambda: home.state(MEAN).get("state") == str(newest["value"]))
        session = BrokerSession(mosquitto.broker(), "cleaner")
        session.start()
        assert session.wait_up(10)
        session.publish(fleet_discovery(CAMPAIGN).topic, b"", is_retained=True)
        until(lambda: not home.entities("sensor", "fleet_street_power"))
        session.stop()
        assert home.complaints() == []
    finally:
        reader.close()
        home.close()


@pytest.mark.sqlite
@pytest.mark.homeassistant
def test_shares_of_states_and_alarms_are_entities(mosquitto: Mosquitto, tmp_path: Path) -> None:
    """Shares in percent, of all and of labels; an alarm is a binary sensor that goes on and off."""
    with made_centre(tmp_path / "fusion.sqlite") as made:
        made.publisher.publish(STATES)
        alarms = Alarms(made.database, made.questions, [MOSTLY_ON])
        fusion = replace(fusion_of(made), alarms=alarms)
        home = HomeAssistant(tmp_path / "ha", mosquitto)
        settings = FusionBrokerSettings(url=mosquitto.broker().url, discovery=True)

        def round_of(state: str, number: int) -> None:
            places = draw(STATES, [state] * 300)
            happen(made, STATES, {1: places, 2: places}, number)
            for wake in fusion.on_final:
                wake()

        def share(entity: str) -> float:
            return float(home.state(f"sensor.fleet_heat_pump_share_{entity}").get("state", "nan"))

        try:
            with published(fusion, settings):
                round_of("off", ROUND)
                until(lambda: home.state(ALARM).get("state") == "off")
                assert home.state(ALARM)["attributes"]["device_class"] == "problem"
                until(lambda: share("off") > 90)
                found = home.entities("sensor", "fleet_heat_pump_share")
                assert len(found) == 9
                units = {one["attributes"]["unit_of_measurement"] for one in found.values()}
                assert units == {"%"}
                round_of("on", ROUND + 1)
                until(lambda: home.state(ALARM)["state"] == "on")
                until(lambda: share("on") > 90 and share("on_of_north") > 90)
                round_of("off", ROUND + 2)
                until(lambda: home.state(ALARM)["state"] == "off")
            assert home.complaints() == []
        finally:
            home.close()
