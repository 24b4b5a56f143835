"""Targets for what a device and a subscriber read out of answers over HTTP."""

import io
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, cast

from rase.device.enrolment import EnrolmentRefused, _read_agreement
from rase.errors import Malformed
from rase.subscriber.answers import FusionUnreachable, read_answer, read_answers, refusal_of
from rase.subscriber.following import EventReader
from rase.transport.http import NotHttp, exchange
from rase.transport.interface import Answer, Unreachable
from rase.wire.agreement import Applicant

__all__ = ["ANSWER_TARGETS"]

_MOST: Final = 1 << 16


def read_http(data: bytes) -> None:
    """Read an answer over HTTP; no more bytes than were asked for come out."""
    try:
        response = exchange(cast("Any", _Wire(data)), "GET", "/", headers={}, body=None, most=_MOST)
    except NotHttp:
        return
    assert len(response.body) <= _MOST + 1


def read_enrolment(data: bytes) -> None:
    """Read the answer to an enrolment."""
    for status in (201, 409):
        with suppress(Unreachable, EnrolmentRefused):
            agreement = _read_agreement(Answer(status, data))
            with suppress(Malformed):
                Applicant("a1.b2", bytes(32)).credential(agreement)
            for told in agreement:
                assert told.isascii()
                assert told.isprintable()
                assert told


def read_means(data: bytes) -> None:
    """Read estimates, and refusals."""
    for read in (read_answer, read_answers):
        with suppress(FusionUnreachable):
            read(data)
    assert refusal_of(422, data).status == 422


def read_events(data: bytes) -> None:
    """Read a stream of events; the pause that it asks for is one."""
    reader = EventReader()
    with suppress(FusionUnreachable):
        for line in data.decode("utf-8", "replace").split("\n"):
            event = reader.feed(line)
            if event is not None:
                with suppress(FusionUnreachable):
                    read_answer(event.data)
    assert 0 <= reader.retry_s < float("inf")


ANSWER_TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    "http_answer": read_http,
    "enrolment": read_enrolment,
    "means": read_means,
    "events": read_events,
}


class _Wire:
    """A connection on which certain bytes come back, whatever is sent."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def sendall(self, sent: bytes) -> None:
        """Send into the void."""

    def makefile(self, mode: str) -> io.BufferedReader:
        """Return what comes back."""
        return io.BufferedReader(cast("Any", io.BytesIO(self._data)))
