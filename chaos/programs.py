"""The programs as processes that can be killed, stopped and started again, and what they hold."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from rase.clock import SystemClock

__all__ = ["Program", "TooLate", "environment", "rase", "until"]

_ALREADY: Final = (b"listening", b"shuffler closing", b"event=started")


class TooLate(Exception):
    """Something did not happen in time."""


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a program that is started here."""
    return {**os.environ, "OMP_NUM_THREADS": "1", **(variables or {})}


def rase(*arguments: object, variables: Mapping[str, str] | None = None) -> str:
    """Run a command that must succeed and return what it printed.

    Raises:
        RuntimeError: With what it said, if it fails.
    """
    command = [sys.executable, "-m", "rase", *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment(variables), check=False, timeout=90
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[2:5])} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def until(is_so: Callable[[], bool], *, what: str, deadline_s: float = 60.0) -> None:
    """Return once something holds.

    Raises:
        TooLate: If it does not in time, with ``what`` was waited for.
    """
    clock, never = SystemClock(), threading.Event()
    end_s = clock.monotonic_s() + deadline_s
    while not is_so():
        if clock.monotonic_s() > end_s:
            raise TooLate(f"{what} did not happen within {deadline_s:g} s.")
        never.wait(0.1)


class Program:
    """One process of ``rase``, started again after each death.

    Args:
        name: What it is called here.
        arguments: Those of ``rase``.
        log: Where it tells what happens, in all of its lives.
        variables: Of its environment.
    """

    def __init__(
        self, name: str, arguments: list[str], *, log: Path, variables: Mapping[str, str]
    ) -> None:
        self.name = name
        self.log = log
        self.starts = 0
        self._command = [sys.executable, "-m", "rase", *arguments]
        self._variables = variables
        self.start()

    def start(self) -> None:
        """Start it; it may take a moment until it works."""
        self.starts += 1
        self._told = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as file:
            # The closer ends when this pipe does, as it would with its parent.
            self.process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                env=environment(self._variables),
            )

    @property
    def is_working(self) -> bool:
        """Whether it is past its start."""
        if self.process.poll() is not None:
            return False
        told = self.log.read_bytes()[self._told :]
        return any(words in told for words in _ALREADY)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; nothing happens if it has ended."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it without a chance to do anything."""
        self.process.kill()
        self._ended()

    def stop(self) -> int:
        """End it in good order and return its exit code."""
        self.process.terminate()
        try:
            return self._ended()
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL

    def held(self) -> tuple[int, int] | None:
        """Return its memory in bytes and how many files it has open; None if it has ended."""
        folder = Path(f"/proc/{self.process.pid}")
        try:
            pages = int((folder / "statm").read_text(encoding="ascii").split()[1])
            return pages * os.sysconf("SC_PAGE_SIZE"), len(list((folder / "fd").iterdir()))
        except (OSError, IndexError, ValueError):
            return None

    def _ended(self) -> int:
        code = self.process.wait(30)
        if self.process.stdin is not None:
            self.process.stdin.close()
        return code
