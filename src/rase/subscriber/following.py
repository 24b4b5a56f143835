"""A stream that is followed over broken connections: what both clients do between their waits.

Lines of Server-Sent Events become events, each with where to resume.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import httpx

from rase.answer import Answer
from rase.subscriber.answers import FusionRefused, FusionUnreachable, read_answer, refusal_of

__all__ = ["STREAM_TIMEOUT", "EventReader", "Following", "NotNow", "ServerEvent", "unreachable"]

# The server says something at least every 15 seconds; a connection silent for longer is dead.
STREAM_TIMEOUT: Final = httpx.Timeout(30.0, read=45.0)
_LONGEST_PAUSE_S = 300.0
# Too many streams, or a server that is not there just now: both pass.
_PASSING = (429, 502, 503, 504)


class NotNow(FusionRefused):
    """A stream is refused for a while.

    Args:
        refusal: The refusal.
        retry_s: When to try again, as the server asks.
    """

    def __init__(self, refusal: FusionRefused, *, retry_s: float) -> None:
        super().__init__(str(refusal), problem=refusal.problem, status=refusal.status)
        self.retry_s = retry_s


class Following:
    """Remember where a stream is, and decide what follows a failure.

    Args:
        last_id: Resume after this event; None to begin with the newest round.
        attempts: How often in a row to connect in vain before giving up; None for ever.
        on_failure: Called with the reason, once for each time the stream is interrupted.
    """

    def __init__(
        self,
        last_id: str | None,
        *,
        attempts: int | None,
        on_failure: Callable[[str], object] | None = None,
    ) -> None:
        self._on_failure = on_failure
        self._reader = EventReader(last_id)
        self._attempts = attempts
        self._failures = 0
        self._asked_s = 0.0

    @property
    def pause_s(self) -> float:
        """How long to wait before connecting again."""
        return max(self._reader.retry_s, self._asked_s)

    def connection(self) -> dict[str, Any]:
        """Begin again, and return the options of the request."""
        self._reader.restart()
        self._asked_s = 0.0
        headers = {"Accept": "text/event-stream"}
        if self._reader.last_id is not None:
            headers["Last-Event-ID"] = self._reader.last_id
        return {"headers": headers, "timeout": STREAM_TIMEOUT}

    def feed(self, line: str) -> Answer | None:
        """Take the next line; return the mean that it completes."""
        event = self._reader.feed(line)
        if event is None:
            return None
        self._failures = 0
        return read_answer(event.data)

    def refusal(self, answer: httpx.Response) -> FusionRefused:
        """Return the refusal in an answer that has been read."""
        refusal = refusal_of(answer.status_code, answer.content)
        if answer.status_code not in _PASSING:
            return refusal
        asked = answer.headers.get("retry-after", "")
        is_number = asked.isdecimal() and len(asked) < 10
        return NotNow(refusal, retry_s=min(float(asked), _LONGEST_PAUSE_S) if is_number else 0.0)

    def count_failure(self, error: httpx.HTTPError | NotNow) -> None:
        """Count a connection in vain.

        Raises:
            FusionRefused: If this was the last attempt, and the server refused.
            FusionUnreachable: If it was the last, and there was no answer.
        """
        self._failures += 1
        if self._failures == self._attempts:
            raise error if isinstance(error, NotNow) else unreachable(error)
        if self._failures == 1 and self._on_failure is not None:
            self._on_failure(str(error if isinstance(error, NotNow) else unreachable(error)))
        self._asked_s = error.retry_s if isinstance(error, NotNow) else 0.0


def unreachable(error: httpx.HTTPError) -> FusionUnreachable:
    """Return a failure of the network as an error of ours; it names no address."""
    return FusionUnreachable(f"the fusion centre does not answer ({type(error).__name__}).")


_MAX_EVENT = 1 << 20
_MAX_RETRY_DIGITS = 9  # eleven days, in milliseconds


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event.

    Args:
        id: Its number, for resuming; empty if it has none.
        kind: What it is.
        data: Its content.
    """

    id: str
    kind: str
    data: str


class EventReader:
    """Turn lines into events; it remembers the last id and the pause the server asks for.

    Attributes:
        last_id: The id of the last event; None before the first.
        retry_s: How long to wait before connecting again.

    Example:
        >>> reader = EventReader()
        >>> lines = ["id: 7", "event: estimate", "data: {}", ""]
        >>> [event for line in lines if (event := reader.feed(line))]
        [ServerEvent(id='7', kind='estimate', data='{}')]
    """

    def __init__(self, last_id: str | None = None) -> None:
        self.last_id = last_id
        self.retry_s = 2.0
        self._fields: dict[str, list[str]] = {}
        self._length = 0

    def feed(self, line: str) -> ServerEvent | None:
        """Take the next line, without its end; return the event that it completes.

        Raises:
            FusionUnreachable: If an event is longer than any of ours.
        """
        if line.startswith(":"):
            # A comment, by which a server or a proxy keeps the connection alive.
            return None
        self._length += len(line) + 1
        if self._length > _MAX_EVENT:
            raise FusionUnreachable("an event of the stream is too long; check the address.")
        if line:
            name, _, value = line.partition(":")
            self._fields.setdefault(name, []).append(value.removeprefix(" "))
            return None
        found = self._fields
        self.restart()
        retry = found.get("retry", ["x"])[-1]
        if retry.isdecimal() and len(retry) <= _MAX_RETRY_DIGITS:
            self.retry_s = int(retry) / 1000
        if "data" not in found:
            return None
        # The id counts only now: an event that was cut short must come again.
        number = found.get("id", [""])[-1]
        self.last_id = number or self.last_id
        kind = found.get("event", ["message"])[-1]
        return ServerEvent(number, kind, "\n".join(found["data"]))

    def restart(self) -> None:
        """Forget a half event after a broken connection."""
        self._fields = {}
        self._length = 0
