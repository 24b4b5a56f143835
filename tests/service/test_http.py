"""The app factory: problems, limits, plain routes, serving."""

import asyncio
import io
import signal
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from rase.errors import BudgetSpent, ConfigurationError, StorageUnusable, UnknownKey
from rase.service.http import HttpProblem, PlainRoute, Readiness, create_app, read_body, serve
from rase.service.telemetry import Telemetry
from rase.wire.problems import PROBLEM_TYPES, Problem

PROBLEM = Problem(PROBLEM_TYPES["below-k"], "Too few.")
ERRORS: dict[str, Callable[[], Exception]] = {
    "problem": lambda: HttpProblem(PROBLEM, headers={"Retry-After": "7"}),
    "wire": lambda: UnknownKey("no such key."),
    "storage": lambda: StorageUnusable("the database /srv/x is damaged."),
    "http": lambda: HTTPException(401, "Who?", headers={"WWW-Authenticate": "Bearer"}),
    "other": lambda: BudgetSpent("week", spent=1, asked=1, limit=1),
    "bug": lambda: ZeroDivisionError("secret"),
}


def make_app(telemetry: Telemetry, readiness: Readiness | None = None) -> FastAPI:
    """Return an app whose routes fail in every way."""

    async def plain(scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive, limit=10)
        if body:
            raise ERRORS[body.decode()]()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    async def is_ready() -> bool | Readiness:
        return True if readiness is None else readiness

    app = create_app(
        "Test",
        "1",
        telemetry=telemetry,
        is_ready=is_ready,
        process="fusion",
        max_body_bytes=100,
        body_limits={"/large": 1000},
        plain_routes=[PlainRoute("POST", "/plain", plain)],
    )

    @app.get("/fail/{name}")
    async def fail(name: str) -> None:
        raise ERRORS[name]()

    @app.get("/number/{number}")
    async def number(number: int) -> int:
        return number

    @app.post("/large")
    @app.post("/small")
    async def take(request: Request) -> int:
        return len(await request.body())

    return app


def ask(method: str, path: str, **more: Any) -> httpx.Response:
    """Return the answer of a fresh app."""

    async def main() -> httpx.Response:
        app = make_app(Telemetry("test"))
        # What the app raises would be in the server's log, with its message.
        transport = httpx.ASGITransport(app, raise_app_exceptions=True)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.request(method, path, **more)

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("name", "status", "kind"),
    [
        ("problem", 422, "urn:rase:problem:below-k"),
        ("wire", 409, "urn:rase:problem:outdated-config"),
        ("storage", 503, "urn:rase:problem:unavailable"),
        ("http", 401, "about:blank"),
        ("other", 500, "about:blank"),
        ("bug", 500, "about:blank"),
    ],
)
def test_every_failure_is_a_problem(name: str, status: int, kind: str) -> None:
    """Whatever is raised becomes problem details of the right kind, without inner matters."""
    answer = ask("GET", f"/fail/{name}")
    assert (answer.status_code, answer.json()["type"]) == (status, kind)
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["status"] == status
    assert "secret" not in answer.text
    assert "/srv/x" not in answer.text
    plain = ask("POST", "/plain", content=name)
    assert (plain.status_code, plain.json()) == (status, answer.json())


def test_headers_of_problems_are_sent() -> None:
    """Retry-After and the like travel with the problem."""
    assert ask("GET", "/fail/problem").headers["Retry-After"] == "7"
    assert ask("GET", "/fail/http").headers["WWW-Authenticate"] == "Bearer"
    assert ask("GET", "/fail/storage").headers["Retry-After"] == "5"


def test_wrong_arguments_are_named_not_repeated() -> None:
    """A wrong argument is named by its place."""
    answer = ask("GET", "/number/s3cret")
    assert answer.status_code == 422
    assert "path.number" in answer.json()["detail"]
    assert "s3cret" not in answer.text
    assert ask("GET", "/number/7").json() == 7
    assert ask("DELETE", "/number/7").status_code == 405


def test_bodies_are_bounded_by_route() -> None:
    """A body too large is refused by its length, or while it comes; routes may take more."""

    async def stream() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield bytes(10)

    assert ask("POST", "/small", content=bytes(100)).json() == 100
    assert ask("POST", "/small", content=bytes(101)).status_code == 413
    assert ask("POST", "/small", content=stream()).status_code == 413
    assert ask("POST", "/large", content=bytes(1000)).json() == 1000
    assert ask("POST", "/large", content=bytes(1001)).status_code == 413
    assert ask("POST", "/plain", content=bytes(11)).status_code == 413
    assert ask("POST", "/plain").status_code == 204


def test_an_address_in_use_is_named() -> None:
    """A port that is taken is a mistake of the settings."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"port {port} cannot be used"):
            serve(make_app(Telemetry("t")), host="127.0.0.1", port=port, telemetry=Telemetry("t"))


def test_a_failure_is_told_by_its_kind_alone(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its message may quote what was sent, so it is in no log, not even in the server's own."""

    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError("s3cret")

    class Once:
        def __init__(self, config: uvicorn.Config) -> None:
            self._app: Any = config.app

        def run(self, sockets: list[socket.socket]) -> None:
            asyncio.run(self._app({"type": "http"}, None, None))
            with pytest.raises(ValueError, match="s3cret"):
                asyncio.run(self._app({"type": "lifespan"}, None, None))

    monkeypatch.setattr("uvicorn.Server", Once)
    serve(failing, host="127.0.0.1", port=0, telemetry=Telemetry("test"))
    told = capfd.readouterr().err
    assert "test unexpected error=ValueError\n" in told
    assert "s3cret" not in told


def test_pages_load_nothing_from_elsewhere() -> None:
    """There is a description of the routes, and no page that loads scripts."""
    assert ask("GET", "/openapi.json").json()["openapi"].startswith("3.1")
    assert ask("GET", "/docs").status_code == 404
    assert ask("GET", "/healthz").text == "ok\n"
    assert ask("GET", "/readyz").text == "ready\n"


@pytest.mark.parametrize(
    ("readiness", "statuses", "text"),
    [
        (Readiness(True), (200, 200), "ready\n"),
        (Readiness(True, ("One.", "Two.")), (200, 503), "degraded\nOne.\nTwo.\n"),
        (Readiness(False, ("One.",)), (503, 503), "not ready\nOne.\n"),
    ],
)
def test_readiness_for_balancers_and_for_monitoring(
    readiness: Readiness, statuses: tuple[int, int], text: str
) -> None:
    """Requests go on to a server that is degraded; who watches it sees that it is."""

    async def main() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=make_app(Telemetry("test"), readiness))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return [await client.get(path) for path in ("/readyz", "/readyz/all")]

    answers = asyncio.run(main())
    assert tuple(answer.status_code for answer in answers) == statuses
    assert {answer.text for answer in answers} == {text}


def test_a_server_that_is_stopped_while_it_starts_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A SIGTERM that comes as soon as it says that it listens is not lost."""

    class Stopped(io.StringIO):
        """A log whose reader stops the server as soon as it listens."""

        def write(self, text: str) -> int:
            if "listening" in text:
                signal.raise_signal(signal.SIGTERM)
            return super().write(text)

    served = []

    async def serve_nobody(self: uvicorn.Server) -> None:
        served.append(self)

    monkeypatch.setattr(uvicorn.Server, "main_loop", serve_nobody)
    telemetry = Telemetry("test", stream=Stopped())
    serve(make_app(telemetry), host="127.0.0.1", port=0, telemetry=telemetry)
    assert not served
