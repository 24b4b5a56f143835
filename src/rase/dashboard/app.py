"""The dashboard's app: pages put together with their guards.

A page is a module of this room that defines ``PAGE``, a `rase.dashboard.page.Page`, and stands in
`PAGES`. To add one:

1. write ``async def shown(request: Request) -> Response`` and end it with
   ``return render(request, "name.html", key=value)``;
2. write ``templates/name.html``: ``{% extends "base.html" %}`` with the blocks ``title`` (text),
   ``head`` (one-line explanation below the heading), ``content``, and ``scripts`` for
   ``<script type="module" src="{{ '/static/name.js' }}">``. Inline scripts, inline styles but
   the one of ``base.html`` and other hosts are refused by the browser: everything comes from
   ``static/``;
3. every POST form holds ``{{ macros.proof(proof) }}`` (``{% import "macros.html" as macros %}``);
   the guard has checked it before the endpoint runs, and ``await request.form()`` gives the fields;
4. ``PAGE = Page(name=…, title=…, group=…, views=(View("/name", shown),), is_open=True)``, or
   ``scope=READ`` / ``scope=ADMIN`` for pages that need a token with that scope.

`session_of` returns who is logged in, `client_of` asks the fusion centre with that person's token,
``dashboard_of(request).clock`` gives the time. A refusal of the fusion centre, raised as
`FusionRefused` or `FusionUnreachable`, becomes a page by itself; so does
``HTTPException(status, "One sentence.")``. What must end with the server (worker processes, open
streams) goes into ``Page.lifespan``.

A chart is a table first: ``<figure data-chart>`` holds a table (see ``macros.html``) that
``chart.js`` draws with uPlot when scripts run. CSS tokens and parts are listed at the top of
``rase/theme/static/rase.css``.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from importlib import import_module
from types import MappingProxyType
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ExceptionHandler

from rase.clock import Clock
from rase.dashboard import assets, guard
from rase.dashboard.page import (
    SESSION_COOKIE,
    Dashboard,
    Endpoint,
    Page,
    Site,
    address_of,
    dashboard_of,
    login_address,
    render,
    session_of,
    site_of,
    visitor_of,
)
from rase.dashboard.sessions import Sessions
from rase.subscriber.answers import FusionRefused, FusionUnreachable
from rase.subscriber.operator import AsyncOperator
from rase.theme.formatting import sentence

__all__ = ["PAGES", "dashboard_app", "pages_app"]

# Modules of this room, each with a PAGE, in the order of the navigation.
PAGES: Final = (
    *("live", "overview", "parts", "alarms", "rounds", "campaign"),
    *("subscribers", "health"),
)
_MAX_BODY: Final = 1 << 16


def dashboard_app(
    connect: Callable[[str], AsyncOperator],
    clock: Clock,
    *,
    pages: Sequence[Page] | None = None,
    sessions: Sessions | None = None,
) -> Starlette:
    """Return the dashboard of a fusion centre.

    Args:
        connect: Makes a client of the fusion centre for a token.
        clock: The time by which pages say what is late.
        pages: Its pages; None shows all.
        sessions: Who is logged in; nobody if None.
    """
    site = Dashboard(
        connect=connect,
        clock=clock,
        sessions=Sessions(clock) if sessions is None else sessions,
        pages=tuple(pages or (import_module(f"rase.dashboard.{name}").PAGE for name in PAGES)),
    )
    return pages_app(
        site,
        routes=[
            Route("/login", guard.show_login),
            Route("/login", _ours(guard.log_in), methods=["POST"]),
            Route("/login/once/{code}", guard.log_in_once),
            Route("/logout", _ours(guard.log_out), methods=["POST"]),
        ],
        handlers={FusionRefused: _show_refusal, FusionUnreachable: _unreachable},
    )


def pages_app(
    site: Site,
    *,
    routes: Sequence[BaseRoute] = (),
    handlers: Mapping[type[Exception], ExceptionHandler] = MappingProxyType({}),
) -> Starlette:
    """Return an app that serves pages behind their guard.

    Args:
        site: The pages, and what they share.
        routes: What else it answers.
        handlers: How it answers failures of its own.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for page in site.pages:
                if page.lifespan is not None:
                    await stack.enter_async_context(page.lifespan())
            yield

    app = Starlette(
        routes=[*routes, *_routes(site.pages)],
        lifespan=lifespan,
        middleware=[
            # Guessing secrets by sizes needs requests that other sites make with our cookies; those
            # are SameSite=Strict. Streams are left as they are.
            # Level 9 takes five times as long for a twentieth less.
            Middleware(GZipMiddleware, minimum_size=1024, compresslevel=5),
            Middleware(
                guard.Guard,
                sessions=site.sessions,
                limits={
                    page.views[0].path: page.max_body_bytes
                    for page in site.pages
                    if page.max_body_bytes != _MAX_BODY
                },
                max_body_bytes=_MAX_BODY,
            ),
        ],
        exception_handlers={
            **handlers,
            HTTPException: _http_problem,
            Exception: _show_unexpected,
        },
    )
    # To the address without its slash one would be led by whatever name the request gives as host.
    app.router.redirect_slashes = False
    app.state.site = site
    return app


def _routes(pages: Sequence[Page]) -> list[BaseRoute]:
    routes: list[BaseRoute] = [
        Route("/static/{path:path}", assets.serve_asset),
        Route("/", _home),
        Route("/theme", _ours(guard.set_theme), methods=["POST"]),
    ]
    for page in pages:
        for view in page.views:
            endpoint = _guard_endpoint(page, view.endpoint)
            routes.append(Route(view.path, endpoint, methods=list(view.methods)))
    return routes


def _ours(endpoint: Endpoint) -> Endpoint:
    """Refuse forms that do not hold the proof that we made them for this visitor."""

    async def call_checked(request: Request) -> Response:
        form = await request.form()
        sessions = site_of(request).sessions
        if not sessions.is_proof(visitor_of(request), str(form.get("proof", ""))):
            raise HTTPException(
                403, "This form is too old or was not made here. Go back, reload and try again."
            )
        return await endpoint(request)

    return call_checked


def _guard_endpoint(page: Page, endpoint: Endpoint) -> Endpoint:
    """Let only those see a page who may."""
    checked = _ours(endpoint)

    async def call_guarded(request: Request) -> Response:
        request.scope["rase_page"] = page
        session = session_of(request)
        if not page.is_open and session is None:
            if "text/event-stream" in request.headers.get("accept", ""):
                raise HTTPException(401, "Log in first.")
            return RedirectResponse(login_address(request), 303)
        if not page.is_for(session):
            raise HTTPException(403, f"This page needs a token with the scope {page.scope}.")
        return await (checked if request.method == "POST" else endpoint)(request)

    return call_guarded


async def _home(request: Request) -> Response:
    """Lead to the first page that somebody may see."""
    session = session_of(request)
    first = next((page for page in site_of(request).pages if page.is_for(session)), None)
    path = first.views[0].path if first is not None else "/login"
    return RedirectResponse(address_of(request, path), 303)


async def _show_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, FusionRefused)  # noqa: S101 - what the handler is registered for
    if error.status == 401:
        # The token was revoked or has ended: so has the session.
        await dashboard_of(request).sessions.end(request.scope.get("rase_session_id"))
        answer = RedirectResponse(f"{login_address(request)}&why=ended", 303)
        guard.set_cookie(answer.headers, request, name=SESSION_COOKIE, value="", max_age=0)
        return answer
    status = error.status if 400 <= error.status < 500 else 502
    return _problem(request, status, sentence(str(error)))


async def _unreachable(request: Request, error: Exception) -> Response:
    return _problem(request, 502, sentence(str(error)))


async def _http_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - what the handler is registered for
    if error.status_code == 404 and error.detail == HTTPStatus.NOT_FOUND.phrase:
        return _problem(request, 404, "There is no page at this address.")
    return _problem(request, error.status_code, str(error.detail))


async def _show_unexpected(request: Request, error: Exception) -> Response:
    return _problem(request, 500, "Something unexpected happened. Try again.")


def _problem(request: Request, status: int, detail: str) -> Response:
    title = {
        403: "Not allowed",
        404: "Not found",
        405: "Not possible here",
        429: "Too many attempts",
        500: "Something went wrong",
        502: "The fusion centre does not answer",
    }.get(status, "This cannot be done")
    return render(request, "problem.html", status=status, title=title, detail=detail)
