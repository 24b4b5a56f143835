"""What subscribers ask over HTTP about several answers at once: shares, and differences."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from rase.answer import Difference, ShareAnswers
from rase.fusion.access import BEARER, PROBLEMS, asker_of, centre_of, log_answer, logging_refusals
from rase.fusion.centre import FusionCentre
from rase.fusion.difference import Side, difference_of
from rase.fusion.parts import Part
from rase.fusion.query import MAX_ROUNDS
from rase.fusion.refusals import BAD_QUESTION, Refused
from rase.fusion.routes import At, Category, From, Label, Named, To, span_of
from rase.fusion.shares import shares_of_round
from rase.fusion.subscribers import READ_ESTIMATES

__all__ = ["router"]

router = APIRouter()

_Level = Annotated[float, Query(gt=0, lt=1, description="Of the intervals.")]
_Count = Annotated[int, Query(ge=1, le=64, description="How many of the commonest to name.")]
_Quantiles = Annotated[list[float] | None, Query(description="Which quantiles; the median.")]
_THAN = "The other side: as for the first, where it is left out."


@router.get(
    "/v1/shares",
    response_model=ShareAnswers,
    responses=PROBLEMS,
    tags=["subscriber"],
    dependencies=BEARER,
)
def get_shares(
    request: Request,
    *,
    at: At = None,
    campaign: Named = None,
    label: Label = None,
    count: _Count = 3,
    quantile: _Quantiles = None,
    level: _Level = 0.95,
) -> Response:
    """Return the shares of all states in a round, each and all at once; of the newest round."""

    def ask(centre: FusionCentre) -> ShareAnswers:
        questions = centre.questions
        found = questions.campaign(campaign)
        round = questions.last_round(found) if at is None else span_of(found, None, None, at)[0]
        wished = [0.5] if quantile is None else quantile
        return shares_of_round(
            questions, found, round, label=label, count=count, at=wished, level=level
        )

    return _answer(request, ask)


@router.get(
    "/v1/difference",
    response_model=Difference,
    responses=PROBLEMS,
    tags=["subscriber"],
    dependencies=BEARER,
)
def get_difference(
    request: Request,
    *,
    start: From = None,
    to: To = None,
    at: At = None,
    campaign: Named = None,
    label: Label = None,
    category: Category = None,
    than_from: Annotated[str | None, Query(description=_THAN)] = None,
    than_to: Annotated[str | None, Query(description=_THAN)] = None,
    than_at: Annotated[str | None, Query(description=_THAN)] = None,
    than_campaign: Annotated[str | None, Query(description=_THAN)] = None,
    than_label: Annotated[str | None, Query(description=_THAN)] = None,
    than_category: Annotated[str | None, Query(description=_THAN)] = None,
    level: _Level = 0.95,
) -> Response:
    """Return one answer less another: of labels, campaigns or periods, with the error of that."""

    def ask(centre: FusionCentre) -> Difference:
        time = (start, to, at)
        other_time = (than_from, than_to, than_at)
        if not any(other_time):
            other_time = time
        one = _side(centre, campaign, time, Part(label, category))
        other = _side(
            centre,
            than_campaign or campaign,
            other_time,
            Part(than_label or label, than_category or category),
        )
        return difference_of(centre.questions, one, other, level=level)

    return _answer(request, ask)


@router.get("/v1/alarms", responses=PROBLEMS, tags=["subscriber"], dependencies=BEARER)
def get_alarms(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1000, description="At most so many changes.")] = 100,
) -> Response:
    """Return how each alarm stands, what to expect of it, and their last changes."""

    def ask(centre: FusionCentre) -> dict[str, Any]:
        if centre.alarms is None:
            return {"alarms": [], "history": [], "undelivered": 0}
        return {
            "undelivered": len(centre.alarms.waiting()),
            "alarms": [asdict(one) for one in centre.alarms.status()],
            "history": [asdict(one) for one in centre.alarms.history(limit)],
        }

    centre = centre_of(request)
    asker = asker_of(request, READ_ESTIMATES)
    document = logging_refusals(request, asker, lambda: ask(centre))
    log_answer(request, asker, f"200 {len(document['alarms'])} alarms")
    return JSONResponse(document, headers={"Cache-Control": "no-store"})


def _side(
    centre: FusionCentre,
    name: str | None,
    time: tuple[str | None, str | None, str | None],
    part: Part,
) -> Side:
    """Return one side; without a time, of the newest round."""
    found = centre.questions.campaign(name)
    if not any(time):
        last = centre.questions.last_round(found)
        return Side(found, last, last, part)
    first, last = span_of(found, *time)
    # A period without an end goes up to now.
    last = min(last, centre.questions.last_round(found)) if time[2] is None else last
    if not first <= last < first + MAX_ROUNDS:
        raise Refused(BAD_QUESTION, f"Ask for periods of 1 to {MAX_ROUNDS} rounds.")
    return Side(found, first, last, part)


def _answer(request: Request, ask: Callable[[FusionCentre], ShareAnswers | Difference]) -> Response:
    """Answer a question, and write down that it was asked before the answer leaves."""
    centre = centre_of(request)
    asker = asker_of(request, READ_ESTIMATES)
    found: Any = logging_refusals(request, asker, lambda: ask(centre))
    log_answer(request, asker, "200 1 document")
    return JSONResponse(asdict(found), headers={"Cache-Control": "no-store"})
