"""Shares of states and answers by label: estimated, merged where small, compared with error."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from zlib import crc32

import httpx
import pytest
from tests.fusion.conftest import CAMPAIGN, ROUND, Centre, app_of, ask, made_centre, parcel, reports

from rase import SeededRandom
from rase.campaign import Campaign
from rase.fusion.campaigns import next_version
from rase.fusion.difference import Side, difference_of
from rase.fusion.mechanism import campaign_of, effect_of, randomizer_of, state_randomizer_of
from rase.fusion.parts import Part
from rase.fusion.query import Questions
from rase.fusion.refusals import Refused
from rase.fusion.shares import shares_of_round
from rase.fusion.subscribers import add_subscriber
from rase.validation import CampaignInvalid
from rase.wire.messages import LabelCount

STATES = campaign_of(
    {
        "id": "heat-pump",
        "version": 1,
        "quantity": "heat pump",
        "unit": "",
        "categories": ["on", "off", "other"],
        "labels": ["north", "south"],
        "epsilon": [3.0],
        "window": 24,
        "window_budget": 72.0,
        "round_s": 3600,
        "upload_s": 300,
        "grace_s": 600,
        "k_min": 20,
        "not_before": 495000,
        "not_after": 499999,
    }
)
BOUNDS = campaign_of(
    {
        **{name: value for name, value in STATES.as_fields().items() if name != "categories"},
        "id": "power-bins",
        "unit": "W",
        "bounds": [1000, 2000, 3000],
    }
)
POWER = replace(
    CAMPAIGN, id="power", mechanism="optimal", k_min=20, labels=("north", "south"),
    estimators=("tracked",),
)  # fmt: skip


def draw(campaign: Campaign, readings: Sequence[str]) -> list[int]:
    """Return places that devices with these states may send; the same ones each time."""
    rng = SeededRandom(crc32("".join(readings).encode()))
    places: list[int] = state_randomizer_of(campaign).draw_names(readings, rng=rng).tolist()
    return places


def happen(
    centre: Centre, campaign: Campaign, by_label: dict[int, list[int]], round: int = ROUND
) -> None:
    """Let a round become final; places by the number of their label."""
    centre.clock.jump(max(campaign.closes_s(round) - centre.clock.now_s(), 0))
    places = [place for label in sorted(by_label) for place in by_label[label]]
    counts = tuple(LabelCount(label, len(by_label[label])) for label in sorted(by_label))
    inner = reports(places, round=round, campaign=campaign)
    parcel(inner, round=round, campaign=campaign, labels=counts).deliver(centre.intake)
    centre.rounds.tick()


def live(centre: Centre, *, by_label: int = 2000) -> None:
    """Publish campaigns, and let rounds become final.

    Args:
        centre: Where.
        by_label: How many numbers each label reports in a round.
    """
    for campaign in (STATES, BOUNDS, POWER):
        centre.publisher.publish(campaign)
    north, south = ["on"] * 900 + ["off"] * 100, ["on"] * 200 + ["off"] * 800
    happen(centre, STATES, {1: draw(STATES, north), 2: draw(STATES, south)})
    happen(centre, STATES, {0: draw(STATES, north + south)}, ROUND + 1)
    happen(centre, STATES, {}, ROUND + 2)
    names = BOUNDS.categories
    readings = [names[0]] * 300 + [names[1]] * 400 + [names[2]] * 200 + [names[3]] * 100
    happen(centre, BOUNDS, {0: draw(BOUNDS, readings)})
    randomizer = randomizer_of(POWER)
    for round, more in ((ROUND, 0), (ROUND + 1, 300)):
        north_power, south_power = (
            randomizer.draw_many([mean] * by_label, rng=SeededRandom(seed)).tolist()
            for mean, seed in ((1000.0 + more, round), (2000.0, round + 1000))
        )
        happen(centre, POWER, {1: north_power, 2: south_power}, round)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Centre]:
    """A fusion centre with rounds of states, of intervals and of numbers by label; only read."""
    with made_centre(tmp_path_factory.mktemp("parts") / "fusion.sqlite") as centre:
        live(centre)
        yield centre


def test_each_state_has_its_share_and_labels_theirs(asked: Centre) -> None:
    """All together and each label; a round has three shares for each."""
    found = asked.questions.between(STATES, ROUND, ROUND, part=Part("*"))
    assert [(one.label, one.category) for one in found] == [
        (label, name) for label in (None, "north", "south") for name in STATES.categories
    ]
    for one, share in zip(found, (0.55, 0.45, 0, 0.9, 0.1, 0, 0.2, 0.8, 0), strict=True):
        assert one.standard_error is not None
        assert abs(one.require() - share) < 5 * one.standard_error
        assert (one.unit, one.target, one.method) == ("", "reporters", "shares")
        assert one.n == (2000 if one.label is None else 1000)
        assert one.promise.startswith("3-LDP per report")


def test_labels_add_up_to_the_total(asked: Centre) -> None:
    """Numbers of reports do exactly, and shares weighted by them do, too."""
    found = asked.questions.between(STATES, ROUND, ROUND, part=Part("*", "on"))
    whole, *parts = found
    assert whole.n == sum(one.n for one in parts)
    together = sum(one.n * one.require() for one in parts) / whole.n
    assert together == pytest.approx(whole.require(), abs=1e-12)


def test_a_label_that_was_merged_says_too_few(asked: Centre) -> None:
    """Asked for by name it has a status, asked for with all it is not there."""
    questions = asked.questions
    (missing,) = questions.between(STATES, ROUND + 1, ROUND + 1, part=Part("north", "on"))
    assert (missing.status, missing.value, missing.label) == ("too_few", None, "north")
    found = questions.between(STATES, ROUND + 1, ROUND + 1, part=Part("*", "on"))
    assert [one.label for one in found] == [None]
    withheld = questions.between(STATES, ROUND + 2, ROUND + 2)
    assert [one.status for one in withheld] == ["too_few"]


def test_small_labels_are_merged_here_as_well(centre: Centre) -> None:
    """Reports that were refused make a label smaller after the shuffler has counted it."""
    centre.publisher.publish(STATES)
    places = draw(STATES, ["on"] * 60)
    # 25 came under a label, ten of them are no places at all.
    happen(centre, STATES, {1: places[:15] + [999] * 10, 2: places}, ROUND + 5)
    found = centre.questions.between(STATES, ROUND + 5, ROUND + 5, part=Part("*", "on"))
    assert [(one.label, one.n) for one in found] == [(None, 75)]


def test_numbers_have_means_by_label(asked: Centre) -> None:
    """The tracked mean is of all, labels have the mean of the round by itself."""
    found = asked.questions.between(POWER, ROUND, ROUND, part=Part("*"))
    assert [(one.label, one.method, one.n) for one in found] == [
        (None, "tracked", 4000),
        ("north", "unbiased_mean", 2000),
        ("south", "unbiased_mean", 2000),
    ]
    for one, mean in zip(found, (1500, 1000, 2000), strict=True):
        assert one.standard_error is not None
        assert abs(one.require() - mean) < 5 * one.standard_error
    (window,) = asked.questions.windows(
        POWER, 2, first=ROUND + 1, last=ROUND + 1, part=Part("north")
    )
    assert abs(window.require() - 1150) < 5 * (window.standard_error or 0)
    assert (window.label, window.rounds) == ("north", 2)


def test_all_shares_come_in_one_document(asked: Centre) -> None:
    """Each with its interval, all at once, moved for charts, and the commonest."""
    found = shares_of_round(asked.questions, STATES, ROUND, label="north", count=1)
    assert list(found.top) == ["on"]
    assert found.top["on"]
    assert sum(found.shown.values()) == pytest.approx(1.0)
    for one in found.shares:
        low, high = found.simultaneous[str(one.category)]
        assert one.low is not None
        assert one.high is not None
        assert low <= one.low
        assert one.high <= high
    assert found.above == []
    assert found.quantiles == []
    empty = shares_of_round(asked.questions, STATES, ROUND + 2)
    assert empty.shares[0].status == "too_few"
    assert empty.top == {}
    assert empty.shown == {}
    gap = shares_of_round(asked.questions, STATES, ROUND + 9)
    assert gap.shares[0].status == "gap"


def test_intervals_of_numbers_answer_bounds_and_quantiles(asked: Centre) -> None:
    """The share above 3000, a histogram, and where the median lies."""
    found = shares_of_round(asked.questions, BOUNDS, ROUND, at=(0.5, 0.95))
    assert [one.category for one in found.above] == ["1000", "2000", "3000"]
    for one, share in zip(found.above, (0.7, 0.3, 0.1), strict=True):
        assert abs(one.require() - share) < 5 * (one.standard_error or 0)
    assert [one.category for one in found.shares] == list(BOUNDS.categories)
    assert [(one.low, one.high) for one in found.quantiles] == [(1000.0, 2000.0), (3000.0, None)]
    (above,) = asked.questions.between(BOUNDS, ROUND, ROUND, part=Part(category="3000"))
    assert above.method == "share_above"


def side(campaign: Campaign, first: int, last: int, part: Part) -> Side:
    """Return a side of a comparison."""
    return Side(campaign, first, last, part)


def test_labels_differ_by_so_much(asked: Centre) -> None:
    """The error of the difference is that of both, and its sign is all but certain."""
    found = difference_of(
        asked.questions,
        side(POWER, ROUND, ROUND, Part("south")),
        side(POWER, ROUND, ROUND, Part("north")),
    )
    assert found.value is not None
    assert found.standard_error is not None
    assert abs(found.value - 1000) < 5 * found.standard_error
    errors = [one.standard_error or 0 for one in (found.first, found.second)]
    assert found.standard_error == pytest.approx(math.hypot(*errors))
    assert found.above_zero == pytest.approx(1.0)
    assert found.unit == "W"
    assert found.local_epsilon == 1.0
    assert "above zero with 100.0 %" in str(found)


def test_periods_and_states_are_compared(asked: Centre) -> None:
    """Periods have independent errors; two states of one round share their reports."""
    periods = difference_of(
        asked.questions,
        side(POWER, ROUND + 1, ROUND + 1, Part("north")),
        side(POWER, ROUND, ROUND, Part("north")),
    )
    assert periods.value is not None
    assert abs(periods.value - 300) < 5 * (periods.standard_error or 0)
    assert periods.local_epsilon == 2.0
    states = difference_of(
        asked.questions,
        side(STATES, ROUND, ROUND, Part(None, "on")),
        side(STATES, ROUND, ROUND, Part(None, "off")),
    )
    errors = [one.standard_error or 0 for one in (states.first, states.second)]
    assert states.standard_error == pytest.approx(sum(errors))
    missing = difference_of(
        asked.questions,
        side(STATES, ROUND + 1, ROUND + 1, Part("north", "on")),
        side(STATES, ROUND, ROUND, Part("north", "on")),
    )
    assert missing.value is None
    assert "too few" in str(missing)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (side(POWER, ROUND, ROUND, Part("*")), side(POWER, ROUND, ROUND, Part()), "one label"),
        (side(POWER, ROUND, ROUND, Part("north")), side(POWER, ROUND, ROUND, Part()), "together"),
        (side(POWER, ROUND, ROUND + 1, Part()), side(POWER, ROUND, ROUND, Part()), "overlap"),
        (side(POWER, ROUND, ROUND, Part()), side(POWER, ROUND, ROUND, Part()), "must differ"),
        (side(STATES, ROUND, ROUND, Part()), side(POWER, ROUND, ROUND, Part()), "category"),
        (side(STATES, ROUND, ROUND, Part(None, "on")), side(POWER, ROUND, ROUND, Part()), "units"),
        (side(POWER, ROUND, ROUND, Part("west")), side(POWER, ROUND, ROUND, Part()), "north"),
        (side(STATES, ROUND, ROUND, Part(None, "up")), side(POWER, ROUND, ROUND, Part()), "on, o"),
        (side(POWER, ROUND, ROUND, Part(None, "up")), side(POWER, ROUND, ROUND, Part()), "number"),
        (side(CAMPAIGN, ROUND, ROUND, Part("up")), side(POWER, ROUND, ROUND, Part()), "has none"),
        (side(POWER, 0, 2**31, Part()), side(POWER, ROUND, ROUND, Part("south")), "together"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused(
    asked: Centre, first: Side, second: Side, words: str
) -> None:
    """By name, with what could be asked instead."""
    with pytest.raises(Refused, match=words):
        difference_of(asked.questions, first, second)


def test_questions_for_one_number_name_a_state(asked: Centre) -> None:
    """A round of states has no one answer; it says which there are."""
    questions: Questions = asked.questions
    for wrong in (
        lambda: questions.latest(STATES),
        lambda: questions.windows(STATES, 2, first=ROUND, last=ROUND),
        lambda: questions.latest(POWER, part=Part("*")),
        lambda: shares_of_round(questions, POWER, ROUND),
        lambda: shares_of_round(questions, STATES, ROUND, level=2),
        lambda: shares_of_round(questions, STATES, ROUND, at=(2,)),
        lambda: questions.between(POWER, ROUND, ROUND, method="tracked", part=Part("north")),
        lambda: difference_of(
            questions,
            side(POWER, ROUND, ROUND, Part("north")),
            side(POWER, ROUND, ROUND, Part("south")),
            level=1,
        ),
    ):
        with pytest.raises(Refused):
            wrong()
    assert questions.latest(STATES, part=Part(None, "on")).status == "too_few"
    assert questions.recent_n(STATES) == 2000


def test_the_stream_sends_a_round_again_until_all_of_it_was_seen(asked: Centre) -> None:
    """The last answer of a round carries its number, those before the one before."""
    events = asked.questions.events_after(STATES, 0)
    first = [one for one in events if one.answer.round == ROUND]
    assert [one.answer.category for one in first] == list(STATES.categories)
    numbers = [one.sequence for one in first]
    assert numbers == [numbers[-1] - 1, numbers[-1] - 1, numbers[-1]]


def test_expected_errors_are_those_of_shares() -> None:
    """Before anything is published."""
    (effect,) = effect_of(STATES, 2000)
    assert effect.standard_error == effect.best_standard_error
    assert 0.005 < effect.standard_error < 0.02
    with pytest.raises(TypeError, match="states"):
        randomizer_of(STATES)
    with pytest.raises(TypeError, match="numbers"):
        state_randomizer_of(POWER)


@pytest.fixture(scope="module")
def get(asked: Centre) -> Callable[[str], httpx.Response]:
    """Ask over HTTP."""
    token = add_subscriber(asked.database, "reader")
    app = app_of(asked)
    headers = {"Authorization": f"Bearer {token}"}
    return lambda path: ask(app, "GET", path, headers=headers)


def test_shares_and_differences_over_http(get: Callable[[str], httpx.Response]) -> None:
    """The routes answer as the questions do, and refuse by name."""
    at = f"at={ROUND * 3600 * 1000}"
    shares = get(f"/v1/shares?campaign=heat-pump&{at}&label=south").json()
    assert next(iter(shares["top"])) == "off"
    assert len(shares["shares"]) == 3
    bins = get("/v1/shares?campaign=power-bins&quantile=0.5").json()
    assert bins["quantiles"] == [{"share": 0.5, "low": 1000.0, "high": 2000.0}]
    found = get(f"/v1/difference?campaign=power&{at}&label=south&than_label=north").json()
    assert found["above_zero"] > 0.99
    assert found["first"]["label"] == "south"
    newest = get("/v1/difference?campaign=power&label=south&than_label=north").json()
    assert newest["first"]["round"] == ROUND + 1
    time = f"from={(ROUND + 1) * 3600 * 1000}&than_at={ROUND * 3600 * 1000}"
    assert get(f"/v1/difference?campaign=power&{time}").json()["first"]["round"] == ROUND + 1
    for wrong in (
        f"/v1/difference?campaign=power&from={(ROUND + 9) * 3600 * 1000}",
        "/v1/estimates/latest?campaign=heat-pump",
        "/v1/estimates?campaign=heat-pump&label=west",
        "/v1/shares?campaign=power",
    ):
        answer = get(wrong)
        assert answer.status_code == 400, wrong
        assert answer.json()["type"] == "urn:rase:problem:bad-question"
    rows = get("/v1/estimates?campaign=heat-pump&label=*&format=csv").text.splitlines()
    assert len(rows) == 1 + 9 + 3 + 1
    gap = get(f"/v1/estimates?campaign=heat-pump&at={(ROUND + 9) * 3600 * 1000}").json()
    assert [one["status"] for one in gap] == ["gap"]


def test_overviews_show_the_first_state(get: Callable[[str], httpx.Response]) -> None:
    """The trace and the page of rounds are of one number, and say of which."""
    trace = get("/v1/trace?campaign=heat-pump&label=north").json()
    assert (trace["category"], trace["label"], trace["method"]) == ("on", "north", "shares")
    assert 0.8 < trace["points"][0]["value"] < 1
    rounds = get("/v1/rounds?campaign=heat-pump").json()["rounds"]
    assert [one["status"] for one in rounds] == ["too_few", "ok", "ok"]
    assert rounds[1]["category"] == "on"


def test_a_range_of_states_cannot_be_changed() -> None:
    """It is their numbers; what may change, changes."""
    later = {"not_before": STATES.not_before + 9}
    with pytest.raises(CampaignInvalid, match="low must be absent where readings are states"):
        next_version(STATES, low=3.0, **later)
    assert next_version(STATES, k_min=40, **later).k_min == 40
