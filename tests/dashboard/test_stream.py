"""The live stream through the dashboard: handed on, ended with the session, for many at once."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.dashboard.conftest import Desk, add_rounds
from tests.fusion.conftest import ROUND, served
from tests.patience import PATIENCE_S

from rase.dashboard.asgi_transport import InsideTransport
from rase.dashboard.page import Hub
from rase.fusion.subscribers import list_access
from rase.subscriber.answers import FusionUnreachable
from rase.subscriber.operator import AsyncOperator

CLIENTS = 200


async def logged_in(desk: Desk, client: httpx.AsyncClient) -> None:
    """Log a client in by the form."""
    proof = Desk.proof((await client.get("/login")).text)
    data = {"proof": proof, "token": desk.reader, "next": "/"}
    assert (await client.post("/login", data=data)).status_code == 303


async def until(lines: AsyncIterator[str], text: str) -> str:
    """Read a stream until a line holds a text."""
    async for line in lines:
        if text in line:
            return line
    return ""


def test_events_are_handed_on(desk: Desk) -> None:
    """A stream begins with the newest round, for those who come later too."""

    async def follow(address: str) -> None:
        async with httpx.AsyncClient(
            base_url=address, trust_env=False, timeout=PATIENCE_S
        ) as client:
            assert (await client.get("/live/events")).status_code == 303
            events = {"Accept": "text/event-stream"}
            assert (await client.get("/live/events", headers=events)).status_code == 401
            await logged_in(desk, client)
            async with client.stream("GET", "/live/events", headers=events) as answer:
                assert answer.headers["content-type"].startswith("text/event-stream")
                # Kept: a stream whose lines nobody holds any more is closed.
                first = answer.aiter_lines()
                assert str(ROUND + 3) in await until(first, "data:")
                async with client.stream("GET", "/live/events", headers=events) as other:
                    assert str(ROUND + 3) in await until(other.aiter_lines(), "data:")
                lines = [one.answer for one in list_access(desk.centre.database)]
                assert lines.count("200 stream") == 1
            async with client.stream("GET", "/live/events", headers=events) as answer:
                assert str(ROUND + 3) in await until(answer.aiter_lines(), "data:")

    with served(desk.app) as address:  # type: ignore[arg-type]
        asyncio.run(asyncio.wait_for(follow(address), PATIENCE_S))


def test_a_stream_ends_with_its_session(desk: Desk) -> None:
    """Who is logged out is told nothing more, even by a stream that was open."""

    async def follow(address: str) -> None:
        async with httpx.AsyncClient(
            base_url=address, trust_env=False, timeout=PATIENCE_S
        ) as client:
            await logged_in(desk, client)
            async with client.stream("GET", "/live/events") as answer:
                lines = answer.aiter_lines()
                assert await until(lines, "data:")
                await desk.sessions.end(client.cookies.get("rase_session"))
                await asyncio.to_thread(add_rounds, desk.centre, {ROUND + 4: [5] * 5})
                assert await until(lines, "data:") == ""

    with served(desk.app) as address:  # type: ignore[arg-type]
        asyncio.run(asyncio.wait_for(follow(address), PATIENCE_S))


def test_two_hundred_clients_see_a_round(desk: Desk) -> None:
    """Each of two hundred open streams tells the next round."""

    async def follow(address: str) -> list[str]:
        limits = httpx.Limits(max_connections=CLIENTS + 10)
        async with httpx.AsyncClient(
            base_url=address, trust_env=False, timeout=PATIENCE_S, limits=limits
        ) as client:
            await logged_in(desk, client)
            ready: asyncio.Queue[None] = asyncio.Queue()

            async def one() -> str:
                async with client.stream("GET", "/live/events") as answer:
                    lines = answer.aiter_lines()
                    await until(lines, f'"round": {ROUND + 3}')
                    ready.put_nowait(None)
                    return await until(lines, f'"round": {ROUND + 4}')

            tasks = [asyncio.create_task(one()) for _ in range(CLIENTS)]
            for _ in tasks:
                await ready.get()
            await asyncio.to_thread(add_rounds, desk.centre, {ROUND + 4: [5] * 5})
            return await asyncio.gather(*tasks)

    with served(desk.app) as address:  # type: ignore[arg-type]
        seen = asyncio.run(asyncio.wait_for(follow(address), PATIENCE_S))
    assert len(seen) == CLIENTS
    assert all(seen)


def test_many_pages_of_a_token_ask_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred pages that follow a round cost the questions of one, and all show the round."""
    # On a slow machine the pages may take longer than an answer is otherwise shared.
    monkeypatch.setattr("rase.dashboard.page._FRESH_S", 600.0)

    async def follow(address: str) -> list[str]:
        async with httpx.AsyncClient(
            base_url=address,
            trust_env=False,
            timeout=PATIENCE_S,
            limits=httpx.Limits(max_connections=50),
        ) as client:
            await logged_in(desk, client)
            async with client.stream("GET", "/live/events") as answer:
                lines = answer.aiter_lines()
                await until(lines, f'"round": {ROUND + 3}')
                await asyncio.to_thread(add_rounds, desk.centre, {ROUND + 4: [5] * 5})
                await until(lines, f'"round": {ROUND + 4}')
                before = len(list_access(desk.centre.database))
                answers = await asyncio.gather(
                    *(client.get("/live?part=1") for _ in range(CLIENTS))
                )
                asked.append(len(list_access(desk.centre.database)) - before)
        return [answer.text for answer in answers]

    asked: list[int] = []
    with served(desk.app) as address:  # type: ignore[arg-type]
        pages = asyncio.run(asyncio.wait_for(follow(address), PATIENCE_S))
    assert all(f'data-newest="{ROUND + 4}"' in page for page in pages)
    # Some of these questions are not logged; none is asked per page.
    assert asked[0] <= 3


def test_a_shared_answer_ends_with_the_next_event_and_never_hides_a_failure() -> None:
    """It is asked anew after an event, after a failure, and when nobody listens."""
    asked: list[int] = []
    more = asyncio.Event()

    async def source() -> AsyncIterator[bytes]:
        yield b"id: 1\ndata: x\n\n"
        await more.wait()
        yield b"id: 2\ndata: y\n\n"
        await asyncio.Event().wait()

    async def ask() -> int:
        asked.append(1)
        await asyncio.sleep(0)
        if len(asked) == 2:
            raise FusionUnreachable("gone")
        return len(asked)

    async def all_() -> None:
        hub = Hub()
        assert await hub.ask_once("k", "q", ask) == 1
        events = hub.listen("k", source)
        assert b"id: 1" in await anext(events)
        both = await asyncio.gather(
            hub.ask_once("k", "q", ask), hub.ask_once("k", "q", ask), return_exceptions=True
        )
        assert [type(one) for one in both] == [FusionUnreachable] * 2
        assert await asyncio.gather(*(hub.ask_once("k", "q", ask) for _ in range(9))) == [3] * 9
        assert await hub.ask_once("k", "other", ask) == 4
        more.set()
        assert b"id: 2" in await anext(events)
        assert await hub.ask_once("k", "q", ask) == 5
        await events.aclose()

    asyncio.run(asyncio.wait_for(all_(), PATIENCE_S))


def test_a_hub_hands_whole_events_to_all() -> None:
    """Pieces are put together, slow readers skip, and a stream that breaks ends for all."""
    opened: list[int] = []

    async def source() -> AsyncIterator[bytes]:
        opened.append(1)
        for piece in (b"retry: 1\n", b"\nid: 1\nda", b"ta: x\n\n", b"id: 2\ndata: y\n\n: half"):
            yield piece
            await asyncio.sleep(0)
        for number in range(40):
            yield b"id: %d\ndata: z\n\n" % number
        raise FusionUnreachable("gone")

    async def read(hub: Hub) -> list[bytes]:
        return [event async for event in hub.listen("k", source)]

    async def all_() -> None:
        hub = Hub()
        seen = await asyncio.gather(read(hub), read(hub))
        assert seen[0] == seen[1]
        assert seen[0][:3] == [b"retry: 1\n\n", b"id: 1\ndata: x\n\n", b"id: 2\ndata: y\n\n"]
        assert len(seen[0]) < 30
        assert len(opened) == 1
        assert len(await read(hub)) == len(seen[0])
        assert len(opened) == 2

    asyncio.run(asyncio.wait_for(all_(), PATIENCE_S))


def test_an_app_inside_is_asked_without_a_network() -> None:
    """Answers stream, an app that fails before or within its answer is told as an error."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = (await receive())["body"]
        if scope["path"] == "/broken":
            raise RuntimeError("secret")
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
        await send({"type": "http.response.body", "body": body, "more_body": True})
        if scope["path"] == "/half":
            raise RuntimeError("secret")
        assert (await receive())["type"] == "http.disconnect"

    async def ask() -> None:
        async with httpx.AsyncClient(
            transport=InsideTransport(app), base_url="http://localhost"
        ) as client:
            async with client.stream("POST", "/", content=b"x") as answer:
                assert answer.headers["a"] == "b"
                assert await anext(answer.aiter_raw()) == b"x"
            with pytest.raises(httpx.ReadError):
                await client.post("/half", content=b"x")
            with pytest.raises(httpx.RemoteProtocolError):
                await client.get("/broken")

    asyncio.run(asyncio.wait_for(ask(), PATIENCE_S))


def test_a_question_that_nobody_waits_for_any_more_ends_in_the_app() -> None:
    """Whoever leaves before the answer has begun leaves no work behind."""

    async def main() -> None:
        has_begun, has_ended = asyncio.Event(), asyncio.Event()

        async def slow(scope: Any, receive: Any, send: Any) -> None:
            has_begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                has_ended.set()

        transport = InsideTransport(slow)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            asking = asyncio.create_task(client.get("/"))
            await has_begun.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        assert has_ended.is_set()

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


@pytest.mark.parametrize("document", ["{}", '{"campaigns": 7}', "[]", "no json"])
def test_what_is_no_fusion_centre_is_told_as_such(document: str) -> None:
    """An answer without what was asked for is no failure of the page."""

    async def other(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": document.encode()})

    async def main() -> None:
        transport = InsideTransport(other)
        async with AsyncOperator("http://localhost", "token", transport=transport) as client:
            with pytest.raises(FusionUnreachable):
                await client.campaigns()

    asyncio.run(main())
