"""Health: whether the fusion centre keeps up, what it took in, and how much room it has."""

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from rase.dashboard.page import ADMIN, Page, View, client_of, dashboard_of, render

__all__ = ["PAGE", "health_concerns"]

_LITTLE_ROOM: Final = 1 << 30
_MANY_BEHIND: Final = 3
_AGAIN_S: Final = 15


async def show_health(request: Request) -> Response:
    """Show how the fusion centre does."""
    async with client_of(request) as client:
        found = await client.health()
    context: dict[str, Any] = {
        "found": found,
        "concerns": health_concerns(found),
        "again_s": _AGAIN_S,
    }
    if request.query_params.get("part") == "1":
        part = dashboard_of(request).templates.get_template("health_part.html")
        return HTMLResponse(part.render(**context), headers={"Cache-Control": "no-store"})
    return render(request, "health.html", **context)


def health_concerns(found: dict[str, Any]) -> list[str]:
    """Return what deserves a look, one sentence each."""
    concerns = [
        f"{one['campaign']} is {one['rounds_behind']} rounds behind: the shuffler has not sent "
        "them, or they are not estimated yet."
        for one in found["campaigns"]
        if one["rounds_behind"] >= _MANY_BEHIND
    ]
    concerns += [
        f"{one['rounds_due']} rounds of {one['campaign']} wait to be estimated."
        for one in found["campaigns"]
        if one["rounds_due"] >= _MANY_BEHIND
    ]
    concerns += [
        f"No round of {one['campaign']} was ever estimated: {_never(one)}"
        for one in found["campaigns"]
        if one["rounds_final"] == 0
    ]
    if not found["campaigns"]:
        concerns.append("No campaign is published, so no device can report.")
    storage = found["storage"]
    if storage is not None and storage["disk_free_bytes"] < _LITTLE_ROOM:
        concerns.append("The disk is nearly full; a round that cannot be written is not final.")
    failed = found["counters"].get("rase_fusion_ticks_failed_total", 0)
    if failed:
        concerns.append(f"Estimating failed {failed} times since the start; the log says why.")
    return concerns


def _never(campaign: dict[str, Any]) -> str:
    if campaign["rounds_withheld"]:
        return "every round so far was withheld, because too few devices reported."
    return "no batch came from the shuffler. Are devices enrolled, and do they report?"


PAGE = Page(
    name="health",
    title="Health",
    group="Operate",
    scope=ADMIN,
    views=(View("/health", show_health),),
)
