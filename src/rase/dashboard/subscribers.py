"""Subscribers: who may ask, new tokens shown once, tokens taken back, and who asked what."""

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from rase.dashboard.page import ADMIN, READ, Page, View, client_of, dashboard_of, render
from rase.dashboard.tables import csv_response
from rase.subscriber.answers import FusionRefused
from rase.subscriber.operator import AsyncOperator
from rase.theme.formatting import moment, sentence

__all__ = ["PAGE"]

_SHOWN: Final = 200
_SAVED: Final = 10_000
VALID: Final = {"": "for ever", "1": "1 day", "30": "30 days", "90": "90 days", "365": "a year"}


async def show_subscribers(request: Request) -> Response:
    """Show who may ask and who asked."""
    async with client_of(request) as client:
        return await _render_subscribers(request, client)


async def add_subscriber(request: Request) -> Response:
    """Make a token and show it, this once."""
    form = await request.form()
    name = str(form.get("name", "")).strip()
    scopes = [str(scope) for scope in form.getlist("scope")]
    days = str(form.get("valid", ""))
    async with client_of(request) as client:
        typed = {"name": name, "scopes": scopes, "valid": days}
        if days not in VALID:
            return await _render_subscribers(
                request, client, mistake="Choose how long.", typed=typed
            )
        if not scopes:
            return await _render_subscribers(
                request, client, mistake="Choose what it allows.", typed=typed
            )
        try:
            token = await client.add_subscriber(
                name, scopes=scopes, valid_s=86400 * int(days) if days else None
            )
        except FusionRefused as error:
            if error.status == 401:
                raise
            return await _render_subscribers(
                request, client, mistake=sentence(str(error)), typed=typed
            )
        return await _render_subscribers(request, client, made=(name, token))


async def revoke_subscriber(request: Request) -> Response:
    """Take a token back."""
    form = await request.form()
    name = str(form.get("name", ""))
    async with client_of(request) as client:
        if form.get("confirmed") != "yes":
            mistake = f"Nothing was revoked: tick the box to confirm for {name}."
            return await _render_subscribers(request, client, mistake=mistake)
        try:
            await client.revoke_subscriber(name)
        except FusionRefused as error:
            if error.status == 401:
                raise
            return await _render_subscribers(request, client, mistake=sentence(str(error)))
    return RedirectResponse("/subscribers?done=revoked", 303)


async def log_table(request: Request) -> Response:
    """Return the access log as CSV."""
    async with client_of(request) as client:
        found = await client.access_log(limit=_SAVED, subscriber=_read_query(request))
    rows = [{"time": moment(one["time_s"], "%Y-%m-%dT%H:%M:%SZ"), **one} for one in found]
    return csv_response(rows, "access-log.csv")


async def _render_subscribers(
    request: Request,
    client: AsyncOperator,
    *,
    mistake: str = "",
    typed: dict[str, Any] | None = None,
    made: tuple[str, str] | None = None,
) -> Response:
    only = _read_query(request)
    found = await client.subscribers()
    log = await client.access_log(limit=_SHOWN, subscriber=only)
    health = await client.health()
    now_s = dashboard_of(request).clock.now_s()
    return render(
        request,
        "subscribers.html",
        status=400 if mistake else 200,
        found=[{**one, "state": _state(one, now_s)} for one in found],
        log=log[::-1],
        only=only,
        most=_SHOWN,
        may_change=health["may_publish"],
        scopes={READ: "read estimates", ADMIN: "run the campaign, and see this page"},
        valid=VALID,
        typed=typed or {"name": "", "scopes": [READ], "valid": "90"},
        mistake=mistake,
        made=made,
        done=request.query_params.get("done") == "revoked",
    )


def _read_query(request: Request) -> str | None:
    return request.query_params.get("subscriber") or None


def _state(one: dict[str, Any], now_s: float) -> str:
    if one["revoked_s"] is not None:
        return "revoked"
    if one["expires_s"] is not None and one["expires_s"] <= now_s:
        return "expired"
    return "valid"


PAGE = Page(
    name="subscribers",
    title="Subscribers",
    group="Operate",
    scope=ADMIN,
    views=(
        View("/subscribers", show_subscribers),
        View("/subscribers", add_subscriber, ("POST",)),
        View("/subscribers/revoke", revoke_subscriber, ("POST",)),
        View("/subscribers/log.csv", log_table),
    ),
)
