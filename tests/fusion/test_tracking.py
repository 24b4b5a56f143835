"""The estimator auto at the fusion centre: the same bits whatever process goes on."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from tests.fusion.conftest import CAMPAIGN, ROUND, Centre, envelope, keyset, parcel, reports
from tests.storage.engines import NewAddress

from rase import Hybrid, SeededRandom
from rase.clock import FakeClock, round_start_s
from rase.estimate.combined import combined_mean
from rase.estimate.mean import unbiased_mean
from rase.estimate.tracker import Tracker, spread_of
from rase.fusion.mechanism import randomizer_of, values_of
from rase.fusion.rounds import Rounds
from rase.fusion.tracking import PATIENCE_S, last_tracked
from rase.storage.face import Database
from rase.storage.faults import FaultyDatabase, SimulatedDeath
from rase.storage.opening import open_database

AUTO = replace(CAMPAIGN, estimators=("auto",))
HOUR_S = 3600


@pytest.fixture
def auto(new_address: NewAddress) -> Iterator[Centre]:
    """A centre whose campaign is followed through time, four days later."""
    database = open_database(new_address("auto.db"), migrations="fusion")
    clock = FakeClock((ROUND + 200) * HOUR_S)
    one = Centre(database, FakeClock((ROUND - 3) * HOUR_S))
    one.publisher.publish_keyset(keyset(7))
    one.publisher.publish(AUTO)
    yield Centre(database, clock)
    database.close()


def places_of(round: int) -> list[int]:
    """Return the places of a round's reports: a wave with some noise."""
    rng = np.random.default_rng([2026, round])
    return [int(place) for place in rng.integers(0, 4097, size=6)]


def sent(centre: Centre, *rounds: int) -> None:
    """Take in the batches of some rounds."""
    for round in rounds:
        places = reports(places_of(round), round=round, campaign=AUTO)
        one = parcel(places, round=round, campaign=AUTO)
        centre.intake.receive(one.id, one.payload)


def expected(rounds: list[int]) -> dict[int, tuple[float, float]]:
    """Return value and error of each round by the mathematics alone."""
    tracker, found = Tracker(AUTO.value_range), {}
    for round in rounds:
        places = np.sort(np.array(places_of(round)))
        values, _ = values_of(AUTO, places, np.zeros(6, np.uint8))
        mean = unbiased_mean(values, randomizer=randomizer_of(AUTO))
        spread = spread_of(values, randomizer=randomizer_of(AUTO))
        done = tracker.update(round_start_s(round, AUTO.round_s), mean, spread=spread)
        found[round] = (done.value, done.standard_error)
    return found


def told(centre: Centre) -> dict[int, tuple[float | None, float | None]]:
    """Return what subscribers are told of all rounds."""
    answers = centre.questions.between(AUTO, ROUND, ROUND + 200)
    assert {one.method for one in answers} == {"auto"}
    return {one.round: (one.mean, one.standard_error) for one in answers}


def test_rounds_borrow_from_those_before(auto: Centre) -> None:
    """Answers are the tracked means, bit for bit, and their unbiased means can be asked for."""
    rounds = [ROUND + place for place in range(5)]
    for round in rounds:
        sent(auto, round)
        auto.rounds.tick()
    assert told(auto) == expected(rounds)
    alone = auto.questions.at(AUTO, ROUND + 4, method="unbiased_mean")
    tracked = auto.questions.at(AUTO, ROUND + 4)
    assert tracked.standard_error is not None
    assert alone.standard_error is not None
    assert tracked.standard_error < alone.standard_error
    assert [one.method for one in auto.questions.between(AUTO, ROUND, ROUND, method="all")] == [
        "auto"
    ]


@pytest.mark.uncovered
def test_windows_take_the_surer_rounds(auto: Centre) -> None:
    """A few tracked rounds are surer, many unbiased ones are; the answer says which it took."""
    rounds = [ROUND + place for place in range(40)]
    sent(auto, *rounds)
    auto.rounds.tick()
    for w in (2, 40):
        (window,) = auto.questions.windows(AUTO, w, first=rounds[w - 1], last=rounds[w - 1])
        errors = {}
        for method in ("auto", "unbiased_mean"):
            told = [auto.questions.at(AUTO, round, method=method) for round in rounds[:w]]
            errors[method] = [one.standard_error or 0.0 for one in told]
            if window.method == method:
                assert window.mean == pytest.approx(np.mean([one.mean for one in told]))
        together = np.mean(errors["auto"])
        apart = np.sqrt(np.sum(np.square(errors["unbiased_mean"]))) / w
        assert window.method == ("auto" if w == 2 else "unbiased_mean")
        assert window.standard_error == pytest.approx(min(together, apart))
    (one,) = auto.questions.windows(AUTO, 1, first=ROUND, last=ROUND)
    assert one.method == "auto"


@pytest.mark.uncovered
def test_any_process_goes_on_with_the_same_bits(
    auto: Centre, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that come and go, and take turns, leave the estimates of one that stayed."""
    monkeypatch.setattr("rase.fusion.tracking.STATE_EVERY", 8)
    rounds = [ROUND + place for place in range(14)]
    processes = [Rounds(auto.database, auto.clock) for _ in range(2)]
    for place, round in enumerate(rounds):
        sent(auto, round)
        if place % 4 == 3:
            processes[place % 8 // 4] = Rounds(auto.database, auto.clock)
        assert len(processes[place % 3 % 2].tick()) == 1
    assert told(auto) == expected(rounds)
    assert auto.count("tracker_states") == 1
    # The state of the 8th round is used; the rounds before it are not gone through again.
    with auto.database.transaction() as transaction:
        transaction.execute("DELETE FROM tracked WHERE round < ?", (ROUND + 7,))
    sent(auto, ROUND + 14)
    Rounds(auto.database, auto.clock).tick()
    assert told(auto)[ROUND + 14] == expected([*rounds, ROUND + 14])[ROUND + 14]


def test_a_state_of_another_release_is_left_aside(auto: Centre) -> None:
    """Where the models have changed, all rounds are gone through again."""
    rounds = [ROUND + place for place in range(4)]
    sent(auto, *rounds[:3])
    auto.rounds.tick()
    with auto.database.transaction() as transaction:
        transaction.execute(
            "INSERT INTO tracker_states (campaign, round, state) VALUES (?, ?, ?)",
            (AUTO.id, ROUND + 2, b"of another release"),
        )
    sent(auto, rounds[3])
    Rounds(auto.database, auto.clock).tick()
    assert told(auto) == expected(rounds)


def test_a_death_while_writing_changes_nothing(auto: Centre) -> None:
    """A round whose writing failed at any statement is estimated again, to the same bits."""
    rounds = [ROUND + place for place in range(2)]
    sent(auto, rounds[0])
    auto.rounds.tick()
    sent(auto, rounds[1])
    deaths = 0
    with pytest.raises(SimulatedDeath):
        # One process that survives its own failures: what it learnt without writing is forgotten.
        Rounds(FaultyDatabase(auto.database, 3), auto.clock).finalise_due()
    process = Rounds(auto.database, auto.clock)
    for point in range(100):
        process._database = FaultyDatabase(auto.database, point)
        try:
            process.finalise_due()
        except SimulatedDeath:
            deaths += 1
        else:
            break
    assert deaths > 5
    assert told(auto) == expected(rounds)


def test_a_round_waits_for_the_one_before_it(auto: Centre) -> None:
    """Batches that come in any order leave the estimates of those that came in order."""
    sent(auto, ROUND)
    auto.rounds.tick()
    for round in (ROUND + 3, ROUND + 2):
        sent(auto, round)
        assert auto.rounds.tick() == []
    sent(auto, ROUND + 1)
    assert [one.round for one in auto.rounds.tick()] == [ROUND + 1, ROUND + 2, ROUND + 3]
    assert told(auto) == expected([ROUND + place for place in range(4)])


def test_a_round_that_settles_later_is_waited_for(auto: Centre) -> None:
    """One that is open for a second batch comes before its successor."""
    sent(auto, ROUND, ROUND + 1)
    with auto.database.transaction() as transaction:
        transaction.execute(
            "UPDATE rounds SET settles_s = settles_s + 60 WHERE round = ?", (ROUND,)
        )
    assert auto.rounds.tick() == []
    auto.clock.advance(60)
    assert [one.round for one in auto.rounds.tick()] == [ROUND, ROUND + 1]
    assert told(auto) == expected([ROUND, ROUND + 1])


def test_campaigns_that_are_not_followed_do_not_wait(centre: Centre) -> None:
    """Where each round stands by itself their order means nothing."""
    centre.clock.jump(CAMPAIGN.closes_s(ROUND + 2) - centre.clock.now_s())
    for round in (ROUND, ROUND + 2):
        one = parcel(reports([1, 2, 3, 4], round=round), round=round)
        centre.intake.receive(one.id, one.payload)
        assert len(centre.rounds.tick()) == 1


def test_a_wrong_clock_holds_no_round_back(auto: Centre) -> None:
    """A settling time far in the future is not waited for."""
    sent(auto, ROUND, ROUND + 2)
    with auto.database.transaction() as transaction:
        transaction.execute("UPDATE rounds SET settles_s = settles_s + 99999")
    assert len(auto.rounds.tick()) == 2


def test_a_late_round_stands_by_itself(auto: Centre) -> None:
    """A round that becomes final after a later one gets its unbiased mean, and teaches nothing."""
    sent(auto, ROUND, ROUND + 2)
    assert [one.round for one in auto.rounds.tick()] == [ROUND]
    auto.clock.advance(PATIENCE_S)
    assert [one.round for one in auto.rounds.tick()] == [ROUND + 2]
    before = told(auto)
    sent(auto, ROUND + 1)
    auto.rounds.tick()
    late = auto.questions.at(AUTO, ROUND + 1)
    alone = auto.questions.at(AUTO, ROUND + 1, method="unbiased_mean")
    assert (late.mean, late.standard_error) == (alone.mean, alone.standard_error)
    # What was told of other rounds stays.
    assert before.items() <= told(auto).items()
    with auto.database.snapshot() as transaction:
        assert last_tracked(transaction, AUTO.id) == ROUND + 2
    sent(auto, ROUND + 3)
    auto.rounds.tick()
    assert told(auto)[ROUND + 3] == expected([ROUND, ROUND + 2, ROUND + 3])[ROUND + 3]


def test_another_process_may_follow_meanwhile(auto: Centre) -> None:
    """A process that followed from an older state does not write; it comes again."""
    sent(auto, ROUND + 1)
    other = Rounds(auto.database, auto.clock)

    def settles(time_s: float) -> None:
        with auto.database.transaction() as transaction:
            transaction.execute("UPDATE rounds SET settles_s = ?", (int(time_s),))

    class Meanwhile(FaultyDatabase):
        def transaction(self):  # type: ignore[no-untyped-def]
            if auto.count("rounds") == 1:
                settles(auto.clock.now_s() + 1)
                sent(auto, ROUND)
                assert len(other.finalise_due()) == 1
                settles(auto.clock.now_s())
            return super().transaction()

    slow = Rounds(Meanwhile(auto.database), auto.clock)
    assert slow.finalise_due() == []
    assert len(slow.finalise_due()) == 1
    assert told(auto) == expected([ROUND, ROUND + 1])


def test_a_campaign_with_both_keeps_one_unbiased_row(new_address: NewAddress) -> None:
    """Where the unbiased mean is asked for anyway it is not written twice."""
    both = replace(CAMPAIGN, estimators=("unbiased_mean", "auto"))
    database: Database = open_database(new_address("both.db"), migrations="fusion")
    centre = Centre(database, FakeClock((ROUND - 3) * HOUR_S))
    centre.publisher.publish_keyset(keyset(7))
    centre.publisher.publish(both)
    late = Centre(database, FakeClock((ROUND + 5) * HOUR_S))
    one = parcel(reports([1, 2, 3, 4], campaign=both), campaign=both)
    late.intake.receive(one.id, one.payload)
    late.rounds.tick()
    assert late.count("estimates") == 2
    assert [a.method for a in late.questions.between(both, ROUND, ROUND, method="all")] == [
        "unbiased_mean",
        "auto",
    ]
    database.close()


@pytest.mark.any_store
def test_budgets_that_differ_are_combined_and_followed(new_address: NewAddress) -> None:
    """What is followed is the combined mean, also after a restart; the plain one is kept."""
    classes = replace(CAMPAIGN, estimators=("auto",), epsilon=(0.5, 2.0), mechanism="hybrid")
    database: Database = open_database(new_address("classes.db"), migrations="fusion")
    centre = Centre(database, FakeClock((ROUND - 3) * HOUR_S))
    centre.publisher.publish_keyset(keyset(7))
    centre.publisher.publish(classes)
    randomizer, tracker = randomizer_of(classes), Tracker(classes.value_range)
    numbers = np.repeat([0, 1], [8, 4]).astype(np.uint8)
    budgets = np.asarray(classes.epsilon)[numbers]
    for round in (ROUND, ROUND + 1):
        centre = Centre(database, FakeClock((ROUND + 5) * HOUR_S))
        readings = np.full(12, 0.3 * classes.high)
        noisy = np.concatenate(
            [
                Hybrid(budget, classes.value_range).randomize(
                    readings[budgets == budget], rng=SeededRandom(f"{round} {budget}")
                )
                for budget in classes.epsilon
            ]
        )
        places = np.rint((noisy - classes.low) / classes.value_range.step).astype(int)
        inner = [
            envelope(place, round=round, epsilon_class=number, campaign=classes)
            for place, number in zip(places.tolist(), numbers.tolist(), strict=True)
        ]
        one = parcel(inner, round=round, campaign=classes)
        assert centre.intake.receive(one.id, one.payload).refused == 0
        assert len(centre.rounds.tick()) == 1
        order = np.lexsort((numbers, places))
        values, sorted_budgets = values_of(classes, places[order], numbers[order])
        assert sorted_budgets is not None
        mean = combined_mean(values, randomizer=randomizer, epsilon=sorted_budgets)
        spread = spread_of(values, randomizer=randomizer, epsilon=sorted_budgets)
        expected = tracker.update(round_start_s(round, classes.round_s), mean, spread=spread)
        told = centre.questions.at(classes, round)
        assert (told.mean, told.standard_error) == (expected.value, expected.standard_error)
        plain = unbiased_mean(values, randomizer=randomizer, epsilon=sorted_budgets)
        assert centre.questions.at(classes, round, method="unbiased_mean").mean == plain.value
    (window,) = centre.questions.windows(classes, 2, first=ROUND + 1, last=ROUND + 1)
    assert window.method == "auto"
    database.close()
