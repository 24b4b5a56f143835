"""A device with its owner's page, by a clock of its own, against a shuffler in memory."""

import base64
import http.client
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.device.conftest import CAMPAIGN, START_ROUND, Notes, Shuffler
from tests.patience import PATIENCE_S
from tests.registering import Stocked, keep_tokens

from rase.campaign import Campaign
from rase.clock import FakeClock
from rase.device.agent import Agent
from rase.device.behaviour import Behaviour
from rase.device.comparison import Comparison
from rase.device.enrolment import settings_text
from rase.device.fleet import FleetEstimates
from rase.device.folder import DeviceFolder
from rase.device.memory import Memory
from rase.device.page.owner import Owner
from rase.device.page.server import OwnerPage
from rase.device.state import StateFile
from rase.device.terms import Terms
from rase.kernels.entropy import SecureEntropy, SeededEntropy
from rase.transport.memory import MemoryTransport

__all__ = ["HOURS", "QUARTERS", "Answer", "Owned", "owned"]

HOURS = CAMPAIGN
# As a household would have it: a long name, a budget that does not last the day.
QUARTERS = replace(
    CAMPAIGN,
    quantity="mean power of the whole household in a quarter of an hour",
    round_s=900,
    upload_s=120,
    grace_s=240,
    window=96,
    window_budget=48.0,
)


@dataclass(frozen=True)
class Answer:
    """What the page answered."""

    status: int
    text: str
    headers: Mapping[str, str]


class _Curve:
    """A household's power over a day; None while there is none to read."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.is_there = True

    def read(self) -> list[float]:
        """Return the reading of this moment."""
        if not self.is_there:
            return []
        hour = self._clock.now_s() / 3600
        return [420 + 260 * math.sin(hour * math.pi / 12) + 180 * (math.sin(hour * 5.1) > 0.6)]

    def close(self) -> None:
        """Nothing is open."""


class Owned:
    """A device, its agent and its page.

    Args:
        path: The device's folder, which is made.
        campaign: What it takes part in.
        span_epsilon: What the owner allows in a day.
        behaviour: How its agent behaves.
        caps: What the owner allows towards the fusion centre, a report and a day.
        estimates: What is public about the fleet.
    """

    def __init__(
        self,
        path: Path,
        campaign: Campaign = HOURS,
        *,
        span_epsilon: float = 24.0,
        behaviour: Behaviour | None = None,
        caps: tuple[float, float] | tuple[None, None] = (None, None),
        estimates: FleetEstimates | None = None,
    ) -> None:
        self.campaign = campaign
        self.clock = FakeClock(START_ROUND * 3600)
        self.shuffler = Shuffler(self.clock, campaign)
        self.source = _Curve(self.clock)
        self.notes = Notes()
        self.folder = DeviceFolder(path)
        self.folder.make()
        pinned = self.shuffler.pinned
        self.folder.settings_file.write_text(
            settings_text(
                shuffler="http://localhost",
                campaign=campaign.id,
                fusion_key=base64.b64encode(pinned.fusion).decode(),
                shuffler_key=base64.b64encode(pinned.shuffler).decode(),
                registrar="http://localhost",
                registrar_key=base64.b64encode(pinned.registrar).decode(),
                report_epsilon=1.0,
                span_epsilon=span_epsilon,
                total_epsilon=1000.0,
                value_range=(0.0, 3000.0),
                least_k=20,
                shuffled_epsilon=caps[0],
                span_shuffled_epsilon=caps[1],
            ),
            encoding="utf-8",
        )
        self.folder.keep_enrolment("credential")
        self.folder.keep_off_unless_said()
        settings = self.folder.settings({})
        terms = self.terms = Terms(campaign.id, pinned=pinned, rules=settings.rules)
        self.comparison = Comparison(self.notes, self.clock)
        self.ledger = self.folder.ledger(settings)
        keep_tokens(self.ledger, campaign.id)
        behaviour = behaviour or Behaviour(poll_s=60)
        self.agent = Agent(
            Memory(terms, StateFile(self.folder.state_file)),
            self.ledger,
            tokens=Stocked(),
            transport=MemoryTransport(self.shuffler.handle),
            source=self.source,
            credential="credential",
            clock=self.clock,
            entropy=SeededEntropy(2026),
            study=True,
            journal=self.comparison,
            behaviour=behaviour,
            is_paused=lambda: self.folder.is_paused,
            is_off=lambda: self.folder.is_off,
            observer=self.comparison,
        )
        self.owner = Owner(
            folder=self.folder,
            settings=settings,
            terms=terms,
            comparison=self.comparison,
            clock=self.clock,
            entropy=SecureEntropy(),
            has_turn=behaviour.has_turn,
            estimates=estimates,
        )
        self.page = OwnerPage(self.folder, 0)
        self.page.show(self.owner)

    def run(self, rounds: float) -> None:
        """Let the agent work for some rounds."""
        left_s = rounds * self.campaign.round_s
        while left_s > 0:
            wait_s = min(max(self.agent.step(), 0.01), left_s)
            self.clock.advance(wait_s)
            left_s -= wait_s
        self.agent.step()

    def get(self, name: str = "", **headers: str) -> Answer:
        """Ask for a view."""
        return self.ask("GET", f"/{self.page.token}/{name}", headers=headers)

    def post(self, name: str, fields: Mapping[str, str] | None = None, **headers: str) -> Answer:
        """Send a form with the proof that the page gave."""
        proof = re.findall(r'name="proof" value="(\w+)"', self.get().text)[0]
        return self.ask(
            "POST",
            f"/{self.page.token}/{name}",
            body=urlencode({"proof": proof, **(fields or {})}),
            headers=headers,
        )

    def ask(
        self, method: str, path: str, *, body: str = "", headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Ask for an address as it is."""
        connection = http.client.HTTPConnection("127.0.0.1", self.page.port, timeout=PATIENCE_S)
        try:
            given: dict[str, Any] = {
                name.replace("_", "-"): text for name, text in (headers or {}).items()
            }
            connection.request(method, path, body=body or None, headers=given)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read().decode(), dict(answer.headers))
        finally:
            connection.close()

    def close(self) -> None:
        """End."""
        self.page.close()
        self.ledger.close()


@contextmanager
def owned(path: Path, campaign: Campaign = HOURS, **more: Any) -> Iterator[Owned]:
    """Run a device and its page until the block ends."""
    one = Owned(path, campaign, **more)
    try:
        yield one
    finally:
        one.close()
