"""The HTTP app of a server: problem details, size limits, health, metrics, a way to serve it.

Queries go through FastAPI. A route that takes every report of a fleet goes past its machinery, as
a plain ASGI endpoint inside the same app, because that machinery costs several times the work.
"""

import gc
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, NamedTuple

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rase.errors import ConfigurationError, RaseError, StorageError, WireError
from rase.service.connections import ConnectionSettings, guarded_protocol
from rase.service.metrics import CONTENT_TYPE, Gauges, exposition
from rase.service.telemetry import Telemetry
from rase.wire.problems import MEDIA_TYPE, PROBLEM_TYPES, Problem, problem_of

__all__ = [
    "BodyTooLarge",
    "HttpProblem",
    "PlainRoute",
    "Readiness",
    "create_app",
    "problem_response",
    "read_body",
    "serve",
]

_RETRY_S = 5


class HttpProblem(RaseError):
    """Answer with a problem; raise it anywhere below an endpoint.

    Args:
        problem: What the other side is sent.
        headers: Further headers, e.g. Retry-After.
    """

    def __init__(self, problem: Problem, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(problem.detail)
        self.problem = problem
        self.headers = dict(headers or {})


class Readiness(NamedTuple):
    """Whether requests may be sent here, and what is not well, in words for operators."""

    is_ready: bool
    reasons: tuple[str, ...] = ()


class BodyTooLarge(RaseError):
    """A request has more bytes than its route takes."""


class PlainRoute(NamedTuple):
    """A route that bypasses FastAPI: one method, one path without parameters, one ASGI endpoint.

    ``described`` is what the server's description says of it, an operation of OpenAPI.
    """

    method: str
    path: str
    endpoint: ASGIApp
    described: Mapping[str, Any] = MappingProxyType({})


def create_app(
    title: str,
    version: str,
    *,
    telemetry: Telemetry,
    is_ready: Callable[[], Awaitable[bool | Readiness]],
    max_body_bytes: int,
    body_limits: Mapping[str, int] | None = None,
    plain_routes: Sequence[PlainRoute] = (),
    lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]] | None = None,
    openapi_url: str | None = "/openapi.json",
    description: str = "",
    process: str,
    gauges: Gauges = tuple,
) -> FastAPI:
    """Return an app to which the server adds its routes.

    Args:
        title: The server's name.
        version: Its release.
        telemetry: Counts refusals and unexpected failures.
        is_ready: What ``/readyz`` answers: 503 if requests should go elsewhere. ``/readyz/all``
            answers 503 whenever something is not well.
        max_body_bytes: The most bytes of a request's body.
        body_limits: Other limits, by the beginning of the path.
        plain_routes: Routes that bypass FastAPI; they check their size by `read_body`.
        lifespan: What runs in the background of the app, from start to graceful shutdown.
        openapi_url: Where the description of the queries is; None for nowhere.
        description: What the app does, for that description.
        process: Which process it is, by the names of `rase.service.metrics.COUNTERS`.
        gauges: What ``/metrics`` shows besides counters.
    """
    # No pages for the description: they would load scripts from another host.
    app = _App(
        plain_routes,
        telemetry=telemetry,
        title=title,
        version=version,
        description=description,
        lifespan=lifespan,
        openapi_url=openapi_url,
        docs_url=None,
        redoc_url=None,
        # It would lead to whatever name the request gives as host.
        redirect_slashes=False,
    )
    app.add_middleware(
        _Front,
        max_body_bytes=max_body_bytes,
        body_limits=body_limits or {},
        telemetry=telemetry,
    )

    async def answer_error(request: Request, error: Exception) -> Response:
        return _answer_to(error, telemetry)

    for kind in (RaseError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, answer_error)

    @app.get("/healthz", include_in_schema=False)
    async def get_healthz() -> Response:
        return PlainTextResponse("ok\n")

    @app.get("/readyz", include_in_schema=False)
    async def get_readyz() -> Response:
        found = _readiness(await is_ready())
        return _ready_response(found, is_fine=found.is_ready)

    @app.get("/readyz/all", include_in_schema=False)
    async def get_readyz_all() -> Response:
        found = _readiness(await is_ready())
        return _ready_response(found, is_fine=found.is_ready and not found.reasons)

    @app.get("/metrics", include_in_schema=False)
    async def get_metrics() -> Response:
        text = await run_in_threadpool(exposition, telemetry, process, gauges)
        return Response(text, media_type=CONTENT_TYPE)

    return app


def _readiness(found: bool | Readiness) -> Readiness:
    return found if isinstance(found, Readiness) else Readiness(found)


def _ready_response(found: Readiness, *, is_fine: bool) -> Response:
    word = "not ready" if not found.is_ready else "degraded" if found.reasons else "ready"
    text = "".join(f"{line}\n" for line in (word, *found.reasons))
    return PlainTextResponse(text, status_code=200 if is_fine else 503)


def problem_response(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer that carries a problem."""
    return Response(
        problem.to_json(),
        status_code=problem.type.status,
        media_type=MEDIA_TYPE,
        headers=dict(headers or {}),
    )


async def read_body(receive: Receive, *, limit: int) -> bytes:
    """Return the body of a request to a plain route.

    Raises:
        BodyTooLarge: As soon as there are more than ``limit`` bytes.
    """
    message = await receive()
    if not message.get("more_body", False) and len(message.get("body", b"")) <= limit:
        # Short bodies come in one piece.
        return bytes(message.get("body", b""))
    pieces: list[bytes] = []
    seen = 0
    while True:
        pieces.append(message.get("body", b""))
        seen += len(pieces[-1])
        if seen > limit:
            raise BodyTooLarge(f"the body must have at most {limit} bytes.")
        if not message.get("more_body", False):
            # Joined once: a large body that grows piece by piece would be copied each time.
            return b"".join(pieces)
        message = await receive()


def serve(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    telemetry: Telemetry,
    limits: ConnectionSettings | None = None,
    shutdown_s: int = 10,
) -> None:
    """Serve an app until the process is asked to end; requests under way are finished.

    Args:
        app: The app.
        host: The address to listen on.
        port: The port; 0 for any free one, which is logged.
        telemetry: Logs where the server listens.
        limits: How many connections, and how large and slow their requests may be.
        shutdown_s: How long open requests may take at the end.

    Raises:
        ConfigurationError: If the address cannot be listened on.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise ConfigurationError(
            [f"listen: {host} port {port} cannot be used: {error.strerror}."]
        ) from None
    # asyncio does not see that this is TCP, and would leave answers waiting for acknowledgements.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    limits = limits or ConnectionSettings()
    # uvicorn's own log would name the address of every peer.
    config = uvicorn.Config(
        _Discreet(app, telemetry),
        http=guarded_protocol(limits, telemetry),
        timeout_keep_alive=limits.idle_s,
        # There is no such route, and a connection that becomes one would escape the limits.
        ws="none",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=shutdown_s,
    )
    server = uvicorn.Server(config)

    def stop(*_: object) -> None:
        server.should_exit = True

    # uvicorn ends well on SIGTERM, then raises it once more; by then all is done. One that comes
    # before uvicorn listens for it counts as well.
    before = signal.signal(signal.SIGTERM, stop)
    # All that was imported stays anyway; looking through it for garbage took a seventh of the time.
    gc.collect()
    gc.freeze()
    try:
        with listener:
            telemetry.event("listening", host=host, port=listener.getsockname()[1])
            server.run(sockets=[listener])
    finally:
        gc.unfreeze()
        signal.signal(signal.SIGTERM, before)
    telemetry.event("stopped")


class _Discreet:
    """Log failures that nobody answered by their kind alone, instead of in the server's own log.

    An answer that was begun is cut off by the server when the app returns.
    """

    def __init__(self, app: ASGIApp, telemetry: Telemetry) -> None:
        self._app = app
        self._telemetry = telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            if scope["type"] != "http":
                raise
            self._telemetry.event("unexpected", error=type(error).__name__)


class _App(FastAPI):
    """Answer plain routes before any of FastAPI's and Starlette's layers; leave them the others.

    Args:
        plain_routes: The plain ones.
        telemetry: Counts refusals and unexpected failures.
        **options: What FastAPI takes.
    """

    def __init__(
        self, plain_routes: Sequence[PlainRoute], *, telemetry: Telemetry, **options: Any
    ) -> None:
        super().__init__(**options)
        self._plain_routes = {(route.method, route.path): route.endpoint for route in plain_routes}
        self._plain_described = plain_routes
        self._event_log = telemetry

    def openapi(self) -> dict[str, Any]:
        """Return the description, plain routes with it."""
        if self.openapi_schema is None:
            paths = super().openapi()["paths"]
            for route in self._plain_described:
                paths.setdefault(route.path, {})[route.method.lower()] = dict(route.described)
        return super().openapi()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        plain = None
        if scope["type"] == "http":
            plain = self._plain_routes.get((scope["method"], scope["path"]))
        if plain is None:
            await super().__call__(scope, receive, send)
            return
        try:
            await plain(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - logged by its kind, and answered as a failure
            await _answer_to(error, self._event_log)(scope, receive, send)


class _Front:
    """Bound the bodies of all requests but those of plain routes, and answer what fails.

    Whatever is unexpected is answered here, too: Starlette would hand it on to the server's log,
    with its message, which may quote what was sent.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        max_body_bytes: int,
        body_limits: Mapping[str, int],
        telemetry: Telemetry,
    ) -> None:
        self._app = app
        self._limit = max_body_bytes
        self._limits = body_limits
        self._telemetry = telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def sending(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, self._limit_body(scope, receive), sending)
        except Exception as error:
            if has_begun:
                raise
            await _answer_to(error, self._telemetry)(scope, receive, send)

    def _limit_body(self, scope: Scope, receive: Receive) -> Receive:
        path = scope["path"]
        limit = next(
            (limit for start, limit in self._limits.items() if path.startswith(start)), self._limit
        )
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if length.isdigit() and int(length[:20]) > limit:
            raise BodyTooLarge(f"the body must have at most {limit} bytes.")
        seen = 0

        async def receive_limited() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > limit:
                raise BodyTooLarge(f"the body must have at most {limit} bytes.")
            return message

        return receive_limited


def _answer_to(error: Exception, telemetry: Telemetry) -> Response:
    match error:
        case HttpProblem():
            return _typed_problem(error.problem, telemetry, error.headers)
        case WireError():
            return _typed_problem(problem_of(error), telemetry)
        case StorageError():
            # The message names files of ours; the other side learns only that it may try again.
            telemetry.event("storage_failed", error=str(error))
            problem = Problem(PROBLEM_TYPES["unavailable"], "Try again later.")
            return _typed_problem(problem, telemetry, {"Retry-After": str(_RETRY_S)})
        case HTTPException():
            answer = _plain_problem(error.status_code, str(error.detail), telemetry)
            answer.headers.update(error.headers or {})
            return answer
        case _:
            return _plain_problem(*_status_of(error, telemetry), telemetry)


def _status_of(error: Exception, telemetry: Telemetry) -> tuple[int, str]:
    if isinstance(error, BodyTooLarge):
        return 413, str(error)
    if isinstance(error, ClientDisconnect):
        return 400, "The body is not whole."
    if isinstance(error, RequestValidationError):
        places = sorted({".".join(str(part) for part in e["loc"]) for e in error.errors()})
        return 422, f"These are not as they must be: {', '.join(places)}."
    telemetry.event("unexpected", error=type(error).__name__)
    return 500, "Something unexpected happened; it was logged."


def _typed_problem(
    problem: Problem, telemetry: Telemetry, headers: Mapping[str, str] | None = None
) -> Response:
    telemetry.count(f"problem_{problem.type.name.replace('-', '_')}")
    return problem_response(problem, headers)


def _plain_problem(status: int, detail: str, telemetry: Telemetry) -> Response:
    """Return a refusal that has no type of its own (RFC 9457, 4.2.1)."""
    telemetry.count(f"problem_http_{status}")
    document: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
    }
    return JSONResponse(document, status_code=status, media_type=MEDIA_TYPE)
