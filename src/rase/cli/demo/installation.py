"""The demonstration's two servers and its devices: real programs in one process, with one clock.

The servers listen on 127.0.0.1 only and use throw-away keys. They share a process and a clock, so
that nobody has to wait; folders, keys and databases are as separate as in a real installation, and
everything that passes between them passes over HTTP.

The devices are real agents, each with its folder, ledger and credential. Their clock is moved by
hand from one moment with work to the next, so a day takes seconds; the agents chose those moments
themselves. The connections to the shuffler can be disturbed.
"""

import base64
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import httpx
import uvicorn
from starlette.types import ASGIApp

from rase.accounting.ledger import Ledger
from rase.campaign import Campaign
from rase.cli.pages import with_dashboard
from rase.clock import FakeClock
from rase.device.agent import Agent
from rase.device.behaviour import Habits
from rase.device.enrolment import enrol, settings_text
from rase.device.folder import DeviceFolder
from rase.device.journal import LineJournal
from rase.device.memory import Memory
from rase.device.outbox import REPORTS_PATH
from rase.device.sources.function import FunctionSource
from rase.device.state import StateFile
from rase.device.terms import Terms
from rase.fusion.app import fusion_app
from rase.fusion.campaigns import Publisher
from rase.fusion.centre import FusionCentre
from rase.fusion.countersign import HttpCountersigner
from rase.fusion.intake import Intake
from rase.fusion.opening import BatchOpener
from rase.fusion.query import Questions
from rase.fusion.rounds import Rounds
from rase.fusion.subscribers import ADMIN_CAMPAIGN, READ_ESTIMATES, add_subscriber
from rase.kernels.entropy import Entropy, SecureEntropy, SeededEntropy
from rase.service.telemetry import Telemetry
from rase.shuffler.app import create_shuffler_app
from rase.shuffler.closer import Closer
from rase.shuffler.documents import Countersigner, Policy
from rase.shuffler.enrolment import make_tokens
from rase.shuffler.forward import HttpSender
from rase.shuffler.opening import Peeler
from rase.shuffler.public_keys import keep_own_keys
from rase.shuffler.release import Releaser
from rase.storage.interface import Database
from rase.storage.sqlite import open_sqlite
from rase.subscriber.client import Subscriber
from rase.transport.http import HttpTransport
from rase.transport.interface import Answer, Transport, Unreachable
from rase.wire.keys import Keyset, OpeningKey, Role, SigningKey
from rase.wire.signed import PinnedKeys

__all__ = [
    "DemoDevice",
    "DemoFleet",
    "Disturbance",
    "Line",
    "Servers",
    "enrolled_fleet",
    "running_servers",
]

_HOST: Final = "127.0.0.1"
_CACHE_S: Final = 7 * 86400
_SHUTDOWN_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """Hold what the demonstration needs of two servers that run.

    Args:
        shuffler_url: Where devices send.
        fusion_url: Where subscribers ask.
        pinned: The public signing keys of both.
        tokens: Enrolment tokens, one for each device.
        closer: The shuffler's part with the private key; its steps are taken by the demonstration,
            because rounds end when the clock is moved.
        subscriber: A client with a token of its own.
        shuffler: The shuffler's counters.
        fusion: The fusion centre's counters.
        has_final: Set whenever a round became final.
        databases: The state of each, to see what is left in it.
        operator: A token that opens every page of the dashboard.
        login_url: Makes an address that logs in with it, once; None without a dashboard.
    """

    shuffler_url: str
    fusion_url: str
    pinned: PinnedKeys
    tokens: tuple[str, ...] = field(repr=False)
    closer: Closer
    subscriber: Subscriber
    shuffler: Telemetry
    fusion: Telemetry
    has_final: threading.Event
    databases: dict[Role, Database]
    operator: str = field(repr=False)
    login_url: Callable[[], str] | None


@contextmanager
def running_servers(
    folder: Path, clock: FakeClock, *, campaign: Campaign, devices: int
) -> Iterator[Servers]:
    """Run both servers with a published campaign, until the block ends.

    Args:
        folder: Where keys, databases and logs are made, a folder for each server.
        clock: The time of both.
        campaign: What is published, countersigned by the shuffler.
        devices: How many may enrol.
    """
    with ExitStack() as stack:
        made = _made(folder, stack)
        shuffler_url = stack.enter_context(_served(_shuffler_app(made, clock, campaign)))
        has_final = threading.Event()
        centre = _centre(made, clock, stack, on_final=has_final.set)
        state = made.databases[Role.FUSION]
        operator = add_subscriber(state, "operator", scopes=(READ_ESTIMATES, ADMIN_CAMPAIGN))
        app, offer = _with_pages(fusion_app(centre), clock, operator)
        fusion_url = stack.enter_context(_served(app))
        _publish(made, campaign, clock, shuffler_url=shuffler_url)
        # A transport of its own: a proxy in the environment must not be asked for 127.0.0.1.
        subscriber = stack.enter_context(
            Subscriber(
                fusion_url,
                add_subscriber(state, "demo"),
                campaign=campaign.id,
                transport=httpx.HTTPTransport(),
            )
        )
        yield Servers(
            shuffler_url=shuffler_url,
            fusion_url=fusion_url,
            pinned=made.pinned,
            tokens=make_tokens(
                made.databases[Role.SHUFFLER], devices, expires_s=int(clock.now_s()) + 3600
            ),
            closer=_closer(made, clock, stack, path=_state(folder, Role.SHUFFLER), url=fusion_url),
            subscriber=subscriber,
            shuffler=made.telemetry[Role.SHUFFLER],
            fusion=made.telemetry[Role.FUSION],
            has_final=has_final,
            databases=made.databases,
            operator=operator,
            login_url=None if offer is None else lambda: f"{fusion_url}/login/once/{offer()}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """Hold what both servers are made of: state, counters and keys, each by its role."""

    databases: dict[Role, Database]
    telemetry: dict[Role, Telemetry]
    signers: dict[Role, SigningKey]
    openers: dict[Role, OpeningKey]
    pinned: PinnedKeys


def _made(folder: Path, stack: ExitStack) -> _Made:
    databases: dict[Role, Database] = {}
    telemetry: dict[Role, Telemetry] = {}
    for role in Role:
        (folder / role).mkdir(mode=0o700)
        state = open_sqlite(_state(folder, role), migrations=role)
        databases[role] = stack.enter_context(closing(state))
        log = stack.enter_context((folder / role / "log").open("w", encoding="utf-8"))
        telemetry[role] = Telemetry(role, stream=log)
    signers = {role: SigningKey.generate(role) for role in Role}
    openers = {role: OpeningKey.generate(role, 1) for role in Role}
    keep_own_keys(databases[Role.SHUFFLER], [openers[Role.SHUFFLER]])
    return _Made(
        databases=databases,
        telemetry=telemetry,
        signers=signers,
        openers=openers,
        pinned=PinnedKeys(
            signers[Role.FUSION].public_bytes(), signers[Role.SHUFFLER].public_bytes()
        ),
    )


def _state(folder: Path, role: Role) -> Path:
    return folder / role / "state.db"


def _shuffler_app(made: _Made, clock: FakeClock, campaign: Campaign) -> ASGIApp:
    state = made.databases[Role.SHUFFLER]
    policy = Policy(
        max_epsilon=campaign.epsilon[-1],
        max_window_budget=campaign.window_budget,
        min_k_min=campaign.k_min,
        max_cache_s=_CACHE_S,
    )
    return create_shuffler_app(
        state,
        clock,
        countersigner=Countersigner(
            state, key=made.signers[Role.SHUFFLER], pinned=made.pinned, policy=policy
        ),
        pinned=made.pinned,
        telemetry=made.telemetry[Role.SHUFFLER],
    )


def _centre(
    made: _Made, clock: FakeClock, stack: ExitStack, *, on_final: Callable[[], None]
) -> FusionCentre:
    state = made.databases[Role.FUSION]
    opener = stack.enter_context(BatchOpener([made.openers[Role.FUSION]], processes=0))
    return FusionCentre(
        database=state,
        clock=clock,
        intake=Intake(state, clock, pinned=made.pinned, opener=opener),
        rounds=Rounds(state, clock),
        questions=Questions(state),
        telemetry=made.telemetry[Role.FUSION],
        on_final=[on_final],
    )


def _closer(made: _Made, clock: FakeClock, stack: ExitStack, *, path: Path, url: str) -> Closer:
    """Return the shuffler's part with the private key, with a connection of its own."""
    state = stack.enter_context(closing(open_sqlite(path, migrations=Role.SHUFFLER)))
    peeler = stack.enter_context(Peeler([made.openers[Role.SHUFFLER]]))
    client = httpx.Client(timeout=30.0, trust_env=False)
    return Closer(
        state,
        clock,
        releaser=Releaser(state, peeler=peeler, key=made.signers[Role.SHUFFLER], name="demo"),
        sender=stack.enter_context(closing(HttpSender(url, client=client))),
        pinned=made.pinned,
        telemetry=made.telemetry[Role.SHUFFLER],
    )


def _with_pages(
    app: ASGIApp, clock: FakeClock, token: str
) -> tuple[ASGIApp, Callable[[], str] | None]:
    """Return the app with the dashboard beside it, and what makes codes to log in once."""
    try:
        both, sessions = with_dashboard(app, clock)
    except ModuleNotFoundError:
        return app, None
    return both, lambda: sessions.offer_once(token)


def _publish(made: _Made, campaign: Campaign, clock: FakeClock, *, shuffler_url: str) -> None:
    publisher = Publisher(
        made.databases[Role.FUSION],
        clock,
        key=made.signers[Role.FUSION],
        pinned=made.pinned,
        countersigner=HttpCountersigner(shuffler_url, transport=httpx.HTTPTransport()),
    )
    end_s = campaign.closes_s(campaign.not_after) + _CACHE_S
    configs = tuple(
        key.config(not_before_s=int(clock.now_s()), not_after_s=end_s)
        for key in made.openers.values()
    )
    publisher.publish_keyset(Keyset(version=1, cache_s=_CACHE_S, configs=configs))
    publisher.publish(campaign)


@contextmanager
def _served(app: ASGIApp) -> Iterator[str]:
    """Serve an app in a thread, at any free port; yield its address."""
    with socket.create_server((_HOST, 0), backlog=128) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        # A daemon: whatever happens to it, the demonstration can be left.
        thread = threading.Thread(
            target=server.run, kwargs={"sockets": [listener]}, daemon=True, name="demo-server"
        )
        thread.start()
        try:
            yield f"http://{_HOST}:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(_SHUTDOWN_S)


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
