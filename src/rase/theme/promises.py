"""What a campaign promises to the owners of devices, in sentences that they can hold it to."""

from rase.campaign import Campaign
from rase.privacy import LocalDP
from rase.theme.formatting import duration, number

__all__ = ["promises"]

_SHUFFLES = {
    "uniform": "uniformly: every order of the reports is as likely as any other",
    "mallows": "by Mallows: orders near the public one are likelier",
    "robust": "robustly: by Mallows where that protects the groups, uniformly elsewhere",
}


def promises(campaign: Campaign) -> list[str]:
    """Return what a campaign promises by its signed terms, one sentence each."""
    window_s, budget = campaign.window * campaign.round_s, campaign.window_budget
    return [
        str(LocalDP(campaign.epsilon[-1])),
        (
            f"In any {number(campaign.window)} rounds ({duration(window_s)}) a device spends at "
            f"most epsilon {budget:g}, by its own ledger: {LocalDP(budget).odds}."
        ),
        (
            f"Fewer than {number(campaign.k_min)} reports, cover reports counted, are never "
            "released together; "
            f"{_too_few(campaign)}."
        ),
        f"The shuffler permutes the reports of a round {_SHUFFLES[campaign.shuffle.method]}.",
        (
            "All this holds against each server alone. Both together could join sender and noisy "
            "report; then only the epsilon of the reports protects."
        ),
    ]


def _too_few(campaign: Campaign) -> str:
    if not campaign.carry_rounds:
        return "such a round is withheld"
    return (
        "such a round is withheld, and its sealed reports wait at the shuffler for "
        f"{number(campaign.carry_rounds)} more rounds at most, to be released with theirs or erased"
    )
