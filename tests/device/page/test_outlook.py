"""What the owner is told beforehand is what the ledger then does."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.device.conftest import CAMPAIGN
from tests.promising import with_promise
from tests.spending import spend

from rase.accounting.ledger import CampaignLimits, Ledger, OwnerLimits, create_ledger
from rase.campaign import Campaign
from rase.device.page.outlook import Outlook, of_hundred, outlook_of
from rase.errors import BudgetSpent

START_S = 495_000 * 3600
WEEK_ROUNDS = 168


def both(
    folder: Path, campaign: Campaign, owner: OwnerLimits, *, before: int, has_turn: int = 1
) -> tuple[int, int]:
    """Return how many reports of a week were told beforehand, and how many were then paid."""
    create_ledger(folder / "ledger.db")
    now_s = START_S + 1800
    first = now_s // campaign.round_s

    def turn(_: Campaign, round: int) -> bool:
        return round % has_turn == 0

    with Ledger(folder / "ledger.db", owner) as ledger:
        limits = CampaignLimits(
            campaign.id,
            campaign.round_s,
            window=campaign.window,
            window_epsilon=campaign.window_budget,
        )
        ledger.join(limits)
        for round in range(first - before, first + 1):
            try:
                spend(ledger, campaign.id, round, epsilon=0.7, claims=campaign.claims)
            except BudgetSpent:
                continue
        told = outlook_of(
            ledger.status(now_s),
            ledger.history(-1),
            campaign=campaign,
            epsilon=0.7,
            has_turn=turn,
        )
        paid = 0
        for round in range(first, first + told.rounds):
            if not turn(campaign, round):
                continue
            try:
                done = spend(ledger, campaign.id, round, epsilon=0.7, claims=campaign.claims)
                paid += done.found is None
            except BudgetSpent:
                continue
    return told.reports, paid


@pytest.mark.parametrize(
    ("budgets", "before", "has_turn"),
    [
        ((24.0, 24.0, 1000.0), 0, 1),
        ((10.0, 24.0, 1000.0), 40, 1),
        ((24.0, 3.5, 1000.0), 5, 1),
        ((24.0, 24.0, 20.0), 10, 1),
        ((24.0, 24.0, 1000.0), 0, 24),
        ((2.0, 24.0, 1000.0), 9, 5),
    ],
)
def test_the_outlook_is_what_the_ledger_then_pays(
    quick_folder: Path, budgets: tuple[float, float, float], before: int, has_turn: int
) -> None:
    """Windows, days, totals, what was spent before and the schedule are all counted in."""
    window_budget, span, total = budgets
    campaign = replace(CAMPAIGN, epsilon=(0.7,), window_budget=window_budget)
    owner = OwnerLimits(report_epsilon=1.0, span_epsilon=span, total_epsilon=total)
    told, paid = both(quick_folder, campaign, owner, before=before, has_turn=has_turn)
    assert told == paid > 0


@pytest.mark.parametrize("is_promised", [False, True])
@pytest.mark.parametrize(("cap", "before"), [(1.5, 0), (1.5, 9), (0.6, 30)])
def test_what_may_be_given_away_is_counted_in(
    quick_folder: Path, cap: float, before: int, is_promised: bool
) -> None:
    """By claims where there are some, by the reports' own noise where there are none."""
    campaign = replace(CAMPAIGN, epsilon=(0.7,))
    if is_promised:
        campaign = with_promise(campaign, 0.3, 0.5, 0.7, 1.4, 1.6)
    owner = OwnerLimits(
        report_epsilon=1.0, span_epsilon=24.0, total_epsilon=1000.0, span_shuffled_epsilon=cap
    )
    told, paid = both(quick_folder, campaign, owner, before=before)
    assert told == paid
    assert (told > 0) == (is_promised or cap > 0.7)


def test_a_campaign_that_ends_has_no_more_reports(quick_folder: Path) -> None:
    """Rounds after its last one are counted as rounds, not as reports."""
    create_ledger(quick_folder / "ledger.db")
    owner = OwnerLimits(report_epsilon=1.0, span_epsilon=24.0, total_epsilon=100.0)
    campaign = replace(CAMPAIGN, not_after=START_S // 3600 + 3)
    with Ledger(quick_folder / "ledger.db", owner) as ledger:
        told = outlook_of(
            ledger.status(START_S),
            [],
            campaign=campaign,
            epsilon=1.0,
            has_turn=lambda campaign, round: True,
        )
    assert told == Outlook(WEEK_ROUNDS, 4)


def test_odds_never_reach_certainty() -> None:
    """What would round to 100 of 100 is said in words."""
    assert [of_hundred(one) for one in (0.0, 0.5, 1.0, 5.2, 5.4)] == [
        "50 of 100",
        "63 of 100",
        "74 of 100",
        "over 99 of 100",
        "over 99 of 100",
    ]
