"""One device's work, step by step."""

import errno
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from scipy import stats
from tests.promising import with_promise

from rase.accounting.ledger import LedgerUnusable
from rase.clock import FakeClock
from rase.device.behaviour import Behaviour, rotating
from rase.device.sources.interface import SourceFailed
from rase.device.terms import TermsRefused
from rase.kernels.entropy import SecureEntropy, SeededEntropy
from rase.laws.randomizer import Randomizer
from rase.transport.interface import Answer, Unreachable
from rase.transport.memory import FaultyTransport, Handler, MemoryTransport
from rase.wire.keys import Keyset, OpeningKey, Role
from rase.wire.messages import Header
from rase.wire.problems import PROBLEM_TYPES, Problem
from rase.wire.signed import campaign_hash
from rase.wire.suites import X_WING

HOUR = 3600
FIRST = 495_000


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The readings for which noise was drawn."""
    seen: list[float] = []
    draw_one = Randomizer.draw_one

    def spy(self: Randomizer, reading: float, entropy: Any) -> int:
        seen.append(reading)
        return draw_one(self, reading, entropy)

    monkeypatch.setattr(Randomizer, "draw_one", spy)
    return seen


def problem(name: str, **more: Any) -> Answer:
    """Return the answer of a shuffler that refuses."""
    kind = PROBLEM_TYPES[name]
    return Answer(kind.status, Problem(kind).to_json(), **more)


def test_a_round_with_readings_gives_one_report(world: Any) -> None:
    """The mean of a round is randomized, paid for once, and sent within the upload window."""
    agent = world.agent()
    world.source.always = 1500.0
    world.run(agent, 2 * HOUR + 300)
    contents = world.contents()
    assert sorted(contents) == [FIRST - 1, FIRST, FIRST + 1]
    assert contents[FIRST - 1].is_cover
    assert not contents[FIRST].is_cover
    assert 0 <= contents[FIRST].place <= 4096
    assert world.ledgers[0].status(int(world.clock.now_s())).total_spent == 2.0


def test_a_campaign_without_cover_gets_no_cover_reports(world: Any) -> None:
    """Reports go, and nothing takes the place of those that do not."""
    world.shuffler.campaign = with_promise(world.shuffler.campaign, cover=False)
    world.shuffler.versions = [world.shuffler.campaign]
    agent = world.agent()
    world.run(agent, HOUR + 300)
    assert world.contents() == {}
    world.source.always = 1500.0
    world.run(agent, 2 * HOUR)
    contents = world.contents()
    assert contents
    assert not any(content.is_cover for content in contents.values())


def test_a_campaign_with_a_promise_gets_cover_reports(world: Any) -> None:
    """They count for nothing at the shuffler, so they take nothing from its promise."""
    world.shuffler.campaign = with_promise(world.shuffler.campaign)
    world.shuffler.versions = [world.shuffler.campaign]
    world.run(world.agent(), HOUR + 300)
    assert [content.is_cover for content in world.contents().values()] == [True, True]


def test_the_ledger_gets_the_claims_of_a_report(world: Any) -> None:
    """What reports give away is counted by what was signed, up to the cap of the owner."""
    world.shuffler.campaign = with_promise(world.shuffler.campaign, 0.5, 0.7, 0.9)
    world.shuffler.versions = [world.shuffler.campaign]
    world.limits = replace(world.limits, span_shuffled_epsilon=0.7)
    agent = world.agent()
    world.source.always = 1500.0
    world.run(agent, 6 * HOUR)
    status = world.ledgers[0].status(int(world.clock.now_s()))
    assert (status.reports, status.span_given) == (2, 0.7)
    assert sum(not content.is_cover for content in world.contents().values()) == 2


def test_the_newest_rounds_are_remembered_longest(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that takes over forgets the oldest rounds first, not one that is still open."""
    world.source.always = 1500.0
    world.run(world.agent(), 6 * HOUR)
    newest = world.ledgers[0].history(1)[0].round
    monkeypatch.setattr("rase.device.agent._REMEMBERED_ROUNDS", 3)
    again = world.agent()
    again._remember(newest + 1)
    assert newest in again._done
    assert newest - 3 not in again._done


def test_several_readings_of_a_round_become_their_mean(world: Any, drawn: list[float]) -> None:
    """Noise is drawn once, for the mean of what the source gave during the round."""
    agent = world.agent()
    for value in (100.0, 200.0, float("nan"), 600.0):
        world.source.readings = [value]
        world.run(agent, 800)
    world.run(agent, HOUR)
    assert drawn == [300.0]


@pytest.mark.uncovered
def test_cover_reports_have_the_size_and_moments_of_reports(world: Any) -> None:
    """Sizes are equal, moments of both uniform (KS at 1e-6; 40 % too early would be noticed)."""
    moments: dict[bool, list[float]] = {True: [], False: []}
    sizes = set()

    def watching(message: Any) -> Answer:
        if message.method == "POST":
            content = world.shuffler.content(message.body)
            end_s = world.shuffler.campaign.round_end_s(content.round)
            moments[content.is_cover].append((world.clock.now_s() - end_s) / 300)
            sizes.add(len(message.body))
        answer: Answer = world.shuffler.handle(message)
        return answer

    agent = world.agent(transport=MemoryTransport(watching), behaviour=Behaviour(poll_s=3600))
    for round in range(FIRST, FIRST + 160):
        world.source.readings = [700.0] if round % 2 else []
        world.run(agent, HOUR, least_s=0.01)
        world.ledgers[0].close_rounds((round - 2) * HOUR)
    assert sizes == {437}
    for is_cover in (True, False):
        assert len(moments[is_cover]) > 75
        assert stats.kstest(moments[is_cover], "uniform").pvalue > 1e-6
        early = [moment * 0.6 for moment in moments[is_cover]]
        assert stats.kstest(early, "uniform").pvalue < 1e-6
    assert stats.ks_2samp(moments[True], moments[False]).pvalue > 1e-6


def test_x_wing_reports_and_covers_have_one_size(world: Any) -> None:
    """Where the campaign asks for X-Wing, both kinds have 1525 bytes."""
    shuffler = world.shuffler
    shuffler.keys[Role.FUSION] = OpeningKey.generate(Role.FUSION, 1, kem=X_WING)
    shuffler.keyset = shuffler._keyset(1)
    shuffler.versions.clear()
    shuffler.publish(version=1, kem="x-wing")
    agent = world.agent()
    world.source.readings = [1.0]
    world.run(agent, 3 * HOUR)
    assert {len(report) for report in shuffler.received} == {1525}
    assert len(shuffler.received) == 3


def test_without_a_reading_a_cover_report_is_sent_and_nothing_spent(world: Any) -> None:
    """A silent source costs no budget."""
    world.run(world.agent(), 2 * HOUR)
    assert all(content.is_cover for content in world.contents().values())
    assert world.ledgers[0].history() == []


def test_cover_reports_can_be_switched_off(world: Any) -> None:
    """Then rounds without a report are silent."""
    world.run(world.agent(behaviour=Behaviour(sends_cover=False)), 2 * HOUR)
    assert world.shuffler.received == []


def test_a_spent_budget_turns_reports_into_cover(world: Any) -> None:
    """The ledger refuses, the note says when it refreshes, and cover reports go on."""
    world.shuffler.versions.clear()
    world.shuffler.publish(version=1, window_budget=3.0)
    world.source.always = 10.0
    agent = world.agent()
    world.run(agent, 6 * HOUR)
    covers = [round for round, content in sorted(world.contents().items()) if content.is_cover]
    assert covers == [FIRST - 1, FIRST + 3, FIRST + 4]
    assert world.notes.of("budget-spent")[0] == {
        "round": FIRST + 3,
        "refresh_round": FIRST + 24,
    }


def test_a_pause_draws_nothing_and_forgets_readings(world: Any, drawn: list[float]) -> None:
    """Cover reports go on, so that nobody can tell."""
    agent = world.agent()
    world.source.always = 10.0
    world.run(agent, 1800)
    world.is_paused = True
    world.run(agent, HOUR)
    assert drawn == []
    world.is_paused = False
    world.run(agent, HOUR)
    assert len(drawn) == 1
    assert sorted(world.contents()) == [FIRST - 1, FIRST, FIRST + 1]


def test_rotating_devices_report_once_in_a_window(world: Any, drawn: list[float]) -> None:
    """One report in 24 rounds, cover reports in the others."""
    world.source.always = 10.0
    agent = world.agent(behaviour=Behaviour(has_turn=rotating(bytes(16))))
    world.run(agent, 48 * HOUR - 60)
    kinds = Counter(content.is_cover for content in world.contents().values())
    assert kinds == {True: 46, False: 2}
    assert len(drawn) == 2


def test_an_outage_of_hours_is_survived(world: Any, drawn: list[float]) -> None:
    """Rounds that close meanwhile are lost and stay paid; then everything goes on."""
    network = FaultyTransport(world.shuffler.handle, entropy=SeededEntropy(1), chances={})
    agent = world.agent(transport=network)
    world.source.always = 10.0
    world.run(agent, HOUR)
    network.is_down = True
    world.run(agent, 5 * HOUR)
    assert len(agent.outbox) <= 3
    network.is_down = False
    world.run(agent, 2 * HOUR - 60)
    assert sorted(world.contents()) == [FIRST - 1, FIRST + 5, FIRST + 6]
    assert len(drawn) == 7
    assert world.ledgers[0].status(int(world.clock.now_s())).total_spent == 7.0
    # What could still be sent of closed rounds was erased.
    assert world.ledgers[0].unsent() == []


def test_an_outage_within_the_grace_loses_nothing(world: Any) -> None:
    """Pauses grow, but stay short enough for the open round."""
    network = FaultyTransport(world.shuffler.handle, entropy=SeededEntropy(1), chances={})
    agent = world.agent(transport=network)
    world.source.always = 10.0
    world.run(agent, HOUR - 10)
    network.is_down = True
    world.run(agent, 400)
    network.is_down = False
    world.run(agent, 200)
    assert sorted(world.contents()) == [FIRST - 1, FIRST]


def test_retries_repeat_the_same_bytes(world: Any, drawn: list[float]) -> None:
    """Whatever was answered, a retry is the same envelope, and noise is drawn once."""
    agent = world.agent()
    world.source.always = 10.0
    world.run(agent, HOUR - 1)
    world.shuffler.received.clear()
    sent: list[bytes] = []
    handle: Handler = world.shuffler.handle
    replies: list[Answer | Unreachable] = [
        Unreachable("gone."),
        Answer(502, b"<html>"),
        problem("too-many", retry_after_s=20.0),
        problem("not-enrolled"),
        Answer(401),
        problem("round-not-open"),
    ]

    def flaky(message: Any) -> Answer:
        if message.path != "/v1/reports":
            return handle(message)
        sent.append(message.body)
        if replies:
            reply = replies.pop(0)
            if isinstance(reply, Unreachable):
                raise reply
            return reply
        return handle(message)

    agent._outbox._transport = MemoryTransport(flaky)
    world.run(agent, 599)
    assert len(sent) == 7
    assert len(set(sent)) == 1
    assert drawn == [pytest.approx(10.0)]
    assert [note["problem"] for note in world.notes.of("refused")] == [
        "status-502",
        "too-many",
        "not-enrolled",
        "not-enrolled",
        "round-not-open",
    ]
    waits = [note["wait_s"] for note in world.notes.of("refused")]
    assert waits[1] >= 20.0


def test_a_device_waits_as_long_as_it_is_asked_to(world: Any) -> None:
    """After 429 or 503 nothing is sent before the time in Retry-After; then the report is."""
    agent = world.agent()
    world.source.always = 10.0
    world.run(agent, HOUR - 1)
    handle: Handler = world.shuffler.handle
    replies = [problem("too-many", retry_after_s=70.0), problem("unavailable", retry_after_s=50.0)]
    sent_s: list[float] = []

    def busy(message: Any) -> Answer:
        if message.path != "/v1/reports":
            return handle(message)
        sent_s.append(world.clock.monotonic_s())
        return replies.pop(0) if replies else handle(message)

    agent._outbox._transport = MemoryTransport(busy)
    world.run(agent, 599)
    assert len(sent_s) == 3
    assert sent_s[1] - sent_s[0] >= 70
    assert sent_s[2] - sent_s[1] >= 50
    assert [note["problem"] for note in world.notes.of("refused")] == ["too-many", "unavailable"]
    assert len(agent.outbox) == 0


@pytest.mark.parametrize("name", ["unknown-campaign", "bad-report"])
def test_final_refusals_end_a_report(world: Any, name: str) -> None:
    """The envelope is dropped, the budget stays spent."""
    agent = world.agent()
    world.source.always = 10.0
    world.run(agent, HOUR - 1)
    world.shuffler.answers = [problem(name)]
    world.run(agent, 400)
    assert world.notes.of("dropped") == [{"round": FIRST, "problem": name}]
    assert len(agent.outbox) == 0
    assert world.ledgers[0].unsent() == []
    assert world.ledgers[0].status(int(world.clock.now_s())).total_spent == 1.0


def test_new_keys_seal_the_same_noise_again(world: Any, drawn: list[float]) -> None:
    """After outdated-config the place is the same, the bytes are others, the budget too."""
    agent = world.agent()
    world.source.always = 10.0
    world.run(agent, HOUR - 1)
    before = world.ledgers[0]
    world.run(agent, 2)
    (stored,) = before.unsent()
    place = world.shuffler.content(stored.envelope).place
    world.shuffler.rotate()
    world.run(agent, 300)
    assert world.shuffler.received[-2] == stored.envelope != world.shuffler.received[-1]
    assert world.shuffler.content(world.shuffler.stored["credential", FIRST]).place == place
    assert len(drawn) == 1
    assert world.notes.of("sealed-again") == [{"round": FIRST}]
    assert before.status(int(world.clock.now_s())).total_spent == 1.0


def test_cover_reports_are_sealed_anew_alike(world: Any) -> None:
    """A cover report for old keys becomes one for the new keys."""
    agent = world.agent()
    world.run(agent, HOUR + 1)
    world.shuffler.rotate()
    world.run(agent, 300)
    content = world.shuffler.content(world.shuffler.stored["credential", FIRST])
    assert content.is_cover


def test_outdated_without_new_keys_repeats_the_same_bytes(world: Any) -> None:
    """A shuffler that errs about it gets the same envelope again, after a pause."""
    agent = world.agent()
    world.source.always = 10.0
    world.run(agent, HOUR + 1)
    world.shuffler.received.clear()
    handle: Handler = world.shuffler.handle
    refusals = [problem("outdated-config")] * 2
    seen = []

    def erring(message: Any) -> Answer:
        if message.path == "/v1/reports":
            seen.append(message.body)
            if refusals:
                return refusals.pop()
        return handle(message)

    agent._outbox._transport = MemoryTransport(erring)
    world.run(agent, 400)
    assert len(seen) == 3
    assert len(set(seen)) == 1


def test_a_new_version_with_the_same_law_takes_the_report(world: Any, drawn: list[float]) -> None:
    """A version that the device learned late reads the place by the same law: sealed for it."""
    agent = world.agent()
    world.source.always = 10.0
    world.run(agent, HOUR + 1)
    (stored,) = world.ledgers[0].unsent()
    place = world.shuffler.content(stored.envelope).place
    world.shuffler.publish(not_before=FIRST, epsilon=(0.5, 1.0), k_min=30)
    world.run(agent, 300)
    content = world.contents()[FIRST]
    assert (content.place, content.epsilon_class) == (place, 1)
    assert len(drawn) == 1


def test_a_new_version_with_another_law_gets_a_cover_report(world: Any, drawn: list[float]) -> None:
    """Noise of another law would be read wrongly: it is dropped, and stays paid."""
    agent = world.agent()
    world.source.always = 10.0
    world.run(agent, HOUR + 1)
    world.shuffler.publish(not_before=FIRST, mechanism="duchi")
    world.run(agent, 300)
    assert world.contents()[FIRST].is_cover
    assert len(drawn) == 1
    assert world.ledgers[0].unsent() == []
    assert world.ledgers[0].status(int(world.clock.now_s())).total_spent == 1.0


@pytest.mark.parametrize("change", [{"high": 300.0}, {"steps": 1024}, {"probe_every": 1}])
def test_noise_of_another_range_or_wave_is_not_sealed_anew(
    world: Any, drawn: list[float], change: dict[str, Any]
) -> None:
    """The fusion centre would read the place by the new range: a cover report goes instead."""
    agent = world.agent()
    world.source.always = 10.0
    world.run(agent, HOUR + 1)
    world.shuffler.publish(not_before=FIRST, **change)
    world.run(agent, 300)
    assert world.contents()[FIRST].is_cover
    assert len(drawn) == 1


def test_a_closed_round_is_dropped_and_erased(world: Any) -> None:
    """After round-closed the noisy value is gone from the ledger, the entry stays."""
    agent = world.agent()
    world.source.always = 10.0
    world.run(agent, HOUR + 1)
    assert len(world.ledgers[0].unsent()) == 1
    world.shuffler.answers = [problem("round-closed")]
    world.run(agent, 300)
    assert world.notes.of("dropped") == [{"round": FIRST, "problem": "round-closed"}]
    assert world.ledgers[0].unsent() == []
    assert len(world.ledgers[0].history()) == 1


def test_a_clock_that_is_ahead_waits_for_the_shuffler(world: Any) -> None:
    """round-not-open is answered with the same bytes, until they are taken."""
    ahead = FakeClock(world.clock.now_s() + 240)
    agent = world.agent(clock=ahead)
    world.source.always = 10.0
    for _ in range(420):
        ahead.advance(10)
        world.clock.advance(10)
        agent.step()
    assert FIRST in world.contents()
    assert any(note["problem"] == "round-not-open" for note in world.notes.of("refused"))
    assert len(set(world.shuffler.received)) < len(world.shuffler.received)


def test_a_clock_that_jumps_back_spends_nothing_twice(world: Any, drawn: list[float]) -> None:
    """Rounds that had their report get no second one, and the budget holds."""
    agent = world.agent()
    world.source.always = 10.0
    world.run(agent, 3 * HOUR)
    world.clock.jump(-2 * HOUR)
    world.run(agent, 2 * HOUR)
    assert len(drawn) == 3
    assert world.ledgers[0].status(int(world.clock.now_s())).total_spent == 3.0
    assert world.shuffler.counts["different"] == 0


def test_a_clock_that_jumps_far_ahead_keeps_the_budget(world: Any, drawn: list[float]) -> None:
    """Rounds years ahead spend their own windows; back again, the device goes on."""
    world.shuffler.versions.clear()
    world.shuffler.publish(version=1, window_budget=2.0)
    own = FakeClock(world.clock.now_s())
    agent = world.agent(clock=own)
    world.source.always = 10.0

    def work(hours: int) -> None:
        for _ in range(hours * 60):
            agent.step()
            own.advance(60)
            world.clock.advance(60)

    work(2)
    own.jump(3 * 365 * 86400)
    work(6)
    own.jump(-3 * 365 * 86400)
    work(24)
    entries = world.ledgers[0].history()
    rounds = sorted(entry.round for entry in entries)
    for round in rounds:
        assert sum(1 for other in rounds if round <= other < round + 24) <= 2
    assert len(drawn) == world.ledgers[0].status(int(own.now_s())).reports == 5
    # No more than the pauses allow: about 30 tries for a round that the shuffler does not know.
    assert len(world.shuffler.received) < 300
    assert world.shuffler.counts["different"] == 0


def test_a_restart_repeats_what_was_stored(world: Any, drawn: list[float]) -> None:
    """A new agent sends the same envelopes, report or cover, and makes no second one."""
    world.source.always = 10.0
    agent = world.agent()
    world.run(agent, HOUR + 0.5)
    (stored,) = world.ledgers[0].unsent()
    world.ledgers[0].close()
    again = world.agent()
    world.run(again, 300)
    assert world.shuffler.stored["credential", FIRST] == stored.envelope
    world.ledgers[1].close()
    # After the report was sent, a restart within the window sends nothing more.
    count = len(world.shuffler.received)
    world.run(world.agent(), 60)
    assert len(world.shuffler.received) == count
    assert len(drawn) == 1


def test_a_cover_report_that_a_later_round_overtook_is_dropped(world: Any) -> None:
    """A shuffler that confirms a later round closes the cover's: it is forgotten, no failure."""

    def handle(message: Any) -> Answer:
        if message.method == "POST" and Header.from_report(message.body).round == FIRST - 1:
            raise Unreachable("cut off.")
        answer: Answer = world.shuffler.handle(message)
        return answer

    agent = world.agent(transport=MemoryTransport(handle))
    world.source.always = 1500.0
    world.run(agent, 3 * HOUR)
    assert sorted(world.contents()) == [FIRST, FIRST + 1]
    assert FIRST - 1 not in world.store().load().covers


def test_a_restarted_cover_report_is_the_same(world: Any) -> None:
    """Cover reports are stored before they are sent, as reports are."""
    agent = world.agent()
    world.run(agent, HOUR + 0.5)
    world.ledgers[0].close()
    again = world.agent()
    assert FIRST in again.outbox
    world.run(again, 300)
    assert world.shuffler.counts["different"] == 0
    assert world.contents()[FIRST].is_cover


def test_a_ledger_that_cannot_write_is_survived(world: Any, drawn: list[float]) -> None:
    """A full disk skips rounds without a second draw, and spends nothing twice afterwards."""
    ledger = world.ledger()
    is_full = True
    report, mark = ledger.report, ledger.mark_sent

    @contextmanager
    def fail_to_commit(*args: Any, **kwargs: Any) -> Iterator[Any]:
        with report(*args, **kwargs) as spending:
            yield spending
            if is_full:
                raise LedgerUnusable("the disk is full.")

    def unmarkable(*args: Any) -> None:
        if is_full:
            raise LedgerUnusable("the disk is full.")
        mark(*args)

    ledger.report = fail_to_commit
    ledger.mark_sent = unmarkable
    agent = world.agent(ledger=ledger)
    world.source.always = 10.0
    world.run(agent, 3 * HOUR)
    assert [note["reason"] for note in world.notes.of("round-skipped")] == ["ledger-unusable"] * 3
    assert len(drawn) == 3
    assert ledger.history() == []
    is_full = False
    world.run(agent, HOUR)
    assert len(drawn) == 4
    is_full = True
    world.run(agent, HOUR)
    is_full = False
    world.run(agent, HOUR)
    assert world.ledgers[0].status(int(world.clock.now_s())).total_spent == 2.0


def test_a_state_that_cannot_be_written_is_survived(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without space for a cover report nothing is sent; terms are not taken unremembered."""
    store = world.store()
    agent = world.agent()

    def full(*args: Any, **kwargs: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.open", full)
        world.run(agent, 2 * HOUR)
        assert world.shuffler.received == []
        assert world.notes.of("not-fetched")[0]["kind"] == "StateUnusable"
        assert agent._terms.latest is None
    world.run(agent, 2 * HOUR - 60)
    assert len(world.shuffler.received) > 0
    with monkeypatch.context() as patch:
        patch.setattr("os.open", full)
        count = len(world.shuffler.received)
        world.run(agent, 2 * HOUR)
        assert len(world.shuffler.received) == count
        assert "state-unusable" in [note["reason"] for note in world.notes.of("round-skipped")]
    world.run(agent, HOUR)
    assert len(world.shuffler.received) > count
    assert store.load().campaigns


def test_what_cannot_be_noted_as_sent_is_sent_again(world: Any) -> None:
    """The same bytes are taken a second time without harm."""
    ledger = world.ledger()
    mark = ledger.mark_sent
    ledger.mark_sent = _raiser(LedgerUnusable("the disk is full."))
    agent = world.agent(ledger=ledger)
    world.source.always = 10.0
    world.run(agent, HOUR + 310)
    assert world.notes.of("round-skipped") == [{"round": FIRST, "reason": "not-noted-as-sent"}]
    ledger.mark_sent = mark
    again = world.agent(ledger=ledger)
    world.run(again, 60)
    assert world.shuffler.counts == {"same": 1}


def test_a_failing_source_is_noted_without_its_words(world: Any) -> None:
    """The kind of source is told, not what it said."""
    world.source.read = _raiser(SourceFailed("exec", "said 1234.5"))
    agent = world.agent()
    world.run(agent, HOUR)
    assert {"kind": "exec"} in world.notes.of("source-failed")
    assert "1234" not in str(world.notes.events)


def test_refused_terms_leave_the_old_ones_in_force(world: Any, drawn: list[float]) -> None:
    """A campaign that goes back or promises less is noted, and work goes on under the old one."""
    world.source.always = 10.0
    agent = world.agent()
    world.run(agent, HOUR)
    world.shuffler.publish(k_min=5, not_before=FIRST + 50)
    world.run(agent, 3 * HOUR)
    assert isinstance(agent.refusal, TermsRefused)
    assert {"reason": "not-a-successor"} in world.notes.of("terms-refused")
    assert len(drawn) == 4
    world.shuffler.campaign = world.shuffler.versions[0]
    world.run(agent, 3 * HOUR)
    assert agent.refusal is None


def test_limits_that_the_ledger_cannot_keep_are_refused(world: Any) -> None:
    """A window of more than a century is refused by name, and nothing is remembered."""
    world.shuffler.versions.clear()
    world.shuffler.publish(version=1, window=2**32 - 1)
    agent = world.agent()
    agent.step()
    assert agent.refusal is not None
    assert agent.refusal.reason == "ledger"
    assert world.store().load().campaigns == ()


def test_a_busy_ledger_at_joining_is_tried_again(world: Any) -> None:
    """A ledger that cannot be written refuses no terms for good."""
    ledger = world.ledger()
    join = ledger.join
    ledger.join = _raiser(LedgerUnusable("busy."))
    agent = world.agent(ledger=ledger)
    agent.step()
    assert agent.refusal is None
    assert world.notes.of("not-fetched")[0]["kind"] == "LedgerUnusable"
    ledger.join = join
    world.run(agent, 60)
    assert world.notes.of("terms-accepted")


def test_without_an_active_key_the_round_waits(world: Any, drawn: list[float]) -> None:
    """Nothing is drawn until there are keys; they are fetched within seconds."""
    key = {role: world.shuffler.keys[role] for role in Role}
    expired = tuple(key[role].config(not_before_s=0, not_after_s=10) for role in Role)
    keyset = world.shuffler.keyset
    world.shuffler.keyset = Keyset(version=1, cache_s=7200, configs=expired)
    agent = world.agent()
    world.source.always = 10.0
    world.run(agent, HOUR + 30)
    assert drawn == []
    assert world.shuffler.received == []
    world.shuffler.keyset = Keyset(version=2, cache_s=7200, configs=keyset.configs)
    world.run(agent, 300)
    assert len(drawn) == 1
    assert FIRST in world.contents()


def test_keys_that_expire_on_the_way_leave_the_envelope(world: Any) -> None:
    """If outdated-config comes while no key is active, the same bytes are kept for later."""
    agent = world.agent()
    world.source.always = 10.0
    world.run(agent, HOUR + 1)
    envelope = world.ledgers[0].unsent()[0].envelope
    good = world.shuffler.keyset
    configs = tuple(
        replace(config, not_after_s=10) if config.role is Role.SHUFFLER else config
        for config in good.configs
    )
    world.shuffler.keyset = Keyset(version=2, cache_s=7200, configs=configs)
    world.shuffler.answers = [problem("outdated-config")]
    world.run(agent, 1)
    while world.shuffler.answers:
        world.run(agent, 1)
    world.shuffler.keyset = Keyset(version=3, cache_s=7200, configs=good.configs)
    world.run(agent, 300)
    assert world.shuffler.stored["credential", FIRST] == envelope


def test_rounds_outside_the_campaign_are_left_alone(world: Any, drawn: list[float]) -> None:
    """Before not_before and after not_after nothing is drawn or sent."""
    world.shuffler.versions.clear()
    world.shuffler.publish(version=1, not_before=FIRST + 1, not_after=FIRST + 2)
    world.source.always = 10.0
    world.run(world.agent(), 5 * HOUR)
    assert sorted(world.contents()) == [FIRST + 1, FIRST + 2]
    assert len(drawn) == 2


def test_unchanged_documents_are_asked_for_by_their_tag(world: Any) -> None:
    """A second fetch says which version is known, and is answered with 304."""
    statuses = []
    handle = world.shuffler.handle

    def watching(message: Any) -> Answer:
        answer: Answer = handle(message)
        if message.method == "GET":
            statuses.append(answer.status)
        return answer

    agent = world.agent(transport=MemoryTransport(watching))
    world.run(agent, 3 * HOUR)
    assert statuses[:4] == [200, 200, 304, 304]


def test_a_missing_document_is_tried_again(world: Any) -> None:
    """A server that does not know the campaign yet is asked again, with growing pauses."""
    world.shuffler.answers = [problem("unknown-campaign")] * 3
    agent = world.agent()
    world.run(agent, 120)
    waits = [note["wait_s"] for note in world.notes.of("not-fetched")]
    assert len(waits) == 3
    assert waits[0] < waits[2]
    assert world.notes.of("terms-accepted")


def test_erased_values_do_not_stay(world: Any) -> None:
    """Reports of rounds that the shuffler confirmed as over are erased from the ledger."""
    world.source.always = 10.0
    agent = world.agent()
    world.run(agent, 6 * HOUR - 60)
    rows = world.ledgers[0]._file.rows("SELECT round FROM entry WHERE report IS NOT NULL")
    assert rows == [(FIRST + 4,)]
    assert list(world.store().load().covers) == []


def _raiser(error: BaseException) -> Any:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    return fail


def test_versions_that_follow_each_other_before_a_fetch(world: Any, drawn: list[float]) -> None:
    """A device that slept through two publications reports under each in its own round."""
    world.source.always = 10.0
    agent = world.agent()
    world.run(agent, HOUR)
    for round in (FIRST + 2, FIRST + 3):
        world.shuffler.publish(not_before=round, rho=0.8 + (round - FIRST) / 100)
    world.run(agent, 5 * HOUR)
    used = {Header.from_report(report) for report in world.shuffler.stored.values()}
    tags = {header.round: header.campaign_tag for header in used}
    for round, version in ((FIRST + 1, 0), (FIRST + 2, 1), (FIRST + 3, 2), (FIRST + 4, 2)):
        assert campaign_hash(world.shuffler.versions[version]).startswith(tags[round])
    assert [note["version"] for note in world.notes.of("terms-accepted")] == [1, 2, 3]
    assert len(drawn) == 6


def test_a_refused_version_does_not_undo_the_one_before_it(world: Any, drawn: list[float]) -> None:
    """The version that holds first is gone by, though the owner does not admit the next."""
    world.source.always = 10.0
    agent = world.agent()
    world.run(agent, HOUR)
    second = world.shuffler.publish(not_before=FIRST + 2, rho=0.8)
    world.shuffler.publish(not_before=FIRST + 40, epsilon=(1.5,), window_budget=24.0)
    world.run(agent, 4 * HOUR)
    assert agent.refusal is not None
    assert agent.refusal.reason == "epsilon-above-limit"
    report = world.shuffler.stored["credential", FIRST + 2]
    assert campaign_hash(second).startswith(Header.from_report(report).campaign_tag)


def test_seeded_noise_is_refused_but_for_study(world: Any) -> None:
    """An agent, its reporter and its outbox take the operating system's words alone."""
    with pytest.raises(TypeError, match="SecureEntropy"):
        world.agent(study=False)
    agent = world.agent(study=False, entropy=SecureEntropy())
    world.run(agent, 10)
    assert set(world.notes.study_marks) == {None}


def test_study_is_written_on_every_note(world: Any) -> None:
    """What a simulated device notes says that its noise protects nobody."""
    world.run(world.agent(), 10)
    assert set(world.notes.study_marks) == {"yes"}
