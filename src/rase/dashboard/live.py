"""Live: the newest estimates of the fleet, their errors and the shuffler's word, as they come.

Alerts name what needs attention: no round for long, withheld rounds, few reports.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse

from rase.campaign import Campaign
from rase.dashboard.fleet import Fleet, fleet_of
from rase.dashboard.page import (
    READ,
    SESSION_COOKIE,
    Page,
    View,
    client_of,
    dashboard_of,
    render,
    session_of,
)
from rase.dashboard.tables import chart_rows, csv_response
from rase.subscriber.operator import AsyncOperator
from rase.theme.formatting import duration, number

__all__ = ["PAGE", "RANGES", "Alert", "alerts", "overdue_s"]

RANGES: Final = {
    "5m": ("5 min", 300),
    "1h": ("1 h", 3600),
    "6h": ("6 h", 6 * 3600),
    "1d": ("24 h", 86400),
    "7d": ("7 d", 7 * 86400),
    "25d": ("25 d", 25 * 86400),
}
_POINTS = 300
_RECENT = 24
# As many rounds as make a line; the first range that holds them is shown first.
_ENOUGH = 24
# How often a page asks again while rounds are late. Answers are shared for as long.
_AGAIN_S = 10.0
_ALIVE = b"event: alive\ndata: 1\n\n"


async def show_live(request: Request) -> Response:
    """Show everything; a script asks for the changing part alone."""
    is_part = request.query_params.get("part") == "1"
    chosen = request.query_params.get("range", "")
    fleet, view = await dashboard_of(request).hub.ask_once(
        _stream(request), chosen if chosen in RANGES else "", lambda: _ask_all(request)
    )
    if fleet is None:
        return render(request, "no_campaign.html")
    if is_part:
        return HTMLResponse(view["part"], headers={"Cache-Control": "no-store"})
    return render(request, "live.html", fleet=fleet, **view)


async def table(request: Request) -> Response:
    """Return what the chart shows as CSV."""
    fleet, view = await _ask_all(request)
    if fleet is None:
        raise HTTPException(404, "There is no campaign yet.")
    return csv_response(view["trace"]["points"], f"{fleet.campaign.id}-{view['range']}.csv")


async def events(request: Request) -> Response:
    """Hand the live stream on, with the visitor's own token, until either side ends."""
    async with client_of(request) as client:
        fleet = await fleet_of(request, client)
    if fleet is None:
        raise HTTPException(404, "There is no campaign yet.")
    return StreamingResponse(
        _forward_stream(request, fleet),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _forward_stream(request: Request, fleet: Fleet) -> AsyncIterator[bytes]:
    dashboard = dashboard_of(request)
    session = session_of(request)
    assert session is not None  # noqa: S101 - the page is only called with one
    session_id = request.cookies.get(SESSION_COOKIE)

    async def open_stream() -> AsyncIterator[bytes]:
        async with dashboard.connect(session.token) as client:
            client.about(fleet.campaign.id)
            async for piece in client.listen():
                yield piece

    async with aclosing(dashboard.hub.listen(_stream(request), open_stream)) as events:
        async for event in events:
            # Listening does not keep a session alive, and ends with it.
            if dashboard.sessions.find(session_id, is_use=False) is None:
                return
            # A browser's scripts do not see comments, and must see that the stream lives.
            yield _ALIVE if event.startswith(b":") else event


def _stream(request: Request) -> str:
    """Return what all pages of a token and a campaign share."""
    session = session_of(request)
    assert session is not None  # noqa: S101 - the page is only called with one
    return f"{request.query_params.get('campaign', '')} {session.token}"


async def _ask_all(request: Request) -> tuple[Fleet | None, dict[str, Any]]:
    """Ask the three questions of the page."""
    async with client_of(request) as client:
        fleet = await fleet_of(request, client)
        if fleet is None:
            return None, {}
        view = await _view(request, client, fleet)
    # The part is the same for all who share the answer, and most of the work.
    part = dashboard_of(request).templates.get_template("live_part.html")
    return fleet, {**view, "part": Markup(part.render(fleet=fleet, **view))}  # noqa: S704 - escaped


async def _view(request: Request, client: AsyncOperator, fleet: Fleet) -> dict[str, Any]:
    clock = dashboard_of(request).clock
    chosen = request.query_params.get("range", "")
    if chosen not in RANGES:
        chosen = _usual(fleet.campaign)
    now_s = clock.now_s()
    start_ms = round(1000 * (now_s - RANGES[chosen][1]))
    trace = await client.trace(start=max(start_ms, 0), points=_POINTS)
    page = await client.rounds(limit=_RECENT)
    done = [one for one in page["rounds"] if one["state"] != "open"]
    newest_answer = next((one for one in done if one["status"] == "ok"), None)
    late_at_s = overdue_s(fleet.campaign, page["rounds"])
    late_in_s = None if late_at_s is None else late_at_s - now_s
    return {
        "is_late": late_in_s is not None and late_in_s < 0,
        # While rounds are late the page asks again and again: what it says of it grows old.
        "again_s": None if late_in_s is None else max(late_in_s + 1, _AGAIN_S),
        "range": chosen,
        "ranges": RANGES,
        "trace": trace,
        "rows": chart_rows(trace["points"], fleet.campaign.round_s),
        "newest": done[0] if done else None,
        "answered": newest_answer,
        "rounds": page["rounds"],
        "alerts": alerts(fleet.campaign, page["rounds"], expected_n=fleet.expected_n, now_s=now_s),
        "now_s": now_s,
    }


def _usual(campaign: Campaign) -> str:
    wanted_s = _ENOUGH * campaign.round_s
    return next((name for name, (_, length_s) in RANGES.items() if length_s >= wanted_s), "25d")


PAGE = Page(
    name="live",
    title="Live",
    group="Fleet",
    scope=READ,
    views=(View("/live", show_live), View("/live.csv", table), View("/live/events", events)),
)


_LATE_ROUNDS = 3
_MANY_WITHHELD = 0.1
_FEW = 0.5


@dataclass(frozen=True, slots=True)
class Alert:
    """Hold one thing that deserves a look.

    Args:
        kind: "bad" if something is wrong now, "warn" if it may be.
        text: One or two sentences.
    """

    kind: str
    text: str


def overdue_s(campaign: Campaign, rounds: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the second from which rounds are late; None if the campaign expects no more.

    Args:
        campaign: The campaign.
        rounds: The newest rounds, newest first, as the fusion centre reports them.
    """
    newest = next(
        (int(one["round"]) for one in rounds if one["state"] != "open"), campaign.not_before - 1
    )
    if newest >= campaign.not_after:
        return None
    return float(campaign.closes_s(newest + 1) + _LATE_ROUNDS * campaign.round_s)


def alerts(
    campaign: Campaign, rounds: Sequence[Mapping[str, Any]], *, expected_n: int, now_s: float
) -> list[Alert]:
    """Return what deserves a look, worst first.

    Args:
        campaign: The campaign.
        rounds: The newest rounds, newest first, as the fusion centre sends them.
        expected_n: How many reports recent rounds had on average.
        now_s: The present second.
    """
    done = [one for one in rounds if one["state"] != "open"]
    found = []
    present = int(now_s // campaign.round_s)
    late_at_s = overdue_s(campaign, rounds)
    if late_at_s is not None and now_s > late_at_s:
        silent_s = now_s - late_at_s + (_LATE_ROUNDS + 1) * campaign.round_s
        since = f"for {duration(silent_s)}" if done else "since the campaign began"
        found.append(
            Alert(
                "bad",
                f"No round became final {since}; one is due every {duration(campaign.round_s)}. "
                "Do devices report, and does the shuffler still send?",
            )
        )
    if present > campaign.not_after:
        found.append(
            Alert("warn", "The campaign has ended. Publish a new version for further rounds.")
        )
    withheld = [one for one in done if one["state"] == "withheld"]
    if done and done[0]["state"] == "withheld":
        found.append(
            Alert(
                "warn",
                f"The newest round was withheld: fewer than {number(campaign.k_min)} reports came.",
            )
        )
    elif len(withheld) > _MANY_WITHHELD * len(done):
        found.append(
            Alert(
                "warn",
                f"{len(withheld)} of the last {len(done)} rounds were withheld: fewer than "
                f"{number(campaign.k_min)} reports came.",
            )
        )
    if done and done[0]["state"] == "final" and done[0]["n"] < _FEW * expected_n:
        found.append(
            Alert(
                "warn",
                f"Few reports: {number(int(done[0]['n']))} in the newest round, "
                f"about {number(expected_n)} are usual.",
            )
        )
    return found
