"""The agent as a program: everything put together from a folder, and run until asked to stop."""

import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rase.campaign import Campaign
from rase.clock import Clock, SystemClock
from rase.device.agent import Agent
from rase.device.behaviour import Behaviour, every_round, rotating
from rase.device.folder import DeviceFolder, secret_in
from rase.device.journal import Journal, LineJournal
from rase.device.memory import Memory
from rase.device.settings import (
    DeviceSettings,
    HomeSettings,
    SourceSettings,
    is_plain_name,
)
from rase.device.sources import open_source
from rase.device.state import StateFile
from rase.device.terms import Terms
from rase.kernels.entropy import SecureEntropy
from rase.transport.interface import Transport

if TYPE_CHECKING:
    from rase.accounting.ledger import Ledger
    from rase.device.comparison import Comparison
    from rase.device.page.owner import Owner
    from rase.device.page.server import OwnerPage
    from rase.device.tokens import TokenFetcher
    from rase.transport.broker import Broker
    from rase.transport.http import ClientTls

__all__ = [
    "broker_at_home",
    "name_at_home",
    "registrar_transport_of",
    "report_transport_of",
    "run_device",
    "tls_of",
    "transport_of",
]

# How soon an agent with a page does what was asked for there.
_PAGE_WAIT_S = 1.0
# Below the 75 s for which a server keeps an idle connection.
_KEPT_S = 65.0


def run_device(
    folder: DeviceFolder,
    environment: Mapping[str, str],
    *,
    wait: Callable[[float], bool],
    rounds: int | None = None,
    page_port: int | None = None,
    clock: Clock | None = None,
    transport: Transport | None = None,
    journal: Journal | None = None,
) -> None:
    """Work until asked to stop.

    Args:
        folder: The device's folder, enrolled.
        environment: The environment variables.
        wait: Waits so many seconds, or less; returns whether to stop.
        rounds: Stop by itself after so many rounds, when their envelopes are settled.
        page_port: Serve the owner's page on this port of the loopback address; as the settings say
            if None. Then nothing is sent before the owner has switched sharing on.
        clock: The time; the system's unless given.
        transport: The way to the shuffler; made from the settings unless given.
        journal: Takes notes; lines on stderr unless given.

    Raises:
        RaseError: If the device is not enrolled or misconfigured, its ledger or state cannot be
            used, or it has no terms and those offered are refused.
    """
    settings = folder.settings(environment)
    credential = folder.credential()
    clock = clock or SystemClock()
    journal = journal or LineJournal(sys.stderr, clock)
    transport = transport or report_transport_of(settings, folder.path, credential)
    port = settings.page_port if page_port is None else page_port
    comparison = None
    if port is not None:
        # Needed with a page alone.
        from rase.device.comparison import Comparison

        journal = comparison = Comparison(journal, clock)
    with ExitStack() as stack:
        page = None
        with folder.lock(), folder.ledger(settings) as ledger:
            terms = Terms(
                settings.campaign,
                pinned=settings.pinned,
                rules=settings.rules,
                first_hash=settings.campaign_hash,
            )
            memory = Memory(terms, StateFile(folder.state_file))
            home = broker_at_home(settings.home, folder.path)
            behaviour = _behaviour_of(settings, folder)
            source = stack.enter_context(
                closing(open_source(settings.source, folder.path, home=home))
            )
            entities = None
            if home is not None and settings.home.discovery:
                from rase.device.home import HomeEntities

                name = name_at_home(settings.home, folder.path)
                journal = entities = stack.enter_context(
                    closing(HomeEntities(home, name, folder=folder, clock=clock, journal=journal))
                )
            agent = Agent(
                memory,
                ledger,
                tokens=_tokens_of(settings, folder, ledger, clock=clock, journal=journal),
                transport=transport,
                source=source,
                credential=credential,
                clock=clock,
                entropy=SecureEntropy(),
                journal=journal,
                behaviour=behaviour,
                is_paused=lambda: folder.is_paused,
                is_off=lambda: folder.is_off,
                observer=comparison,
            )
            journal.note("started", campaign=settings.campaign)
            if port is not None and comparison is not None:
                owner = _owner_of(
                    settings, folder, terms, comparison, clock=clock, behaviour=behaviour
                )
                # Off until it is switched on there; without a page, starting this is the switch.
                folder.keep_off_unless_said()
                page = stack.enter_context(_serve_page(owner, port, journal))

            def publish() -> None:
                if entities is not None:
                    entities.publish_state(ledger)

            _work(agent, terms, wait=wait, rounds=rounds, page=page, publish=publish)
        if page is not None and page.is_to_forget.is_set():
            # The lock is free again: forgetting takes it.
            folder.forget(settings)
            page.is_forgotten.set()
        journal.note("stopped")


def _owner_of(
    settings: DeviceSettings,
    folder: DeviceFolder,
    terms: Terms,
    comparison: "Comparison",
    *,
    clock: Clock,
    behaviour: Behaviour,
) -> "Owner":
    from rase.device.page.owner import Owner

    return Owner(
        folder=folder,
        settings=settings,
        terms=terms,
        comparison=comparison,
        clock=clock,
        entropy=SecureEntropy(),
        has_turn=behaviour.has_turn,
    )


def _work(
    agent: Agent,
    terms: Terms,
    *,
    wait: Callable[[float], bool],
    rounds: int | None,
    page: "OwnerPage | None",
    publish: Callable[[], None],
) -> None:
    """Step until asked to stop, by a signal, by the number of rounds, or on the page."""
    while True:
        wait_s = agent.step()
        if agent.refusal is not None and terms.latest is None and page is None:
            # With a page the owner reads the reason there.
            raise agent.refusal
        publish()
        is_finished = rounds is not None and agent.rounds_ended >= rounds
        if page is not None:
            if page.is_to_forget.is_set():
                return
            wait_s = min(wait_s, _PAGE_WAIT_S)
        if (is_finished and not agent.outbox) or wait(wait_s):
            return


@contextmanager
def _serve_page(owner: "Owner", port: int, journal: Journal) -> "Iterator[OwnerPage]":
    """Serve the owner's page for a while, its address in a file for the owner only."""
    from rase.device.page.server import OwnerPage

    page = OwnerPage(owner, port)
    try:
        owner.folder.keep_page(page.address)
        journal.note("page", port=page.port)
        if sys.stderr.isatty():
            # The address opens the page: for the eyes at a terminal, never for a log.
            sys.stderr.write(f"your page: {page.address}\n")
        yield page
    finally:
        page.close()
        owner.folder.page_file.unlink(missing_ok=True)


def transport_of(settings: DeviceSettings, folder: Path) -> Transport:
    """Return the way to the shuffler over HTTP.

    Raises:
        ConfigurationError: If the address or a file for TLS cannot be used.
    """
    from rase.transport.http import HttpTransport

    tls = tls_of(settings, folder)
    return HttpTransport(settings.shuffler, tls=tls, timeout_s=settings.timeout_s, kept_s=_KEPT_S)


def registrar_transport_of(settings: DeviceSettings, folder: Path) -> Transport | None:
    """Return the way to the registrar; None where there is none.

    Raises:
        ConfigurationError: If the address or a file for TLS cannot be used.
    """
    from rase.transport.http import ClientTls, HttpTransport

    if settings.registrar is None:
        return None
    authority = settings.tls_ca_file
    # The certificate of the device, if it has one, is for the shuffler.
    tls = ClientTls(None if authority is None else folder / authority)
    return HttpTransport(settings.registrar, tls=tls, timeout_s=settings.timeout_s)


def _tokens_of(
    settings: DeviceSettings,
    folder: DeviceFolder,
    ledger: "Ledger",
    *,
    clock: Clock,
    journal: Journal,
) -> "TokenFetcher | None":
    registrar = registrar_transport_of(settings, folder.path)
    if registrar is None:
        return None
    from rase.device.tokens import TokenFetcher

    return TokenFetcher(
        ledger,
        registrar,
        secret=folder.device_secret(),
        campaign=settings.campaign,
        pinned=settings.pinned,
        clock=clock,
        entropy=SecureEntropy(),
        journal=journal,
    )


def report_transport_of(settings: DeviceSettings, folder: Path, credential: str) -> Transport:
    """Return the way of reports: through a broker if one is named, else over HTTP.

    Raises:
        ConfigurationError: If the address or a file cannot be used.
    """
    if settings.broker is None:
        return transport_of(settings, folder)
    # Only now: the package for MQTT is loaded for those alone who use it.
    from rase.transport.broker import Broker
    from rase.transport.mqtt import MqttTransport

    password = settings.broker_password_file
    broker = Broker(
        url=settings.broker,
        user=settings.broker_user,
        password=None if password is None else secret_in(folder / password),
        tls=tls_of(settings, folder),
        timeout_s=settings.timeout_s,
    )
    return MqttTransport(broker, campaign=settings.campaign, credential=credential)


def name_at_home(settings: HomeSettings, folder: Path) -> str:
    """Return what a device is called at home: as its owner says, else as its folder."""
    if settings.name is not None:
        return settings.name
    name = folder.resolve().name.lower()
    return name if is_plain_name(name) else "rase"


def broker_at_home(settings: HomeSettings, folder: Path) -> "Broker | None":
    """Return how the broker in the home is reached; None if there is none.

    Raises:
        ConfigurationError: If the address or a file cannot be used.
    """
    if settings.broker is None:
        return None
    from rase.transport.broker import Broker
    from rase.transport.http import ClientTls

    authority, password = settings.tls_ca_file, settings.password_file
    return Broker(
        url=settings.broker,
        user=settings.user,
        password=None if password is None else secret_in(folder / password),
        tls=ClientTls(None if authority is None else folder / authority),
        insecure_mqtt=True,
    )


def tls_of(settings: DeviceSettings, folder: Path) -> "ClientTls":
    """Return authority and certificate of the settings; relative paths start in the folder."""
    from rase.transport.http import ClientTls

    files = (settings.tls_ca_file, settings.tls_certificate_file, settings.tls_key_file)
    return ClientTls(*(None if file is None else folder / file for file in files))


def _behaviour_of(settings: DeviceSettings, folder: DeviceFolder) -> Behaviour:
    has_turn: Callable[[Campaign, int], bool] = every_round
    if settings.schedule == "rotate":
        has_turn = rotating(hashlib.sha256(b"rase 1 turns" + folder.device_secret()).digest())
    return Behaviour(
        sends_cover=settings.sends_cover,
        poll_s=settings.source.every_s,
        has_turn=has_turn,
        # The state at the end of a round counts; there is no mean of states.
        aggregate="last" if settings.source.states is not None else settings.source.aggregate,
        unit=_unit_of(settings.source),
    )


def _unit_of(settings: SourceSettings) -> str | None:
    if settings.kind != "mqtt":
        return settings.unit
    from rase.device.sources.presets import meter_of

    return meter_of(settings).unit
