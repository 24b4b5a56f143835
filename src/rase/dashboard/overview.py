"""Overview: all campaigns at a glance, each with its newest estimates and what deserves a look."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from rase.dashboard.alerts import Alert, alerts
from rase.dashboard.fleet import Fleet, fleets_of
from rase.dashboard.page import READ, Page, View, client_of, dashboard_of, render
from rase.dashboard.tables import as_percent
from rase.dashboard.timeline import zone_of_visitor
from rase.subscriber.operator import AsyncOperator

__all__ = ["PAGE", "sparkline"]

_RECENT: Final = 48
_WIDTH: Final = 120
_HEIGHT: Final = 28
_AGAIN_S: Final = 15


@dataclass(frozen=True, slots=True)
class _Line:
    """One campaign.

    Args:
        fleet: The campaign.
        newest: Its newest round that is not open; None before the first.
        answered: Its newest estimate; None before the first.
        alerts: What deserves a look, worst first.
        line: Its newest estimates as the points of a polyline; empty for fewer than two.
        withheld: How many of the newest rounds were withheld.
        recent: How many newest rounds there are.
    """

    fleet: Fleet
    newest: dict[str, Any] | None
    answered: dict[str, Any] | None
    alerts: list[Alert]
    line: str
    withheld: int
    recent: int

    @property
    def kind(self) -> str:
        """How it is: "bad", "warn" or "good"."""
        return self.alerts[0].kind if self.alerts else "good"


async def show_overview(request: Request) -> Response:
    """Show all campaigns; a script asks for the changing part alone."""
    session_key = f"overview {request.scope['rase_session_id']}"
    lines = await dashboard_of(request).hub.ask_once(session_key, "", lambda: _ask_all(request))
    if not lines:
        return render(request, "no_campaign.html")
    zone = zone_of_visitor(request)
    context: dict[str, Any] = {"lines": lines, "zone": zone, "again_s": _AGAIN_S}
    if request.query_params.get("part") == "1":
        part = dashboard_of(request).templates.get_template("overview_part.html")
        return HTMLResponse(part.render(**context), headers={"Cache-Control": "no-store"})
    return render(request, "overview.html", **context)


def sparkline(values: Sequence[float | None]) -> str:
    """Return estimates, oldest first, as the points of a polyline in a box of 120 by 28.

    Example:
        >>> sparkline([1.0, None, 3.0])
        '0.0,26.0 120.0,2.0'
        >>> sparkline([1.0])
        ''
    """
    known = [(place, value) for place, value in enumerate(values) if value is not None]
    if len(known) < 2:
        return ""
    low, high = min(value for _, value in known), max(value for _, value in known)
    step = _WIDTH / (len(values) - 1)
    room = (_HEIGHT - 4) / (high - low) if high > low else 0.0
    return " ".join(f"{place * step:.1f},{2 + room * (high - value):.1f}" for place, value in known)


async def _ask_all(request: Request) -> list[_Line]:
    now_s = dashboard_of(request).clock.now_s()
    async with client_of(request) as client:
        return [await _ask(client, fleet, now_s) for fleet in await fleets_of(client)]


async def _ask(client: AsyncOperator, fleet: Fleet, now_s: float) -> _Line:
    client.about(fleet.campaign.id)
    rounds: Sequence[Mapping[str, Any]] = (await client.rounds(limit=_RECENT))["rounds"]
    if fleet.campaign.states is not None:
        rounds = as_percent(rounds)
    done = [dict(one) for one in rounds if one["state"] != "open"]
    return _Line(
        fleet=fleet,
        newest=done[0] if done else None,
        answered=next((one for one in done if one["status"] == "ok"), None),
        alerts=alerts(fleet.campaign, rounds, expected_n=fleet.expected_n, now_s=now_s),
        line=sparkline([one["value"] for one in reversed(done)]),
        withheld=sum(one["state"] == "withheld" for one in done),
        recent=len(done),
    )


PAGE = Page(
    name="overview",
    title="Overview",
    group="Fleet",
    scope=READ,
    views=(View("/overview", show_overview),),
)
