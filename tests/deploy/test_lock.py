"""The locked requirements are complete, and nothing but them is installed."""

import subprocess
import sys

import pytest
from scripts import bootstrap


@pytest.mark.parametrize("is_fast", [True, False])
def test_installing_a_lock_looks_up_nothing_else(
    monkeypatch: pytest.MonkeyPatch, is_fast: bool
) -> None:
    """A newer release of a locked package is not met, whether uv installs or, failing it, pip."""
    fast: list[list[str]] = []
    slow: list[list[str]] = []

    def installed_by_uv(arguments: list[str]) -> bool:
        fast.append(arguments)
        return is_fast

    monkeypatch.setattr(bootstrap, "installed_by_uv", installed_by_uv)
    monkeypatch.setattr(bootstrap, "pip", lambda arguments, total: slow.append(arguments))
    for profile in ("demo", "dev", "spark"):
        bootstrap.install_lock(profile)
    assert len(fast) == 3
    assert slow == ([] if is_fast else fast)
    assert all({"--no-deps", "--require-hashes"} <= set(arguments) for arguments in fast)


def test_uv_is_asked_for_the_same_as_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own lock comes first, by pip and with hashes; an index named to pip is passed on."""
    asked: list[list[str]] = []
    environments: list[dict[str, str]] = []

    def fetch(command: list[str]) -> tuple[int, str]:
        asked.append(command)
        return 0, ""

    def run(
        command: list[str], *, env: dict[str, str], **_: object
    ) -> subprocess.CompletedProcess[bytes]:
        asked.append(command)
        environments.append(env)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(bootstrap, "run", fetch)
    monkeypatch.setattr("scripts.bootstrap.subprocess.run", run)
    monkeypatch.delenv("PIP_NO_INDEX", raising=False)
    monkeypatch.delenv("UV_DEFAULT_INDEX", raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example/simple")
    assert bootstrap.installed_by_uv(["--require-hashes", "--requirement", "x.txt"])
    assert {"pip", "--require-hashes", "requirements/installer.txt"} <= set(asked[0])
    assert asked[1][-2:] == ["--requirement", "x.txt"]
    assert environments[0]["UV_DEFAULT_INDEX"] == "https://mirror.example/simple"


def test_pip_installs_where_uv_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an index, or where uv is not offered for the machine, the answer is no."""
    monkeypatch.setattr(bootstrap, "run", lambda command: (1, "no matching distribution"))
    monkeypatch.delenv("PIP_NO_INDEX", raising=False)
    assert not bootstrap.installed_by_uv([])
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr(bootstrap, "run", lambda command: pytest.fail("nothing may be fetched"))
    assert not bootstrap.installed_by_uv([])


def test_what_the_lock_installs_is_complete() -> None:
    """No installed package lacks another that it needs, in a version that it takes."""
    command = [sys.executable, "-m", "pip", "check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
