"""Worlds that carry rounds: devices take turns, small rounds wait, and every step of it may die."""

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tests.simulation.compare import same_without_faults
from tests.simulation.setting import FIRST, Setting
from tests.simulation.test_deaths import operations_of
from tests.simulation.world import Operation, World

from rase.shuffler.release import Releaser

if TYPE_CHECKING:
    from tests.simulation.conftest import Compare, MakeWorld

ROUND: Operation = ("round",)
# Of five devices one or two have a reading in a round, three are the fewest; blocks of four.
CARRIES = Setting(carry_rounds=3, turns=3, sends_cover=False)
# A close that leaves reports writes them anew: two points more than one that leaves none.
CLOSE_POINTS = 20


def counted(world: World) -> dict[int, int]:
    """Return how many reports the estimate of each round holds; withheld rounds are not in it."""
    rows = world.rows(world.fusion, "SELECT DISTINCT round, n FROM answers")
    return {round - FIRST: n for round, n in rows}


def states(world: World) -> list[str]:
    """Return what became of the rounds at the shuffler, in their order."""
    return [state for (state,) in world.rows(world.closer, "SELECT state FROM round ORDER BY 1")]


def test_small_rounds_are_released_together(lived: "Compare") -> None:
    """Two and one wait for two more; what is too few at the block's end is erased."""
    world = lived([ROUND] * 8)
    assert set(counted(world).values()) == {5}
    world = lived([ROUND] * 8, setting=CARRIES)
    told = counted(world)
    assert told
    assert set(told.values()) <= {3, 4, 5}
    assert len(told) < 8
    assert Counter(states(world))["carried"] >= 2


def test_without_carrying_nothing_would_be_told(lived: "Compare") -> None:
    """The same fleet with the policy to drop has no estimate at all."""
    dropping = Setting(turns=3, sends_cover=False)
    assert counted(lived([ROUND] * 8, setting=dropping)) == {}


def test_deaths_at_every_step_change_no_estimate(lived: "Compare") -> None:
    """Carried reports are released once, whatever dies meanwhile, and versions change."""
    world = lived(operations_of(40, seed=2026, deaths=1), setting=CARRIES)
    assert sum(world.all_deaths().values()) >= 180
    assert ("close", "INSERT report") in world.all_deaths()
    assert ("finalise", "DELETE envelope_tag") in world.all_deaths()
    assert len(counted(world)) >= 8
    assert Counter(states(world))["carried"] >= 8


def test_every_point_of_a_close_that_carries_is_survived(lived: "Compare") -> None:
    """A close dies at each of its points in turn, in rounds that carry and rounds that do not."""
    operations: list[Operation] = []
    for point in range(CLOSE_POINTS + 1):
        operations += [("death", "close", point), ROUND]
    world = lived(operations, setting=CARRIES)
    deaths = sum(count for (step, _), count in world.all_deaths().items() if step == "close")
    assert deaths >= CLOSE_POINTS - 6


@pytest.mark.slow
def test_many_deaths_change_no_estimate(lived: "Compare") -> None:
    """The same for long, with several deaths of each step in a round."""
    world = lived(operations_of(100, seed=1, deaths=5), setting=CARRIES)
    assert sum(world.all_deaths().values()) >= 2000


def test_a_report_that_is_released_twice_is_noticed(
    make_world: "MakeWorld", monkeypatch: pytest.MonkeyPatch
) -> None:
    """The world sees reports that stay after their release."""
    close = Releaser.close

    def keeps(self: Releaser, lease: object, agreed: object, **given: object) -> object:
        with self._database.snapshot() as transaction:
            rows = transaction.execute("SELECT round, tag, device, wire FROM report")
        closed = close(self, lease, agreed, **given)  # type: ignore[arg-type]
        with self._database.transaction() as transaction:
            transaction.insert_new("report", ("round", "tag", "device", "wire"), rows, key=3)
        return closed

    monkeypatch.setattr(Releaser, "close", keeps)
    with pytest.raises(AssertionError):
        make_world(setting=CARRIES).run([ROUND] * 4)


def test_tags_that_stay_are_noticed(make_world: "MakeWorld") -> None:
    """The comparison sees tags that outlive their block."""
    world = make_world(setting=CARRIES).run([ROUND] * 5)
    with world.fusion.database.transaction() as transaction:
        transaction.execute(
            "INSERT INTO envelope_tag (campaign, block, tag) VALUES (?, ?, ?)",
            (world.campaign.id, FIRST, bytes(16)),
        )
    with pytest.raises(AssertionError):
        same_without_faults(world, [ROUND] * 5)
