"""The registrar's routes: certificates, keys of token windows, tokens."""

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict
from starlette.responses import JSONResponse, Response

from rase.clock import Clock
from rase.errors import Malformed, RaseError, WireError
from rase.registrar.devices import NotApproved, certify, prune_approvals
from rase.registrar.issuing import MAX_BLINDED, Issuance
from rase.registrar.settings import RegistrarLimits
from rase.registrar.upkeep import Upkeep
from rase.service.connections import network_of
from rase.service.http import HttpProblem, Readiness, create_app
from rase.service.limits import RateLimit
from rase.service.openapi import answers, body_of
from rase.service.telemetry import Telemetry
from rase.storage.interface import Database
from rase.version import __version__
from rase.wire import cbor
from rase.wire.problems import PROBLEM_TYPES
from rase.wire.signed import PinnedKeys
from rase.wire.tokens import (
    CERTIFICATES_PATH,
    MODULUS_SIZE,
    TOKEN_KEYS_PATH,
    TOKENS_PATH,
    TokenRequest,
    requests_from_bytes,
)

__all__ = ["registrar_app", "replies_bytes"]

_MAX_BODY: Final = MAX_BLINDED * (MODULUS_SIZE + 256)
_CBOR: Final = "application/cbor"
_TOKEN_KEYS: Final = answers({200: {_CBOR: {}}}, problems=["unavailable"])
_DESCRIPTION: Final = (
    "Certifies devices and signs their tokens blindly. What is CBOR or signed is described by "
    "docs/reference/specification.md and docs/reference/wire-format.md."
)
_STEP_S: Final = 1.0
_LONGEST_STEP_S: Final = 60.0


class _Asked(BaseModel):
    """What a device sends to be certified."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    approval: str
    device_key: str
    proof: str


class _Certified(BaseModel):
    """What it is answered."""

    certificate: str


def registrar_app(
    database: Database,
    clock: Clock,
    *,
    secret: bytes,
    pinned: PinnedKeys,
    telemetry: Telemetry,
    upkeep: Upkeep | None = None,
    limits: RegistrarLimits | None = None,
) -> FastAPI:
    """Return the registrar's app.

    Args:
        database: The registrar's.
        clock: Gives the time.
        secret: The registrar's signing key.
        pinned: The public signing keys, its own among them.
        telemetry: Logs what happens.
        upkeep: Makes keys ahead while the app runs; None if something else does.
        limits: How much is taken in.
    """
    limits = limits or RegistrarLimits()
    issuance = Issuance(database, clock, pinned=pinned)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        if upkeep is None:
            yield
            return
        work = asyncio.create_task(_keep_up(upkeep, telemetry))
        try:
            yield
        finally:
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work

    app = create_app(
        "RASE registrar",
        __version__,
        telemetry=telemetry,
        is_ready=lambda: asyncio.to_thread(_readiness, database),
        max_body_bytes=_MAX_BODY,
        body_limits={CERTIFICATES_PATH: 4096},
        lifespan=lifespan,
        description=_DESCRIPTION,
        process="registrar",
    )
    _add_certificates(app, database, clock, secret=secret, telemetry=telemetry, limits=limits)
    asked = RateLimit(limits.requests_per_minute, clock)

    @app.get(TOKEN_KEYS_PATH, response_class=Response, responses=_TOKEN_KEYS)
    async def get_token_keys() -> Response:
        """Return the keys of token windows, signed by registrar and shuffler."""
        signed = await asyncio.to_thread(issuance.keys_document)
        return Response(signed, media_type="application/cbor")

    @app.post(
        TOKENS_PATH,
        response_class=Response,
        responses=answers(
            {200: {_CBOR: {}}}, problems=["bad-report", "too-many", "unavailable"], unnamed=[413]
        ),
        openapi_extra=body_of(
            _CBOR,
            description="An array of [device key, campaign, round, [blinded ...], signature].",
        ),
    )
    async def post_tokens(request: Request) -> Response:
        """Sign tokens blindly, each device's once a window.

        Each request is answered in its place: [200, [signature ...]], or its status and the name of
        a problem.
        """
        requests = requests_from_bytes(await request.body(), max_size=_MAX_BODY)
        refused = _refusals(requests, asked)
        taken = [one for one, refusal in zip(requests, refused, strict=True) if refusal is None]
        issued = iter(await asyncio.to_thread(issuance.issue, taken))
        found = [next(issued) if refusal is None else refusal for refusal in refused]
        telemetry.count("tokens_issued", sum(len(x) for x in found if isinstance(x, list)))
        telemetry.count("tokens_refused", sum(isinstance(x, RaseError) for x in found))
        return Response(replies_bytes(found), media_type="application/cbor")

    return app


def _refusals(requests: Sequence[TokenRequest], asked: RateLimit) -> list[WireError | None]:
    """Count the requests; those of a device that asks too often cost a gateway's others nothing.

    Raises:
        HttpProblem: ``too-many``, if nothing else is left.
    """
    refused: list[WireError | None] = []
    problem: HttpProblem | None = None
    for one in requests:
        try:
            asked.check((one.device_key, one.campaign))
            refused.append(None)
        except HttpProblem as error:
            problem = error
            refused.append(WireError("the device asks too often.", problem="too-many"))
    if problem is not None and None not in refused:
        raise problem
    return refused


def replies_bytes(found: Sequence[list[bytes] | RaseError]) -> bytes:
    """Return the answer to requests: for each its status with signatures, or with a problem."""
    replies: list[list[Any]] = []
    for one in found:
        if isinstance(one, list):
            replies.append([200, one])
        else:
            name = one.problem if isinstance(one, WireError) else "unavailable"
            replies.append([PROBLEM_TYPES[name].status, name])
    return cbor.encode(replies)


def _add_certificates(
    app: FastAPI,
    database: Database,
    clock: Clock,
    *,
    secret: bytes,
    telemetry: Telemetry,
    limits: RegistrarLimits,
) -> None:
    wrong = RateLimit(limits.certificates_per_minute, clock)

    @app.post(
        CERTIFICATES_PATH,
        status_code=201,
        response_model=_Certified,
        responses=answers(
            {},
            problems=["bad-report", "not-enrolled", "too-many", "unavailable"],
            unnamed=[400, 413, 422],
        ),
    )
    async def post_certificates(asked: _Asked, request: Request) -> Response:
        """Certify a device's key for an approval of the operator."""
        try:
            certificate = await asyncio.to_thread(
                certify,
                database,
                asked.approval,
                device_key=_bytes_of("device_key", asked.device_key),
                proof=_bytes_of("proof", asked.proof),
                secret=secret,
                now_s=clock.now_s(),
            )
        except NotApproved:
            wrong.check(network_of(request.client.host if request.client else ""))
            raise
        telemetry.count("certificates")
        text = base64.urlsafe_b64encode(certificate).decode().rstrip("=")
        return JSONResponse(
            {"certificate": text}, status_code=201, headers={"Cache-Control": "no-store"}
        )

    async def prune() -> None:
        await asyncio.to_thread(prune_approvals, database, now_s=clock.now_s())

    app.state.prune = prune


def _bytes_of(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise Malformed(f"{name} must be base64url.") from None


def _readiness(database: Database) -> Readiness:
    with database.snapshot() as transaction:
        ((unsigned,),) = transaction.execute("SELECT count(*) FROM token_key WHERE signed IS NULL")
    waits = "keys of token windows wait for the shuffler's signature."
    return Readiness(True, (waits,) if unsigned else ())


async def _keep_up(upkeep: Upkeep, telemetry: Telemetry) -> None:
    """Step until cancelled; what fails rests longer each time."""
    wait_s = _STEP_S
    while True:
        try:
            await asyncio.to_thread(upkeep.step)
            wait_s = _STEP_S
        except Exception as error:  # noqa: BLE001 - whatever it was, it is tried again
            wait_s = min(2 * wait_s, _LONGEST_STEP_S)
            telemetry.count("upkeep_failed")
            telemetry.event("upkeep_failed", error=type(error).__name__, retry_s=wait_s)
        await asyncio.sleep(wait_s)
