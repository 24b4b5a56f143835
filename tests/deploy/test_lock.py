"""The locked requirements are complete, and nothing but them is installed."""

import subprocess
import sys

import pytest
from scripts import bootstrap


def test_installing_a_lock_looks_up_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A newer release of a locked package, asked for by another with an extra, is not met."""
    asked: list[list[str]] = []
    monkeypatch.setattr(bootstrap, "pip", lambda arguments, total: asked.append(arguments))
    for profile in ("demo", "dev", "spark"):
        bootstrap.install_lock(profile)
    assert len(asked) == 3
    assert all({"--no-deps", "--require-hashes"} <= set(arguments) for arguments in asked)


def test_what_the_lock_installs_is_complete() -> None:
    """No installed package lacks another that it needs, in a version that it takes."""
    command = [sys.executable, "-m", "pip", "check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
