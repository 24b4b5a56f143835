"""``rase studio``: serves on this machine until interrupted, and says where."""

import signal
import socket
import subprocess
import sys
import webbrowser
from typing import Any

import httpx
import pytest
from benchmarks.loading.ports import held_port
from tests.patience import PATIENCE_S

from rase.cli import local_pages, main


def test_it_serves_until_interrupted() -> None:
    """The printed address opens the Explorer, any other one nothing; Ctrl-C ends it."""
    with subprocess.Popen(
        [sys.executable, "-m", "rase", "studio", "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        with httpx.Client(trust_env=False, timeout=PATIENCE_S) as client:
            assert "Error against epsilon" in client.get(f"{address}explorer").text
            assert client.get(f"{address[:-2]}/explorer").status_code == 403
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_S)
    assert said.startswith("press Ctrl-C")
    assert "Traceback" not in said


def test_a_port_that_is_taken_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the option and the way out."""
    with socket.create_server(("127.0.0.1", held_port())) as other:
        port = other.getsockname()[1]
        assert main(["studio", "--no-browser", f"--port={port}"]) == 3
    assert f"--port must be free, got {port}" in capsys.readouterr().err


class _Window(webbrowser.BaseBrowser):
    """A browser with a window of its own."""

    def __init__(self) -> None:
        self.opened: list[str] = []

    def open(self, url: str, new: int = 0, autoraise: bool = True) -> bool:
        self.opened.append(url)
        return True


def test_a_browser_is_opened_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """One with a window is; one that would take over the terminal, or none, is not."""
    window = _Window()
    monkeypatch.setattr(webbrowser, "get", lambda: window)
    local_pages._open_browser("http://127.0.0.1:1/code")
    assert window.opened == ["http://127.0.0.1:1/code"]
    text = webbrowser.GenericBrowser("false")
    monkeypatch.setattr(webbrowser, "get", lambda: text)
    monkeypatch.setattr(text, "open", pytest.fail)
    local_pages._open_browser("http://127.0.0.1:1/code")

    def no_browser() -> Any:
        raise webbrowser.Error

    monkeypatch.setattr(webbrowser, "get", no_browser)
    local_pages._open_browser("http://127.0.0.1:1/code")
