"""Rounds: what became of each, page by page, with the shuffler's word and a CSV."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from rase.dashboard.fleet import Fleet, fleet_of
from rase.dashboard.page import READ, Page, View, client_of, render
from rase.dashboard.round import show_round
from rase.dashboard.tables import csv_stream
from rase.dashboard.timeline import zone_of_visitor

__all__ = ["PAGE"]

_SHOWN: Final = 50
_SAVED: Final = 1000
_COLUMNS: Final = (
    *("time", "until", "round", "version", "state", "n", "value", "standard_error", "low", "high"),
    *("unit", "method", "target", "local_epsilon", "promise", "shuffle"),
)


async def show_rounds(request: Request) -> Response:
    """Show a page of rounds."""
    async with client_of(request) as client:
        fleet = await fleet_of(request, client)
        if fleet is None:
            return render(request, "no_campaign.html")
        before, method = _read_query(request, fleet)
        found = await client.rounds(before=before, limit=_SHOWN, method=method)
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
        before, method = _read_query(request, fleet)
        # Asked for before the file begins: a refusal is then a page, not a broken file.
        first = await client.rounds(before=before, limit=_SAVED, method=method)
        kept = stack.pop_all()

    async def pages() -> AsyncIterator[list[dict[str, Any]]]:
        found = first
        async with kept:
            yield found["rounds"]
            while found["next"] is not None:
                found = await client.rounds(before=found["next"], limit=_SAVED, method=method)
                yield found["rounds"]

    return csv_stream(pages(), f"{fleet.campaign.id}-rounds.csv", columns=_COLUMNS)


def _read_query(request: Request, fleet: Fleet) -> tuple[int | None, str]:
    before = request.query_params.get("before", "")
    method = request.query_params.get("method", "")
    if method not in fleet.campaign.estimators:
        method = fleet.campaign.estimators[0]
    return (int(before) if before.isdecimal() and len(before) < 10 else None), method


PAGE = Page(
    name="rounds",
    title="Rounds",
    group="Fleet",
    scope=READ,
    views=(View("/rounds", show_rounds), View("/rounds.csv", table), View("/round", show_round)),
)
