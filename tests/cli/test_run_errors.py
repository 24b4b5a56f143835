"""Bad input to ``rase run``: one clear line, the right exit code, nothing written."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rase.atomic_files import replacing
from rase.cli import main

GOOD = "time,device,value\n1,a,1\n1,b,2\n2,a,3\n"
RANGE = ("--range", "0", "10")
FLAGS = (*RANGE, "--epsilon", "1")

DATA = {
    "wrong column": ("time,dev,value\n1,a,1\n", "has no column 'device'; it has 'time', 'dev', "),
    "empty file": ("", "is empty; give a table with at least one reading."),
    "no rows": ("time,device,value\n", "holds no rows"),
    "all null": ("time,device,value\n1,a,\n", "is empty in all 1 rows"),
    "infinity": ("time,device,value\n1,a,1\n2,a,inf\n", "row 2 holds infinity"),
    "unit": ("time,device,value\n1,a,1\n2,a,12.75W\n", "row 2 holds a number with its unit"),
    "no number": ("time,device,value\n1,a,1\n2,a,W12.75\n", "and row 2 does not"),
    "no time": ("time,device,value\nyesterday,a,1\n", "holds no time in row 1"),
}
ARGUMENTS: dict[str, tuple[tuple[str, ...], int, str]] = {
    "no epsilon": (RANGE, 2, "--epsilon or --shuffled-epsilon must be given."),
    "no range": (("--epsilon", "1"), 2, "one of --range, --categories and --above must be given"),
    "epsilon 0": ((*RANGE, "--epsilon", "0"), 2, "epsilon must be "),
    "epsilon -1": ((*RANGE, "--epsilon", "-1"), 2, "epsilon must be "),
    "epsilon nan": ((*RANGE, "--epsilon", "nan"), 2, "epsilon must be "),
    "epsilon inf": ((*RANGE, "--epsilon", "inf"), 2, "epsilon must be "),
    "too much promised": (
        (*RANGE, "--shuffled-epsilon", "1e-9"),
        5,
        "promises (1e-09, 1e-06) for 1 report of a device in rounds of 2: ask",
    ),
    "epsilon text": ((*RANGE, "--epsilon", "much"), 2, "'much' is not a valid float."),
    "range": (("--range", "5", "5", "--epsilon", "1"), 2, "low must be below high, got low 5.0"),
    "range nan": (("--range", "0", "nan", "--epsilon", "1"), 2, "must be finite numbers"),
    "steps": ((*FLAGS, "--steps", "0"), 2, "steps must be between 1 and"),
    "estimator": ((*FLAGS, "--estimator", "medain"), 2, "did you mean median?"),
    "as known then": (
        (*FLAGS, "--as-known-then", "--estimator", "median"),
        2,
        "--as-known-then needs --estimator tracked",
    ),
    "mechanism": ((*FLAGS, "--mechanism", "magic"), 2, "'magic' is not one of"),
    "beta": (
        (*FLAGS, "--mechanism", "budget-aware", "--beta", "2"),
        2,
        "beta must be between 0 and 1, got 2.0.",
    ),
    "beta unasked": ((*FLAGS, "--beta", "0.5"), 2, "got --mechanism auto."),
    "beta alone": ((*FLAGS, "--mechanism", "duchi", "--beta", "0.5"), 2, "--beta and --rho belong"),
    "alpha": ((*FLAGS, "--alpha", "1"), 2, "--alpha needs --groups"),
    "groups": ((*FLAGS, "--groups", "2"), 2, "--groups needs --alpha"),
    "graph": ((*FLAGS, "--graph", "graph.csv"), 2, "--graph needs --alpha and --groups."),
    "alpha 0": ((*FLAGS, "--alpha", "0", "--groups", "2"), 2, "alpha must be "),
    "groups 0": ((*FLAGS, "--alpha", "1", "--groups", "0"), 2, "Invalid value for '--groups': 0"),
    "no graph": (
        (*FLAGS, "--alpha", "1", "--groups", "2", "--graph", "none.csv"),
        2,
        "there is no file none.csv",
    ),
    "every": ((*FLAGS, "--every", "soon"), 2, "a duration must look like 30s, 15min, 1h"),
    "window": ((*FLAGS, "--window", "0"), 2, "--window must hold two rounds or more, got 0."),
    "window alone": ((*FLAGS, "--window", "1d"), 2, "--window 1d needs --every"),
    "window part": (
        (*FLAGS, "--every", "7h", "--window", "1d"),
        2,
        "--window must hold whole rounds of 7h, got 1d.",
    ),
    "window text": ((*FLAGS, "--every", "1h", "--window", "long"), 2, "a duration must look"),
    "level": ((*FLAGS, "--level", "95"), 2, "--level must be between 0 and 1, got 95."),
    "trials": ((*FLAGS, "--trials", "0"), 2, "0 is not in the range x>=1."),
    "trials unseeded": ((*FLAGS, "--trials", "2"), 5, "add --seed"),
    "out ending": ((*FLAGS, "--out", "x.xls"), 2, "--out must end in .csv, .parquet, .json"),
    "out folder": ((*FLAGS, "--out", "none/x.csv"), 2, "must lie in a folder that exists"),
    "out is folder": ((*FLAGS, "--out", "dir.csv"), 2, "--out must be a file, got the folder"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a good table and a folder that looks like a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "readings.csv").write_text(GOOD)
    (tmp_path / "dir.csv").mkdir()
    return tmp_path


def refused(
    folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str, exit_code: int = 2
) -> str:
    """Run a command that must fail well; return the one line it says."""
    before = sorted(folder.rglob("*"))
    assert main(["run", *arguments]) == exit_code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("rase: error: ")
    assert shown.err.count("\n") == 1
    assert sorted(folder.rglob("*")) == before
    return shown.err


@pytest.mark.uncovered
@pytest.mark.parametrize("case", DATA)
@pytest.mark.parametrize("out", [(), ("--json",), ("--out", "out.csv"), ("--out", "out.parquet")])
def test_bad_tables(
    case: str, out: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table that cannot be used is refused, wherever the results were to go."""
    text, message = DATA[case]
    (folder / "readings.csv").write_text(text)
    told = refused(folder, capsys, "readings.csv", *FLAGS, *out)
    assert message in told
    assert "75" not in told


@pytest.mark.parametrize("out", [(), ("--json",), ("--out", "out.csv"), ("--out", "out.parquet")])
def test_tables_need_no_order(
    out: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row that goes back in time is no mistake: the results are those of the sorted table."""
    head, *rows = (GOOD + "1,c,9\n").splitlines()
    results = []
    for lines in (sorted(rows), rows, rows[::-1]):
        (folder / "readings.csv").write_text("\n".join([head, *lines]) + "\n")
        assert main(["run", "readings.csv", *FLAGS, "--seed", "1", "--details", *out]) == 0
        shown = capsys.readouterr()
        assert "read      4 rows of 3 devices, 0 empty; 2 rounds." in shown.err
        assert bool(shown.out) == ("--out" not in out)
        results.append((shown, (folder / out[1]).read_bytes() if "--out" in out else b""))
    assert results == [results[0]] * 3


def test_of_rows_that_repeat_a_time_the_first_counts(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where other rows stand between them; the others are counted and told."""
    assert main(["run", "readings.csv", *FLAGS, "--seed", "1"]) == 0
    alone = capsys.readouterr()
    assert "repeated" not in alone.err
    (folder / "readings.csv").write_text(GOOD + "1,a,9\n")
    assert main(["run", "readings.csv", *FLAGS, "--seed", "1", "--details"]) == 0
    shown = capsys.readouterr()
    assert shown.out == alone.out
    assert "read      4 rows of 2 devices, 0 empty; 2 rounds." in shown.err
    assert "repeated  1 row held a time of its device again and was left out;" in shown.err


@pytest.mark.parametrize("case", ARGUMENTS)
def test_bad_arguments(case: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Options that are wrong or contradict each other are refused."""
    arguments, exit_code, message = ARGUMENTS[case]
    assert message in refused(folder, capsys, "readings.csv", *arguments, exit_code=exit_code)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.csv", "there is no file none.csv; check the path."),
        ("dir.csv", "the folder dir.csv holds no tables"),
        ("false.parquet", "false.parquet is not Parquet"),
        ("torn.parquet", "torn.parquet is a damaged Parquet file"),
    ],
)
def test_bad_files(
    name: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files that are not there, folders, false and damaged Parquet are refused."""
    (folder / "false.parquet").write_text(GOOD)
    (folder / "torn.parquet").write_bytes(b"PAR1" + os.urandom(100))
    assert message in refused(folder, capsys, name, *FLAGS, "--out", "out.csv")


@pytest.mark.parametrize("out", ["readings.csv", "./readings.csv", "linked.csv", "graph.csv"])
def test_what_is_read_is_never_written_over(
    out: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Results do not take the place of the readings, under whatever name, or of the graph."""
    (folder / "linked.csv").symlink_to(folder / "readings.csv")
    (folder / "graph.csv").write_text("a,b\n")
    graph = ("--alpha", "1", "--groups", "1", "--graph", "graph.csv")
    told = refused(folder, capsys, "readings.csv", *FLAGS, *graph, "--out", out)
    assert "--out must be another file than " in told
    assert (folder / "readings.csv").read_text() == GOOD
    told = refused(folder, capsys, "*ings.csv", *FLAGS, "--out", "readings.csv")
    assert "which is read" in told


def test_a_place_that_cannot_be_made_is_named_as_it_was_asked_for(tmp_path: Path) -> None:
    """Not by the name of the file that is written beside it."""
    with pytest.raises(FileNotFoundError) as caught, replacing(tmp_path / "none" / "x.csv"):
        pass
    assert caught.value.filename == str(tmp_path / "none" / "x.csv")


def test_more_memory_than_there_is_is_no_mistake(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All that is free is used then; and a crowd of one is no secret, in plain figures."""
    (folder / "readings.csv").write_text("time,device,value\n1,a,1\n")
    assert main(["run", "readings.csv", *FLAGS, "--memory", "10000TB", "--details"]) == 0
    told = capsys.readouterr().err
    assert "a report hides among the 1 or more reports of its round" in told
    assert "e+02" not in told


def test_forbidden_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder one may not write to is refused before any work."""
    # Root may write anywhere, so the answer of the system is replaced.
    monkeypatch.setattr("rase.cli.output.os.access", lambda _, mode: mode != os.W_OK)
    (folder / "shut").mkdir()
    told = refused(folder, capsys, "readings.csv", *FLAGS, "--out", "shut/x.csv")
    assert "a folder you may write to" in told


@pytest.mark.uncovered
def test_real_processes(folder: Path) -> None:
    """In a process of its own too: exit code, one line on stderr, nothing on stdout or disk."""
    (folder / "readings.csv").write_text(GOOD + "1,a,inf\n")
    before = sorted(folder.rglob("*"))
    source = str(Path(__file__).parents[2] / "src")
    for arguments, exit_code in (
        (("readings.csv", *FLAGS, "--out", "out.csv"), 2),
        (("readings.csv", *FLAGS, "--trials", "2"), 5),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "rase", "run", *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": source},
        )
        assert done.returncode == exit_code
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
        assert done.stderr.startswith("rase: error: ")
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--engine", "spark"], "--engine spark needs --master: local[2], spark://HOST:7077"),
        (["--master", "local[2]"], "--master needs --engine spark."),
        (
            ["--engine", "spark", "--master", "sc://host", "--workers", "2"],
            "--workers is for clusters that are asked for executors",
        ),
        (["--engine", "spark", "--master", "there"], "master must be local[N]"),
    ],
)
def test_clusters_that_cannot_be_used(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options of a cluster that do not fit are one line on stderr, and no traceback."""
    path = tmp_path / "table.parquet"
    columns = {"time": [1, 2], "device": ["a", "b"], "value": [1.0, 2.0]}
    pq.write_table(pa.table(columns), path)
    asked = ["run", str(path), "--range", "0", "9", "--epsilon", "1", *options]
    assert main(asked) in (2, 3)
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--timezone", "UTC"], "--timezone needs --every and --window 1d or 1w, got no --window."),
        (["--every", "1h", "--window", "24", "--timezone", "UTC"], "got --window 24."),
        (
            ["--every", "1h", "--window", "1d", "--timezone", "Zurich"],
            "got 'Zurich'. Did you mean Europe/Zurich?",
        ),
        (
            ["--every", "6h", "--window", "1d", "--timezone", "Europe/Zurich"],
            "--every must divide 60 minutes so that rounds begin at midnight in Europe/Zurich",
        ),
    ],
)
def test_days_of_a_zone_that_cannot_be_had(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is wrong and what would be right are one line on stderr."""
    path = tmp_path / "table.csv"
    path.write_text("time,device,value\n0,a,1\n0,b,2\n")
    assert main(["run", str(path), "--range", "0", "9", "--epsilon", "1", *options]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said
