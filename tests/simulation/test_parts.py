"""Rounds that travel in parts: deaths before, between and after them change no estimate."""

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tests.simulation.compare import same_without_faults
from tests.simulation.setting import FIRST, Setting
from tests.simulation.test_deaths import operations_of
from tests.simulation.world import Operation, World

if TYPE_CHECKING:
    from tests.simulation.conftest import Compare, MakeWorld

# Eight reports are three parts of three and less, or two where a part would be below k_min.
PARTED = Setting(part_reports=3)
DEVICES = 8
ROUND: Operation = ("round",)


def parts_of(world: World) -> Counter[int]:
    """Return in how many parts rounds came, and how many rounds came in so many."""
    rows = world.rows(world.fusion, "SELECT DISTINCT round, parts FROM batches")
    return Counter(parts for _, parts in rows)


def test_deaths_between_parts_change_no_estimate(lived: "Compare") -> None:
    """Closer, forwarder and fusion centre die at each of their points; each part counts once."""
    world = lived(operations_of(30, seed=2026, deaths=1), devices=DEVICES, setting=PARTED)
    assert parts_of(world)[2] >= 20
    died = Counter(step for step, _ in world.all_deaths().elements())
    assert min(died[step] for step in ("close", "forward", "put", "finalise")) >= 10


def test_an_outage_between_two_parts_changes_nothing(lived: "Compare") -> None:
    """The forwarder dies once a part was taken: the other follows, and the round waits for it."""
    operations: list[Operation] = []
    for point in range(8):
        operations += [("death", "forward", point), ("death", "put", 3 * point // 2), ROUND]
    world = lived(
        [*operations, ("outage", "fusion"), ROUND, ROUND], devices=DEVICES, setting=PARTED
    )
    assert parts_of(world)[2] >= 8
    assert max(world.estimates()) == FIRST + 9


def test_a_part_that_is_lost_is_noticed(make_world: "MakeWorld") -> None:
    """The comparison sees a round that became final without one of its parts."""
    world = make_world(devices=DEVICES, setting=PARTED).run([ROUND, ROUND])
    with world.fusion.database.transaction() as transaction:
        transaction.execute(
            "DELETE FROM batches WHERE batch = (SELECT MIN(batch) FROM batches WHERE parts = 2)"
        )
    with pytest.raises(AssertionError, match="a part is missing"):
        same_without_faults(world, [ROUND, ROUND])


@pytest.mark.slow
def test_many_deaths_between_parts_change_no_estimate(lived: "Compare") -> None:
    """The same for long, with several deaths of each step in a round."""
    deaths = 0
    for seed in range(1, 6):
        world = lived(operations_of(100, seed=seed, deaths=5), devices=DEVICES, setting=PARTED)
        deaths += sum(world.all_deaths().values())
    assert deaths >= 10_000
