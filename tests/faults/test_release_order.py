"""What a closer releases stands in the order that was drawn, not in one that repeats itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.shuffler.conftest import OPENERS, World

from rase.wire.outer import OuterOpener

DEVICES = 24


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A shuffler with a round's worth of devices."""
    made = World(tmp_path / "shuffler.db", devices=DEVICES)
    yield made
    made.close()


def test_a_batch_is_in_no_order_that_repeats(world: World) -> None:
    """The devices of a batch stand neither as they came, nor by number, nor as in the last round.

    False alarms: five of 24! orders.
    """
    first, second = (released(world, round) for round in (100, 101))
    numbers = [device for _, device in sorted(zip(world.devices, range(DEVICES), strict=True))]
    for order in (first, second):
        assert sorted(order) == list(range(DEVICES))
        assert order not in (list(range(DEVICES)), numbers)
    assert first != second


def released(world: World, round: int) -> list[int]:
    """Send one report of each device, close the round, and return whose report stands where."""
    world.upload_time(round)
    wires = [world.seal(round) for _ in range(DEVICES)]
    for device, wire in enumerate(wires):
        world.send(device, wire)
    world.close_time(round)
    closer = world.closer()
    while closer.step():
        pass
    opener = OuterOpener(world.hash, [OPENERS["shuffler"]])
    sender = {opener.open(wire).inner: device for device, wire in enumerate(wires)}
    return [sender[inner] for inner in world.ear.batches[round, 1].inner]
