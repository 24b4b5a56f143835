"""Whoever has the shuffler's signing key: what it can do, and what is noticed of it."""

import io

import pytest
from tests.fusion.conftest import (
    CAMPAIGN,
    PINNED,
    ROUND,
    Centre,
    Parcel,
    keyset,
    parcel,
    reports,
)
from tests.registering import EveryWindow

from rase.errors import WireError
from rase.fusion.centre import FusionCentre
from rase.fusion.intake import Intake, LateBatch
from rase.fusion.rounds import Rounds
from rase.fusion.settings import FusionPolicy
from rase.service.telemetry import Telemetry
from rase.wire.keys import Role, SigningKey

TRUE = [0, 100, 2048, 3000, 4096]
FORGED = [4096] * 50
CLOSES_S = CAMPAIGN.closes_s(ROUND)
END_S = CAMPAIGN.round_end_s(ROUND)


@pytest.fixture
def early(centre: Centre) -> Centre:
    """A fusion centre in the second in which the round has ended."""
    centre.clock.jump(END_S - centre.clock.now_s())
    return centre


def whole(centre: Centre) -> tuple[FusionCentre, io.StringIO]:
    """Return the centre as its programs have it, and its log."""
    log = io.StringIO()
    made = FusionCentre(
        database=centre.database,
        clock=centre.clock,
        intake=centre.intake,
        rounds=centre.rounds,
        questions=centre.questions,
        telemetry=Telemetry("fusion", stream=log),
    )
    return made, log


def batch(places: list[int]) -> Parcel:
    """Return a batch of the round, signed with the shuffler's key."""
    return parcel(reports(places))


def go_to(centre: Centre, time_s: float) -> None:
    """Move the clock."""
    centre.clock.jump(time_s - centre.clock.now_s())


def final(centre: Centre) -> list[int]:
    """Do what is due; return the rounds that became final."""
    return [one.round for one in centre.rounds.tick()]


def test_no_round_is_final_before_its_grace_is_over(early: Centre) -> None:
    """A batch that comes as the round ends is accepted, and waits."""
    one = batch(TRUE)
    assert one.deliver(early.intake).is_new
    for time_s in (END_S, END_S + 1, CLOSES_S - 1):
        go_to(early, time_s)
        assert final(early) == []
    assert not one.deliver(early.intake).is_new
    # It came a whole grace early, so it waits as long again, or for settle_s.
    waits_s = min(CLOSES_S - END_S, early.policy.settle_s)
    go_to(early, CLOSES_S + waits_s - 1)
    assert final(early) == []
    go_to(early, CLOSES_S + waits_s)
    assert final(early) == [ROUND]


@pytest.mark.parametrize("late_s", [0, 1, 1000])
def test_a_batch_in_time_is_final_at_once(early: Centre, late_s: int) -> None:
    """Where clocks agree the grace costs no time: an honest shuffler sends when it is over."""
    go_to(early, CLOSES_S + late_s)
    one = batch(TRUE)
    one.deliver(early.intake)
    assert final(early) == [ROUND]


def test_a_clock_behind_costs_twice_its_seconds(early: Centre) -> None:
    """The batch comes 3 s early by this clock, and the round is final 6 s after it came."""
    go_to(early, CLOSES_S - 3)
    one = batch(TRUE)
    one.deliver(early.intake)
    go_to(early, CLOSES_S + 2)
    assert final(early) == []
    go_to(early, CLOSES_S + 3)
    assert final(early) == [ROUND]


def test_an_early_forgery_does_not_displace_the_true_batch(early: Centre) -> None:
    """Both are in the estimate, and that there were two shows in answer, counters and log."""
    centre, log = whole(early)
    forged, true = batch(FORGED), batch(TRUE)
    forged.deliver(centre)
    centre.tick()
    go_to(early, CLOSES_S)
    centre.tick()
    go_to(early, CLOSES_S + 1)
    assert true.deliver(centre).is_extra
    go_to(early, CLOSES_S + early.policy.settle_s)
    assert [one.round for one in centre.tick()] == [ROUND]
    (answer,) = early.questions.between(CAMPAIGN, ROUND, ROUND, method="unbiased_mean")
    assert answer.n == len(FORGED) + len(TRUE)
    assert answer.shuffle is not None
    assert "in 2 batches" in answer.shuffle
    counters = centre.telemetry.counters()
    assert counters["rase_fusion_batches_extra_total"] == 1
    assert f"batch_extra campaign={CAMPAIGN.id} round={ROUND}" in log.getvalue()


def test_a_forgery_that_is_first_after_the_grace_is_noticed(early: Centre) -> None:
    """It is final, and the true batch is refused: not promised, but counted and logged."""
    centre, log = whole(early)
    go_to(early, CLOSES_S)
    forged, true = batch(FORGED), batch(TRUE)
    forged.deliver(centre)
    centre.tick()
    with pytest.raises(LateBatch) as refused:
        true.deliver(centre)
    assert refused.value.problem == "final-round"
    assert centre.telemetry.counters()["rase_fusion_batches_late_total"] == 1
    assert f"batch_late campaign={CAMPAIGN.id} round={ROUND}" in log.getvalue()
    (answer,) = early.questions.between(CAMPAIGN, ROUND, ROUND, method="unbiased_mean")
    assert answer.n == len(FORGED)


def test_one_batch_for_each_key_is_no_extra_one(early: Centre) -> None:
    """While devices may use two keys an honest shuffler sends two; a third is one too many."""
    early.publisher.publish_keyset(keyset(7, 9, version=2))
    go_to(early, CLOSES_S)
    centre, _ = whole(early)
    for key_id, is_extra in ((7, False), (9, False), (9, True)):
        one = parcel(reports(TRUE, key_id=key_id), key_id=key_id)
        assert one.deliver(centre).is_extra is is_extra


def test_a_clock_that_was_set_back_makes_nothing_final_too_early(early: Centre) -> None:
    """The time that was written is past, but by today's clock the grace is not over."""
    one = batch(TRUE)
    one.deliver(early.intake)
    with early.database.transaction() as transaction:
        transaction.execute("UPDATE rounds SET settles_s = ?", (END_S - 100,))
    assert final(early) == []
    go_to(early, CLOSES_S)
    assert final(early) == [ROUND]


def test_a_clock_that_was_ahead_keeps_nothing_waiting(early: Centre) -> None:
    """A time that no batch could have given is not waited for, once the grace is over."""
    one = batch(TRUE)
    one.deliver(early.intake)
    with early.database.transaction() as transaction:
        transaction.execute("UPDATE rounds SET settles_s = settles_s + 10000000")
    assert final(early) == []
    go_to(early, CLOSES_S)
    assert final(early) == [ROUND]


def test_rounds_in_their_grace_hold_no_other_up(
    early: Centre, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many rounds of before wait, one that is settled becomes final."""
    monkeypatch.setattr("rase.fusion.rounds._AT_ONCE", 1)
    policy = FusionPolicy(settle_s=0)
    centre = Centre(early.database, early.clock, policy=policy)
    one = batch(TRUE)
    one.deliver(centre.intake)
    with centre.database.transaction() as transaction:
        for earlier in range(1, 4):
            transaction.execute(
                "INSERT INTO rounds (campaign, round, version, state, batches, settles_s) "
                "VALUES (?, ?, 1, 'open', 0, ?)",
                (CAMPAIGN.id, ROUND + 1000 + earlier, CLOSES_S + 10**6),
            )
        transaction.execute("UPDATE rounds SET settles_s = 0 WHERE round = ?", (ROUND,))
    go_to(early, CLOSES_S)
    assert final(centre) == [ROUND]


def test_made_up_reports_count_and_a_victim_can_be_read(early: Centre) -> None:
    """What the threat model says is not promised, so that nobody takes it for promised.

    Shuffler and registrar together have what is needed: the tokens here are of devices that do not
    exist, and their reports are in an estimate.
    Filled up to k_min with reports that are known, a round's unbiased mean gives away the noisy
    report of one device to whoever may read estimates. The noise of that report stays.
    """
    go_to(early, CLOSES_S)
    victim, known = 1234, [2000] * (CAMPAIGN.k_min - 1)
    one = batch([victim, *known])
    one.deliver(early.intake)
    assert final(early) == [ROUND]
    (answer,) = early.questions.between(CAMPAIGN, ROUND, ROUND, method="unbiased_mean")
    baseline = Centre(early.database, early.clock)
    # Two rounds of known reports alone show how a mean follows from places; it is public anyway.
    means = []
    for number, place in enumerate((2000, 3000), start=1):
        later = parcel(
            reports([place] * CAMPAIGN.k_min, round=ROUND + number), round=ROUND + number
        )
        go_to(early, CAMPAIGN.closes_s(ROUND + number))
        later.deliver(baseline.intake)
        assert final(baseline) == [ROUND + number]
        (told,) = early.questions.between(
            CAMPAIGN, ROUND + number, ROUND + number, method="unbiased_mean"
        )
        assert told.value is not None
        means.append(told.value)
    per_place = (means[1] - means[0]) / 1000
    assert answer.value is not None
    read = 2000 + (answer.value - means[0]) * CAMPAIGN.k_min / per_place
    assert round(read) == victim


def test_a_stranger_without_the_key_can_do_none_of_it(early: Centre) -> None:
    """A batch that the pinned key did not sign is refused as before."""
    one = parcel(reports(FORGED), signer=SigningKey.generate(Role.SHUFFLER))
    with pytest.raises(WireError):
        one.deliver(early.intake)
    assert early.count("rounds") == 0


def test_two_processes_agree_on_when(early: Centre) -> None:
    """What the first batch decided is in the database, not in the process that took it."""
    one = batch(TRUE)
    other = Intake(
        early.database,
        early.clock,
        pinned=PINNED,
        opener=early.opener,
        token_keys=EveryWindow(),
    )
    one.deliver(other)
    rounds = Rounds(early.database, early.clock)
    go_to(early, CLOSES_S)
    assert rounds.tick() == []
    go_to(early, CLOSES_S + early.policy.settle_s)
    assert [done.round for done in rounds.tick()] == [ROUND]
