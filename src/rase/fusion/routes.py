"""What subscribers ask over HTTP: estimates, windows, the live stream, the campaign.

The live stream sends final rounds as Server-Sent Events and resumes after the last one seen.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from rase.answer import Answer
from rase.campaign import Campaign
from rase.clock import Clock
from rase.errors import StorageError
from rase.fusion.access import (
    BEARER,
    PROBLEMS,
    asker_of,
    centre_of,
    log_answer,
    logging_refusals,
    still_allows,
)
from rase.fusion.answers import answer_gap
from rase.fusion.centre import FusionCentre
from rase.fusion.formats import CSV, FORMATS, INFLUX, JSON, as_csv, as_influx, as_json
from rase.fusion.parts import Part
from rase.fusion.query import Event, Questions, parse_moment_s, parse_rounds, round_of
from rase.fusion.refusals import BAD_QUESTION, Refused
from rase.fusion.subscribers import READ_ESTIMATES, Subscriber
from rase.series.calendar import UNITS, CalendarUnit, zone_of

__all__ = [
    "HEARTBEAT_S",
    "At",
    "Category",
    "EventStream",
    "From",
    "Label",
    "Named",
    "To",
    "events",
    "parse_last_id",
    "parse_question",
    "router",
    "span_of",
]

From = Annotated[
    str | None, Query(alias="from", description="Milliseconds since 1970 or RFC 3339.")
]
To = Annotated[str | None, Query(description="Milliseconds since 1970 or RFC 3339; included.")]
Label = Annotated[str | None, Query(description="One label; `*` for each where rows are answered.")]
Category = Annotated[str | None, Query(description="One state; all where rows are answered.")]
At = Annotated[str | None, Query(description="One moment instead of from and to.")]
Named = Annotated[str | None, Query(description="The campaign; may be left out if there is one.")]
_Method = Annotated[str | None, Query(description="The estimator, or `all`.")]
_Format = Annotated[str | None, Query(description="`json`, `csv` or `influx`.")]
_Strict = Annotated[bool, Query(description="No mean for a window that lacks a round.")]
_Timezone = Annotated[
    str | None,
    Query(description="A zone such as Europe/Zurich: w of 1d or 1w is a calendar day or week."),
]

_TABLE: dict[int | str, dict[str, Any]] = {
    **PROBLEMS,
    200: {
        "description": "Flat objects, oldest first; also as CSV and Influx lines.",
        "content": {CSV: {"schema": {"type": "string"}}, INFLUX: {"schema": {"type": "string"}}},
    },
}
router = APIRouter()


@router.get(
    "/v1/estimates",
    response_model=list[Answer],
    responses=_TABLE,
    tags=["subscriber"],
    dependencies=BEARER,
)
def get_estimates(
    request: Request,
    *,
    start: From = None,
    to: To = None,
    at: At = None,
    campaign: Named = None,
    method: _Method = None,
    label: Label = None,
    category: Category = None,
    format: _Format = None,  # noqa: A002 - the word in addresses
) -> Response:
    """Return the estimates of final rounds that began in a time; without a time, all."""
    form = _form(request, format)

    def ask(centre: FusionCentre) -> list[Answer]:
        found, part = centre.questions.campaign(campaign), Part(label, category)
        first, last = span_of(found, start, to, at)
        answers = centre.questions.between(found, first, last, method=method, part=part)
        if at is not None and not answers:
            return [answer_gap(found, first, method, part)]
        return answers

    return _answer_question(request, ask, form)


@router.get(
    "/v1/estimates/latest",
    response_model=Answer,
    responses=PROBLEMS,
    tags=["subscriber"],
    dependencies=BEARER,
)
def get_latest(
    request: Request,
    *,
    campaign: Named = None,
    method: _Method = None,
    label: Label = None,
    category: Category = None,
    format: _Format = None,  # noqa: A002
) -> Response:
    """Return the newest final round."""
    form = _form(request, format)

    def ask(centre: FusionCentre) -> Answer:
        found, part = centre.questions.campaign(campaign), Part(label, category)
        return centre.questions.latest(found, method=method, part=part)

    return _answer_question(request, ask, form)


@router.get(
    "/v1/windows",
    response_model=list[Answer],
    responses=_TABLE,
    tags=["subscriber"],
    dependencies=BEARER,
)
def get_windows(
    request: Request,
    *,
    w: Annotated[str, Query(description="Rounds, or a duration such as 24h.")],
    start: From = None,
    to: To = None,
    at: At = None,
    campaign: Named = None,
    method: _Method = None,
    strict: _Strict = False,
    timezone: _Timezone = None,
    label: Label = None,
    category: Category = None,
    format: _Format = None,  # noqa: A002
) -> Response:
    """Return means over w rounds that end at a moment, or at each round of a time.

    A window that lacks some rounds answers with the others: `rounds` of `of_rounds`. With
    `timezone` they are calendar days or weeks: those that ended in the time, or the one of `at`.
    """
    form = _form(request, format)

    def ask(centre: FusionCentre) -> list[Answer]:
        found, part = centre.questions.campaign(campaign), Part(label, category)
        if timezone is not None:
            days = parse_question(_unit_of, w), parse_question(zone_of, timezone)
            if start is None and to is None and at is None:
                first = last = centre.questions.last_calendar_end(found, *days)
            else:
                first, last = span_of(found, start, to, at)
            if at is None:
                last = min(last, centre.questions.last_round(found))
            return centre.questions.calendar(
                found,
                *days,
                first=first,
                last=last,
                is_whole=at is None,
                method=method,
                strict=strict,
                part=part,
            )
        rounds = parse_question(parse_rounds, w, found)
        if start is None and to is None and at is None:
            first = last = centre.questions.last_round(found)
        else:
            first, last = span_of(found, start, to, at)
            if at is None and to is None:
                # Up to now: no round after the newest has a window yet.
                last = max(first, centre.questions.last_round(found))
        return centre.questions.windows(
            found,
            rounds,
            first=first,
            last=last,
            method=method,
            strict=strict,
            part=part,
        )

    return _answer_question(request, ask, form)


@router.get(
    "/v1/stream",
    tags=["subscriber"],
    response_class=StreamingResponse,
    dependencies=BEARER,
    responses={
        **PROBLEMS,
        200: {
            "description": "Server-Sent Events: `id`, `event: estimate`, `data` as one estimate.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
    },
)
async def stream_estimates(
    request: Request,
    campaign: Named = None,
    method: _Method = None,
    final: Annotated[
        bool, Query(description="Only estimates that no later round will revise.")
    ] = False,
    last_event_id: Annotated[str | None, Header(description="Resume after this event.")] = None,
) -> Response:
    """Follow rounds as they are estimated; begins with the newest, or after Last-Event-ID."""
    centre = centre_of(request)

    def check_question() -> tuple[Campaign, int | None]:
        found = centre.questions.campaign(campaign)
        centre.questions.events_after(found, 2**62, method=method)
        return found, parse_last_id(last_event_id)

    def ask() -> tuple[Subscriber, Campaign, int | None]:
        asker = asker_of(request, READ_ESTIMATES)
        return asker, *logging_refusals(request, asker, check_question)

    asker, found, last_id = await run_in_threadpool(ask)
    woken = asyncio.Event()
    loop = asyncio.get_running_loop()

    def wake() -> None:
        loop.call_soon_threadsafe(woken.set)

    async def body() -> AsyncIterator[bytes]:
        centre.on_final.append(wake)
        try:
            async for piece in events(
                centre.questions,
                found,
                last_id=last_id,
                method=method,
                is_final=final,
                clock=centre.clock,
                woken=woken,
                is_ending=lambda: bool(request.app.state.is_ending),
                may_read=lambda: still_allows(request, READ_ESTIMATES),
            ):
                yield piece
        except StorageError:
            # The reader connects again, and goes on where it was.
            centre.telemetry.count("streams_failed")
        finally:
            centre.on_final.remove(wake)

    with ExitStack() as held:
        held.enter_context(request.app.state.limits.streams.hold(asker.name))
        await run_in_threadpool(log_answer, request, asker, "200 stream")
        return EventStream(body(), held=held.pop_all())


@router.get("/v1/campaigns/{campaign_id}", responses=PROBLEMS, tags=["subscriber"])
def get_campaign(request: Request, campaign_id: str) -> Response:
    """Return the newest version of a campaign: public, as JSON or as the signed bytes."""
    centre = centre_of(request)
    signed = centre.questions.signed_campaign(campaign_id)
    digest = signed.hash.hex()
    headers = {"ETag": f'"{digest}"', "Vary": "Accept"}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    if "application/cbor" in request.headers.get("accept", ""):
        return Response(signed.to_bytes(), media_type="application/cbor", headers=headers)
    document = {
        **signed.campaign.as_fields(),
        "hash": digest,
        "noisy_values_kept_s": centre.policy.keep_values_s,
    }
    return JSONResponse(document, headers=headers)


def _answer_question(
    request: Request,
    ask: Callable[[FusionCentre], Answer | list[Answer]],
    form: str,
) -> Response:
    """Answer a question, and write down that it was asked before the answer leaves."""
    centre = centre_of(request)
    asker = asker_of(request, READ_ESTIMATES)
    answer = logging_refusals(request, asker, lambda: ask(centre))
    rows = [answer] if isinstance(answer, Answer) else answer
    log_answer(request, asker, f"200 {len(rows)} rows")
    if form == JSON:
        return _bytes(as_json(answer), JSON)
    return _bytes(as_csv(rows) if form == CSV else as_influx(rows), f"{form}; charset=utf-8")


def _form(request: Request, name: str | None) -> str:
    if name is not None:
        if name not in FORMATS:
            raise Refused(BAD_QUESTION, f"format must be one of {', '.join(FORMATS)}.")
        return FORMATS[name]
    accepted = re.split("[,;]", request.headers.get("accept", ""))[0].strip()
    return accepted if accepted in (CSV, INFLUX) else JSON


def _unit_of(w: str) -> CalendarUnit:
    """Return the part of the calendar that a window of a zone is."""
    if w not in UNITS:
        raise ValueError(f"w must be {' or '.join(UNITS)} where timezone is given, got {w[:40]!r}.")
    return UNITS[w]


def span_of(
    campaign: Campaign, start: str | None, to: str | None, at: str | None
) -> tuple[int, int]:
    """Return the first and last round that were asked for."""
    if at is not None:
        if start is not None or to is not None:
            raise Refused(BAD_QUESTION, "Give at, or from and to, not both.")
        moment = round_of(campaign, parse_question(parse_moment_s, at))
        return moment, moment
    first, last = 0, 2**32 - 1
    if start is not None:
        # A round belongs to the answer if it begins in the time: hence rounding up.
        first = -round_of(campaign, -parse_question(parse_moment_s, start))
    if to is not None:
        last = round_of(campaign, parse_question(parse_moment_s, to))
    if first > last:
        raise Refused(BAD_QUESTION, "from must not be after to.")
    return first, last


def parse_question(parse: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a question was parsed to.

    Raises:
        Refused: If the question cannot be parsed.
    """
    try:
        return parse(*arguments)
    except ValueError as error:
        raise Refused(BAD_QUESTION, str(error)) from None


def _bytes(body: bytes, media_type: str) -> Response:
    return Response(body, media_type=media_type, headers={"Cache-Control": "no-store"})


HEARTBEAT_S: Final = 15.0
# How often to look without being woken: another process may make rounds final too.
_LOOK_S = 1.0
_RETRY_MS = 2000
_MAX_ID = 2**63


class EventStream(StreamingResponse):
    """Answer with a stream that holds a place until it ends, however it ends.

    A reader that is slow is waited for: nothing is gathered for it meanwhile, and what came is
    read from the database when it is ready again.

    Args:
        pieces: The stream.
        held: What is given back at its end.
    """

    media_type = "text/event-stream"

    def __init__(self, pieces: AsyncIterator[bytes], *, held: ExitStack) -> None:
        # Proxies that gather answers would hold events back.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(pieces, headers=headers)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        with self._held:
            await super().__call__(scope, receive, send)


def parse_last_id(text: str | None) -> int | None:
    """Return the number in a Last-Event-ID; None if there is none.

    Raises:
        Refused: If the event id is not one of ours.
    """
    if text is None or not text.strip():
        return None
    # A number of thousands of digits is not even turned into one.
    if not text.isdecimal() or len(text) > len(str(_MAX_ID)) or int(text) >= _MAX_ID:
        raise Refused(BAD_QUESTION, "Last-Event-ID must be the id of an event of this stream.")
    return int(text)


async def events(
    questions: Questions,
    campaign: Campaign,
    *,
    last_id: int | None,
    method: str | None,
    is_final: bool = False,
    clock: Clock,
    woken: asyncio.Event,
    is_ending: Callable[[], bool] = lambda: False,
    may_read: Callable[[], bool] = lambda: True,
    heartbeat_s: float = HEARTBEAT_S,
) -> AsyncIterator[bytes]:
    """Yield the stream, piece by piece, until the reader goes or may no longer read.

    Args:
        questions: Where events come from.
        campaign: The campaign.
        last_id: The last event the reader has seen; None to begin with the newest.
        method: The estimator.
        is_final: Whether to wait with a round until no later one will revise it.
        clock: Says when a heartbeat is due.
        woken: Set when there may be something new.
        is_ending: Whether the server shuts down.
        may_read: Whether the reader's token still allows it; asked before anything is sent.
        heartbeat_s: How long the stream is silent at most.
    """

    def look(after: int) -> list[Event] | None:
        if not may_read():
            return None
        return questions.events_after(campaign, after, method=method, is_final=is_final)

    newest = await asyncio.to_thread(questions.last_sequence, campaign)
    # An id from the future belongs to a database that is no more.
    sequence = max(newest - 1, 0) if last_id is None else min(last_id, newest)
    yield f"retry: {_RETRY_MS}\n\n".encode()
    spoken_s = clock.monotonic_s()
    while not is_ending():
        woken.clear()
        found = await asyncio.to_thread(look, sequence)
        if found is None:
            return
        for event in found:
            sequence = event.sequence
            yield _pack_event(event)
        if found:
            spoken_s = clock.monotonic_s()
            continue
        if clock.monotonic_s() - spoken_s >= heartbeat_s:
            spoken_s = clock.monotonic_s()
            yield b": still here\n\n"
        try:
            await asyncio.wait_for(woken.wait(), min(_LOOK_S, heartbeat_s))
        except TimeoutError:
            continue


def _pack_event(event: Event) -> bytes:
    return b"id: %d\nevent: estimate\ndata: %s\n\n" % (event.sequence, as_json(event.answer))
