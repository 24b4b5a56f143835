"""Campaign: what is agreed, which range is better, and a new (beta, rho) before it counts."""

import math
from typing import Any

from starlette.datastructures import FormData, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from rase.campaign import Campaign
from rase.dashboard.fleet import Fleet, fleet_of, promises_of
from rase.dashboard.page import (
    ADMIN,
    Page,
    View,
    client_of,
    dashboard_of,
    render,
    session_of,
)
from rase.subscriber.answers import FusionRefused
from rase.subscriber.operator import AsyncOperator

__all__ = ["PAGE"]

_ROUNDS_AHEAD = 2


async def show_campaign(request: Request) -> Response:
    """Show the campaign; with other parameters in the address, what they would lead to."""
    async with client_of(request) as client:
        fleet = await fleet_of(request, client)
        if fleet is None:
            return render(request, "no_campaign.html")
        asked = request.query_params if "beta" in request.query_params else None
        return await _render_campaign(request, client, fleet, asked=asked)


async def publish_campaign(request: Request) -> Response:
    """Publish what was previewed, if it was confirmed."""
    form = await request.form()
    async with client_of(request) as client:
        fleet = await fleet_of(request, client)
        if fleet is None:
            raise HTTPException(404, "There is no campaign yet.")
        if form.get("confirmed") != "yes":
            mistake = "Nothing was published: tick the box to confirm that you want it."
            return await _render_campaign(request, client, fleet, asked=form, mistake=mistake)
        try:
            beta, rho = _share(form, "beta"), _share(form, "rho")
            first = _whole(form, "not_before")
            # Publishing what another operator has changed meanwhile would undo their change.
            if form.get("version") != str(fleet.campaign.version):
                raise ValueError(
                    "Another version was published meanwhile. Look at the effect again."
                )
            made = await client.publish(fleet.campaign.id, beta=beta, rho=rho, not_before=first)
        except (ValueError, FusionRefused) as error:
            if isinstance(error, FusionRefused) and error.status == 401:
                raise
            return await _render_campaign(
                request, client, fleet, asked=form, mistake=_sentence(error)
            )
    more = f"&{fleet.query}" if fleet.query else ""
    return RedirectResponse(f"/campaign?done={made['version']}{more}", 303)


async def _render_campaign(
    request: Request,
    client: AsyncOperator,
    fleet: Fleet,
    *,
    asked: QueryParams | FormData | None,
    mistake: str = "",
) -> Response:
    session = session_of(request)
    may_change = session is not None and session.allows(ADMIN)
    context: dict[str, Any] = {"may_publish": False, "effect": None, "n": "", "ranges": None}
    campaign = fleet.campaign
    values = {"beta": f"{campaign.beta:g}", "rho": f"{campaign.rho:g}"}
    if may_change:
        context["may_publish"] = (await client.health())["may_publish"]
        context["ranges"] = await client.range_advice(campaign.id)
        if asked is not None:
            values = {name: str(asked.get(name, "")) for name in values}
            context["n"] = str(asked.get("n", ""))
            try:
                context["effect"] = await _effect(client, campaign, asked)
            except (ValueError, FusionRefused) as error:
                if isinstance(error, FusionRefused) and error.status == 401:
                    raise
                mistake = mistake or _sentence(error)
    now = dashboard_of(request).clock.now_s()
    first = max(int(now // campaign.round_s) + _ROUNDS_AHEAD, campaign.not_before + 1)
    done = request.query_params.get("done", "")
    return render(
        request,
        "campaign.html",
        status=400 if mistake else 200,
        fleet=fleet,
        promises=promises_of(fleet),
        bound=campaign.precision.epsilon_bound(campaign.domain),
        may_change=may_change,
        mistake=mistake,
        values=values,
        first=first,
        first_s=first * campaign.round_s,
        done=done if done == str(campaign.version) else "",
        **context,
    )


async def _effect(
    client: AsyncOperator, campaign: Campaign, asked: QueryParams | FormData
) -> dict[str, Any]:
    beta, rho = _share(asked, "beta"), _share(asked, "rho")
    more = {"n": _whole(asked, "n")} if asked.get("n") else {}
    found = await client.effect(campaign.id, beta=beta, rho=rho, **more)
    return {**found, "beta": beta, "rho": rho, "n": found["then"][0]["n"]}


def _share(form: QueryParams | FormData, name: str) -> float:
    try:
        value = float(str(form.get(name, "")))
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must be a number from 0 to 1.")
    return value


def _whole(form: QueryParams | FormData, name: str) -> int:
    text = str(form.get(name, ""))
    if not text.isdecimal() or not 1 <= len(text) <= 10 or int(text) == 0:
        words = {"n": "Reports in a round", "not_before": "The first round"}[name]
        raise ValueError(f"{words} must be a whole number above 0.")
    return int(text)


def _sentence(error: Exception) -> str:
    text = str(error)
    return text[:1].upper() + text[1:]


PAGE = Page(
    name="campaign",
    title="Campaign",
    group="Fleet",
    views=(View("/campaign", show_campaign), View("/campaign", publish_campaign, ("POST",))),
)
