"""How a refusal is sent to the other side: stable problem types, in the form of RFC 9457."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from rase.errors import Malformed, WireError

__all__ = ["MEDIA_TYPE", "PROBLEM_TYPES", "Problem", "ProblemType", "problem_of"]

MEDIA_TYPE: Final = "application/problem+json"
_PREFIX = "urn:rase:problem:"
_OWN_MEMBERS = frozenset({"type", "title", "status", "detail"})


@dataclass(frozen=True, slots=True)
class ProblemType:
    """Name a kind of refusal; names and meanings never change, over HTTP and MQTT alike.

    Args:
        name: The stable name.
        status: The HTTP status it travels with.
        title: What happened, in one sentence.
        remedy: What the sender should do.
        is_final: Whether the same bytes can never be accepted later.
    """

    name: str
    status: int
    title: str
    remedy: str
    is_final: bool

    @property
    def uri(self) -> str:
        """The name as RFC 9457 wants it."""
        return _PREFIX + self.name


_TYPES = (
    ProblemType(
        "outdated-config",
        409,
        "The report was sealed for a key or campaign version that is no longer used.",
        "Fetch campaign and keyset again and seal the same noisy value again.",
        is_final=False,
    ),
    ProblemType(
        "other-keyset",
        409,
        "The report names a keyset that the devices of its round do not go by.",
        "Fetch the keyset again and seal the same noisy value again; if that is no other, somebody "
        "shows this device other keys than the rest: ask the operators.",
        is_final=False,
    ),
    ProblemType(
        "round-not-open",
        409,
        "The round has not ended by the shuffler's clock.",
        "Check the device's clock and send the same bytes later.",
        is_final=False,
    ),
    ProblemType(
        "round-closed",
        410,
        "The round is closed.",
        "Discard the report; its budget stays spent.",
        is_final=True,
    ),
    ProblemType(
        "unknown-campaign",
        404,
        "No such campaign is known here.",
        "Discard the report; check the address.",
        is_final=True,
    ),
    ProblemType(
        "bad-report",
        400,
        "The report is not such as the protocol allows.",
        "Discard the report.",
        is_final=True,
    ),
    ProblemType(
        "bad-batch",
        400,
        "The batch or its manifest is not such as the protocol allows.",
        "Keep the batch and inform the operators of both servers.",
        is_final=True,
    ),
    ProblemType(
        "key-not-held",
        409,
        "The batch was sealed for a key that the fusion centre does not hold.",
        "Keep the batch and send it again; the fusion centre's operator must provide the key.",
        is_final=False,
    ),
    ProblemType(
        "not-enrolled",
        403,
        "The sender is not enrolled.",
        "Enrol, then send the same bytes again.",
        is_final=False,
    ),
    ProblemType(
        "not-a-member",
        403,
        "The device is enrolled, and not for this campaign.",
        "Ask the shuffler's operator to add the device, then send the same bytes again.",
        is_final=False,
    ),
    ProblemType(
        "tokens-issued",
        409,
        "The device has its tokens of this window already.",
        "Report with those that it has; the next window has others.",
        is_final=True,
    ),
    ProblemType(
        "not-issuing",
        409,
        "No tokens are issued for this window now.",
        "Ask for tokens of a later window.",
        is_final=True,
    ),
    ProblemType(
        "too-many",
        429,
        "The sender sends too much.",
        "Send the same bytes again after the time in Retry-After.",
        is_final=False,
    ),
    ProblemType(
        "below-k",
        422,
        "Fewer reports than k_min would be released together.",
        "Nothing is released; the next round may have enough.",
        is_final=True,
    ),
    ProblemType(
        "final-round",
        409,
        "The estimate of the round is final.",
        "Discard the batch.",
        is_final=True,
    ),
    ProblemType(
        "policy-refused",
        403,
        "The operator of this server does not agree to the document.",
        "Propose a document within the operator's policy.",
        is_final=True,
    ),
    ProblemType(
        "foreign-key",
        409,
        "The keyset names a key of the shuffler that it does not hold.",
        "Adopt the shuffler's public keys and propose the keyset again.",
        is_final=False,
    ),
    ProblemType(
        "unsigned",
        503,
        "The part of the shuffler that signs has not answered.",
        "See that the shuffler's closer runs, and propose the same document again.",
        is_final=False,
    ),
    ProblemType(
        "unavailable",
        503,
        "The server cannot store anything now; it kept nothing.",
        "Send the same bytes again after the time in Retry-After.",
        is_final=False,
    ),
)
PROBLEM_TYPES: Final[Mapping[str, ProblemType]] = MappingProxyType(
    {kind.name: kind for kind in _TYPES}
)


@dataclass(frozen=True, slots=True)
class Problem:
    """One refusal as it is sent.

    Args:
        type: The kind of refusal.
        detail: One sentence about this case, without value, key or identity.
        extensions: Further members, e.g. the rounds that are open.

    Example:
        >>> Problem(PROBLEM_TYPES["round-closed"], "Round 7 was closed.", {"round": 7}).to_json()
        b'{"type":"urn:rase:problem:round-closed","title":"The round is closed.","status":410,\
"detail":"Round 7 was closed.","round":7}'
    """

    type: ProblemType
    detail: str = ""
    extensions: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Keep the four members of RFC 9457 for ourselves."""
        taken = sorted(_OWN_MEMBERS.intersection(self.extensions))
        if taken:
            raise ValueError(f"extensions must not hold {', '.join(taken)}: taken by RFC 9457.")

    def to_json(self) -> bytes:
        """Return the body of the answer."""
        kind = self.type
        members = {"type": kind.uri, "title": kind.title, "status": kind.status}
        document = {**members, "detail": self.detail, **self.extensions}
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "Problem":
        """Read the body of an answer.

        Raises:
            Malformed: If it is no problem of this protocol.
        """
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            raise Malformed("a problem must be a JSON object; this is not.") from None
        if not isinstance(document, dict) or not isinstance(document.get("type"), str):
            raise Malformed("a problem must be a JSON object with a type; this is not.")
        kind = PROBLEM_TYPES.get(document["type"].removeprefix(_PREFIX))
        detail = document.get("detail", "")
        if kind is None or not isinstance(detail, str):
            raise Malformed("the answer's problem type is not one of this protocol.")
        more = {name: value for name, value in document.items() if name not in _OWN_MEMBERS}
        return cls(kind, detail, more)


def problem_of(error: WireError) -> Problem:
    """Return what the other side learns about a refusal."""
    return Problem(PROBLEM_TYPES[error.problem], str(error))
