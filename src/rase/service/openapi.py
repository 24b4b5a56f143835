"""What a route answers, in words of OpenAPI, from the same table of problems that answers it.

A server's description is made from its routes: each names the problems that it can answer here,
and tests compare every answer that they get with it (tests/described.py).
"""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI

from rase.wire.problems import MEDIA_TYPE, PROBLEM_TYPES

__all__ = ["Answers", "answers", "body_of", "describe_as_json"]

Answers = dict[int | str, dict[str, Any]]

_UNNAMED: Final = {
    400: "The body is not whole, or no JSON.",
    404: "There is none yet.",
    413: "The body is too large.",
    415: "The body has another media type.",
    422: "A member or parameter is not as it must be.",
}


def answers(
    success: Mapping[int, Mapping[str, Any]],
    *,
    problems: Sequence[str] = (),
    unnamed: Sequence[int] = (),
) -> Answers:
    """Return the answers of a route by their status.

    Args:
        success: The media types of what is not a problem by status, and their schemas; no media
            type where nothing is sent.
        problems: The names of the problem types that it can answer.
        unnamed: The statuses of problems without a type of their own.
    """
    found: Answers = {}
    for status, content in success.items():
        found[status] = {"description": HTTPStatus(status).phrase}
        if content:
            found[status]["content"] = {kind: dict(schema) for kind, schema in content.items()}
    by_status: dict[int, list[str]] = {}
    for name in problems:
        by_status.setdefault(PROBLEM_TYPES[name].status, []).append(name)
    for status in sorted({*by_status, *unnamed}):
        kinds = [PROBLEM_TYPES[name] for name in by_status.get(status, ())]
        words = [f"`{kind.name}`: {kind.title}" for kind in kinds]
        types = [kind.uri for kind in kinds]
        if status in unnamed:
            words.append(_UNNAMED[status])
            types.append("about:blank")
        found[status] = {
            "description": " ".join(words),
            "content": {MEDIA_TYPE: {"schema": _problem_schema(types, status)}},
        }
    return found


def body_of(*media_types: str, description: str) -> dict[str, Any]:
    """Return the body of a request that is bytes, for ``openapi_extra`` of a route."""
    return {
        "requestBody": {
            "required": True,
            "description": description,
            "content": {kind: {} for kind in media_types},
        }
    }


def describe_as_json(app: FastAPI) -> str:
    """Return the description of an app as indented JSON, as the copies in the docs have it."""
    return json.dumps(app.openapi(), indent=1, ensure_ascii=False) + "\n"


def _problem_schema(types: list[str], status: int) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": {"enum": types},
            "title": {"type": "string"},
            "status": {"const": status},
            "detail": {"type": "string"},
        },
    }
