"""The fault campaign with all state in PostgreSQL, compared with a calm world in SQLite."""

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tests.simulation.setting import FIRST
from tests.simulation.test_carry import CARRIES
from tests.simulation.test_deaths import NAMED, POINTS, died_at, operations_of
from tests.simulation.world import STEPS, Operation

if TYPE_CHECKING:
    from benchmarks.loading.postgres import PostgresServer
    from tests.simulation.conftest import Compare


def test_deaths_change_no_estimate(lived: "Compare", postgres: "PostgresServer") -> None:
    """Over 20 rounds every step dies at its points, and each estimate is that of SQLite."""
    world = lived(operations_of(20, seed=2026, deaths=1), database=postgres.new_database())
    assert sum(world.all_deaths().values()) >= 100
    assert max(world.estimates()) == FIRST + 19


def test_deaths_of_carried_rounds_change_no_estimate(
    lived: "Compare", postgres: "PostgresServer"
) -> None:
    """Over 12 rounds that are too small alone, each estimate is that of SQLite."""
    world = lived(
        operations_of(12, seed=2026, deaths=1), setting=CARRIES, database=postgres.new_database()
    )
    assert sum(world.all_deaths().values()) >= 50
    assert any(answer[0] == "final" for answer in world.estimates().values())


@pytest.mark.slow
def test_five_hundred_deaths_change_no_estimate(
    lived: "Compare", postgres: "PostgresServer"
) -> None:
    """Over 100 rounds every named step dies, messages fail, and each estimate stays the same."""
    world = lived(operations_of(100, seed=2026, deaths=1), database=postgres.new_database())
    died = died_at(world)
    assert sum(count for counts in died.values() for count in counts.values()) >= 500
    for step, labels in NAMED.items():
        assert labels <= set(died[step]), f"{step} never died at {labels - set(died[step])}"
    states = Counter(answer[0] for answer in world.estimates().values())
    assert states["final"] >= 60


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_every_point_of_a_step_is_survived(
    lived: "Compare", postgres: "PostgresServer", step: str
) -> None:
    """Each point is met once, in order, as on SQLite."""
    operations: list[Operation] = []
    for point in range(POINTS[step] + 1):
        operations += [("death", step, point), ("round",)]
    world = lived(operations, database=postgres.new_database())
    deaths = sum(count for (name, _), count in world.all_deaths().items() if name == step)
    assert POINTS[step] - 3 <= deaths <= POINTS[step]


@pytest.mark.slow
def test_ten_thousand_deaths_change_no_estimate(
    lived: "Compare", postgres: "PostgresServer"
) -> None:
    """The same for long, with several deaths of each step in a round."""
    deaths = 0
    for seed in range(1, 6):
        world = lived(operations_of(100, seed=seed, deaths=5), database=postgres.new_database())
        deaths += sum(world.all_deaths().values())
    assert deaths >= 10_000
