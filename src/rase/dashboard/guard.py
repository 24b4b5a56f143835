"""What stands before every page: size limits, headers that bind browsers, whose request it is."""

import secrets
from collections.abc import Mapping
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rase.dashboard.assets import style_source
from rase.dashboard.page import SESSION_COOKIE, VISIT_COOKIE
from rase.dashboard.sessions import Sessions

__all__ = ["HEADERS", "Guard", "set_cookie"]

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        f"default-src 'none'; script-src 'self'; style-src 'self' {style_source()}; "
        "img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_VISIT_S: Final = 12 * 3600


class Guard:
    """Bound bodies, set headers and find the session, before anything else looks at a request.

    Args:
        app: What is guarded.
        sessions: Who is logged in.
        limits: The largest body by the beginning of the path.
        max_body_bytes: The largest body of all other paths.
    """

    def __init__(
        self, app: ASGIApp, *, sessions: Sessions, limits: Mapping[str, int], max_body_bytes: int
    ) -> None:
        self._app = app
        self._sessions = sessions
        self._limits = limits
        self._limit = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on with its session in the scope, or refuse its size."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        session_id = request.cookies.get(SESSION_COOKIE)
        session = await self._sessions.recall(session_id)
        visit = request.cookies.get(VISIT_COOKIE, "")
        is_new = session is None and len(visit) != 43
        if is_new:
            visit = secrets.token_urlsafe(32)
        scope["rase_session"] = session
        scope["rase_session_id"] = session_id if session is not None else None
        scope["rase_visitor"] = session_id if session is not None else visit
        is_page = not scope["path"].startswith("/static/")

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if is_page and is_new:
                    set_cookie(headers, request, name=VISIT_COOKIE, value=visit, max_age=_VISIT_S)
            await send(message)

        limit = next(
            (most for start, most in self._limits.items() if scope["path"].startswith(start)),
            self._limit,
        )
        length = request.headers.get("content-length", "0")
        # Long numbers are none to int, and superscripts are digits but no decimals.
        if length.isdecimal() and int(length[:20]) > limit:
            answer = PlainTextResponse(f"The form must have at most {limit} bytes.\n", 413)
            await answer(scope, receive, sending)
            return
        await self._app(scope, _limit_body(receive, limit), sending)


def set_cookie(
    headers: MutableHeaders, request: Request, *, name: str, value: str, max_age: int
) -> None:
    """Set a cookie that scripts cannot read and other sites cannot send; empty removes it."""
    secure = "; Secure" if request.url.scheme == "https" else ""
    headers.append(
        "Set-Cookie",
        f"{name}={value}; Path=/; Max-Age={max_age}; HttpOnly; SameSite=Strict{secure}",
    )


def _limit_body(receive: Receive, limit: int) -> Receive:
    seen = 0

    async def receive_limited() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            # Whoever lies about the length has nothing more to say.
            return {"type": "http.disconnect"}
        return message

    return receive_limited
