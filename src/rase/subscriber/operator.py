"""The client of people who run a fusion centre: what the dashboard and scripts of operators ask."""

from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote

import httpx

from rase.subscriber.answers import FusionUnreachable, document_of, refusal_of
from rase.subscriber.client import AsyncSubscriber
from rase.subscriber.following import STREAM_TIMEOUT, unreachable
from rase.subscriber.questions import Moment, span

__all__ = ["AsyncOperator"]


class AsyncOperator(AsyncSubscriber):
    """Ask a fusion centre from asyncio, also what only its operator may; see `AsyncSubscriber`.

    Answers of these questions are plain values, as docs/reference/http-api.md describes them. All
    raise `FusionRefused` if the fusion centre refuses, and `FusionUnreachable` if it does not
    answer.
    """

    def about(self, campaign: str) -> None:
        """Ask about this campaign from now on."""
        self._campaign = campaign

    async def whoami(self) -> dict[str, Any]:
        """Return whose token this is, its scopes and when it ends."""
        return await self._document("GET", "/v1/token")

    async def campaigns(self) -> list[dict[str, Any]]:
        """Return the newest version of every campaign, with what its parameters mean in words."""
        found = await self._document("GET", "/v1/campaigns")
        return _read_list(found, "campaigns")

    async def trace(
        self,
        start: Moment | None = None,
        end: Moment | None = None,
        *,
        points: int | None = None,
        method: str | None = None,
        label: str | None = None,
        category: str | None = None,
    ) -> dict[str, Any]:
        """Return the rounds of a time, put together into few points, each with its interval."""
        query = span(
            campaign=self._campaign,
            method=method,
            start=start,
            end=end,
            label=label,
            category=category,
        )
        if points is not None:
            query["points"] = str(points)
        return await self._document("GET", "/v1/trace", query)

    async def rounds(
        self,
        *,
        before: int | None = None,
        limit: int = 100,
        method: str | None = None,
        label: str | None = None,
        category: str | None = None,
        counts: bool = False,
    ) -> dict[str, Any]:
        """Return a page of rounds, newest first, also those that are still open.

        To count all of them by state takes the longer the more there are.
        """
        query = span(campaign=self._campaign, method=method, label=label, category=category)
        query["counts"] = "true" if counts else "false"
        query["limit"] = str(limit)
        if before is not None:
            query["before"] = str(before)
        return await self._document("GET", "/v1/rounds", query)

    async def alarms(self, limit: int = 100) -> dict[str, Any]:
        """Return how each alarm stands and what to expect of it, and the last changes of all."""
        return await self._document("GET", "/v1/alarms", {"limit": str(limit)})

    async def effect(self, campaign: str, **asked: float | list[float]) -> dict[str, Any]:
        """Return the version that some changes make, and both errors for ``n`` reports."""
        query = {
            name: [repr(one) for one in value] if isinstance(value, list) else repr(value)
            for name, value in asked.items()
        }
        return await self._document("GET", f"/v1/campaigns/{_quote(campaign)}/effect", query)

    async def range_advice(self, campaign: str) -> dict[str, Any]:
        """Return the range that probing rounds recommend, and what it and the present lead to."""
        return await self._document("GET", f"/v1/campaigns/{quote(campaign)}/range")

    async def publish(self, campaign: str, **changes: Any) -> dict[str, Any]:
        """Publish a new version; ``not_before`` is its first round."""
        return await self._document(
            "POST", f"/v1/campaigns/{_quote(campaign)}/versions", body=changes
        )

    async def subscribers(self) -> list[dict[str, Any]]:
        """Return who may ask, and who no longer may."""
        found = await self._document("GET", "/v1/subscribers")
        return _read_list(found, "subscribers")

    async def add_subscriber(
        self, name: str, *, scopes: list[str], valid_s: int | None = None
    ) -> str:
        """Make a subscriber and return the token, which is shown this once."""
        body = {"name": name, "scopes": scopes, "valid_s": valid_s}
        found = await self._document("POST", "/v1/subscribers", body=body)
        return str(found["token"])

    async def revoke_subscriber(self, name: str) -> None:
        """Take a token back."""
        await self._send("DELETE", f"/v1/subscribers/{_quote(name)}")

    async def access_log(
        self, *, subscriber: str | None = None, limit: int = 100
    ) -> list[dict[str, Any]]:
        """Return who asked what, newest last."""
        query = {"limit": str(limit)}
        if subscriber is not None:
            query["subscriber"] = subscriber
        found = document_of((await self._send("GET", "/v1/access-log", query)).content)
        if not isinstance(found, list):
            raise FusionUnreachable("the fusion centre answers with something else than a log.")
        return found

    async def health(self) -> dict[str, Any]:
        """Return how the fusion centre does."""
        return await self._document("GET", "/v1/health")

    async def listen(self) -> AsyncIterator[bytes]:
        """Yield the bytes of the live stream, for one connection, to be handed on."""
        try:
            async with self._http.stream(
                "GET",
                "/v1/stream",
                params=span(campaign=self._campaign, method=None),
                headers={"Accept": "text/event-stream"},
                timeout=STREAM_TIMEOUT,
            ) as answer:
                if answer.status_code != 200:
                    raise refusal_of(answer.status_code, await answer.aread())
                async for piece in answer.aiter_raw():
                    yield piece
        except httpx.HTTPError as error:
            raise unreachable(error) from None

    async def _document(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | list[str]] | None = None,
        *,
        body: Any = None,
    ) -> dict[str, Any]:
        found = document_of((await self._send(method, path, query, body=body)).content)
        if not isinstance(found, dict):
            raise FusionUnreachable("the fusion centre answers with something else than asked for.")
        return found

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | list[str]] | None = None,
        *,
        body: Any = None,
    ) -> httpx.Response:
        try:
            answer = await self._http.request(method, path, params=query, json=body)
        except httpx.HTTPError as error:
            raise unreachable(error) from None
        if not 200 <= answer.status_code < 300:
            raise refusal_of(answer.status_code, answer.content)
        return answer


def _quote(name: str) -> str:
    """Return a name as one part of an address, whatever is in it."""
    return quote(name, safe="")


def _read_list(document: Mapping[str, Any], member: str) -> list[dict[str, Any]]:
    found = document.get(member)
    if not isinstance(found, list):
        raise FusionUnreachable("the fusion centre answers with something else than asked for.")
    return found
