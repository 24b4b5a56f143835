"""The interface of every transport: ask for bytes, hand over bytes, and what comes back."""

from dataclasses import dataclass, field
from typing import Final, Protocol

from rase.errors import RaseError

__all__ = ["MAX_RETRY_AFTER_S", "Answer", "Transport", "Unreachable"]

# Whatever the other side asks for, it is asked again within the hour.
MAX_RETRY_AFTER_S: Final = 3600.0


class Unreachable(RaseError):
    """No answer came; whether the other side got the message is not known."""

    exit_code = 4


@dataclass(frozen=True, slots=True)
class Answer:
    """What the other side answered.

    Args:
        status: The HTTP status.
        body: The bytes.
        etag: The version of a document, for asking again.
        retry_after_s: How long the other side asks to wait.
    """

    status: int
    body: bytes = field(default=b"", repr=False)
    etag: str | None = None
    retry_after_s: float | None = None


class Transport(Protocol):
    """Carry one message there and its answer back."""

    def get(self, path: str, *, etag: str | None = None) -> Answer:
        """Ask for a document.

        Args:
            path: Where it is, from the root of the service.
            etag: The version that is known; status 304 says that it is still the one.

        Raises:
            Unreachable: If no answer came.
        """
        ...

    def post(
        self, path: str, body: bytes, *, content_type: str, credential: str | None = None
    ) -> Answer:
        """Hand over bytes.

        Args:
            path: Where to, from the root of the service.
            body: The bytes.
            content_type: What they are.
            credential: The sender's, with which it proves that the bytes are its own.

        Raises:
            Unreachable: If no answer came; the other side may have got the bytes all the same.
        """
        ...
