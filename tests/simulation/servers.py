"""The two servers of a simulated world, put together as their commands do."""

from collections.abc import Callable
from typing import TextIO

import httpx
from fastapi import FastAPI
from tests.simulation.setting import PINNED, POLICY, SIGNERS, Setting

from rase.clock import Clock
from rase.fusion.centre import FusionCentre
from rase.fusion.intake import Intake
from rase.fusion.opening import BatchOpener
from rase.fusion.query import Questions
from rase.fusion.rounds import Rounds
from rase.fusion.settings import FusionPolicy
from rase.fusion.token_keys import TokenKeys
from rase.service.telemetry import Telemetry
from rase.shuffler.app import create_shuffler_app
from rase.shuffler.closer import Closer
from rase.shuffler.documents import Countersigner
from rase.shuffler.forward import HttpSender
from rase.shuffler.opening import OuterOpenerPool
from rase.shuffler.release import Releaser
from rase.storage.interface import Database
from rase.wire.keys import Role

__all__ = ["Carrier", "centre_of", "closer_of", "intake_of"]


def closer_of(
    database: Database, clock: Clock, *, setting: Setting, client: object, log: TextIO
) -> Closer:
    """Return the shuffler's closer.

    Args:
        database: The shuffler's.
        clock: The world's.
        setting: The world's keys.
        client: Carries batches, as an HTTP client does.
        log: Where its lines go.
    """
    releaser = Releaser(
        database,
        opener=OuterOpenerPool(setting.outer_keys),
        key=SIGNERS[Role.SHUFFLER],
        name="simulated",
        part_bytes=setting.part_bytes,
    )
    return Closer(
        database,
        clock,
        releaser=releaser,
        sender=HttpSender("http://fusion", client=client),
        pinned=PINNED,
        telemetry=Telemetry("shuffler", stream=log),
        lease_s=1,
    )


def centre_of(
    database: Database,
    clock: Clock,
    *,
    setting: Setting,
    log: TextIO,
    token_keys: TokenKeys,
) -> FusionCentre:
    """Return the fusion centre."""
    policy = FusionPolicy()
    opener = BatchOpener(setting.inner_keys, processes=0)
    return FusionCentre(
        database=database,
        clock=clock,
        intake=Intake(
            database, clock, pinned=PINNED, opener=opener, policy=policy, token_keys=token_keys
        ),
        rounds=Rounds(database, clock, policy=policy),
        questions=Questions(database),
        policy=policy,
        telemetry=Telemetry("fusion", stream=log),
    )


def intake_of(database: Database, clock: Clock, *, log: TextIO) -> FastAPI:
    """Return the app of the shuffler's intake; it also countersigns."""
    return create_shuffler_app(
        database,
        clock,
        countersigner=Countersigner(
            database, key=SIGNERS[Role.SHUFFLER], pinned=PINNED, policy=POLICY
        ),
        pinned=PINNED,
        telemetry=Telemetry("shuffler", stream=log),
    )


class Carrier(httpx.BaseTransport):
    """Let an HTTP client of the real code speak to a simulated server.

    Args:
        ask: Carries a request there and its answer back.
    """

    def __init__(self, ask: Callable[[httpx.Request], httpx.Response]) -> None:
        self._ask = ask

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Carry one request."""
        answer = self._ask(request)
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)
