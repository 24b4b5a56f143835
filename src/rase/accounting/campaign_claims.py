"""What a campaign promises towards the fusion centre: computed, and checked by who countersigns."""

from dataclasses import replace
from typing import Final

from rase.accounting.accountant.calibrate import calibrate
from rase.accounting.accountant.claims import check_claims, claims
from rase.campaign import Campaign
from rase.laws.randomizer import Randomizer
from rase.laws.registry import AUTO, randomizer_named
from rase.privacy import rounded_up
from rase.promise import Claim

__all__ = [
    "DEFAULT_DELTA",
    "check_promise",
    "fit_budget",
    "state_promise",
]

DEFAULT_DELTA: Final = 1e-6
_MONTH_S: Final = 30 * 86_400


def fit_budget(
    campaign: Campaign,
    *,
    shuffled_epsilon: float,
    delta: float,
    colluding: int = 0,
    mechanism: str = AUTO,
    most: float | None = None,
) -> Campaign:
    """Return a campaign whose reports are as exact as a shuffled promise allows.

    Args:
        campaign: The campaign; its mechanism and epsilon are replaced, and its window's budget
            becomes that of as many reports as it was for.
        shuffled_epsilon: What one report may give away to the fusion centre.
        delta: The delta that belongs to it.
        colluding: How many reports of a round may be of devices that work with the fusion centre.
        mechanism: The mechanism to fit; ``auto`` for the one with the least error.
        most: The largest epsilon of a report, whatever the promise would allow; None for any.

    Raises:
        PrivacyRefused: If no report keeps the promise.
        ValueError: If a number is out of bounds.
    """
    found = calibrate(
        campaign.public,
        shuffled_epsilon=shuffled_epsilon,
        delta=delta,
        n=campaign.k_min - colluding,
        max_local_epsilon=most,
        mechanism=mechanism,
    )
    epsilon = found.guarantee.epsilon
    return replace(
        campaign,
        mechanism=found.name,
        epsilon=(epsilon,),
        window_budget=campaign.most_reports(campaign.window) * epsilon,
    )


def state_promise(
    campaign: Campaign,
    *,
    shuffled_epsilon: float | None = None,
    delta: float = DEFAULT_DELTA,
    colluding: int = 0,
) -> Campaign:
    """Return a campaign with a shuffled promise and the table of its claims, for a month at least.

    Guarantee: each row is what `rase.accounting.accountant.claims` proves for ``k_min - colluding``
    reports a round, rounded up (tests/accounting/test_campaign_claims.py).

    Args:
        campaign: The campaign without a promise.
        shuffled_epsilon: The promise for one report; what holds, rounded up, unless given.
        delta: The delta that belongs to it.
        colluding: How many reports of a round may be of devices that work with the fusion centre.

    Raises:
        CampaignInvalid: If the campaign cannot keep the promise.
        ValueError: If a number is out of bounds.
    """
    rows = claims(
        _randomizer_of(campaign),
        campaign.k_min - colluding,
        delta=delta,
        reports=campaign.most_reports(max(campaign.window, _MONTH_S // campaign.round_s)),
    )
    table = tuple(_round_up_claim(row, campaign.epsilon[0]) for row in rows)
    return replace(
        campaign,
        shuffled_epsilon=table[0].epsilon if shuffled_epsilon is None else shuffled_epsilon,
        delta=delta,
        colluding=colluding,
        claims=table,
    )


def check_promise(campaign: Campaign) -> None:
    """Compute the claims of a campaign again, and refuse one that states less than what holds.

    Raises:
        PrivacyRefused: If a number of the table is too small.
    """
    if campaign.delta is None:
        return
    randomizer, n = _randomizer_of(campaign), campaign.honest_reports
    check_claims(campaign.claims, randomizer, n, delta=campaign.delta)


def _round_up_claim(row: Claim, epsilon: float) -> Claim:
    """Round a claim up to what people read, and never above what the noise itself leaves."""
    local = row.reports * epsilon
    return Claim(
        row.reports,
        min(rounded_up(row.epsilon, 4), local),
        row.delta,
        min(rounded_up(row.guess, 5), 1.0),
        min(rounded_up(row.loss_in_100, 4), local),
        min(rounded_up(row.loss_in_1000, 4), local),
        local,
    )


def _randomizer_of(campaign: Campaign) -> Randomizer:
    return randomizer_named(
        campaign.mechanism,
        campaign.epsilon[0],
        domain=campaign.public,
        precision=campaign.precision,
    )
