"""The promises of a campaign to the owners of devices, as sentences."""

from collections.abc import Iterator

from rase.campaign import Campaign
from rase.privacy import LocalDP
from rase.promise import Claim
from rase.theme.formatting import duration, number

_DAY_S = 86_400

__all__ = ["in_words", "promises", "towards_fusion"]

_SHUFFLES = {
    "uniform": "uniformly: every order of the reports is as likely as any other",
    "mallows": "by Mallows: orders near the public one are likelier",
    "robust": "robustly: by Mallows where that protects the groups, uniformly elsewhere",
}


def promises(campaign: Campaign) -> list[str]:
    """Return the promises in a campaign's signed terms, one sentence each."""
    window_s, budget = campaign.window * campaign.round_s, campaign.window_budget
    rounds = "round" if campaign.window == 1 else f"{number(campaign.window)} rounds"
    is_promising = campaign.delta is not None
    return [
        *towards_fusion(campaign),
        # What protects is judged by both promises where there are two: the sentences above do.
        *([] if is_promising else [str(LocalDP(campaign.epsilon[-1]))]),
        (
            f"In any {rounds} ({duration(window_s)}) a device spends at "
            f"most epsilon {budget:g}, by its own ledger"
            f"{'' if is_promising else f': {LocalDP(budget).odds}'}."
        ),
        (
            f"Fewer than {number(campaign.k_min)} reports are never released together; "
            f"{_too_few(campaign)}."
        ),
        f"The shuffler permutes the reports of a round {_SHUFFLES[campaign.shuffle.method]}.",
        (
            "All this holds against each server alone. Both together could join sender and noisy "
            "report; then only the epsilon of the reports protects."
        ),
    ]


def in_words(claim: Claim, span: str, *, colluding: int = 0) -> str:
    """Return both promises of a claim, as numbers and in words.

    Args:
        claim: The claim.
        span: What its reports belong to: "round", "day", "month".
        colluding: How many reports of a round may be of whoever looks.
    """
    known = f" Reports of a round that may be of whoever looks: {number(colluding)}."
    summary = f"{claim.summary[0].upper()}{claim.summary[1:]}"
    return f"{summary}. {claim.sentence(span)}{known if colluding else ''}"


def towards_fusion(campaign: Campaign) -> Iterator[str]:
    """Yield what shuffled reports give away, for a round, a day and a month as far as they differ.

    Each sentence ends with what is left if both servers work together.
    """
    stated = 0
    for span, length_s in (("round", campaign.round_s), ("day", _DAY_S), ("month", 30 * _DAY_S)):
        rounds = max(1, length_s // campaign.round_s)
        claim = campaign.claim_over(rounds)
        if claim is not None and claim.reports > stated:
            stated = claim.reports
            yield in_words(claim, span)
    if campaign.delta is not None:
        among = f"{number(campaign.k_min)} reports"
        if campaign.colluding:
            among += f", of which {number(campaign.colluding)} may be of whoever looks"
        yield (
            f"The shuffler keeps this promise: it releases rounds of at least {among}, cover "
            "reports not counted."
        )


def _too_few(campaign: Campaign) -> str:
    if not campaign.carry_rounds:
        return "such a round is withheld"
    return (
        "such a round is withheld, and its sealed reports wait at the shuffler for "
        f"{number(campaign.carry_rounds)} more rounds at most, to be released with theirs or erased"
    )
