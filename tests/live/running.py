"""Programs as operating-system processes."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import pytest
from benchmarks.loading.ports import held_port
from tests.patience import PATIENCE_S

from rase.cli import main
from rase.service.doctor import fetch

__all__ = ["answers", "environment", "free_ports", "program", "rase"]


def environment() -> dict[str, str]:
    """Return the environment of a program that is started here."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}


@contextmanager
def program(
    log: Path, *arguments: object, variables: Mapping[str, str] = MappingProxyType({})
) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``rase`` as a process of its own; it ends with the block."""
    command = [sys.executable, "-m", "rase", *map(str, arguments)]
    with (
        log.open("wb") as file,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env={**environment(), **variables},
        ) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()


def free_ports() -> tuple[int, int]:
    """Return two ports that nobody else can take."""
    return held_port(), held_port()


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
