"""Worlds in folders of their own, in memory where possible: simulated disks are synced often."""

from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import pytest
from tests.registering import issuer
from tests.simulation.compare import same_without_faults
from tests.simulation.setting import Setting
from tests.simulation.world import Operation, World

from rase.storage.address import PostgresAddress
from rase.wire.issuing import Issuer

MakeWorld = Callable[..., World]
Compare = Callable[..., World]


@pytest.fixture(autouse=True)
def frequent_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have trackers keep their state often, so that many deaths come between and after such."""
    monkeypatch.setattr("rase.fusion.tracking.STATE_EVERY", 16)


@pytest.fixture(autouse=True)
def kept_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give windows that follow each other different keys, of a few that are made once a process."""
    numbers = cycle(range(6))
    monkeypatch.setattr(Issuer, "generate", lambda: issuer(next(numbers)))


@pytest.fixture
def make_world(quick_folder: Path) -> Iterator[MakeWorld]:
    """Make worlds; all are closed at the end."""
    made: list[World] = []

    def make(
        *,
        devices: int = 5,
        setting: Setting | None = None,
        database: PostgresAddress | None = None,
    ) -> World:
        folder = quick_folder / f"world{len(made)}"
        made.append(World(folder, devices=devices, setting=setting, database=database))
        return made[-1]

    yield make
    for world in made:
        world.close()


@pytest.fixture
def lived(make_world: MakeWorld) -> Compare:
    """Live through a list of operations, compare with the world without faults, return it."""

    def live(
        operations: list[Operation],
        *,
        devices: int = 5,
        setting: Setting | None = None,
        database: PostgresAddress | None = None,
    ) -> World:
        world = make_world(devices=devices, setting=setting, database=database).run(operations)
        same_without_faults(world, operations)
        return world

    return live
