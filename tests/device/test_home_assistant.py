"""The owner's entities in a real Home Assistant, and a reading from it by its REST interface."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.broker import Mosquitto
from tests.device.conftest import CAMPAIGN
from tests.device.test_fleet_estimates import message, seen
from tests.home_assistant import HomeAssistant
from tests.patience import until

from rase.device.fleet import FleetEstimates, FleetReader, compare
from rase.device.folder import DeviceFolder
from rase.device.home import HomeEntities
from rase.device.sources.homeassistant import HomeAssistantSource
from rase.device.sources.interface import SourceFailed
from rase.transport.discovery import Discovery, Entity, unit_fields
from rase.transport.session import BrokerSession
from rase.wire.frames import Topics

if TYPE_CHECKING:
    from tests.device.conftest import World

BUDGET = "sensor.rase_attic_budget_left"
SENT = "sensor.rase_attic_last_sent"
SHARE = "switch.rase_attic_share"


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Mosquitto]:
    """A broker at home."""
    broker = Mosquitto(tmp_path / "broker")
    yield broker
    broker.kill()


@pytest.fixture
def home(tmp_path: Path, mosquitto: Mosquitto) -> Iterator[HomeAssistant]:
    """Home Assistant with that broker."""
    running = HomeAssistant(tmp_path / "ha", mosquitto)
    yield running
    running.close()


@pytest.mark.homeassistant
def test_owners_see_and_switch_their_device(
    world: "World", home: HomeAssistant, mosquitto: Mosquitto
) -> None:
    """Budget and last sent are shown, the switch is obeyed, and an agent that left is marked."""
    folder, ledger = DeviceFolder(world.folder), world.ledger()
    entities = HomeEntities(
        mosquitto.broker(), "attic", folder=folder, clock=world.clock, journal=world.notes
    )

    def shows(entity: str, state: str) -> bool:
        entities.publish_state(ledger)
        return bool(home.state(entity).get("state") == state)

    until(lambda: shows(BUDGET, "24.0"))
    until(lambda: shows(SHARE, "on"))
    # Nothing was sent yet: no time is invented.
    until(lambda: shows(SENT, "unknown"))
    entities.note("sent", round=7, attempts=1)
    until(lambda: home.state(SENT)["state"] != "unknown" or shows(SENT, ""))
    assert home.state(SENT)["attributes"]["device_class"] == "timestamp"
    home.press(SHARE, "turn_off")
    until(lambda: folder.is_paused)
    until(lambda: shows(SHARE, "off"))
    home.press(SHARE, "turn_on")
    until(lambda: not folder.is_paused)
    until(lambda: shows(SHARE, "on"))
    entities.close()
    until(lambda: home.state(SHARE)["state"] == "unavailable")
    assert home.complaints() == []


@pytest.mark.homeassistant
def test_owners_see_themselves_against_the_fleet(
    world: "World", home: HomeAssistant, mosquitto: Mosquitto
) -> None:
    """In words or as a difference, as they chose; it follows what is public on the broker."""
    folder, ledger = DeviceFolder(world.folder), world.ledger()
    fleet = BrokerSession(mosquitto.broker(), "fleet")
    fleet.start()
    assert fleet.wait_up(10)
    estimates = FleetEstimates(CAMPAIGN.id)
    reader = FleetReader(mosquitto.broker(), estimates, CAMPAIGN.id)
    for at_home, first, second in (("words", "above", "below"), ("difference", "400.0", "-800.0")):
        name = f"attic-{at_home}"
        entities = HomeEntities(
            mosquitto.broker(), name, folder=folder, clock=world.clock, journal=world.notes,
            at_home=at_home,
        )  # fmt: skip

        def shows(state: str, entities: HomeEntities = entities, name: str = name) -> bool:
            entities.publish_state(ledger, compare(seen(900.0), estimates, CAMPAIGN))
            entity = f"sensor.rase_{name.replace('-', '_')}_against_the_fleet"
            return bool(home.state(entity).get("state") == state)

        for mean, said in ((500.0, first), (1700.0, second)):
            fleet.publish(Topics(CAMPAIGN.id).estimate, message(0, mean, 20.0), is_retained=True)
            until(partial(shows, said))
        entities.close()
    reader.close()
    fleet.stop()
    assert home.complaints() == []


@pytest.mark.homeassistant
def test_a_state_is_read_by_its_interface(home: HomeAssistant, mosquitto: Mosquitto) -> None:
    """Numbers are converted; an entity without a state, an unknown one and a bad token are told."""
    topic, entity = "attic/meter", "sensor.meter_power"
    meter = BrokerSession(mosquitto.broker(), "meter")
    meter.start()
    assert meter.wait_up(10)
    found = Discovery(
        id="meter",
        name="Meter",
        model="m",
        version="1",
        state_topic=topic,
        entities=(Entity("power", "Power", "sensor", unit_fields("kW")),),
        shared={"avty_t": "attic/online"},
    )
    meter.publish(found.topic, found.payload(), is_retained=True)
    until(lambda: home.state(entity).get("state") == "unavailable")
    source = HomeAssistantSource(home.url, entity, token=home.token, unit="W")
    assert source.read() == []
    meter.publish("attic/online", b"online", is_retained=True)
    until(lambda: home.state(entity)["state"] == "unknown")
    assert source.read() == []
    meter.publish(topic, b"0.25", is_retained=True)
    until(lambda: home.state(entity)["state"] == "0.25")
    assert source.read() == [250.0]
    with pytest.raises(SourceFailed, match="is in kW, not in °C"):
        HomeAssistantSource(home.url, entity, token=home.token, unit="°C").read()
    with pytest.raises(SourceFailed, match="knows no such entity"):
        HomeAssistantSource(home.url, "sensor.cellar", token=home.token).read()
    with pytest.raises(SourceFailed, match="refuses the token"):
        HomeAssistantSource(home.url, entity, token="wrong").read()  # noqa: S106
    # What Home Assistant does not admit it says, so its silence above means something.
    assert home.complaints() == []
    faulty = found.payload().replace(b'"power", "stat_cla"', b'"timestamp", "stat_cla"')
    meter.publish(found.topic.replace("meter", "faulty"), faulty.replace(b"meter_", b"faulty_"))
    until(lambda: bool(home.complaints()))
    meter.stop()
    home.close()
    with pytest.raises(SourceFailed, match="homeassistant"):
        source.read()
