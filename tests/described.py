"""Compare answers with what a server's description says of its routes."""

import re
from typing import Any

import httpx

__all__ = ["check_described", "never_seen", "operations", "problems_of", "types_of"]

# About the server itself; no client of the protocol needs them.
_OUTSIDE = ("/healthz", "/readyz", "/readyz/all", "/metrics", "/openapi.json")


def operations(document: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the operations of a description by method and path."""
    return {
        (method.upper(), path): operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def types_of(answer: dict[str, Any]) -> list[str]:
    """Return the problem types that an answer of a description may have."""
    schema = answer.get("content", {}).get("application/problem+json", {}).get("schema", {})
    return list(schema.get("properties", {}).get("type", {}).get("enum", ()))


def problems_of(answer: httpx.Response) -> list[tuple[str, str, str]]:
    """Return the problem that an answer is, with the method and the path; none if it is none."""
    if answer.headers.get("content-type") != "application/problem+json":
        return []
    return [(answer.request.method, answer.request.url.path, answer.json()["type"])]


def never_seen(
    document: dict[str, Any], seen: set[tuple[str, str, str]]
) -> set[tuple[str, str, str]]:
    """Return the problems that a description names and that no answer was."""
    return {
        (method, path, kind)
        for (method, path), operation in operations(document).items()
        for told in operation["responses"].values()
        for kind in types_of(told)
        if not any(
            (method, kind) == (known, found) and _is_at(path, address)
            for known, address, found in seen
        )
    }


def _is_at(template: str, path: str) -> bool:
    return re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path) is not None


def check_described(document: dict[str, Any], answer: httpx.Response) -> None:
    """Fail if an answer is none that the description names for its route.

    Requests to addresses that no route has, or by a method that none takes, are left out.
    """
    method, path = answer.request.method, answer.request.url.path
    if path in _OUTSIDE:
        return
    found = [
        operation
        for (known, template), operation in operations(document).items()
        if known == method and _is_at(template, path)
    ]
    if not found:
        assert answer.status_code in (404, 405), (method, path, answer.status_code)
        return
    told = found[0]["responses"].get(str(answer.status_code))
    assert told is not None, (method, path, answer.status_code, answer.text[:200])
    kind = answer.headers.get("content-type", "").partition(";")[0]
    contents = told.get("content", {})
    assert kind in contents or (not kind and not contents) or not answer.content, (path, kind)
    if kind == "application/problem+json":
        assert answer.json()["type"] in types_of(told), (method, path, answer.json())
