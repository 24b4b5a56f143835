"""Programs as operating-system processes."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import pytest
from benchmarks.loading.ports import held_port
from tests.patience import PATIENCE_S

from rase.cli import main
from rase.service.doctor import fetch

__all__ = ["answers", "enrol", "environment", "free_ports", "program", "rase", "shorten_windows"]


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


def shorten_windows(registrar: Path, *, rounds: int = 8) -> None:
    """Let a registrar have windows of seconds, which whoever enrols now still reaches.

    Args:
        registrar: Its settings.
        rounds: How many rounds a window has.
    """
    text = re.sub(r"^window_rounds = .*\n", "", registrar.read_text(), flags=re.MULTILINE)
    lines = f"[registrar]\nwindow_rounds = {rounds}\nlead_s = 6\nwindows_ahead = 3\n"
    # A device asks once a window, and here more than ten of those begin in a minute.
    limits = "\n[registrar.limits]\nrequests_per_minute = 1000\n"
    registrar.write_text(text.replace("[registrar]\n", lines, 1) + limits)


def enrol(capsys: pytest.CaptureFixture[str], installed: Path, devices: Sequence[Path]) -> None:
    """Enrol devices whose folders are there, with the word of both operators.

    Args:
        capsys: Takes what commands print.
        installed: What ``rase init`` made.
        devices: The folders.
    """
    words = [
        rase(capsys, *command, "--config", installed / place / "rase.toml", "--count", len(devices))
        for place, *command in (
            ("shuffler", "shuffler", "enrol"),
            ("registrar", "registrar", "approve"),
        )
    ]
    for device, token, approval in zip(devices, *(one.split() for one in words), strict=True):
        given: list[object] = []
        for name, text in (("token", token), ("approval", approval)):
            path = device.parent / f"{device.name}.{name}"
            path.write_text(text)
            given += [f"--{name}-file", path]
        rase(capsys, "device", "enrol", "--folder", device, *given)


def rase(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run a command in this process that must succeed; return what it printed."""
    capsys.readouterr()
    code = main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    assert code == 0, printed
    return printed.out
