"""Tokens on the device: fetched ahead, one a report, none used twice whatever dies."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
from tests.device.conftest import CAMPAIGN, START_ROUND, World
from tests.registering import Registrar, issuer

from rase.accounting.ledger import LedgerUnusable
from rase.device.agent import Agent
from rase.device.tokens import TokenFetcher
from rase.errors import RaseError
from rase.transport.interface import Answer, Unreachable
from rase.transport.memory import MemoryTransport, Message
from rase.wire import cbor
from rase.wire.inner import InnerOpener
from rase.wire.issuing import verifier_of
from rase.wire.keys import Role
from rase.wire.outer import OuterOpener
from rase.wire.signed import PinnedKeys, campaign_hash
from rase.wire.tokens import requests_from_bytes

SECRET = bytes([6]) * 32


class Issues:
    """A registrar that answers a device, and counts."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.registrar = Registrar(
            world.shuffler.signers[Role.SHUFFLER], CAMPAIGN.id, CAMPAIGN.round_s
        )
        self.answers: list[Answer | RaseError] = []
        self.asked: list[bytes] = []

    @property
    def pinned(self) -> PinnedKeys:
        """All three keys."""
        return self.world.shuffler.pinned

    def handle(self, message: Message) -> Answer:
        """Answer."""
        if message.method == "GET":
            return Answer(200, self.registrar.published())
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, RaseError):
                raise answer
            return answer
        self.asked.append(message.body)
        (request,) = requests_from_bytes(message.body, max_size=1 << 20)
        assert request.is_signed()
        number = [one.key.first_round for one in self.registrar.windows].index(request.first_round)
        signed = [issuer(number).sign(one) for one in request.blinded]
        return Answer(200, cbor.encode([[200, signed]]))

    def agent(self, name: str = "device", **changes: Any) -> Agent:
        """Start an agent with this registrar."""
        ledger = changes.pop("ledger", None) or self.world.ledger(name, tokens=0)
        tokens = TokenFetcher(
            ledger,
            MemoryTransport(self.handle),
            secret=SECRET,
            campaign=CAMPAIGN.id,
            pinned=self.pinned,
            clock=self.world.clock,
            entropy=self.world.entropy,
            journal=self.world.notes,
            study=True,
        )
        return self.world.agent(name, ledger=ledger, tokens=tokens, **changes)

    def spent(self) -> list[bytes]:
        """Return the token of each report that the shuffler stored."""
        ch = campaign_hash(CAMPAIGN)
        outer = OuterOpener(ch, [self.world.shuffler.keys[Role.SHUFFLER]])
        inner = InnerOpener(ch, [self.world.shuffler.keys[Role.FUSION]], class_count=1)
        found = []
        for wire in self.world.shuffler.stored.values():
            opened = outer.open(wire)
            if not opened.mark.is_cover:
                content = inner.open(opened.inner, key_id=1, round=opened.round)
                found.append(content.token)
        return found


@pytest.fixture
def issues(world: World) -> Issues:
    """A registrar whose first window begins in three rounds."""
    world.source.always = 1500.0
    made = Issues(world)
    made.registrar.window(START_ROUND + 3, START_ROUND + 5, reports=2)
    return made


def test_each_report_has_a_token_of_its_window(issues: Issues) -> None:
    """Before it and when all are spent, cover reports hide that there is none."""
    world = issues.world
    world.run(issues.agent(), 7 * CAMPAIGN.round_s)
    tokens = issues.spent()
    assert len(set(tokens)) == len(tokens) == 2
    verifier = verifier_of(issues.registrar.windows[0].key.modulus)
    assert all(verifier.is_signed(one[:32], one[32:]) for one in tokens)
    (fetched,) = world.notes.of("tokens-fetched")
    assert fetched == {"round": START_ROUND + 3, "count": 2}
    missing = [fields["round"] for fields in world.notes.of("no-tokens")]
    assert missing == [START_ROUND + at for at in (0, 1, 2, 5, 6)][: len(missing)]
    assert len(world.shuffler.stored) == 7


def test_without_tokens_nothing_is_spent(issues: Issues) -> None:
    """No noise is drawn and no budget used while the registrar does not answer."""
    world = issues.world
    issues.answers = [Unreachable("no answer.")] * 500
    agent = issues.agent()
    world.run(agent, 5 * CAMPAIGN.round_s)
    assert issues.spent() == []
    status = world.ledgers[-1].status(int(world.clock.now_s()))
    assert status.total_spent == 0
    assert world.notes.of("tokens-not-fetched")


def test_a_registrar_that_comes_back_in_time_costs_nothing(issues: Issues) -> None:
    """Tries go on until issuing ends."""
    issues.answers = [Unreachable("no answer."), Answer(503), Answer(200, b"?")]
    issues.world.run(issues.agent(), 7 * CAMPAIGN.round_s)
    assert len(issues.spent()) == 2


def test_a_registrar_that_is_asked_too_often_is_asked_again(issues: Issues) -> None:
    """After 429 a device does not come before the time in Retry-After; then it gets its tokens."""
    world, length_s = issues.world, CAMPAIGN.round_s // 2
    issues.answers = [Answer(429, retry_after_s=length_s)]
    issues.world.run(issues.agent(), 7 * CAMPAIGN.round_s)
    (refused,) = world.notes.of("tokens-not-fetched")
    assert refused["wait_s"] == length_s
    assert len(issues.spent()) == 2


def test_a_gateway_that_names_a_device_asking_too_often_is_asked_again(issues: Issues) -> None:
    """So does one whose request was refused among others that were not."""
    issues.answers = [Answer(200, cbor.encode([[429, "too-many"]]))]
    issues.world.run(issues.agent(), 7 * CAMPAIGN.round_s)
    assert len(issues.spent()) == 2


@pytest.mark.parametrize("problem", ["tokens-issued", "not-issuing"])
def test_a_refusal_ends_the_window(issues: Issues, problem: str) -> None:
    """As when a clone was first: the device reports nothing rather than without a token."""
    issues.answers = [Answer(200, cbor.encode([[409, problem]]))]
    issues.world.run(issues.agent(), 7 * CAMPAIGN.round_s)
    assert issues.spent() == []
    assert {"round": START_ROUND + 3, "reason": problem} in issues.world.notes.of("no-tokens")


def test_signatures_by_another_key_are_noticed(issues: Issues) -> None:
    """A registrar that signs for one device with a key of its own is refused."""
    wrong = [bytes(255) + b"\1"] * 2
    issues.answers = [Answer(200, cbor.encode([[200, wrong]]))]
    issues.world.run(issues.agent(), 7 * CAMPAIGN.round_s)
    assert issues.spent() == []
    reasons = [fields["reason"] for fields in issues.world.notes.of("no-tokens")]
    assert "bad-signature" in reasons


def test_a_death_between_asking_and_storing_asks_for_the_same(issues: Issues) -> None:
    """The next agent sends the same bytes, so the registrar's one answer serves both."""
    world = issues.world

    class Dies(Exception):
        """The device loses power."""

    agent = issues.agent()
    ledger = world.ledgers[-1]
    keep = ledger.keep_tokens

    def dying(*arguments: Any) -> None:
        ledger.close()
        raise Dies

    ledger.keep_tokens = dying  # type: ignore[method-assign, assignment]
    with pytest.raises(Dies):
        world.run(agent, 3 * CAMPAIGN.round_s)
    assert keep is not None
    world.run(issues.agent(), 7 * CAMPAIGN.round_s - (world.clock.now_s() % CAMPAIGN.round_s))
    assert len(issues.asked) == 2
    assert issues.asked[0] == issues.asked[1]
    assert len(set(issues.spent())) == 2


def test_a_restored_ledger_has_no_more_tokens(issues: Issues) -> None:
    """Whatever copy of the card is put back, the same tokens are in it, and count once."""
    world = issues.world
    first = issues.agent()
    world.run(first, 3 * CAMPAIGN.round_s)
    world.ledgers[-1].close()
    backup = (world.folder / "device.db").read_bytes()
    world.run(issues.agent(), 1.5 * CAMPAIGN.round_s)
    world.ledgers[-1].close()
    (world.folder / "device.db").write_bytes(backup)
    world.run(issues.agent(), 3 * CAMPAIGN.round_s)
    assert len(set(issues.spent())) <= 2


def test_keys_that_are_forged_or_of_other_campaigns_are_passed_over(issues: Issues) -> None:
    """Only what registrar and shuffler signed, for this campaign, is asked for."""
    issues.registrar.windows = [replace(issues.registrar.windows[0], shuffler_signature=bytes(64))]
    issues.world.run(issues.agent(), 3 * CAMPAIGN.round_s)
    assert issues.asked == []
    issues.registrar.windows.clear()
    issues.registrar.window(START_ROUND + 9, START_ROUND + 12, campaign="other")
    issues.world.run(issues.agent("second"), 3 * CAMPAIGN.round_s)
    assert issues.asked == []


def test_old_tokens_are_erased(issues: Issues) -> None:
    """When their window is over and closed."""
    world = issues.world
    agent = issues.agent()
    ledger = world.ledgers[-1]
    world.run(agent, 4 * CAMPAIGN.round_s)
    assert [window.left for window in ledger.token_windows()] == [1]
    world.run(agent, 5 * CAMPAIGN.round_s)
    assert ledger.token_windows() == []


@pytest.mark.parametrize("knows_windows", [False, True])
def test_a_device_that_is_switched_off_asks_for_nothing(
    issues: Issues, knows_windows: bool
) -> None:
    """Nothing leaves it, no request for tokens either, and it sleeps although tokens are due."""
    is_off = not knows_windows
    agent = issues.agent(is_off=lambda: is_off)
    agent.step()
    is_off = True
    issues.world.run(agent, 2 * CAMPAIGN.round_s, least_s=1.0)
    due_s = agent._tokens.next_due_s
    assert (due_s is not None) == knows_windows
    assert due_s is None or due_s < issues.world.clock.monotonic_s()
    assert issues.asked == []
    assert agent.step() >= 1.0


def test_a_ledger_that_keeps_no_tokens_is_given_time(issues: Issues) -> None:
    """A full disk makes the device wait, not ask the registrar without a pause."""
    world = issues.world
    agent = issues.agent()
    ledger = world.ledgers[-1]
    keep = ledger.keep_tokens

    def full(*arguments: Any) -> None:
        raise LedgerUnusable("the disk is full.")

    ledger.keep_tokens = full  # type: ignore[method-assign, assignment]
    world.run(agent, 2.5 * CAMPAIGN.round_s, least_s=1.0)
    waits = [fields["wait_s"] for fields in world.notes.of("tokens-not-fetched")]
    assert len(waits) == len(issues.asked) > 0
    assert len(issues.asked) < 2.5 * CAMPAIGN.round_s / 60
    assert set(issues.asked) == {issues.asked[0]}
    ledger.keep_tokens = keep  # type: ignore[method-assign]
    world.run(agent, 4.5 * CAMPAIGN.round_s)
    assert len(issues.spent()) == 2


def test_a_registrar_that_is_away_is_asked_less_and_less(issues: Issues) -> None:
    """For half a day of silence there are some looks an hour, each announced, never a loop."""
    looks: list[float] = []

    def silent(message: Message) -> Answer:
        looks.append(issues.world.clock.now_s())
        raise Unreachable("no answer.")

    issues.handle = silent  # type: ignore[method-assign]
    issues.world.run(issues.agent(), 12 * CAMPAIGN.round_s)
    pauses = [later - earlier for earlier, later in itertools.pairwise(looks)]
    assert pauses[0] >= 10
    assert max(pauses) >= 600
    assert len(looks) <= 12 * 7
    waits = [fields["wait_s"] for fields in issues.world.notes.of("not-fetched")]
    assert min(float(str(one)) for one in waits) >= 9


def test_windows_shorter_than_a_cache_time_follow_each_other(issues: Issues) -> None:
    """New windows are looked for before the known ones are over, whatever the cache time is."""
    world = issues.world
    for number, first in enumerate(range(6, 18, 3), start=1):
        rounds = START_ROUND + first, START_ROUND + first + 2
        issues.registrar.window(*rounds, reports=3, number=number)
    every = issues.registrar.windows
    agent = issues.agent()
    for round in range(18):
        # Two windows ahead are published, as a registrar does.
        known = [one for one in every if one.key.first_round <= START_ROUND + round + 8]
        issues.registrar.windows = known
        world.run(agent, CAMPAIGN.round_s)
    assert {int(str(one["round"])) - START_ROUND for one in world.notes.of("tokens-fetched")} == {
        3, 6, 9, 12, 15
    }  # fmt: skip
