"""A world with a registrar: deaths and outages cost no report, and no token counts twice."""

from collections import Counter
from contextlib import closing

import numpy as np
import pytest
from tests.simulation.compare import quick_place, same_without_faults
from tests.simulation.world import Operation, World

ROUNDS = 26
FETCHING = ("issue", "upkeep")


def live(operations: list[Operation]) -> Counter[tuple[str, str]]:
    """Go through some operations, compare with a calm world; return who died at what."""
    with quick_place() as folder, closing(World(folder / "w", devices=4)) as world:
        world.run(operations)
        same_without_faults(world, operations)
        check_tokens(world)
        return world.all_deaths()


def check_tokens(world: World) -> None:
    """Each token that was counted is one of a report, and no report was refused."""
    ((spent,),) = world.rows(world.fusion, "SELECT count(*) FROM spent")
    reports = world.rows(world.fusion, "SELECT sum(n) FROM answers WHERE method = 'unbiased_mean'")
    refused = world.rows(world.fusion, "SELECT sum(refused), sum(replayed) FROM batches")
    assert spent == reports[0][0] > 0
    assert refused == [(0, 0)]


def operations_of(seed: int, deaths: int) -> list[Operation]:
    """Return rounds with faults of the registrar, the devices and the fusion centre among them.

    Tokens of the first window were fetched before.
    """
    rng = np.random.default_rng(seed)
    made: list[Operation] = []
    for _ in range(ROUNDS):
        for _ in range(deaths):
            step = str(rng.choice([*FETCHING, "device", "put"]))
            point = int(rng.integers(30 if step == "device" else 6))
            made.append(
                ("death", step, point, *([int(rng.integers(4))] if step == "device" else []))
            )
        if rng.random() < 0.2:
            made.append(("outage", "registrar"))
        made.append(("round",))
    return made


@pytest.mark.parametrize("seed", [1, 2])
def test_deaths_and_outages_of_the_registrar_change_no_estimate(seed: int) -> None:
    """Same bytes asked for, same tokens answered: every round is as in a calm world."""
    deaths = live(operations_of(seed, 3))
    assert deaths.total() >= 20
    assert any(step in FETCHING for step, _ in deaths)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_thousands_of_deaths_around_tokens(seed: int) -> None:
    """As above, many times."""
    live(operations_of(seed, 12))
