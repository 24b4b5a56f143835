"""The release log: a bucket is in it or it is not, and what is in it is never drawn again."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.engine.tables import BR, skewed, sorted_by, write_parts

from rase import Manifest, SeededRandom
from rase.engine.files import find_files
from rase.engine.job import GraphSettings, Job
from rase.engine.local import run_local
from rase.engine.released import ReleaseLog
from rase.engine.tally import Tally
from rase.errors import DataError, StorageUnusable
from rase.estimate.estimate import Estimate
from rase.pipeline import RoundResult
from rase.shuffle.release import uniform_manifest

TABLE = sorted_by(skewed(), "time")

# A run in a process of its own, which dies by its own hand when it writes the file of a number.
RUN = """
import os, signal, sys
from pathlib import Path
from rase import SeededRandom
from rase.engine import buckets, pieces, released
from rase.engine.local import run_local
from tests.engine.test_released import job_of
pieces._PIECE_ROWS, pieces.BUCKET_ROWS, buckets._FEWEST_ROWS = 300, 150, 300
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
run = run_local(job_of(place, work), rng=SeededRandom(int(seed)) if seed else None, workers=2)
for result in run:
    print(result)
print("resumed", run.resumed, run.summary)
"""


def job_of(place: Path | str, work: Path | str) -> Job:
    """Return a job that keeps a log."""
    return Job(
        source=find_files(str(place)),
        randomizer=BR,
        every="5min",
        estimators=("auto", "unbiased_mean"),
        work=Path(work),
    )


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


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A table in some files."""
    return write_parts(TABLE, tmp_path / "table", parts=3)


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
        for path in work.glob("bucket*.npz"):
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
    log = ReleaseLog(tmp_path / "torn", "")
    kept = [int(name.removeprefix("bucket").removesuffix(".npz")) for name in first_seen]
    alone = [repr(result.alone) for number in kept for result in log.read(number)[0]]
    assert len(alone) == 40
    assert all(any(one in line for line in lines) for one in alone)


def test_results_and_counts_come_back(tmp_path: Path) -> None:
    """What was written is read again to the last bit, infinities included."""
    estimate = Estimate(0.1, float("inf"), n=3, method="median", target="median")
    manifest: Manifest = uniform_manifest(3, "reason")
    result = RoundResult(3, {"median": estimate}, manifest, 7, 2100, 0.3, None, 1 / 3)
    tally = Tally(rows=5, nulls=1, reports=3)
    with ReleaseLog(tmp_path / "log", "job") as log:
        log.add(-2, [result], tally)
        assert log.buckets == {-2}
    with ReleaseLog(tmp_path / "log", "job") as log:
        assert log.buckets == {-2}
        found, counted = log.read(-2)
    assert found == [result]
    assert (counted.rows, counted.nulls, counted.reports) == (5, 1, 3)


def test_half_a_file_is_no_result(tmp_path: Path) -> None:
    """What was being written is thrown away; a damaged file stops the run."""
    folder = tmp_path / "log"
    with ReleaseLog(folder, "job") as log:
        log.add(1, [], Tally())
    (folder / "bucket2.npz.part").write_bytes(b"half")
    with ReleaseLog(folder, "job") as log:
        assert log.buckets == {1}
        assert not (folder / "bucket2.npz.part").exists()
        (folder / "bucket1.npz").write_bytes((folder / "bucket1.npz").read_bytes()[:-30])
        with pytest.raises(StorageUnusable, match=r"bucket1\.npz is damaged; remove the folder"):
            log.read(1)


def test_logs_of_others(tmp_path: Path) -> None:
    """The log of another job is refused and left as it is; so is one that is being worked in."""
    folder = tmp_path / "log"
    with ReleaseLog(folder, "one") as log:
        log.add(1, [], Tally())
        with pytest.raises(DataError, match="another process works in"), ReleaseLog(folder, "one"):
            pass
    with pytest.raises(StorageUnusable, match="interrupted run of another job"):
        ReleaseLog(folder, "two").__enter__()
    assert (folder / "bucket1.npz").exists()


def test_without_a_folder() -> None:
    """A log without a folder keeps nothing."""
    with ReleaseLog(None, "job") as log:
        log.add(1, [], Tally())
        assert log.buckets == frozenset()
        log.remove()
        with pytest.raises(ValueError, match="without a folder"):
            log.read(1)


def test_finish_takes_the_log_away(place: Path, tmp_path: Path) -> None:
    """The log stays until the results are in their place; a finished job leaves nothing."""
    run = run_local(job_of(place, tmp_path / "work"), rng=SeededRandom(1))
    assert list(run)
    assert list((tmp_path / "work").glob("bucket*.npz"))
    again = run_local(job_of(place, tmp_path / "work"), rng=SeededRandom(1))
    assert list(again)
    assert again.resumed > 0
    again.finish()
    assert not (tmp_path / "work").exists()


def test_a_changed_table_is_another_job(place: Path, tmp_path: Path) -> None:
    """Results of a table that was changed meanwhile are not taken for those of the new one."""
    job = job_of(place, tmp_path / "work")
    assert list(run_local(job))
    os.utime(place / "part-01.parquet", ns=(0, 0))
    with pytest.raises(StorageUnusable, match="another job, table or version"):
        list(run_local(job_of(place, tmp_path / "work")))


@pytest.mark.parametrize("change", [{"alpha": 9.0}, {"group_count": 3}, {"edges": (("a", "c"),)}])
def test_other_real_groups_are_another_job(place: Path, change: dict[str, Any]) -> None:
    """Buckets that were shuffled for other groups, or another loss, are not gone on with."""
    graph = GraphSettings((("a", "b"),), 5.0, 2)
    first, other = (
        Job(source=find_files(str(place)), randomizer=BR, graph=one)
        for one in (graph, replace(graph, **change))
    )
    same = first.fingerprint(seed=None, version="1")
    assert same == replace(first).fingerprint(seed=None, version="1")
    assert same != other.fingerprint(seed=None, version="1")


def test_wrong_rows_leave_no_log(tmp_path: Path) -> None:
    """A table that is refused half-way leaves nothing: none of it was shown to anybody."""
    values = [float("nan") if row == 3000 else 1.0 for row in range(len(TABLE))]
    bad = TABLE.set_column(2, "value", [values])
    place = write_parts(bad, tmp_path / "table", parts=3)
    with pytest.raises(DataError, match=r"part-0\d\.parquet: column 'value' must hold finite"):
        list(run_local(job_of(place, tmp_path / "work")))
    assert not (tmp_path / "work").exists()
