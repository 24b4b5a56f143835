"""The kinds of faults: each begins, lasts a while, and ends; what it was is told in words."""

import os
import shutil
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from chaos.disks import compiler
from chaos.installation import LEASE_S, REGISTRAR, SERVERS, Installation
from chaos.programs import Program, until
from chaos.proxy import HARMS
from rase.kernels.words import SeededRandom
from rase.wire.keys import Role

if TYPE_CHECKING:
    from benchmarks.loading.postgres import PostgresServer
    from tests.broker import Mosquitto

_T = TypeVar("_T")

__all__ = [
    "LONGEST_JUMP_S",
    "Chance",
    "Faults",
    "clock_variables",
    "faketime",
    "left_out",
    "recovered",
]

LONGEST_JUMP_S: Final = 120
_PLACES: Final = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib/faketime/libfaketimeMT.so.1")
_FILLER: Final = "filler"
_ON_DISK: Final = {
    Role.SHUFFLER: ("intake", "closer"),
    Role.FUSION: ("fusion",),
    REGISTRAR: ("registrar",),
}


class Chance:
    """Decide from a seed what happens next; of no use to any randomizer.

    Args:
        seed: Decides everything.

    Example:
        >>> Chance(7).one_of("ab") == Chance(7).one_of("ab")
        True
    """

    def __init__(self, seed: int) -> None:
        self._rng = SeededRandom(seed)

    def below(self, count: int) -> int:
        """Return a number from 0 to below ``count``."""
        return int(self._rng.words(1)[0]) % count

    def one_of(self, things: Sequence[_T]) -> _T:
        """Return one of them."""
        return things[self.below(len(things))]

    def seconds(self, least: float, most: float) -> float:
        """Return a time between two, in steps of a millisecond."""
        return least + self.below(round(1000 * (most - least)) + 1) / 1000


def left_out(kinds: Sequence[str], *, store: str) -> dict[str, str]:
    """Return the kinds that cannot be tried here, each with the reason."""
    is_root = os.geteuid() == 0
    reasons = {
        "full": None if is_root else "only root may mount a disk",
        "readonly": None if is_root else "only root may mount a disk",
        "clock": None if faketime() is not None else "libfaketime is not installed",
        "slow": None if compiler() is not None else "there is no C compiler",
        "database": None if store == "postgresql" else "the store is SQLite",
        "broker": None if shutil.which("mosquitto", path=_PATH) else "mosquitto is not installed",
    }
    if store == "postgresql":
        reasons |= dict.fromkeys(("full", "readonly"), "the state is not in the servers' folders")
    return {kind: why for kind, why in reasons.items() if kind in kinds and why is not None}


_PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin"


def faketime() -> Path | None:
    """Return the library that jumps clocks: RASE_FAKETIME, or where Debian puts it."""
    named = os.environ.get("RASE_FAKETIME")
    found = [Path(named)] if named else []
    for pattern in _PLACES:
        found += sorted(Path("/").glob(pattern.lstrip("/")))
    return next((path for path in found if path.is_file()), None)


def clock_variables(folder: Path, name: str) -> dict[str, str]:
    """Return the environment of a process whose clock is set by a file."""
    (folder / f"{name}.clock").write_text("+0")
    return {
        "LD_PRELOAD": str(faketime()),
        "FAKETIME_TIMESTAMP_FILE": str(folder / f"{name}.clock"),
        "FAKETIME_CACHE_DURATION": "1",
        # As in a machine whose wall clock is set: other clocks go on.
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


@dataclass(frozen=True, slots=True)
class Faults:
    """Do harm to an installation.

    Args:
        installation: What is harmed.
        chance: Decides who, how and how long.
        postgres: The server of the database, if there is one.
        broker: The broker, if there is one.
    """

    installation: Installation
    chance: Chance
    postgres: "PostgresServer | None" = None
    broker: "Mosquitto | None" = None

    def happen(self, kind: str) -> str:
        """Let one fault happen from beginning to end; return what it was."""
        does: dict[str, Callable[[], str]] = {
            "kill": self._kill,
            "stop": self._stop,
            "stutter": self._stutter,
            "network": self._network,
            "slow": self._slow,
            "locked": self._locked,
            "full": self._full,
            "readonly": self._readonly,
            "clock": self._clock,
            "keys": self._keys,
            "database": self._database,
            "broker": self._broker,
        }
        return does[kind]()

    def _program(self) -> Program:
        # Servers are as often harmed as all devices together.
        servers = list(self.installation.programs.values())
        devices = [agent.program for agent in self.installation.agents]
        return self.chance.one_of(servers if not devices or self.chance.below(2) else devices)

    def _last(self, least: float, most: float) -> float:
        seconds = self.chance.seconds(least, most)
        threading.Event().wait(seconds)
        return seconds

    def _kill(self) -> str:
        program = self._program()
        self._last(0, 0.5)
        program.kill()
        program.start()
        return program.name

    def _stop(self) -> str:
        program = self._program()
        program.signal(signal.SIGSTOP)
        seconds = self._last(LEASE_S + 0.5, LEASE_S + 4)
        program.signal(signal.SIGCONT)
        return f"{program.name} for {seconds:.1f} s"

    def _stutter(self) -> str:
        program, pause = self._program(), threading.Event()
        times = 20 + self.chance.below(30)
        for _ in range(times):
            program.signal(signal.SIGSTOP)
            pause.wait(0.08)
            program.signal(signal.SIGCONT)
            pause.wait(0.04)
        return f"{program.name}, {times} times"

    def _network(self) -> str:
        role = self.chance.one_of(SERVERS)
        proxy, harm = self.installation.proxies[role], self.chance.one_of(HARMS)
        before = proxy.harmed
        proxy.begin(harm)
        try:
            seconds = self._last(1, 5)
        finally:
            proxy.end()
        return f"{harm} before the {role} for {seconds:.1f} s, {proxy.harmed - before} times"

    def _slow(self) -> str:
        file = self.chance.one_of(sorted(self.installation.folder.glob("*.disk")))
        pause_ms = 200 + self.chance.below(1801)
        file.write_text(str(pause_ms))
        try:
            seconds = self._last(2, 6)
        finally:
            file.write_text("0")
        return f"{file.stem}, {pause_ms} ms a sync for {seconds:.1f} s"

    def _locked(self) -> str:
        role = self.chance.one_of(SERVERS)
        with self._writing(role):
            seconds = self._last(0.5, 6)
        return f"{role} for {seconds:.1f} s"

    @contextmanager
    def _writing(self, role: str) -> Iterator[None]:
        if self.postgres is None:
            path = self.installation.database(role)
            with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as database:
                database.execute("BEGIN IMMEDIATE")
                yield
                database.execute("ROLLBACK")
            return
        with self.installation.locked(role):
            yield

    def _full(self) -> str:
        name = self.chance.one_of(sorted(self.installation.disks))
        filler = self.installation.disks[name] / _FILLER
        try:
            _fill(filler)
            seconds = self._last(2, 6)
        finally:
            filler.unlink(missing_ok=True)
        return f"{name} for {seconds:.1f} s"

    def _readonly(self) -> str:
        role = self.chance.one_of(SERVERS)
        programs = [self.installation.programs[name] for name in _ON_DISK[role]]
        for program in programs:
            program.kill()
        # A disk with files open for writing is not remounted: it happens while nobody has any.
        self.installation.remount(role, "ro")
        try:
            for program in programs:
                program.start()
            seconds = self._last(2, 4)
        finally:
            self.installation.remount(role, "rw")
        # One that looked in time gives up; one that was slow to start finds the disk well again.
        until(lambda: all(map(_is_decided, programs)), what="a start", deadline_s=90)
        ended = 0
        for program in programs:
            if program.process.poll() is not None:
                ended += 1
                program.start()
        return f"{role} for {seconds:.1f} s, {ended} of {len(programs)} processes gave up"

    def _clock(self) -> str:
        file = self.chance.one_of(sorted(self.installation.folder.glob("*.clock")))
        jump_s = (1 if self.chance.below(2) else -1) * (5 + self.chance.below(LONGEST_JUMP_S - 5))
        file.write_text(f"{jump_s:+d}")
        try:
            seconds = self._last(3, 7)
        finally:
            file.write_text("+0")
        return f"{file.stem} by {jump_s:+d} s for {seconds:.1f} s"

    def _keys(self) -> str:
        role = self.chance.one_of((Role.SHUFFLER, Role.FUSION))
        self.installation.rotate(role)
        return f"of the {role}"

    def _database(self) -> str:
        if self.postgres is None:
            raise ValueError("postgres must be given for faults of kind database.")
        how = self.chance.one_of(("immediate", "fast", "backend"))
        if how == "backend":
            self.postgres.kill_backends()
        else:
            self.postgres.stop(how)
            self._last(0.1, 2)
            self.postgres.start()
        return how

    def _broker(self) -> str:
        if self.broker is None:
            raise ValueError("broker must be given for faults of kind broker.")
        self.broker.kill()
        seconds = self._last(0.5, 3)
        self.broker.start()
        return f"for {seconds:.1f} s"


def _is_decided(program: Program) -> bool:
    return program.is_working or program.process.poll() is not None


def _fill(path: Path) -> None:
    """Write until nothing more fits."""
    piece = bytes(65536)
    with path.open("wb", buffering=0) as file:
        while piece:
            try:
                file.write(piece)
            except OSError:
                piece = piece[: len(piece) // 2]


def recovered(installation: Installation, *, deadline_s: float = 90.0) -> None:
    """Wait until all processes work and both servers are ready.

    Raises:
        TooLate: If they are not in time.
    """
    until(installation.is_well, what="recovery", deadline_s=deadline_s)
