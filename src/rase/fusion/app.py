"""The fusion centre over HTTP: the app, its background work, and batches from the shuffler.

It limits questions per token, streams and batches in flight, and traces every question of a
subscriber: which kind, and how it was answered. Who asked, and for which rounds, is in the access
log alone.
"""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from types import FrameType
from typing import Annotated, Any, Final

from fastapi import APIRouter, FastAPI, Path, Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rase.errors import Malformed
from rase.fusion import admin, overview, part_routes, routes
from rase.fusion.access import PROBLEMS, centre_of
from rase.fusion.centre import FusionCentre
from rase.fusion.health import gauges_of, readiness_of
from rase.fusion.refusals import Refused
from rase.service.http import (
    BodyTooLarge,
    Readiness,
    create_app,
    problem_response,
    read_body,
)
from rase.service.limits import AtOnce, RateLimit
from rase.service.telemetry import Telemetry
from rase.version import __version__
from rase.wire.parcel import MANIFEST_HEADER, manifest_of

__all__ = ["AskLimits", "TracedQuestions", "fusion_app", "openapi_document"]

_MAX_BODY = 1 << 16
_TICK_S = 1.0
_LONGEST_TICK_S = 30.0
# As long as the shuffler waits for its answer.
_BODY_S = 60.0
_DESCRIPTION = (
    "Private estimates of a fleet. Every answer carries its error, its number of reports and its "
    "guarantee. Withheld rounds answer `too_few`, missing ones are gaps; reports are never shown."
)

router = APIRouter()


@dataclass(frozen=True, slots=True)
class AskLimits:
    """How much one app takes; all counts begin with it.

    Args:
        questions: How often a subscriber asks.
        streams: How many streams are open.
        batches: How many batches are being read.
    """

    questions: RateLimit
    streams: AtOnce
    batches: AtOnce


def fusion_app(
    centre: FusionCentre,
    *,
    tick_s: float = _TICK_S,
    background: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
) -> FastAPI:
    """Return the app of a fusion centre.

    Args:
        centre: What it serves.
        tick_s: How often it looks for rounds that are due.
        background: What runs while the app does, such as publishing to a broker.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        work = asyncio.create_task(_work(centre, app, tick_s))
        _end_streams_on_shutdown(app)
        try:
            async with background():
                yield
        finally:
            app.state.is_ending = True
            app.state.arrived.set()
            await work

    async def readiness() -> Readiness:
        return await run_in_threadpool(readiness_of, centre, is_working=app.state.is_working)

    app = create_app(
        "RASE fusion centre",
        __version__,
        telemetry=centre.telemetry,
        is_ready=readiness,
        max_body_bytes=_MAX_BODY,
        body_limits={"/v1/batches/": centre.policy.limits.max_batch_bytes},
        lifespan=lifespan,
        description=_DESCRIPTION,
        process="fusion",
        gauges=lambda: gauges_of(centre),
    )
    app.state.centre = centre
    app.state.arrived = asyncio.Event()
    app.state.is_ending = False
    app.state.is_working = True
    limits, clock = centre.policy.limits, centre.clock
    app.state.limits = AskLimits(
        questions=RateLimit(limits.questions_per_minute, clock),
        streams=AtOnce(limits.max_streams, of_one=limits.streams_per_token, retry_s=30),
        batches=AtOnce(limits.batches_at_once),
    )

    async def answer_refusal(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)  # noqa: S101 - what the handler is registered for
        kind = error.problem.type
        centre.telemetry.count(f"problem_{kind.name.replace('-', '_')}")
        headers = {"WWW-Authenticate": "Bearer"} if kind.status == 401 else {}
        return problem_response(error.problem, headers)

    app.add_exception_handler(Refused, answer_refusal)
    app.add_middleware(TracedQuestions, telemetry=centre.telemetry)
    for part in (router, routes.router, part_routes.router, overview.router, admin.router):
        app.include_router(part)
    return app


def openapi_document(centre: FusionCentre) -> dict[str, Any]:
    """Return the description of the questions, as it is served and checked in."""
    return fusion_app(centre).openapi()


@router.put("/v1/batches/{batch_id}", status_code=201, responses=PROBLEMS, tags=["shuffler"])
async def put_batch(
    request: Request, batch_id: Annotated[str, Path(description="SHA-256 of the batch, in hex.")]
) -> Response:
    """Take in a batch from the shuffler; the same bytes again are answered 200."""
    centre = centre_of(request)
    try:
        claimed = bytes.fromhex(batch_id)
    except ValueError:
        raise Malformed("a batch id must be hexadecimal.", problem="bad-batch") from None
    manifest = manifest_of(request.headers.get(MANIFEST_HEADER))
    # Nothing of the body is read before its manifest is known to be the shuffler's.
    checked = await run_in_threadpool(centre.intake.check_manifest, claimed, manifest)
    with request.app.state.limits.batches.hold("shuffler"):
        body = await _read(request, checked.max_bytes)
        receipt = await run_in_threadpool(centre.receive, checked, body)
    request.app.state.arrived.set()
    return JSONResponse(
        {"batch": batch_id, "round": receipt.round}, status_code=201 if receipt.is_new else 200
    )


async def _read(request: Request, limit: int) -> bytes:
    """Return a body that is no longer than its manifest allows, and that comes in time."""
    try:
        async with asyncio.timeout(_BODY_S):
            return await read_body(request.receive, limit=limit)
    except BodyTooLarge:
        raise Malformed(
            "the batch is longer than its manifest allows.", problem="bad-batch"
        ) from None
    except TimeoutError:
        raise HTTPException(408, "The batch did not come in time.") from None


def _end_streams_on_shutdown(app: FastAPI) -> None:
    """Let streams end when the server ends; it would wait for them first otherwise."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        served = signal.getsignal(number)

        def ending(number: int, frame: FrameType | None, served: Any = served) -> None:
            app.state.is_ending = True
            if callable(served):
                served(number, frame)

        # The server puts its own handler, or whatever was there before, back when it is done.
        signal.signal(number, ending)


async def _work(centre: FusionCentre, app: FastAPI, tick_s: float) -> None:
    """Make rounds final when they are due, until the server ends; what fails rests longer."""
    wait_s = tick_s
    arrived: asyncio.Event = app.state.arrived
    while not app.state.is_ending:
        arrived.clear()
        try:
            await run_in_threadpool(centre.keep_alive)
            await run_in_threadpool(centre.tick)
            wait_s, app.state.is_working = tick_s, True
        except Exception as error:  # noqa: BLE001 - whatever it was, it is tried again
            wait_s, app.state.is_working = min(2 * wait_s, _LONGEST_TICK_S), False
            centre.telemetry.count("ticks_failed")
            centre.telemetry.event("tick_failed", error=type(error).__name__, retry_s=wait_s)
        try:
            await asyncio.wait_for(arrived.wait(), wait_s)
        except TimeoutError:
            continue


_QUESTIONS: Final = "/v1/"
# Batches have a span of their own; how long a stream was listened to is nobody's business.
_LEFT_OUT: Final = ("/v1/batches/", "/v1/stream")


class TracedQuestions:
    """Time the requests of subscribers, if spans go anywhere.

    Args:
        app: What answers.
        telemetry: Makes the spans.
    """

    def __init__(self, app: ASGIApp, *, telemetry: Telemetry) -> None:
        self._app = app
        self._telemetry = telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if (
            self._telemetry.tracer is None
            or scope["type"] != "http"
            or not scope["path"].startswith(_QUESTIONS)
            or scope["path"].startswith(_LEFT_OUT)
        ):
            await self._app(scope, receive, send)
            return
        with self._telemetry.span("question", method=scope["method"]) as span:

            async def sending(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.add_fields(status=message["status"])
                await send(message)

            await self._app(scope, receive, sending)
            # The pattern, not the address: that may hold a name or a time.
            route = getattr(scope.get("route"), "path", None)
            span.add_fields(route=route or "unknown")
