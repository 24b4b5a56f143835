"""``python -m benchmarks``: what is run, kept, shown and refused."""

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from benchmarks import __main__ as program
from benchmarks.harness import PeerMissing, Row, Target

QUESTION = '"""Is it fast?\n\nMore of it.\n"""\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two benchmarks and the modules that are none."""
    for name in ("speed", "size", *program.NOT_QUESTIONS):
        (tmp_path / f"{name}.py").write_text(QUESTION, encoding="utf-8")
    monkeypatch.setattr(program, "FOLDER", tmp_path)
    monkeypatch.setattr(program, "KEPT", tmp_path / "results")
    return tmp_path


@pytest.fixture
def speed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Stand for benchmarks/speed.py: what it shall do, and how it was asked."""
    asked: dict[str, Any] = {"fails": False, "lacks": False}

    def rows(*, quick: bool) -> Any:
        asked["quick"] = quick
        yield Row("ours", "theirs", "1", 0.5, target=Target("at most", 0.4), note="é")
        if asked["fails"]:
            raise RuntimeError
        if asked["lacks"]:
            raise PeerMissing("other is not installed here: run make bench")
        yield Row("ours", "none", "1", 2.0)

    module = ModuleType("benchmarks.speed")
    module.rows = rows  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "benchmarks.speed", module)
    # In this process, so that the stand-in is seen.
    monkeypatch.setattr(program, "run", run_in_this_process)
    return asked


def run_in_this_process(name: str, *, quick: bool, table_rows: int | None = None) -> bool:
    """Do what a process of its own would do."""
    try:
        program.run_here(name, quick=quick, table_rows=table_rows)
    except RuntimeError:
        return False
    return True


def ran(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run the program with arguments."""
    monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
    return program.main()


def test_every_benchmark_of_the_project_asks_a_question() -> None:
    """The list names files that exist, with questions, and no module that they share."""
    found = program.names()
    assert "amplification" in found
    assert not set(found) & program.NOT_QUESTIONS
    for name in found:
        assert program.question(name).endswith("?"), name


def test_the_list_is_shown_and_nothing_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--list prints names and questions."""
    assert ran("--list", monkeypatch=monkeypatch) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=1) for line in lines] == [
        ["size", "Is it fast?"],
        ["speed", "Is it fast?"],
    ]
    assert not (folder / "RESULTS.md").exists()


def test_an_unknown_name_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says which names there are; nothing is run."""
    with pytest.raises(SystemExit) as refused:
        ran("speed", "haste", monkeypatch=monkeypatch)
    assert refused.value.code == 2
    assert "NAME must be one of size, speed, got haste." in capsys.readouterr().err
    assert not (folder / "results").exists()


@pytest.mark.uncovered
def test_rows_are_kept_and_shown(
    folder: Path,
    speed: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each row is printed with its verdict, kept as JSON, and stands in RESULTS.md."""
    assert ran("speed", monkeypatch=monkeypatch) == 0
    assert speed["quick"] is False
    shown = capsys.readouterr().out
    assert "  ours / theirs (1): 0.5  target at most 0.4: MISSED\n" in shown
    assert "  ours / none (1): 2\n" in shown
    kept = json.loads((folder / "results/speed.json").read_text(encoding="utf-8"))
    assert kept["question"] == "Is it fast?"
    assert [row["ratio"] for row in kept["rows"]] == [0.5, 2.0]
    assert "cores, Python" in kept["machine"]
    page = (folder / "RESULTS.md").read_bytes()
    assert b"| ours | theirs | 1 | 0.5 | at most 0.4 | **missed** |" in page
    before = (folder / "results/speed.json").read_bytes()
    assert ran("speed", monkeypatch=monkeypatch) == 0
    assert (folder / "RESULTS.md").read_bytes() == page
    assert (folder / "results/speed.json").read_bytes() == before


def test_quick_keeps_nothing(
    folder: Path, speed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small sizes are for trying out, not for the record."""
    assert ran("speed", "--quick", monkeypatch=monkeypatch) == 0
    assert speed["quick"] is True
    assert not (folder / "results").exists()
    assert not (folder / "RESULTS.md").exists()


def test_a_missing_peer_leaves_the_other_rows(
    folder: Path,
    speed: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What was measured before is kept, and the run says what is missing."""
    speed["lacks"] = True
    assert ran("speed", monkeypatch=monkeypatch) == 0
    assert "other is not installed here: run make bench" in capsys.readouterr().out
    kept = json.loads((folder / "results/speed.json").read_text(encoding="utf-8"))
    assert len(kept["rows"]) == 1


@pytest.mark.uncovered
def test_a_failure_is_told_and_keeps_earlier_rows(
    folder: Path,
    speed: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The exit code is 1 and what was kept before stays."""
    assert ran("speed", monkeypatch=monkeypatch) == 0
    before = (folder / "results/speed.json").read_bytes()
    speed["fails"] = True
    assert ran("speed", monkeypatch=monkeypatch) == 1
    assert "speed failed; its earlier rows were kept." in capsys.readouterr().err
    assert (folder / "results/speed.json").read_bytes() == before


def test_each_benchmark_runs_in_a_process_of_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that ends badly is told apart from one that ends well."""
    del folder
    codes = iter([0, 3])
    commands: list[list[str]] = []

    class Ended:
        def __init__(self) -> None:
            self.returncode = next(codes)

    def start(command: list[str], **_: object) -> Ended:
        commands.append(command)
        return Ended()

    monkeypatch.setattr("benchmarks.__main__.subprocess.run", start)
    assert ran("--quick", monkeypatch=monkeypatch) == 1
    assert [command[3:] for command in commands] == [
        ["size", "--here", "--quick"],
        ["speed", "--here", "--quick"],
    ]
    assert "speed failed" in capsys.readouterr().err


def test_run_here_measures_one_benchmark(
    folder: Path, speed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that was started measures and keeps, and writes no page."""
    assert ran("speed", "--here", monkeypatch=monkeypatch) == 0
    assert speed["quick"] is False
    assert (folder / "results/speed.json").exists()
    assert not (folder / "RESULTS.md").exists()


@pytest.mark.uncovered
def test_amplification_yields_rows_without_its_peer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where dp_accounting is missing the formulas are compared all the same, and all are met."""
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    monkeypatch.setitem(sys.modules, "dp_accounting.pld.privacy_loss_distribution", None)
    found = list(importlib.import_module("benchmarks.amplification").rows(quick=True))
    assert len(found) >= 11
    for row in found:
        if row.target is not None and row.against != "one second":
            assert row.target.is_met(row.ratio), row
    assert "privacy_loss_distribution is not installed here" in capsys.readouterr().out
