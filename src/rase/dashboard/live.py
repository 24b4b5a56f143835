"""Live: the newest estimates of the fleet as they come."""

from starlette.requests import Request
from starlette.responses import Response

from rase.dashboard.page import READ, Page, View, client_of, render

__all__ = ["PAGE"]


async def shown(request: Request) -> Response:
    """Show the newest estimate."""
    async with client_of(request) as client:
        newest = await client.average()
    return render(request, "live.html", newest=newest)


PAGE = Page(name="live", title="Live", group="Fleet", scope=READ, views=(View("/live", shown),))
