"""A dashboard beside a fusion centre with rounds, and a browser without scripts."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.fusion.conftest import (
    CAMPAIGN,
    ROUND,
    Centre,
    Pasts,
    app_of,
    made_centre,
    parcel,
    reports,
)

from rase.clock import FakeClock
from rase.dashboard.app import dashboard_app
from rase.dashboard.asgi_transport import InsideTransport
from rase.dashboard.mounting import MountedDashboard
from rase.dashboard.sessions import Sessions, Store
from rase.fusion.subscribers import ADMIN_CAMPAIGN, READ_ESTIMATES, add_subscriber
from rase.storage.sqlite import open_sqlite
from rase.subscriber.operator import AsyncOperator

_NUMBERS = count()


class Desk:
    """A visitor without scripts: follows links, sends forms, keeps cookies."""

    def __init__(self, centre: Centre, *, store: Store | None = None, **more: Any) -> None:
        self.centre = centre
        self.sessions = Sessions(centre.clock, store=store)
        server = app_of(centre, publisher=centre.publisher, **more)
        inside = InsideTransport(server)
        dashboard = dashboard_app(
            lambda token: AsyncOperator("http://localhost", token, transport=inside),
            centre.clock,
            sessions=self.sessions,
        )
        self.app = MountedDashboard(server, dashboard)
        self.cookies = httpx.Cookies()
        # Another server of the same fusion centre has visitors of its own.
        ending = f" {next(_NUMBERS)}" if store is not None else ""
        self.reader = add_subscriber(centre.database, f"reader{ending}")
        self.operator = add_subscriber(
            centre.database, f"operator{ending}", scopes=(READ_ESTIMATES, ADMIN_CAMPAIGN)
        )

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send one request, with the cookies of all answers before."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://desk.test", cookies=self.cookies
            ) as client:
                answer = await client.request(method, path, **more)
                self.cookies = client.cookies
                return answer

        return asyncio.run(send())

    def get(self, path: str, **more: Any) -> httpx.Response:
        """Open an address."""
        return self.ask("GET", path, **more)

    def follow(self, answer: httpx.Response) -> httpx.Response:
        """Go where an answer leads."""
        assert answer.status_code == 303
        return self.get(answer.headers["location"])

    def send(self, page: str, action: str, **fields: str) -> httpx.Response:
        """Open a page and send a form on it."""
        proof = self.proof(self.get(page).text)
        return self.ask("POST", action, data={"proof": proof, **fields})

    def log_in(self, token: str) -> httpx.Response:
        """Log in by the form."""
        return self.send("/login", "/login", token=token, next="/")

    @staticmethod
    def proof(text: str) -> str:
        """Return the proof in a page's forms."""
        found = re.search(r'name="proof" value="([0-9a-f]+)"', text)
        assert found is not None
        return found.group(1)


def add_rounds(centre: Centre, places: dict[int, list[int]]) -> None:
    """Let rounds become final with reports at these places; none withholds."""
    for round, found in places.items():
        centre.clock.jump(CAMPAIGN.closes_s(round) + 60 - centre.clock.now_s())
        one = parcel(reports(found, round=round), round=round)
        one.deliver(centre.intake)
        centre.rounds.tick()


def four_rounds(centre: Centre) -> None:
    """Let three rounds become final, and withhold one."""
    add_rounds(
        centre, {ROUND: [0] * 5, ROUND + 1: [4096] * 6, ROUND + 2: [], ROUND + 3: [2000] * 9}
    )


@pytest.fixture(scope="session")
def past() -> Pasts:
    """Fusion centres that tests get copies of."""
    return Pasts(None)


@pytest.fixture
def desk(past: Pasts, quick_folder: Path) -> Iterator[Desk]:
    """A visitor of a fusion centre with three estimates and a withheld round."""
    with past.centre(quick_folder / "fusion.sqlite", four_rounds) as centre:
        yield Desk(centre)


@pytest.fixture
def empty_desk(quick_folder: Path) -> Iterator[Desk]:
    """A visitor of a fusion centre whose campaign has no round yet."""
    with made_centre(quick_folder / "fusion.sqlite") as centre:
        yield Desk(centre)


@pytest.fixture
def bare_desk(quick_folder: Path) -> Iterator[Desk]:
    """A visitor of a fusion centre without a campaign."""
    database = open_sqlite(quick_folder / "fusion.sqlite", migrations="fusion")
    try:
        yield Desk(Centre(database, FakeClock(1_782_000_000)))
    finally:
        database.close()


@pytest.fixture
def hostile_desk(quick_folder: Path) -> Iterator[Desk]:
    """A visitor of a fusion centre whose texts are markup."""
    database = open_sqlite(quick_folder / "fusion.sqlite", migrations="fusion")
    clock = FakeClock(CAMPAIGN.not_before * CAMPAIGN.round_s)
    centre = Centre(database, clock)
    centre.publisher.publish(
        replace(CAMPAIGN, unit="<img src=x>", quantity="<script>alert(1)</script>")
    )
    try:
        yield Desk(centre)
    finally:
        database.close()
