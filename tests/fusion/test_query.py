"""Questions of subscribers are answered from estimates alone, each with error and promise."""

import pytest
from tests.fusion.conftest import CAMPAIGN, ROUND, After, Centre, parcel, reports

from rase.answer import FIELDS
from rase.campaign import Campaign
from rase.fusion.campaigns import next_version
from rase.fusion.formats import as_csv, as_influx, as_json
from rase.fusion.query import MAX_ROUNDS, parse_moment_s, parse_rounds
from rase.fusion.refusals import Refused
from rase.series.calendar import CalendarUnit, zone_of


def happened(centre: Centre, round: int, places: list[int], campaign: Campaign = CAMPAIGN) -> None:
    """Let a round become final; no places make it withheld."""
    now = centre.clock.now_s()
    centre.clock.jump(max(campaign.closes_s(round) - now, 0))
    inner = reports(places, round=round, campaign=campaign)
    one = parcel(inner, round=round, campaign=campaign)
    one.deliver(centre.intake)
    centre.rounds.tick()


def four_rounds(centre: Centre) -> None:
    """Let two rounds, a withheld one, and one more after a missing one become final."""
    happened(centre, ROUND, [1000] * 10)
    happened(centre, ROUND + 1, [2000] * 20)
    happened(centre, ROUND + 2, [])
    happened(centre, ROUND + 4, [3000] * 30)


@pytest.fixture
def asked(after: After) -> Centre:
    """A fusion centre with two rounds, a withheld one, a missing one, and one more."""
    return after(four_rounds)


def test_rounds_are_told_with_everything(asked: Centre) -> None:
    """n, interval, epsilon, promise and shuffle are in every answer."""
    told = asked.questions.between(CAMPAIGN, 0, 2**32)
    assert [one.round - ROUND for one in told] == [0, 1, 2, 4]
    assert [one.status for one in told] == ["ok", "ok", "too_few", "ok"]
    assert [one.n for one in told] == [10, 20, 0, 30]
    for one in told:
        assert one.promise.startswith("1-LDP per report: an observer who was 50 % sure")
        assert "shuffler-1" in one.shuffle
        assert one.local_epsilon == 1.0
        fields = (one.value, one.standard_error, one.low, one.high)
        assert all((field is None) == (one.status == "too_few") for field in fields)


def test_a_round_that_is_not_there_is_a_gap(asked: Centre) -> None:
    """Missing is neither an error nor a zero."""
    gap = asked.questions.at(CAMPAIGN, ROUND + 3)
    assert (gap.status, gap.value, gap.n) == ("gap", None, 0)
    assert gap.shuffle == "no estimate of this round is here"
    assert (gap.target, asked.questions.at(CAMPAIGN, ROUND + 3, method="median").target) == (
        "reporters",
        "reports",
    )
    assert asked.questions.at(CAMPAIGN, ROUND + 1).n == 20
    assert asked.questions.latest(CAMPAIGN).round == ROUND + 4
    assert asked.questions.at(CAMPAIGN, ROUND + 3, method="all").method == "unbiased_mean"


def test_windows_are_means_of_rounds(asked: Centre) -> None:
    """Win(t, w) is the mean of w estimates; its error is that of independent noises."""
    (window,) = asked.questions.windows(CAMPAIGN, 2, first=ROUND + 1, last=ROUND + 1)
    first, second = asked.questions.between(CAMPAIGN, ROUND, ROUND + 1)
    assert first.value is not None
    assert second.value is not None
    assert first.standard_error is not None
    assert second.standard_error is not None
    assert window.value == pytest.approx((first.value + second.value) / 2)
    expected = (first.standard_error**2 + second.standard_error**2) ** 0.5 / 2
    assert window.standard_error == pytest.approx(expected)
    assert (window.n, window.of_rounds, window.local_epsilon) == (30, 2, 2.0)
    assert (window.time, window.until) == (first.time, second.until)
    assert window.promise.startswith("2-LDP for all reports of a device in 2 rounds")


def test_windows_say_why_they_have_no_mean(asked: Centre) -> None:
    """A withheld round makes too_few, a missing one a gap."""
    told = asked.questions.windows(CAMPAIGN, 2, first=ROUND, last=ROUND + 5)
    statuses = [one.status for one in told]
    assert statuses == ["gap", "ok", "too_few", "too_few", "gap", "gap"]
    (one, two) = asked.questions.windows(CAMPAIGN, 1, first=ROUND + 2, last=ROUND + 3)
    assert (one.status, two.status) == ("too_few", "gap")


def test_windows_answer_with_the_rounds_they_have(centre: Centre) -> None:
    """Eight rounds, one withheld and one that never came: six answer, strict refuses.

    All that is said about the withheld round is that it is not among those that answer: its
    reports never came here.
    """
    for place in range(8):
        if place != 5:
            happened(centre, ROUND + place, [] if place == 2 else [place] * 10)
    (window,) = centre.questions.windows(CAMPAIGN, 8, first=ROUND + 7, last=ROUND + 7)
    assert (window.status, window.rounds, window.of_rounds) == ("ok", 6, 8)
    assert (window.n, window.local_epsilon) == (60, 8.0)
    told = [one for one in centre.questions.between(CAMPAIGN, ROUND, ROUND + 7) if one.value]
    means = [one.value for one in told if one.value is not None]
    errors = [one.standard_error for one in told if one.standard_error is not None]
    assert window.value == pytest.approx(sum(means) / 6)
    assert window.standard_error is not None
    assert window.standard_error > (sum(error**2 for error in errors)) ** 0.5 / 6
    assert window.target == "reporters"
    for w, status in ((8, "too_few"), (3, "gap")):
        (strict,) = centre.questions.windows(
            CAMPAIGN, w, first=ROUND + 7, last=ROUND + 7, strict=True
        )
        assert (strict.status, strict.value, strict.verdict) == (status, None, None)
    (few,) = centre.questions.windows(CAMPAIGN, 4, first=ROUND + 5, last=ROUND + 5)
    assert (few.status, few.rounds, few.of_rounds) == ("too_few", 2, 4)


def test_days_of_a_calendar_begin_at_midnight_in_their_zone(centre: Centre) -> None:
    """A day there is a window like any other: one withheld round leaves 23 of 24, strict refuses.

    Days that are not over have no mean, and the newest that is over ends before today.
    """
    zone = zone_of("Europe/Zurich")
    # Rounds begin at 01:00 UTC on 21 June; midnight there is 22:00 UTC.
    for place in range(46):
        happened(centre, ROUND + place, [] if place == 30 else [1000] * 10)
    last = ROUND + 44
    assert centre.questions.last_calendar_end(CAMPAIGN, "day", zone) == last
    told = centre.questions.calendar(CAMPAIGN, "day", zone, first=ROUND, last=ROUND + 45)
    assert [(one.time, one.rounds, one.of_rounds, one.status) for one in told] == [
        ("2026-06-20T22:00:00Z", 21, 24, "gap"),
        ("2026-06-21T22:00:00Z", 23, 24, "ok"),
    ]
    (window,) = centre.questions.windows(CAMPAIGN, 24, first=last, last=last)
    assert told[1] == window
    (strict,) = centre.questions.calendar(CAMPAIGN, "day", zone, first=last, last=last, strict=True)
    assert (strict.status, strict.value) == ("too_few", None)
    units: list[tuple[CalendarUnit, int, str]] = [("day", 24, "gap"), ("week", 168, "too_few")]
    for unit, hours, status in units:
        (today,) = centre.questions.calendar(
            CAMPAIGN, unit, zone, first=ROUND + 45, last=ROUND + 45, is_whole=False
        )
        assert (today.of_rounds, today.status) == (hours, status)
    with pytest.raises(Refused, match="over 1 to 10000 rounds"):
        centre.questions.calendar(CAMPAIGN, "day", zone, first=0, last=ROUND)
    with pytest.raises(Refused, match="rounds must begin at midnight in Asia/Kolkata"):
        centre.questions.calendar(CAMPAIGN, "day", zone_of("Asia/Kolkata"), first=last, last=last)


def test_windows_that_are_not_over_have_no_mean(centre: Centre) -> None:
    """Neither before the first final round nor after the newest, however few are missing there."""
    for place in range(8):
        happened(centre, ROUND + place, [place] * 10)
    told = centre.questions.windows(CAMPAIGN, 8, first=ROUND + 6, last=ROUND + 8)
    assert [(one.status, one.rounds) for one in told] == [("gap", 7), ("ok", 8), ("gap", 7)]


def test_answers_stay_in_the_range_and_have_a_verdict(centre: Centre) -> None:
    """Intervals end where the range does; the verdict is that of the rounds up to the answer."""
    for place in range(10):
        happened(centre, ROUND + place, [0] * 10)
    told = centre.questions.between(CAMPAIGN, ROUND, ROUND + 9)
    for one in told:
        assert one.value is not None
        assert one.low is not None
        assert one.high is not None
        assert CAMPAIGN.low <= one.low < one.high <= CAMPAIGN.high
        assert one.verdict is not None
    assert any(one.value is not None and one.value < CAMPAIGN.low for one in told)
    assert (told[6].verdict or "").endswith("unknown yet: 7 of 8 rounds needed")
    assert "not distinguishable from a constant: 8 rounds" in (told[7].verdict or "")
    # A verdict is of its round, not of the question.
    assert centre.questions.at(CAMPAIGN, ROUND + 8).verdict == told[8].verdict
    (window,) = centre.questions.windows(CAMPAIGN, 4, first=ROUND + 9, last=ROUND + 9)
    assert "10 rounds differ by no more than their noise" in (window.verdict or "")
    assert centre.questions.at(CAMPAIGN, ROUND + 8, method="median").low is not None


def test_a_windows_epsilon_is_bounded_by_the_ledger(asked: Centre) -> None:
    """No device spends more than its window budget, whatever the window asked for."""
    (window,) = asked.questions.windows(CAMPAIGN, 48, first=ROUND, last=ROUND)
    assert window.local_epsilon == 48
    small = next_version(CAMPAIGN, not_before=ROUND + 6, window_budget=2.0)
    asked.publisher.publish(small)
    (window,) = asked.questions.windows(small, 48, first=ROUND + 9, last=ROUND + 9)
    assert window.local_epsilon == 4.0


def test_early_windows_reach_before_the_first_round(centre: Centre) -> None:
    """A window that begins before round 0 is a gap, not a failure."""
    (window,) = centre.questions.windows(CAMPAIGN, 5, first=2, last=2)
    assert window.status == "gap"


@pytest.mark.any_store
@pytest.mark.parametrize(("w", "last"), [(0, ROUND), (MAX_ROUNDS + 1, ROUND), (2, 2**31)])
def test_windows_out_of_bounds_are_refused(asked: Centre, w: int, last: int) -> None:
    """Neither no rounds nor too many."""
    with pytest.raises(Refused, match="windows over 1 to"):
        asked.questions.windows(CAMPAIGN, w, first=ROUND, last=last)


def test_too_many_rounds_are_refused(centre: Centre) -> None:
    """An answer is never cut short silently."""
    with centre.database.transaction() as transaction:
        transaction.execute_many(
            "INSERT INTO rounds (campaign, round, version, state, batches, settles_s) "
            "VALUES (?, ?, 1, 'withheld', 1, 0)",
            [(CAMPAIGN.id, number) for number in range(MAX_ROUNDS + 1)],
        )
    with pytest.raises(Refused, match="at most 10000 rounds"):
        centre.questions.between(CAMPAIGN, 0, 2**32)


def test_versions_answer_with_their_own_parameters(asked: Centre) -> None:
    """Old rounds keep the epsilon and estimators they were made with."""
    newer = next_version(
        CAMPAIGN, not_before=ROUND + 6, epsilon=(2.0,), estimators=("sample_mean",)
    )
    asked.publisher.publish(newer)
    happened(asked, ROUND + 6, [7] * 9, newer)
    told = asked.questions.between(newer, ROUND + 4, ROUND + 6)
    assert [(one.local_epsilon, one.method) for one in told] == [
        (1.0, "unbiased_mean"),
        (2.0, "sample_mean"),
    ]
    assert len(asked.questions.between(newer, ROUND + 4, ROUND + 6, method="median")) == 1
    assert len(asked.questions.between(newer, ROUND + 4, ROUND + 6, method="all")) == 5
    (window,) = asked.questions.windows(newer, 3, first=ROUND + 6, last=ROUND + 6)
    assert window.status == "gap"


def test_a_window_over_two_methods_names_both(asked: Centre) -> None:
    """The default estimator of each round goes into it."""
    newer = next_version(CAMPAIGN, not_before=ROUND + 7, estimators=("sample_mean",))
    asked.publisher.publish(newer)
    happened(asked, ROUND + 6, [8] * 9)
    happened(asked, ROUND + 7, [7] * 9, newer)
    (window,) = asked.questions.windows(newer, 2, first=ROUND + 7, last=ROUND + 7)
    assert window.method == "unbiased_mean and sample_mean"
    # Not all of it is of readings, so none of it is said to be.
    assert window.target == "reports"
    assert asked.questions.recent_n(CAMPAIGN) == 17
    assert asked.questions.recent_n(newer) == 16


def test_methods_are_checked(asked: Centre) -> None:
    """An unknown estimator is named with those there are."""
    with pytest.raises(Refused, match="method must be one of unbiased_mean, "):
        asked.questions.latest(CAMPAIGN, method="mode")


def test_campaigns_are_found_by_name_or_alone(asked: Centre) -> None:
    """One campaign needs no name; of several one must be named."""
    assert asked.questions.campaign(None) == CAMPAIGN
    with pytest.raises(Refused, match="no such campaign"):
        asked.questions.campaign("elsewhere")
    from dataclasses import replace

    asked.publisher.publish(replace(CAMPAIGN, id="other"))
    with pytest.raises(Refused, match="one of other, street-power"):
        asked.questions.campaign(None)


def test_without_rounds_there_is_no_latest(centre: Centre) -> None:
    """An empty campaign says so."""
    with pytest.raises(Refused, match="No round"):
        centre.questions.latest(CAMPAIGN)
    assert centre.questions.recent_n(CAMPAIGN) == CAMPAIGN.k_min


def test_events_are_numbered_as_rounds_became_final(asked: Centre) -> None:
    """A stream can be resumed after any event."""
    events = asked.questions.events_after(CAMPAIGN, 0)
    assert [event.sequence for event in events] == [1, 2, 3, 4]
    later = asked.questions.events_after(CAMPAIGN, 2)
    assert [event.answer.round for event in later] == [ROUND + 2, ROUND + 4]
    assert asked.questions.last_sequence(CAMPAIGN) == 4


@pytest.mark.parametrize(
    "text", ["1782000000000", "2026-06-21T00:00:00Z", "2026-06-21T02:00:00+02:00"]
)
def test_times_are_milliseconds_or_rfc_3339(text: str) -> None:
    """All three name the same moment."""
    assert parse_moment_s(text) == 1782000000


def test_a_plus_that_became_a_blank_is_understood() -> None:
    """Addresses turn an unescaped plus into a blank."""
    assert parse_moment_s("2026-06-21T02:00:00 02:00") == 1782000000


@pytest.mark.parametrize(
    "text",
    ["", "now", "-5", "1e3", "2026-06-21", "2026-06-21T00:00:00", "9" * 30, "9" * 5000],
)
def test_other_times_are_refused(text: str) -> None:
    """What is no time, or has no zone, is named."""
    with pytest.raises(ValueError, match="a time must be milliseconds"):
        parse_moment_s(text)


def test_windows_are_rounds_or_durations() -> None:
    """A duration must hold whole rounds."""
    assert parse_rounds("24", CAMPAIGN) == parse_rounds("1d", CAMPAIGN) == 24
    for text in ("90min", "30min", "x", "9" * 12):
        with pytest.raises(ValueError, match=r"whole rounds|a duration must"):
            parse_rounds(text, CAMPAIGN)


def test_forms(asked: Centre) -> None:
    """JSON is a root-level array, CSV has a head, Influx one line for each round."""
    told = asked.questions.between(CAMPAIGN, ROUND, ROUND + 2)
    assert as_json(told).startswith(b'[{"v": 2, "status": "ok", "campaign": "street-power", "quan')
    assert as_json(told[0]).startswith(b'{"v": 2')
    lines = as_csv(told).decode().splitlines()
    assert lines[0] == ",".join(FIELDS)
    assert len(lines) == 4
    influx = as_influx(told).decode().splitlines()
    assert influx[0].startswith(
        "rase,campaign=street-power,method=unbiased_mean,of_rounds=1 value="
    )
    end = f'n=10i,rounds=1i,status="ok" {ROUND * 3600 * 10**9}'
    assert influx[0].endswith(end)
    (window,) = asked.questions.windows(CAMPAIGN, 2, first=ROUND + 1, last=ROUND + 1)
    assert as_influx([window]).endswith(b" %d\n" % ((ROUND + 2) * 3600 * 10**9))
    assert influx[2].split(" ")[1] == 'local_epsilon=1.0,n=0i,rounds=0i,status="too_few"'


def test_an_unknown_error_is_no_number(centre: Centre) -> None:
    """Where the reports cannot tell the error, the answer has none."""
    with centre.database.transaction() as transaction:
        transaction.execute(
            "INSERT INTO rounds (campaign, round, version, state, batches, settles_s, shuffle) "
            "VALUES (?, 1, 1, 'final', 1, 0, '')",
            (CAMPAIGN.id,),
        )
        transaction.execute(
            "INSERT INTO answers (campaign, round, method, target, value, n) "
            "VALUES (?, 1, 'unbiased_mean', 'reporters', 2.0, 1)",
            (CAMPAIGN.id,),
        )
    told = centre.questions.at(CAMPAIGN, 1)
    assert (told.value, told.standard_error, told.low) == (2.0, None, None)
    assert b"null" in as_json(told)
