"""Pages for one person on one machine: whoever has the secret in their address, and no other site.

Every address begins with a secret that is new at each start. There is no cookie for it, because
browsers send cookies to every port of a machine. A request must name this machine as its host (so
that no other site's name can be made to point here), and a form must come from a page of ours.
"""

import hmac
import secrets
from typing import Final

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import Message, Receive, Scope, Send

from rase.dashboard.guard import HEADERS

__all__ = ["LocalPages"]

# With "no-referrer" browsers send forms from nowhere, as those of other sites do.
_HEADERS: Final = {**HEADERS, "Referrer-Policy": "same-origin"}


class LocalPages:
    """Hand on requests that know the secret, without it, and refuse all others.

    Args:
        pages: The pages.
        port: Where it listens on this machine.
        command: What starts it; it makes a new address.
    """

    def __init__(self, pages: Starlette, *, port: int, command: str) -> None:
        self.pages = pages
        self._command = command
        self._hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self._secret = secrets.token_urlsafe(24)
        self._code: str | None = secrets.token_urlsafe(24)

    @property
    def address(self) -> str:
        """Where the pages are; knowing it opens them."""
        return f"http://{self._hosts[0]}/{self._secret}/"

    @property
    def once_address(self) -> str:
        """An address that leads there one time: other users may see what a browser is started with.

        Raises:
            ValueError: If the address was used before.
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
            text = f"The address is not right. It is new at each start: {self._command}\n"
            return PlainTextResponse(text, 403)
        origin = request.headers.get("origin")
        if origin is not None and origin not in [f"http://{host}" for host in self._hosts]:
            return PlainTextResponse("The request comes from another site.\n", 403)
        return None
