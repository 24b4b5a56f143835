"""The device's outbox as a state machine.

Whatever is answered and however clocks jump, a report is sent as the same bytes, in its time, not
before it is asked for again, and never after its end.
"""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.device.conftest import CAMPAIGN, START_ROUND, Notes
from tests.histories import try_histories

from rase.clock import FakeClock
from rase.device.outbox import Outbox, Verdict
from rase.device.reporter import Envelope
from rase.kernels.entropy import SeededEntropy
from rase.transport.interface import Answer, Unreachable
from rase.transport.memory import MemoryTransport, Message
from rase.wire.problems import PROBLEM_TYPES, Problem

ROUND_S, GRACE_S = CAMPAIGN.round_s, CAMPAIGN.grace_s
ANSWERS = (
    "accepted",
    "repeated",
    "lost",
    "a proxy's page",
    "too-many",
    "unavailable",
    "round-not-open",
    "outdated-config",
    "round-closed",
    "bad-report",
)
ENDS = {"accepted": Verdict.SENT, "repeated": Verdict.SENT, "round-closed": Verdict.CLOSED}
ENDS |= {"bad-report": Verdict.DROPPED, "outdated-config": Verdict.OUTDATED}


class OutboxMachine(RuleBasedStateMachine):
    """An outbox, a shuffler that answers as it likes, and what is known of every report."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock(START_ROUND * ROUND_S)
        self.outbox = Outbox(
            MemoryTransport(self.answered),
            "credential",
            clock=self.clock,
            entropy=SeededEntropy(2026),
            journal=Notes(),
            study=True,
        )
        self.answers: list[str] = []
        self.retry_s = 0.0
        self.expected: dict[int, bytes] = {}
        self.not_before_s: dict[int, float] = {}
        self.last_s: dict[int, float] = {}
        self.ended: set[int] = set()
        self.told: dict[int, str] = {}

    def answered(self, message: Message) -> Answer:
        """Check a message that was sent, and answer by plan."""
        round = message.body[0] + START_ROUND - 1
        assert message.body == self.expected[round], "other bytes were sent"
        assert round not in self.ended, "a report was sent after its end"
        now_s = self.clock.monotonic_s()
        assert now_s >= self.not_before_s[round], "a report was sent before it was asked for"
        assert now_s <= self.last_s[round]
        self.told[round] = kind = self.answers.pop(0) if self.answers else "accepted"
        if kind == "lost":
            raise Unreachable("gone.")
        if kind in ("accepted", "repeated"):
            return Answer(201 if kind == "accepted" else 200)
        if kind == "a proxy's page":
            return Answer(502, b"<html>")
        self.not_before_s[round] = now_s + self.retry_s
        found = PROBLEM_TYPES[kind]
        return Answer(found.status, Problem(found).to_json(), retry_after_s=self.retry_s or None)

    @precondition(lambda self: len(self.expected) < 12)
    @rule()
    def a_round_ends(self) -> None:
        """Put the report of the newest round that is over by the wall clock into the outbox."""
        round = START_ROUND - 1 + len(self.expected)
        now_s, passed_s = self.clock.now_s(), self.clock.monotonic_s()
        data = bytes([len(self.expected)]) * 143
        self.expected[round] = data
        self.not_before_s[round] = passed_s + max(CAMPAIGN.round_end_s(round) - now_s, 0.0) - 1e-6
        end_s = CAMPAIGN.closes_s(round) + ROUND_S
        # A report that comes too late is given one look at least.
        self.last_s[round] = passed_s + max(end_s - now_s, ROUND_S + GRACE_S)
        self.outbox.add(Envelope(round, data, is_cover=False), CAMPAIGN)

    @rule(
        answers=st.lists(st.sampled_from(ANSWERS), min_size=1, max_size=4),
        retry_s=st.sampled_from([90, 30, 0]),
    )
    def answer_so(self, answers: list[str], retry_s: float) -> None:
        """Plan what is answered next."""
        self.answers, self.retry_s = answers, float(retry_s)

    @rule(seconds=st.sampled_from([1, 10, 60, 300, 900, 4000]))
    def time_passes(self, seconds: int) -> None:
        """Let time pass as the agent does: never past what is due."""
        end_s = self.clock.monotonic_s() + seconds
        while (now_s := self.clock.monotonic_s()) < end_s:
            due_s = self.outbox.next_due_s()
            step_s = end_s - now_s if due_s is None else min(max(due_s - now_s, 0.5), end_s - now_s)
            self.clock.advance(step_s)
            self.send()

    @rule(seconds=st.sampled_from([-90_000, -3600, -60, 60, 600]))
    def the_clock_is_set(self, seconds: int) -> None:
        """Set the wall clock; what is on its way is not sent earlier for it."""
        self.clock.jump(seconds)

    @rule()
    def send(self) -> None:
        """Send what is due, and act on the verdicts as the agent does."""
        for envelope, verdict in self.outbox.send_due():
            round = envelope.round
            kind = self.told.pop(round, "too late")
            assert verdict is ENDS.get(kind, Verdict.DROPPED), kind
            if verdict is Verdict.OUTDATED:
                newer = Envelope(round, self.expected[round] + b"!", is_cover=False)
                self.expected[round] = newer.data
                # Sealed anew, it is sent at once.
                self.not_before_s[round] = 0.0
                self.outbox.replace(newer, CAMPAIGN)
            else:
                self.ended.add(round)
                self.outbox.settle(round)

    @invariant()
    def all_is_held_until_its_end(self) -> None:
        """Every report is in the outbox, or has come to an end."""
        for round in self.expected:
            assert (round in self.outbox) != (round in self.ended)


@pytest.mark.uncovered
def test_no_history_sends_a_report_wrongly() -> None:
    """Sixty histories of forty steps."""
    try_histories(OutboxMachine, 60, steps=40)


@pytest.mark.slow
def test_no_long_history_sends_a_report_wrongly() -> None:
    """Two thousand of sixty."""
    try_histories(OutboxMachine, 2000, steps=60)
