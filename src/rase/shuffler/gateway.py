"""One request with the reports of several devices: what a gateway sends, and what it is answered.

The gateway holds the credentials of its devices, so it could send in their names; it cannot read
what it carries. Each report has a fate of its own.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from rase.errors import Malformed, RaseError, StorageError, WireError
from rase.service.http import HttpProblem
from rase.wire import cbor
from rase.wire.frames import Reply
from rase.wire.messages import REPORT_SIZES
from rase.wire.problems import PROBLEM_TYPES

__all__ = [
    "GATEWAY_TYPE",
    "Handed",
    "body_limit",
    "read_reports",
    "reply_to",
    "write_replies",
]

GATEWAY_TYPE: Final = "application/cbor"
# A credential, and the heads of the pair and its parts.
_BESIDE_REPORT: Final = 128 + 16
_RETRY_S: Final = 5


class Handed(NamedTuple):
    """A report with the credential of the device that made it."""

    credential: str
    wire: bytes


def body_limit(most: int) -> int:
    """Return the most bytes of a request with ``most`` reports."""
    return most * (max(REPORT_SIZES.values()) + _BESIDE_REPORT) + 16


def read_reports(body: bytes, *, most: int) -> list[Handed]:
    """Read the CBOR array [[credential, report], …].

    Args:
        body: The request.
        most: How many reports it may hold.

    Raises:
        WireError: Named, if it is no such array; whether a report is one is not looked at.
    """
    pairs: Any = cbor.decode(body, max_size=body_limit(most))
    if not isinstance(pairs, list) or not 1 <= len(pairs) <= most:
        raise Malformed(f"reports must be an array of 1 to {most} pairs [credential, report].")
    for place, pair in enumerate(pairs):
        if not isinstance(pair, list) or [type(part) for part in pair] != [str, bytes]:
            raise Malformed(
                f"reports must be pairs [credential as text, report as bytes]; number {place} is "
                "not, and none was taken."
            )
    return [Handed(*pair) for pair in pairs]


def reply_to(error: RaseError) -> Reply:
    """Return what a gateway is told about a report that was refused."""
    match error:
        case HttpProblem():
            retry_s = error.headers.get("Retry-After")
            kind = error.problem.type
            return Reply(kind.status, kind.name, None if retry_s is None else int(retry_s))
        case WireError():
            return Reply(PROBLEM_TYPES[error.problem].status, error.problem)
        case StorageError():
            return Reply(PROBLEM_TYPES["unavailable"].status, "unavailable", _RETRY_S)
        case _:
            raise error


def write_replies(replies: Sequence[Reply]) -> bytes:
    """Return the replies as a CBOR array of maps, in the order of the reports."""
    return cbor.encode(
        [
            {name: value for name, value in reply._asdict().items() if value is not None}
            for reply in replies
        ]
    )
