"""The fleet in a real Home Assistant: entities appear by themselves, with class, unit and state."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.broker import Mosquitto
from tests.fusion.conftest import CAMPAIGN, ROUND
from tests.fusion.test_mqtt import TOPICS, Reader, finish, fusion_of, published
from tests.home_assistant import HomeAssistant
from tests.patience import until

from rase.fusion.mqtt import fleet_discovery
from rase.fusion.settings import FusionBrokerSettings
from rase.transport.session import BrokerSession

if TYPE_CHECKING:
    from tests.fusion.conftest import Centre

MEAN = "sensor.fleet_street_power_mean"


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
    """Six entities with the published numbers; they follow a new round, and vanish when cleaned."""
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
            assert len(found) == 6
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
