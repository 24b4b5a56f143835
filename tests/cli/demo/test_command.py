"""``rase demo`` with its live part: how it ends, what it prints, and that it stays at home."""

import contextlib
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
pytest.importorskip("uvicorn")

import httpx
from tests.patience import PATIENCE_S

from rase.cli import main

SMALL = ("--devices", "8", "--days", "1", "--seed", "1")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no picture of the comparison, where it is not looked at: it takes longer than the rest.

    tests/cli/demo/test_demo.py and the first test here have it drawn.
    """

    def drawn(days: object, file: IO[bytes], **_: object) -> None:
        file.write(b"no picture")

    monkeypatch.setattr("rase.lab.figures.draw_trace", drawn)


def test_live_rounds_then_comparison(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The data are a line a round, then the estimators; mishaps and words go to stderr."""
    assert main(["demo", *SMALL, "--rounds", "7"]) == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert lines[0].startswith("hour (UTC)")
    assert [line[:16] for line in lines[1:8]] == [f"2014-06-08 0{hour}:00" for hour in range(7)]
    assert "too_few" in lines[6]
    assert lines[8] == ""
    assert lines[9].startswith("estimator")
    for words in (
        "known only because the fleet is synthetic",
        "1 report tampered with",
        "3 duplicates ignored",
        "6 released, 1 withheld as too_few",
        "2-LDP per report",
        "each device spent epsilon 14 by its own ledger",
        "who saw what",
        "each 143 bytes",
    ):
        assert words in shown.err
    assert [entry.name for entry in folder.iterdir()] == ["rase-demo.png"]


@pytest.mark.usefixtures("undrawn")
def test_seeded_live_rounds_repeat(capsys: pytest.CaptureFixture[str]) -> None:
    """With a seed the same table comes twice; the order that the shuffler draws adds nothing."""
    tables = []
    for _ in range(2):
        assert main(["demo", *SMALL, "--rounds", "3"]) == 0
        tables.append(capsys.readouterr().out)
    assert tables[0] == tables[1]


@pytest.mark.usefixtures("undrawn")
def test_json_holds_the_live_part(capsys: pytest.CaptureFixture[str]) -> None:
    """With --json stdout is one document, whose live part has rounds and summary."""
    assert main(["demo", *SMALL, "--rounds", "6", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    live = document["live"]
    assert [one["status"] for one in live["rounds"]] == ["ok"] * 5 + ["too_few"]
    assert live["rounds"][5]["value"] is None
    assert live["summary"]["released"] == 5
    assert set(document["estimators"]) >= {"unbiased_mean", "median"}


@pytest.mark.usefixtures("undrawn")
def test_ends_by_itself_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a terminal and --rounds it ends after a fixed number of rounds."""
    monkeypatch.setattr("rase.cli.demo._LIVE_ROUNDS", 2)
    assert main(["demo", *SMALL]) == 0
    assert capsys.readouterr().out.count("2014-06-08") == 2


@pytest.mark.usefixtures("undrawn")
def test_on_a_terminal_it_runs_through_all_days(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a terminal all days are lived through, with the mishaps once a day."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("rase.cli.demo._keep_serving", lambda demo: None)
    assert main(["demo", *SMALL]) == 0
    shown = capsys.readouterr()
    assert shown.out.count("2014-06-08") == 24
    assert shown.err.count("tampered") == 1


def test_interrupted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C sums up what was seen, ends with 130, and the comparison is left out."""
    from rase.cli import demo

    def interrupting(one: Any) -> str:
        if one.answer.time[11:13] == "02":
            raise KeyboardInterrupt
        return "line"

    monkeypatch.setattr(demo, "live_line", interrupting)
    assert main(["demo", *SMALL, "--rounds", "9"]) == 130
    shown = capsys.readouterr()
    assert "3 released, 0 withheld" in shown.err
    assert shown.err.rstrip().endswith("interrupted.")
    assert "estimator" not in shown.out
    assert list(folder.iterdir()) == []


def test_a_real_interrupt_on_a_terminal(folder: Path) -> None:
    """A process on a pseudo-terminal goes on until SIGINT, then ends with 130 and a summary."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "rase", "demo", "--devices", "8"],
        stdout=slave,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(slave)
    try:
        seen = b""
        while seen.count(b"2014-06-0") < 3:
            seen += os.read(master, 4096)
        process.send_signal(signal.SIGINT)
        _, talk = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
        os.close(master)
    assert process.returncode == 130
    assert "who saw what" in talk
    assert "Traceback" not in talk
    assert list(folder.iterdir()) == []


def test_the_dashboard_is_served_until_the_end(folder: Path) -> None:
    """On a terminal the pages stay after the last line; Ctrl-C then ends with 0."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "rase", "demo", *SMALL, "--rounds", "2"],
        stdout=slave,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(slave)
    # What is not read would block the process once the line is full.
    threading.Thread(target=drained, args=(master,), daemon=True).start()
    try:
        assert process.stderr is not None
        talk = iter(process.stderr.readline, "")
        first = next(line for line in talk if line.startswith("dashboard "))
        last = next(line for line in talk if "is still served" in line)
        with httpx.Client(trust_env=False, timeout=PATIENCE_S) as visitor:
            for line in (first, last):
                answer = visitor.get(line.split()[1])
                assert answer.status_code == 303
                address = str(answer.url.join("/live"))
                assert "demo-power" in visitor.get(address).text
                assert visitor.get(line.split()[1]).headers["location"] == "/login?why=once"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
        assert "Traceback" not in process.stderr.read()
    finally:
        process.kill()
        process.communicate()
        os.close(master)


def drained(master: int) -> None:
    """Read a terminal until it is closed."""
    with contextlib.suppress(OSError):
        while os.read(master, 4096):
            continue


def test_a_second_interrupt_comes_at_once() -> None:
    """The first Ctrl-C waits for the end of a round; the second does not."""
    from rase.cli.demo import _gentle_interrupts

    with _gentle_interrupts() as is_interrupted:
        assert not is_interrupted()
        signal.raise_signal(signal.SIGINT)
        assert is_interrupted()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_noted_interrupt_ends_the_demonstration(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A Ctrl-C in the middle of a round takes effect when the round is told."""
    from rase.cli.demo.installation import DemoFleet

    live_through = DemoFleet.live_through

    def interrupted(self: DemoFleet, *arguments: Any) -> None:
        live_through(self, *arguments)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(DemoFleet, "live_through", interrupted)
    assert main(["demo", *SMALL, "--rounds", "9"]) == 130
    assert "1 released, 0 withheld" in capsys.readouterr().err


def test_interrupts_are_left_alone_in_threads() -> None:
    """Outside the main thread no handler can be set, and none is."""
    from rase.cli.demo import _gentle_interrupts

    found = []

    def look() -> None:
        with _gentle_interrupts() as is_interrupted:
            found.append(is_interrupted())

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [False]


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("package", ["fastapi", "uvicorn", "httpx"])
def test_without_the_service_packages(
    package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the servers' packages one line says so, and the comparison runs alone."""
    for name in list(sys.modules):
        if name.startswith(("rase.cli.demo.", "rase.service.", "rase.shuffler.", "rase.fusion.")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["demo", *SMALL]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("estimator")
    (line,) = [line for line in shown.err.splitlines() if line.startswith("live")]
    assert line == f'live      left out: {package} is missing; pip install "rase-iot[service]".'


@pytest.mark.usefixtures("undrawn")
def test_nothing_but_this_machine_is_reached(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every connection is from 127.0.0.1 to 127.0.0.1, also where a proxy is set."""
    reached: set[str] = set()

    def recording(name: str) -> Any:
        original = getattr(socket.socket, name)

        def call(self: socket.socket, address: Any) -> Any:
            if self.family != socket.AF_UNIX:
                reached.add(address[0])
            return original(self, address)

        return call

    for name in ("connect", "connect_ex", "bind"):
        monkeypatch.setattr(socket.socket, name, recording(name))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://192.0.2.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert main(["demo", *SMALL, "--rounds", "1"]) == 0
    assert "1 released" in capsys.readouterr().err
    assert reached == {"127.0.0.1"}
