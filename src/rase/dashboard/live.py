"""The timeline: what the fleet's mean was in a time, how sure that is, and what came since.

A time of the address (`rase.dashboard.timeline`) as one number, as a chart with participation
below it, as a table, as a file and as the same question elsewhere; of all devices or a label, by
any estimator; compared with an earlier time or another campaign. The newest round follows the
stream.
"""

import math
from bisect import bisect_right
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse

from rase.answer import FIELDS
from rase.campaign import Campaign
from rase.dashboard.alerts import alerts, overdue_s
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
from rase.dashboard.snippets import Question, snippets
from rase.dashboard.tables import as_percent, chart_rows, csv_stream
from rase.dashboard.timeline import COMPARISONS, ZONE_COOKIE, Span, earlier_span, ranges_of, span_of
from rase.privacy import LocalDP, rounded_up
from rase.service.allowance import epsilon_of_rounds
from rase.subscriber.operator import AsyncOperator
from rase.theme.promises import in_words

__all__ = ["PAGE", "shown_trace"]

_POINTS: Final = 300
_RECENT: Final = 24
_SAVED: Final = 5000
# How many changes of alarms are looked through for marks.
_MARKED: Final = 100
# How often a page asks again while rounds are late. Answers are shared for as long.
_AGAIN_S = 10.0
_ALIVE = b"event: alive\ndata: 1\n\n"


@dataclass(frozen=True, slots=True)
class _Difference:
    """The mean of a time less that of another, whose errors are of other rounds or other devices.

    Args:
        value: The difference.
        low: The lower end of its 95 % interval.
        high: The upper end.
    """

    value: float
    low: float
    high: float


async def show_live(request: Request) -> Response:
    """Show everything; a script asks for the changing part alone."""
    is_part = request.query_params.get("part") == "1"
    asked = "&".join(
        f"{name}={value}" for name, value in sorted(request.query_params.items()) if name != "part"
    )
    zone = request.cookies.get(ZONE_COOKIE, "")
    fleet, view = await dashboard_of(request).hub.ask_once(
        _stream(request), f"{asked} {zone}", lambda: _ask_all(request)
    )
    if fleet is None:
        return render(request, "no_campaign.html")
    if is_part:
        return HTMLResponse(view["part"], headers={"Cache-Control": "no-store"})
    return render(request, "live.html", fleet=fleet, **view)


async def table(request: Request) -> Response:
    """Return every round of the time that is shown as CSV, oldest first."""
    async with client_of(request) as client:
        fleet = await fleet_of(request, client)
    if fleet is None:
        raise HTTPException(404, "There is no campaign yet.")
    campaign = fleet.campaign
    span = span_of(request, campaign, dashboard_of(request).clock.now_s(), names=fleet.names)
    first, last = span.rounds(campaign)

    async def pages() -> AsyncIterator[list[dict[str, Any]]]:
        async with client_of(request) as asking:
            asking.about(campaign.id)
            for begin in range(first, last + 1, _SAVED):
                end = min(begin + _SAVED - 1, last)
                found = await asking.averages(
                    1000 * begin * campaign.round_s, 1000 * end * campaign.round_s, **span.part
                )
                yield [one.as_fields() for one in found]

    name = span.name or f"{span.local(span.start_s, '%Y%m%d')}-{span.local(span.end_s, '%Y%m%d')}"
    return csv_stream(pages(), f"{campaign.id}-{name}.csv", columns=FIELDS)


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
    """Ask the questions of the page."""
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
    campaign = fleet.campaign
    now_s = clock.now_s()
    span = span_of(request, campaign, now_s, names=fleet.names)
    trace = await _trace(client, campaign, span)
    found = (await client.rounds(limit=_RECENT, **span.part))["rounds"]
    rounds = as_percent(found) if campaign.states is not None else found
    done = [one for one in rounds if one["state"] != "open"]
    newest_answer = next((one for one in done if one["status"] == "ok"), None)
    late_at_s = overdue_s(campaign, rounds)
    late_in_s = None if late_at_s is None else late_at_s - now_s
    rows = chart_rows(trace["points"], campaign.round_s, zone=span.zone)
    alarms = await client.alarms(_MARKED)
    return {
        "is_late": late_in_s is not None and late_in_s < 0,
        # While rounds are late the page asks again and again: what it says of it grows old.
        "again_s": None if late_in_s is None else max(late_in_s + 1, _AGAIN_S),
        "span": span,
        "ranges": ranges_of(campaign),
        "comparisons": {
            **COMPARISONS,
            **{name: f"campaign {name}" for name in fleet.names if name != campaign.id},
        },
        "parts": part_choices(campaign),
        "other": await _compare(client, fleet, span, trace, rows),
        "trace": trace,
        "rows": rows,
        "newest": done[0] if done else None,
        "answered": newest_answer,
        "rounds": rounds,
        # What is usual is known of all devices only.
        "alerts": alerts(
            campaign, rounds, expected_n=0 if span.label else fleet.expected_n, now_s=now_s
        ),
        "marks": _marks(campaign, span, alarms["history"]),
        "promises": _promises(campaign, trace["whole"]),
        "snippets": snippets(
            Question(
                base=str(request.base_url).rstrip("/"),
                campaign=campaign.id,
                quantity=campaign.quantity,
                unit=trace["unit"],
                round_s=campaign.round_s,
                start_ms=span.start_ms,
                end_ms=span.end_ms,
                part=span.part,
            )
        ),
    }


async def _trace(client: AsyncOperator, campaign: Campaign, span: Span) -> dict[str, Any]:
    """Return the rounds that begin in a time, put together into few points."""
    first, last = span.rounds(campaign)
    if first > last:
        # The time is shorter than a round, and none begins in it.
        return {"points": [], "whole": None, "rounds_per_point": 1, "unit": campaign.unit}
    return shown_trace(
        await client.trace(start=span.start_ms, end=span.end_ms, points=_POINTS, **span.part)
    )


def shown_trace(found: dict[str, Any]) -> dict[str, Any]:
    """Return a trace as it is shown: shares of states in per cent."""
    if not found.get("category"):
        return found
    whole = None if found["whole"] is None else as_percent([found["whole"]])[0]
    return {**found, "points": as_percent(found["points"]), "whole": whole, "unit": "%"}


def part_choices(campaign: Campaign) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Return what may be chosen of a round's answers: name and label of a list, and its options."""
    labels = [(one, one) for one in (*campaign.labels, "other")] if campaign.labels else []
    states = list(campaign.categories)
    methods = list(campaign.estimators) if campaign.states is None else []
    found = [
        ("label", "Devices", [("", "all"), *labels]),
        ("category", "State", [("" if one == states[0] else one, one) for one in states]),
        ("method", "Estimator", [("" if one == methods[0] else one, one) for one in methods]),
    ]
    return [one for one in found if len(one[2]) > 1]


def _marks(
    campaign: Campaign, span: Span, history: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return what happened in a time: the newest version, and alarms that were raised."""
    begun_s = campaign.not_before * campaign.round_s
    found = [(begun_s, f"version {campaign.version}")] if campaign.version > 1 else []
    found += [
        (one["round"] * campaign.round_s, f"alarm {one['alarm']}")
        for one in history
        if one["campaign"] == campaign.id and one["state"] == "raised"
    ]
    return [
        {"at": at_s, "label": words}
        for at_s, words in sorted(found)
        if span.start_s <= at_s < span.end_s
    ]


def _promises(campaign: Campaign, whole: Mapping[str, Any] | None) -> list[str]:
    """Return what the answers of a time give away of a device, by both promises as far as made."""
    if whole is None:
        return []
    rounds = int(whole["rounds"])
    words = "this time" if rounds > 1 else "this round"
    epsilon = epsilon_of_rounds(campaign, rounds)
    towards = f"Towards whoever sees the noisy reports of {words}, also both servers together"
    found = [f"{towards}: epsilon {rounded_up(epsilon):g}; {LocalDP(epsilon).odds}."]
    claim = campaign.claim_over(rounds)
    if claim is not None:
        found.insert(0, in_words(claim, words.removeprefix("this ")))
    elif campaign.delta is not None:
        found.append("Nothing is promised towards the fusion centre of so many rounds at once.")
    else:
        found.append("This campaign makes no promise towards the fusion centre beyond that.")
    return found


async def _compare(
    client: AsyncOperator,
    fleet: Fleet,
    span: Span,
    trace: dict[str, Any],
    rows: Sequence[tuple[Any, ...]],
) -> dict[str, Any] | None:
    """Return what the time is compared with: its mean, the difference, and a row for each row."""
    if not span.compare or span.compare == fleet.campaign.id:
        return None
    if span.compare in COMPARISONS:
        earlier = earlier_span(span)
        found = await _trace(client, fleet.campaign, earlier)
        label = f"{COMPARISONS[span.compare]}, {earlier.title}"
        back_s = span.start_s - earlier.start_s
    else:
        client.about(span.compare)
        try:
            found = shown_trace(
                await client.trace(start=span.start_ms, end=span.end_ms, points=_POINTS)
            )
        finally:
            client.about(fleet.campaign.id)
        label, back_s = f"campaign {span.compare}", 0.0
    round_s = found.get("round_s", fleet.campaign.round_s)
    shown = chart_rows(found["points"], round_s, zone=span.zone)
    begins = [datetime.fromisoformat(one["time"]).timestamp() for one in found["points"]]
    partners: list[tuple[Any, ...]] = []
    for row in rows:
        moment_s = datetime.fromisoformat(row[2]).timestamp() - back_s
        place = bisect_right(begins, moment_s) - 1
        length_s = found["points"][place]["rounds"] * round_s if place >= 0 else 0
        is_there = place >= 0 and moment_s < begins[place] + length_s
        partners.append(shown[place] if is_there else ("gap", 0, "", "", *("",) * 6, 0, "–"))
    return {
        "label": label,
        "whole": found["whole"],
        "unit": found["unit"],
        "rows": partners,
        "difference": _difference(trace["whole"], found["whole"]),
    }


def _difference(one: dict[str, Any] | None, other: dict[str, Any] | None) -> _Difference | None:
    """Return how far two means are apart; None where either is unknown.

    Errors add as independent ones do: the noise is of other reports. Those of ``tracked`` in times
    that follow each other go together, so that their difference is surer than is said.
    """
    known = [mean for mean in (one, other) if mean is not None and mean["low"] is not None]
    if len(known) < 2:
        return None
    value = known[0]["value"] - known[1]["value"]
    # An interval that was cut at an end of the range reaches further on its other side.
    reaches = [max(mean["value"] - mean["low"], mean["high"] - mean["value"]) for mean in known]
    reach = math.hypot(*reaches)
    return _Difference(value, value - reach, value + reach)


PAGE = Page(
    name="live",
    title="Timeline",
    group="Fleet",
    scope=READ,
    views=(View("/live", show_live), View("/live.csv", table), View("/live/events", events)),
)
