"""``rase demo``: what it prints and draws, how it ends, and that it stays on this machine."""

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
from rase.cli.demo import _gentle_interrupts
from rase.cli.demo.live import LiveDemo

SMALL = ("--homes", "500", "--days", "1", "--shuffled-epsilon", "3", "--seed", "1")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no picture where it is not looked at: it takes longer than the rest."""

    def draw(curves: object, file: IO[bytes], **_: object) -> None:
        file.write(b"no picture")

    monkeypatch.setattr("rase.lab.figures.draw_curves", draw)


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Set proxies that lead nowhere, and return which hosts this process connects or binds to."""
    found: set[str] = set()

    def record(name: str) -> Any:
        original = getattr(socket.socket, name)

        def call(self: socket.socket, address: Any) -> Any:
            if self.family != socket.AF_UNIX:
                found.add(address[0])
            return original(self, address)

        return call

    for name in ("connect", "connect_ex", "bind"):
        monkeypatch.setattr(socket.socket, name, record(name))
    # The homes' process has these variables, too: through a proxy it would reach nobody.
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://192.0.2.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    return found


def test_a_line_an_hour_then_the_result_and_a_picture(
    folder: Path, reached: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The data are a line an hour; result, promises and who saw what go to stderr.

    Every connection of the servers' process is on 127.0.0.1, also where a proxy is set.
    """
    assert main(["demo", *SMALL]) == 0
    assert reached == {"127.0.0.1"}
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert [line[:9] for line in lines] == [f"Sun {hour:02d}:00" for hour in range(24)]
    assert all("true" in line for line in lines)
    for words in (
        "500 made-up homes report their power for 1 day:",
        "an answer was lost",
        "one report was tampered with",
        "Result    Estimates of 24 hours, off by",
        "intervals hold the truth (95 % should)",
        "Day       2026-01-04",
        "If both servers work together",
        "Small     64 homes under the same promise",
        "Seeded noise: for study only, protects nobody.",
    ):
        assert words in shown.err
    assert [entry.name for entry in folder.iterdir()] == ["rase-demo.png"]
    assert (folder / "rase-demo.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("undrawn")
def test_json_repeats_with_a_seed(capsys: pytest.CaptureFixture[str]) -> None:
    """One document on stdout and nothing else said; a seed gives the same estimates again."""
    documents = []
    for _ in range(2):
        assert main(["demo", *SMALL, "--json", "--out", "x.png"]) == 0
        shown = capsys.readouterr()
        assert shown.err == ""
        documents.append(json.loads(shown.out))
    document = documents[0]
    assert document["schema"] == "rase.demo/3"
    assert document["picture"] == "x.png"
    assert (document["homes"], document["days"]) == (500, 1)
    assert document["shuffled_epsilon"] == 3
    assert document["local_epsilon"] >= 3
    assert len(document["rounds"]) == 24
    assert document["summary"]["released"] == 24
    values = [[one["value"] for one in each["rounds"]] for each in documents]
    assert values[0] == values[1]


@pytest.mark.usefixtures("undrawn")
def test_without_a_seed_noise_is_secure(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is said of a seed, and two runs differ.

    False alarms: below 1e-12, as 24 estimates would have to be equal.
    """
    seen = []
    for _ in range(2):
        assert main(["demo", *SMALL[:-2], "--json"]) == 0
        seen.append(json.loads(capsys.readouterr().out)["rounds"])
    assert [one["value"] for one in seen[0]] != [one["value"] for one in seen[1]]


def test_without_matplotlib(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without Matplotlib there are the numbers, and a line that says how to get the picture."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["demo", *SMALL]) == 0
    shown = capsys.readouterr()
    assert 'Picture   none: pip install "rase-iot[plot]" draws it.' in shown.err
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("package", ["fastapi", "uvicorn", "httpx"])
def test_without_the_service_packages(
    package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the servers' packages one line says what to install."""
    for name in list(sys.modules):
        if name.startswith(("rase.cli.demo.", "rase.service.", "rase.shuffler.", "rase.fusion.")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["demo", *SMALL]) == 3
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f'needs {package}: pip install "rase-iot[service]"' in shown.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--homes", "1"), 2, "homes must be at least 2, got 1."),
        (("--days", "0"), 2, "days must be at least 1, got 0."),
        (("--shuffled-epsilon", "0"), 2, "epsilon must be"),
        (("--shuffled-epsilon", "1e-9"), 5, ""),
        (("--out", "none/x.png"), 2, "--out must be a file in a folder that exists"),
    ],
)
def test_refused(
    arguments: tuple[str, ...],
    code: int,
    message: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Wrong options are one line and an exit code, and start nothing."""
    assert main(["demo", *arguments]) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err
    assert list(folder.iterdir()) == []


def test_large_is_a_larger_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """--large takes more homes and days, and what is typed goes before it."""
    seen = []

    def note(self: LiveDemo, setting: Any, **_: object) -> None:
        seen.append((setting.homes, setting.days, setting.high_w, setting.shuffled_epsilon))
        raise KeyboardInterrupt

    monkeypatch.setattr(LiveDemo, "__init__", note)
    assert main(["demo"]) == 130
    assert main(["demo", "--large"]) == 130
    assert main(["demo", "--large", "--homes", "50000"]) == 130
    assert seen == [(30_000, 2, 1500.0, 0.9), (40_000, 3, 1500.0, 0.98), (50_000, 3, 1500.0, 0.98)]


@pytest.mark.usefixtures("undrawn")
def test_an_interrupt_ends_the_demonstration_after_the_hour(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C in the middle of an hour sums up what was seen and ends with 130."""
    answer = LiveDemo.answer

    def interrupt(self: LiveDemo, round: int, **options: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return answer(self, round, **options)

    monkeypatch.setattr(LiveDemo, "answer", interrupt)
    assert main(["demo", *SMALL]) == 130
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 1
    assert "Result    Estimates of 1 hour, off by" in shown.err
    assert shown.err.rstrip().endswith("interrupted.")
    assert list(folder.iterdir()) == []


def test_the_dashboard_is_served_until_the_end(folder: Path) -> None:
    """On a terminal the pages stay after the last line; Ctrl-C then ends with 0."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "rase", "demo", *SMALL],
        stdout=slave,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(slave)
    # What is not read would block the process once the line is full.
    threading.Thread(target=drain, args=(master,), daemon=True).start()
    try:
        assert process.stderr is not None
        talk = iter(process.stderr.readline, "")
        first = next(line for line in talk if line.startswith("Dashboard: "))
        last = next(line for line in talk if "is still served" in line)
        with httpx.Client(trust_env=False, timeout=PATIENCE_S) as visitor:
            for line in (first, last):
                answer = visitor.get(line.split()[1])
                assert answer.status_code == 303
                address = str(answer.url.join("/live"))
                assert "demo-homes" in visitor.get(address).text
                assert visitor.get(line.split()[1]).headers["location"] == "/login?why=once"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
        assert "Traceback" not in process.stderr.read()
    finally:
        process.kill()
        process.communicate()
        os.close(master)


def drain(master: int) -> None:
    """Read a terminal until it is closed."""
    with contextlib.suppress(OSError):
        while os.read(master, 4096):
            continue


def test_a_second_interrupt_comes_at_once() -> None:
    """The first Ctrl-C waits for the end of an hour; the second does not."""
    with _gentle_interrupts() as is_interrupted:
        assert not is_interrupted()
        signal.raise_signal(signal.SIGINT)
        assert is_interrupted()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_interrupts_are_left_alone_in_threads() -> None:
    """Outside the main thread no handler can be set, and none is."""
    found = []

    def look() -> None:
        with _gentle_interrupts() as is_interrupted:
            found.append(is_interrupted())

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [False]
