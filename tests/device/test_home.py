"""What an owner sees at home: entities on a real broker, and a switch that is obeyed."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.broker import Mosquitto
from tests.patience import PATIENCE_S, until
from tests.registering import keep_tokens
from tests.transport.test_discovery import check_discovery

from rase.accounting.ledger import LedgerUnusable
from rase.cli import main
from rase.device.folder import DeviceFolder
from rase.device.home import HomeEntities, owner_discovery
from rase.device.program import run_device
from rase.device.quantities import add_quantity
from rase.transport.session import BrokerSession

if TYPE_CHECKING:
    from tests.device.conftest import World

STATE = "rase/agent/attic/state"
SWITCH = "rase/agent/attic/share/set"
AVAILABLE = "rase/agent/attic/availability"


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Mosquitto]:
    """A broker at home."""
    broker = Mosquitto(tmp_path / "broker")
    yield broker
    broker.kill()


class Panel:
    """What Home Assistant does: read everything, press the switch."""

    def __init__(self, mosquitto: Mosquitto) -> None:
        self.last: dict[str, bytes] = {}
        self._client = mosquitto.broker().client("panel")
        self._client.on_connect = lambda client, *_: client.subscribe("#", 1)
        self._client.on_message = lambda client, _, message: self.last.update(
            {message.topic: bytes(message.payload)}
        )
        self._client.connect("127.0.0.1", mosquitto.port)
        self._client.loop_start()
        until(self._client.is_connected)

    def press(self, word: bytes) -> None:
        """Send a command."""
        self._client.publish(SWITCH, word, qos=1).wait_for_publish(PATIENCE_S)

    def state(self) -> Any:
        """Return the state, once there is one."""
        until(lambda: STATE in self.last)
        return json.loads(self.last[STATE])

    def close(self) -> None:
        """Leave."""
        self._client.disconnect()
        self._client.loop_stop()


def test_owners_see_their_budget_and_switch_sharing(world: "World", mosquitto: Mosquitto) -> None:
    """Budget left, last sent and the switch are retained; the switch pauses and resumes."""
    folder = DeviceFolder(world.folder)
    panel, ledger = Panel(mosquitto), world.ledger()
    entities = HomeEntities(
        mosquitto.broker(), "attic", folder=folder, clock=world.clock, journal=world.notes
    )
    until(lambda: panel.last.get(AVAILABLE) == b"online")
    entities.publish_state(ledger)
    assert panel.state() == {"v": 1, "share": "ON", "budget_left": 24.0, "last_sent": None}
    topic = owner_discovery("attic").topic
    until(lambda: topic in panel.last)
    cmps = check_discovery(topic, panel.last[topic])["cmps"]
    assert set(cmps) == {"budget_left", "last_sent", "share"}
    assert cmps["share"]["cmd_t"] == SWITCH
    entities.note("sent", round=7, attempts=1)
    entities.note("stopped")
    entities.publish_state(ledger)
    until(lambda: panel.state()["last_sent"] is not None)
    assert panel.state()["last_sent"].endswith("Z")
    panel.press(b"OFF")
    until(lambda: folder.is_paused)
    until(lambda: panel.state()["share"] == "OFF")
    panel.press(b"nonsense")
    panel.press(b"ON")
    until(lambda: not folder.is_paused)
    until(lambda: panel.state()["share"] == "ON")
    mosquitto.stop()
    mosquitto.start()
    until(lambda: entities._session.is_up)
    entities.close()
    panel.close()
    after = Panel(mosquitto)
    until(lambda: after.last.get(AVAILABLE) == b"offline")
    after.close()


def test_two_agents_of_one_name_leave_each_other_alone(
    world: "World", mosquitto: Mosquitto, tmp_path: Path
) -> None:
    """Devices whose owner gave them one name keep their connections to one broker."""
    other = DeviceFolder(tmp_path / "other")
    other.make()
    both = [
        HomeEntities(
            mosquitto.broker(), "attic", folder=folder, clock=world.clock, journal=world.notes
        )
        for folder in (DeviceFolder(world.folder), other)
    ]
    assert len({entities._session._client._client_id for entities in both}) == 2
    until(lambda: all(entities._session.is_up for entities in both))
    for entities in both:
        entities.close()


def test_an_unusable_ledger_leaves_the_last_state(world: "World", mosquitto: Mosquitto) -> None:
    """The agent tells about its ledger; the entities stay as they were."""
    entities = HomeEntities(
        mosquitto.broker(),
        "attic",
        folder=DeviceFolder(world.folder),
        clock=world.clock,
        journal=world.notes,
    )

    class Broken:
        def status(self, time_s: int) -> Any:
            raise LedgerUnusable("damaged")

    entities.publish_state(Broken())  # type: ignore[arg-type]
    assert entities._state == {"v": 1}
    entities.close()


def test_an_agent_shows_itself_at_home(
    http_shuffler: Any,
    tmp_path: Path,
    mosquitto: Mosquitto,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A device with a home broker reads its meter there, reports, and tells its owner."""
    folder = DeviceFolder(tmp_path / "device")
    folder.make()
    pinned = http_shuffler.shuffler.pinned
    folder.settings_file.write_text(
        f"""
[device]
shuffler = "{http_shuffler.url}"
campaign = "street-power"
fusion_key = "{pinned.fusion.hex()}"
shuffler_key = "{pinned.shuffler.hex()}"
registrar = "{http_shuffler.url}"
registrar_key = "{pinned.registrar.hex()}"
[owner]
report_epsilon = 1.0
span_epsilon = 10000.0
total_epsilon = 100000.0
[source]
kind = "mqtt"
topic = "meter"
unit = "kW"
every_s = 0.1
[home]
broker = "{mosquitto.broker().url}"
name = "attic"
"""
    )
    folder.keep_enrolment("credential")
    with folder.ledger(folder.settings({})) as ledger:
        keep_tokens(ledger, "street-power")
    panel = Panel(mosquitto)
    meter = BrokerSession(mosquitto.broker(), "meter")
    meter.start()
    assert meter.wait_up(PATIENCE_S)
    pause = threading.Event()

    def wait(seconds: float) -> bool:
        meter.publish("meter", b"0.5")
        pause.wait(min(seconds, 0.05))
        # Its first rounds may end before the agent has heard of its meter: then it sends covers.
        return has_reported()

    def has_reported() -> bool:
        contents = map(http_shuffler.shuffler.content, list(http_shuffler.shuffler.received))
        return any(not one.is_cover for one in contents)

    run_device(folder, {}, wait=wait, rounds=PATIENCE_S)
    meter.stop()
    assert has_reported()
    until(lambda: panel.state()["last_sent"] is not None)
    assert panel.state()["budget_left"] < 10000.0
    topic = owner_discovery("attic").topic
    assert main(["ha", "clean", "--folder", str(folder.path)]) == 0
    until(lambda: panel.last[topic] == b"" and panel.last[STATE] == b"")
    assert main(["ha", "publish", "--folder", str(folder.path)]) == 0
    until(lambda: panel.last[topic] != b"")
    # Without a name it is called as its folder, here as when it runs.
    folder.settings_file.write_text(
        folder.settings_file.read_text().replace("name = ", "# name = ")
    )
    assert main(["ha", "publish", "--folder", str(folder.path)]) == 0
    until(lambda: owner_discovery("device").topic in panel.last)
    # A further quantity of the device is one more device there.
    add_quantity(folder, "heat", value_range=(0.0, 1.0))
    assert main(["ha", "publish", "--folder", str(folder.path)]) == 0
    until(lambda: panel.last.get(owner_discovery("device-heat").topic, b"") != b"")
    assert main(["ha", "clean", "--folder", str(folder.path)]) == 0
    until(lambda: panel.last[owner_discovery("device-heat").topic] == b"")
    panel.close()
    text = folder.settings_file.read_text().replace('"mqtt"', '"stdin"')
    folder.settings_file.write_text(text.replace("broker = ", "# broker = "))
    assert main(["ha", "publish", "--folder", str(folder.path)]) == 3
    assert "home.broker is missing" in capsys.readouterr().err
