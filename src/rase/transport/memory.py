"""Messages inside one process, for simulations: straight to a service, or through a bad network.

Nothing waits here. A delayed message is delivered when the simulation says so, or before a later
one; for its sender it looks as if no answer came.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from rase.kernels.entropy import Entropy, integer_below, is_chosen
from rase.transport.interface import Answer, Unreachable

__all__ = ["FAULTS", "Fault", "FaultyTransport", "Handler", "MemoryTransport", "Message"]

Fault = Literal["drop", "lose-answer", "duplicate", "delay", "tamper", "tamper-answer"]
FAULTS: tuple[Fault, ...] = (
    "drop",
    "lose-answer",
    "duplicate",
    "delay",
    "tamper",
    "tamper-answer",
)


@dataclass(frozen=True, slots=True)
class Message:
    """One message as a service gets it.

    Args:
        method: GET or POST.
        path: Where to.
        body: The bytes.
        content_type: What they are.
        credential: The sender's.
        etag: The version of the document that the sender knows.
    """

    method: str
    path: str
    body: bytes = field(default=b"", repr=False)
    content_type: str | None = None
    credential: str | None = field(default=None, repr=False)
    etag: str | None = None


Handler = Callable[[Message], Answer]


class MemoryTransport:
    """Hand each message to a function.

    Args:
        handler: The service.

    Example:
        >>> MemoryTransport(lambda message: Answer(200, message.path.encode())).get("/v1").body
        b'/v1'
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def get(self, path: str, *, etag: str | None = None) -> Answer:
        """Ask the service for a document."""
        return self._handler(Message("GET", path, etag=etag))

    def post(
        self, path: str, body: bytes, *, content_type: str, credential: str | None = None
    ) -> Answer:
        """Hand bytes to the service."""
        return self._handler(
            Message("POST", path, body, content_type=content_type, credential=credential)
        )


class FaultyTransport:
    """Lose, repeat, delay, reorder and change messages on their way, by a seeded schedule.

    Args:
        handler: The service.
        entropy: Where the faults come from; seeded, so that a run can be repeated.
        chances: How likely each fault is; together at most 1. Missing ones do not happen.

    Raises:
        ValueError: If a fault is unknown or the chances exceed 1.
    """

    def __init__(
        self, handler: Handler, *, entropy: Entropy, chances: Mapping[Fault, float]
    ) -> None:
        if not set(chances) <= set(FAULTS) or not 0 <= sum(chances.values()) <= 1:
            raise ValueError(f"chances must be of {', '.join(FAULTS)}, together at most 1.")
        self._handler = handler
        self._entropy = entropy
        self._chances = dict(chances)
        self._delayed: list[Message] = []
        self.is_down = False
        self.counts: Counter[str] = Counter()

    def get(self, path: str, *, etag: str | None = None) -> Answer:
        """Ask for a document, if the network likes.

        Raises:
            Unreachable: If it does not.
        """
        return self._carry(Message("GET", path, etag=etag))

    def post(
        self, path: str, body: bytes, *, content_type: str, credential: str | None = None
    ) -> Answer:
        """Hand over bytes, if the network likes.

        Raises:
            Unreachable: If it does not.
        """
        return self._carry(
            Message("POST", path, body, content_type=content_type, credential=credential)
        )

    def deliver_delayed(self) -> int:
        """Deliver what was delayed, in random order; return how many messages that were."""
        late, self._delayed = self._delayed, []
        count = len(late)
        while late:
            self._handler(late.pop(integer_below(len(late), self._entropy)))
        return count

    def _carry(self, message: Message) -> Answer:
        if self.is_down:
            self.counts["down"] += 1
            raise Unreachable("the network is down.")
        # Half of the delayed messages arrive before this one, the others behind it.
        if self._delayed and is_chosen(0.5, self._entropy):
            self.deliver_delayed()
        fault = self._drawn_fault()
        self.counts[fault or "none"] += 1
        if fault == "drop":
            raise Unreachable("the message was lost.")
        if fault == "delay":
            self._delayed.append(message)
            raise Unreachable("the message is late.")
        if fault == "tamper":
            message = replace(message, body=self._corrupt(message.body))
        if fault == "duplicate":
            self._handler(message)
        answer = self._handler(message)
        if fault == "lose-answer":
            raise Unreachable("the answer was lost.")
        if fault == "tamper-answer":
            answer = replace(answer, body=self._corrupt(answer.body))
        return answer

    def _drawn_fault(self) -> Fault | None:
        left = 1.0
        for fault, chance in self._chances.items():
            # One coin after the other, each with its chance among what is left.
            if is_chosen(chance / left if left > 0 else 1.0, self._entropy):
                return fault
            left -= chance
        return None

    def _corrupt(self, data: bytes) -> bytes:
        if not data:
            return b"\x00"
        place = integer_below(len(data), self._entropy)
        return data[:place] + bytes((data[place] ^ 1,)) + data[place + 1 :]
