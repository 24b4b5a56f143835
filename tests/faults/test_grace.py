"""A closer waits for the grace of a round: until then devices may send."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.shuffler.conftest import World

from rase.shuffler.intake import Outcome


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A shuffler with four devices, of which three make a round."""
    made = World(tmp_path / "shuffler.db")
    yield made
    made.close()


def test_no_round_is_closed_before_its_grace_is_over(world: World) -> None:
    """With enough reports a round still waits to its last second, and takes one more in it."""
    world.upload_time(100)
    closer = world.closer()
    for device in range(3):
        assert world.send(device, world.seal(100)) is Outcome.STORED
        assert closer.close_one() is None
    world.clock.jump(world.campaign.closes_s(100) - 1 - world.clock.now_s())
    assert closer.close_one() is None
    assert world.send(3, world.seal(100)) is Outcome.STORED
    world.clock.jump(1)
    closed = closer.close_one()
    assert closed is not None
    assert (closed.state, closed.released) == ("released", 4)
