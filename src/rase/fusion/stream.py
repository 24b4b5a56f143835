"""Server-Sent Events: final rounds as they come, resumed after the last one that was seen."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from typing import Final

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from rase.campaign import Campaign
from rase.clock import Clock
from rase.fusion.formats import as_json
from rase.fusion.query import Event, Questions
from rase.fusion.refusals import BAD_QUESTION, Refused

__all__ = ["HEARTBEAT_S", "EventStream", "events", "parse_last_id"]

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
        Refused: If it is not one of ours.
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
        clock: Says when a heartbeat is due.
        woken: Set when there may be something new.
        is_ending: Whether the server shuts down.
        may_read: Whether the reader's token still allows it; asked before anything is told.
        heartbeat_s: How long the stream is silent at most.
    """

    def look(after: int) -> list[Event] | None:
        return questions.events_after(campaign, after, method=method) if may_read() else None

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
            yield _packed(event)
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


def _packed(event: Event) -> bytes:
    return b"id: %d\nevent: estimate\ndata: %s\n\n" % (event.sequence, as_json(event.answer))
