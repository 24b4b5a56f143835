"""Tests in forked processes: all run once, in groups, and what a process does stays its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from coverage import CoverageData
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[1]
_NOTING = '''
import json, os, pathlib, pytest

@pytest.fixture(scope="session", autouse=True)
def opened():
    """One for each process; its end is noted, too."""
    if "MEETING" in os.environ:
        meet(pathlib.Path(os.environ["MEETING"]))
    yield
    note(end=True)

def meet(folder):
    """Return when two processes are here: a pipe is opened by both of its ends or by none."""
    try:
        (folder / "first").mkdir()
    except FileExistsError:
        (folder / "pipe").open("w").close()
    else:
        (folder / "pipe").open("r").close()

def note(**what):
    with open(os.environ["NOTES"], "a") as file:
        file.write(json.dumps({"pid": os.getpid(), **what}) + "\\n")
'''
_FILE = '''
import measured, pytest
from conftest import note

@pytest.mark.parametrize("number", range(4))
def test_it(number, tmp_path, request):
    """Note where it ran."""
    print("printed by", request.node.nodeid)
    note(test=request.node.nodeid, folder=str(tmp_path))
    assert getattr(measured, "FUNCTION")() == 1
'''
_LIVE_AND_DEAD = '''
import os
from conftest import note

def test_before():
    """Pass."""
    note(test="before")

def test_deadly():
    """End the process that runs it."""
    os._exit(7)

def test_behind():
    """Pass, in another process."""
    note(test="behind")
'''


def run(folder: Path, *options: str, **files: str) -> tuple[int, str, list[dict[str, object]]]:
    """Run files of tests in processes; return the exit code, the output and what tests noted.

    Args:
        folder: Where the files are written. If it has a folder `meeting`, two processes wait for
            each other there before their first test.
        options: Of pytest.
        files: Their texts by name.
    """
    (folder / "conftest.py").write_text(_NOTING, encoding="utf-8")
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    notes, meeting = folder / "notes.jsonl", folder / "meeting"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tests.pool", *options],
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{ROOT}:{folder}",
            "NOTES": str(notes),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            **({"MEETING": str(meeting)} if meeting.exists() else {}),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    lines = notes.read_text("utf-8").splitlines() if notes.exists() else []
    return done.returncode, done.stdout + done.stderr, [json.loads(line) for line in lines]


def test_each_test_runs_once_and_a_file_stays_in_one_process(tmp_path: Path) -> None:
    """Files are shared out; session fixtures end once a process; folders are different ones."""
    files = {f"test_{name}": _FILE.replace("FUNCTION", "first") for name in "abcd"}
    # Else the first process could run all files before the second one asks for any.
    Path(tmp_path, "meeting").mkdir()
    os.mkfifo(tmp_path / "meeting/pipe")
    measured = "def first(): return 1\n"
    code, output, notes = run(tmp_path, "-q", "--workers", "2", measured=measured, **files)
    assert code == 0, output
    assert "16 passed" in output
    assert "printed by" not in output
    tests = [note for note in notes if "test" in note]
    assert len({note["test"] for note in tests}) == len(tests) == 16
    assert len({note["folder"] for note in tests}) == 16
    for name in files:
        assert len({n["pid"] for n in tests if str(n["test"]).startswith(name)}) == 1
    processes = {note["pid"] for note in tests}
    assert len(processes) == 2
    assert sorted(str(n["pid"]) for n in notes if "end" in n) == sorted(map(str, processes))


def test_a_failure_is_reported_with_what_was_printed(tmp_path: Path) -> None:
    """The exit code is 1, and the failing test's own output is shown, no other's."""
    files = {
        "test_a": _FILE.replace("FUNCTION", "first"),
        "test_b": _FILE.replace("FUNCTION", "second"),
    }
    measured = "def first(): return 1\ndef second(): return 2\n"
    code, output, _ = run(tmp_path, "--workers", "2", measured=measured, **files)
    assert code == 1
    assert "4 failed, 4 passed" in output
    assert "printed by test_b.py::test_it[0]" in output
    assert "printed by test_a.py" not in output


def test_a_process_that_dies_fails_one_test(tmp_path: Path) -> None:
    """The test it ran is failed with the reason; those behind it run in another process."""
    code, output, notes = run(tmp_path, "-q", "--workers", "2", test_dead=_LIVE_AND_DEAD)
    assert code == 1
    assert "1 failed, 2 passed" in output
    assert "test_dead.py::test_deadly" in output
    assert "the process that ran this test ended (exit status 7)" in output
    ran = {note["test"]: note["pid"] for note in notes if "test" in note}
    assert set(ran) == {"before", "behind"}
    assert ran["before"] != ran["behind"]


def test_a_process_that_dies_between_tests_ends_the_run(tmp_path: Path) -> None:
    """No test is to blame, and none would be named: the run fails instead of starting others."""
    leaving = """
import atexit, os

def test_passes():
    atexit.register(os._exit, 9)
"""
    code, output, _ = run(tmp_path, "-q", "--workers", "2", test_a=leaving, test_b=leaving)
    assert code == pytest.ExitCode.INTERNAL_ERROR
    assert "a process of tests ended (exit status 9) between tests" in output


def test_the_first_failure_can_end_the_run(tmp_path: Path) -> None:
    """With -x no further group is handed out."""
    files = {f"test_{name}": _FILE.replace("FUNCTION", "first") for name in "abcdef"}
    measured = "def first(): return 2\n"
    code, output, notes = run(tmp_path, "-q", "-x", "--workers", "1", measured=measured, **files)
    assert code == 1, output
    assert len({str(note["test"]).split("::")[0] for note in notes if "test" in note}) <= 2


def test_errors_of_collection_run_nothing(tmp_path: Path) -> None:
    """A file that cannot be imported ends the run before a process is forked."""
    files = {"test_a": _FILE.replace("FUNCTION", "first"), "test_b": "raise OSError\n"}
    code, output, notes = run(
        tmp_path, "--workers", "2", measured="def first(): return 1\n", **files
    )
    assert code == pytest.ExitCode.INTERRUPTED, output
    assert notes == []


def test_coverage_of_all_processes_is_joined(tmp_path: Path) -> None:
    """Lines that different processes ran are covered together, those of the import, too."""
    measured = "def first():\n    return 1\ndef second():\n    return 1\n"
    settings = "[tool.coverage.run]\nbranch = true\nparallel = true\nsource_pkgs = ['measured']\n"
    (tmp_path / "pyproject.toml").write_text(settings, encoding="utf-8")
    options = ("-p", "pytest_cov.plugin", "--cov", "--cov-report=", "--workers", "2")
    files = {
        "test_a": _FILE.replace("FUNCTION", "first"),
        "test_b": _FILE.replace("FUNCTION", "second"),
    }
    code, output, _ = run(tmp_path, *options, measured=measured, **files)
    assert code == 0, output
    data = CoverageData(str(tmp_path / ".coverage"))
    data.read()
    assert data.lines(str(tmp_path / "measured.py")) == [1, 2, 3, 4]
