"""The registrar of a simulated world: a process of its own, which may die and be out of reach."""

from collections.abc import Callable
from typing import Any, TextIO

import httpx
from fastapi import FastAPI
from tests.registering import REGISTRAR_SECRET
from tests.simulation.setting import CAMPAIGN, PINNED

from rase.clock import Clock
from rase.device.journal import LineJournal
from rase.device.tokens import TokenFetcher
from rase.kernels.entropy import SeededEntropy
from rase.registrar.app import registrar_app
from rase.registrar.devices import certify_list
from rase.registrar.program import HttpPeer
from rase.registrar.upkeep import Upkeep
from rase.service.telemetry import Telemetry
from rase.storage.interface import Database
from rase.transport.interface import Answer
from rase.transport.memory import MemoryTransport, Message
from rase.wire.signed import public_key_of

__all__ = ["Parts", "certify", "fetcher_of", "secret_of"]


class Parts:
    """What a process of the registrar is made of.

    Args:
        database: Its own.
        clock: The world's.
        shuffler: Carries requests to the shuffler.
        log: Where its lines go.
    """

    def __init__(
        self, database: Database, clock: Clock, *, shuffler: httpx.BaseTransport, log: TextIO
    ) -> None:
        telemetry = Telemetry("registrar", stream=log)
        self.upkeep = Upkeep(
            database,
            clock,
            secret=REGISTRAR_SECRET,
            pinned=PINNED,
            peer=HttpPeer("http://localhost", transport=shuffler),
            campaigns=[CAMPAIGN.id],
            telemetry=telemetry,
        )
        self.app: FastAPI = registrar_app(
            database, clock, secret=REGISTRAR_SECRET, pinned=PINNED, telemetry=telemetry
        )


def secret_of(device: int) -> bytes:
    """Return the key of a device."""
    return bytes([device + 1]) * 32


def certify(database: Database, devices: int) -> None:
    """Certify the devices of a world."""
    keys = [public_key_of(secret_of(device)) for device in range(devices)]
    certify_list(database, keys, secret=REGISTRAR_SECRET)


def fetcher_of(
    ledger: Any,
    device: int,
    *,
    handler: Callable[[Message], Answer],
    wrap: Callable[[Any], Any],
    clock: Clock,
    log: TextIO,
) -> TokenFetcher:
    """Return what fetches a device's tokens, with words of its own: noise stays as it is."""
    return TokenFetcher(
        ledger,
        wrap(MemoryTransport(handler)),
        secret=secret_of(device),
        campaign=CAMPAIGN.id,
        pinned=PINNED,
        clock=clock,
        entropy=SeededEntropy(f"tokens {device} {clock.now_s()}"),
        journal=LineJournal(log, clock),
        study=True,
    )
