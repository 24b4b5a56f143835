"""What a campaign promises to the owners of devices, in sentences that they can hold it to."""

from rase.campaign import Campaign
from rase.look.words import duration, number
from rase.privacy import LocalDP

__all__ = ["promises"]

_SHUFFLES = {
    "uniform": "uniformly: every order of the reports is as likely as any other",
    "mallows": "by Mallows: orders near the public one are likelier",
    "robust": "robustly: by Mallows where that protects the groups, uniformly elsewhere",
}


def promises(campaign: Campaign) -> list[str]:
    """Return what a campaign promises by its signed terms, one sentence each."""
    one = campaign
    window = LocalDP(one.window_budget)
    return [
        str(LocalDP(one.epsilon[-1])),
        (
            f"In any {number(one.window)} rounds ({duration(one.window * one.round_s)}) a device "
            f"spends at most epsilon {one.window_budget:g}, by its own ledger: {window.odds}."
        ),
        f"Fewer than {number(one.k_min)} reports are never released together; {_too_few(one)}.",
        f"The shuffler permutes the reports of a round {_SHUFFLES[one.shuffle.method]}.",
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
