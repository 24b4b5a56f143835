"""The devices of the demonstration: real agents, each with its folder, ledger and credential.

Their clock is moved by hand from one moment with work to the next, so a day takes seconds; the
moments are those that the agents chose by themselves. Lines to the shuffler can be disturbed.
"""

import base64
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rase.accounting.ledger import Ledger
from rase.campaign import Campaign
from rase.clock import FakeClock
from rase.device.agent import Agent
from rase.device.enrolment import enrol, settings_text
from rase.device.folder import DeviceFolder
from rase.device.habits import Habits
from rase.device.journal import LineJournal
from rase.device.memory import Memory
from rase.device.outbox import REPORTS_PATH
from rase.device.sources.function import FunctionSource
from rase.device.state import StateFile
from rase.device.terms import Terms
from rase.kernels.entropy import Entropy, SecureEntropy, SeededEntropy
from rase.transport.face import Answer, Transport, Unreachable
from rase.transport.http import HttpTransport
from rase.wire.signed import PinnedKeys

__all__ = ["DemoDevice", "DemoFleet", "Disturbance", "Line", "enrolled_fleet"]

Disturbance = Literal["lose-answer", "tamper", "down"]
# Past the moment itself: sums of floats may fall short of it.
_TICK_S = 0.001


class Line:
    """Carry a device's messages, or disturb the next report, or be down.

    Args:
        transport: The way to the shuffler.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.disturbance: Disturbance | None = None
        self.sent = 0
        self.report_sizes: Counter[int] = Counter()

    def get(self, path: str, *, etag: str | None = None) -> Answer:
        """Ask for a document."""
        return self._transport.get(path, etag=etag)

    def post(
        self, path: str, body: bytes, *, content_type: str, credential: str | None = None
    ) -> Answer:
        """Hand over bytes; a disturbance other than "down" happens once.

        Raises:
            Unreachable: If the line is down, or the answer is lost.
        """
        disturbance = self.disturbance if path == REPORTS_PATH else None
        if disturbance == "down":
            raise Unreachable("the line is down.")
        self.disturbance = None
        if path == REPORTS_PATH:
            self.sent += 1
            self.report_sizes[len(body)] += 1
        if disturbance == "tamper":
            body = body[:-1] + bytes((body[-1] ^ 1,))
        answer = self._transport.post(path, body, content_type=content_type, credential=credential)
        if disturbance == "lose-answer":
            raise Unreachable("the answer was lost.")
        return answer


@dataclass(slots=True)
class DemoDevice:
    """Hold one device.

    Args:
        agent: Does its work.
        ledger: Its privacy ledger.
        line: Its way to the shuffler.
        name: What the shuffler calls it.
        reading: What its meter shows now.
    """

    agent: Agent = field(repr=False)
    ledger: Ledger = field(repr=False)
    line: Line = field(repr=False)
    name: str
    reading: "_Meter" = field(repr=False)


class _Meter:
    """Show what was put on it."""

    def __init__(self) -> None:
        self.value = 0.0

    def __call__(self) -> float:
        return self.value


class DemoFleet:
    """Move the clock and let each device work when it has something to do.

    Args:
        devices: All of them.
        clock: The clock they share.
        campaign: What they take part in.
    """

    def __init__(
        self, devices: Sequence[DemoDevice], *, clock: FakeClock, campaign: Campaign
    ) -> None:
        self.devices = tuple(devices)
        self._clock = clock
        self._campaign = campaign

    def live_through(self, round: int, readings: Iterable[float]) -> None:
        """Measure in a round, send after it, and go on to the moment at which it closes."""
        self._go_to(self._campaign.round_end_s(round) - self._campaign.round_s / 2)
        for device, reading in zip(self.devices, readings, strict=True):
            device.reading.value = reading
            device.agent.step()
        self._go_to(self._campaign.round_end_s(round))
        for device in self.devices:
            device.agent.step()
        self._send_until(self._campaign.closes_s(round))
        self._go_to(self._campaign.closes_s(round))

    def epsilon_spent(self) -> float:
        """Return the most that any device has spent, by its own ledger."""
        now_s = int(self._clock.now_s())
        return max(
            sum(one.total_spent for one in device.ledger.status(now_s).campaigns)
            for device in self.devices
        )

    @property
    def sent(self) -> int:
        """How many reports left their devices, retries among them."""
        return sum(device.line.sent for device in self.devices)

    @property
    def report_sizes(self) -> Counter[int]:
        """How many reports had which size."""
        return sum((device.line.report_sizes for device in self.devices), Counter())

    def _send_until(self, end_s: float) -> None:
        end_s += self._clock.monotonic_s() - self._clock.now_s()
        while True:
            waiting = [
                (due_s, place)
                for place, device in enumerate(self.devices)
                if (due_s := device.agent.outbox.next_due_s()) is not None
            ]
            due_s, place = min(waiting, default=(end_s, 0))
            if due_s + _TICK_S >= end_s:
                return
            self._clock.advance(max(due_s - self._clock.monotonic_s(), 0.0) + _TICK_S)
            self.devices[place].agent.step()

    def _go_to(self, time_s: float) -> None:
        self._clock.advance(max(time_s - self._clock.now_s(), 0.0) + _TICK_S)


@contextmanager
def enrolled_fleet(
    folder: Path,
    clock: FakeClock,
    *,
    campaign: Campaign,
    shuffler_url: str,
    pinned: PinnedKeys,
    tokens: Sequence[str],
    total_epsilon: float,
    seed: int | None,
) -> Iterator[DemoFleet]:
    """Enrol a device with each token, and start its agent.

    Args:
        folder: Where each device gets a folder; their journals are one file in it.
        clock: The time of all.
        campaign: What they take part in.
        shuffler_url: Where they enrol and send.
        pinned: The keys of both servers, which owners got from the operators.
        tokens: Single-use, one a device.
        total_epsilon: The most that each owner allows in all.
        seed: Makes noise and moments reproducible, and worthless; None for real ones.
    """
    folder.mkdir(mode=0o700)
    settings = settings_text(
        shuffler=shuffler_url,
        campaign=campaign.id,
        fusion_key=_text_of(pinned.fusion),
        shuffler_key=_text_of(pinned.shuffler),
        report_epsilon=campaign.epsilon[-1],
        span_epsilon=campaign.window_budget,
        total_epsilon=total_epsilon,
        value_range=(campaign.low, campaign.high),
        least_k=campaign.k_min,
    )
    with ExitStack() as stack:
        journal = LineJournal(
            stack.enter_context((folder / "log").open("w", encoding="utf-8")), clock
        )
        devices = []
        for place, token in enumerate(tokens):
            home = DeviceFolder(folder / f"{place:04d}")
            home.make()
            home.settings_file.write_text(settings, encoding="utf-8")
            line = Line(HttpTransport(shuffler_url))
            name = enrol(home, token, transport=line)
            asked = home.settings({})
            meter = _Meter()
            ledger = stack.enter_context(home.ledger(asked))
            agent = Agent(
                Memory(
                    Terms(asked.campaign, pinned=asked.pinned, rules=asked.rules),
                    StateFile(home.state_file),
                ),
                ledger,
                transport=line,
                source=FunctionSource(meter),
                credential=home.credential(),
                clock=clock,
                entropy=_entropy(seed, place),
                study=seed is not None,
                journal=journal,
                # Once a round: at its middle, when the clock stops there.
                habits=Habits(poll_s=0.9 * campaign.round_s),
            )
            devices.append(DemoDevice(agent, ledger, line, name, meter))
        yield DemoFleet(devices, clock=clock, campaign=campaign)


def _text_of(key: bytes) -> str:
    return base64.b64encode(key).decode()


def _entropy(seed: int | None, place: int) -> Entropy:
    return SecureEntropy() if seed is None else SeededEntropy(f"{seed} {place}")
