"""A record of what was drawn: runs of a table that grows draw what is new, and nothing twice."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from rase import Laplace, Range, RunPlan, SeededRandom
from rase.cli import main
from rase.errors import DataError, StorageUnusable
from rase.series.rounds import RoundResult
from rase.tables.files import find_files
from rase.tables.plan import ShuffledPromise
from rase.tables.record import new_files
from rase.tables.release_log import PartResult
from rase.tables.run import LocalRun, run

HOUR_MS = 3_600_000
DEVICES = 20
PLAN = RunPlan(randomizer=Laplace(1.0, Range(0, 100)), every="1h")
FLAGS = ["--range", "0", "100", "--epsilon", "1", "--every", "1h", "--as-known-then", "--continue"]

# A run in a process of its own, which dies by its own hand when it writes the file of a number.
RUN = """
import os, signal, sys
from collections.abc import Iterable
from pathlib import Path
from rase.tables import parts, run as runs
from tests.tables.test_drawn_record import PLAN
parts._USUAL_ROWS = runs.FEWEST_ROWS = runs._ONE_PART_ROWS = 150
place, record, death = sys.argv[1:]
left, moment = death.split()
counts = {"written": int(left), "renamed": int(left)}

def dying(call, when):
    def instead(*arguments):
        counts[when] -= 1
        if counts[when] < 0 and moment == when:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments)
    return instead

os.fsync = dying(os.fsync, "written")
Path.replace = dying(Path.replace, "renamed")
done = runs.run(place, PLAN, workers=2, record=Path(record))
list(done)
done.finish()
"""


def write_day(place: Path, day: int, *, hours: range = range(24), ending: str = "parquet") -> Path:
    """Write a file of a day: one reading of each device in each hour, in no order of time."""
    place.mkdir(exist_ok=True)
    rng = np.random.default_rng(day)
    rows = rng.permutation(DEVICES * len(hours))
    hour, device = np.array(hours)[rows // DEVICES], rows % DEVICES
    table = pa.table(
        {
            "time": pa.array((day * 24 + hour) * HOUR_MS, pa.timestamp("ms")),
            "device": [f"meter {one}" for one in device.tolist()],
            "value": 30.0 + device + hour,
        }
    )
    path = place / f"day{day}-{hours.start}.{ending}"
    if ending == "csv":
        pyarrow.csv.write_csv(table, path)
    else:
        pq.write_table(table, path, row_group_size=50)
    return path


def ran(place: Path, record: Path, **settings: Any) -> tuple[LocalRun, list[RoundResult]]:
    """Run with a record, to the end."""
    done = run(str(place), settings.pop("plan", PLAN), record=record, **settings)
    results = list(done)
    done.finish()
    return done, results


def known_then(results: Iterable[RoundResult]) -> list[RoundResult]:
    """Return rounds as they were known when they came: later ones may help them since."""
    return [one.as_known_then() for one in results]


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """The folder of a record."""
    return tmp_path / "out.csv.drawn"


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("only_new", [True, False], ids=["new files", "all files"])
def test_day_by_day_is_all_at_once(
    only_new: bool, ending: str, tmp_path: Path, record: Path
) -> None:
    """With a seed, days that are drawn one after the other give what one run of all gives."""
    place = tmp_path / "table"
    for day in range(3):
        write_day(place, day, ending=ending)
        files = find_files(str(place))
        files = new_files(files, record) if only_new else files
        assert len(files.files) == (1 if only_new else day + 1)
        done = run(files, PLAN, record=record, rng=SeededRandom(1))
        results = list(done)
        done.finish()
        assert done.left_out == (0 if only_new else day * 24 * DEVICES)
        assert len(list(record.glob("*.npz"))) == 1
    whole = run(str(place), PLAN, rng=SeededRandom(1))
    assert results == list(whole)
    assert done.summary == whole.summary


def test_nothing_new(tmp_path: Path, record: Path) -> None:
    """A table that has not grown gives the same results again, and draws nothing."""
    place = write_day(tmp_path / "table", 0).parent
    _, first = ran(place, record)
    again, results = ran(place, record)
    assert results == first
    assert again.left_out == 24 * DEVICES
    assert again.summary.reports == 24 * DEVICES
    assert len(new_files(find_files(str(place)), record).files) == 1


def test_late_rows_are_left_out(tmp_path: Path, record: Path) -> None:
    """A round that was drawn is done: its late rows are counted, and answers stay as they were."""
    place = write_day(tmp_path / "table", 0, hours=range(12)).parent
    _, first = ran(place, record)
    write_day(place, 0, hours=range(11, 24))
    for files in (new_files(find_files(str(place)), record), find_files(str(place))):
        done = run(files, PLAN, record=record)
        assert known_then(done)[:12] == known_then(first)
        assert done.summary.rounds == 24
        assert done.summary.most_reports == 24
        assert done.left_out == DEVICES * (1 if len(files.files) == 1 else 25)


def test_withheld_rounds_leave_no_result(tmp_path: Path, record: Path) -> None:
    """Of a round below k_min a record knows that it was drawn, and nothing else."""
    plan = RunPlan(
        randomizer=PLAN.randomizer, every="1h", promise=ShuffledPromise(k_min=DEVICES, delta=1e-3)
    )
    place = write_day(tmp_path / "table", 0).parent
    table = pq.read_table(place / "day0-0.parquet").sort_by("time").slice(1)
    pq.write_table(table, place / "day0-0.parquet")
    done, results = ran(place, record, plan=plan)
    assert (len(results), done.summary.rounds, done.summary.withheld) == (23, 23, 1)
    write_day(place, 1)
    done, results = ran(place, record, plan=plan)
    assert (len(results), done.summary.rounds, done.summary.withheld) == (47, 47, 1)
    (kept,) = record.glob("*.npz")
    part = PartResult.from_bytes(kept.read_bytes())
    assert (len(part.results), part.silent) == (47, {0})


def test_wrong_rows_leave_the_record(tmp_path: Path, record: Path) -> None:
    """A file that is refused changes nothing of what was drawn before; a first one leaves none."""
    place = write_day(tmp_path / "table", 1).parent
    bad = pq.read_table(place / "day1-0.parquet").set_column(2, "value", [[float("nan")] * 480])
    write_day(place, 0)
    pq.write_table(bad, place / "day1-0.parquet")
    with pytest.raises(DataError, match="must hold finite"):
        ran(place, record)
    assert not record.exists()
    (place / "day1-0.parquet").unlink()
    _, first = ran(place, record)
    before = {path.name: path.read_bytes() for path in record.iterdir()}
    pq.write_table(bad, place / "day1-0.parquet")
    with pytest.raises(DataError, match="must hold finite"):
        ran(place, record)
    assert {path.name: path.read_bytes() for path in record.iterdir()} == before
    (place / "day1-0.parquet").unlink()
    assert ran(place, record)[1] == first


def test_another_plan_is_refused_by_name(tmp_path: Path, record: Path) -> None:
    """What differs is said; windows may differ, because they are made of what is released."""
    place = write_day(tmp_path / "table", 0).parent
    ran(place, record)
    ran(place, record, plan=RunPlan(randomizer=PLAN.randomizer, every="1h", window=3))
    for plan, name in (
        (RunPlan(randomizer=Laplace(2.0, Range(0, 100)), every="1h"), "randomizer"),
        (RunPlan(randomizer=PLAN.randomizer, every="2h"), "every"),
    ):
        with pytest.raises(StorageUnusable, match=f"were drawn with another {name}; give"):
            ran(place, record, plan=plan)
    head = json.loads((record / "run.json").read_text("utf-8"))
    (record / "run.json").write_text(json.dumps(head | {"run": "another"}), encoding="utf-8")
    with pytest.raises(StorageUnusable, match="by another version of rase"):
        ran(place, record)


@pytest.mark.uncovered
@pytest.mark.parametrize("death", ["0 written", "3 renamed"])
def test_killed_in_the_middle(death: str, tmp_path: Path, record: Path) -> None:
    """After a kill a run goes on: what the disk had stays bit by bit, and all rounds are there."""
    place = write_day(tmp_path / "table", 0).parent
    _, first = ran(place, record)
    write_day(place, 1)
    killed = subprocess.run(
        [sys.executable, "-c", RUN, str(place), str(record), death],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    held = {
        result.round: result
        for path in record.glob("*.npz")
        for result in PartResult.from_bytes(path.read_bytes()).results
    }
    done, results = ran(place, record)
    assert known_then(results[:24]) == known_then(first)
    assert len(results) == 48
    assert done.summary.reports == done.summary.rows == 48 * DEVICES
    assert all(held.get(one.round, one).alone == one.alone for one in results)


def commanded(*words: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Give a command; return its exit code and what it said."""
    capsys.readouterr()
    return main(["run", *map(str, words)]), capsys.readouterr().err


def test_by_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Results grow with the table, and a run that would draw it again is refused."""
    monkeypatch.chdir(tmp_path)
    place, out = write_day(Path("table"), 0).parent, Path("out.csv")
    assert commanded(place, *FLAGS, "--out", out, capsys=capsys)[0] == 0
    first = out.read_text("utf-8").splitlines()
    write_day(place, 1)
    code, said = commanded(place, *FLAGS, "--out", out, "--details", capsys=capsys)
    assert (code, "960 rows of 20 devices" in said) == (0, True)
    assert "continued" not in said
    lines = out.read_text("utf-8").splitlines()
    assert len(lines) == 49
    assert lines[: len(first)] == first
    code, said = commanded(place, *FLAGS, "--out", out, capsys=capsys)
    assert "continued 960 rows lie in rounds that were drawn before: left out." in said
    assert out.read_text("utf-8").splitlines() == lines
    assert stat_of("out.csv.drawn") == 0o700
    code, said = commanded(place, *FLAGS[:-1], "--out", out, capsys=capsys)
    assert (code, "remembers what was drawn for out.csv" in said) == (5, True)
    assert out.read_text("utf-8").splitlines() == lines


def stat_of(place: str) -> int:
    """Return who may do what with a folder."""
    return os.stat(place).st_mode & 0o777  # noqa: PTH116 - as a stranger sees it


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ([], 2, "--continue needs --out"),
        (["--out", "new.csv", "--trials", "2", "--seed", "1"], 2, "--continue and --trials cannot"),
        (["--out", "new.csv", "--feedback"], 2, "--continue and --feedback cannot"),
        (["--out", "new.csv", "--label", "x", "--k-min", "2"], 2, "--continue and --label cannot"),
        (["--out", "folder", "--partition-by", "day"], 2, "--continue and --partition-by cannot"),
        (["--out", "new.csv", "--delta", "1e-6"], 2, "--continue needs --k-min"),
        (["--out", "old.csv"], 5, "old.csv is there without old.csv.drawn, which would remember"),
    ],
)
def test_mistakes(
    words: list[str],
    *,
    code: int,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What cannot be gone on with is refused in one line, before anything is drawn."""
    monkeypatch.chdir(tmp_path)
    place = write_day(Path("table"), 0).parent
    Path("old.csv").write_text("results", encoding="utf-8")
    found, said = commanded(place, *FLAGS, *words, capsys=capsys)
    assert (found, says in said) == (code, True), said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old.csv", "table"]


def test_plans_that_cannot_be_gone_on_with(tmp_path: Path, record: Path) -> None:
    """In Python the same is refused."""
    place = write_day(tmp_path / "table", 0).parent
    plan = RunPlan(randomizer=PLAN.randomizer, every="1h", feedback=lambda: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(ValueError, match="must not be combined with graph, feedback or labels"):
        ran(place, record, plan=plan)
