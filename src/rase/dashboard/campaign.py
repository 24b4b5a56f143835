"""Campaign: what is agreed, which range is better, and a new version before it counts."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from starlette.datastructures import FormData, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from rase.campaign import Campaign
from rase.dashboard.fleet import Fleet, campaign_from, fleet_of, promises_of
from rase.dashboard.page import (
    ADMIN,
    Page,
    View,
    client_of,
    dashboard_of,
    render,
    session_of,
)
from rase.device.consent import needs_consent
from rase.subscriber.answers import FusionRefused
from rase.subscriber.operator import AsyncOperator
from rase.theme.formatting import sentence

__all__ = ["PAGE"]

_ROUNDS_AHEAD = 2


@dataclass(frozen=True, slots=True)
class _Field:
    """A parameter that a new version may change.

    Args:
        name: The field of the campaign.
        label: As people call it.
        hint: What it does.
        is_whole: Whether it is a whole number.
        is_promise: Whether only campaigns with a promise towards the fusion centre have it.
    """

    name: str
    label: str
    hint: str
    is_whole: bool = False
    is_promise: bool = False


_FIELDS: Final = (
    _Field("low", "Range from", "Readings below are reported as this."),
    _Field("high", "Range to", "Readings above are reported as this. A narrow range errs less."),
    _Field(
        "epsilon", "Epsilon of a report", "Several budgets with commas between. More errs less."
    ),
    _Field("window_budget", "Epsilon in a window", "What a device spends at most; may only fall."),
    _Field(
        "shuffled_epsilon",
        "Epsilon towards the fusion centre",
        "What a report gives away to it.",
        is_promise=True,
    ),
    _Field("delta", "Delta of it", "May only fall.", is_promise=True),
    _Field("k_min", "Reports needed", "Fewer are withheld; may only rise.", is_whole=True),
    _Field("probe_every", "Probe every … rounds", "Shows a better range; 0 never.", is_whole=True),
    _Field("not_after", "Last round", "When the campaign ends.", is_whole=True),
    _Field("beta", "beta", "Precision: how close, as a share of the reading."),
    _Field("rho", "rho", "Precision: how often, as a probability."),
)


_PRECISION: Final = ("beta", "rho")
_OF_NUMBERS: Final = ("low", "high", "probe_every")


async def show_campaign(request: Request) -> Response:
    """Show the campaign; with other parameters in the address, what they would lead to."""
    async with client_of(request) as client:
        fleet = await fleet_of(request, client)
        if fleet is None:
            return render(request, "no_campaign.html")
        names = {one.name for one in _FIELDS}
        asked = request.query_params if names & request.query_params.keys() else None
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
            changes = _read_changes(fleet.campaign, form)
            first = _whole(form, "not_before", "The first round")
            # Publishing what another operator has changed meanwhile would undo their change.
            if form.get("version") != str(fleet.campaign.version):
                raise ValueError(
                    "Another version was published meanwhile. Look at the effect again."
                )
            made = await client.publish(fleet.campaign.id, not_before=first, **changes)
        except (ValueError, FusionRefused) as error:
            if isinstance(error, FusionRefused) and error.status == 401:
                raise
            return await _render_campaign(
                request, client, fleet, asked=form, mistake=sentence(str(error))
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
    values = _values_of(campaign)
    if may_change:
        context["may_publish"] = (await client.health())["may_publish"]
        if campaign.states is None:
            context["ranges"] = await client.range_advice(campaign.id)
        if asked is not None:
            values |= {name: str(asked[name]) for name in values if asked.get(name)}
            context["n"] = str(asked.get("n", ""))
            try:
                context["effect"] = await _effect(client, fleet, asked)
            except (ValueError, FusionRefused) as error:
                if isinstance(error, FusionRefused) and error.status == 401:
                    raise
                mistake = mistake or sentence(str(error))
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
        inputs=[one for one in _FIELDS if one.name in values],
        values=values,
        first=first,
        first_s=first * campaign.round_s,
        done=done if done == str(campaign.version) else "",
        **context,
    )


async def _effect(
    client: AsyncOperator, fleet: Fleet, asked: QueryParams | FormData
) -> dict[str, Any]:
    """Return what changes, what it does to the error, and what owners are then promised."""
    now = fleet.campaign
    changes = _read_changes(now, asked)
    more = {"n": _whole(asked, "n", "Reports in a round")} if asked.get("n") else {}
    found = await client.effect(now.id, **changes, **more)
    then = campaign_from(found["campaign"])
    before, after = (promises_of(replace(fleet, campaign=one)) for one in (now, then))
    old, new = _values_of(now), _values_of(then)
    return {
        **found,
        "n": found["then"][0]["n"],
        "changed": [
            (one.label, old[one.name], new[one.name])
            for one in _FIELDS
            if one.name in new and old.get(one.name) != new[one.name]
        ],
        "clips": then.low > now.low or then.high < now.high,
        "needs_consent": needs_consent(then, now),
        "gone": [text for text in before if text not in after],
        "added": [text for text in after if text not in before],
        "flags": _flags(changes),
    }


def _values_of(campaign: Campaign) -> dict[str, str]:
    """Return the parameters as their inputs show them; without those that it does not have."""
    return {
        one.name: ", ".join(f"{number:.12g}" for number in campaign.epsilon)
        if one.name == "epsilon"
        else f"{getattr(campaign, one.name):.12g}"
        for one in _FIELDS
        if (campaign.delta is not None or not one.is_promise)
        # Only this mechanism looks at the precision.
        and (campaign.mechanism == "budget-aware" or one.name not in _PRECISION)
        # States have no range, and nothing to probe for.
        and (campaign.states is None or one.name not in _OF_NUMBERS)
    }


def _read_changes(campaign: Campaign, asked: QueryParams | FormData) -> dict[str, Any]:
    """Return the parameters that differ from the campaign's; empty inputs do not."""
    now = _values_of(campaign)
    changes: dict[str, Any] = {}
    for one in _FIELDS:
        text = str(asked.get(one.name) or "").strip()
        if one.name not in now or text in ("", now[one.name]):
            continue
        if one.name == "epsilon":
            changes[one.name] = [_number(part, one.label) for part in text.split(",")]
        elif one.is_whole:
            if not text.isdecimal() or len(text) > 10:
                raise ValueError(f"{one.label} must be a whole number, got {text[:40]!r}.")
            changes[one.name] = int(text)
        else:
            changes[one.name] = _number(text, one.label)
    return changes


def _number(text: str, label: str) -> float:
    try:
        value = float(text.strip())
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{label} must be a number, got {text.strip()[:40]!r}.")
    return value


def _whole(form: QueryParams | FormData, name: str, words: str) -> int:
    text = str(form.get(name, ""))
    if not text.isdecimal() or not 1 <= len(text) <= 10 or int(text) == 0:
        raise ValueError(f"{words} must be a whole number above 0.")
    return int(text)


def _flags(changes: Mapping[str, Any]) -> str:
    """Return the changes as the command line takes them."""
    names = {"not_after": "last-round"}
    return " ".join(
        f"--{names.get(name, name.replace('_', '-'))} {one:.12g}"
        for name, value in changes.items()
        for one in (value if isinstance(value, list) else [value])
    )


PAGE = Page(
    name="campaign",
    title="Campaign",
    group="Fleet",
    views=(View("/campaign", show_campaign), View("/campaign", publish_campaign, ("POST",))),
)
