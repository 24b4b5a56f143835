"""What a page is, who may see it, and how it becomes HTML: for dashboard and studio alike.

All pages of a token share one live stream and one answer, because both are rate limited.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from rase.clock import Clock
from rase.dashboard.assets import style
from rase.dashboard.sessions import Session, Sessions
from rase.dashboard.timeline import KEPT, PART
from rase.subscriber.answers import FusionRefused, FusionUnreachable
from rase.subscriber.operator import AsyncOperator
from rase.theme.formatting import FILTERS
from rase.version import __version__

__all__ = [
    "ADMIN",
    "READ",
    "SESSION_COOKIE",
    "THEMES",
    "THEME_COOKIE",
    "VISIT_COOKIE",
    "Dashboard",
    "Endpoint",
    "Hub",
    "Page",
    "Site",
    "View",
    "address_of",
    "client_of",
    "dashboard_of",
    "login_address",
    "render",
    "session_of",
    "site_of",
    "templates_of",
    "visitor_of",
]

# A reader that is this far behind misses events; a page asks for everything new at the next one.
_MOST_WAITING: Final = 16
# How long an answer stands for others while no event comes: alerts say what is late.
_FRESH_S: Final = 10.0
_Answer = TypeVar("_Answer")


@dataclass(slots=True, eq=False)
class _Line:
    """One stream under way, and who listens to it."""

    readers: set["asyncio.Queue[bytes | None]"] = field(default_factory=set)
    newest: bytes = b""
    task: "asyncio.Task[None] | None" = None
    answers: "dict[str, tuple[float, asyncio.Future[Any]]]" = field(default_factory=dict)


class Hub:
    """Hand the events of one stream to many readers.

    A reader that comes later is sent the newest event first, as if it had opened the stream.
    """

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}

    async def listen(
        self, key: str, source: Callable[[], AsyncIterator[bytes]]
    ) -> AsyncGenerator[bytes, None]:
        """Yield whole events until the stream ends; it is opened for the first reader alone.

        Args:
            key: Readers with the same key share a stream.
            source: Opens the stream.
        """
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line()
            line.task = asyncio.create_task(self._carry(key, line, source))
        waiting: asyncio.Queue[bytes | None] = asyncio.Queue()
        line.readers.add(waiting)
        if line.newest:
            waiting.put_nowait(line.newest)
        try:
            while (event := await waiting.get()) is not None:
                yield event
        finally:
            line.readers.discard(waiting)
            if not line.readers and line.task is not None:
                line.task.cancel()
                self._forget(key, line)

    async def ask_once(
        self, key: str, question: str, ask: Callable[[], Awaitable[_Answer]]
    ) -> _Answer:
        """Ask once for all readers of a stream, until its next event or for some seconds.

        Args:
            key: The stream; without a reader of it everybody asks again.
            question: Tells questions of one stream apart.
            ask: Asks; an answer that fails is not kept.
        """
        line = self._lines.get(key)
        if line is None:
            return await ask()
        now_s = asyncio.get_running_loop().time()
        asked_s, answer = line.answers.get(question, (0.0, None))
        if answer is None or now_s - asked_s > _FRESH_S:
            answer = asyncio.ensure_future(ask())
            line.answers[question] = now_s, answer
        try:
            # Whoever asked first may leave; the others still wait for the answer.
            found: _Answer = await asyncio.shield(answer)
        except Exception:
            if line.answers.get(question, (0.0, None))[1] is answer:
                del line.answers[question]
            raise
        return found

    async def _carry(
        self, key: str, line: _Line, source: Callable[[], AsyncIterator[bytes]]
    ) -> None:
        rest = b""
        try:
            async for piece in source():
                *events, rest = (rest + piece).split(b"\n\n")
                for event in events:
                    _send_event(line, event + b"\n\n")
        except (FusionRefused, FusionUnreachable):
            # The reader's page asks again, and is shown what is wrong.
            return
        finally:
            self._forget(key, line)
            for waiting in line.readers:
                waiting.put_nowait(None)

    def _forget(self, key: str, line: _Line) -> None:
        # Another line may have been opened under the same key meanwhile.
        if self._lines.get(key) is line:
            del self._lines[key]


def _send_event(line: _Line, event: bytes) -> None:
    if b"data:" in event:
        line.newest = event
        line.answers = {}
    for waiting in line.readers:
        if waiting.qsize() < _MOST_WAITING:
            waiting.put_nowait(event)


READ: Final = "read:estimates"
ADMIN: Final = "admin:campaign"
SESSION_COOKIE: Final = "rase_session"
VISIT_COOKIE: Final = "rase_visit"
THEME_COOKIE: Final = "rase_theme"
THEMES: Final = ("auto", "light", "dark")

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class View:
    """One address of a page.

    Args:
        path: The address, as Starlette writes it.
        endpoint: What answers; it is called only for those who may see the page. The form of a
            POST was checked to be ours, and ``await request.form()`` returns it again.
        methods: Out of GET and POST.
    """

    path: str
    endpoint: Endpoint
    methods: tuple[str, ...] = ("GET",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page: its place in the navigation, who may see it, and what answers.

    Args:
        name: A word, which templates find as ``page.name``.
        title: As the navigation calls it.
        group: The heading in the navigation under which it stands.
        views: Its addresses; the first is where the navigation leads.
        is_open: Whether it needs no login.
        scope: The scope that a token must have; None if any login will do.
        max_body_bytes: The largest form or file that it takes.
        lifespan: What runs in the background, from the server's start to its end.
    """

    name: str
    title: str
    group: str
    views: tuple[View, ...]
    is_open: bool = False
    scope: str | None = None
    max_body_bytes: int = 1 << 16
    lifespan: Callable[[], AbstractAsyncContextManager[None]] | None = None

    def is_for(self, session: Session | None) -> bool:
        """Return whether somebody may see it."""
        return self.is_open or (session is not None and session.allows(self.scope))


@cache
def templates_of(packages: tuple[str, ...]) -> Environment:
    """Return the templates of some packages, which all sites of a process compile once."""
    templates = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(FILTERS)
    return templates


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What all pages of a program share; it is ``request.app.state.site``.

    Args:
        clock: The time by which pages say what is late.
        sessions: Who is logged in, and which forms are ours.
        pages: All pages, in the order of the navigation.
        packages: Where templates and files are looked for, the first first.
        has_login: Whether there is anything to log in to.
    """

    clock: Clock
    sessions: Sessions
    pages: tuple[Page, ...]
    packages: tuple[str, ...] = ("rase.dashboard",)
    has_login: bool = False

    @property
    def templates(self) -> Environment:
        """The templates."""
        return templates_of(self.packages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard(Site):
    """What the pages of a fusion centre share.

    Args:
        connect: Makes a client of the fusion centre for a token.
        hub: The live streams that pages share.
    """

    connect: Callable[[str], AsyncOperator]
    hub: Hub = field(default_factory=Hub)
    has_login: bool = True


def site_of(request: Request) -> Site:
    """Return what all pages share."""
    site: Site = request.app.state.site
    return site


def dashboard_of(request: Request) -> Dashboard:
    """Return what all pages of a fusion centre share."""
    dashboard: Dashboard = request.app.state.site
    return dashboard


def address_of(request: Request, path: str) -> str:
    """Return the address of a page for this visitor: below the studio's secret, if it has one."""
    return f"{_root(request)}{path}"


def session_of(request: Request) -> Session | None:
    """Return the session of a request; None if nobody is logged in."""
    session: Session | None = request.scope.get("rase_session")
    return session


def visitor_of(request: Request) -> str:
    """Return what a visitor's forms are tied to: the session, or a random cookie before login."""
    visitor: str = request.scope["rase_visitor"]
    return visitor


def client_of(request: Request) -> AsyncOperator:
    """Return a client with the token of whoever is logged in: its scopes and log lines apply."""
    session = session_of(request)
    assert session is not None  # noqa: S101 - pages that are not open are only called with one
    return dashboard_of(request).connect(session.token)


def render(
    request: Request, template: str, *, status: int = 200, page: Page | None = None, **context: Any
) -> HTMLResponse:
    """Return a page as HTML.

    Templates extend ``base.html`` and find ``page``, ``root`` (what every address begins with),
    ``session`` (None before login), ``proof`` (the value of the hidden field ``proof`` that every
    POST form must have), ``theme``, ``here`` (the address), ``stay`` (what keeps an address with
    the campaign and its time), ``kept`` (the time alone), and ``context``; everything is escaped.

    Args:
        request: What is answered.
        template: The file in ``templates/``.
        status: The HTTP status.
        page: The page; the one that answers if None.
        **context: What the template shows.
    """
    site = site_of(request)
    session = session_of(request)
    theme = request.cookies.get(THEME_COOKIE, "auto")
    shown = [one for one in site.pages if one.is_for(session)]
    text = site.templates.get_template(template).render(
        page=page or request.scope.get("rase_page"),
        pages=shown,
        groups=list(dict.fromkeys(one.group for one in shown)),
        session=session,
        root=_root(request),
        has_login=site.has_login,
        proof=site.sessions.proof(visitor_of(request)),
        theme=theme if theme in THEMES else "auto",
        next_theme=_next_theme(theme),
        here=_here(request),
        stay=_stay(request, context.get("fleet"), status=status),
        kept=_keep_query(request, KEPT),
        version=__version__,
        style=Markup(style()),  # noqa: S704 - our own file
        **context,
    )
    return HTMLResponse(text, status_code=status, headers={"Cache-Control": "no-store"})


def login_address(request: Request) -> str:
    """Return where to log in and come back from."""
    return f"/login?next={quote(_here(request), safe='')}"


def _here(request: Request) -> str:
    if request.method != "GET":
        # After a POST one comes back to the page, not to what was done on it.
        page: Page | None = request.scope.get("rase_page")
        return address_of(request, page.views[0].path if page is not None else "/")
    query = f"?{request.url.query}" if request.url.query else ""
    return address_of(request, f"{request.url.path}{query}")


def _root(request: Request) -> str:
    root: str = request.scope.get("rase_root", "")
    return root


def _stay(request: Request, fleet: Any, *, status: int) -> str:
    """Return what the navigation adds to an address, so that one stays with the campaign."""
    asked = request.query_params.get("campaign", "")
    if fleet is not None:
        query = fleet.query
    else:
        # A page that could not be shown may have been asked for a campaign that is not there.
        query = f"campaign={quote(asked, safe='')}" if asked and status < 400 else ""
    if status < 400:
        # The time that is looked at goes along, whether a page shows it or not.
        kept = _keep_query(request, (*KEPT, *PART) if fleet is not None else KEPT)
        query = "&".join(part for part in (query, kept) if part)
    return f"?{query}" if query else ""


def _keep_query(request: Request, names: tuple[str, ...]) -> str:
    asked = request.query_params
    return urlencode({name: asked[name] for name in names if asked.get(name)})


def _next_theme(theme: str) -> str:
    place = THEMES.index(theme) if theme in THEMES else 0
    return THEMES[(place + 1) % len(THEMES)]
