"""Fusion against a model: any history of batches, repeats, deaths and ticks."""

import tempfile
from contextlib import ExitStack, suppress
from dataclasses import replace
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
from tests.fusion.conftest import CAMPAIGN, PINNED, ROUND, Parcel, made_centre, parcel, reports
from tests.histories import try_histories
from tests.registering import STOCK, EveryWindow
from tests.storage.faults import FaultyDatabase, SimulatedDeath

from rase.errors import WireError
from rase.fusion.intake import Intake
from rase.fusion.rounds import Rounds

# Thousands of commits are waited for here; durability has its own tests, on a real disk.
MEMORY = Path("/dev/shm")  # noqa: S108 - each history makes a folder of its own in it
ROUNDS = range(ROUND, ROUND + 3)
rounds = st.sampled_from(ROUNDS)
places = st.lists(st.integers(0, 4096), min_size=4, max_size=6)


class FusionMachine(RuleBasedStateMachine):
    """Drive a fusion centre; the model counts the reports that were taken in."""

    def __init__(self) -> None:
        super().__init__()
        STOCK.begin()
        self.held = ExitStack()
        folder = self.held.enter_context(
            tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
        )
        self.centre = self.held.enter_context(made_centre(Path(folder) / "fusion.sqlite"))
        self.centre.clock.jump(CAMPAIGN.closes_s(ROUNDS[-1]) + 600 - self.centre.clock.now_s())
        self.taken: list[Parcel] = []
        self.count = dict.fromkeys(ROUNDS, 0)
        self.told: dict[int, Any] = {}

    def teardown(self) -> None:
        """Let everything become final, look once more, and clean up."""
        try:
            self.centre.clock.advance(7200)
            self.tick()
            assert set(self.told) == {round for round, n in self.count.items() if n}
            self.final_estimates_stay()
        finally:
            self.held.close()

    @rule(round=rounds, values=places)
    def receive(self, round: int, values: list[int]) -> None:
        """A batch counts once; once its round is final it is refused."""
        self.take(parcel(reports(values, round=round), round=round), round, len(values))

    @rule(round=rounds, values=places, point=st.integers(0, 20))
    def receive_and_die(self, round: int, values: list[int], point: int) -> None:
        """Die while taking a batch in; the shuffler sends it again."""
        sent = parcel(reports(values, round=round), round=round)
        intake = Intake(
            FaultyDatabase(self.centre.database, point),
            self.centre.clock,
            pinned=PINNED,
            opener=self.centre.opener,
            token_keys=EveryWindow(),
            policy=self.centre.policy,
        )
        # What a final round answers is looked at below.
        with suppress(SimulatedDeath, WireError):
            sent.deliver(intake)
        self.take(sent, round, len(values), may_be_known=True)

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """A batch that was taken is known for ever, and adds nothing."""
        sent = data.draw(st.sampled_from(self.taken))
        assert not sent.deliver(self.centre.intake).is_new

    @rule(point=st.integers(0, 25))
    def tick_and_die(self, point: int) -> None:
        """Die while a round becomes final, or come through."""
        database = FaultyDatabase(self.centre.database, point)
        with suppress(SimulatedDeath):
            Rounds(database, self.centre.clock, policy=self.centre.policy).tick()
        self.look()

    @rule()
    def tick(self) -> None:
        """Let what is due become final."""
        self.centre.rounds.tick()
        self.look()

    @invariant()
    def final_estimates_stay(self) -> None:
        """What was told once is told for ever."""
        for round, answer in self.told.items():
            # The verdict is about many rounds, of which earlier ones may come later.
            assert replace(self.answer(round), verdict=answer.verdict) == answer

    def take(self, sent: Parcel, round: int, n: int, *, may_be_known: bool = False) -> None:
        """Send a batch; the model decides what must come of it."""
        if round in self.told:
            with pytest.raises(WireError) as refused:
                sent.deliver(self.centre.intake)
            assert refused.value.problem == "final-round"
            return
        receipt = sent.deliver(self.centre.intake)
        assert receipt.is_new or may_be_known
        self.taken.append(sent)
        self.count[round] += n

    def answer(self, round: int) -> Any:
        """Return what the centre tells of a round."""
        return self.centre.questions.at(CAMPAIGN, round)

    def look(self) -> None:
        """Write down what has become final: the number of reports is the model's."""
        for round in ROUNDS:
            answer = self.answer(round)
            if answer.status == "ok" and round not in self.told:
                assert answer.n == self.count[round]
                self.told[round] = answer


@pytest.mark.uncovered
def test_no_history_changes_a_final_estimate() -> None:
    """Eight histories of fifteen steps."""
    try_histories(FusionMachine, 8, steps=15)


@pytest.mark.slow
def test_no_long_history_changes_a_final_estimate() -> None:
    """Two hundred of forty."""
    try_histories(FusionMachine, 200, steps=40)
