"""An executor that is killed changes nothing: what is drawn again is the same."""

import hashlib
import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pytest
from tests.patience import PATIENCE_S
from tests.tables.spark.keys import KeysElsewhere, keys_alive
from tests.tables.tables import BR, skewed, sorted_by, write_parts

from rase import RunPlan, SeededRandom
from rase.clock import SystemClock
from rase.kernels.keyed import RunKey
from rase.tables.run import TableRun, run
from rase.tables.spark import run_on_spark

# Every report counts in each of these, in its place.
ESTIMATORS = ("sample_mean", "median", "bootstrap_mean")
KEY = bytes(range(100, 132))
_MOST_RUNS = 20


PLAN = RunPlan(randomizer=BR, every="5min", estimator=ESTIMATORS)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of some twenty parts."""
    monkeypatch.setattr("rase.tables.parts._USUAL_ROWS", 400)
    rows = sorted_by(skewed(rounds=80), "time")
    return write_parts(rows, tmp_path / "table", parts=2, row_group=200)


@pytest.mark.parametrize(
    ("mode", "stage"),
    [
        ("seeded", "work"),
        ("production", "reduce"),
        pytest.param("seeded", "reduce", marks=pytest.mark.slow),
        pytest.param("production", "work", marks=pytest.mark.slow),
    ],
)
def test_a_killed_executor_changes_nothing(
    cluster: Any,
    table: Path,
    mode: str,
    stage: str,
    *,
    monkeypatch: pytest.MonkeyPatch,
    keys_elsewhere: KeysElsewhere,
) -> None:
    """Killed while parts are worked off or devices counted, the digest is as without; no key stays.

    Undisturbed, the bits are those of one machine (test_bits.py), which is the quicker one. In
    production the key is fresh for every run; here it is given, to have the same run twice.
    """
    if mode == "production":
        monkeypatch.setattr(RunKey, "draw_key", lambda _rng: RunKey(KEY))
    rng = (lambda: SeededRandom(5)) if mode == "seeded" else (lambda: None)
    undisturbed = _digest(run(table, PLAN, rng=rng()))
    # Where the machine is busy, a stage may be over before its progress is seen: then once more.
    for _ in range(_MOST_RUNS):
        with _Killer(cluster, stage) as killer:
            assert _digest(run_on_spark(table, PLAN, session=cluster, rng=rng())) == undisturbed
        done, of = killer.killed_at
        if 0 < done < of:
            break
    else:
        pytest.fail(f"{_MOST_RUNS} runs ended before an executor could be killed.")
    assert {id(one) for one in keys_alive()} <= keys_elsewhere


def test_without_a_key_given_runs_differ(session: Any, table: Path) -> None:
    """The digest of two runs in production differs: it would notice other noise."""
    first = _digest(run_on_spark(table, PLAN, session=session))
    assert first != _digest(run_on_spark(table, PLAN, session=session))


def _digest(done: TableRun) -> str:
    # The written form of every number is exact; bytes also tell which values share an object.
    return hashlib.sha256(repr(list(done)).encode()).hexdigest()


class _Killer:
    """Kill one executor when some tasks of a stage are done, and others are not."""

    def __init__(self, session: Any, stage: str) -> None:
        self.killed_at = (0, 0)
        self._session = session
        self._large_stages = {"work": 1, "reduce": 2}[stage]
        self._tracker = session.sparkContext.statusTracker()
        self._begun: set[int] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        # The one that was killed before is replaced by the cluster.
        deadline = SystemClock().monotonic_s() + PATIENCE_S
        while len(executors_of(self._session)) < 2:
            assert SystemClock().monotonic_s() < deadline
            self._stop.wait(0.1)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.01):
            for stage in self._tracker.getActiveStageIds():
                info = self._tracker.getStageInfo(stage)
                # Parts are dealt out in a stage of one task.
                if info is None or info.numTasks < 10:
                    continue
                self._begun.add(stage)
                is_wanted = len(self._begun) == self._large_stages and stage == max(self._begun)
                if is_wanted and info.numCompletedTasks >= 2:
                    os.kill(executors_of(self._session)[0], signal.SIGKILL)
                    self.killed_at = info.numCompletedTasks, info.numTasks
                    return


def executors_of(session: Any) -> list[int]:
    """Return the processes of the session's own executors."""
    parent = session.sparkContext._gateway.proc.pid
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (process / "cmdline").read_bytes()
            born_of = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if b"CoarseGrainedExecutorBackend" in command and born_of == parent:
                found.append(int(process.name))
    return sorted(found)
