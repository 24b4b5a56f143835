"""Campaigns with a promise towards the fusion centre, whose claims are made up and not computed."""

from dataclasses import replace
from typing import Any

from rase.campaign import Campaign
from rase.promise import Claim

__all__ = ["claims_of", "with_promise"]

DELTA = 1e-6


def claims_of(*epsilons: float, local: float = 1.0, delta: float = DELTA) -> tuple[Claim, ...]:
    """Return a table whose rows have these shuffled epsilons, for 1, 2, … reports."""
    return tuple(
        Claim(
            reports,
            epsilon,
            delta,
            guess=0.55,
            loss_in_100=min(0.3, local),
            loss_in_1000=min(0.4, local),
            local_epsilon=reports * local,
        )
        for reports, epsilon in enumerate(epsilons, start=1)
    )


def with_promise(campaign: Campaign, *epsilons: float, **changes: Any) -> Campaign:
    """Return a campaign of one budget that promises these epsilons for 1, 2, … reports."""
    table = epsilons or (0.5, 0.7, 0.9)
    promise: dict[str, Any] = {
        "epsilon": campaign.epsilon[:1],
        "shuffled_epsilon": table[0],
        "delta": DELTA,
        "claims": claims_of(*table, local=campaign.epsilon[0]),
    }
    return replace(campaign, **(promise | changes))
