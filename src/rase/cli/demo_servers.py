"""Both servers of the demonstration, on 127.0.0.1 and nowhere else, with keys to throw away.

They share a process and a clock here, so that nobody has to wait; folders, keys and databases are
as separate as they are in life, and all that passes between them passes as HTTP.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx
import uvicorn
from starlette.types import ASGIApp

from rase.campaign import Campaign
from rase.cli.pages import with_dashboard
from rase.clock import FakeClock
from rase.fusion.app import fusion_app
from rase.fusion.campaigns import Publisher
from rase.fusion.centre import FusionCentre
from rase.fusion.countersign import HttpCountersigner
from rase.fusion.intake import Intake
from rase.fusion.opening import BatchOpener
from rase.fusion.query import Questions
from rase.fusion.rounds import Rounds
from rase.fusion.subscribers import ADMIN_CAMPAIGN, READ_ESTIMATES, add_subscriber
from rase.service.telemetry import Telemetry
from rase.shuffler.app import create_shuffler_app
from rase.shuffler.closer import Closer
from rase.shuffler.documents import Countersigner, Policy
from rase.shuffler.enrolment import make_tokens
from rase.shuffler.forward import HttpSender
from rase.shuffler.own_keys import keep_own_keys
from rase.shuffler.peeling import Peeler
from rase.shuffler.release import Releaser
from rase.storage.face import Database
from rase.storage.sqlite import open_sqlite
from rase.subscriber.client import Subscriber
from rase.wire.keys import Keyset, OpeningKey, Role, SigningKey
from rase.wire.signed import PinnedKeys

__all__ = ["Servers", "running_servers"]

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
        databases: dict[Role, Database] = {}
        telemetry: dict[Role, Telemetry] = {}
        for role in Role:
            (folder / role).mkdir(mode=0o700)
            path = folder / role / "state.db"
            databases[role] = stack.enter_context(closing(open_sqlite(path, migrations=role)))
            log = stack.enter_context((folder / role / "log").open("w", encoding="utf-8"))
            telemetry[role] = Telemetry(role, stream=log)
        signers = {role: SigningKey.generate(role) for role in Role}
        openers = {role: OpeningKey.generate(role, 1) for role in Role}
        pinned = PinnedKeys(
            signers[Role.FUSION].public_bytes(), signers[Role.SHUFFLER].public_bytes()
        )
        keep_own_keys(databases[Role.SHUFFLER], [openers[Role.SHUFFLER]])
        shuffler_url = stack.enter_context(
            _served(
                create_shuffler_app(
                    databases[Role.SHUFFLER],
                    clock,
                    countersigner=Countersigner(
                        databases[Role.SHUFFLER],
                        key=signers[Role.SHUFFLER],
                        pinned=pinned,
                        policy=Policy(
                            max_epsilon=campaign.epsilon[-1],
                            max_window_budget=campaign.window_budget,
                            min_k_min=campaign.k_min,
                            max_cache_s=_CACHE_S,
                        ),
                    ),
                    pinned=pinned,
                    telemetry=telemetry[Role.SHUFFLER],
                )
            )
        )
        has_final = threading.Event()
        centre = FusionCentre(
            database=databases[Role.FUSION],
            clock=clock,
            intake=Intake(
                databases[Role.FUSION],
                clock,
                pinned=pinned,
                opener=stack.enter_context(BatchOpener([openers[Role.FUSION]], processes=0)),
            ),
            rounds=Rounds(databases[Role.FUSION], clock),
            questions=Questions(databases[Role.FUSION]),
            telemetry=telemetry[Role.FUSION],
            on_final=[has_final.set],
        )
        operator = add_subscriber(
            databases[Role.FUSION], "operator", scopes=(READ_ESTIMATES, ADMIN_CAMPAIGN)
        )
        app, offer = _with_pages(fusion_app(centre), clock, operator)
        fusion_url = stack.enter_context(_served(app))
        _publish(
            Publisher(
                databases[Role.FUSION],
                clock,
                key=signers[Role.FUSION],
                pinned=pinned,
                countersigner=HttpCountersigner(shuffler_url, transport=httpx.HTTPTransport()),
            ),
            campaign,
            openers=openers,
            now_s=int(clock.now_s()),
        )
        token = add_subscriber(databases[Role.FUSION], "demo")
        # A transport of their own: a proxy in the environment must not be asked for 127.0.0.1.
        subscriber = stack.enter_context(
            Subscriber(fusion_url, token, campaign=campaign.id, transport=httpx.HTTPTransport())
        )
        client = httpx.Client(timeout=30.0, trust_env=False)
        peeler = stack.enter_context(Peeler([openers[Role.SHUFFLER]]))
        closers_database = stack.enter_context(
            closing(open_sqlite(folder / Role.SHUFFLER / "state.db", migrations=Role.SHUFFLER))
        )
        yield Servers(
            shuffler_url=shuffler_url,
            fusion_url=fusion_url,
            pinned=pinned,
            tokens=make_tokens(
                databases[Role.SHUFFLER], devices, expires_s=int(clock.now_s()) + 3600
            ),
            closer=Closer(
                closers_database,
                clock,
                releaser=Releaser(
                    closers_database, peeler=peeler, key=signers[Role.SHUFFLER], name="demo"
                ),
                sender=stack.enter_context(closing(HttpSender(fusion_url, client=client))),
                pinned=pinned,
                telemetry=telemetry[Role.SHUFFLER],
            ),
            subscriber=subscriber,
            shuffler=telemetry[Role.SHUFFLER],
            fusion=telemetry[Role.FUSION],
            has_final=has_final,
            databases=databases,
            operator=operator,
            login_url=None if offer is None else lambda: f"{fusion_url}/login/once/{offer()}",
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


def _publish(
    publisher: Publisher, campaign: Campaign, *, openers: dict[Role, OpeningKey], now_s: int
) -> None:
    end_s = campaign.closes_s(campaign.not_after) + _CACHE_S
    configs = tuple(key.config(not_before_s=now_s, not_after_s=end_s) for key in openers.values())
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
