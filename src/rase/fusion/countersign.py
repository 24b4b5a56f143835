"""The shuffler over HTTP, as the fusion centre asks it to countersign."""

import threading
from collections.abc import Callable
from typing import Final

import httpx

from rase.address import split_address
from rase.campaign import Campaign
from rase.errors import ConfigurationError, Malformed, RaseError
from rase.service.clients import client
from rase.wire import cbor
from rase.wire.keys import Keyset
from rase.wire.problems import PROBLEM_TYPES, Problem
from rase.wire.signed import campaign_bytes

__all__ = ["HttpCountersigner", "NotCountersigned"]

_SIGNATURE_BYTES = 64
# The shuffler recomputes the promise of a campaign before it signs, which takes a slow machine
# longer than a request may; what it finds meanwhile is kept for the next request.
_TRIES: Final = 4
_PAUSE_S: Final = 5.0


class NotCountersigned(RaseError):
    """The shuffler does not sign, or cannot be reached; nothing is published."""

    exit_code = 4


class HttpCountersigner:
    """Ask the shuffler for its signatures.

    Args:
        url: The root of its service; https, except on this machine.
        timeout_s: How long to wait for an answer.
        transport: Another way than the network; for tests.
        pause: Waits some seconds before the shuffler is asked again; the clock if None.

    Raises:
        ConfigurationError: If the address cannot be used.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = 30.0,
        transport: httpx.BaseTransport | None = None,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        try:
            split_address(url, plain="http", secure="https")
        except ValueError as error:
            raise ConfigurationError([f"shuffler_url {error}"]) from None
        self._url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._transport = transport
        self._pause = threading.Event().wait if pause is None else pause

    def campaign(self, campaign: Campaign, fusion_signature: bytes) -> bytes:
        """Return the shuffler's signature of a campaign.

        Raises:
            NotCountersigned: If it refuses, with its reason, or does not answer.
        """
        path = f"/v1/campaigns/{campaign.id}/{campaign.version}"
        return self._put(path, cbor.encode([campaign_bytes(campaign), fusion_signature]))

    def keyset(self, keyset: Keyset, fusion_signature: bytes) -> bytes:
        """Return the shuffler's signature of a keyset.

        Raises:
            NotCountersigned: If it refuses, with its reason, or does not answer.
        """
        return self._put("/v1/keyset", cbor.encode([keyset.to_bytes(), fusion_signature]))

    def _put(self, path: str, body: bytes) -> bytes:
        answer = self._put_once(path, body)
        for _ in range(_TRIES - 1):
            if not _is_still_unsigned(answer):
                break
            self._pause(_PAUSE_S)
            answer = self._put_once(path, body)
        if answer.status_code not in (200, 201):
            raise NotCountersigned(f"the shuffler does not sign: {_reason(answer)}")
        if len(answer.content) != _SIGNATURE_BYTES:
            raise NotCountersigned("the shuffler answers with something else than a signature.")
        return answer.content

    def _put_once(self, path: str, body: bytes) -> httpx.Response:
        try:
            with client(self._url, timeout=self._timeout_s, transport=self._transport) as shuffler:
                return shuffler.put(
                    self._url + path, content=body, headers={"Content-Type": "application/cbor"}
                )
        except httpx.HTTPError as error:
            raise NotCountersigned(
                f"the shuffler at {self._url} does not answer ({type(error).__name__}); "
                "nothing is published, try again."
            ) from None


def _is_still_unsigned(answer: httpx.Response) -> bool:
    problem = _problem(answer) if answer.status_code == 503 else None
    return problem is not None and problem.type == PROBLEM_TYPES["unsigned"]


def _reason(answer: httpx.Response) -> str:
    problem = _problem(answer)
    if problem is None:
        return f"HTTP status {answer.status_code}."
    return problem.detail or problem.type.title


def _problem(answer: httpx.Response) -> Problem | None:
    try:
        return Problem.from_json(answer.content)
    except Malformed:
        return None
