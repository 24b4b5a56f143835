"""Rounds: what became of each, page by page with a CSV, and a page for each of them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from rase.clock import round_start_s, time_in_words
from rase.dashboard.fleet import Fleet, fleet_of
from rase.dashboard.page import READ, Page, View, client_of, render
from rase.dashboard.tables import as_percent, csv_stream
from rase.dashboard.timeline import part_of, zone_of_visitor

__all__ = ["PAGE", "show_round"]

_SHOWN: Final = 50
_SAVED: Final = 1000
_COLUMNS: Final = (
    *("time", "until", "round", "version", "state", "n", "value", "standard_error", "low", "high"),
    *("unit", "method", "target", "local_epsilon", "promise", "shuffle"),
)
_LAST = 2**32 - 1


async def show_rounds(request: Request) -> Response:
    """Show a page of rounds."""
    async with client_of(request) as client:
        fleet = await fleet_of(request, client)
        if fleet is None:
            return render(request, "no_campaign.html")
        before, asked = _read_query(request, fleet)
        found = await client.rounds(before=before, limit=_SHOWN, counts=True, **asked)
    if fleet.campaign.states is not None:
        found["rounds"] = as_percent(found["rounds"])
    method = asked.get("method", fleet.campaign.estimators[0])
    zone = zone_of_visitor(request)
    return render(
        request, "rounds.html", fleet=fleet, found=found, before=before, method=method, zone=zone
    )


async def table(request: Request) -> Response:
    """Return all rounds as CSV, newest first, or those before the first of the page."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(client_of(request))
        fleet = await fleet_of(request, client)
        if fleet is None:
            raise HTTPException(404, "There is no campaign yet.")
        before, asked = _read_query(request, fleet)
        # Asked for before the file begins: a refusal is then a page, not a broken file.
        first = await client.rounds(before=before, limit=_SAVED, **asked)
        kept = stack.pop_all()

    async def pages() -> AsyncIterator[list[dict[str, Any]]]:
        found = first
        async with kept:
            yield found["rounds"]
            while found["next"] is not None:
                found = await client.rounds(before=found["next"], limit=_SAVED, **asked)
                yield found["rounds"]

    return csv_stream(pages(), f"{fleet.campaign.id}-rounds.csv", columns=_COLUMNS)


def _read_query(request: Request, fleet: Fleet) -> tuple[int | None, dict[str, Any]]:
    before = request.query_params.get("before", "")
    asked = part_of(request, fleet.campaign)
    return (int(before) if before.isdecimal() and len(before) < 10 else None), asked


async def show_round(request: Request) -> Response:
    """Show one round of a campaign.

    Raises:
        HTTPException: If the address has no number of a round.
    """
    asked = request.query_params.get("number", "")
    if not (asked.isdecimal() and len(asked) < 11 and int(asked) < _LAST):
        raise HTTPException(404, "number must be the number of a round.")
    number = int(asked)
    zone = zone_of_visitor(request)
    async with client_of(request) as client:
        fleet = await fleet_of(request, client)
        if fleet is None:
            return render(request, "no_campaign.html")
        campaign = fleet.campaign
        part = part_of(request, campaign)
        found = await client.rounds(before=number + 1, limit=1, **part)
        moment_ms = 1000 * number * campaign.round_s
        rows = await client.averages(
            moment_ms, moment_ms, method="all" if campaign.states is None else None
        )
        if campaign.labels:
            every = await client.averages(moment_ms, moment_ms, label="*")
            rows += [one for one in every if one.label]
    one = next((one for one in found["rounds"] if one["round"] == number), None)
    shown = [row.as_fields() for row in rows if row.status == "ok"]
    if campaign.states is not None:
        shown = as_percent(shown)
        one = None if one is None else as_percent([one])[0]
    begin_s = round_start_s(number, campaign.round_s)
    return render(
        request,
        "round.html",
        fleet=fleet,
        number=number,
        one=one,
        rows=shown,
        zone=zone,
        begin=time_in_words(begin_s),
        end=time_in_words(begin_s + campaign.round_s),
        closes=time_in_words(campaign.closes_s(number)),
    )


PAGE = Page(
    name="rounds",
    title="Rounds",
    group="Fleet",
    scope=READ,
    views=(View("/rounds", show_rounds), View("/rounds.csv", table), View("/round", show_round)),
)
