"""Rounds become final once, with every estimator, and their reports are gone."""

import struct
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fusion.conftest import (
    CAMPAIGN,
    ROUND,
    Centre,
    Parcel,
    envelope,
    keyset,
    parcel,
    reports,
)
from tests.storage.engines import NewAddress
from tests.storage.faults import FaultyDatabase, SimulatedDeath

from rase.campaign import Campaign
from rase.clock import FakeClock
from rase.counts.counts import Counts
from rase.counts.fleet import of_fleet
from rase.counts.mean import unbiased_mean
from rase.counts.moments import moments_of
from rase.counts.registry import estimator_named
from rase.errors import StorageBusy, StorageConflict, StorageError
from rase.fusion.answers import window_epsilon
from rase.fusion.campaigns import next_version
from rase.fusion.mechanism import counts_of, drawable, randomizer_of
from rase.fusion.rounds import FailedRound, Rounds
from rase.fusion.settings import FusionPolicy
from rase.kernels.entropy import SeededEntropy
from rase.laws.randomizer import RangeRandomizer
from rase.laws.registry import MECHANISMS, randomizer_named
from rase.series.rounds import estimate_round
from rase.storage.address import DatabaseAddress
from rase.storage.opening import open_database

PLACES = [0, 100, 2048, 3000, 4096]


def sent(centre: Centre, places: list[int] = PLACES, round: int = ROUND) -> None:
    """Take in a batch of reports."""
    one = parcel(reports(places, round=round), round=round)
    one.deliver(centre.intake)


def test_every_estimator_has_a_row_with_its_interval(centre: Centre) -> None:
    """The campaign's four estimators are all answered, and agree with the mathematics."""
    sent(centre)
    (done,) = centre.rounds.tick()
    assert not done.is_withheld
    answers = centre.questions.between(CAMPAIGN, ROUND, ROUND, method="all")
    assert [one.method for one in answers] == list(CAMPAIGN.estimators)
    for one in answers:
        assert one.value is not None
        assert one.low is not None
        assert one.high is not None
        assert one.low < one.value < one.high
        assert one.n == len(PLACES)
    values = CAMPAIGN.low + CAMPAIGN.domain.step * np.array(PLACES)
    expected = unbiased_mean(values, randomizer=randomizer_of(CAMPAIGN))
    assert answers[0].value == pytest.approx(expected.value)
    assert answers[0].standard_error == pytest.approx(expected.standard_error)


@pytest.mark.parametrize("estimators", [("unbiased_mean", "median"), ("tracked", "median")])
def test_answers_say_whose_mean_they_are_of(
    new_address: NewAddress, estimators: tuple[str, ...]
) -> None:
    """Of the fleet with the error of choosing its reporters; of them where nobody counts members.

    Five of 400 members report. All that report need no more error, and the median of the reports
    is of the reports.
    """
    fleet = replace(CAMPAIGN, estimators=estimators, target="fleet", epsilon=(8,))
    database = open_database(new_address("fleet.db"), migrations="fusion")
    before = Centre(database, FakeClock((ROUND - 3) * 3600))
    before.publisher.publish_keyset(keyset(7))
    before.publisher.publish(fleet)
    one = Centre(database, FakeClock((ROUND + 100) * 3600))
    for round, members in {ROUND: 400, ROUND + 1: 5, ROUND + 2: None}.items():
        envelopes = reports(PLACES, round=round, campaign=fleet)
        batch = parcel(envelopes, round=round, campaign=fleet, members=members)
        batch.deliver(one.intake)
    assert len(one.rounds.tick()) == 3
    some, whole, unknown = one.questions.between(fleet, ROUND, ROUND + 2, method="unbiased_mean")
    assert [some.target, whole.target, unknown.target] == ["fleet", "fleet", "reporters"]
    randomizer = randomizer_of(fleet)
    counts = counts_of(fleet, np.array(PLACES), np.zeros(len(PLACES), np.uint8))
    mean = unbiased_mean(counts, randomizer=randomizer)
    spread = moments_of(counts, randomizer).spread
    assert spread is not None
    wider = of_fleet(mean, members=400, spread=float(spread[0]), value_range=fleet.domain)
    assert wider.standard_error > mean.standard_error
    assert some.standard_error == pytest.approx(wider.standard_error)
    assert whole.standard_error == unknown.standard_error == pytest.approx(mean.standard_error)
    first = one.questions.between(fleet, ROUND, ROUND + 2)
    assert [answer.target for answer in first] == ["fleet", "fleet", "reporters"]
    medians = one.questions.between(fleet, ROUND, ROUND, method="median")
    assert medians[0].target == "reports"
    assert one.questions.at(fleet, ROUND + 3).target == "fleet"
    database.close()


def test_a_liar_is_worth_less_to_the_winsorized_mean() -> None:
    """Of 50 reports of noise without end one far-off lie moves the unbiased mean by many widths."""
    campaign = replace(
        CAMPAIGN, mechanism="laplace", estimators=("unbiased_mean", "winsorized_mean")
    )
    randomizer = randomizer_of(campaign)
    assert isinstance(randomizer, RangeRandomizer)
    step = campaign.domain.step
    lie = round((randomizer.decoded_reach[1] - campaign.low) / step)
    honest = np.full(50, 2048)
    lied = np.append(honest[1:], lie)
    classes = np.zeros(50, np.uint8)
    assert drawable(campaign, lied, classes).all()
    assert not drawable(campaign, lied + 1, classes).all()

    def moved(name: str) -> float:
        before, after = (
            estimator_named(name)(counts_of(campaign, places, classes), randomizer=randomizer)
            for places in (honest, lied)
        )
        return after.value - before.value

    plain, bounded = map(moved, campaign.estimators)
    width = campaign.domain.width
    epsilon = campaign.epsilon[0]
    assert plain > 40 / epsilon / 50 * width
    assert 0 < bounded <= (1 + 2 / epsilon) / 50 * width


def test_estimates_may_be_negative(centre: Centre) -> None:
    """An unbiased estimate below the range is told as it is, not clamped."""
    sent(centre, [0] * 6)
    centre.rounds.tick()
    answer = centre.questions.latest(CAMPAIGN)
    assert answer.value is not None
    assert answer.value < 0


def test_a_round_is_final_once(centre: Centre) -> None:
    """Nothing is left to do after the first tick."""
    sent(centre)
    assert len(centre.rounds.tick()) == 1
    assert centre.rounds.tick() == []
    assert centre.count("answers") == len(CAMPAIGN.estimators)


def test_another_process_may_be_faster(centre: Centre) -> None:
    """Of two that estimate the same round one writes; the other leaves it alone."""
    sent(centre)
    other = Rounds(centre.database, centre.clock)

    class Meanwhile(FaultyDatabase):
        def transaction(self):  # type: ignore[no-untyped-def]
            other.finalise_due()
            return super().transaction()

    slow = Rounds(Meanwhile(centre.database), centre.clock)
    assert slow.finalise_due() == []
    assert centre.count("answers") == len(CAMPAIGN.estimators)


def test_withheld_rounds_are_told(centre: Centre) -> None:
    """A batch without envelopes makes the round too_few."""
    one = parcel([])
    one.deliver(centre.intake)
    (done,) = centre.rounds.tick()
    assert done.is_withheld
    answer = centre.questions.latest(CAMPAIGN)
    assert (answer.status, answer.value, answer.n) == ("too_few", None, 0)
    assert answer.shuffle == "withheld by shuffler-1: fewer than 4 reports"


def test_a_round_of_covers_is_too_few(centre: Centre) -> None:
    """A shuffler that forwards cover reports to reach k_min gets no estimate for it."""
    one = parcel([envelope(0, content=bytes(320)) for _ in range(5)] + reports([1, 2, 3]))
    one.deliver(centre.intake)
    (done,) = centre.rounds.tick()
    assert done.is_withheld
    assert centre.count("opened") == centre.count("answers") == 0


@pytest.mark.sqlite
def test_reports_are_gone_when_the_round_is_final(path: Path, centre: Centre) -> None:
    """No row and no byte of the database or its log holds the places any more."""
    places = [1111, 2222, 3333, 3999, 4001]
    mark = b"".join(struct.pack("<q", place) for place in places)
    sent(centre, places)
    held = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert mark in held
    centre.rounds.tick()
    assert centre.count("opened") == 0
    for file in path.parent.iterdir():
        assert mark not in file.read_bytes()
        assert struct.pack("<qq", *places[:2]) not in file.read_bytes()


@pytest.mark.sqlite
def test_a_restart_overwrites_what_a_death_left(path: Path, centre: Centre) -> None:
    """Death between deleting and overwriting the log leaves traces only until the next tick."""
    places = [1111, 2222, 3333, 3999, 4001]
    mark = struct.pack("<qq", *places[:2])
    sent(centre, places)
    centre.rounds.finalise_due()
    Rounds(centre.database, centre.clock).tick()
    assert all(mark not in file.read_bytes() for file in path.parent.iterdir())


def test_the_operator_may_keep_reports_for_a_time(centre: Centre) -> None:
    """Kept reports have no tags any more and are deleted when the time is over."""
    centre.policy = FusionPolicy(keep_values_s=3600)
    centre.__post_init__()
    sent(centre)
    centre.rounds.tick()
    assert centre.count("opened") == 1
    assert centre.count("envelope_tag") == 0
    centre.clock.advance(3599)
    centre.rounds.tick()
    assert centre.count("opened") == 1
    centre.clock.advance(1)
    assert centre.rounds.tick() == []
    assert centre.count("opened") == 0
    assert centre.rounds.delete_due() == 0


@pytest.mark.parametrize("kind", [StorageError, StorageBusy])
def test_a_database_that_fails_is_no_rounds_fault(
    centre: Centre, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    """Whatever the database refuses, the round is estimated as soon as it can be, unrested."""
    from rase.fusion import rounds

    def fails(*_: Any, **__: Any) -> Any:
        raise kind("planted")

    sent(centre, PLACES, ROUND - 1)
    with monkeypatch.context() as broken:
        broken.setattr(rounds, "estimate_round", fails)
        with pytest.raises(kind):
            centre.rounds.tick()
        assert centre.rounds.take_failed() == []
    assert [done.round for done in centre.rounds.tick()] == [ROUND - 1]


@pytest.mark.uncovered
@pytest.mark.parametrize("kind", [ValueError, LookupError, StorageConflict, ZeroDivisionError])
def test_a_round_that_cannot_be_estimated_keeps_no_other_from_it(
    centre: Centre, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    """Whatever is wrong with it, it is told once and tried again after a while."""
    from rase.fusion import rounds

    def fails(counts: Counts, *arguments: Any, **more: Any) -> Any:
        if counts.n == 5:
            raise kind("planted")
        return estimate_round(counts, *arguments, **more)

    sent(centre, PLACES, ROUND - 1)
    sent(centre, [1] * 6, ROUND)
    with monkeypatch.context() as broken:
        broken.setattr(rounds, "estimate_round", fails)
        # Those that cannot be estimated must not take all the places of those that can.
        broken.setattr(rounds, "_AT_ONCE", 1)
        assert centre.rounds.tick() == []
        assert centre.rounds.take_failed() == [FailedRound(CAMPAIGN.id, ROUND - 1, kind.__name__)]
        assert [done.round for done in centre.rounds.tick()] == [ROUND]
        assert centre.rounds.tick() == []
        assert centre.rounds.take_failed() == []
        assert centre.count("opened") == 1
    centre.clock.advance(600)
    assert [done.round for done in centre.rounds.tick()] == [ROUND - 1]
    assert centre.count("opened") == 0


def test_one_batch_more_is_waited_for(centre: Centre) -> None:
    """A batch that comes while a round is estimated is not left out."""
    centre.publisher.publish_keyset(keyset(7, 9, version=2))
    sent(centre)
    centre.clock.advance(60)

    class Meanwhile(FaultyDatabase):
        is_first = True

        def transaction(self):  # type: ignore[no-untyped-def]
            if self.is_first:
                self.is_first = False
                one = parcel(reports([5] * 5, key_id=9), key_id=9)
                one.deliver(centre.intake)
            return super().transaction()

    slow = Rounds(Meanwhile(centre.database), centre.clock)
    assert slow.finalise_due() == []
    assert len(slow.finalise_due()) == 1
    assert centre.questions.latest(CAMPAIGN).n == 10


CLASSES = replace(CAMPAIGN, id="classes", epsilon=(0.5, 2.0), mechanism="laplace")


@pytest.mark.any_store
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_classes_and_mechanisms_are_estimated(centre: Centre, mechanism: str) -> None:
    """Each report is decoded with its own budget, by the campaign's mechanism."""
    campaign = replace(CLASSES, mechanism=mechanism)
    centre.publisher.publish(campaign)
    drawn = [
        randomizer_named(mechanism, epsilon, domain=campaign.domain, precision=campaign.precision)
        for epsilon in campaign.epsilon
    ]
    entropy = SeededEntropy(2026)
    inner = [
        envelope(
            drawn[number % 2].draw_one(campaign.high * (number % 2), entropy),
            epsilon_class=number % 2,
            campaign=campaign,
        )
        for number in range(8)
    ]
    one = parcel(inner, campaign=campaign)
    assert one.deliver(centre.intake).refused == 0
    centre.rounds.tick()
    answer = centre.questions.latest(campaign)
    assert (answer.n, answer.local_epsilon, answer.status) == (8, 2.0, "ok")


def test_reports_of_small_classes_do_not_count(centre: Centre) -> None:
    """Fewer than k_min of a class hide nobody: they are left out, and alone they are too few."""
    centre.publisher.publish(CLASSES)
    for round, generous in ((ROUND, 3), (ROUND + 1, 4)):
        centre.clock.jump(CLASSES.closes_s(round) - centre.clock.now_s())
        modest = 5 if round == ROUND else 3
        inner = [
            envelope(1000 + place, round=round, epsilon_class=number, campaign=CLASSES)
            for number, count in ((0, modest), (1, generous))
            for place in range(count)
        ]
        one = parcel(inner, round=round, campaign=CLASSES)
        one.deliver(centre.intake)
    centre.rounds.tick()
    assert [one.n for one in centre.questions.between(CLASSES, ROUND, ROUND + 1)] == [5, 4]
    few = [
        envelope(1000, round=ROUND + 2, epsilon_class=number % 2, campaign=CLASSES)
        for number in range(6)
    ]
    centre.clock.jump(CLASSES.closes_s(ROUND + 2) - centre.clock.now_s())
    one = parcel(few, round=ROUND + 2, campaign=CLASSES)
    one.deliver(centre.intake)
    centre.rounds.tick()
    assert centre.questions.latest(CLASSES).status == "too_few"
    assert centre.count("opened") == 0


class Steps:
    """A list of operations on a fusion centre, each repeated until it is not killed."""

    def __init__(self, address: DatabaseAddress) -> None:
        self.address = address
        self.deaths = 0

    def run(self, campaign: Campaign, *, is_stormy: bool) -> list[object]:
        """Run three rounds; return what a subscriber is told of them."""
        disk = open_database(self.address, migrations="fusion")
        clock = FakeClock(campaign.not_before * campaign.round_s)
        alive = Centre(disk, clock)

        def surviving(operation: str, *arguments: object) -> None:
            fail_at = 0
            while True:
                # Death comes one point later each time, so every point of the step is tried.
                faulty = FaultyDatabase(disk, fail_at if is_stormy else None)
                centre = Centre(faulty, clock, policy=alive.policy)
                try:
                    target: Any = {
                        "publish": centre.publisher.publish,
                        "keys": centre.publisher.publish_keyset,
                        "put": partial(Parcel.deliver, to=centre.intake),
                        "tick": centre.rounds.tick,
                    }[operation]
                    target(*arguments)
                except SimulatedDeath:
                    self.deaths += 1
                    fail_at += 1
                    continue
                return

        surviving("publish", campaign)
        surviving("keys", keyset(7))
        for round, batches in PARCELS:
            clock.jump(campaign.closes_s(round) - clock.now_s())
            for batch in batches:
                surviving("put", batch)
                surviving("put", batch)
            surviving("tick")
            surviving("tick")
        told: list[object] = list(alive.questions.between(campaign, 0, 2**32, method="all"))
        with disk.snapshot() as transaction:
            ((finals,),) = transaction.execute("SELECT COUNT(DISTINCT sequence) FROM rounds")
            assert finals == len(PARCELS)
            assert transaction.execute("SELECT COUNT(*) FROM opened") == [(0,)]
        disk.close()
        return told


# Sealed once: an estimate with faults and one without are of the same envelopes.
PARCELS = [
    (number, [parcel(reports(places, round=number), round=number)])
    for number, places in enumerate(
        (
            PLACES,
            [],
            [9] * 7,
            [4000] * 9,
            [0, 1, 2, 3],
            [77] * 5,
            [],
            [5] * 4,
            [4096] * 8,
            PLACES,
            [0] * 4,
            [2000] * 6,
        ),
        start=ROUND,
    )
]


@pytest.mark.uncovered
def test_death_at_every_write_changes_no_estimate(new_address: NewAddress) -> None:
    """At least 200 deaths, one at each write and commit of each step: the answers are the same."""
    calm, stormy = Steps(new_address("calm.sqlite")), Steps(new_address("stormy.sqlite"))
    expected = calm.run(CAMPAIGN, is_stormy=False)
    assert calm.deaths == 0
    assert stormy.run(CAMPAIGN, is_stormy=True) == expected
    assert len(expected) == len(PARCELS) * len(CAMPAIGN.estimators)
    assert stormy.deaths >= 200


CARRYING = replace(CAMPAIGN, id="carried", carry_rounds=2)


def carried(places: Sequence[int], *, campaign: Campaign = CARRYING) -> list[bytes]:
    """Return envelopes of any round of the first block."""
    return reports(places, round=CARRYING.not_before, campaign=campaign)


@pytest.fixture
def carrying(centre: Centre) -> Centre:
    """A centre with a campaign that carries rounds for two more, k_min 4."""
    centre.publisher.publish(CARRYING)
    return centre


def test_reports_of_a_block_open_in_each_of_its_rounds(carrying: Centre) -> None:
    """The estimate of the release counts them all, and says what they may be of."""
    first = CARRYING.not_before
    for sent in (
        parcel([], round=first, key_id=0, campaign=CARRYING),
        parcel(carried([10, 20, 30, 40, 50]), round=first + 1, campaign=CARRYING),
    ):
        assert sent.deliver(carrying.intake).refused == 0
    assert [one.is_withheld for one in carrying.rounds.tick()] == [True, False]
    told = carrying.questions.between(CARRYING, first, first + 1)
    assert [one.status for one in told] == ["too_few", "ok"]
    assert told[1].n == 5
    assert told[1].shuffle.endswith(f"may hold reports of earlier rounds, from {first} on")
    assert "earlier rounds" not in told[0].shuffle
    beyond = parcel(carried([1, 2, 3, 4]), round=first + 3, campaign=CARRYING)
    carrying.clock.advance(4 * 3600)
    assert beyond.deliver(carrying.intake).refused == 4


def test_an_envelope_counts_in_one_round_of_its_block(carrying: Centre) -> None:
    """A shuffler that releases it again in the next round adds nothing; tags go with the block."""
    first = CARRYING.not_before
    inner = carried([10, 20, 30, 40])
    carrying.clock.advance(4 * 3600)
    for round, more, replayed in ((first, [], 0), (first + 1, carried([50]), 4)):
        sent = parcel([*inner, *more], round=round, campaign=CARRYING)
        assert sent.deliver(carrying.intake).replayed == replayed
        carrying.rounds.tick()
        assert carrying.count("envelope_tag") == 4 + round - first
    assert carrying.questions.at(CARRYING, first + 1).status == "too_few"
    last = parcel(inner, round=first + 2, campaign=CARRYING)
    assert last.deliver(carrying.intake).replayed == 4
    carrying.rounds.tick()
    assert carrying.count("envelope_tag") == 0
    assert carrying.count("opened") == 0


def test_the_tags_of_a_version_that_ends_go_with_it(carrying: Centre) -> None:
    """A block that a new version cuts short is over with the old one's last round."""
    first = CARRYING.not_before
    carrying.clock.jump(first * 3600 - carrying.clock.now_s())
    later = next_version(CARRYING, not_before=first + 1)
    carrying.publisher.publish(later)
    carrying.clock.advance(2 * 3600)
    sent = parcel(carried([10, 20, 30, 40]), round=first, campaign=CARRYING)
    sent.deliver(carrying.intake)
    carrying.rounds.tick()
    assert carrying.count("envelope_tag") == 0


def test_a_windows_epsilon_counts_what_was_carried_into_it() -> None:
    """Reports of w releases are of w rounds and those carried: one ledger's window may not do."""
    tight = replace(CARRYING, window=2, window_budget=1.0, epsilon=(1.0,))
    assert window_epsilon(tight, 2, [1.0]) == 2.0
    assert window_epsilon(replace(tight, carry_rounds=0), 2, [1.0]) == 1.0
