"""Where a registrar is put together: settings become a database, a key and the way to its peer."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import httpx
from fastapi import FastAPI

from rase.clock import Clock
from rase.errors import RaseError, WireError
from rase.registrar.app import registrar_app
from rase.registrar.settings import RegistrarSettings, own_secret
from rase.registrar.upkeep import KeyRefused, Upkeep
from rase.service.clients import client
from rase.service.telemetry import Telemetry
from rase.storage.opening import open_database
from rase.wire import cbor
from rase.wire.problems import Problem
from rase.wire.tokens import TOKEN_KEYS_PATH, TokenKey

__all__ = ["HttpPeer", "ShufflerSilent", "open_registrar"]


class ShufflerSilent(RaseError):
    """The shuffler does not answer, or cannot sign now."""

    exit_code = 4


@dataclass(frozen=True, slots=True)
class HttpPeer:
    """Ask the shuffler over HTTP.

    Args:
        url: The root of its service.
        transport: Another way than the network; for tests.
    """

    url: str
    transport: httpx.BaseTransport | None = None

    def versions(self, campaign: str) -> bytes | None:
        """Return the published versions of a campaign; None if there is none yet.

        Raises:
            ShufflerSilent: If the shuffler does not answer.
        """
        answer = self._ask("GET", f"/v1/campaigns/{campaign}/versions")
        if answer.status_code == 404:
            return None
        if answer.status_code != 200:
            raise ShufflerSilent(f"the shuffler answers with status {answer.status_code}.")
        return answer.content

    def sign(self, key: TokenKey, registrar_signature: bytes) -> bytes:
        """Return the shuffler's signature of a key.

        Raises:
            KeyRefused: If the shuffler refuses, with its reason.
            ShufflerSilent: If it does not answer now.
        """
        proposal = cbor.encode([key.to_bytes(), registrar_signature])
        answer = self._ask("PUT", TOKEN_KEYS_PATH, content=proposal)
        if answer.status_code not in (200, 201):
            try:
                problem = Problem.from_json(answer.content)
            except WireError:
                raise ShufflerSilent(
                    f"the shuffler answers with status {answer.status_code}."
                ) from None
            kind = KeyRefused if problem.type.name == "policy-refused" else ShufflerSilent
            raise kind(f"the shuffler does not sign: {problem.detail}")
        return answer.content

    def _ask(self, method: str, path: str, *, content: bytes | None = None) -> httpx.Response:
        root = self.url.rstrip("/")
        try:
            with client(root, timeout=30.0, transport=self.transport) as shuffler:
                return shuffler.request(
                    method,
                    root + path,
                    content=content,
                    headers={"Content-Type": "application/cbor"},
                )
        except httpx.HTTPError as error:
            raise ShufflerSilent(
                f"the shuffler at {root} does not answer ({type(error).__name__})."
            ) from None


@contextmanager
def open_registrar(
    settings: RegistrarSettings, clock: Clock, *, telemetry: Telemetry
) -> Iterator[FastAPI]:
    """Open a registrar with its database and key; yield what serves it.

    Raises:
        ConfigurationError: If a key cannot be used.
        StorageError: Named, if the database cannot.
    """
    secret, pinned = own_secret(settings)
    with closing(open_database(settings.database, migrations="registrar")) as database:
        upkeep = Upkeep(
            database,
            clock,
            secret=secret,
            pinned=pinned,
            peer=HttpPeer(settings.shuffler_url),
            campaigns=settings.campaigns,
            window_rounds=settings.window_rounds,
            lead_s=settings.lead_s,
            windows=settings.windows_ahead,
            telemetry=telemetry,
        )
        yield registrar_app(
            database,
            clock,
            secret=secret,
            pinned=pinned,
            telemetry=telemetry,
            upkeep=upkeep,
            limits=settings.limits,
        )
