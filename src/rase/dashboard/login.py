"""Logging in with a token, once with a code, logging out, and the choice of colours."""

from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from rase.dashboard.guard import set_cookie
from rase.dashboard.page import (
    SESSION_COOKIE,
    THEME_COOKIE,
    THEMES,
    dashboard_of,
    render,
    session_of,
)
from rase.dashboard.sessions import LONGEST_S
from rase.errors import ConfigurationError
from rase.subscriber.answers import FusionRefused

__all__ = ["log_in", "log_in_once", "log_out", "set_theme", "show_login"]

_YEAR_S = 365 * 86400
_WHY = {
    "ended": "Your session has ended: the token was revoked or has expired.",
    "left": "You are logged out.",
    "once": "This link was used before, or is too old. Log in with a token.",
}


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
