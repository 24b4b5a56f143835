"""The shuffler's two processes: one serves the network, the other holds all private keys."""

import asyncio
import os
import signal
import stat
import sys
import threading
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager, suppress
from functools import partial
from multiprocessing import get_context
from typing import Final, TextIO

from rase.clock import Clock, SystemClock
from rase.errors import ConfigurationError
from rase.service.acts import AUTOMATIC
from rase.service.heartbeat import Heartbeat
from rase.service.http import serve
from rase.service.key_settings import read_opening_keys
from rase.service.keyring import PUBLIC_FILE, read_public_keys
from rase.service.live_keys import LiveKeys
from rase.service.metrics import exposition, served_metrics
from rase.service.rotation import KeyRotation
from rase.service.telemetry import Telemetry
from rase.service.tracing import send_spans
from rase.shuffler.app import create_shuffler_app
from rase.shuffler.closer import Closer
from rase.shuffler.documents import Countersigner, load_documents
from rase.shuffler.forward import HttpSender
from rase.shuffler.opening import OuterOpenerPool
from rase.shuffler.public_keys import keep_offer
from rase.shuffler.release import Releaser
from rase.shuffler.report_handler import ReportHandler
from rase.shuffler.settings import (
    ShufflerSettings,
    own_signing_key,
    pinned_keys,
)
from rase.shuffler.signing import Signer
from rase.storage.interface import Database
from rase.storage.opening import open_database
from rase.wire.keys import Keyset, Role, SigningKey

__all__ = [
    "check_private_keys",
    "closer_command",
    "keep_running",
    "run_closer",
    "run_intake",
    "stop_with_parent",
]

_PATIENCE_S: Final = 15.0
_LONGEST_PAUSE_S: Final = 30.0


def run_intake(
    settings: ShufflerSettings,
    *,
    telemetry: Telemetry,
    closer_command: Sequence[str] | None = None,
    clock: Clock | None = None,
) -> None:
    """Serve the shuffler's routes until the process is asked to end.

    Args:
        settings: What the operator decided.
        telemetry: Logs what happens.
        closer_command: How to start the closer process; None if it runs elsewhere.
        clock: Gives the time.

    Raises:
        ConfigurationError: If keys or address cannot be used.
        StorageUnusable: If the database cannot.
    """
    pinned = pinned_keys(settings)
    clock = clock or SystemClock()
    if settings.mqtt is not None:
        # A mistake is reported before anything is served.
        settings.mqtt.secrets()
    with (
        closing(open_database(settings.database, migrations="shuffler")) as database,
        send_spans(telemetry, settings.traces, process="shuffler intake"),
    ):
        app = create_shuffler_app(
            database,
            clock,
            pinned=pinned,
            telemetry=telemetry,
            limits=settings.limits,
            background=lambda handler: _run_background(
                handler, settings, closer_command, clock=clock, telemetry=telemetry
            ),
        )
        serve(
            app,
            host=settings.host,
            port=settings.port,
            telemetry=telemetry,
            limits=settings.limits,
        )


def check_private_keys(settings: ShufflerSettings) -> None:
    """Refuse private keys that the closer could not use, before anything is served.

    A process of its own reads them and ends: the one that calls this never does.

    Raises:
        ConfigurationError: With every mistake.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        mistakes = pool.submit(_key_mistakes, settings).result()
    if mistakes:
        raise ConfigurationError(mistakes)


def _key_mistakes(settings: ShufflerSettings) -> list[str]:
    mistakes: list[str] = []
    for check in (
        lambda: own_signing_key(settings),
        lambda: read_opening_keys(settings.opening_key_files, role=Role.SHUFFLER),
    ):
        try:
            check()
        except ConfigurationError as error:
            mistakes += error.mistakes
    return mistakes


def run_closer(
    settings: ShufflerSettings,
    stop: threading.Event,
    *,
    telemetry: Telemetry,
    clock: Clock | None = None,
) -> None:
    """Close and forward rounds, and countersign proposals, until asked to stop.

    Args:
        settings: What the operator decided.
        stop: Set from another thread or by a signal.
        telemetry: Logs what happens.
        clock: Gives the time.

    Raises:
        ConfigurationError: If keys cannot be used.
        StorageUnusable: If the database cannot.
    """
    key, pinned = own_signing_key(settings)
    clock = clock or SystemClock()
    keys = LiveKeys(
        Role.SHUFFLER,
        lambda: settings.current_opening_key_files(Role.SHUFFLER),
        settings=settings.source,
        clock=clock,
        telemetry=telemetry,
    )
    opener = OuterOpenerPool(keys(), processes=settings.workers, renewed=keys)
    sender = HttpSender(settings.fusion_url)
    with (
        closing(open_database(settings.database, migrations="shuffler")) as database,
        opener,
        closing(sender),
        send_spans(telemetry, settings.traces, process="shuffler closer"),
    ):
        closer = Closer(
            database,
            clock,
            releaser=Releaser(database, opener=opener, key=key, name=settings.name),
            sender=sender,
            pinned=pinned,
            telemetry=telemetry,
            lease_s=settings.lease_s,
            heart=Heartbeat(database, clock, part="closer", keys=lambda: opener.keys),
            rotation=_rotation(settings, database, key=key, clock=clock, telemetry=telemetry),
        )
        signer = Signer(
            database,
            clock,
            countersigner=Countersigner(
                database, key=key, pinned=pinned, policy=settings.policy.policy(), by=AUTOMATIC
            ),
            telemetry=telemetry,
        )
        telemetry.event("closing")
        with (
            served_metrics(
                settings.closer_metrics_port, lambda: exposition(telemetry, "shuffler closer")
            ),
            _sign_while_closing(signer, stop),
        ):
            closer.run(stop)
        telemetry.event("stopped")


def _rotation(
    settings: ShufflerSettings,
    database: Database,
    *,
    key: SigningKey,
    clock: Clock,
    telemetry: Telemetry,
) -> KeyRotation | None:
    if not settings.rotate_keys_s:
        return None
    if settings.source is None:
        raise ConfigurationError(["shuffler.rotate_keys_s must stand in a settings file."])
    folder, pinned = settings.source.parent, pinned_keys(settings)

    def offer(published: Keyset) -> None:
        keep_offer(database, read_public_keys(folder / PUBLIC_FILE), key=key)

    return KeyRotation(
        folder,
        role=Role.SHUFFLER,
        every_s=settings.rotate_keys_s,
        files=partial(settings.current_opening_key_files, Role.SHUFFLER),
        published=lambda: load_documents(database, pinned).keyset,
        offer=offer,
        clock=clock,
        telemetry=telemetry,
    )


@contextmanager
def _sign_while_closing(signer: Signer, stop: threading.Event) -> Iterator[None]:
    """Countersign in a thread of its own: a large round takes longer to close than anyone waits."""
    with ThreadPoolExecutor(1, thread_name_prefix="signing") as pool:
        signing = pool.submit(signer.run, stop)
        try:
            yield
        finally:
            stop.set()
        signing.result()


def stop_with_parent(stop: threading.Event, pipe: TextIO) -> None:
    """Set ``stop`` on SIGTERM, SIGINT, or when the parent's end of a pipe closes.

    A parent that is killed closes its end too, so no closer is left behind. It is read below
    Python's buffer: a thread inside a buffered read would abort the interpreter's own end. What is
    no pipe, such as the empty input of a service manager, has no parent at its other end.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        descriptor = pipe.fileno()
        mode = os.fstat(descriptor).st_mode
        # uvloop's pipes to a child are sockets.
        is_pipe = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    except (OSError, ValueError):
        is_pipe = False
    if not is_pipe:
        return

    def watch() -> None:
        # A pipe that is closed on this side has no parent to wait for either.
        with suppress(OSError):
            while os.read(descriptor, 1):
                pass
        stop.set()

    threading.Thread(target=watch, daemon=True, name="parent-watch").start()


@asynccontextmanager
async def _run_background(
    handler: ReportHandler,
    settings: ShufflerSettings,
    closer_command: Sequence[str] | None,
    *,
    clock: Clock,
    telemetry: Telemetry,
) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        if closer_command is not None:
            await stack.enter_async_context(keep_running(closer_command, telemetry))
        if settings.mqtt is not None:
            from rase.shuffler.mqtt import mqtt_intake

            await stack.enter_async_context(
                mqtt_intake(handler, settings.mqtt, clock=clock, telemetry=telemetry)
            )
        yield


@asynccontextmanager
async def keep_running(command: Sequence[str], telemetry: Telemetry) -> AsyncIterator[None]:
    """Keep a process running while the server runs; start it again whenever it ends.

    Args:
        command: The program and its arguments.
        telemetry: Logs when it ends.
    """
    keeper = _Keeper(command, telemetry)
    task = asyncio.create_task(keeper.keep())
    try:
        yield
    finally:
        await keeper.end()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class _Keeper:
    """The process that runs now."""

    def __init__(self, command: Sequence[str], telemetry: Telemetry) -> None:
        self._command = command
        self._telemetry = telemetry
        self._process: Process | None = None
        self._is_ending = False

    async def keep(self) -> None:
        pause_s = 0.5
        while True:
            self._process = await asyncio.create_subprocess_exec(*self._command, stdin=PIPE)
            status = await self._process.wait()
            if self._is_ending:
                return
            self._telemetry.count("closer_deaths")
            self._telemetry.event("closer_ended", status=status, retry_s=pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def end(self) -> None:
        self._is_ending = True
        process = self._process
        if process is None or process.returncode is not None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _PATIENCE_S)
        except TimeoutError:
            process.kill()
            await process.wait()


def closer_command(config: str) -> list[str]:
    """Return how this program starts its closer."""
    return [sys.executable, "-m", "rase", "shuffler", "run", "--part", "closer", "--config", config]
