"""Death at every step of every role, for many rounds: no estimate is different for it."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest
from tests.simulation.compare import same_without_faults
from tests.simulation.setting import FIRST
from tests.simulation.world import (
    BATCH_FAULTS,
    MESSAGE_FAULTS,
    STEPS,
    Operation,
    World,
)

from rase.kernels.entropy import SeededEntropy, integer_below
from rase.shuffler.intake import Outcome, Pending
from rase.storage.interface import Database
from rase.storage.sqlite import SqliteDatabase

if TYPE_CHECKING:
    from tests.simulation.conftest import Compare, MakeWorld

# How many fault points a step has: before and after each write and each commit.
POINTS = {"intake": 6, "close": 18, "forward": 8, "erase": 8, "put": 12, "finalise": 21}
DEVICE_POINTS = 20
# What dies, by step: each must have been met at least once.
NAMED = {
    "intake": {"INSERT round", "INSERT report", "commit"},
    "close": {
        "INSERT round",
        "UPDATE campaign",
        "UPDATE round",
        "INSERT outbox",
        "DELETE report",
        "commit",
    },
    "forward": {"UPDATE outbox", "DELETE outbox", "commit"},
    "erase": {"commit", "scrub"},
    "put": {"INSERT rounds", "INSERT envelope_tag", "INSERT opened", "INSERT batches", "commit"},
    "finalise": {
        "UPDATE rounds",
        "INSERT answers",
        "INSERT tracked",
        "UPDATE answers",
        "DELETE opened",
        "DELETE envelope_tag",
        "commit",
        "scrub",
    },
    "device": {"read", "report", "draw", "keep", "commit", "post", "mark_sent", "save", "unsent"},
}


def operations_of(rounds: int, *, seed: int, deaths: int) -> list[Operation]:
    """Return a list in which every step dies in turn at each of its points, among other faults.

    Args:
        rounds: How many rounds.
        seed: Decides what else goes wrong.
        deaths: How often each step dies in a round.
    """
    entropy = SeededEntropy(seed)
    found: list[Operation] = []
    for round in range(rounds):
        for step in STEPS:
            # Each point in its turn: no step is left to chance. Where each step dies once a round,
            # the two ends of a put take turns, or the forwarder would never live to see an answer.
            if deaths == 1 and step == ("put", "forward")[round % 2]:
                continue
            turn = round // 2 if deaths == 1 and step in ("put", "forward") else round * deaths
            points = [(turn + extra) % POINTS[step] for extra in range(deaths)]
            found += [("death", step, point) for point in points]
        device = integer_below(5, entropy)
        # Shifted every ten rounds: the budget ends in the rhythm of the window, and then a cover
        # report is saved where a report would be drawn.
        point = (round + round // 10) % DEVICE_POINTS
        found.append(("death", "device", point, device))
        found.append(("death", "device", 6 + round % 3, device + 1))
        if round % 7 == 3:
            # It dies again while it recalls what it did before.
            found.append(("death", "device", integer_below(8, entropy), device))
        fault = MESSAGE_FAULTS[integer_below(len(MESSAGE_FAULTS), entropy)]
        found.append(("message", integer_below(5, entropy), fault))
        if round % 3 == 0:
            # A changed batch is lost for good; what that leaves is shown elsewhere.
            places = len(BATCH_FAULTS) - 1
            found.append(("batch", BATCH_FAULTS[integer_below(places, entropy)]))
        if round % 11 == 5:
            found.append(("outage", ("shuffler", "fusion")[integer_below(2, entropy)]))
        if round % 25 == 12:
            found += [("version",), ("keys",)]
        found.append(("round",))
    return found


def died_at(world: World) -> dict[str, Counter[str]]:
    """Return how often each step died at what."""
    found: dict[str, Counter[str]] = {step: Counter() for step in NAMED}
    for (step, label), count in world.all_deaths().items():
        found[step][label] += count
    return found


def test_five_hundred_deaths_change_no_estimate(lived: "Compare") -> None:
    """Over 80 rounds every named step dies, messages fail, and each estimate stays the same."""
    world = lived(operations_of(80, seed=2026, deaths=1))
    died = died_at(world)
    assert sum(count for counts in died.values() for count in counts.values()) >= 500
    for step, labels in NAMED.items():
        assert labels <= set(died[step]), f"{step} never died at {labels - set(died[step])}"
    states = Counter(answer[0] for answer in world.estimates().values())
    assert states["final"] >= 60
    assert states["withheld"] >= 1
    assert max(world.estimates()) == FIRST + 79


@pytest.mark.parametrize("step", STEPS)
def test_every_point_of_a_step_is_survived(lived: "Compare", step: str) -> None:
    """Each point is met once, in order; one point further there is none left."""
    operations: list[Operation] = []
    for point in range(POINTS[step] + 1):
        operations += [("death", step, point), ("round",)]
    # Budgets end after nine rounds in ten; a withheld round has fewer points, so they rotate.
    world = lived(operations)
    deaths = sum(count for (name, _), count in world.all_deaths().items() if name == step)
    assert POINTS[step] - 3 <= deaths <= POINTS[step]


@pytest.mark.parametrize("point", range(DEVICE_POINTS))
def test_a_device_dies_at_every_call(lived: "Compare", point: int) -> None:
    """Whatever a device was doing, its noise is drawn once and its report counts at most once."""
    operations: list[Operation] = [("round",), ("death", "device", point, 1), ("round",)]
    world = lived([*operations, ("round",)])
    counted = world.estimates()
    assert [counted[FIRST + place][1][-1] for place in (0, 2)] == [5, 5]
    assert counted[FIRST + 1][1][-1] in (4, 5)


def test_a_changed_estimate_is_noticed(make_world: "MakeWorld") -> None:
    """The comparison sees an estimate that is off by a billionth."""
    world = make_world().run([("round",)])
    with world.fusion.database.transaction() as transaction:
        transaction.execute("UPDATE answers SET value = value * 1.000000001")
    with pytest.raises(AssertionError, match="round 1000 differs"):
        same_without_faults(world, [("round",)])


def test_an_answer_before_the_commit_is_noticed(
    make_world: "MakeWorld", monkeypatch: pytest.MonkeyPatch
) -> None:
    """The world sees a report that was acknowledged and is not there."""

    def promise(database: Database, reports: Sequence[Pending]) -> list[Outcome]:
        return [Outcome.STORED for _ in reports]

    monkeypatch.setattr("rase.shuffler.report_handler.store_reports", promise)
    with pytest.raises(AssertionError, match="is lost"):
        make_world().run([("round",)])


def test_traces_are_noticed(make_world: "MakeWorld", monkeypatch: pytest.MonkeyPatch) -> None:
    """The world sees payloads that stay in the shuffler's write-ahead log."""
    monkeypatch.setattr(SqliteDatabase, "scrub", lambda self: True)
    with pytest.raises(AssertionError, match="a payload is left"):
        make_world().run([("round",)])


def test_a_second_draw_is_noticed(make_world: "MakeWorld") -> None:
    """The comparison sees noise that was drawn twice."""
    world = make_world().run([("round",)])
    world.devices[3].draws[FIRST] += 1
    with pytest.raises(AssertionError, match="noise was drawn twice"):
        same_without_faults(world, [("round",)])


@pytest.mark.slow
def test_ten_thousand_deaths_change_no_estimate(lived: "Compare") -> None:
    """The same for long, with several deaths of each step in a round."""
    deaths = 0
    for seed in range(1, 6):
        world = lived(operations_of(100, seed=seed, deaths=5))
        deaths += sum(world.all_deaths().values())
    assert deaths >= 10_000
