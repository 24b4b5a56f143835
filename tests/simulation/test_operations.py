"""Lists of operations: named ones that matter, and random ones that shrink to a short list."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.compare import quick_place, same_without_faults
from tests.simulation.setting import FIRST
from tests.simulation.world import (
    BATCH_FAULTS,
    DOCUMENT_STEPS,
    MESSAGE_FAULTS,
    STEPS,
    Operation,
    World,
)

if TYPE_CHECKING:
    from tests.simulation.conftest import Compare, MakeWorld

ROUND: Operation = ("round",)
# A list that once broke something stays here under a name.
NAMED: dict[str, list[Operation]] = {
    "nothing happens": [],
    "only rounds": [ROUND, ROUND, ROUND],
    "everybody's answer is lost": [*(("message", d, "lose-answer") for d in range(5)), ROUND],
    "all arrive twice": [*(("message", d, "duplicate") for d in range(5)), ROUND],
    "all arrive in reverse": [*(("message", d, "delay") for d in range(5)), ROUND],
    "all arrive after the close": [*(("message", d, "late") for d in range(5)), ROUND],
    "all are sent again a round later": [*(("message", d, "replay") for d in range(5)), ROUND] * 2,
    "too few are left": [*(("message", d, "lose") for d in range(3)), ROUND, ROUND],
    "all are changed": [*(("message", d, "tamper") for d in range(5)), ROUND, ROUND],
    "a batch overtakes another": [("outage", "fusion"), ROUND, ROUND],
    "the batch comes again when final": [("batch", "replay"), ROUND, ROUND],
    "the shuffler is away": [("outage", "shuffler"), ROUND, ROUND],
    "death of both servers in one put": [("death", "forward", 4), ("death", "put", 7), ROUND],
    "the put is kept, then the forwarder dies": [("death", "forward", 5), ROUND],
    "the close dies again and again": [*(("death", "close", k) for k in range(18)), ROUND],
    "keys change while reports wait": [ROUND, ("outage", "shuffler"), ("keys",), ROUND],
    "a version begins": [ROUND, ("version",), ROUND, ROUND, ROUND],
    "a version begins while a device is dead": [
        ROUND,
        ("version",),
        ROUND,
        ROUND,
        ("death", "device", 6, 2),
        ("death", "device", 3, 2),
        ROUND,
    ],
    "budget runs out": [ROUND] * 12,
}


@pytest.mark.parametrize("name", NAMED)
def test_named_lists(lived: "Compare", name: str) -> None:
    """Every list leaves the estimates of the world without faults."""
    lived(NAMED[name])


def test_a_batch_changed_on_its_way_is_sent_again(lived: "Compare") -> None:
    """It is refused, the same bytes follow, and every round has its estimate."""
    world = lived([ROUND, ("batch", "tamper"), ROUND, ROUND])
    assert sorted(world.estimates()) == [FIRST, FIRST + 1, FIRST + 2]
    assert world.rows(world.closer, "SELECT round, state FROM outbox") == []


class Eager(World):
    """A world whose fusion centre looks for settled rounds after every single batch."""

    def _live(self, step: str, action: str, *, wait_s: float = 1.0) -> Any:
        answer = super()._live(step, action, wait_s=wait_s)
        if step == "forward":
            super()._live("finalise", "tick")
        return answer


def test_batches_that_come_in_the_wrong_order_change_nothing(quick_folder: Path) -> None:
    """After an outage the last batch comes first; rounds are still followed in their own order."""
    with closing(Eager(quick_folder / "world", devices=4)) as world:
        world.run([ROUND])
        for _ in range(3):
            world._unreachable["fusion"] = 0.0
            world._pass_round()
        (span,) = world.rows(world.closer, "SELECT count(*), max(round) FROM outbox")
        assert span == (3, FIRST + 3)
        with world.closer.database.transaction() as transaction:
            transaction.execute(
                "UPDATE outbox SET next_s = ? - 10 * round",
                (int(world.clock.now_s()) + 10 * span[1],),
            )
        world.run([])
        same_without_faults(world, [ROUND] * 4)


def test_versions_that_follow_each_other_quickly(make_world: "MakeWorld") -> None:
    """A device that missed a version still takes part in the rounds in which it holds."""
    world = make_world()
    for _ in range(3):
        world.run([ROUND])
        world.publish_version()
    world.run([ROUND, ROUND])


def faults() -> st.SearchStrategy[Operation]:
    """Draw one operation."""
    devices = st.integers(0, 3)
    return st.one_of(
        st.just(ROUND),
        st.tuples(st.just("death"), st.sampled_from(STEPS), st.integers(0, 17)),
        st.tuples(st.just("death"), st.just("device"), st.integers(0, 20), devices),
        st.tuples(st.just("message"), devices, st.sampled_from(MESSAGE_FAULTS)),
        st.tuples(st.just("batch"), st.sampled_from(BATCH_FAULTS)),
        st.tuples(st.just("outage"), st.sampled_from(("shuffler", "fusion"))),
        st.tuples(st.just("death"), st.sampled_from(DOCUMENT_STEPS), st.integers(0, 9)),
        st.sampled_from([("version",), ("keys",), ("fusion-keys",)]),
    )


def live_through(operations: list[Operation]) -> None:
    """Live through a list in a world of its own, and compare."""
    with quick_place() as folder, closing(World(folder / "world", devices=4)) as world:
        same_without_faults(world.run(operations), operations)


@settings(max_examples=12)
@given(st.lists(faults(), max_size=24))
def test_random_lists(operations: list[Operation]) -> None:
    """Any list leaves the estimates of the world without faults; a failure shrinks to a list."""
    live_through([*operations, ROUND])


@pytest.mark.slow
@settings(max_examples=400)
@given(st.lists(faults(), max_size=80))
def test_long_random_lists(operations: list[Operation]) -> None:
    """The same with longer lists, and more of them."""
    live_through([*operations, ROUND])
