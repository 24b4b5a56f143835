"""What pages show over HTTP: whose token, which campaigns, many rounds at a glance, health."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from rase.fusion.access import (
    BEARER,
    PROBLEMS,
    asker_of,
    centre_of,
    log_answer,
    logging_refusals,
)
from rase.fusion.answers import check_method
from rase.fusion.campaigns import known_campaigns
from rase.fusion.health import health_of
from rase.fusion.history import MAX_POINTS, kept_in_range, page_of_rounds, trace
from rase.fusion.routes import From, Named, To, span_of
from rase.fusion.subscribers import ADMIN_CAMPAIGN, READ_ESTIMATES
from rase.wire.signed import campaign_hash

__all__ = ["router"]

_FRESH = {"Cache-Control": "no-store"}

router = APIRouter()


@router.get("/v1/token", tags=["subscriber"], responses=PROBLEMS, dependencies=BEARER)
def token(request: Request) -> Response:
    """Return whose token this is, its scopes and when it ends."""
    asker = asker_of(request, None)
    document = {"name": asker.name, "scopes": list(asker.scopes), "expires_s": asker.expires_s}
    return JSONResponse(document, headers=_FRESH)


@router.get("/v1/campaigns", tags=["subscriber"], responses=PROBLEMS, dependencies=BEARER)
def campaigns(request: Request) -> Response:
    """Return the newest version of every campaign, with how many reports a round of late had."""
    asker_of(request, None)
    centre = centre_of(request)
    with centre.database.snapshot() as transaction:
        names = known_campaigns(transaction)
    found = [centre.questions.campaign(name) for name in names]
    documents = [
        {
            **one.as_fields(),
            "hash": campaign_hash(one).hex(),
            "noisy_values_kept_s": centre.policy.keep_values_s,
            "expected_n": centre.questions.recent_n(one),
        }
        for one in found
    ]
    return JSONResponse({"campaigns": documents}, headers=_FRESH)


@router.get("/v1/trace", tags=["subscriber"], responses=PROBLEMS, dependencies=BEARER)
def traced(
    request: Request,
    *,
    start: From = None,
    to: To = None,
    campaign: Named = None,
    method: Annotated[str | None, Query(description="The estimator.")] = None,
    points: Annotated[int, Query(ge=1, le=MAX_POINTS, description="At most so many.")] = 300,
) -> Response:
    """Return the rounds of a time put together into few points: means with their intervals."""
    asker = asker_of(request, READ_ESTIMATES)
    centre = centre_of(request)

    def ask() -> dict[str, Any]:
        found = centre.questions.campaign(campaign)
        check_method(found, method)
        name = found.estimators[0] if method in (None, "all") else str(method)
        first, last = span_of(found, start, to, None)
        width, told = trace(
            centre.database, found, first=first, last=last, points=points, method=name
        )
        return {
            "campaign": found.id,
            "unit": found.unit,
            "method": name,
            "round_s": found.round_s,
            "rounds_per_point": width,
            "points": [
                asdict(one) for one in kept_in_range(centre.database, found, told, method=name)
            ],
        }

    document = logging_refusals(request, asker, ask)
    log_answer(request, asker, f"200 {len(document['points'])} points")
    return JSONResponse(document, headers=_FRESH)


@router.get("/v1/rounds", tags=["subscriber"], responses=PROBLEMS, dependencies=BEARER)
def rounds(
    request: Request,
    *,
    campaign: Named = None,
    method: Annotated[str | None, Query(description="The estimator.")] = None,
    before: Annotated[int | None, Query(ge=0, le=2**32, description="Only earlier rounds.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Return a page of rounds, newest first, also those still open; `next` begins the next page."""
    asker = asker_of(request, READ_ESTIMATES)
    centre = centre_of(request)

    def ask() -> dict[str, Any]:
        found = centre.questions.campaign(campaign)
        return page_of_rounds(
            centre.database,
            centre.questions,
            found,
            before=before,
            limit=limit,
            method=None if method == "all" else method,
        )

    document = logging_refusals(request, asker, ask)
    log_answer(request, asker, f"200 {len(document['rounds'])} rows")
    return JSONResponse(document, headers=_FRESH)


@router.get("/v1/health", tags=["operator"], responses=PROBLEMS, dependencies=BEARER)
def health(request: Request) -> Response:
    """Return how the fusion centre does: rounds behind, newest batch, space, counters."""
    asker_of(request, ADMIN_CAMPAIGN)
    return JSONResponse(health_of(centre_of(request)), headers=_FRESH)
