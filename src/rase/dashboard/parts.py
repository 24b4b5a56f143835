"""Labels and states: every part of a campaign over a time, side by side, and how far two differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from rase.answer import Difference
from rase.campaign import Campaign
from rase.dashboard.fleet import Fleet, fleet_of
from rase.dashboard.live import part_choices, shown_trace
from rase.dashboard.page import READ, Page, View, client_of, dashboard_of, render
from rase.dashboard.timeline import COMPARISONS, Span, earlier_span, ranges_of, span_of
from rase.subscriber.answers import FusionRefused
from rase.subscriber.operator import AsyncOperator
from rase.theme.formatting import sentence

__all__ = ["PAGE", "band"]

_POINTS: Final = 60
_WIDTH: Final = 240
_HEIGHT: Final = 48
# A page asks once for each part; more are found by their label.
_MOST: Final = 24


@dataclass(frozen=True, slots=True)
class _Part:
    """One part of a campaign's answers.

    Args:
        label: A label; empty for all devices.
        category: A state; empty where readings are numbers.
    """

    label: str
    category: str

    @property
    def name(self) -> str:
        """As people call it."""
        return ", ".join(one for one in (self.category, self.label) if one) or "all devices"

    @property
    def value(self) -> str:
        """As a list of a form holds it."""
        return f"{self.label}/{self.category}"

    @property
    def asked(self) -> dict[str, str]:
        """As questions name it."""
        found = {"label": self.label, "category": self.category}
        return {name: value for name, value in found.items() if value}


async def show_parts(request: Request) -> Response:
    """Show all labels or states of a time, and the difference of two of them if it is asked for."""
    async with client_of(request) as client:
        fleet = await fleet_of(request, client)
        if fleet is None:
            return render(request, "no_campaign.html")
        campaign = fleet.campaign
        now_s = dashboard_of(request).clock.now_s()
        span = span_of(request, campaign, now_s, names=fleet.names)
        every = _parts_of(campaign)
        shown = [one for one in every if campaign.states is None or one.label == span.label]
        rows = [await _row(client, campaign, span, one) for one in shown[:_MOST]]
        difference, mistake = await _compare(request, client, fleet, span, every)
        newest = await _newest(client, campaign, span)
    traces = [row["trace"] for row in rows]
    low, high = _bounds(traces)
    for row in rows:
        row["picture"] = band(row["trace"]["points"], span, low, high)
    return render(
        request,
        "parts.html",
        status=400 if mistake else 200,
        fleet=fleet,
        span=span,
        ranges=ranges_of(campaign),
        choices=[one for one in part_choices(campaign) if one[0] == "label"],
        rows=rows,
        left_out=len(shown) - len(rows),
        every=every,
        bounds=(low, high),
        unit="%" if campaign.states is not None else campaign.unit,
        comparisons=COMPARISONS,
        difference=difference,
        mistake=sentence(mistake),
        newest=newest,
        chosen=[
            request.query_params.get(name, "") or usual
            for name, usual in zip(("first", "second"), _usual(every), strict=True)
        ],
    )


def band(
    points: Sequence[Mapping[str, Any]], span: Span, low: float, high: float
) -> list[dict[str, Any]]:
    """Return points as lines and bands in a box of 240 by 48; a new one after each gap.

    Args:
        points: As a trace has them, with their times as ``at_s``.
        span: The time that the box is wide.
        low: What the bottom of the box is.
        high: What its top is.
    """
    wide_s, tall = max(span.end_s - span.start_s, 1.0), (high - low) or 1.0

    def place(one: Mapping[str, Any], name: str) -> str:
        x = (one["at_s"] - span.start_s) / wide_s * _WIDTH
        return f"{x:.1f},{(high - one[name]) / tall * _HEIGHT:.1f}"

    runs: list[list[Mapping[str, Any]]] = [[]]
    for one in points:
        if one["value"] is None or one["low"] is None:
            runs.append([])
        else:
            runs[-1].append(one)
    return [
        {
            "line": " ".join(place(one, "value") for one in run),
            "band": " ".join(
                [place(one, "high") for one in run] + [place(one, "low") for one in reversed(run)]
            ),
            "is_single": len(run) == 1,
            "at": [place(run[0], name).split(",") for name in ("value", "low", "high")],
        }
        for run in runs
        if run
    ]


def _parts_of(campaign: Campaign) -> list[_Part]:
    labels = [*campaign.labels, "other"] if campaign.labels else []
    if campaign.states is None:
        return [_Part(label, "") for label in labels]
    return [_Part(label, one) for label in ("", *labels) for one in campaign.categories]


def _usual(every: Sequence[_Part]) -> tuple[str, str]:
    """Return what is compared unless chosen: two labels, or else two states."""
    if not every:
        return "", ""
    labels = [one for one in every if one.label and one.category == every[0].category]
    first, second = (labels or list(every))[:2]
    return first.value, second.value


async def _row(
    client: AsyncOperator, campaign: Campaign, span: Span, part: _Part
) -> dict[str, Any]:
    first, last = span.rounds(campaign)
    found: dict[str, Any] = {"points": [], "whole": None}
    if first <= last:
        found = shown_trace(
            await client.trace(start=span.start_ms, end=span.end_ms, points=_POINTS, **part.asked)
        )
    middle_s = campaign.round_s * found.get("rounds_per_point", 1) / 2
    points = [
        {**one, "at_s": one["round"] * campaign.round_s + middle_s} for one in found["points"]
    ]
    return {"part": part, "trace": {**found, "points": points}, "whole": found["whole"]}


def _bounds(traces: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Return the lowest and the highest end of all intervals: all pictures share one scale."""
    known = [one for trace in traces for one in trace["points"] if one["low"] is not None]
    if not known:
        return 0.0, 1.0
    return min(one["low"] for one in known), max(one["high"] for one in known)


async def _newest(
    client: AsyncOperator, campaign: Campaign, span: Span
) -> list[dict[str, Any]] | None:
    """Return the shares of the newest round, each with what holds for all of them at once."""
    if campaign.states is None:
        return None
    try:
        found = await client.shares(label=span.label or None)
    except FusionRefused as error:
        if error.status == 404:
            return None
        raise
    x = 0.0
    rows = []
    for one in found.shares:
        category = str(one.category)
        shown = found.shown.get(category, 0.0)
        together = found.simultaneous.get(category)
        rows.append(
            {
                "category": category,
                "time": one.time,
                "value": None if one.value is None else 100 * one.value,
                "low": None if one.low is None else 100 * one.low,
                "high": None if one.high is None else 100 * one.high,
                "together": together and [100 * end for end in together],
                "is_top": found.top.get(category),
                "x": round(100 * x, 2),
                "width": round(100 * shown, 2),
                "promise": one.promise,
            }
        )
        x += shown
    return rows


async def _compare(
    request: Request, client: AsyncOperator, fleet: Fleet, span: Span, every: Sequence[_Part]
) -> tuple[dict[str, Any] | None, str]:
    """Return one part less another, or why they cannot be compared."""
    asked = request.query_params
    if not asked.get("first") or not asked.get("second"):
        return None, ""
    known = {one.value: one for one in every}
    if asked["first"] not in known or asked["second"] not in known:
        raise HTTPException(400, "first and second must be labels or states of this campaign.")
    one, other = known[asked["first"]], known[asked["second"]]
    then = earlier_span(span) if span.compare in COMPARISONS else span
    if one == other and then == span:
        return None, "choose two parts that differ, or another time for the second."
    try:
        found = await client.difference(
            {**one.asked, "start": span.start_ms, "end": span.end_ms},
            {**other.asked, "start": then.start_ms, "end": then.end_ms},
        )
    except FusionRefused as error:
        if error.status not in (400, 404):
            raise
        return None, str(error).removeprefix("the fusion centre refuses: ")
    names = [one.name, f"{other.name}{f' of {then.title}' if then != span else ''}"]
    return _shown_difference(found, names, is_share=bool(one.category)), ""


def _shown_difference(found: Difference, names: Sequence[str], *, is_share: bool) -> dict[str, Any]:
    scale = 100 if is_share else 1
    value, low, high = (
        None if one is None else scale * one for one in (found.value, found.low, found.high)
    )
    return {
        "names": names,
        "value": value,
        "low": low,
        "high": high,
        "above_zero": found.above_zero,
        "local_epsilon": found.local_epsilon,
        "first": found.first,
        "second": found.second,
        "unit": "points" if is_share else found.unit or "",
    }


PAGE: Final = Page(
    name="parts",
    title="Labels and states",
    group="Fleet",
    scope=READ,
    views=(View("/parts", show_parts),),
)
