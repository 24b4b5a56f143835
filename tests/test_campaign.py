"""The campaign: what it accepts, how it tells mistakes, and what may follow it."""

import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from tests.cases import each_case
from tests.promising import claims_of, with_promise

from rase.campaign import Campaign, ShufflePlan
from rase.counts.registry import ESTIMATORS, estimator_named
from rase.domain import Precision, Range
from rase.validation import CampaignInvalid

FIELDS: dict[str, Any] = {
    "id": "street-power",
    "version": 1,
    "quantity": "power",
    "unit": "W",
    "low": 0,
    "high": 3000,
    "mechanism": "budget-aware",
    "epsilon": [0.5, 1],
    "window": 24,
    "window_budget": 24,
    "round_s": 3600,
    "upload_s": 300,
    "grace_s": 600,
    "k_min": 20,
    "not_before": 495000,
    "not_after": 499999,
}


def campaign(**changes: Any) -> Campaign:
    """Return a campaign that is right but for the changes."""
    return Campaign.from_fields(FIELDS | changes)


def test_a_campaign_knows_its_range_precision_and_times() -> None:
    """Range, precision and the times of a round follow from the fields."""
    found = campaign()
    assert found.domain == Range(0, 3000)
    assert found.precision == Precision(0.5, 0.9)
    assert found.epsilon == (0.5, 1.0)
    assert found.round_end_s(495000) == 495001 * 3600
    assert found.upload_end_s(495000) == 495001 * 3600 + 300
    assert found.closes_s(495000) == 495001 * 3600 + 600
    assert [found.holds_in(r) for r in (494999, 495000, 499999, 500000)] == [
        False,
        True,
        True,
        False,
    ]


def test_a_campaign_cannot_be_changed() -> None:
    """Fields are frozen."""
    with pytest.raises(FrozenInstanceError):
        campaign().k_min = 1  # type: ignore[misc]


def test_fields_come_back() -> None:
    """Plain values make the same campaign again, with a plan of either form."""
    found = campaign(shuffle={"method": "robust", "alpha": 3, "groups": ["north", "south"]})
    assert Campaign.from_fields(found.as_fields()) == found
    assert found.shuffle == ShufflePlan("robust", 3.0, ("north", "south"))
    assert campaign(shuffle=found.shuffle) == found


def test_negative_zero_is_zero() -> None:
    """Campaigns that are equal have one form."""
    assert str(campaign(low=-0.0).low) == "0.0"


@each_case(
    ("name", "value", "text"),
    [
        ("id", "Street", "id must be 1 to 63 lower-case letters"),
        ("id", 5, "id must be"),
        ("version", 0, "version must be a whole number from 1"),
        ("version", True, "version must be"),
        ("version", 1.0, "version must be"),
        ("quantity", "", "quantity must be 1 to 64 printable"),
        ("quantity", None, "quantity must be"),
        ("unit", "\n", "unit must be 0 to 64 printable"),
        ("unit", " W", "unit must be"),
        ("low", "zero", "low must be a number"),
        ("low", True, "low must be a number"),
        ("low", 3000, "low must be below high"),
        ("high", float("nan"), "high must be a number"),
        ("high", float("inf"), "high must be a number"),
        ("steps", 65537, "steps must be a whole number from 1 to 65536"),
        ("mechanism", "magic", "mechanism must be one of budget-aware, laplace"),
        ("mechanism", ["laplace"], "mechanism must be one of"),
        ("beta", 1.5, "beta must be a number from 0 to 1"),
        ("rho", -1, "rho must be a number from 0 to 1"),
        ("epsilon", [], "epsilon must be one to 4 budgets"),
        ("epsilon", [1, 2, 3, 4, 5], "epsilon must be one to 4 budgets"),
        ("epsilon", 1.0, "epsilon must be one to 4 budgets"),
        ("epsilon", [0], "epsilon must be a number from 0.0001 to 30"),
        ("epsilon", [2, 1], "epsilon must be ascending budgets that differ"),
        ("epsilon", [1, 1], "epsilon must be ascending budgets that differ"),
        ("window", 0, "window must be a whole number from 1"),
        ("window_budget", 0.7, "window_budget must be at least the largest epsilon, 1, got 0.7"),
        ("window_budget", "much", "window_budget must be a number"),
        ("upload_s", 601, "upload_s must be at most grace_s, 600, got 601"),
        ("k_min", 1, "k_min must be a whole number from 2"),
        ("not_before", -1, "not_before must be a whole number from 0"),
        ("not_after", 2**32, "not_after must be a whole number from 0"),
        ("not_after", 5, "not_after must be at least not_before, 495000, got 5"),
        ("estimators", [], "estimators must be 1 to 6 different names"),
        ("estimators", ["median", "median"], "estimators must be 1 to 6 different names"),
        ("estimators", ["mode"], "estimators must be one of tracked, unbiased_mean"),
        ("estimators", "median", "estimators must be 1 to 6 different names"),
        ("kem", "rsa", "kem must be one of x25519, x-wing"),
        ("shuffle", "uniform", "shuffle must be a table"),
        ("shuffle", {"seed": 1}, "shuffle.seed is not a field of a campaign"),
        ("shuffle", {"method": "sort"}, "shuffle.method must be one of robust, uniform"),
        ("shuffle", {"alpha": 1}, "shuffle.alpha must be 0 for the uniform shuffle"),
        ("shuffle", {"method": "mallows"}, "shuffle.alpha must be greater than 0 for mallows"),
        ("shuffle", {"groups": ["a", "a"]}, "shuffle.groups must be 0 to 1024 different names"),
        ("shuffle", {"groups": [1]}, "shuffle.groups must be 0 to 1024 different names"),
        ("colour", "red", "colour is not a field of a campaign"),
    ],
)
def test_a_mistake_is_named(name: str, value: object, text: str) -> None:
    """Each wrong field is refused in words that start with its name."""
    with pytest.raises(CampaignInvalid) as refused:
        campaign(**{name: value})
    assert [mistake for mistake in refused.value.mistakes if mistake.startswith(text)]
    assert len(refused.value.mistakes) == 1


def test_all_mistakes_are_told_at_once() -> None:
    """Unknown, missing and wrong fields stand in one refusal, each once."""
    values = FIELDS | {"k_min": 0, "beta": 7, "colour": "red", "shuffle": {"method": "sort"}}
    del values["unit"], values["low"]
    with pytest.raises(CampaignInvalid) as refused:
        Campaign.from_fields(values)
    named = [mistake.split(" ")[0] for mistake in refused.value.mistakes]
    assert named == ["colour", "unit", "low", "shuffle.method", "k_min", "beta"]
    assert str(refused.value).count("\n") == 5


def test_long_values_are_shortened() -> None:
    """A mistake does not fill the screen."""
    with pytest.raises(CampaignInvalid) as refused:
        campaign(quantity="x" * 5000)
    assert len(str(refused.value)) < 250


def test_a_plan_of_another_type_is_refused() -> None:
    """Building one directly needs a ShufflePlan."""
    with pytest.raises(CampaignInvalid, match="shuffle must be a ShufflePlan"):
        replace(campaign(), shuffle=None)  # type: ignore[arg-type]


def test_new_precision_for_later_rounds_is_a_next_version() -> None:
    """The paper's feedback: other beta and rho, mechanism and budgets, from a later round on."""
    old = campaign()
    new = campaign(
        version=2, beta=0.2, rho=0.95, epsilon=[2], k_min=30, window_budget=12, not_before=495100
    )
    new.check_succeeds(old, from_round=495100)


@each_case(
    ("changes", "text"),
    [
        ({"id": "other"}, "id must stay 'street-power' in a new version, got 'other'."),
        ({"version": 3}, "version must be 2, got 3."),
        ({"version": 1}, "version must be 2, got 1."),
        ({"not_before": 495049}, "not_before must be at least 495050, got 495049."),
        ({"unit": "kW"}, "unit must stay 'W'"),
        ({"round_s": 60}, "round_s must stay 3600"),
        ({"window_budget": 25}, "window_budget must be at most 24, or owners"),
        ({"k_min": 19}, "k_min must be at least 20, or owners"),
    ],
)
def test_what_may_not_change_is_named(changes: dict[str, Any], text: str) -> None:
    """A version that skips, reaches back, or weakens a promise is refused."""
    new = campaign(**({"version": 2, "not_before": 495050} | changes))
    with pytest.raises(CampaignInvalid) as refused:
        new.check_succeeds(campaign(), from_round=495050)
    assert len(refused.value.mistakes) == 1
    assert refused.value.mistakes[0].startswith(text)


def test_a_new_version_keeps_its_envelopes_as_strong() -> None:
    """X-Wing may come, and may not go again."""
    later = {"version": 2, "not_before": 495050}
    campaign(kem="x-wing", **later).check_succeeds(campaign(), from_round=495050)
    with pytest.raises(CampaignInvalid, match="kem must be x-wing, or owners would be promised"):
        campaign(**later).check_succeeds(campaign(kem="x-wing"), from_round=495050)


def test_the_range_may_change_in_a_new_version() -> None:
    """Narrower, wider or on another grid: each round is read by its own version's range."""
    for changes in ({"high": 400}, {"low": -5000, "high": 9000}, {"steps": 1024}):
        new = campaign(version=2, not_before=495050, **changes)
        new.check_succeeds(campaign(), from_round=495050)


def test_probing_rounds_report_by_the_square_wave() -> None:
    """Every so-many-th round, with all else as it was; none where the campaign never probes."""
    probing = campaign(probe_every=4)
    assert [probing.is_probing_in(round) for round in range(8, 13)] == [
        True,
        False,
        False,
        False,
        True,
    ]
    assert probing.reported_in(8) == campaign(probe_every=4, mechanism="square-wave")
    assert probing.reported_in(9) is probing
    assert not campaign().is_probing_in(0)
    with pytest.raises(CampaignInvalid, match="probe_every must be a whole number from 0"):
        campaign(probe_every=-1)


def test_campaigns_that_never_probe_keep_their_fields() -> None:
    """So their bytes and hashes are those of releases that knew no probing."""
    assert "probe_every" not in campaign().as_fields()
    probing = campaign(probe_every=4)
    assert Campaign.from_fields(probing.as_fields()) == probing


def test_a_campaign_says_whose_mean_it_is_about() -> None:
    """Of the reporters unless it says of the fleet; those of before keep their bytes."""
    assert campaign().target == "reporters"
    assert "target" not in campaign().as_fields()
    fleet = campaign(target="fleet")
    assert Campaign.from_fields(fleet.as_fields()) == fleet
    with pytest.raises(CampaignInvalid, match="target must be one of reporters, fleet"):
        campaign(target="street")


def test_a_next_version_never_begins_with_its_predecessor() -> None:
    """Two versions for one set of rounds would let a server choose."""
    with pytest.raises(CampaignInvalid, match="not_before must be at least 495001"):
        campaign(version=2).check_succeeds(campaign(), from_round=0)


def test_names_are_those_of_the_mathematics() -> None:
    """What a campaign may ask for is what the other rooms have, and it asks for the first."""
    for name in ESTIMATORS:
        assert campaign(estimators=[name]).estimators == (name,)
        assert callable(estimator_named(name))
    assert campaign().estimators == ESTIMATORS[:1]
    with pytest.raises(CampaignInvalid, match="estimators"):
        campaign(estimators=["auto"])


def test_importing_a_campaign_loads_no_numpy() -> None:
    """A device agent can afford it."""
    code = "import rase.campaign, sys; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_carried_rounds_share_blocks() -> None:
    """Blocks are counted from the first round; without carrying each round is its own."""
    found = campaign(carry_rounds=2, not_after=495007)
    rounds = range(495000, 495008)
    assert [found.block_start(round) - 495000 for round in rounds] == [0, 0, 0, 3, 3, 3, 6, 6]
    assert [found.block_end(round) - 495000 for round in rounds] == [2, 2, 2, 5, 5, 5, 7, 7]
    alone = campaign()
    assert all(alone.block_start(round) == alone.block_end(round) == round for round in rounds)


def test_a_campaign_that_does_not_carry_says_nothing_of_it() -> None:
    """Its fields, and so its bytes, are those of campaigns from before carrying."""
    assert "carry_rounds" not in campaign().as_fields()
    carrying = campaign(carry_rounds=3)
    assert carrying.as_fields()["carry_rounds"] == 3
    assert Campaign.from_fields(carrying.as_fields()) == carrying


def test_a_version_may_carry_less_but_not_more() -> None:
    """Owners were promised how long the shuffler keeps their reports."""
    first = campaign(carry_rounds=2)
    later = {"version": 2, "not_before": 496000}
    campaign(carry_rounds=1, **later).check_succeeds(first, from_round=495500)
    with pytest.raises(CampaignInvalid, match="carry_rounds must be at most 2"):
        campaign(carry_rounds=3, **later).check_succeeds(first, from_round=495500)
    with pytest.raises(CampaignInvalid, match="carry_rounds must be a whole number from 0"):
        campaign(carry_rounds=-1)


def test_there_is_no_law_by_default() -> None:
    """Devices draw what the campaign names; auto is for files, and nobody can draw it."""
    without = {name: value for name, value in FIELDS.items() if name != "mechanism"}
    with pytest.raises(CampaignInvalid, match="mechanism is missing"):
        Campaign.from_fields(without)
    with pytest.raises(CampaignInvalid, match="mechanism must be"):
        campaign(mechanism="auto")


def test_campaigns_without_a_promise_keep_their_fields() -> None:
    """So their bytes and hashes are those of releases that knew no shuffled promise."""
    later = {"shuffled_epsilon", "delta", "colluding", "claims"}
    assert not later & campaign().as_fields().keys()
    promising = with_promise(campaign())
    assert later - {"colluding"} <= promising.as_fields().keys()
    assert Campaign.from_fields(promising.as_fields()) == promising


@each_case(
    ("changes", "text"),
    [
        ({"shuffled_epsilon": 0.0}, "shuffled_epsilon must be a number from 1e-09"),
        ({"delta": None}, "delta must be a number from 1e-12"),
        ({"delta": 0.5}, "delta must be a number"),
        ({"delta": 1e-7}, "claims must be at delta, 1e-07, got 1e-06."),
        ({"colluding": -1}, "colluding must be a whole number from 0"),
        ({"colluding": 19}, "colluding must be at most k_min - 2, 18, for a shuffled promise"),
        ({"cover": 0}, "cover must be true or false, got 0."),
        ({"claims": ()}, "claims must be 1 to 256 rows, for a shuffled promise"),
        ({"claims": 7}, "claims must be a list of rows, got 7."),
        ({"claims": [[1, 2.0]]}, "claims: a claim must be 7 numbers, got 2."),
        ({"claims": [7]}, "claims must be a list of rows, got 7."),
        ({"shuffled_epsilon": 0.3}, "claims must be at most shuffled_epsilon, 0.3, for one report"),
        ({"claims": claims_of(0.4, 0.5, local=0.5)[1:]}, "claims must be of 1 report and then"),
        ({"claims": claims_of(0.4)}, "claims must be of reports that spend 0.5 together, got 1.0"),
        ({"epsilon": [0.5, 1.0]}, "epsilon must be one budget: classes hide only their own"),
        ({"probe_every": 4}, "probe_every must be 0: probes have another law"),
        ({"shuffle": {"method": "mallows", "alpha": 1.0}}, "shuffle must be uniform, for a"),
        ({"shuffled_epsilon": None}, "delta must be absent without shuffled_epsilon, got 1e-06."),
    ],
)
def test_what_a_shuffled_promise_needs_is_named(changes: dict[str, Any], text: str) -> None:
    """One budget, one law, a uniform shuffle, and a table that fits."""
    with pytest.raises(CampaignInvalid) as refused:
        Campaign.from_fields(with_promise(campaign(), 0.4, 0.5).as_fields() | changes)
    assert any(mistake.startswith(text) for mistake in refused.value.mistakes)


def test_a_promise_is_of_the_honest_reports() -> None:
    """It is computed with k_min less those who may work with the fusion centre."""
    assert with_promise(campaign(), colluding=5).honest_reports == 15


def test_a_window_pays_for_some_reports() -> None:
    """How many a device makes at most in some rounds follows from window, budget and carrying."""
    found = campaign(epsilon=[0.5], window=24, window_budget=1.5)
    assert [found.most_reports(rounds) for rounds in (1, 2, 24, 25, 48, 720)] == [1, 2, 3, 6, 6, 90]
    assert campaign(epsilon=[0.1], window=1, window_budget=0.3).most_reports(5) == 5
    carrying = campaign(epsilon=[0.5], window=24, window_budget=1.5, carry_rounds=1)
    assert carrying.most_reports(24) == 6


def test_claims_over_rounds_are_those_of_their_reports() -> None:
    """Nothing is promised beyond the table, nor where there is none."""
    found = with_promise(campaign(epsilon=[0.5], window_budget=1.0), 0.3, 0.4, 0.5)
    assert [claim and claim.epsilon for claim in map(found.claim_over, (1, 24, 25, 49))] == [
        0.3,
        0.4,
        None,
        None,
    ]
    assert campaign().claim_over(1) is None


@each_case(
    ("changes", "text"),
    [
        ({"shuffled_epsilon": 0.6}, "shuffled_epsilon must be at most 0.5, or owners would be"),
        (
            {"delta": 1e-5, "claims": claims_of(0.5, local=0.5, delta=1e-5)},
            "delta must be at most 1e-06, or owners would be promised less, got 1e-05.",
        ),
        ({"colluding": 1}, "colluding must be at least 2, or owners would be promised less"),
    ],
)
def test_a_new_version_keeps_the_promise_as_strong(changes: dict[str, Any], text: str) -> None:
    """Towards the fusion centre a version may promise more, never less."""
    old = with_promise(campaign(), 0.5, colluding=2)
    later: dict[str, Any] = {"version": 2, "not_before": 495050}
    replace(old, **later, shuffled_epsilon=0.5, colluding=3).check_succeeds(old, from_round=495050)
    with pytest.raises(CampaignInvalid) as refused:
        replace(old, **(later | changes)).check_succeeds(old, from_round=495050)
    assert len(refused.value.mistakes) == 1
    assert refused.value.mistakes[0].startswith(text)


def test_a_promise_cannot_be_dropped_nor_cover_be_switched_off() -> None:
    """Owners agreed to the one or to the other; what differs is another campaign."""
    later: dict[str, Any] = {"version": 2, "not_before": 495050}
    plain = campaign(epsilon=[0.5])
    promising = with_promise(plain, 0.5)
    with pytest.raises(CampaignInvalid, match=r"shuffled_epsilon must be at most 0\.5"):
        replace(plain, **later).check_succeeds(promising, from_round=495050)
    with pytest.raises(CampaignInvalid, match="cover must stay true in a new version"):
        replace(plain, cover=False, **later).check_succeeds(plain, from_round=495050)


STATES: dict[str, Any] = {
    **{
        name: value
        for name, value in FIELDS.items()
        if name not in ("low", "high", "steps", "estimators")
    },
    "mechanism": "randomized-response",
    "epsilon": [1.0],
    "categories": ["on", "off", "other"],
}


def test_a_campaign_of_states_numbers_them() -> None:
    """Their names are signed, their numbers follow; it reads back as it was written."""
    campaign = Campaign.from_fields({**STATES, "labels": ["north", "south"]})
    assert campaign.states is not None
    assert campaign.public == campaign.states
    assert (campaign.low, campaign.high, campaign.steps) == (0.0, 2, 2)
    assert campaign.estimators == ("shares",)
    assert not {"low", "high", "steps"} & set(campaign.as_fields())
    assert Campaign.from_fields(campaign.as_fields()) == campaign
    assert [campaign.label_number(name) for name in ("south", "other", None)] == [2, 0, 0]
    assert [campaign.label_name(number) for number in (0, 1, 9)] == ["other", "north", "other"]


def test_bounds_name_the_states() -> None:
    """The fields hold the bounds alone."""
    fields = {**STATES, "categories": [], "bounds": [1000, 3000]}
    campaign = Campaign.from_fields(fields)
    assert campaign.categories == ("below 1000", "1000 to 3000", "3000 or more")
    assert "categories" not in campaign.as_fields()
    assert Campaign.from_fields(campaign.as_fields()) == campaign


@pytest.mark.parametrize(
    ("changes", "mistake"),
    [
        ({"categories": ["a", "a"]}, "categories must differ, got 'a' more than once."),
        (
            {"categories": [str(number) for number in range(65)]},
            "categories must be 2 to 64 names, got 65.",
        ),
        ({"categories": "on"}, "categories must be a list of texts, got 'on'."),
        ({"low": 0}, "low must be absent where readings are states, got 0."),
        (
            {"bounds": [1.0]},
            "categories must be absent where there are bounds.",
        ),
        (
            {"mechanism": "optimal"},
            "mechanism must be one of randomized-response, block-design, got 'optimal'.",
        ),
        ({"estimators": ["median"]}, "estimators must be one of shares, got 'median'."),
        ({"probe_every": 4}, "probe_every must be 0 where readings are states, got 4."),
        ({"target": "fleet"}, "target must be reporters where readings are states, got 'fleet'."),
        (
            {"labels": ["a", "a"]},
            "labels must be 0 to 15 different names of 1 to 64 characters, got ['a', 'a'].",
        ),
        (
            {"labels": ["other"]},
            "labels must be without 'other', which is always there, got 'other'.",
        ),
        (
            {"labels": ["a/b"]},
            "labels must be names without blank ends and + # / *, got 'a/b'.",
        ),
        (
            {"labels": ["a"], "epsilon": [1.0, 2.0]},
            "epsilon must be one budget, for answers by label, got [1.0, 2.0].",
        ),
        (
            {"labels": ["a"], "shuffle": {"method": "mallows", "alpha": 1.0}},
            "shuffle must be uniform, for answers by label, got 'mallows'.",
        ),
    ],
)
def test_mistakes_about_states_and_labels_are_named(changes: dict[str, Any], mistake: str) -> None:
    """One mistake, one sentence."""
    with pytest.raises(CampaignInvalid) as caught:
        Campaign.from_fields({**STATES, **changes})
    assert caught.value.mistakes == (mistake,)


def test_states_and_labels_stay_in_later_versions() -> None:
    """Estimates would not be comparable."""
    now = Campaign.from_fields({**STATES, "labels": ["north"]})
    for changes in ({"categories": ("on", "off")}, {"labels": ("south",)}):
        then = replace(now, version=2, not_before=now.not_before + 5, **changes)
        with pytest.raises(CampaignInvalid, match="must stay"):
            then.check_succeeds(now, from_round=0)
