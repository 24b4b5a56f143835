"""A fleet behind a real broker: every report arrives, and memory does not grow with rounds."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.broker import Mosquitto
from tests.shuffler.test_mqtt import desk_of, intake

from rase.transport.broker import Broker
from rase.transport.mqtt import MqttTransport
from rase.wire.frames import credential_key

if TYPE_CHECKING:
    from tests.shuffler.conftest import MakeWorld, World

FIRST = 100
THREADS = 8


def memory_kb() -> int:
    """Return how much memory this process has."""
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0])


def enrolled(world: "World", count: int) -> list[str]:
    """Enrol devices in one transaction; return their credentials."""
    secrets = [f"secret-{number}" for number in range(count)]
    with world.database.transaction() as transaction:
        transaction.execute_many(
            "INSERT INTO device (id, digest, device_key, group_name) VALUES (?, ?, ?, '')",
            [
                (number, credential_key(secret), number.to_bytes(32, "big"))
                for number, secret in enumerate(secrets)
            ],
        )
    return [f"{number:016x}.{secret}" for number, secret in enumerate(secrets)]


def report(broker: Broker, credential: str, wire: bytes) -> int:
    """Send a report as a device does, once; return the status of the answer."""
    transport = MqttTransport(broker, campaign="homes", credential=credential)
    return transport.post("/v1/reports", wire, content_type="application/rase-report").status


@pytest.mark.any_store
@pytest.mark.parametrize(
    ("devices", "rounds"), [(1000, 2), pytest.param(10_000, 10, marks=pytest.mark.slow)]
)
def test_all_reports_of_a_fleet_arrive(
    make_world: "MakeWorld", tmp_path: Path, devices: int, rounds: int
) -> None:
    """Each device reports each round over a connection of its own; none is lost or doubled."""
    world = make_world(devices=0)
    credentials = enrolled(world, devices)
    mosquitto = Mosquitto(tmp_path / "broker")
    broker = mosquitto.broker()
    used: list[tuple[int, int]] = []
    try:
        with (
            intake(world, mosquitto.broker(), handler=desk_of(world)),
            ThreadPoolExecutor(THREADS) as pool,
        ):
            for round in range(FIRST, FIRST + rounds):
                world.upload_time(round)
                wire = [world.seal(round) for _ in credentials]
                statuses = pool.map(report, [broker] * devices, credentials, wire)
                assert set(statuses) == {201}
                rows = world.rows(f"SELECT device, wire FROM report WHERE round = {round}")  # noqa: S608
                assert len(rows) == devices
                assert {bytes(row[1]) for row in rows} == set(wire)
                # As the closer does: otherwise the database's cache would grow with its rows.
                with world.database.transaction() as transaction:
                    transaction.execute("DELETE FROM report")
                used.append((memory_kb(), mosquitto.memory_kb()))
    finally:
        mosquitto.kill()
    for first, last in zip(used[0], used[-1], strict=True):
        assert last < 1.2 * first + 4096, used
