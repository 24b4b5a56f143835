"""The shuffler's routes: enrolment, documents, reports. None of them can open a report or sign.

The route of reports bypasses FastAPI's machinery; see rase.service.http.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from hashlib import sha256
from typing import Any, Final

from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from rase.clock import Clock
from rase.errors import WrongCampaign
from rase.service.connections import network_of
from rase.service.http import PlainRoute, create_app
from rase.service.key_offer import OFFER_PATH
from rase.service.limits import RateLimit
from rase.service.openapi import Answers, answers, body_of
from rase.service.telemetry import Telemetry
from rase.shuffler.documents import Countersigner
from rase.shuffler.enrolment import NotEnrolled, check_token, enrol
from rase.shuffler.health import gauges_of, readiness_of
from rase.shuffler.proposals import MAX_PROPOSAL_BYTES
from rase.shuffler.public_keys import kept_offer
from rase.shuffler.report_handler import GATEWAY_TYPE, ReportHandler
from rase.shuffler.settings import LimitSettings
from rase.shuffler.signing import Signature, Signer, SigningService
from rase.shuffler.token_keys import published_token_keys
from rase.storage.interface import Database
from rase.version import __version__
from rase.wire.agreement import Application
from rase.wire.messages import REPORT_TYPE
from rase.wire.signed import PinnedKeys
from rase.wire.tokens import TOKEN_KEYS_PATH

__all__ = ["create_shuffler_app"]

_MOST_ADDRESSES: Final = 100_000

_CBOR: Final = "application/cbor"
_SIGNATURE: Final = "application/octet-stream"
_TOKEN_KEYS: Final = answers({200: {_CBOR: {}}}, problems=["unavailable"])
_OFFER: Final = answers({200: {_CBOR: {}}}, problems=["unavailable"], unnamed=[404])
_KEYSET: Final = answers({200: {_CBOR: {}}, 304: {}}, unnamed=[404])
_DOCUMENT: Final = answers({200: {_CBOR: {}}, 304: {}}, problems=["unknown-campaign"])


def _countersign_answers(*problems: str, unnamed: Sequence[int] = ()) -> Answers:
    """Return the answers of a route that countersigns."""
    usual = ("bad-report", "policy-refused", "unsigned", "unavailable", "too-many")
    return answers(
        {201: {_SIGNATURE: {}}, 200: {_SIGNATURE: {}}},
        problems=[*usual, *problems],
        unnamed=[413, *unnamed],
    )


_DESCRIPTION: Final = (
    "Takes sealed reports of devices and hides who sent them. What is CBOR, sealed or signed is "
    "described by docs/reference/specification.md and docs/reference/wire-format.md."
)
_REPORTS: Final = {
    "summary": "Post Reports",
    "description": "Take a report of a device in, or those of several from a gateway. It is "
    "answered 201 when it is on the disk, 200 if it is known. A gateway is answered 200 with a map "
    "of `status`, `problem` and `retry_after_s` for each report, in their order.",
    "operationId": "post_reports_v1_reports_post",
    "parameters": [
        {
            "name": "Authorization",
            "in": "header",
            "required": False,
            "description": "`RASE`, the handle and the tag of a report sent alone.",
            "schema": {"type": "string"},
        }
    ],
    **body_of(
        REPORT_TYPE,
        GATEWAY_TYPE,
        description="A report; or an array of [handle, report with its tag].",
    ),
    "responses": {
        str(status): answer
        for status, answer in answers(
            {201: {}, 200: {GATEWAY_TYPE: {}}},
            problems=[
                *("bad-report", "not-enrolled", "not-a-member", "unknown-campaign"),
                *("outdated-config", "other-keyset", "round-not-open", "round-closed", "too-many"),
                "unavailable",
            ],
            unnamed=[415],
        ).items()
    },
}

Background = Callable[[ReportHandler], AbstractAsyncContextManager[None]]


class _Enrolment(BaseModel):
    """What a device sends to enrol."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    token: str
    device_key: str
    proof: str
    certificate: str


class _Enrolled(BaseModel):
    """What it is answered."""

    device: str
    server_key: str
    proof: str


def create_shuffler_app(
    database: Database,
    clock: Clock,
    *,
    pinned: PinnedKeys,
    telemetry: Telemetry,
    countersigner: Countersigner | None = None,
    limits: LimitSettings | None = None,
    background: Background | None = None,
) -> FastAPI:
    """Return the shuffler's app.

    Args:
        database: The shuffler's.
        clock: Gives the time.
        pinned: The public signing keys of both servers.
        telemetry: Logs what happens.
        countersigner: Signs campaigns and keysets in this process, where one process is the whole
            shuffler; None leaves it to the closer's, as an intake with a public address must.
        limits: How much is taken in.
        background: What runs while the app does, such as the closer; it may take reports in.
    """
    limits = limits or LimitSettings()
    handler = ReportHandler(database, clock, pinned=pinned, telemetry=telemetry, limits=limits)
    app = create_app(
        "RASE shuffler",
        __version__,
        telemetry=telemetry,
        is_ready=lambda: asyncio.to_thread(
            readiness_of, database, clock, obstacles=handler.obstacles()
        ),
        max_body_bytes=MAX_PROPOSAL_BYTES,
        body_limits={"/v1/enrolments": 4096},
        plain_routes=[PlainRoute("POST", "/v1/reports", handler, _REPORTS)],
        lifespan=_lifespan(handler, background),
        description=_DESCRIPTION,
        process="shuffler intake",
        gauges=lambda: gauges_of(database, clock),
    )
    _add_enrolment(app, database, clock, limits=limits, telemetry=telemetry, pinned=pinned)
    signer = None
    if countersigner is not None:
        signer = Signer(database, clock, countersigner=countersigner, telemetry=telemetry)
    _add_documents(app, handler, clock=clock)
    _add_keys(app, database, clock)
    _add_proposals(app, handler, SigningService(database, clock, pinned=pinned, signer=signer))
    return app


def _lifespan(
    handler: ReportHandler, background: Background | None
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        refreshing = asyncio.create_task(handler.keep_fresh())
        try:
            if background is None:
                yield
            else:
                async with background(handler):
                    yield
        finally:
            refreshing.cancel()
            with suppress(asyncio.CancelledError):
                await refreshing
            await handler.aclose()

    return lifespan


def _add_enrolment(
    app: FastAPI,
    database: Database,
    clock: Clock,
    *,
    limits: LimitSettings,
    telemetry: Telemetry,
    pinned: PinnedKeys,
) -> None:
    # Wrong tries count by address, right ones by token: nobody without a token can keep out a
    # device that has one. Behind a proxy that hides addresses all wrong tries share one count.
    wrong = RateLimit(limits.enrolments_per_minute, clock, most_senders=_MOST_ADDRESSES)
    right = RateLimit(limits.enrolments_per_minute, clock)

    @app.post(
        "/v1/enrolments",
        status_code=201,
        response_model=_Enrolled,
        responses=answers(
            {}, problems=["not-enrolled", "too-many", "unavailable"], unnamed=[400, 413, 422]
        ),
    )
    async def enrol_device(body: _Enrolment, request: Request) -> Response:
        """Agree with a device on its credential, for a token and a certificate."""
        asked = Application(body.token, body.device_key, body.proof)
        try:
            name = await asyncio.to_thread(check_token, database, asked, now_s=clock.now_s())
        except NotEnrolled:
            wrong.check(network_of(request.client.host if request.client else ""))
            raise
        right.check(name)
        agreed = await asyncio.to_thread(
            enrol,
            database,
            asked,
            now_s=clock.now_s(),
            most=limits.devices_per_owner,
            certificate=body.certificate,
            pinned=pinned,
        )
        telemetry.count("enrolments")
        headers = {"Cache-Control": "no-store"}
        return JSONResponse(agreed._asdict(), status_code=201, headers=headers)


def _add_documents(app: FastAPI, handler: ReportHandler, *, clock: Clock) -> None:
    @app.get("/v1/campaigns/{campaign_id}", response_class=Response, responses=_DOCUMENT)
    async def get_campaign(campaign_id: str, request: Request) -> Response:
        """Return the newest version of a campaign, signed by both servers."""
        agreed = handler.documents.newest(campaign_id)
        if agreed is None:
            raise WrongCampaign("no such campaign is known here.")
        return _document(agreed.signed, request, handler)

    @app.get("/v1/campaigns/{campaign_id}/versions", response_class=Response, responses=_DOCUMENT)
    async def get_versions(campaign_id: str, request: Request) -> Response:
        """Return every version that holds in a round not closed yet, or later."""
        versions = handler.documents.published_bytes(campaign_id, now_s=clock.now_s())
        if versions is None:
            raise WrongCampaign("no such campaign is known here.")
        return _document(versions, request, handler)

    @app.get("/v1/keyset", response_class=Response, responses=_KEYSET)
    async def get_keyset(request: Request) -> Response:
        """Return the public keys of both servers, signed by both."""
        if handler.documents.keyset is None:
            raise HTTPException(404, "There is no keyset yet.")
        return _document(handler.documents.signed_keyset, request, handler)


def _add_keys(app: FastAPI, database: Database, clock: Clock) -> None:
    @app.get(OFFER_PATH, response_class=Response, responses=_OFFER)
    async def get_public_keys() -> Response:
        """Return the public keys that this shuffler offers for the next keyset."""
        signed = await asyncio.to_thread(kept_offer, database)
        if signed is None:
            raise HTTPException(404, "The shuffler's operator rotates keys by hand.")
        return Response(
            signed, media_type="application/cbor", headers={"Cache-Control": "no-cache"}
        )

    @app.get(TOKEN_KEYS_PATH, response_class=Response, responses=_TOKEN_KEYS)
    async def get_token_keys() -> Response:
        """Return the registrar's keys of token windows, signed by both."""
        signed = await asyncio.to_thread(published_token_keys, database, now_s=clock.now_s())
        return Response(
            signed, media_type="application/cbor", headers={"Cache-Control": "no-cache"}
        )


def _add_proposals(app: FastAPI, handler: ReportHandler, signing: SigningService) -> None:
    proposed = body_of(_CBOR, description="The array [document, signature of who proposes it].")
    signs: dict[str, Any] = {"status_code": 201, "response_class": Response}

    @app.put(
        "/v1/campaigns/{campaign_id}/{version}",
        responses=_countersign_answers(unnamed=[422]),
        openapi_extra=proposed,
        **signs,
    )
    async def put_campaign(campaign_id: str, version: int, request: Request) -> Response:
        """Countersign a campaign that the fusion centre proposes."""
        proposal = await request.body()
        signature = await signing.campaign(proposal, expected=(campaign_id, version))
        return await _countersign_response(signature)

    @app.put(
        "/v1/keyset", responses=_countersign_answers("foreign-key"), openapi_extra=proposed, **signs
    )
    async def put_keyset(request: Request) -> Response:
        """Countersign the keyset that the fusion centre proposes."""
        return await _countersign_response(await signing.keyset(await request.body()))

    @app.put(
        TOKEN_KEYS_PATH,
        responses=_countersign_answers("unknown-campaign"),
        openapi_extra=proposed,
        **signs,
    )
    async def put_token_key(request: Request) -> Response:
        """Countersign the key of a token window that the registrar proposes."""
        return await _countersign_response(await signing.token_key(await request.body()))

    async def _countersign_response(signature: Signature) -> Response:
        await asyncio.to_thread(handler.refresh)
        return Response(
            signature.value,
            status_code=201 if signature.is_new else 200,
            media_type="application/octet-stream",
        )


def _document(signed: bytes, request: Request, handler: ReportHandler) -> Response:
    etag = f'"{sha256(signed).hexdigest()[:32]}"'
    keyset = handler.documents.keyset
    age_s = 60 if keyset is None else keyset.cache_s
    headers = {"ETag": etag, "Cache-Control": f"max-age={age_s}"}
    if request.headers.get("If-None-Match") == etag:
        return Response(status_code=304, headers=headers)
    return Response(signed, media_type="application/cbor", headers=headers)
