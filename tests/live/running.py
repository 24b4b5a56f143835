"""Programs as operating-system processes, and patience with them."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from benchmarks.loading.ports import held_port

from rase.cli import main
from rase.clock import SystemClock
from rase.service.doctor import fetch

__all__ = ["Patience", "answers", "environment", "free_ports", "program", "rase"]

DEADLINE_S = 35.0


def environment() -> dict[str, str]:
    """Return the environment of a program that is started here."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}


@contextmanager
def program(log: Path, *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``rase`` as a process of its own; it ends with the block."""
    command = [sys.executable, "-m", "rase", *map(str, arguments)]
    with (
        log.open("wb") as file,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment()
        ) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def free_ports() -> tuple[int, int]:
    """Return two ports that nobody else can take."""
    return held_port(), held_port()


class Patience:
    """Ask again until something holds, at most until one deadline for all.

    Args:
        deadline_s: How long all questions together may take.
    """

    def __init__(self, deadline_s: float = DEADLINE_S) -> None:
        self._clock = SystemClock()
        self._end_s = self._clock.monotonic_s() + deadline_s
        self._never = threading.Event()

    def until(self, is_so: Callable[[], bool], *, logs: Path) -> None:
        """Return once it is so; fail with the programs' logs otherwise."""
        while not is_so():
            if self._clock.monotonic_s() > self._end_s:
                texts = [f"{path.name}:\n{path.read_text()}" for path in logs.glob("*.log")]
                pytest.fail("too late.\n" + "\n".join(texts))
            self._never.wait(0.1)


def answers(url: str) -> bool:
    """Return whether a server is up."""
    try:
        return fetch(url, "/healthz").status == 200
    except OSError:
        return False


def rase(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run a command in this process that must succeed; return what it printed."""
    capsys.readouterr()
    code = main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    assert code == 0, printed
    return printed.out
