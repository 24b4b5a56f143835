"""Server-Sent Events as a subscriber reads them: lines to events, and where to resume."""

from dataclasses import dataclass

from rase.subscriber.answers import FusionUnreachable

__all__ = ["EventReader", "ServerEvent"]

_MAX_EVENT = 1 << 20
_MAX_RETRY_DIGITS = 9  # eleven days, in milliseconds


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """Hold one event.

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
