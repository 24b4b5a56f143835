"""Worlds of every kind: other keys, ciphers and shuffles, with deaths at every step of each."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest
from tests.simulation.compare import same_without_faults
from tests.simulation.setting import FIRST, Setting
from tests.simulation.test_deaths import operations_of
from tests.simulation.world import DOCUMENT_STEPS, Operation, World

from rase.campaign import ShufflePlan
from rase.fusion.opening import BatchOpener
from rase.shuffler.intake import Outcome, Pending
from rase.shuffler.report_handler import GroupCommit
from rase.wire.keys import OpeningKey
from rase.wire.messages import REPORT_SIZES, Batch, Header
from rase.wire.outer import OuterOpener
from rase.wire.suites import AES_128_GCM, KEM_NUMBERS

if TYPE_CHECKING:
    from tests.simulation.conftest import Compare, MakeWorld

ROUND: Operation = ("round",)
GROUPS = ("north", "south")
KINDS = {
    "x-wing": Setting(kem="x-wing"),
    "aes-128-gcm": Setting(aead=AES_128_GCM),
    "mallows": Setting(
        shuffle=ShufflePlan("mallows", alpha=1.0, groups=GROUPS), groups=("south", "north", "")
    ),
    "robust": Setting(shuffle=ShufflePlan("robust", alpha=0.5, groups=GROUPS), groups=GROUPS),
    "all at once": Setting(
        kem="x-wing",
        aead=AES_128_GCM,
        shuffle=ShufflePlan("robust", alpha=2.0, groups=GROUPS),
        groups=GROUPS,
    ),
}
# How many fault points the steps of publishing have, the entry in the operators' log among them;
# a version is written anew in one write more.
# A proposal is stored, signed and answered; a try after one that was signed signs no more.
POINTS = {"publish": 14, "countersign": 10}
MORE_POINTS = {("publish", "version"): 2}
# In so many rounds all devices learn of a document, and the first round that it is for passes.
ROUNDS_AFTER = {"version": 3, "keys": 2, "fusion-keys": 5}


def with_rotations(rounds: int, *, seed: int, deaths: int = 1) -> list[Operation]:
    """Return a list of deaths at all steps, in which both servers change their keys meanwhile."""
    found: list[Operation] = []
    passed = 0
    for operation in operations_of(rounds, seed=seed, deaths=deaths):
        if operation == ROUND:
            if passed % 6 == 2:
                found += publishing("fusion-keys", passed // 6)
            if passed % 6 == 4:
                found += publishing("keys", passed // 6)
            # A round in which too few are heard of, with all of its deaths.
            if passed % 9 == 5:
                found += [("message", device, "lose") for device in range(3)]
            passed += 1
        found.append(operation)
    return found


def publishing(kind: str, turn: int) -> list[Operation]:
    """Return an operation during which the operator's command and the shuffler die."""
    deaths = [("death", step, turn % POINTS[step]) for step in DOCUMENT_STEPS]
    return [*deaths, (kind,)]


# What is one of these alone dies at every step in `make slow`; here both do in "all at once".
ALONE_FOR_LONG = {"x-wing", "aes-128-gcm"}


def batched_points(count: int) -> list[range]:
    """Return the points in pieces of eight: rounds cost far more than tries."""
    return [range(start, min(start + 8, count)) for start in range(0, count, 8)]


def covers(world: World) -> int:
    """Return how many cover reports were sent under the newest version of the campaign."""
    setting = world.setting
    opener = OuterOpener(world.hash, setting.outer_keys, inner_kem=KEM_NUMBERS[setting.kem])
    sent = [wire for wires in world.wires.values() for _, wire in wires]
    newest = [wire for wire in sent if Header.from_report(wire).campaign_tag == world.hash[:8]]
    return sum(opener.open(wire).mark.is_cover for wire in newest)


def sealed_for(world: World) -> list[int]:
    """Return the fusion centre's key of each round's batch that holds reports."""
    found = []
    for _, puts in sorted(world.puts.items()):
        for payload in puts.values():
            batch = Batch.from_bytes(payload)
            found += [batch.key_id] if batch.inner else []
    return found


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ALONE_FOR_LONG])
def test_deaths_and_rotations_in_every_kind_of_world(lived: "Compare", kind: str) -> None:
    """Keys rotate, rounds are withheld, covers come: no death changes an estimate."""
    world = lived(with_rotations(18, seed=2026), setting=KINDS[kind])
    deaths = Counter[str]()
    for (step, _), count in world.all_deaths().items():
        deaths[step] += count
    assert sum(deaths.values()) >= 100
    assert set(DOCUMENT_STEPS) < set(deaths)
    states = Counter(answer[0] for answer in world.estimates().values())
    assert states["final"] >= 10
    assert states["withheld"] >= 1
    assert covers(world) >= 1
    # The fusion centre's key changed at least twice, and never twice in a round.
    keys = sealed_for(world)
    assert keys == sorted(keys)
    assert len(set(keys)) >= 3
    sizes = {len(wire) for wires in world.wires.values() for _, wire in wires}
    assert sizes == {REPORT_SIZES[KEM_NUMBERS[world.setting.kem]]}


@pytest.mark.parametrize("step", DOCUMENT_STEPS)
@pytest.mark.parametrize("kind", ROUNDS_AFTER)
def test_every_point_of_publishing_is_survived(lived: "Compare", step: str, kind: str) -> None:
    """A document whose publication died is published by the next try, with the same content."""
    operations: list[Operation] = [ROUND]
    expected = POINTS[step] + MORE_POINTS.get((step, kind), 0)
    # Each try dies one point later; one point further there is none left.
    for points in batched_points(expected + 1):
        operations += [("death", step, point) for point in points]
        operations += [(kind,), *[ROUND] * ROUNDS_AFTER[kind]]
    world = lived(operations)
    deaths = sum(count for (name, _), count in world.all_deaths().items() if name == step)
    assert deaths == expected


@pytest.mark.parametrize("method", ["mallows", "robust"])
def test_the_manifest_tells_the_shuffle_that_was_done(make_world: "MakeWorld", method: str) -> None:
    """Subscribers read what the shuffler says of the public groups, not of arrival."""
    world = make_world(devices=8, setting=KINDS[method]).run([ROUND])
    ((told,),) = world.rows(world.fusion, "SELECT shuffle FROM rounds WHERE round = ?", FIRST)
    assert "shuffle by simulated" in told
    assert method != "mallows" or told.startswith("Mallows")


def test_a_key_that_was_lost_is_noticed(
    make_world: "MakeWorld", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches that the fusion centre cannot open for want of an old key wait, and that is seen."""

    def forgetful(keys: Sequence[OpeningKey], *, processes: int) -> BatchOpener:
        return BatchOpener(keys[1:], processes=processes)

    operations: list[Operation] = [ROUND, ("fusion-keys",), *[ROUND] * 6]
    world = make_world().run(operations)
    monkeypatch.setattr("tests.simulation.servers.BatchOpener", forgetful)
    with pytest.raises(AssertionError, match="a batch is never taken"):
        make_world().run(operations)
    monkeypatch.undo()
    same_without_faults(world, operations)


def test_a_group_commit_that_answers_early_is_noticed(
    make_world: "MakeWorld", monkeypatch: pytest.MonkeyPatch
) -> None:
    """The world sees a report that was acknowledged before the death that lost it."""

    async def early(self: GroupCommit[Pending, Outcome], item: Pending) -> Outcome:
        return Outcome.STORED

    monkeypatch.setattr(GroupCommit, "submit", early)
    with pytest.raises(AssertionError, match="is lost"):
        make_world().run([ROUND])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_deaths_in_every_kind_of_world(lived: "Compare", kind: str) -> None:
    """The same for long, with several deaths of each step in a round."""
    world = lived(with_rotations(80, seed=1, deaths=5), setting=KINDS[kind])
    assert sum(world.all_deaths().values()) >= 2000


@pytest.mark.slow
def test_a_year_of_monthly_rotations_loses_no_report(make_world: "MakeWorld") -> None:
    """Both servers change keys each month of 73 rounds of ten hours: each report sent is released.

    Each round has one key of the fusion centre, and no batch has fewer envelopes than reports
    came: a key that split a round, or that a server did not hold, would leave some out.
    """
    months: list[Operation] = []
    for _ in range(12):
        months += [*[ROUND] * 30, ("fusion-keys",), *[ROUND] * 20, ("keys",), *[ROUND] * 23]
    world = make_world().run(months)
    opener = OuterOpener(world.hash, world.setting.outer_keys)
    # A report that was sealed again for a newer key is sent twice, by one device.
    sent = {
        round: len({device for device, wire in wires if not opener.open(wire).mark.is_cover})
        for round, wires in world.wires.items()
    }
    released, keys = Counter[int](), set[int]()
    for payloads in world.puts.values():
        for payload in payloads.values():
            batch = Batch.from_bytes(payload)
            released[batch.round] += len(batch.inner)
            keys.add(batch.key_id)
    expected = {round: count for round, count in sent.items() if count >= world.campaign.k_min}
    assert len(expected) >= 600
    assert +released == expected
    assert len(keys - {0}) == 13
