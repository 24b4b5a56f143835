"""Alarms: how each stands, what to expect of it, why it never can be raised, and what happened."""

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from rase.dashboard.fleet import Fleet, fleets_of
from rase.dashboard.page import READ, Page, View, client_of, dashboard_of, render
from rase.dashboard.timeline import zone_of_visitor
from rase.theme.formatting import duration, number

__all__ = ["PAGE", "watched"]

_SHOWN: Final = 50
_AGAIN_S: Final = 15
_ORDER: Final = ("raised", "refused", "waiting", "quiet")


async def show_alarms(request: Request) -> Response:
    """Show all alarms; a script asks for the changing part alone."""
    async with client_of(request) as client:
        fleets = {one.campaign.id: one for one in await fleets_of(client)}
        found = await client.alarms(_SHOWN)
    found["alarms"].sort(key=lambda one: (_ORDER.index(one["state"]), one["alarm"]))
    context: dict[str, Any] = {
        "found": found,
        "rows": [_row(one, fleets.get(one["campaign"])) for one in found["alarms"]],
        "past": [_row(one, fleets.get(one["campaign"])) for one in found["history"]],
        "zone": zone_of_visitor(request),
        "again_s": _AGAIN_S,
    }
    if request.query_params.get("part") == "1":
        part = dashboard_of(request).templates.get_template("alarms_part.html")
        return HTMLResponse(part.render(**context), headers={"Cache-Control": "no-store"})
    return render(request, "alarms.html", **context)


def watched(alarm: dict[str, Any], unit: str) -> str:
    """Return in words what raises an alarm.

    Example:
        >>> alarm = {"kind": "above", "level": 0.8, "category": "idle", "label": None}
        >>> watched(alarm, "")
        'share of idle above 80 %'
        >>> watched({"kind": "change", "level": 0, "category": None, "label": "north"}, "W")
        'mean of label north changes'
    """
    what = f"share of {alarm['category']}" if alarm["category"] else "mean"
    of = f" of label {alarm['label']}" if alarm["label"] else ""
    if alarm["kind"] == "change":
        return f"{what}{of} changes"
    return f"{what}{of} {alarm['kind']} {_amount(alarm, alarm['level'], unit)}"


def _row(alarm: dict[str, Any], fleet: Fleet | None) -> dict[str, Any]:
    """Return an alarm, or a change of one, as it is shown."""
    unit = fleet.campaign.unit if fleet is not None else ""
    shown = {**alarm, "watches": watched(alarm, unit), "notices": None}
    if alarm.get("value") is not None:
        shown["value"] = _amount(alarm, alarm["value"], unit)
    if alarm.get("shift") is not None:
        shown["shift"] = _amount(alarm, alarm["shift"], unit, points=True)
    rounds = alarm.get("detection_rounds")
    if rounds is not None and fleet is not None:
        shown["notices"] = duration(rounds * fleet.campaign.round_s)
    return shown


def _amount(alarm: dict[str, Any], value: float, unit: str, *, points: bool = False) -> str:
    if alarm["category"]:
        return f"{number(100 * value)} {'percentage points' if points else '%'}"
    return f"{number(value)} {unit}".rstrip()


PAGE: Final = Page(
    name="alarms",
    title="Alarms",
    group="Fleet",
    scope=READ,
    views=(View("/alarms", show_alarms),),
)
