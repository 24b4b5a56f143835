"""Mount the dashboard with a fusion centre's app at one address: /v1 is the API, / the pages."""

from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["MountedDashboard"]

_OF_THE_SERVER = ("/v1/", "/healthz", "/readyz", "/openapi.json", "/metrics")


class MountedDashboard:
    """Serve an app and the dashboard at one port.

    Args:
        server: The fusion centre's app: the API, health and background work.
        dashboard: The pages.
    """

    def __init__(self, server: ASGIApp, dashboard: Starlette) -> None:
        self._server = server
        self._dashboard = dashboard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request to the one it is for."""
        if scope["type"] == "lifespan":
            async with self._dashboard.router.lifespan_context(self._dashboard):
                await self._server(scope, receive, send)
        elif scope["path"].startswith(_OF_THE_SERVER):
            await self._server(scope, receive, send)
        else:
            await self._dashboard(scope, receive, send)
