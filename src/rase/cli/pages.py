"""The dashboard next to a fusion centre's app: where `rase fusion run` and the demo put it."""

from typing import TYPE_CHECKING

from rase.clock import Clock, SystemClock

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from rase.dashboard.sessions import Sessions
    from rase.storage.interface import Database

__all__ = ["with_dashboard"]

# The pages ask in the same process; no address is ever looked up for this name.
_INSIDE = "http://localhost"


def with_dashboard(
    server: "ASGIApp", clock: Clock, *, database: "Database | None" = None
) -> "tuple[ASGIApp, Sessions]":
    """Return an app that serves the dashboard's pages too, and its sessions.

    Args:
        server: The fusion centre's app; pages ask it with the token of whoever is logged in.
        clock: The fusion centre's time.
        database: Where sessions outlive the server; they end with it if None.

    Raises:
        ModuleNotFoundError: If the templates' library is not installed.
    """
    from rase.dashboard.app import dashboard_app
    from rase.dashboard.asgi_transport import InsideTransport
    from rase.dashboard.mounting import MountedDashboard
    from rase.dashboard.session_store import SessionStore
    from rase.dashboard.sessions import LONGEST_S, Sessions
    from rase.subscriber.operator import AsyncOperator

    inside = InsideTransport(server)
    # Whoever moves the fusion centre's time in a demonstration does not log people out.
    own = SystemClock()
    store = None if database is None else SessionStore(database, own, LONGEST_S)
    sessions = Sessions(own, store=store)
    pages = dashboard_app(
        lambda token: AsyncOperator(_INSIDE, token, transport=inside), clock, sessions=sessions
    )
    return MountedDashboard(server, pages), sessions
