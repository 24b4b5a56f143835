"""The live stream begins with the newest round and is resumed without a gap."""

import asyncio
import json
from collections.abc import AsyncIterator, Generator
from contextlib import ExitStack, aclosing, closing
from typing import Any

import httpx
import pytest
from tests.fusion.conftest import CAMPAIGN, ROUND, Centre, app_of, ask, parcel, reports, served
from tests.patience import PATIENCE_S, until

from rase.errors import StorageBusy
from rase.fusion.refusals import Refused
from rase.fusion.routes import events, parse_last_id
from rase.fusion.settings import FusionLimits, FusionPolicy
from rase.fusion.subscribers import add_subscriber, list_access, revoke_subscriber


def happened(centre: Centre, *rounds: int) -> None:
    """Let rounds become final."""
    for round in rounds:
        centre.clock.jump(max(CAMPAIGN.closes_s(round) - centre.clock.now_s(), 0))
        one = parcel(reports([round - ROUND] * 5, round=round), round=round)
        one.deliver(centre.intake)
        centre.rounds.tick()


def stream(centre: Centre, **more: object) -> AsyncIterator[bytes]:
    """Return the stream of a centre."""
    asked = {"last_id": None, "method": None, "woken": asyncio.Event(), **more}
    return events(centre.questions, CAMPAIGN, clock=centre.clock, **asked)  # type: ignore[arg-type]


def taken(centre: Centre, count: int, **more: object) -> list[bytes]:
    """Return the first pieces of a stream."""

    async def take() -> list[bytes]:
        found = []
        async with aclosing(stream(centre, **more)) as pieces:  # type: ignore[type-var]
            async for piece in pieces:
                found.append(piece)
                if len(found) == count:
                    break
        return found

    return asyncio.run(take())


def rounds_of(pieces: list[bytes]) -> list[int]:
    """Return the rounds that were told."""
    data = [line for piece in pieces for line in piece.splitlines() if line.startswith(b"data: ")]
    return [json.loads(line[6:])["round"] - ROUND for line in data]


def test_a_stream_begins_with_the_newest_round(centre: Centre) -> None:
    """A reader has something to show at once."""
    happened(centre, ROUND, ROUND + 1)
    pieces = taken(centre, 2)
    assert pieces[0] == b"retry: 2000\n\n"
    assert pieces[1].startswith(b"id: 2\nevent: estimate\ndata: {")
    assert rounds_of(pieces) == [1]


def test_a_stream_is_resumed_after_the_last_event(centre: Centre) -> None:
    """Nothing is left out and nothing told twice, also for rounds out of order."""
    happened(centre, ROUND, ROUND + 2, ROUND + 1)
    assert rounds_of(taken(centre, 4, last_id=0)) == [0, 2, 1]
    assert rounds_of(taken(centre, 3, last_id=1)) == [2, 1]


def test_an_id_of_another_life_begins_with_what_comes(centre: Centre) -> None:
    """An id above all others is that of a database that is no more."""
    happened(centre, ROUND)

    async def take() -> bytes:
        woken = asyncio.Event()
        async with aclosing(stream(centre, last_id=99, woken=woken)) as pieces:  # type: ignore[type-var]
            await anext(pieces)
            waiting = asyncio.ensure_future(anext(pieces))
            await asyncio.sleep(0)
            await asyncio.to_thread(happened, centre, ROUND + 1)
            woken.set()
            return await waiting

    assert rounds_of([asyncio.run(take())]) == [1]


def test_a_silent_stream_shows_that_it_lives(centre: Centre) -> None:
    """A comment is sent before anybody takes the connection for dead."""

    async def take() -> list[bytes]:
        async with aclosing(stream(centre, heartbeat_s=0.0)) as pieces:  # type: ignore[type-var]
            return [await anext(pieces) for _ in range(3)]

    assert asyncio.run(take())[1:] == [b": still here\n\n"] * 2


def test_a_stream_ends_with_its_server(centre: Centre) -> None:
    """A graceful shutdown does not wait for readers."""
    assert taken(centre, 9, is_ending=lambda: True) == [b"retry: 2000\n\n"]


@pytest.mark.parametrize(("text", "number"), [(None, None), ("", None), ("7", 7)])
def test_last_event_ids(text: str | None, number: int | None) -> None:
    """Absent and empty mean the beginning."""
    assert parse_last_id(text) == number


@pytest.mark.parametrize("text", ["x", "-1", "1.5", "9" * 30, "9" * 5000])
def test_foreign_event_ids_are_refused(text: str) -> None:
    """What is not one of our ids is a problem."""
    with pytest.raises(Refused, match="Last-Event-ID"):
        parse_last_id(text)


def test_bad_questions_of_a_stream_are_problems(centre: Centre) -> None:
    """They are told before the stream begins, and are in the access log."""
    token = add_subscriber(centre.database, "a")
    app = app_of(centre)
    header = {"Authorization": f"Bearer {token}"}
    for path, more in (
        ("/v1/stream", {"Last-Event-ID": "x"}),
        ("/v1/stream?method=mode", {}),
        ("/v1/stream?campaign=elsewhere", {}),
    ):
        answer = ask(app, "GET", path, headers={**header, **more})
        assert answer.headers["content-type"] == "application/problem+json"
    assert [line.answer for line in list_access(centre.database)] == [
        "400 bad-question",
        "400 bad-question",
        "404 unknown-campaign",
    ]


@pytest.mark.uncovered
def test_streams_over_a_real_socket(centre: Centre) -> None:
    """Rounds put over HTTP reach the readers, who resume after a server that died."""
    token = add_subscriber(centre.database, "a")
    headers = {"Authorization": f"Bearer {token}"}
    centre.clock.jump(CAMPAIGN.closes_s(ROUND + 9) - centre.clock.now_s())

    def put(url: str, round: int) -> None:
        one = parcel(reports([1] * 5, round=round), round=round)
        answer = httpx.put(
            url + one.path, content=one.body, headers=one.headers, timeout=PATIENCE_S
        )
        assert answer.status_code == 201

    def told(url: str, count: int, **more: str) -> list[str]:
        found: list[str] = []
        with httpx.stream(
            "GET", f"{url}/v1/stream", headers={**headers, **more}, timeout=PATIENCE_S
        ) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            for line in answer.iter_lines():
                found += [line] if line.startswith("id: ") else []
                if len(found) == count:
                    break
        return found

    with served(app_of(centre)) as url:
        put(url, ROUND)
        with httpx.stream("GET", f"{url}/v1/stream", headers=headers, timeout=PATIENCE_S) as answer:
            ids = (line for line in answer.iter_lines() if line.startswith("id: "))
            assert next(ids) == "id: 1"
            put(url, ROUND + 1)
            assert next(ids) == "id: 2"
    with served(app_of(centre)) as url:
        put(url, ROUND + 2)
        assert told(url, 2, **{"Last-Event-ID": "1"}) == ["id: 2", "id: 3"]
    assert [line.answer for line in list_access(centre.database)] == ["200 stream"] * 2


def lines_of(url: str, token: str, **more: str) -> Generator[str, None, None]:
    """Yield the lines of a stream, until it ends."""
    headers = {"Authorization": f"Bearer {token}", **more}
    with httpx.stream("GET", f"{url}/v1/stream", headers=headers, timeout=PATIENCE_S) as answer:
        assert answer.status_code == 200
        yield from answer.iter_lines()


@pytest.mark.uncovered
def test_no_round_is_lost_or_told_twice_over_restarts(centre: Centre) -> None:
    """A reader that resumes over the lives of a server sees every round once, in order."""
    token = add_subscriber(centre.database, "a")
    seen: list[str] = []
    for life in range(2):
        # Some rounds become final while nobody serves, some while the stream is open.
        happened(centre, *(ROUND + life * 6 + place for place in range(3)))
        with served(app_of(centre)) as url:
            resume = {"Last-Event-ID": seen[-1]} if seen else {"Last-Event-ID": "0"}
            with closing(lines_of(url, token, **resume)) as lines:
                for line in lines:
                    if line.startswith("id: "):
                        seen.append(line[4:])
                    if len(seen) == life * 6 + 3 and line == "":
                        happened(centre, *(ROUND + life * 6 + place for place in range(3, 6)))
                    if len(seen) == life * 6 + 5:
                        # The sixth of each life is left for the next one.
                        break
    last = {"Last-Event-ID": seen[-1]}
    with served(app_of(centre)) as url, closing(lines_of(url, token, **last)) as lines:
        seen.append(next(line[4:] for line in lines if line.startswith("id: ")))
    assert seen == [str(number) for number in range(1, 13)]


def test_a_stream_ends_when_its_token_is_revoked(centre: Centre) -> None:
    """Nothing more is told from then on, and connecting again is refused."""
    happened(centre, ROUND)
    token = add_subscriber(centre.database, "a")
    with served(app_of(centre)) as url:
        with closing(lines_of(url, token)) as lines:
            assert "id: 1" in lines
            revoke_subscriber(centre.database, centre.clock, name="a")
            happened(centre, ROUND + 1)
            assert not [line for line in lines if line.startswith("id: ")]
        headers = {"Authorization": f"Bearer {token}"}
        answer = httpx.get(f"{url}/v1/stream", headers=headers, timeout=PATIENCE_S)
    assert (answer.status_code, answer.json()["type"]) == (401, "urn:rase:problem:no-token")


def test_a_stream_ends_when_its_token_expires(centre: Centre) -> None:
    """A stream does not outlive what was allowed."""
    now = int(centre.clock.now_s())
    token = add_subscriber(centre.database, "a", expires_s=now + 60)
    with served(app_of(centre)) as url, closing(lines_of(url, token)) as lines:
        assert next(lines) == "retry: 2000"
        centre.clock.advance(60)
        # Whatever heartbeats come, the stream is over.
        assert not [line for line in lines if line.startswith("id: ")]


@pytest.mark.uncovered
def test_streams_are_few(centre: Centre) -> None:
    """One token has so many, all together so many; who leaves makes room."""
    centre.policy = FusionPolicy(limits=FusionLimits(streams_per_token=2, max_streams=3))
    tokens = [add_subscriber(centre.database, name) for name in ("a", "b")]

    def refused(url: str, token: str) -> bool:
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.stream("GET", f"{url}/v1/stream", headers=headers, timeout=PATIENCE_S) as answer:
            if answer.status_code == 200:
                return False
            assert answer.status_code == 429
            assert answer.headers["retry-after"]
            assert json.loads(answer.read())["type"] == "urn:rase:problem:too-many"
        return True

    with served(app_of(centre)) as url, ExitStack() as held:

        def opened(token: str) -> None:
            lines = held.enter_context(closing(lines_of(url, token)))
            assert next(lines) == "retry: 2000"

        opened(tokens[0])
        opened(tokens[0])
        assert refused(url, tokens[0])
        opened(tokens[1])
        assert refused(url, tokens[1])
        held.close()
        # The server sees that readers left when it next speaks or listens to them.
        until(lambda: not refused(url, tokens[0]))
    answers = [line.answer for line in list_access(centre.database)]
    # Refusals for want of a place are counted, not written down.
    assert set(answers) == {"200 stream"}


def test_a_stream_without_a_database_ends_and_is_resumed(
    centre: Centre, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that fails for a while ends the stream; nothing is lost by it."""
    happened(centre, ROUND)
    token = add_subscriber(centre.database, "a")
    app = app_of(centre)
    with served(app) as url:
        with closing(lines_of(url, token)) as lines:
            assert "id: 1" in lines
            with monkeypatch.context() as broken:
                broken.setattr(centre.questions, "events_after", failing)
                assert not [line for line in lines if line.startswith("id: ")]
        happened(centre, ROUND + 1)
        with closing(lines_of(url, token, **{"Last-Event-ID": "1"})) as lines:
            assert "id: 2" in lines
    assert app.state.centre.telemetry.counters()["rase_fusion_streams_failed_total"] == 1


def failing(*_: object, **__: object) -> None:
    """Fail as a database does."""
    raise StorageBusy("the database cannot be used now.")


def test_nothing_is_gathered_for_a_slow_reader(centre: Centre) -> None:
    """While a reader does not read, the stream stands still and asks for nothing."""
    happened(centre, *(ROUND + place for place in range(4)))
    asked = 0
    real = centre.questions.events_after

    def counted(*args: Any, **more: Any) -> Any:
        nonlocal asked
        asked += 1
        return real(*args, **more)[:1]

    async def take() -> list[bytes]:
        found = []
        centre.questions.events_after = counted  # type: ignore[method-assign]
        async with aclosing(stream(centre, last_id=0)) as pieces:  # type: ignore[type-var]
            for _ in range(3):
                found.append(await anext(pieces))
                # Rounds that come meanwhile wait in the database.
                await asyncio.to_thread(happened, centre, ROUND + 4 + len(found))
                assert asked == len(found) - 1
        return found

    assert rounds_of(asyncio.run(take())) == [0, 1]


def test_a_failing_database_does_not_end_the_work(centre: Centre) -> None:
    """Rounds become final as soon as the database answers again."""
    with centre.database.transaction() as transaction:
        transaction.execute("ALTER TABLE access_log RENAME TO gone")
    app = app_of(centre)
    one = parcel(reports([1] * 5))
    with served(app) as url:
        httpx.put(url + one.path, content=one.body, headers=one.headers, timeout=PATIENCE_S)
        with centre.database.transaction() as transaction:
            transaction.execute("ALTER TABLE gone RENAME TO access_log")
        token = add_subscriber(centre.database, "a")
        with httpx.stream(
            "GET",
            f"{url}/v1/stream",
            headers={"Authorization": f"Bearer {token}", "Last-Event-ID": "0"},
            timeout=PATIENCE_S,
        ) as answer:
            assert any(line == "id: 1" for line in answer.iter_lines() if line.startswith("id"))
