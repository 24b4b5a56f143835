"""The estimator `tracked` at the fusion centre: the same bits whatever process goes on."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from tests.fusion.conftest import CAMPAIGN, ROUND, Centre, envelope, keyset, parcel, reports
from tests.storage.engines import NewAddress
from tests.storage.faults import FaultyDatabase, SimulatedDeath

from rase import Hybrid, SeededRandom
from rase.clock import FakeClock, round_start_s
from rase.counts.counts import Counts
from rase.counts.mean import combined_mean, unbiased_mean
from rase.counts.moments import moments_of
from rase.fusion.mechanism import counts_of, randomizer_of
from rase.fusion.rounds import Rounds
from rase.fusion.tracking import LAG, PATIENCE_S, last_tracked, new_tracker
from rase.laws.randomizer import RangeRandomizer
from rase.series.tracker import Tracker
from rase.storage.interface import Database
from rase.storage.opening import open_database

FOLLOWED = replace(CAMPAIGN, estimators=("tracked",))
HOUR_S = 3600


@pytest.fixture
def followed(new_address: NewAddress) -> Iterator[Centre]:
    """A centre whose campaign is followed through time, four days later."""
    database = open_database(new_address("followed.db"), migrations="fusion")
    clock = FakeClock((ROUND + 200) * HOUR_S)
    one = Centre(database, FakeClock((ROUND - 3) * HOUR_S))
    one.publisher.publish_keyset(keyset(7))
    one.publisher.publish(FOLLOWED)
    yield Centre(database, clock)
    database.close()


def places_of(round: int) -> list[int]:
    """Return the places of a round's reports: a wave with some noise."""
    rng = np.random.default_rng([2026, round])
    return [int(place) for place in rng.integers(0, 4097, size=6)]


def sent(centre: Centre, *rounds: int) -> None:
    """Take in the batches of some rounds."""
    for round in rounds:
        places = reports(places_of(round), round=round, campaign=FOLLOWED)
        one = parcel(places, round=round, campaign=FOLLOWED)
        one.deliver(centre.intake)


def spread_of(counts: Counts, randomizer: RangeRandomizer) -> float | None:
    """Return the variance of a round's readings as its reports tell it."""
    spread = moments_of(counts, randomizer).spread
    return None if spread is None else float(spread[0])


def expected(rounds: list[int]) -> dict[int, tuple[float, float]]:
    """Return value and error of each round by the mathematics alone, as revised by later ones."""
    tracker, found = new_tracker(FOLLOWED), {}
    for round in rounds:
        counts = counts_of(FOLLOWED, np.array(places_of(round)), np.zeros(6, np.uint8))
        mean = unbiased_mean(counts, randomizer=randomizer_of(FOLLOWED))
        spread = spread_of(counts, randomizer_of(FOLLOWED))
        done = tracker.update(round_start_s(round, FOLLOWED.round_s), mean, spread=spread)
        found[round] = (done.value, done.standard_error)
        for time_s, now in tracker.look_back():
            if round - time_s / FOLLOWED.round_s in (1, 3, 8, 24):
                found[int(time_s / FOLLOWED.round_s)] = (now.value, now.standard_error)
    return found


def told(centre: Centre) -> dict[int, tuple[float | None, float | None]]:
    """Return what subscribers are told of all rounds."""
    answers = centre.questions.between(FOLLOWED, ROUND, ROUND + 200)
    assert {one.method for one in answers} == {"tracked"}
    return {one.round: (one.value, one.standard_error) for one in answers}


def test_rounds_borrow_from_those_before(followed: Centre) -> None:
    """Answers are the tracked means, bit for bit, and their unbiased means can be asked for."""
    rounds = [ROUND + place for place in range(5)]
    for round in rounds:
        sent(followed, round)
        followed.rounds.tick()
    assert told(followed) == expected(rounds)
    alone = followed.questions.at(FOLLOWED, ROUND + 4, method="unbiased_mean")
    tracked = followed.questions.at(FOLLOWED, ROUND + 4)
    assert tracked.standard_error is not None
    assert alone.standard_error is not None
    assert tracked.standard_error < alone.standard_error
    assert [
        one.method for one in followed.questions.between(FOLLOWED, ROUND, ROUND, method="all")
    ] == ["tracked"]


@pytest.mark.uncovered
def test_windows_take_the_surer_rounds(followed: Centre) -> None:
    """A few tracked rounds are surer, many unbiased ones are; the answer says which it took."""
    rounds = [ROUND + place for place in range(40)]
    sent(followed, *rounds)
    followed.rounds.tick()
    for w in (2, 40):
        (window,) = followed.questions.windows(FOLLOWED, w, first=rounds[w - 1], last=rounds[w - 1])
        errors = {}
        for method in ("tracked", "unbiased_mean"):
            told = [followed.questions.at(FOLLOWED, round, method=method) for round in rounds[:w]]
            errors[method] = [one.standard_error or 0.0 for one in told]
            if window.method == method:
                assert window.value == pytest.approx(np.mean([one.value for one in told]))
        together = np.mean(errors["tracked"])
        apart = np.sqrt(np.sum(np.square(errors["unbiased_mean"]))) / w
        assert window.method == ("tracked" if w == 2 else "unbiased_mean")
        assert window.standard_error == pytest.approx(min(together, apart))
    (one,) = followed.questions.windows(FOLLOWED, 1, first=ROUND, last=ROUND)
    assert one.method == "tracked"


@pytest.mark.uncovered
def test_any_process_goes_on_with_the_same_bits(
    followed: Centre, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that come and go, and take turns, leave the estimates of one that stayed."""
    monkeypatch.setattr("rase.fusion.tracking.STATE_EVERY", 8)
    monkeypatch.setattr("rase.fusion.tracking.STATE_AGE", LAG)
    rounds = [ROUND + place for place in range(36)]
    processes = [Rounds(followed.database, followed.clock) for _ in range(2)]
    for place, round in enumerate(rounds):
        sent(followed, round)
        if place % 4 == 3:
            processes[place % 8 // 4] = Rounds(followed.database, followed.clock)
        assert len(processes[place % 3 % 2].tick()) == 1
    assert told(followed) == expected(rounds)
    assert followed.count("tracker_states") == 1
    # The state of the 8th round is used; the rounds before it are not gone through again.
    with followed.database.transaction() as transaction:
        transaction.execute("DELETE FROM tracked WHERE round < ?", (ROUND + 7,))
    sent(followed, ROUND + 36)
    Rounds(followed.database, followed.clock).tick()
    assert told(followed) == expected([*rounds, ROUND + 36])


@pytest.mark.uncovered
def test_later_rounds_revise_earlier_ones_until_they_are_final(followed: Centre) -> None:
    """A round is final after 24 more; until then answers count its revisions, after it they rest.

    A round that is missing is counted as time that passed, and a late one is final at once.
    """
    rounds = [ROUND + place for place in range(60) if place not in (30, 31)]
    for round in rounds:
        sent(followed, round)
        followed.rounds.tick()
        followed.clock.advance(PATIENCE_S + 1)
        followed.rounds.tick()
    assert told(followed) == expected(rounds)
    answers = {one.round: one for one in followed.questions.between(FOLLOWED, ROUND, ROUND + 60)}
    assert {round for round in rounds if answers[round].final} == {
        round for round in rounds if round <= rounds[-1] - LAG
    }
    assert answers[rounds[-1]].revision == 0
    settled = followed.questions.events_after(FOLLOWED, 0, is_final=True)
    assert [event.answer.round for event in settled] == [
        round for round in rounds if answers[round].final
    ]
    assert 1 <= max(one.revision for one in answers.values()) <= 4
    first = {round: one for round, one in answers.items() if one.final}
    sent(followed, ROUND + 60, ROUND + 30)
    followed.clock.advance(PATIENCE_S + 1)
    followed.rounds.tick()
    later = {one.round: one for one in followed.questions.between(FOLLOWED, ROUND, ROUND + 60)}
    assert {round: (one.value, one.revision) for round, one in first.items()} == {
        round: (later[round].value, later[round].revision) for round in first
    }
    assert later[ROUND + 30].final
    assert later[ROUND + 30].revision == 0


@pytest.mark.uncovered
def test_windows_of_a_day_come_from_the_joint_law(followed: Centre) -> None:
    """Rounds that are missing are counted and belong to it; a strict one has none."""
    rounds = [ROUND + place for place in range(30) if place != 20]
    sent(followed, *rounds)
    followed.clock.advance(PATIENCE_S + 1)
    followed.rounds.tick()
    followed.rounds.tick()
    tracker = new_tracker(FOLLOWED)
    for round in rounds:
        counts = counts_of(FOLLOWED, np.array(places_of(round)), np.zeros(6, np.uint8))
        mean = unbiased_mean(counts, randomizer=randomizer_of(FOLLOWED))
        spread = spread_of(counts, randomizer_of(FOLLOWED))
        tracker.update(round_start_s(round, FOLLOWED.round_s), mean, spread=spread)
    (window,) = followed.questions.windows(FOLLOWED, 24, first=rounds[-1], last=rounds[-1])
    known = tracker.mean_of_last(24)
    assert known is not None
    assert (window.value, window.standard_error) == (known.value, known.standard_error)
    assert (window.rounds, window.of_rounds, window.method) == (23, 24, "tracked")
    (strict,) = followed.questions.windows(
        FOLLOWED, 24, first=rounds[-1], last=rounds[-1], strict=True
    )
    assert strict.value is None


def test_a_state_of_another_release_is_left_aside(followed: Centre) -> None:
    """Where the models have changed, all rounds are gone through again."""
    rounds = [ROUND + place for place in range(4)]
    sent(followed, *rounds[:3])
    followed.rounds.tick()
    with followed.database.transaction() as transaction:
        transaction.execute(
            "INSERT INTO tracker_states (campaign, round, state) VALUES (?, ?, ?)",
            (FOLLOWED.id, ROUND + 2, b"of another release"),
        )
    sent(followed, rounds[3])
    Rounds(followed.database, followed.clock).tick()
    assert told(followed) == expected(rounds)


def test_a_death_while_writing_changes_nothing(followed: Centre) -> None:
    """A round whose writing failed at any statement is estimated again, to the same bits."""
    rounds = [ROUND + place for place in range(2)]
    sent(followed, rounds[0])
    followed.rounds.tick()
    sent(followed, rounds[1])
    deaths = 0
    with pytest.raises(SimulatedDeath):
        # One process that survives its own failures: what it learnt without writing is forgotten.
        Rounds(FaultyDatabase(followed.database, 3), followed.clock).finalise_due()
    process = Rounds(followed.database, followed.clock)
    for point in range(100):
        process._database = FaultyDatabase(followed.database, point)
        try:
            process.finalise_due()
        except SimulatedDeath:
            deaths += 1
        else:
            break
    assert deaths > 5
    assert told(followed) == expected(rounds)


def test_a_round_waits_for_the_one_before_it(followed: Centre) -> None:
    """Batches that come in any order leave the estimates of those that came in order."""
    sent(followed, ROUND)
    followed.rounds.tick()
    for round in (ROUND + 3, ROUND + 2):
        sent(followed, round)
        assert followed.rounds.tick() == []
    sent(followed, ROUND + 1)
    assert [one.round for one in followed.rounds.tick()] == [ROUND + 1, ROUND + 2, ROUND + 3]
    assert told(followed) == expected([ROUND + place for place in range(4)])


def test_a_round_that_settles_later_is_waited_for(followed: Centre) -> None:
    """One that is open for a second batch comes before its successor."""
    sent(followed, ROUND, ROUND + 1)
    with followed.database.transaction() as transaction:
        transaction.execute(
            "UPDATE rounds SET settles_s = settles_s + 60 WHERE round = ?", (ROUND,)
        )
    assert followed.rounds.tick() == []
    followed.clock.advance(60)
    assert [one.round for one in followed.rounds.tick()] == [ROUND, ROUND + 1]
    assert told(followed) == expected([ROUND, ROUND + 1])


def test_campaigns_that_are_not_followed_do_not_wait(centre: Centre) -> None:
    """Where each round stands by itself their order means nothing."""
    centre.clock.jump(CAMPAIGN.closes_s(ROUND + 2) - centre.clock.now_s())
    for round in (ROUND, ROUND + 2):
        one = parcel(reports([1, 2, 3, 4], round=round), round=round)
        one.deliver(centre.intake)
        assert len(centre.rounds.tick()) == 1


def test_a_wrong_clock_holds_no_round_back(followed: Centre) -> None:
    """A settling time far in the future is not waited for."""
    sent(followed, ROUND, ROUND + 2)
    with followed.database.transaction() as transaction:
        transaction.execute("UPDATE rounds SET settles_s = settles_s + 99999")
    assert len(followed.rounds.tick()) == 2


def test_a_late_round_stands_by_itself(followed: Centre) -> None:
    """A round that becomes final after a later one gets its unbiased mean, and teaches nothing."""
    sent(followed, ROUND, ROUND + 2)
    assert [one.round for one in followed.rounds.tick()] == [ROUND]
    followed.clock.advance(PATIENCE_S)
    assert [one.round for one in followed.rounds.tick()] == [ROUND + 2]
    before = told(followed)
    sent(followed, ROUND + 1)
    followed.rounds.tick()
    late = followed.questions.at(FOLLOWED, ROUND + 1)
    alone = followed.questions.at(FOLLOWED, ROUND + 1, method="unbiased_mean")
    assert (late.value, late.standard_error) == (alone.value, alone.standard_error)
    # What was told of other rounds stays.
    assert before.items() <= told(followed).items()
    with followed.database.snapshot() as transaction:
        assert last_tracked(transaction, FOLLOWED.id) == ROUND + 2
    sent(followed, ROUND + 3)
    followed.rounds.tick()
    assert told(followed)[ROUND + 3] == expected([ROUND, ROUND + 2, ROUND + 3])[ROUND + 3]


def test_another_process_may_follow_meanwhile(followed: Centre) -> None:
    """A process that followed from an older state does not write; it comes again."""
    sent(followed, ROUND + 1)
    other = Rounds(followed.database, followed.clock)

    def settles(time_s: float) -> None:
        with followed.database.transaction() as transaction:
            transaction.execute("UPDATE rounds SET settles_s = ?", (int(time_s),))

    class Meanwhile(FaultyDatabase):
        def transaction(self):  # type: ignore[no-untyped-def]
            if followed.count("rounds") == 1:
                settles(followed.clock.now_s() + 1)
                sent(followed, ROUND)
                assert len(other.finalise_due()) == 1
                settles(followed.clock.now_s())
            return super().transaction()

    slow = Rounds(Meanwhile(followed.database), followed.clock)
    assert slow.finalise_due() == []
    assert len(slow.finalise_due()) == 1
    assert told(followed) == expected([ROUND, ROUND + 1])


def test_a_campaign_with_both_keeps_one_unbiased_row(new_address: NewAddress) -> None:
    """Where the unbiased mean is asked for anyway it is not written twice."""
    both = replace(CAMPAIGN, estimators=("unbiased_mean", "tracked"))
    database: Database = open_database(new_address("both.db"), migrations="fusion")
    centre = Centre(database, FakeClock((ROUND - 3) * HOUR_S))
    centre.publisher.publish_keyset(keyset(7))
    centre.publisher.publish(both)
    late = Centre(database, FakeClock((ROUND + 5) * HOUR_S))
    one = parcel(reports([1, 2, 3, 4], campaign=both), campaign=both)
    one.deliver(late.intake)
    late.rounds.tick()
    assert late.count("answers") == 2
    assert [a.method for a in late.questions.between(both, ROUND, ROUND, method="all")] == [
        "unbiased_mean",
        "tracked",
    ]
    database.close()


@pytest.mark.any_store
def test_budgets_that_differ_are_combined_and_followed(new_address: NewAddress) -> None:
    """What is followed is the combined mean, also after a restart; the plain one is kept."""
    classes = replace(CAMPAIGN, estimators=("tracked",), epsilon=(0.5, 2.0), mechanism="hybrid")
    database: Database = open_database(new_address("classes.db"), migrations="fusion")
    centre = Centre(database, FakeClock((ROUND - 3) * HOUR_S))
    centre.publisher.publish_keyset(keyset(7))
    centre.publisher.publish(classes)
    randomizer, tracker = randomizer_of(classes), Tracker(classes.domain)
    numbers = np.repeat([0, 1], [8, 4]).astype(np.uint8)
    budgets = np.asarray(classes.epsilon)[numbers]
    for round in (ROUND, ROUND + 1):
        centre = Centre(database, FakeClock((ROUND + 5) * HOUR_S))
        readings = np.full(12, 0.3 * classes.high)
        noisy = np.concatenate(
            [
                Hybrid(budget, classes.domain).randomize(
                    readings[budgets == budget], rng=SeededRandom(f"{round} {budget}")
                )
                for budget in classes.epsilon
            ]
        )
        places = np.rint((noisy - classes.low) / classes.domain.step).astype(int)
        inner = [
            envelope(place, round=round, epsilon_class=number, campaign=classes)
            for place, number in zip(places.tolist(), numbers.tolist(), strict=True)
        ]
        one = parcel(inner, round=round, campaign=classes)
        assert one.deliver(centre.intake).refused == 0
        assert len(centre.rounds.tick()) == 1
        counts = counts_of(classes, places, numbers)
        assert counts.epsilon is not None
        mean = combined_mean(counts, randomizer=randomizer)
        spread = spread_of(counts, randomizer)
        expected = tracker.update(round_start_s(round, classes.round_s), mean, spread=spread)
        told = centre.questions.at(classes, round)
        assert (told.value, told.standard_error) == (expected.value, expected.standard_error)
        plain = unbiased_mean(counts, randomizer=randomizer)
        assert centre.questions.at(classes, round, method="unbiased_mean").value == plain.value
    (window,) = centre.questions.windows(classes, 2, first=ROUND + 1, last=ROUND + 1)
    assert window.method == "tracked"
    database.close()
