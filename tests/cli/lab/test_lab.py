"""``rase lab``: what it prints and writes, how it resumes, and what it refuses."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE_S, until

from rase.cli import main
from rase.lab.experiments import conduct
from rase.lab.experiments.registry import EXPERIMENTS
from rase.lab.experiments.study import Check, Findings, Setup, Steps
from rase.lab.panel import Panel
from rase.lab.pictures import Chart, Line, Picture

SMALL = ("--data", "fleet:16x5:1", "--fast", "--jobs", "1")
# Python leaves an interrupt ignored where its parent ignored it; here it must not be.
# Says when so many cells are kept, and stays there until a signal comes.
HELD = """
import signal, sys
from rase.cli import main
from rase.lab.cache import CellCache
signal.signal(signal.SIGINT, signal.default_int_handler)
keep, left = CellCache.keep, [None] * int(sys.argv[1])
def held(self, key, outcome):
    keep(self, key, outcome)
    left.pop()
    if not left:
        print("held", flush=True)
        signal.pause()
CellCache.keep = held
sys.exit(main(sys.argv[2:]))
"""
Shown = pytest.CaptureFixture[str]


def refused(capsys: Shown, folder: Path, *arguments: str, exit_code: int = 2) -> str:
    """Run a command that must fail well, and leave nothing; return the one line it says."""
    before = sorted(folder.rglob("*"))
    assert main(["lab", *arguments]) == exit_code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("rase: error: ")
    assert shown.err.count("\n") == 1
    assert sorted(folder.rglob("*")) == before
    return shown.err


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def findings(*, holds: bool) -> Findings:
    """Return findings with one claim."""
    chart = Chart("", "x", "y", (Line("a", [1, 2], [1, 2]),))
    return Findings(({"x": 1},), Picture((chart,)), "It is so.", (Check("It is so.", holds),))


def test_list(capsys: Shown) -> None:
    """Every experiment is named, for people and as JSON."""
    assert main(["lab", "list"]) == 0
    shown = capsys.readouterr().out
    assert main(["lab", "list", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in document["experiments"]] == list(EXPERIMENTS)
    for name in EXPERIMENTS:
        assert name in shown


def test_run_writes_and_tells(folder: Path, capsys: Shown) -> None:
    """A run prints a table, tells what it measured, and writes a report into a new folder."""
    assert main(["lab", "run", "table1", "mallows-centre", *SMALL]) == 0
    shown = capsys.readouterr()
    assert "table1" in shown.out
    assert "1 of 1" in shown.out
    assert "report: rase-lab/report.html" in shown.err
    assert "--data fleet:16x5:1 --trials 1 --seed 1 --fast" in Path(
        "rase-lab/report.html"
    ).read_text(encoding="utf-8")
    assert main(["lab", "report"]) == 0
    assert capsys.readouterr().out == "rase-lab/report.html\n"


def test_run_as_json(capsys: Shown) -> None:
    """With --json stdout holds one document with everything."""
    assert main(["lab", "run", "switch-off", *SMALL, "--trials", "2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "rase.lab.run/1"
    (study,) = document["studies"]
    assert study["trials"] == 2
    assert study["rows"][0]["n"] == 8


def test_a_claim_that_fails(monkeypatch: pytest.MonkeyPatch, capsys: Shown) -> None:
    """A claim that does not hold ends with exit code 7, after everything was written."""

    def fails(setup: Setup) -> Steps:
        yield []
        return findings(holds=False)

    monkeypatch.setitem(EXPERIMENTS, "table1", replace(EXPERIMENTS["table1"], steps=fails))
    assert main(["lab", "run", "table1", *SMALL]) == 7
    error = capsys.readouterr().err.splitlines()[-1]
    assert error == "rase: error: 1 claims do not hold: table1: It is so."
    assert Path("rase-lab/report.html").is_file()


def test_interrupt_in_one_process(monkeypatch: pytest.MonkeyPatch, capsys: Shown) -> None:
    """An interrupt ends with exit code 130 and says that the work is kept."""

    def interrupted(panel: Panel, measure: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        raise KeyboardInterrupt

    monkeypatch.setattr(conduct, "run_measurement", interrupted)
    assert main(["lab", "run", "switch-off", *SMALL]) == 130
    error = capsys.readouterr().err
    assert "the same command goes on from there" in error
    assert error.endswith("rase: error: interrupted.\n")
    assert not list(Path("rase-lab").glob("*.json"))


def held_after(cells: int, *arguments: str) -> subprocess.Popen[str]:
    """Start a command in a process group of its own; return once so many cells are kept."""
    source = str(Path(__file__).parents[3] / "src")
    running = subprocess.Popen(
        [sys.executable, "-c", HELD, str(cells), "lab", "run", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": source},
        start_new_session=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "held\n", running.communicate()[1]
    return running


def processes_of(group: int) -> list[str]:
    """Return the processes of a group that still run; ended ones may wait for their parent."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, its_group = stat.read_text().rpartition(")")[2].split()[:3]
            if its_group == str(group) and state != "Z":
                found.append(stat.parent.name)
    return found


def ignores_interrupts(process: str) -> bool:
    """Return whether a process is deaf to Ctrl-C."""
    status = Path(f"/proc/{process}/status").read_text()
    ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
    return bool(ignored >> (signal.SIGINT - 1) & 1)


def kept_cells() -> dict[str, int]:
    """Return the cells that are kept, and when each was written."""
    return {file.name: file.stat().st_mtime_ns for file in Path("out/.cache").rglob("*.json")}


def test_killed_runs_are_resumed() -> None:
    """A run that is killed in the middle goes on where it was: kept cells are not touched."""
    arguments = ("fig7", "--data", "fleet:16x5:1", "--fast", "--out", "out", "--jobs", "1")
    killed = held_after(3, *arguments)
    killed.kill()
    killed.communicate()
    before = kept_cells()
    assert len(before) == 3
    assert not Path("out/fig7.json").exists()
    # The claims need more than 16 devices, so they may fail; what counts is the work.
    assert main(["lab", "run", *arguments]) in {0, 7}
    after = kept_cells()
    assert len(before) < len(after)
    assert before.items() <= after.items()
    assert main(["lab", "run", *arguments[:-3], "fresh", "--jobs", "2"]) in {0, 7}
    assert Path("fresh/fig7.csv").read_bytes() == Path("out/fig7.csv").read_bytes()


def test_interrupted_processes_end() -> None:
    """Ctrl-C at a terminal ends all processes, with exit code 130 and nothing half-written."""
    arguments = ("fig7", "--data", "fleet:16x5:1", "--fast", "--out", "out", "--jobs", "2")
    running = held_after(2, *arguments)
    workers = [one for one in processes_of(running.pid) if one != str(running.pid)]
    assert len(workers) >= 2
    # The parent alone answers it, once they have begun.
    until(lambda: all(map(ignores_interrupts, workers)))
    os.killpg(running.pid, signal.SIGINT)
    _, error = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 130
    assert error.splitlines()[-1] == "rase: error: interrupted."
    assert "Traceback" not in error
    assert not list(Path("out").rglob("*.part"))
    until(lambda: not processes_of(running.pid))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run",), "Missing argument 'NAME...'"),
        (("run", "fig55"), "there is no experiment 'fig55'; did you mean fig5?"),
        (("run", "fig5", "--trials", "0"), "0 is not in the range"),
        (("run", "fig5", "--jobs", "0"), "0 is not in the range"),
        (("run", "fig5", "--seed", "-1"), "-1 is not in the range"),
        (("run", "fig5", "--data", "fleet:8x9:1"), "at least 16 devices, got 8"),
        (("run", "fig5", "--data", "fleet:16x4:1"), "at least 5 days, got 4"),
        (("run", "fig5", "--data", "none.csv"), "none.csv"),
        (("run", "fig5", "--every", "soon"), "a duration must look like"),
        (("run", "fig5", "--out", "none/out"), "must lie in a folder that exists, got none"),
        (("run", "fig5", "--out", "a-file"), "--out must be a folder, got the file a-file"),
        (("report", "--out", "none"), "there are no studies in none"),
    ],
)
def test_bad_input(folder: Path, capsys: Shown, arguments: tuple[str, ...], message: str) -> None:
    """What cannot be run is refused in one line, before anything is written."""
    (folder / "a-file").write_text("")
    assert message in refused(capsys, folder, *arguments)


def test_forbidden_folder(folder: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder one may not write to is refused before any work."""
    # Root may write anywhere, so the answer of the system is replaced.
    monkeypatch.setattr("rase.cli.lab.os.access", lambda *_: False)
    assert "you may write to" in refused(capsys, folder, "run", "fig5", "--out", "out")


def test_missing_packages(folder: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the packages of the lab one line says what to install."""
    monkeypatch.setitem(sys.modules, "rase.lab.experiments.registry", None)
    error = refused(capsys, folder, "run", "fig5", exit_code=1)
    assert 'pip install "rase-iot[lab]"' in error


def test_durations() -> None:
    """Time left is told in minutes, or in seconds when it is short."""
    from rase.cli.lab import _duration

    assert [_duration(seconds) for seconds in (0.1, 59, 89, 120, 3600)] == [
        "1 s",
        "59 s",
        "89 s",
        "2 min",
        "60 min",
    ]
