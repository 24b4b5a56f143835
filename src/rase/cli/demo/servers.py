"""Both servers of the demonstration, on 127.0.0.1 and nowhere else, with keys to throw away.

They share a process and a clock here, so that nobody has to wait; folders, keys and databases are
as separate as they are in life, and all that passes between them passes as HTTP.
"""

import io
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx
import uvicorn
from starlette.types import ASGIApp

from rase.campaign import Campaign
from rase.cli.pages import with_dashboard
from rase.clock import Clock
from rase.fusion.app import fusion_app
from rase.fusion.campaigns import Publisher
from rase.fusion.centre import FusionCentre
from rase.fusion.countersign import HttpCountersigner
from rase.fusion.intake import Intake
from rase.fusion.opening import BatchOpener
from rase.fusion.query import Questions
from rase.fusion.rounds import Rounds
from rase.fusion.subscribers import ADMIN_CAMPAIGN, READ_ESTIMATES, add_subscriber
from rase.fusion.token_keys import TokenKeys, token_keys_at
from rase.registrar.app import registrar_app
from rase.registrar.devices import certify_list, make_approvals
from rase.registrar.program import HttpPeer
from rase.registrar.upkeep import Upkeep
from rase.service.connections import ConnectionSettings
from rase.service.telemetry import Telemetry
from rase.shuffler.app import create_shuffler_app
from rase.shuffler.closer import Closer
from rase.shuffler.documents import Countersigner, Policy
from rase.shuffler.enrolment import enrol_many
from rase.shuffler.forward import HttpSender
from rase.shuffler.opening import OuterOpenerPool
from rase.shuffler.public_keys import keep_own_keys
from rase.shuffler.release import Releaser
from rase.storage.interface import Database
from rase.storage.sqlite import open_sqlite
from rase.subscriber.client import Subscriber
from rase.wire.keys import Keyset, OpeningKey, Role, SigningKey
from rase.wire.signed import PinnedKeys, public_key_of

__all__ = ["Servers", "running_servers"]

_HOST: Final = "127.0.0.1"
_CACHE_S: Final = 7 * 86400
_SHUTDOWN_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """What the demonstration needs of two servers that run.

    Args:
        shuffler_url: Where devices send.
        fusion_url: Where subscribers ask.
        registrar_url: Where homes fetch their tokens.
        pinned: The public signing keys of both.
        closer: The shuffler's part with the private key; its steps are taken by the demonstration,
            because rounds end when the clock is moved.
        subscriber: A client with a token of its own.
        shuffler: The shuffler's counters.
        fusion: The fusion centre's counters.
        has_final: Set whenever a round became final.
        databases: The state of each, to see what is left in it.
        certify: The registrar's word for a list of devices.
        approve: Makes the registrar's approvals for devices that enrol by themselves.
        upkeep: What makes the registrar's keys; a step of it is due from time to time.
        openers: The private keys of both, to look into reports of a test.
        operator: A token that opens every page of the dashboard.
        login_url: Makes an address that logs in with it, once; None without a dashboard.
        publish: Publishes a new version of the campaign, countersigned by the shuffler.
    """

    shuffler_url: str
    fusion_url: str
    registrar_url: str
    pinned: PinnedKeys
    closer: Closer
    subscriber: Subscriber
    shuffler: Telemetry
    fusion: Telemetry
    has_final: threading.Event
    databases: dict[Role, Database]
    certify: Callable[[Sequence[bytes]], bytes]
    approve: Callable[[int, int], Sequence[str]]
    upkeep: Upkeep
    openers: dict[Role, OpeningKey] = field(repr=False)
    operator: str = field(repr=False)
    login_url: Callable[[], str] | None
    publish: Callable[[Campaign], object]

    def enrol(self, device_keys: Sequence[bytes], *, groups: Sequence[str] = ()) -> list[str]:
        """Enrol devices by their public keys, as the shuffler's operator does with a large fleet.

        Args:
            device_keys: Theirs.
            groups: The public groups, each for as many devices that follow each other.

        Returns:
            The credential of each.
        """
        made: list[str] = []
        size = -(-len(device_keys) // max(len(groups), 1))
        for place, group in enumerate(groups or ("",)):
            keys = device_keys[place * size : (place + 1) * size]
            # The registrar's operator certifies the list, the shuffler's admits it.
            found = enrol_many(
                self.databases[Role.SHUFFLER],
                keys,
                group=group,
                certificate=self.certify(keys),
                pinned=self.pinned,
            )
            made += [one.credential for one in found]
        return made


@contextmanager
def running_servers(
    folder: Path,
    clock: Clock,
    *,
    campaign: Campaign,
    watch: Callable[[str, ASGIApp], ASGIApp] = lambda _, app: app,
) -> Iterator[Servers]:
    """Run both servers with a published campaign, until the block ends.

    Args:
        folder: Where keys, databases and logs are made, a folder for each server.
        clock: The time of both.
        campaign: What is published, countersigned by the shuffler.
        watch: Wraps what devices talk to, the shuffler and the registrar, by name.
    """
    with ExitStack() as stack:
        made = _make_parts(folder, stack)
        app = watch("shuffler", _shuffler_app(made, clock, campaign))
        shuffler_url = stack.enter_context(_serve_app(app))
        has_final = threading.Event()
        centre = _centre(made, clock, stack, url=shuffler_url, on_final=has_final.set)
        state = made.databases[Role.FUSION]
        operator = add_subscriber(state, "operator", scopes=(READ_ESTIMATES, ADMIN_CAMPAIGN))
        app, offer = _with_pages(fusion_app(centre), clock, operator)
        fusion_url = stack.enter_context(_serve_app(app))
        publish = _publish(made, campaign, clock, shuffler_url=shuffler_url)
        registrar = _Registrar(made, clock, campaign, folder, shuffler_url=shuffler_url)
        stack.callback(registrar.database.close)
        registrar.upkeep.step()
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
            registrar_url=stack.enter_context(_serve_app(watch("registrar", registrar.app))),
            certify=registrar.certify,
            approve=registrar.approve,
            upkeep=registrar.upkeep,
            openers=made.openers,
            pinned=made.pinned,
            closer=_closer(made, clock, stack, path=_state(folder, Role.SHUFFLER), url=fusion_url),
            subscriber=subscriber,
            shuffler=made.telemetry[Role.SHUFFLER],
            fusion=made.telemetry[Role.FUSION],
            has_final=has_final,
            databases=made.databases,
            operator=operator,
            login_url=None if offer is None else lambda: f"{fusion_url}/login/once/{offer()}",
            publish=publish,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """What both servers are made of: state, counters and keys, each by its role."""

    databases: dict[Role, Database]
    telemetry: dict[Role, Telemetry]
    signers: dict[Role, SigningKey]
    openers: dict[Role, OpeningKey]
    pinned: PinnedKeys
    registrar: bytes = field(repr=False)


def _make_parts(folder: Path, stack: ExitStack) -> _Made:
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
    registrar = os.urandom(32)
    keep_own_keys(databases[Role.SHUFFLER], [openers[Role.SHUFFLER]])
    return _Made(
        databases=databases,
        telemetry=telemetry,
        signers=signers,
        openers=openers,
        pinned=PinnedKeys(
            signers[Role.FUSION].public_bytes(),
            signers[Role.SHUFFLER].public_bytes(),
            public_key_of(registrar),
        ),
        registrar=registrar,
    )


class _Registrar:
    """The third server: certifies homes and signs their tokens, blindly."""

    def __init__(
        self,
        made: _Made,
        clock: Clock,
        campaign: Campaign,
        folder: Path,
        *,
        shuffler_url: str,
    ) -> None:
        place = folder / "registrar"
        place.mkdir(mode=0o700)
        self.database = open_sqlite(place / "state.db", migrations="registrar")
        self._secret = made.registrar
        telemetry = Telemetry("registrar", stream=io.StringIO())
        rounds = campaign.not_after - campaign.not_before + 1
        self.upkeep = Upkeep(
            self.database,
            clock,
            secret=made.registrar,
            pinned=made.pinned,
            peer=HttpPeer(shuffler_url, transport=httpx.HTTPTransport()),
            campaigns=[campaign.id],
            windows=rounds // campaign.window + 2,
            telemetry=telemetry,
        )
        self.app = registrar_app(
            self.database, clock, secret=made.registrar, pinned=made.pinned, telemetry=telemetry
        )

    def certify(self, device_keys: Sequence[bytes]) -> bytes:
        """Certify a list of devices."""
        return certify_list(self.database, device_keys, secret=self._secret)

    def approve(self, count: int, expires_s: int) -> Sequence[str]:
        """Approve devices that come by themselves, until a second."""
        return make_approvals(self.database, count, expires_s=expires_s)


def _state(folder: Path, role: Role) -> Path:
    return folder / role / "state.db"


def _shuffler_app(made: _Made, clock: Clock, campaign: Campaign) -> ASGIApp:
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
    made: _Made, clock: Clock, stack: ExitStack, *, url: str, on_final: Callable[[], None]
) -> FusionCentre:
    state = made.databases[Role.FUSION]
    opener = stack.enter_context(BatchOpener([made.openers[Role.FUSION]], processes=0))
    return FusionCentre(
        database=state,
        clock=clock,
        intake=Intake(
            state,
            clock,
            pinned=made.pinned,
            opener=opener,
            token_keys=TokenKeys(state, clock, pinned=made.pinned, fetch=token_keys_at(url)),
        ),
        rounds=Rounds(state, clock),
        questions=Questions(state),
        telemetry=made.telemetry[Role.FUSION],
        on_final=[on_final],
    )


def _closer(made: _Made, clock: Clock, stack: ExitStack, *, path: Path, url: str) -> Closer:
    """Return the shuffler's part with the private key, with a connection of its own."""
    state = stack.enter_context(closing(open_sqlite(path, migrations=Role.SHUFFLER)))
    opener = stack.enter_context(OuterOpenerPool([made.openers[Role.SHUFFLER]]))
    client = httpx.Client(timeout=30.0, trust_env=False)
    return Closer(
        state,
        clock,
        releaser=Releaser(state, opener=opener, key=made.signers[Role.SHUFFLER], name="demo"),
        sender=stack.enter_context(closing(HttpSender(url, client=client))),
        pinned=made.pinned,
        telemetry=made.telemetry[Role.SHUFFLER],
    )


def _with_pages(app: ASGIApp, clock: Clock, token: str) -> tuple[ASGIApp, Callable[[], str] | None]:
    """Return the app together with the dashboard, and what makes codes to log in once."""
    try:
        both, sessions = with_dashboard(app, clock)
    except ModuleNotFoundError:
        return app, None
    return both, lambda: sessions.offer_once(token)


def _publish(
    made: _Made, campaign: Campaign, clock: Clock, *, shuffler_url: str
) -> Callable[[Campaign], object]:
    """Publish keys and a campaign; return what publishes its later versions."""
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
    return publisher.publish


@contextmanager
def _serve_app(app: ASGIApp) -> Iterator[str]:
    """Serve an app in a thread, at any free port; yield its address."""
    with socket.create_server((_HOST, 0), backlog=128) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            timeout_keep_alive=ConnectionSettings().idle_s,
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
