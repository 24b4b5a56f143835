"""All shares of a round in one document: each with its interval, all at once, the commonest."""

from collections.abc import Sequence

from rase.answer import Answer, QuantileAnswer, ShareAnswers
from rase.campaign import Campaign
from rase.counts.above import ABOVE, quantile
from rase.counts.estimate import Estimate
from rase.counts.registry import SHARES
from rase.counts.shares import on_simplex, simultaneous, top
from rase.fusion.parts import Part
from rase.fusion.query import Questions
from rase.fusion.refusals import BAD_QUESTION, Refused

__all__ = ["shares_of_round"]


def shares_of_round(
    questions: Questions,
    campaign: Campaign,
    round: int,
    *,
    label: str | None = None,
    count: int = 3,
    at: Sequence[float] = (0.5,),
    level: float = 0.95,
) -> ShareAnswers:
    """Return what is known of the states of a round.

    Args:
        questions: Where answers come from.
        campaign: A campaign of states.
        round: The round.
        label: One label; None for all.
        count: How many of the commonest states to name.
        at: Which quantiles to place between the bounds, where the states are intervals.
        level: The probability of each statement.

    Raises:
        Refused: If the campaign is about a number, or a question cannot be.
    """
    if campaign.states is None:
        raise Refused(BAD_QUESTION, "shares must be of a campaign of states; this is of a number.")
    if not 0 < level < 1:
        raise Refused(BAD_QUESTION, "level must be between 0 and 1.")
    if not all(0 < one < 1 for one in at):
        raise Refused(BAD_QUESTION, "quantile must be between 0 and 1.")
    answers = questions.between(
        campaign, round, round, method="all" if campaign.bounds else None, part=Part(label)
    )
    if not answers:
        part = Part(label, campaign.categories[0])
        answers = [questions.at(campaign, round, part=part)]
    shares = [one for one in answers if one.method == SHARES]
    above = [one for one in answers if one.method == ABOVE]
    found = {
        str(one.category): estimate for one in shares if (estimate := _estimate(one)) is not None
    }
    bounds = [estimate for one in above if (estimate := _estimate(one)) is not None]
    quantiles = []
    if bounds:
        for share in at:
            low, high = quantile(campaign.bounds, bounds, share, level=level)
            quantiles.append(QuantileAnswer(share=share, low=low, high=high))
    return ShareAnswers(
        shares=shares,
        level=level,
        simultaneous=simultaneous(found, level) if found else {},
        shown=on_simplex(found) if found else {},
        top=top(found, min(max(count, 1), len(found)), level=level) if found else {},
        above=above,
        quantiles=quantiles,
    )


def _estimate(answer: Answer) -> Estimate | None:
    if answer.value is None or answer.standard_error is None:
        return None
    return Estimate(
        answer.value,
        answer.standard_error,
        n=answer.n,
        method=answer.method,
        target="share of the readings",
        lowest=0.0,
        highest=1.0,
    )
