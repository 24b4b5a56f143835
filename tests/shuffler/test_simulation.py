"""The shuffler under faults: lists of operations, a fake clock, and death at every write.

After each death the operation is tried again from the start, as a restarted process would; it dies
one step later each time, until it comes through. So every fault point of every operation is met.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from tests.storage.faults import FaultyDatabase, SimulatedDeath

from rase.errors import WireError
from rase.kernels.words import SeededRandom
from rase.shuffler.forward import Answer
from rase.shuffler.intake import Outcome
from rase.storage.interface import Database

if TYPE_CHECKING:
    from tests.shuffler.conftest import MakeWorld, World


class Fate:
    """Choose reproducibly what goes wrong."""

    def __init__(self, seed: int) -> None:
        self._source = SeededRandom(seed)

    def below(self, bound: int) -> int:
        """Return a number below the bound."""
        return int(self._source.words(1)[0]) % bound

    def mixed(self, items: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """Return the items in another order."""
        keys = self._source.words(len(items)).tolist()
        return [item for _, item in sorted(zip(keys, items, strict=True))]


class Reaper:
    """Run operations, killing the process at every fault point."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.deaths = 0

    def through(self, operation: Callable[[Database], object], *, wait_s: float) -> object:
        """Return the result of an operation that died at each of its points before."""
        point = 0
        while True:
            try:
                return operation(FaultyDatabase(self._world.database, point))
            except SimulatedDeath:
                self.deaths += 1
                point += 1
                # The lease of the dead runs out before anybody can go on.
                self._world.clock.advance(wait_s)


def run_rounds(world: "World", rounds: int, *, seed: int, is_deadly: bool) -> int:
    """Live through rounds with every kind of mishap; return how many deaths there were."""
    fate, reaper = Fate(seed), Reaper(world)

    def do(operation: Callable[[Database], object], *, wait_s: float = 0) -> object:
        if is_deadly:
            return reaper.through(operation, wait_s=wait_s)
        return operation(world.database)

    first = int(world.clock.now_s()) // world.campaign.round_s
    late: list[tuple[int, bytes]] = []
    for round in range(first, first + rounds):
        world.upload_time(round)
        expected: dict[int, bytes] = {}
        traffic: list[tuple[int, bytes]] = []
        for device in range(len(world.devices)):
            wire = world.seal(round)
            mishap = fate.below(8)
            if mishap == 0:  # dropped
                continue
            if mishap == 1:  # tampered with on its way, and once stored it counts as the device's
                wire = wire[:-1] + bytes([wire[-1] ^ 1])
            elif mishap == 2:  # delayed until after the close
                late.append((device, wire))
                continue
            else:
                expected[device] = wire
            traffic += [(device, wire)] * (1 + fate.below(3))
        for device, wire in fate.mixed(traffic):
            outcome = do(lambda database, d=device, w=wire: world.send(d, w, database=database))  # type: ignore[misc]
            assert outcome in (Outcome.STORED, Outcome.REPEATED)
            if fate.below(4) == 0:  # a second, different envelope is ignored
                other = world.seal(round)
                assert world.send(device, other) is Outcome.IGNORED
        world.close_time(round)
        for device, wire in late:
            with pytest.raises(WireError, match="is closed"):
                world.send(device, wire)
        late.clear()
        do(lambda database: world.closer(database).close_one(), wait_s=9)
        assert world.rows("SELECT count(*) FROM report") == [(0,)]
        world.ear.answers = [Answer.LATER] * fate.below(3)
        while world.rows("SELECT count(*) FROM outbox") != [(0,)]:
            do(lambda database: world.closer(database).forward_one(), wait_s=301)
            world.clock.advance(301)
        check_round(world, round, expected)
    return reaper.deaths


def check_round(world: "World", round: int, expected: dict[int, bytes]) -> None:
    """One batch came, and it holds what was sent and stored, once each, and nothing else."""
    received = [key for key in world.ear.batches if key[0] == round]
    (key,) = received
    batch, manifest = world.ear.batches[key], world.ear.manifests[key].manifest
    if len(expected) < world.campaign.k_min:
        assert (batch.inner, manifest.method, manifest.n) == ((), "withheld", 0)
        return
    opener = world.releaser()._opener
    opened = opener.open_envelopes(list(expected.values()), campaign_hash=world.hash, kem=0x20)
    assert sorted(batch.inner) == sorted(item.inner for item in opened if item is not None)
    assert manifest.n == len(expected)


@pytest.mark.uncovered
def test_every_death_leaves_one_batch_a_round(make_world: "MakeWorld") -> None:
    """Whatever is lost, doubled, late, changed or killed: one batch a round, with the same bytes.

    More than 200 deaths; each round is compared with what its devices sent.
    """
    world = make_world(devices=5)
    deaths = run_rounds(world, 8, seed=2026, is_deadly=True)
    assert deaths >= 200
    assert world.ear.calls > len(world.ear.batches)
    assert len(world.ear.batches) == 8


@pytest.mark.uncovered
def test_many_rounds_without_death(make_world: "MakeWorld") -> None:
    """The same mishaps without deaths, over more rounds: some are withheld, most are not."""
    world = make_world(devices=6, k_min=4)
    assert run_rounds(world, 25, seed=7, is_deadly=False) == 0
    methods = {manifest.manifest.method for manifest in world.ear.manifests.values()}
    assert methods == {"uniform", "withheld"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_thousand_deaths(make_world: "MakeWorld", seed: int) -> None:
    """The same for long."""
    world = make_world(devices=8)
    assert run_rounds(world, 40, seed=seed, is_deadly=True) >= 1000


def test_a_rival_never_makes_a_second_batch(make_world: "MakeWorld") -> None:
    """A closer that slept past its lease finds its round taken over, and writes nothing."""
    world = make_world()
    world.upload_time(100)
    for device in range(4):
        world.send(device, world.seal(100))
    world.close_time(100)

    class Sleeper:
        """Let a rival close the round just before the last transaction."""

        def __init__(self) -> None:
            self.is_done = False

        def __getattr__(self, name: str) -> object:
            if name == "snapshot" and not self.is_done:
                self.is_done = True
                world.clock.advance(5)
                rival = world.closer().close_one()
                assert rival is not None
                assert rival.state == "released"
            return getattr(world.database, name)

    from rase.shuffler.rounds import LeaseLost, begin_rounds, claim_round

    begin_rounds(world.database, world.documents, now_s=world.clock.now_s())
    lease = claim_round(world.database, now_s=world.clock.now_s(), lease_s=1)
    assert lease is not None
    agreed = world.documents.of_tag(world.hash[:8])
    assert agreed is not None
    with pytest.raises(LeaseLost, match="taken over"):
        world.releaser(Sleeper()).close(lease, agreed, documents=world.documents, now_s=0)  # type: ignore[arg-type]
    assert world.rows("SELECT count(*) FROM outbox") == [(1,)]
