"""Round: what became of one round and why, what it promises, and the rounds before and after."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from rase.clock import round_start_s, time_in_words
from rase.dashboard.fleet import fleet_of
from rase.dashboard.page import client_of, render
from rase.dashboard.timeline import zone_of_visitor

__all__ = ["show_round"]

_LAST = 2**32 - 1


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
        found = await client.rounds(before=number + 1, limit=1)
        rows = await client.averages(*[1000 * number * fleet.campaign.round_s] * 2, method="all")
    one = next((one for one in found["rounds"] if one["round"] == number), None)
    campaign = fleet.campaign
    begin_s = round_start_s(number, campaign.round_s)
    return render(
        request,
        "round.html",
        fleet=fleet,
        number=number,
        one=one,
        rows=[row for row in rows if row.status == "ok"],
        zone=zone,
        begin=time_in_words(begin_s),
        end=time_in_words(begin_s + campaign.round_s),
        closes=time_in_words(campaign.closes_s(number)),
    )
