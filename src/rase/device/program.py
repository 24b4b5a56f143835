"""The agent as a program: everything put together from a folder, and run until asked to stop."""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rase.campaign import Campaign
from rase.clock import Clock, SystemClock
from rase.device.agent import Agent
from rase.device.behaviour import Behaviour, every_round, rotating, turn_schedule, turns_of
from rase.device.folder import DeviceFolder
from rase.device.journal import Journal, LineJournal, NamedJournal
from rase.device.memory import Memory
from rase.device.quantities import quantities_of
from rase.device.settings import AT_HOME, DeviceSettings, SourceSettings
from rase.device.sources import open_source
from rase.device.state import StateFile
from rase.device.terms import Terms
from rase.device.ways import (
    broker_at_home,
    broker_of_fleet,
    name_at_home,
    registrar_transport_of,
    report_transport_of,
)
from rase.kernels.entropy import SecureEntropy
from rase.transport.interface import Transport

if TYPE_CHECKING:
    from rase.accounting.ledger import Ledger
    from rase.device.comparison import Comparison
    from rase.device.fleet import Against, FleetEstimates
    from rase.device.home import HomeEntities
    from rase.device.page.server import OwnerPage
    from rase.device.tokens import TokenFetcher
    from rase.transport.broker import Broker

__all__ = ["run_device", "run_together"]

# How soon an agent with a page does what was asked for there.
_PAGE_WAIT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """What all quantities of a device share while it runs.

    Args:
        wait: Waits so many seconds, or less; returns whether to stop.
        rounds: After how many rounds each stops by itself.
        clock: The time.
        transport: The way to the shuffler; made from the settings of each if None.
        journal: Takes notes.
        page: The owner's page, which shows each of them; None for none.
        quantities: All of them, with their settings.
    """

    wait: Callable[[float], bool]
    rounds: int | None
    clock: Clock
    transport: Transport | None
    journal: Journal
    page: "OwnerPage | None"
    quantities: Sequence[tuple[DeviceFolder, DeviceSettings]]


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
    """Work until asked to stop, for every quantity of the device.

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
    quantities = quantities_of(folder, environment)
    settings = quantities[0][1]
    folder.credential()
    if len(quantities) > 1:
        # Made here if enrolment did not, so that no two threads make it.
        folder.device_secret()
    clock = clock or SystemClock()
    journal = journal or LineJournal(sys.stderr, clock)
    port = settings.page_port if page_port is None else page_port
    with ExitStack() as stack:
        page = None
        with folder.lock():
            if port is not None:
                # Off until it is switched on there; without a page, starting this is the switch.
                folder.keep_off_unless_said()
                page = stack.enter_context(_serve_page(folder, port, journal))
            ended = threading.Event()
            run = _Run(
                wait=wait if len(quantities) == 1 else _patient_wait(ended, wait),
                rounds=rounds,
                clock=clock,
                transport=transport,
                journal=journal,
                page=page,
                quantities=quantities,
            )
            run_together([partial(_run_quantity, run, *one) for one in quantities], ended)
        if page is not None and page.is_to_forget.is_set():
            # The lock is free again: forgetting takes it.
            folder.forget(settings)
            page.is_forgotten.set()
        journal.note("stopped")


def run_together(works: Sequence[Callable[[], None]], ended: threading.Event) -> None:
    """Do works at the same time, each in a thread; one that fails ends all.

    Args:
        works: What to do; a single one is done in this thread.
        ended: Set when one has failed: the others look at it while they wait.

    Raises:
        RaseError: If one of them cannot work.
    """
    if len(works) == 1:
        works[0]()
        return
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            works[number]()
        except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
            failed.append(error)
            ended.set()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        # Not for ever at once: a signal is handled between two waits.
        while thread.is_alive():
            thread.join(1.0)
    if failed:
        raise failed[0]


def _patient_wait(ended: threading.Event, wait: Callable[[float], bool]) -> Callable[[float], bool]:
    """Return what waits in pieces, so that it notices that another quantity has failed."""

    def wait_in_pieces(seconds: float) -> bool:
        left_s = seconds
        while not ended.is_set() and left_s > 0:
            if wait(min(left_s, _PAGE_WAIT_S)):
                return True
            left_s -= _PAGE_WAIT_S
        return ended.is_set()

    return wait_in_pieces


def _run_quantity(run: _Run, folder: DeviceFolder, settings: DeviceSettings) -> None:
    """Work for one quantity until asked to stop."""
    place, clock, journal = folder.root.path, run.clock, run.journal
    if len(run.quantities) > 1:
        journal = NamedJournal(journal, settings.campaign)
    credential = folder.credential()
    comparison = None
    if run.page is not None or settings.fleet.at_home != AT_HOME[0]:
        # Needed where the owner sees what was measured.
        from rase.device.comparison import Comparison

        journal = comparison = Comparison(journal, clock)
    with ExitStack() as stack:
        ledger = stack.enter_context(folder.ledger(settings))
        terms = Terms(
            settings.campaign,
            pinned=settings.pinned,
            rules=settings.rules,
            first_hash=settings.campaign_hash,
        )
        memory = Memory(terms, StateFile(folder.state_file))
        home = broker_at_home(settings.home, place)
        behaviour = _behaviour_of(settings, folder, run)
        estimates = None if comparison is None else _fleet_of(settings, place, stack)
        source = stack.enter_context(closing(open_source(settings.source, place, home=home)))
        entities = None
        if home is not None and settings.home.discovery:
            entities = stack.enter_context(_entities_of(settings, folder, home, clock, journal))
            journal = entities
        agent = Agent(
            memory,
            ledger,
            tokens=_tokens_of(settings, folder, ledger, clock=clock, journal=journal),
            transport=run.transport or report_transport_of(settings, place, credential),
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
        # Already named where there are several.
        journal.note("started", campaign=settings.campaign)
        if run.page is not None and comparison is not None:
            from rase.device.page.owner import Owner

            owner = Owner(
                folder=folder,
                settings=settings,
                terms=terms,
                comparison=comparison,
                estimates=estimates,
                clock=clock,
                entropy=SecureEntropy(),
                has_turn=behaviour.has_turn,
            )
            run.page.show(owner)

        def publish() -> None:
            if entities is not None:
                against = _against_fleet(terms, comparison, estimates)
                entities.publish_state(ledger, against)

        _work(agent, terms, run, publish)


@contextmanager
def _entities_of(
    settings: DeviceSettings, folder: DeviceFolder, home: "Broker", clock: Clock, journal: Journal
) -> "Iterator[HomeEntities]":
    """Keep the owner's entities in the home up to date for a while."""
    from rase.device.home import HomeEntities

    name = name_at_home(settings.home, folder.root.path, folder.quantity)
    entities = HomeEntities(
        home, name, folder=folder, clock=clock, journal=journal, at_home=settings.fleet.at_home
    )
    with closing(entities):
        yield entities


def _work(agent: Agent, terms: Terms, run: _Run, publish: Callable[[], None]) -> None:
    """Step until asked to stop, by a signal, by the number of rounds, or on the page."""
    while True:
        wait_s = agent.step()
        if agent.refusal is not None and terms.latest is None and run.page is None:
            # With a page the owner reads the reason there.
            raise agent.refusal
        publish()
        is_finished = run.rounds is not None and agent.rounds_ended >= run.rounds
        if run.page is not None:
            if run.page.is_to_forget.is_set():
                return
            wait_s = min(wait_s, _PAGE_WAIT_S)
        if (is_finished and not agent.outbox) or run.wait(wait_s):
            return


@contextmanager
def _serve_page(folder: DeviceFolder, port: int, journal: Journal) -> "Iterator[OwnerPage]":
    """Serve the owner's page for a while, its address in a file for the owner only."""
    from rase.device.page.server import OwnerPage

    page = OwnerPage(folder, port)
    try:
        folder.keep_page(page.address)
        journal.note("page", port=page.port)
        if sys.stderr.isatty():
            # The address opens the page: for the eyes at a terminal, never for a log.
            sys.stderr.write(f"your page: {page.address}\n")
        yield page
    finally:
        page.close()
        folder.page_file.unlink(missing_ok=True)


def _tokens_of(
    settings: DeviceSettings,
    folder: DeviceFolder,
    ledger: "Ledger",
    *,
    clock: Clock,
    journal: Journal,
) -> "TokenFetcher":
    from rase.device.tokens import TokenFetcher

    return TokenFetcher(
        ledger,
        registrar_transport_of(settings, folder.root.path),
        secret=folder.device_secret(),
        campaign=settings.campaign,
        pinned=settings.pinned,
        clock=clock,
        entropy=SecureEntropy(),
        journal=journal,
    )


def _fleet_of(settings: DeviceSettings, folder: Path, stack: ExitStack) -> "FleetEstimates | None":
    """Begin to read the fleet's public estimates; None where the owner named no broker for it.

    Raises:
        ConfigurationError: If the address or a file cannot be used.
    """
    broker = broker_of_fleet(settings, folder)
    if broker is None:
        return None
    from rase.device.fleet import FleetEstimates, FleetReader

    estimates = FleetEstimates(settings.campaign)
    stack.enter_context(closing(FleetReader(broker, estimates, settings.campaign)))
    return estimates


def _against_fleet(
    terms: Terms, comparison: "Comparison | None", estimates: "FleetEstimates | None"
) -> "list[Against]":
    latest = terms.latest
    if latest is None or comparison is None or estimates is None:
        return []
    from rase.device.fleet import compare

    return compare(comparison.rounds, estimates, latest.campaign)


def _behaviour_of(settings: DeviceSettings, folder: DeviceFolder, run: _Run) -> Behaviour:
    has_turn: Callable[[Campaign, int], bool] = every_round
    if settings.schedule == "rotate":
        has_turn = rotating(folder.device_secret())
    elif settings.schedule == "turns":
        has_turn = turn_schedule(turns_of(folder.device_secret(), run.quantities))
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
