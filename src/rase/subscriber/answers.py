"""What a fusion centre answers, as values: estimates with their error, or why there is none."""

import json
from collections.abc import Mapping
from typing import Any

from rase.answer import (
    FIELDS,
    SCHEMA_VERSION,
    Answer,
    Difference,
    QuantileAnswer,
    ShareAnswers,
)
from rase.errors import RaseError

__all__ = [
    "FusionRefused",
    "FusionUnreachable",
    "document_of",
    "read_answer",
    "read_answers",
    "read_difference",
    "read_shares",
    "refusal_of",
]

_NO_ANSWER = "what answers is no fusion centre of this version; check the address."


class FusionUnreachable(RaseError):
    """The fusion centre does not answer, or what answers is no fusion centre."""

    exit_code = 4


class FusionRefused(RaseError):
    """The fusion centre refuses to answer.

    Args:
        detail: Its reason.
        problem: The name of its problem type; empty if it named none.
        status: The HTTP status.
    """

    exit_code = 4

    def __init__(self, detail: str, *, problem: str = "", status: int = 0) -> None:
        super().__init__(detail)
        self.problem = problem
        self.status = status


def read_answer(body: bytes | str) -> Answer:
    """Read one answer.

    Raises:
        FusionUnreachable: If the body is not an answer.
    """
    return _answer(document_of(body))


def read_answers(body: bytes | str) -> list[Answer]:
    """Read an array of answers.

    Raises:
        FusionUnreachable: If the body is not an answer.
    """
    document = document_of(body)
    if not isinstance(document, list):
        raise FusionUnreachable(_NO_ANSWER)
    return [_answer(item) for item in document]


def read_shares(body: bytes | str) -> ShareAnswers:
    """Read the shares of a round.

    Raises:
        FusionUnreachable: If the body is something else.
    """
    document = document_of(body)
    try:
        return ShareAnswers(
            shares=[_answer(one) for one in document["shares"]],
            level=float(document["level"]),
            simultaneous={
                name: (low, high) for name, (low, high) in document["simultaneous"].items()
            },
            shown=dict(document["shown"]),
            top=dict(document["top"]),
            above=[_answer(one) for one in document["above"]],
            quantiles=[QuantileAnswer(**one) for one in document["quantiles"]],
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        raise FusionUnreachable(_NO_ANSWER) from None


def read_difference(body: bytes | str) -> Difference:
    """Read how far two answers differ.

    Raises:
        FusionUnreachable: If the body is something else.
    """
    document = document_of(body)
    try:
        sides = {name: _answer(document[name]) for name in ("first", "second")}
        return Difference(**{**document, **sides})
    except (KeyError, TypeError):
        raise FusionUnreachable(_NO_ANSWER) from None


def refusal_of(status: int, body: bytes) -> FusionRefused:
    """Return a refusal as an error, by its problem details if it has them."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, Mapping):
        return FusionRefused(f"the fusion centre answers with HTTP status {status}.", status=status)
    kind = str(document.get("type", "")).removeprefix("urn:rase:problem:")
    detail = document.get("detail") or document.get("title") or f"HTTP status {status}."
    return FusionRefused(f"the fusion centre refuses: {detail}", problem=kind, status=status)


# Words may be missing in an answer that was written by hand; these may not.
_REQUIRED = ("status", "time", "value", "standard_error", "low", "high", "n", "method")


def document_of(body: bytes | str) -> Any:
    """Read any answer.

    Raises:
        FusionUnreachable: If it is no JSON.
    """
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise FusionUnreachable(_NO_ANSWER) from None


def _answer(document: Any) -> Answer:
    # Later versions may add members; a change of meaning changes v.
    if not isinstance(document, Mapping) or document.get("v") != SCHEMA_VERSION:
        raise FusionUnreachable(_NO_ANSWER)
    if any(name not in document for name in _REQUIRED):
        raise FusionUnreachable(_NO_ANSWER)
    return Answer(**{name: value for name, value in document.items() if name in FIELDS})
