"""What owners allow unasked: little, enough for the campaign's turns, and never without a word."""

from pathlib import Path
from typing import Any

import pytest
from tests.spending import spend

from rase.accounting.ledger import Ledger
from rase.accounting.ledger.file import create_ledger
from rase.accounting.ledger.limits import (
    UNASKED_DAY_EPSILON,
    UNASKED_REPORT_EPSILON,
    CampaignLimits,
)
from rase.accounting.plan.advice import WORTHLESS_POSTERIOR
from rase.campaign import Campaign
from rase.errors import BudgetSpent, ConfigurationError, PrivacyRefused
from rase.privacy import LocalDP
from rase.service.allowance import Allowance, epsilon_of_rounds


def campaign_of(**changes: Any) -> Campaign:
    """Return an hourly campaign of one report a day."""
    values: dict[str, Any] = {
        "id": "homes",
        "version": 1,
        "quantity": "power",
        "unit": "W",
        "low": 0.0,
        "high": 3000.0,
        "mechanism": "optimal",
        "epsilon": (1.0,),
        "window": 24,
        "window_budget": 1.0,
        "round_s": 3600,
        "upload_s": 300,
        "grace_s": 600,
        "k_min": 20,
        "not_before": 0,
        "not_after": 10**6,
    }
    return Campaign(**(values | changes))


def test_one_report_of_the_default_is_what_the_planner_calls_protection() -> None:
    """The default cap lies just below the planner's line, and no higher number would."""
    assert LocalDP(UNASKED_REPORT_EPSILON).posterior() < WORTHLESS_POSTERIOR
    assert LocalDP(UNASKED_REPORT_EPSILON + 0.1).posterior() > WORTHLESS_POSTERIOR


@pytest.mark.parametrize(
    ("changes", "limits"),
    [
        ({}, (1.0, 1.0, 30.0)),
        ({"window_budget": 8.0}, (1.0, 8.0, 240.0)),
        ({"round_s": 900}, (1.0, 4.0, 120.0)),
        ({"epsilon": (0.5, 2.0), "window_budget": 2.0}, (2.0, 2.0, 60.0)),
        ({"round_s": 7 * 86400, "window": 1}, (1.0, 1.0, 30.0)),
        ({"epsilon": (4.5,), "window_budget": 4.5}, (4.5, 4.5, 135.0)),
    ],
)
def test_an_owner_who_says_nothing_allows_what_is_asked_and_little(
    changes: dict[str, Any], limits: tuple[float, float, float]
) -> None:
    """Limits follow the campaign, within 4.5 a report and 8 a day."""
    found = Allowance().limits(campaign_of(**changes))
    assert (found.report_epsilon, found.span_epsilon, found.total_epsilon) == limits
    assert found.span_epsilon <= UNASKED_DAY_EPSILON


@pytest.mark.parametrize(
    ("changes", "allowed", "text"),
    [
        ({"window_budget": 24.0}, {}, "A day of reports may spend epsilon 24, and at most 8"),
        ({"round_s": 10}, {}, "A day of reports may spend epsilon 360"),
        ({"epsilon": (5.0,), "window_budget": 5.0}, {}, "One report may spend epsilon 5,"),
        ({}, {"day": 9.0}, "A day of reports may spend epsilon 9,"),
        ({}, {"report": 5.0}, "One report may spend epsilon 5,"),
    ],
)
def test_what_hardly_protects_is_refused_unless_accepted(
    changes: dict[str, Any], allowed: dict[str, Any], text: str
) -> None:
    """The refusal names the number and the ways out; the operator's word alone raises no limit."""
    campaign = campaign_of(**changes)
    with pytest.raises(PrivacyRefused, match="or add --accept-weak") as refused:
        Allowance(**allowed).limits(campaign)
    assert text in str(refused.value)
    if max(campaign.epsilon) <= UNASKED_REPORT_EPSILON:
        found = Allowance(**allowed, accepts_weak=True).limits(campaign)
        assert found.span_epsilon == allowed.get("day", min(8.0, found.span_epsilon))


def test_more_takes_the_owners_word_and_the_operators() -> None:
    """With both, the limits are the owner's; a ledger can count them."""
    campaign = campaign_of(round_s=10, window_budget=24.0)
    found = Allowance(day=100.0, ever=100.0, accepts_weak=True).limits(campaign)
    assert (found.report_epsilon, found.span_epsilon, found.total_epsilon) == (1.0, 100.0, 100.0)
    assert Allowance(day=1e5, accepts_weak=True).limits(campaign).total_epsilon == 900_000
    with pytest.raises(ConfigurationError, match="span_epsilon must be"):
        Allowance(day=1e9, accepts_weak=True).limits(campaign)


@pytest.mark.parametrize(
    ("epsilon", "allowed"),
    [(6.0, {}), (1.0, {"report": 0.5}), (1.0, {"day": 0.5}), (1.0, {"ever": 0.5})],
)
def test_limits_below_every_report_are_refused(epsilon: float, allowed: dict[str, Any]) -> None:
    """A device that could never report is a mistake, not a protection."""
    campaign = campaign_of(epsilon=(epsilon,), window_budget=epsilon)
    with pytest.raises(ConfigurationError, match="or no device reports"):
        Allowance(**allowed, accepts_weak=True).limits(campaign)


def test_the_ledger_lets_a_device_report_at_each_of_its_turns(tmp_path: Path) -> None:
    """Turns of one report a day fit the default limits for 30 days, and not for one more."""
    campaign = campaign_of()
    limits = Allowance().limits(campaign)
    create_ledger(tmp_path / "ledger.db")
    with Ledger(tmp_path / "ledger.db", limits) as ledger:
        ledger.join(
            CampaignLimits(
                "homes",
                campaign.round_s,
                window=campaign.window,
                window_epsilon=campaign.window_budget,
            )
        )
        for day in range(30):
            spend(ledger, "homes", 7 + 24 * day, epsilon=1.0, draw=b"noisy")
        with pytest.raises(BudgetSpent):
            spend(ledger, "homes", 7 + 24 * 30, epsilon=1.0, draw=b"noisy")


def test_rounds_spend_what_reports_and_windows_allow() -> None:
    """A few rounds are bounded by their reports, many by their windows."""
    campaign = campaign_of(window_budget=4.0)
    assert [epsilon_of_rounds(campaign, rounds) for rounds in (1, 3, 24, 25, 240)] == [
        1.0,
        3.0,
        4.0,
        8.0,
        40.0,
    ]
