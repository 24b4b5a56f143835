"""What operators do over HTTP: publish new versions, say who may ask, read the access log."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request
from starlette.responses import JSONResponse, Response

from rase.campaign import Campaign
from rase.domain import Range
from rase.fusion.access import (
    BEARER,
    PROBLEMS,
    asker_of,
    centre_of,
    log_answer,
    logging_refusals,
)
from rase.fusion.campaigns import next_version
from rase.fusion.centre import FusionCentre
from rase.fusion.countersign import NotCountersigned
from rase.fusion.mechanism import campaign_of
from rase.fusion.probes import outlook_fields, range_status
from rase.fusion.refusals import BAD_QUESTION, NOT_ALLOWED, NOT_SIGNED, Refused
from rase.fusion.subscribers import (
    ADMIN_CAMPAIGN,
    add_subscriber,
    list_access,
    list_subscribers,
    revoke_subscriber,
)
from rase.validation import CampaignInvalid
from rase.wire.signed import SignedCampaign

__all__ = ["router"]

router = APIRouter()


@router.get(
    "/v1/campaigns/{campaign_id}/effect", tags=["operator"], responses=PROBLEMS, dependencies=BEARER
)
def get_campaign_effect(
    request: Request,
    campaign_id: str,
    *,
    low: float | None = None,
    high: float | None = None,
    epsilon: Annotated[list[float] | None, Query()] = None,
    k_min: int | None = None,
    window_budget: float | None = None,
    shuffled_epsilon: float | None = None,
    delta: float | None = None,
    colluding: int | None = None,
    probe_every: int | None = None,
    not_after: int | None = None,
    beta: float | None = None,
    rho: float | None = None,
    n: Annotated[int | None, Query(ge=1, le=2**31)] = None,
) -> Response:
    """Return the version that some changes make, and its expected error, before it is published."""
    asker = asker_of(request, ADMIN_CAMPAIGN)
    asked = {
        "low": low,
        "high": high,
        "epsilon": epsilon,
        "k_min": k_min,
        "window_budget": window_budget,
        "shuffled_epsilon": shuffled_epsilon,
        "delta": delta,
        "colluding": colluding,
        "probe_every": probe_every,
        "not_after": not_after,
        "beta": beta,
        "rho": rho,
    }
    changes = {name: value for name, value in asked.items() if value is not None}

    def ask() -> dict[str, Any]:
        centre = centre_of(request)
        now = centre.questions.campaign(campaign_id)
        after = _version(now, now.not_before + 1, changes)
        before, then = centre.effects((now, after), n)
        clipping = None
        if after.domain != now.domain:
            reports = then[0].n
            clipping = range_status(centre.database, after, n=reports).advice
        return {
            "campaign": after.as_fields(),
            "clipping": None if clipping is None else outlook_fields(clipping.present),
            "now": [asdict(one) for one in before],
            "then": [asdict(one) for one in then],
        }

    document = logging_refusals(request, asker, ask)
    log_answer(request, asker, "200 effect")
    return JSONResponse(document)


@router.get(
    "/v1/campaigns/{campaign_id}/range", tags=["operator"], responses=PROBLEMS, dependencies=BEARER
)
def get_campaign_range(
    request: Request,
    campaign_id: str,
    low: float | None = None,
    high: float | None = None,
    n: Annotated[int | None, Query(ge=1, le=2**31)] = None,
) -> Response:
    """Return the range that probing rounds recommend, and what it and the present one lead to."""
    asker = asker_of(request, ADMIN_CAMPAIGN)

    def ask() -> dict[str, Any]:
        centre = centre_of(request)
        now = centre.questions.campaign(campaign_id)
        limits = None
        if low is not None or high is not None:
            try:
                limits = Range(now.low if low is None else low, now.high if high is None else high)
            except ValueError as error:
                raise Refused(BAD_QUESTION, str(error)) from None
        reports = centre.questions.recent_n(now) if n is None else n
        return range_status(centre.database, now, n=reports, limits=limits).as_fields()

    document = logging_refusals(request, asker, ask)
    log_answer(request, asker, "200 range")
    return JSONResponse(document)


@router.post(
    "/v1/campaigns/{campaign_id}/versions",
    status_code=201,
    tags=["operator"],
    responses=PROBLEMS,
    dependencies=BEARER,
)
def publish_version(
    request: Request,
    campaign_id: str,
    changes: Annotated[dict[str, Any], Body(description="`not_before` and the changed fields.")],
) -> Response:
    """Publish a new version for rounds to come, countersigned by the shuffler."""
    asker = asker_of(request, ADMIN_CAMPAIGN)
    centre = centre_of(request)
    signed = logging_refusals(
        request, asker, lambda: _publish(centre, campaign_id, changes, by=asker.name)
    )
    log_answer(request, asker, f"201 version {signed.campaign.version}")
    return JSONResponse({**signed.campaign.as_fields(), "hash": signed.hash.hex()}, status_code=201)


@router.get("/v1/access-log", tags=["operator"], responses=PROBLEMS, dependencies=BEARER)
def get_access_log(
    request: Request,
    subscriber: str | None = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
) -> Response:
    """Return who asked what, newest last."""
    asker_of(request, ADMIN_CAMPAIGN)
    centre = centre_of(request)
    found = list_access(centre.database, subscriber=subscriber, limit=limit)
    return JSONResponse([asdict(line) for line in found])


@router.get("/v1/subscribers", tags=["operator"], responses=PROBLEMS, dependencies=BEARER)
def get_subscribers(request: Request) -> Response:
    """Return who may ask, and who no longer may; tokens are not kept and so not shown."""
    asker_of(request, ADMIN_CAMPAIGN)
    found = [asdict(one) for one in list_subscribers(centre_of(request).database)]
    return JSONResponse({"subscribers": found})


@router.post(
    "/v1/subscribers", status_code=201, tags=["operator"], responses=PROBLEMS, dependencies=BEARER
)
def create_subscriber(
    request: Request,
    name: Annotated[str, Body()],
    scopes: Annotated[list[str], Body()],
    valid_s: Annotated[int | None, Body(ge=60, le=100 * 366 * 86400)] = None,
) -> Response:
    """Make a subscriber and return the token, once; it allows no more than its maker's."""
    asker = asker_of(request, ADMIN_CAMPAIGN)
    centre = centre_of(request)

    def make() -> str:
        _check_over_http(centre)
        for scope in scopes:
            asker.check_allows(scope)
        now = int(centre.clock.now_s())
        try:
            return add_subscriber(
                centre.database,
                name,
                scopes=tuple(dict.fromkeys(scopes)),
                expires_s=None if valid_s is None else now + valid_s,
                made_s=now,
                by=asker.name,
            )
        except ValueError as error:
            raise Refused(BAD_QUESTION, str(error)) from None

    token = logging_refusals(request, asker, make)
    log_answer(request, asker, f"201 {name}")
    return JSONResponse(
        {"name": name, "token": token}, status_code=201, headers={"Cache-Control": "no-store"}
    )


@router.delete(
    "/v1/subscribers/{name}",
    status_code=204,
    tags=["operator"],
    responses=PROBLEMS,
    dependencies=BEARER,
)
def delete_subscriber(request: Request, name: str) -> Response:
    """Take a token back; from now on it opens nothing."""
    asker = asker_of(request, ADMIN_CAMPAIGN)
    centre = centre_of(request)

    def revoke() -> None:
        _check_over_http(centre)
        try:
            revoke_subscriber(centre.database, centre.clock, name=name, by=asker.name)
        except ValueError as error:
            raise Refused(BAD_QUESTION, str(error)) from None

    logging_refusals(request, asker, revoke)
    log_answer(request, asker, "204 revoked")
    return Response(status_code=204)


def _check_over_http(centre: FusionCentre) -> None:
    if centre.publisher is None:
        raise Refused(
            NOT_ALLOWED,
            "This fusion centre is changed by its own command line only (admin_over_http).",
        )


def _publish(
    centre: FusionCentre, campaign_id: str, changes: dict[str, Any], *, by: str
) -> SignedCampaign:
    if centre.publisher is None:
        raise Refused(NOT_ALLOWED, "This fusion centre publishes by its own command line only.")
    now = centre.questions.campaign(campaign_id)
    not_before = changes.get("not_before")
    if not isinstance(not_before, int):
        raise Refused(BAD_QUESTION, "not_before must be the first round of the new version.")
    try:
        return centre.publisher.publish(_version(now, not_before, changes), by=by)
    except CampaignInvalid as error:
        raise Refused(BAD_QUESTION, str(error)) from None
    except NotCountersigned as error:
        raise Refused(NOT_SIGNED, str(error)) from None


def _version(campaign: Campaign, not_before: int, changes: dict[str, Any]) -> Campaign:
    # A token for versions must not become one for campaigns that nobody asked for.
    if {"id", "version"} & changes.keys():
        raise Refused(BAD_QUESTION, "id and version must be left out: they follow by themselves.")
    try:
        fields = next_version(campaign, not_before=not_before).as_fields() | changes
        after = campaign_of(fields)
        after.check_succeeds(campaign, from_round=not_before)
        return after
    except CampaignInvalid as error:
        raise Refused(BAD_QUESTION, str(error)) from None
