"""Python clients of a fusion centre, one that waits and one for asyncio; they ask the same."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

import httpx

from rase.answer import Answer, Difference, ShareAnswers
from rase.service.clients import async_client, client
from rase.subscriber.answers import (
    FusionUnreachable,
    read_answer,
    read_answers,
    read_difference,
    read_shares,
    refusal_of,
)
from rase.subscriber.following import Following, NotNow, unreachable
from rase.subscriber.questions import Moment, Query, base_url, headers, span, two_sides

__all__ = ["AsyncSubscriber", "Subscriber"]

_TIMEOUT_S = 30.0


class Subscriber:
    """Ask a fusion centre, and wait for its answers.

    Args:
        url: Its address; https, except on this machine.
        token: The token that its operator gave you.
        campaign: Which campaign; None if it has only one.
        timeout_s: How long to wait for an answer.
        transport: Another way than the network; for tests.
        pause: How to wait before connecting again; for tests.

    Raises:
        ConfigurationError: If address or token cannot be used.

    Example:
        >>> with Subscriber("http://localhost:8702", "rase_your_token") as centre:
        ...     ask = centre.average  # ask(at="2026-06-21T00:00:00Z")
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        campaign: str | None = None,
        timeout_s: float = _TIMEOUT_S,
        transport: httpx.BaseTransport | None = None,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        self._campaign = campaign
        self._pause = threading.Event().wait if pause is None else pause
        self._http = client(
            url,
            base_url=base_url(url),
            headers=headers(token),
            timeout=timeout_s,
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def average(
        self,
        at: Moment | None = None,
        *,
        method: str | None = None,
        label: str | None = None,
        category: str | None = None,
    ) -> Answer:
        """Return avg(t): the estimate of the round at a moment; of the newest if None.

        Args:
            at: The moment.
            method: The estimator.
            label: One of the campaign's labels; all devices unless given.
            category: Where it is about states, the one whose share is asked for.

        Raises:
            FusionRefused: If the fusion centre refuses, with its reason.
            FusionUnreachable: If it does not answer.
        """
        query = span(campaign=self._campaign, method=method, at=at, label=label, category=category)
        if at is None:
            return read_answer(self._get("/v1/estimates/latest", query))
        return _only(read_answers(self._get("/v1/estimates", query)))

    def averages(
        self,
        start: Moment | None = None,
        end: Moment | None = None,
        *,
        method: str | None = None,
        label: str | None = None,
        category: str | None = None,
    ) -> list[Answer]:
        """Return the estimates of all rounds that began in a time; missing rounds are gaps."""
        query = span(
            campaign=self._campaign,
            method=method,
            start=start,
            end=end,
            label=label,
            category=category,
        )
        return read_answers(self._get("/v1/estimates", query))

    def window(
        self,
        w: int | str,
        at: Moment | None = None,
        *,
        method: str | None = None,
        strict: bool = False,
        timezone: str | None = None,
        label: str | None = None,
        category: str | None = None,
    ) -> Answer:
        """Return Win(t, w): the mean of w rounds (or of a duration) up to a moment.

        Where some of them were withheld it is computed from the others, as its ``rounds`` and
        ``of_rounds`` say; with ``strict`` there is no mean then. With a ``timezone`` such as
        Europe/Zurich and w of 1d or 1w it is the mean of the calendar day or week of the moment in
        that zone, or of the newest that is over.
        """
        query = span(
            campaign=self._campaign,
            method=method,
            w=w,
            at=at,
            strict=strict,
            timezone=timezone,
            label=label,
            category=category,
        )
        return _only(read_answers(self._get("/v1/windows", query)))

    def shares(
        self,
        at: Moment | None = None,
        *,
        label: str | None = None,
        count: int = 3,
        quantiles: Sequence[float] = (0.5,),
        level: float = 0.95,
    ) -> ShareAnswers:
        """Return the shares of all states in a round, each and all at once.

        Args:
            at: A moment of the round; the newest if None.
            label: One of the campaign's labels; all devices unless given.
            count: How many of the commonest states to name.
            quantiles: Which quantiles to place, where the states are intervals of numbers.
            level: The probability that an interval holds its share.

        Raises:
            FusionRefused: If the fusion centre refuses, with its reason.
            FusionUnreachable: If it does not answer.
        """
        query = span(campaign=self._campaign, method=None, at=at, label=label)
        more = {"count": str(count), "level": str(level)}
        wished = [("quantile", str(one)) for one in quantiles]
        return read_shares(self._get("/v1/shares", [*(query | more).items(), *wished]))

    def difference(
        self,
        first: Mapping[str, Moment],
        second: Mapping[str, Moment],
        *,
        level: float = 0.95,
    ) -> Difference:
        """Return one answer less another, with the error of that.

        Args:
            first: What the first is about: ``campaign``, ``label``, ``category``, and a time as
                ``at``, or as ``start`` and ``end``; the newest round if it has no time.
            second: What is different about the second.
            level: The probability that the interval holds the true difference.

        Raises:
            ValueError: If a side has another word.
            FusionRefused: If the fusion centre refuses, with its reason.
            FusionUnreachable: If it does not answer.
        """
        query = two_sides(self._campaign, first, second) | {"level": str(level)}
        return read_difference(self._get("/v1/difference", query))

    def follow(
        self,
        *,
        last_id: str | None = None,
        method: str | None = None,
        final: bool = False,
        attempts: int | None = None,
        on_failure: Callable[[str], object] | None = None,
    ) -> Iterator[Answer]:
        """Yield each round as it becomes final, for ever; broken connections are resumed.

        No round is left out or repeated while the fusion centre keeps its database.

        Args:
            last_id: Resume after this event; None to begin with the newest round.
            method: The estimator.
            final: Whether to wait with each round until no later one will revise it.
            attempts: How often in a row to connect in vain before giving up; None for ever.
            on_failure: Called with the reason, once for each time the stream is interrupted.

        Raises:
            FusionRefused: If the fusion centre refuses; for now only, if ``attempts`` were in vain.
            FusionUnreachable: If ``attempts`` were in vain.
        """
        following = Following(last_id, attempts=attempts, on_failure=on_failure)
        query = span(campaign=self._campaign, method=method, final=final)
        while True:
            try:
                with self._http.stream(
                    "GET", "/v1/stream", params=query, **following.connection()
                ) as answer:
                    if answer.status_code != 200:
                        answer.read()
                        raise following.refusal(answer)
                    for line in answer.iter_lines():
                        mean = following.feed(line)
                        if mean is not None:
                            yield mean
            except (httpx.HTTPError, NotNow) as error:
                following.count_failure(error)
            self._pause(following.pause_s)

    def _get(self, path: str, query: Query) -> bytes:
        try:
            answer = self._http.get(path, params=query)
        except httpx.HTTPError as error:
            raise unreachable(error) from None
        if answer.status_code != 200:
            raise refusal_of(answer.status_code, answer.content)
        return answer.content


class AsyncSubscriber:
    """Ask a fusion centre from asyncio; all that `Subscriber` does.

    Args:
        url: Its address; https, except on this machine.
        token: The token that its operator gave you.
        campaign: Which campaign; None if it has only one.
        timeout_s: How long to wait for an answer.
        transport: Another way than the network; for tests.
        pause: How to wait before connecting again; for tests.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        campaign: str | None = None,
        timeout_s: float = _TIMEOUT_S,
        transport: httpx.AsyncBaseTransport | None = None,
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._campaign = campaign
        self._pause = pause
        self._http = async_client(
            url,
            base_url=base_url(url),
            headers=headers(token),
            timeout=timeout_s,
            transport=transport,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def average(
        self,
        at: Moment | None = None,
        *,
        method: str | None = None,
        label: str | None = None,
        category: str | None = None,
    ) -> Answer:
        """Return avg(t), as `Subscriber.average`."""
        query = span(campaign=self._campaign, method=method, at=at, label=label, category=category)
        if at is None:
            return read_answer(await self._get("/v1/estimates/latest", query))
        return _only(read_answers(await self._get("/v1/estimates", query)))

    async def averages(
        self,
        start: Moment | None = None,
        end: Moment | None = None,
        *,
        method: str | None = None,
        label: str | None = None,
        category: str | None = None,
    ) -> list[Answer]:
        """Return the estimates of a time, as `Subscriber.averages`."""
        query = span(
            campaign=self._campaign,
            method=method,
            start=start,
            end=end,
            label=label,
            category=category,
        )
        return read_answers(await self._get("/v1/estimates", query))

    async def window(
        self,
        w: int | str,
        at: Moment | None = None,
        *,
        method: str | None = None,
        strict: bool = False,
        timezone: str | None = None,
        label: str | None = None,
        category: str | None = None,
    ) -> Answer:
        """Return Win(t, w), as `Subscriber.window`."""
        query = span(
            campaign=self._campaign,
            method=method,
            w=w,
            at=at,
            strict=strict,
            timezone=timezone,
            label=label,
            category=category,
        )
        return _only(read_answers(await self._get("/v1/windows", query)))

    async def shares(
        self,
        at: Moment | None = None,
        *,
        label: str | None = None,
        count: int = 3,
        quantiles: Sequence[float] = (0.5,),
        level: float = 0.95,
    ) -> ShareAnswers:
        """Return the shares of a round, as `Subscriber.shares`."""
        query = span(campaign=self._campaign, method=None, at=at, label=label)
        more = {"count": str(count), "level": str(level)}
        wished = [("quantile", str(one)) for one in quantiles]
        return read_shares(await self._get("/v1/shares", [*(query | more).items(), *wished]))

    async def difference(
        self,
        first: Mapping[str, Moment],
        second: Mapping[str, Moment],
        *,
        level: float = 0.95,
    ) -> Difference:
        """Return one answer less another, as `Subscriber.difference`."""
        query = two_sides(self._campaign, first, second) | {"level": str(level)}
        return read_difference(await self._get("/v1/difference", query))

    async def follow(
        self,
        *,
        last_id: str | None = None,
        method: str | None = None,
        final: bool = False,
        attempts: int | None = None,
        on_failure: Callable[[str], object] | None = None,
    ) -> AsyncIterator[Answer]:
        """Yield each round as it becomes final, as `Subscriber.follow`."""
        following = Following(last_id, attempts=attempts, on_failure=on_failure)
        query = span(campaign=self._campaign, method=method, final=final)
        while True:
            try:
                async with self._http.stream(
                    "GET", "/v1/stream", params=query, **following.connection()
                ) as answer:
                    if answer.status_code != 200:
                        await answer.aread()
                        raise following.refusal(answer)
                    async for line in answer.aiter_lines():
                        mean = following.feed(line)
                        if mean is not None:
                            yield mean
            except (httpx.HTTPError, NotNow) as error:
                following.count_failure(error)
            await self._pause(following.pause_s)

    async def _get(self, path: str, query: Query) -> bytes:
        try:
            answer = await self._http.get(path, params=query)
        except httpx.HTTPError as error:
            raise unreachable(error) from None
        if answer.status_code != 200:
            raise refusal_of(answer.status_code, answer.content)
        return answer.content


def _only(means: list[Answer]) -> Answer:
    if len(means) != 1:
        raise FusionUnreachable("the fusion centre answers with something else than one mean.")
    return means[0]
