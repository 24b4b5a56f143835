"""Intake, close and hand-over against a model: any history of sends, closes, deaths and reopens."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
)
from tests.histories import try_histories
from tests.shuffler.conftest import FIRST, World
from tests.storage.faults import FaultyDatabase, SimulatedDeath

from rase.errors import WireError
from rase.shuffler.forward import Answer
from rase.shuffler.intake import Outcome

# Thousands of commits are waited for here; durability has its own tests, on a real disk.
MEMORY = Path("/dev/shm")  # noqa: S108 - each history makes a folder of its own in it
DEVICES = 4


class ShufflerMachine(RuleBasedStateMachine):
    """Drive a shuffler; the model knows what each device was told is stored."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
        self.world = World(Path(self.folder.name) / "shuffler.db", devices=DEVICES)
        self.round = FIRST
        self.world.upload_time(self.round)
        self.stored: dict[int, dict[int, bytes]] = {self.round: {}}

    def teardown(self) -> None:
        """Close and hand over everything; every round gave one batch, of what was stored."""
        world = self.world
        world.close_time(self.round)
        while world.closer().close_one() is not None:
            world.clock.advance(2)
        world.ear.answers.clear()
        while world.rows("SELECT count(*) FROM outbox") != [(0,)]:
            world.clock.advance(301)
            world.closer().forward_one()
        assert sorted(round for round, _ in world.ear.batches) == sorted(self.stored)
        self.batches_hold_what_was_stored()
        world.database.close()
        self.folder.cleanup()

    @rule(device=st.integers(0, DEVICES - 1))
    def send(self, device: int) -> None:
        """A first report is stored, the same bytes are known, others are ignored."""
        known = self.stored[self.round]
        wire = self.world.seal(self.round)
        if device not in known:
            assert self.world.send(device, wire) is Outcome.STORED
            known[device] = wire
            return
        assert self.world.send(device, known[device]) is Outcome.REPEATED
        assert self.world.send(device, wire) is Outcome.IGNORED

    @rule(device=st.integers(0, DEVICES - 1), point=st.integers(0, 3))
    def send_and_die(self, device: int, point: int) -> None:
        """Die while storing; the device sends the same bytes until they are there."""
        known = self.stored[self.round]
        wire = known.get(device) or self.world.seal(self.round)
        try:
            self.world.send(device, wire, database=FaultyDatabase(self.world.database, point))
        except SimulatedDeath:
            assert self.world.send(device, wire) in (Outcome.STORED, Outcome.REPEATED)
        known[device] = wire

    @precondition(lambda self: self.round < FIRST + 5)
    @rule(device=st.integers(0, DEVICES - 1))
    def the_round_ends(self, device: int) -> None:
        """After its time nothing is taken for a round, closed by now or not."""
        late = self.world.seal(self.round)
        self.world.close_time(self.round)
        with pytest.raises(WireError) as refused:
            self.world.send(device, late)
        assert refused.value.problem == "round-closed"
        self.round += 1
        self.world.upload_time(self.round)
        self.stored[self.round] = {}

    @rule(point=st.integers(0, 30))
    def close_and_die(self, point: int) -> None:
        """Die while closing, or come through."""
        try:
            self.world.closer(FaultyDatabase(self.world.database, point)).close_one()
        except SimulatedDeath:
            self.world.clock.advance(2)

    @rule(answer=st.sampled_from([Answer.ACCEPTED, Answer.LATER]), point=st.integers(0, 8))
    def hand_over_and_die(self, answer: Answer, point: int) -> None:
        """Die while handing a batch over; it comes again with the same bytes (`Ear` checks)."""
        self.world.ear.answers = [answer]
        try:
            self.world.closer(FaultyDatabase(self.world.database, point)).forward_one()
        except SimulatedDeath:
            self.world.clock.advance(2)

    @rule()
    def reopen(self) -> None:
        """Close the database and open it again."""
        self.world.database.close()
        self.world.database = self.world.opened()

    @invariant()
    def batches_hold_what_was_stored(self) -> None:
        """No report is lost, doubled or made; fewer than k_min are withheld."""
        world = self.world
        opener: Any = world.releaser()._opener
        for (round, _), batch in world.ear.batches.items():
            wires = list(self.stored[round].values())
            if len(wires) < world.campaign.k_min:
                assert batch.inner == ()
                continue
            opened = opener.open_envelopes(wires, campaign_hash=world.hash, kem=0x20)
            assert sorted(batch.inner) == sorted(item.inner for item in opened)


def test_no_history_loses_or_doubles_a_report() -> None:
    """Ten histories of thirty steps."""
    try_histories(ShufflerMachine, 10, steps=30)


@pytest.mark.slow
def test_no_long_history_loses_or_doubles_a_report() -> None:
    """Three hundred of sixty."""
    try_histories(ShufflerMachine, 300, steps=60)
