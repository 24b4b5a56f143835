"""Envelopes in unusual moments: each ends without a value lost or drawn twice."""

from dataclasses import replace
from typing import Any

import pytest
from tests.spending import spend

from rase.accounting.ledger import CampaignLimits, LedgerUnusable
from rase.device import agent as agent_module
from rase.device.memory import Memory
from rase.device.reporter import Envelope, Reporter
from rase.device.terms import OwnerRules
from rase.errors import Malformed, PrivacyRefused
from rase.kernels.entropy import SeededEntropy
from rase.transport.interface import Answer
from rase.wire.messages import Header
from rase.wire.problems import PROBLEM_TYPES, Problem
from rase.wire.signed import SignedCampaign

HOUR = 3600
FIRST = 495_000
OUTDATED = Answer(409, Problem(PROBLEM_TYPES["outdated-config"]).to_json())


class Parts:
    """A reporter with everything around it."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.memory = Memory(world.terms(), world.store())
        self.ledger = world.ledger()
        campaign = world.shuffler.campaign
        limits = CampaignLimits(campaign.id, HOUR, window=24, window_epsilon=24.0)
        self.ledger.join(limits)
        self.memory.offer_campaign(world.shuffler.signed_campaign(), lambda campaign: None)
        self.memory.offer_keyset(world.shuffler.signed_keyset(), now_s=world.clock.now_s())
        self.reporter = Reporter(
            self.memory,
            self.ledger,
            clock=world.clock,
            entropy=SeededEntropy(1),
            study=True,
            journal=world.notes,
            has_turn=lambda campaign, round: True,
            sends_cover=True,
        )

    def make(self, mean: float | None = 10.0) -> Envelope | None:
        """Make the envelope of the first round."""
        signed = self.memory.terms.latest
        assert signed is not None
        return self.reporter.make(signed, FIRST, mean)

    @property
    def reasons(self) -> list[object]:
        """Why rounds were skipped."""
        return [note["reason"] for note in self.world.notes.of("round-skipped")]


@pytest.fixture
def parts(world: Any) -> Parts:
    """The reporter of a device that has terms."""
    return Parts(world)


def raising(error: BaseException) -> Any:
    """Return a function that fails."""

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        (OwnerRules(report_epsilon=0.1), "epsilon-above-limit"),
        (OwnerRules(report_epsilon=1, shuffled_epsilon=0.1), "shuffled-epsilon-above-limit"),
        (OwnerRules(report_epsilon=1, span_shuffled_epsilon=0.1), "shuffled-epsilon-above-limit"),
        (OwnerRules(report_epsilon=1, least_k=1000), "k-below-limit"),
        (OwnerRules(report_epsilon=1, high=10), "range-above-limit"),
    ],
)
def test_rules_that_got_stricter_stop_reports(parts: Parts, rules: OwnerRules, reason: str) -> None:
    """If the owner now allows less than the accepted campaign asks, nothing is drawn."""
    parts.memory.terms.rules = rules
    assert parts.make() is None
    assert parts.reasons == [reason]
    assert parts.ledger.history() == []


def test_a_round_that_the_ledger_closed_gets_nothing(parts: Parts) -> None:
    """What is closed for ever is not even covered."""
    parts.ledger.close_rounds((FIRST + 1) * HOUR)
    assert parts.make() is None
    assert parts.reasons == ["ledger-refused"]


def test_what_cannot_be_sealed_costs_nothing(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that cannot be used undoes the payment; covers fail alike."""
    monkeypatch.setattr("rase.wire.seal.seal_report", raising(Malformed("no key.")))
    monkeypatch.setattr("rase.wire.seal.seal_cover", raising(Malformed("no key.")))
    assert parts.make() is None
    assert parts.make(None) is None
    assert parts.reasons == ["not-sealed", "not-sealed"]
    assert parts.ledger.history() == []


def test_sealing_anew_without_a_campaign_ends_the_round(parts: Parts) -> None:
    """If no version holds in the round any more, the envelope is given up."""
    envelope = parts.make()
    assert envelope is not None
    parts.memory.terms.accepted_terms = ((), parts.memory.terms.accepted_terms[1])
    assert parts.reporter.seal_again(envelope) is None
    assert parts.reasons == ["no-campaign"]


def test_sealing_anew_keeps_the_old_envelope_while_the_ledger_is_busy(parts: Parts) -> None:
    """The failure is handed up, and nothing changes."""
    envelope = parts.make()
    assert envelope is not None
    parts.world.shuffler.rotate()
    parts.memory.offer_keyset(parts.world.shuffler.signed_keyset(), now_s=parts.world.clock.now_s())
    parts.ledger.reseal = raising(LedgerUnusable("busy."))
    with pytest.raises(LedgerUnusable):
        parts.reporter.seal_again(envelope)
    parts.ledger.reseal = raising(PrivacyRefused("the round has no report."))
    assert parts.reporter.seal_again(envelope) is None
    assert parts.reasons == ["not-sealed"]


def test_noise_for_a_forgotten_version_is_not_sealed_anew(parts: Parts) -> None:
    """If the law it was drawn from is not known any more, a cover report takes its place."""
    envelope = parts.make()
    assert envelope is not None
    parts.world.shuffler.publish(not_before=FIRST)
    parts.memory.offer_campaign(parts.world.shuffler.signed_campaign(), lambda campaign: None)
    parts.memory.terms.forget_before(FIRST)
    again = parts.reporter.seal_again(envelope)
    assert again is not None
    assert again.is_cover
    assert parts.ledger.unsent() == []


def test_an_agent_survives_a_ledger_that_is_busy_at_sealing_anew(world: Any) -> None:
    """The old envelope stays in the outbox; later it is sealed anew."""
    ledger = world.ledger()
    agent = world.agent(ledger=ledger)
    world.source.always = 10.0
    world.run(agent, HOUR + 1)
    world.shuffler.stored.clear()
    world.shuffler.rotate()
    reseal, ledger.reseal = ledger.reseal, raising(LedgerUnusable("busy."))
    while not any(note["problem"] == "outdated-config" for note in world.notes.of("refused")):
        world.run(agent, 5)
    assert FIRST in agent.outbox
    ledger.reseal = reseal
    world.run(agent, 300)
    assert not world.contents()[FIRST].is_cover


def test_an_agent_gives_up_what_cannot_be_sealed_anew(world: Any) -> None:
    """If nothing can be sent for the round, the outbox forgets it."""
    ledger = world.ledger()
    agent = world.agent(ledger=ledger)
    world.source.always = 10.0
    world.run(agent, HOUR + 1)
    world.shuffler.stored.clear()
    world.shuffler.rotate()
    ledger.reseal = raising(PrivacyRefused("gone."))
    world.run(agent, 300)
    assert FIRST not in agent.outbox
    assert FIRST not in world.contents()


def test_other_campaigns_in_the_ledger_are_left_alone(world: Any) -> None:
    """Entries and unsent reports of another campaign are not this agent's."""
    ledger = world.ledger()
    ledger.join(CampaignLimits("other", HOUR, window=24, window_epsilon=24.0))
    spend(ledger, "other", FIRST, epsilon=0.5, draw=b"noisy")
    agent = world.agent(ledger=ledger)
    world.source.always = 10.0
    world.run(agent, HOUR + 310)
    assert FIRST in world.contents()
    assert [stored.campaign for stored in ledger.unsent()] == ["other"]


def test_reports_of_a_campaign_without_terms_wait(world: Any) -> None:
    """After the state was lost, stored reports are not sent under terms nobody knows."""
    ledger = world.ledger()
    ledger.join(CampaignLimits("street-power", HOUR, window=24, window_epsilon=24.0))
    spend(ledger, "street-power", FIRST, epsilon=0.5, draw=b"noisy")
    agent = world.agent(ledger=ledger)
    assert len(agent.outbox) == 0


def test_a_new_ledger_joins_the_terms_that_are_known(world: Any) -> None:
    """State without its ledger: the campaign is joined anew, and reports go on."""
    world.run(world.agent(), 60)
    agent = world.agent(ledger=world.ledger("second"))
    world.source.always = 10.0
    world.run(agent, HOUR + 310)
    assert not world.contents()[FIRST].is_cover


def test_only_the_last_rounds_are_remembered(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of an agent that runs for years does not grow."""
    monkeypatch.setattr(agent_module, "_REMEMBERED_ROUNDS", 3)
    agent = world.agent()
    world.run(agent, 8 * HOUR)
    assert len(agent._done) == 3


def test_a_carried_round_is_told_to_the_shuffler_alone(parts: Parts) -> None:
    """The header names the round, the content the first of its block; covers look the same."""
    shuffler = parts.world.shuffler
    shuffler.campaign = replace(shuffler.campaign, carry_rounds=3, version=2)
    shuffler.versions.append(shuffler.campaign)
    signed = SignedCampaign.from_bytes(shuffler.signed_campaign(), shuffler.pinned)
    for round, mean in ((FIRST + 2, 10.0), (FIRST + 3, None)):
        made = parts.reporter.make(signed, round, mean)
        assert made is not None
        assert Header.from_report(made.data).round == round
        assert shuffler.content(made.data).round == signed.campaign.block_start(round) == FIRST
