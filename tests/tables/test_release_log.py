"""The release log: a part is in it or it is not, and what is in it is never drawn again."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.tables.tables import BR, skewed, sorted_by, write_parts

from rase import Manifest, RunPlan, SeededRandom
from rase.counts.estimate import Estimate
from rase.errors import DataError, StorageUnusable
from rase.series.rounds import RoundResult
from rase.shuffle.release import uniform_manifest
from rase.tables.release_log import PartResult, ReleaseLog
from rase.tables.run import run
from rase.tables.summary import DeviceCounts, Tally

TABLE = sorted_by(skewed(), "time")
PLAN = RunPlan(randomizer=BR, every="5min", estimator=("tracked", "unbiased_mean"))

# A run in a process of its own, which dies by its own hand when it writes the file of a number.
RUN = """
import os, signal, sys
from pathlib import Path
from rase import SeededRandom
from rase.tables import parts, run as runs
from tests.tables.test_release_log import PLAN
parts._USUAL_ROWS = runs.FEWEST_ROWS = runs._ONE_PART_ROWS = 150
place, work, seed, death = sys.argv[1:]
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
rng = SeededRandom(int(seed)) if seed else None
done = runs.run(place, PLAN, rng=rng, workers=2, work=Path(work))
for result in done:
    print(result)
print("resumed", done.resumed, done.summary)
"""


def ran(place: Path, work: Path, seed: str, death: str) -> tuple[int, list[str]]:
    """Run in a process; return its exit code and lines."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(place), str(work), seed, death],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode, done.stdout.splitlines()


@pytest.fixture(params=["time", "none"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A table in some files: by time, and in an order that passes through the store."""
    ordered = sorted_by(TABLE, request.param)
    return write_parts(ordered, tmp_path / "table", parts=3, row_group=100)


def killed_and_resumed(
    place: Path, work: Path, seed: str, *, most_kills: int
) -> tuple[int, list[str], dict[str, bytes]]:
    """Kill a run again and again, each time at another moment, until one comes to its end.

    Returns how often it was killed, the lines of the last run, and what each file of the log held
    when it was first seen.
    """
    kills, first_seen = 0, dict[str, bytes]()
    while True:
        moment = ("written", "renamed")[kills % 2] if kills < most_kills else "never"
        code, lines = ran(place, work, seed, f"{kills % 3 if kills else 5} {moment}")
        for path in work.glob("part*.npz"):
            first_seen.setdefault(path.name, path.read_bytes())
            assert path.read_bytes() == first_seen[path.name]
        if code == 0:
            return kills, lines, first_seen
        kills += 1


@pytest.mark.uncovered
@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_and_resumed_with_a_seed(kills: int, place: Path, tmp_path: Path) -> None:
    """A seeded run that was killed again and again ends with the lines of an undisturbed one."""
    _, expected = ran(place, tmp_path / "whole", "3", "0 never")
    killed, lines, _ = killed_and_resumed(place, tmp_path / "torn", "3", most_kills=kills)
    assert killed == kills
    assert lines[:-1] == expected[:-1]
    assert lines[-1].split(" ", 2)[2] == expected[-1].split(" ", 2)[2]
    assert int(lines[-1].split()[1]) > 0


@pytest.mark.uncovered
@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_and_resumed_in_production(kills: int, place: Path, tmp_path: Path) -> None:
    """Without a seed, what was in the log after a kill is in the results, bit by bit."""
    _, lines, first_seen = killed_and_resumed(place, tmp_path / "torn", "", most_kills=kills)
    alone = [
        repr(result.alone)
        for content in first_seen.values()
        for result in PartResult.from_bytes(content).results
    ]
    assert len(alone) == 40
    assert all(any(one in line for line in lines) for one in alone)


def part_of(round: int) -> PartResult:
    """Return what came of one round."""
    estimate = Estimate(0.1, float("inf"), n=3, method="median", target="median")
    manifest: Manifest = uniform_manifest(3, "reason")
    result = RoundResult(3, {"median": estimate}, manifest, round, 2100, 0.3, None, 1 / 3)
    devices = DeviceCounts(np.array([5, 9], np.uint64), np.array([1, 2]), np.array([0.5, 4.0]))
    return PartResult([result], Tally(rows=5, nulls=1, reports=3), devices, {round + 1})


def test_results_and_counts_come_back(tmp_path: Path) -> None:
    """What was written is read again to the last bit, infinities included."""
    part = part_of(7)
    with ReleaseLog(tmp_path / "log", "job") as log:
        log.write(part)
        assert log.parts == 0
    with ReleaseLog(tmp_path / "log", "job") as log:
        assert log.parts == 1
        found = log.released
        log.write(part_of(20))
    assert found.results == part.results
    assert found.tally == part.tally
    assert found.rounds == {7, 8}
    assert found.devices.device.tolist() == [5, 9]
    assert found.devices.spent is not None
    assert found.devices.spent.tolist() == [0.5, 4.0]
    with ReleaseLog(tmp_path / "log", "job") as log:
        assert log.released.rounds == {7, 8, 20, 21}
        assert log.released.devices.reports.tolist() == [2, 4]


def test_half_a_file_is_no_result(tmp_path: Path) -> None:
    """What was being written is thrown away; a damaged file stops the run."""
    folder = tmp_path / "log"
    with ReleaseLog(folder, "job") as log:
        log.write(part_of(1))
    (folder / "part1.npz.part").write_bytes(b"half")
    with ReleaseLog(folder, "job") as log:
        assert log.parts == 1
        assert not (folder / "part1.npz.part").exists()
    (folder / "part0.npz").write_bytes((folder / "part0.npz").read_bytes()[:-30])
    with pytest.raises(StorageUnusable, match=r"part0\.npz is damaged; remove the folder"):
        ReleaseLog(folder, "job").__enter__()


def test_logs_of_others(tmp_path: Path) -> None:
    """The log of another run is refused and left as it is; so is one that is being worked in."""
    folder = tmp_path / "log"
    with ReleaseLog(folder, "one") as log:
        log.write(part_of(1))
        with pytest.raises(DataError, match="another process works in"), ReleaseLog(folder, "one"):
            pass
    with pytest.raises(StorageUnusable, match="interrupted run of another plan"):
        ReleaseLog(folder, "two").__enter__()
    assert (folder / "part0.npz").exists()


def test_finish_takes_the_log_away(place: Path, tmp_path: Path) -> None:
    """The log stays until the results are in their place; a finished run leaves nothing."""
    work = tmp_path / "work"
    first = run(place, PLAN, rng=SeededRandom(1), work=work)
    expected = list(first)
    assert list(work.glob("part*.npz"))
    again = run(place, PLAN, rng=SeededRandom(1), work=work)
    assert list(again) == expected
    assert again.resumed > 0
    assert again.summary == first.summary
    again.finish()
    assert not work.exists()


def test_a_changed_table_is_another_run(place: Path, tmp_path: Path) -> None:
    """Results of a table that was changed meanwhile are not taken for those of the new one."""
    assert list(run(place, PLAN, work=tmp_path / "work"))
    os.utime(place / "part-01.parquet", ns=(0, 0))
    with pytest.raises(StorageUnusable, match="another plan, table or version"):
        list(run(place, PLAN, work=tmp_path / "work"))


@pytest.mark.parametrize(
    "change", [{"every": "10min"}, {"estimator": "median"}, {"truth": True}, {"window": 3}]
)
def test_another_plan_is_another_run(change: dict[str, Any], place: Path, tmp_path: Path) -> None:
    """Rounds of another plan are not gone on with."""
    assert list(run(place, PLAN, work=tmp_path / "work"))
    settings: dict[str, Any] = {"randomizer": BR, "every": "5min"}
    other = RunPlan(**(settings | change))
    with pytest.raises(StorageUnusable, match="another plan, table or version"):
        list(run(place, other, work=tmp_path / "work"))


def test_rounds_without_a_reading_are_read_once(tmp_path: Path) -> None:
    """Rows of a round that holds no reading count once, also when a run is resumed."""
    time = pa.array([1000 * second for second in range(600)]).cast(pa.timestamp("ms"))
    value = pa.array([None if second // 300 else 1.0 for second in range(600)], pa.float64())
    path = tmp_path / "table.parquet"
    table = pa.table({"time": time, "device": ["a"] * 600, "value": value})
    pq.write_table(table, path, row_group_size=100)
    first = run(path, PLAN, work=tmp_path / "work")
    assert len(list(first)) == 1
    again = run(path, PLAN, work=tmp_path / "work")
    assert len(list(again)) == 1
    assert (again.resumed, again.summary.rows, again.summary.nulls) == (1, 600, 300)


def test_wrong_rows_leave_no_log(tmp_path: Path) -> None:
    """A table that is refused half-way leaves nothing: none of it was shown to anybody."""
    values = [float("nan") if row == 3000 else 1.0 for row in range(len(TABLE))]
    bad = TABLE.set_column(2, "value", [values])
    place = write_parts(bad, tmp_path / "table", parts=3)
    with pytest.raises(DataError, match=r"part-0\d\.parquet: column 'value' must hold finite"):
        list(run(place, PLAN, work=tmp_path / "work"))
    assert not (tmp_path / "work").exists()
