"""Whose request it is, whether its token allows it, and the line it leaves in the access log."""

from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import quote

from fastapi import Depends, Request
from fastapi.security import HTTPBearer

from rase.fusion.centre import FusionCentre
from rase.fusion.refusals import Refused
from rase.fusion.subscribers import Subscriber, authenticate, record_access
from rase.wire.problems import MEDIA_TYPE

__all__ = [
    "BEARER",
    "PROBLEMS",
    "asker_of",
    "centre_of",
    "log_answer",
    "logging_refusals",
    "still_allows",
]

_T = TypeVar("_T")

# Both are for the description alone: tokens are checked, and problems made, elsewhere.
BEARER: Final = [
    Depends(HTTPBearer(auto_error=False, description="A token of `rase fusion subscribers add`."))
]
PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    "4XX": {
        "description": "A problem (RFC 9457); `type` is `urn:rase:problem:` and its name.",
        "content": {
            MEDIA_TYPE: {
                "schema": {
                    "type": "object",
                    "required": ["type", "title", "status", "detail"],
                    "properties": {
                        "type": {"type": "string"},
                        "title": {"type": "string"},
                        "status": {"type": "integer"},
                        "detail": {"type": "string"},
                    },
                }
            }
        },
    }
}


def centre_of(request: Request) -> FusionCentre:
    """Return the fusion centre behind a request."""
    centre: FusionCentre = request.app.state.centre
    return centre


def asker_of(request: Request, scope: str | None) -> Subscriber:
    """Return who asks, if their token allows it; without a scope, any valid token does.

    Raises:
        Refused: If the token does not allow this, or there is no token.
        HttpProblem: ``too-many``, if it asked too often; that is counted, not written down.
    """
    asker = _authenticate_request(request)
    request.app.state.limits.questions.check(asker.name)
    if scope is not None:
        logging_refusals(request, asker, lambda: asker.check_allows(scope))
    return asker


def still_allows(request: Request, scope: str) -> bool:
    """Say whether the token of a request that goes on for long still allows it."""
    try:
        _authenticate_request(request).check_allows(scope)
    except Refused:
        return False
    return True


def logging_refusals(request: Request, asker: Subscriber, ask: Callable[[], _T]) -> _T:
    """Return what was asked for; a refusal is written down before it leaves.

    Raises:
        Refused: As ``ask`` does.
    """
    try:
        return ask()
    except Refused as error:
        log_answer(request, asker, f"{error.problem.type.status} {error.problem.type.name}")
        raise


def log_answer(request: Request, asker: Subscriber, answer: str) -> None:
    """Write down what was asked and what became of it."""
    centre = centre_of(request)
    # As it was sent: what an address can hold unescaped could forge lines of a printed log.
    question = f"{request.method} {quote(request.scope['path'])}"
    if request.url.query:
        question += f"?{request.url.query}"
    record_access(
        centre.database, centre.clock, subscriber=asker.name, question=question, answer=answer
    )


def _authenticate_request(request: Request) -> Subscriber:
    centre = centre_of(request)
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return authenticate(
        centre.database, centre.clock, token=token.strip() if kind.lower() == "bearer" else None
    )
