"""The studio's app: its pages, for whoever has the secret in their address, and no other site.

Every address begins with a secret that is new at each start. There is no cookie for it, because
browsers send cookies to every port of a machine. A request must name this machine as its host (so
that no other site's name can be made to point here), and a form must come from a page of ours.
"""

import hmac
import secrets
from collections.abc import Iterable

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import Message, Receive, Scope, Send

from rase.clock import Clock
from rase.dashboard.app import pages_app
from rase.dashboard.guard import HEADERS
from rase.dashboard.page import Site
from rase.dashboard.sessions import Sessions
from rase.studio.attack import PAGE as ATTACK_LAB
from rase.studio.explorer import PAGE as EXPLORER

__all__ = ["PACKAGES", "Studio", "studio_app"]

PACKAGES = ("rase.studio", "rase.dashboard")
# With "no-referrer" browsers send forms from nowhere, as those of other sites do.
_HEADERS = {**HEADERS, "Referrer-Policy": "same-origin"}


def studio_app(clock: Clock, port: int) -> "Studio":
    """Return the studio as it is served on a port of this machine.

    Args:
        clock: The present time, for the first round of a campaign that is planned.
        port: Where it listens.
    """
    site = Site(
        clock=clock,
        sessions=Sessions(clock),
        pages=(EXPLORER, ATTACK_LAB),
        packages=PACKAGES,
    )
    return Studio(pages_app(site), hosts=[f"127.0.0.1:{port}", f"localhost:{port}"])


class Studio:
    """Hand on requests that know the secret, without it, and refuse all others.

    Args:
        pages: The pages.
        hosts: Which names a browser may call this machine by, with the port.
    """

    def __init__(self, pages: Starlette, *, hosts: Iterable[str]) -> None:
        self.pages = pages
        self._hosts = tuple(hosts)
        self._secret = secrets.token_urlsafe(24)
        self._code: str | None = secrets.token_urlsafe(24)

    @property
    def address(self) -> str:
        """Where the studio is; knowing it opens the pages."""
        return f"http://{self._hosts[0]}/{self._secret}/"

    @property
    def once_address(self) -> str:
        """An address that leads there one time: other users may see what a browser is started with.

        Raises:
            ValueError: If it was used.
        """
        if self._code is None:
            raise ValueError("the address must be used once, got it a second time.")
        return f"http://{self._hosts[0]}/{self._code}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.pages(scope, receive, send)
            return
        refusal = self._refuse(Request(scope))

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        if refusal is not None:
            await refusal(scope, receive, send_guarded)
            return
        root = f"/{self._secret}"
        path = scope["path"].removeprefix(root)
        await self.pages({**scope, "path": path, "rase_root": root}, receive, send_guarded)

    def _refuse(self, request: Request) -> Response | None:
        """Return how to answer what is not for the pages; None if it is."""
        if request.headers.get("host", "").lower() not in self._hosts:
            return PlainTextResponse("This is not the name of this machine.\n", 421)
        first, slash, _ = request.scope["path"].removeprefix("/").partition("/")
        if self._code is not None and hmac.compare_digest(first.encode(), self._code.encode()):
            self._code = None
            return RedirectResponse(f"/{self._secret}/", 303)
        if not slash or not hmac.compare_digest(first.encode(), self._secret.encode()):
            text = "The address is not right. It is new at each start: rase studio\n"
            return PlainTextResponse(text, 403)
        origin = request.headers.get("origin")
        if origin is not None and origin not in [f"http://{host}" for host in self._hosts]:
            return PlainTextResponse("The request comes from another site.\n", 403)
        return None
