"""Both clients ask the same questions, and follow streams through broken connections."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from rase.answer import Answer
from rase.errors import ConfigurationError
from rase.subscriber.answers import FusionRefused, FusionUnreachable
from rase.subscriber.client import AsyncSubscriber, Subscriber

ROW = {
    "v": 2,
    "campaign": "c",
    "time": "2026-06-21T01:00:00Z",
    "round": 7,
    "status": "ok",
    "value": 5.0,
    "standard_error": None,
    "low": None,
    "high": None,
    "n": 9,
    "local_epsilon": 1.0,
    "method": "unbiased_mean",
}
Handle = Callable[[httpx.Request], httpx.Response]


class Patient:
    """Wait no time, but count how often."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    def __call__(self, seconds: float) -> None:
        """Note it."""
        self.waited.append(seconds)

    async def later(self, seconds: float) -> None:
        """Note it."""
        self.waited.append(seconds)


def asked(handle: Handle, ask: Callable[[Any], Any], **more: Any) -> list[Any]:
    """Ask with both clients; return both results."""
    patient = Patient()
    transport = httpx.MockTransport(handle)
    with Subscriber(
        "http://localhost/", "t", campaign="c", transport=transport, pause=patient, **more
    ) as client:
        results = [ask(client)]

    async def later() -> Any:
        async with AsyncSubscriber(
            "http://localhost/", "t", campaign="c", transport=transport, pause=patient.later, **more
        ) as client:
            return await ask(client)

    return [*results, asyncio.run(later())]


def one_or_many(request: httpx.Request) -> httpx.Response:
    """Answer as a fusion centre does, with the address in the target."""
    assert request.headers["authorization"] == "Bearer t"
    row = {**ROW, "target": str(request.url.copy_with(host="x"))}
    document = row if request.url.path.endswith("latest") else [row]
    return httpx.Response(200, json=document)


@pytest.mark.parametrize(
    ("ask", "target"),
    [
        (lambda client: client.average(), "http://x/v1/estimates/latest?campaign=c"),
        (
            lambda client: client.average(5000, method="median"),
            "http://x/v1/estimates?campaign=c&method=median&at=5000",
        ),
        (
            lambda client: client.average(datetime(2026, 6, 21, tzinfo=UTC)),
            "http://x/v1/estimates?campaign=c&at=2026-06-21T00%3A00%3A00%2B00%3A00",
        ),
        (
            lambda client: client.window("24h", "2026-06-21T00:00:00Z"),
            "http://x/v1/windows?campaign=c&w=24h&at=2026-06-21T00%3A00%3A00Z",
        ),
    ],
    ids=["latest", "at", "datetime", "window"],
)
def test_questions(ask: Callable[[Any], Any], target: str) -> None:
    """Each question is one address."""
    for mean in asked(one_or_many, ask):
        assert mean.target == target


def test_ranges() -> None:
    """All rounds of a time come as a list."""
    for means in asked(one_or_many, lambda client: client.averages(1, 2)):
        assert [mean.target for mean in means] == ["http://x/v1/estimates?campaign=c&from=1&to=2"]


def failing(request: httpx.Request) -> httpx.Response:
    """Fail as a network does."""
    raise httpx.ConnectError("no")


@pytest.mark.parametrize(
    ("handle", "error"),
    [
        (failing, FusionUnreachable),
        (lambda request: httpx.Response(401, json={"detail": "No."}), FusionRefused),
        (lambda request: httpx.Response(200, json=[]), FusionUnreachable),
    ],
    ids=["network", "refusal", "nothing"],
)
def test_failures_have_names(handle: Handle, error: type[Exception]) -> None:
    """Network and refusal are different errors; both end with exit code 4."""
    transport = httpx.MockTransport(handle)
    with (
        Subscriber("https://f.example", "t", transport=transport) as client,
        pytest.raises(error) as refused,
    ):
        client.average(1)
    assert getattr(refused.value, "exit_code", None) == 4

    async def later() -> None:
        async with AsyncSubscriber("https://f.example", "t", transport=transport) as client:
            await client.average(1)

    with pytest.raises(error):
        asyncio.run(later())


class Broken(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A stream that breaks off at the end."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __iter__(self) -> Any:
        """Yield all and break."""
        yield self.text.encode()
        raise httpx.ReadError("broken")

    async def __aiter__(self) -> Any:
        """Yield all and break."""
        yield self.text.encode()
        raise httpx.ReadError("broken")


def event(number: int) -> str:
    """Return one event."""
    return f"id: {number}\nevent: estimate\ndata: {json.dumps({**ROW, 'round': number})}\n\n"


class Centre:
    """A fusion centre whose connections break after two events, or end after one."""

    def __init__(self) -> None:
        self.seen: list[str | None] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Go on after Last-Event-ID."""
        last = request.headers.get("last-event-id")
        self.seen.append(last)
        start = 0 if last is None else int(last)
        if start == 4:
            return httpx.Response(200, text="retry: 250\n\n" + event(5))
        text = event(start + 1) + event(start + 2) + f"id: {start + 3}\ndata: half"
        return httpx.Response(200, stream=Broken(text))


def test_streams_are_resumed() -> None:
    """No event is lost or told twice, and a half event is taken again."""
    sync = Centre()
    patient = Patient()
    with Subscriber(
        "http://localhost", "t", transport=httpx.MockTransport(sync), pause=patient
    ) as client:
        follow = client.follow()
        assert [next(follow).round for _ in range(5)] == [1, 2, 3, 4, 5]
        assert sync.seen == [None, "2", "4"]
        assert next(follow).round == 6
    assert patient.waited == [2.0, 2.0, 0.25]


def test_async_streams_are_resumed() -> None:
    """The same with asyncio."""
    centre = Centre()
    patient = Patient()

    async def take() -> list[Answer]:
        found = []
        async with AsyncSubscriber(
            "http://localhost", "t", transport=httpx.MockTransport(centre), pause=patient.later
        ) as client:
            follow = client.follow(last_id="2", method="median")
            async for mean in follow:
                found.append(mean)
                if len(found) == 4:
                    break
            await follow.aclose()  # type: ignore[attr-defined]
        return found

    assert [mean.round for mean in asyncio.run(take())] == [3, 4, 5, 6]
    assert centre.seen == ["2", "4", "5"]


@pytest.mark.parametrize("kind", ["network", "refusal"])
def test_following_gives_up_when_told_to(kind: str) -> None:
    """After so many connections in vain, or at once when refused."""
    patient = Patient()
    handle: Handle = failing
    error: type[Exception] = FusionUnreachable
    if kind == "refusal":

        def handle(request: httpx.Request) -> httpx.Response:
            return httpx.Response(401, json={"detail": "No."})

        error = FusionRefused
    transport = httpx.MockTransport(handle)
    with (
        Subscriber("http://localhost", "t", transport=transport, pause=patient) as client,
        pytest.raises(error),
    ):
        next(client.follow(attempts=3))
    assert len(patient.waited) == (2 if kind == "network" else 0)

    async def later() -> None:
        async with AsyncSubscriber(
            "http://localhost", "t", transport=transport, pause=patient.later
        ) as client:
            await anext(client.follow(attempts=3))

    with pytest.raises(error):
        asyncio.run(later())


def busy(request: httpx.Request) -> httpx.Response:
    """Refuse twice for a while, then tell one round."""
    refusals = {"": ("7", 429), "1": ("later", 503)}
    asked = request.headers.get("last-event-id", "")
    if asked not in refusals:
        return httpx.Response(200, text=event(int(asked) + 1))
    retry, status = refusals[asked]
    return httpx.Response(status, headers={"Retry-After": retry}, json={"detail": "Full."})


def test_a_stream_that_is_full_is_tried_again() -> None:
    """Too many streams and a server that is away pass; the server says when to come again."""
    patient = Patient()
    with Subscriber(
        "http://localhost", "t", transport=httpx.MockTransport(busy), pause=patient
    ) as client:
        with pytest.raises(FusionRefused, match="Full") as refused:
            next(client.follow(attempts=3))
        assert (refused.value.status, patient.waited) == (429, [7.0, 7.0])
        with pytest.raises(FusionRefused, match="Full") as refused:
            next(client.follow(last_id="1", attempts=2))
        assert (refused.value.status, patient.waited[2:]) == (503, [2.0])
        assert next(client.follow(last_id="2", attempts=1)).round == 3

    async def later() -> None:
        async with AsyncSubscriber(
            "http://localhost", "t", transport=httpx.MockTransport(busy), pause=patient.later
        ) as client:
            await anext(client.follow(attempts=2))

    with pytest.raises(FusionRefused, match="Full"):
        asyncio.run(later())
    assert patient.waited[3:] == [7.0]


@pytest.mark.parametrize(
    ("url", "token", "words"),
    [
        ("http://fusion.example", "t", "https"),
        ("fusion", "t", "address of http or https"),
        ("https://[fusion", "t", "address of http or https"),
        ("https://fusion:port", "t", "address of http or https"),
        ("https://me:hush@fusion.example", "t", "url must not hold a user or password"),
        ("http://localhost", "", "token"),
        ("http://localhost", "a\nb", "token"),
        ("http://localhost", "é", "token"),
    ],
)
def test_bad_addresses_and_tokens_are_refused(url: str, token: str, words: str) -> None:
    """A token never goes over a network in the clear."""
    with pytest.raises(ConfigurationError, match=words):
        Subscriber(url, token)


def test_times_need_a_zone() -> None:
    """A datetime without one would be guessed."""
    with Subscriber("http://localhost", "t") as client, pytest.raises(ValueError, match="zone"):
        client.average(datetime(2026, 6, 21))  # noqa: DTZ001 - that is the mistake


SHARES = {
    "shares": [ROW | {"category": "on", "value": 0.5}],
    "level": 0.95,
    "simultaneous": {"on": [0.1, 0.9]},
    "shown": {"on": 1.0},
    "top": {"on": True},
    "above": [],
    "quantiles": [{"share": 0.5, "low": None, "high": 7.0}],
}
DIFFERENCE = {
    "value": 1.0,
    "standard_error": 0.5,
    "low": 0.0,
    "high": 2.0,
    "level": 0.95,
    "above_zero": 0.977,
    "unit": "W",
    "local_epsilon": 1.0,
    "first": ROW,
    "second": ROW,
}


def test_shares_and_differences_are_asked_for() -> None:
    """Both clients send the same question, and give values back."""
    seen: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(str(request.url).partition("8702")[0].partition("/v1/")[2])
        return httpx.Response(200, json=SHARES if "shares" in request.url.path else DIFFERENCE)

    for found in asked(handle, lambda one: one.shares(7, label="north", quantiles=(0.1, 0.9))):
        assert found.shares[0].value == 0.5
        assert found.simultaneous == {"on": (0.1, 0.9)}
        assert found.quantiles[0].high == 7.0
    sides: tuple[dict[str, Any], ...] = ({"label": "north"}, {"label": "south", "start": 5})
    for found in asked(handle, lambda one: one.difference(*sides)):
        assert (found.value, found.first.round) == (1.0, 7)
    assert (
        seen
        == [
            "shares?campaign=c&at=7&label=north&count=3&level=0.95&quantile=0.1&quantile=0.9",
        ]
        * 2
        + ["difference?campaign=c&label=north&than_label=south&than_from=5&level=0.95"] * 2
    )
    with pytest.raises(ValueError, match="got 'colour'"):
        asked(handle, lambda one: one.difference({"colour": "red"}, {}))


@pytest.mark.parametrize(
    "ask",
    [lambda one: one.shares(), lambda one: one.difference({}, {})],
    ids=["shares", "difference"],
)
def test_something_else_is_no_answer(ask: Callable[[Any], Any]) -> None:
    """Not even JSON with other fields."""
    with pytest.raises(FusionUnreachable):
        asked(lambda request: httpx.Response(200, json={"shares": [], "value": 1}), ask)
