"""Rounds: what became of each, page by page, with the shuffler's word and a CSV."""

from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from rase.dashboard.fleet import Fleet, fleet_of
from rase.dashboard.page import READ, Page, View, client_of, render
from rase.dashboard.tables import csv_response

__all__ = ["PAGE"]

_SHOWN: Final = 50
_SAVED: Final = 1000
_MOST_SAVED: Final = 10_000
_COLUMNS: Final = (
    *("time", "round", "version", "state", "n", "mean", "standard_error", "ci_low", "ci_high"),
    *("unit", "method", "epsilon", "guarantee", "shuffle"),
)


async def shown(request: Request) -> Response:
    """Show a page of rounds."""
    async with client_of(request) as client:
        fleet = await fleet_of(request, client)
        if fleet is None:
            return render(request, "no_campaign.html")
        before, method = _asked(request, fleet)
        found = await client.rounds(before=before, limit=_SHOWN, method=method)
    return render(request, "rounds.html", fleet=fleet, found=found, before=before, method=method)


async def table(request: Request) -> Response:
    """Return the newest rounds as CSV, or those before the first of the page."""
    rows: list[dict[str, Any]] = []
    async with client_of(request) as client:
        fleet = await fleet_of(request, client)
        if fleet is None:
            raise HTTPException(404, "There is no campaign yet.")
        before, method = _asked(request, fleet)
        while len(rows) < _MOST_SAVED:
            found = await client.rounds(before=before, limit=_SAVED, method=method)
            rows += found["rounds"]
            before = found["next"]
            if before is None:
                break
    plain = [{name: row.get(name) for name in _COLUMNS} for row in rows]
    return csv_response(plain, f"{fleet.campaign.id}-rounds.csv")


def _asked(request: Request, fleet: Fleet) -> tuple[int | None, str]:
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
    views=(View("/rounds", shown), View("/rounds.csv", table)),
)
