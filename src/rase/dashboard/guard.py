"""What stands before every page: size limits, headers that bind browsers, logging in and out."""

import secrets
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rase.dashboard.assets import style_source
from rase.dashboard.page import (
    SESSION_COOKIE,
    THEME_COOKIE,
    THEMES,
    VISIT_COOKIE,
    dashboard_of,
    render,
    session_of,
)
from rase.dashboard.sessions import LONGEST_S, Sessions
from rase.errors import ConfigurationError
from rase.subscriber.answers import FusionRefused

__all__ = [
    "HEADERS",
    "Guard",
    "log_in",
    "log_in_once",
    "log_out",
    "set_cookie",
    "set_theme",
    "show_login",
]

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
_YEAR_S = 365 * 86400
_WHY = {
    "ended": "Your session has ended: the token was revoked or has expired.",
    "left": "You are logged out.",
    "once": "This link was used before, or is too old. Log in with a token.",
}


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


async def show_login(request: Request) -> Response:
    """Show the form; say so if somebody was sent here from a page."""
    after = _own_address(request.query_params.get("next", ""))
    if session_of(request) is not None:
        return RedirectResponse(after, 303)
    why = _WHY.get(request.query_params.get("why", ""), "")
    if not why and after != "/":
        why = "Log in to see this page. If you were logged in, your session has expired."
    return render(request, "login.html", after=after, why=why, mistake="")


async def log_in(request: Request) -> Response:
    """Begin a session if the fusion centre knows the token."""
    form = await request.form()
    after = _own_address(str(form.get("next", "")))
    address = request.client.host if request.client else ""
    sessions = dashboard_of(request).sessions
    # A right token passes always: behind a proxy that hides addresses all people share one, and
    # nobody's mistakes may lock the others out. Guessing 256 bits is no way in at any rate.
    answer = await _begin_session(request, str(form.get("token", "")).strip(), after)
    if answer is not None:
        return answer
    if not sessions.may_try(address):
        return _again(request, after, "Too many wrong tokens. Wait a minute, then try again.", 429)
    sessions.count_failure(address)
    return _again(
        request, after, "This token is not valid: unknown, expired or revoked. Check it.", 401
    )


async def log_in_once(request: Request) -> Response:
    """Log in by a link that works one time."""
    token = dashboard_of(request).sessions.take_once(request.path_params["code"])
    answer = None if token is None else await _begin_session(request, token, "/")
    return RedirectResponse("/login?why=once", 303) if answer is None else answer


async def log_out(request: Request) -> Response:
    """End the session."""
    await dashboard_of(request).sessions.end(request.scope["rase_session_id"])
    answer = RedirectResponse("/login?why=left", 303)
    set_cookie(answer.headers, request, name=SESSION_COOKIE, value="", max_age=0)
    return answer


async def set_theme(request: Request) -> Response:
    """Remember light, dark, or what the system says, and come back."""
    form = await request.form()
    theme = str(form.get("theme", ""))
    answer = RedirectResponse(_own_address(str(form.get("next", ""))), 303)
    if theme in THEMES:
        set_cookie(answer.headers, request, name=THEME_COOKIE, value=theme, max_age=_YEAR_S)
    return answer


async def _begin_session(request: Request, token: str, after: str) -> Response | None:
    """Return the way to a page with a new session; None if the token opens nothing."""
    dashboard = dashboard_of(request)
    try:
        async with dashboard.connect(token) as client:
            who = await client.whoami()
    except ConfigurationError:
        return None
    except FusionRefused as error:
        if error.status == 401:
            return None
        raise
    # A session of somebody else must not go on under the same cookie.
    await dashboard.sessions.end(request.scope["rase_session_id"])
    made = await dashboard.sessions.begin(
        token, name=str(who["name"]), scopes=frozenset(map(str, who["scopes"]))
    )
    answer = RedirectResponse(after, 303)
    set_cookie(answer.headers, request, name=SESSION_COOKIE, value=made, max_age=int(LONGEST_S))
    return answer


def _again(request: Request, after: str, mistake: str, status: int) -> Response:
    return render(request, "login.html", status=status, after=after, why="", mistake=mistake)


def _own_address(text: str) -> str:
    """Return an address of ours to go to; never one of another site."""
    is_ours = text.startswith("/") and not text.startswith(("//", "/login", "/logout"))
    if not is_ours or "\\" in text or not text.isprintable():
        return "/"
    parts = urlsplit(text)
    return "/" if parts.scheme or parts.netloc else text
