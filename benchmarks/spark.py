"""What does Spark cost more than the local engine, and do two executors halve the time of one?

The same job over the same Hive-partitioned folder: on this machine in two threads, and by Spark in
a session that has run a small job before, so that starting Java and Python does not count. CPU time
is that of all processes together. After make spark: .venv/bin/python -m benchmarks spark
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from benchmarks.batch import MEASURED, OURS, Spent, large_table
from benchmarks.engine import SHAPES, write_table
from benchmarks.harness import PeerMissing, Row, Target, versions

__all__ = ["rows"]

# CPU time of all descendants: those that live, and those that were waited for.
_SPENT = """
import json, os, sys, time
from pathlib import Path
from rase.tables.spark_session import opened_session

def spent():
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            after = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[int(process.name)] = int(after[1]), sum(map(int, after[11:15]))
    ours, grew = {os.getpid()}, True
    while grew:
        more = {pid for pid, (parent, _) in found.items() if parent in ours} - ours
        ours |= more
        grew = bool(more)
    return sum(found[pid][1] for pid in ours) / os.sysconf("SC_CLK_TCK")
"""
# Two runs of a job in one session; the first of a small table where starting is not to count.
_TWICE = """
with opened_session(sys.argv[3]) as session:
    if sys.argv[2]:
        run(sys.argv[2], session)
    start, before = time.perf_counter(), spent() if sys.argv[2] else 0
    found = run(sys.argv[1], session)
    print(json.dumps([time.perf_counter() - start, spent() - before, 0, found]))
"""
ON_SPARK = (
    _SPENT
    + """
from rase import BudgetAware, Precision, Range, RunPlan
from rase.tables.spark import run_on_spark

def run(place, session):
    plan = RunPlan(
        randomizer=BudgetAware(1.0, Range(0, 3000), Precision(beta=0.5, rho=0.9)),
        estimator="unbiased_mean",
        every="1h",
    )
    return sum(result.n for result in run_on_spark(place, plan, session=session))
"""
    + _TWICE
)
# Nothing is averaged, no repeated row is left out, noise is unsafe: one group-by of Spark's own.
_QUERY = """
    SELECT hour, avg(noisy), stddev_samp(noisy), count(*) AS n FROM (
        SELECT date_trunc('hour', time) AS hour,
            greatest(0, least(3000, value)) - 3000 * sign(chance) * ln(1 - 2 * abs(chance)) AS noisy
        FROM (SELECT time, value, rand() - 0.5 AS chance FROM readings)
    ) GROUP BY hour ORDER BY hour
"""
_SIMPLE = (
    _SPENT
    + """
def run(place, session):
    session.read.parquet(place).createOrReplaceTempView("readings")
    found = session.sql(sys.argv[4]).collect()
    return sum(one["n"] for one in found)
"""
    + _TWICE
)
_SIMPLE_ROWS = 10_000_000


def rows(*, quick: bool) -> Iterator[Row]:
    """Compare with the local engine, then two executors with one."""
    if find_spec("pyspark") is None:
        raise PeerMissing(
            "pyspark is not installed here: run make spark, then .venv/bin/python -m "
            "benchmarks spark"
        )
    packages = versions("pyspark", "pyarrow", "numpy")
    yield from _beside_a_simple_job(10**6 if quick else _SIMPLE_ROWS, packages=packages)
    size = int(float(os.environ.get("RASE_BENCHMARK_ROWS", "1e6" if quick else "1e8")))
    with tempfile.TemporaryDirectory() as name:
        small, table = (large_table(Path(name), count) for count in (10**5, size))
        local = _measured(MEASURED.replace("{work}", OURS), [table], rows=size)
        threads = _measured(ON_SPARK, [table, small, "local[2]"], rows=size)
        yield Row(
            what="Spark local[2], starting apart",
            against="local engine, 2 threads",
            size=f"{size:.0e} rows",
            ratio=threads.cpu_s / local.cpu_s,
            means="its CPU time / local's",
            target=None if quick else Target("at most", 4.0),
            ours_s=threads.cpu_s,
            theirs_s=local.cpu_s,
            packages=packages,
            note=f"{threads.wall_s:.1f} s against {local.wall_s:.1f} s wall",
        )
        # How work is shared shows at fewer rows as well.
        some = size // 5
        part = large_table(Path(name), some)
        two = _measured(ON_SPARK, [part, small, "local-cluster[2,1,1024]"], rows=some)
        one = _measured(ON_SPARK, [part, small, "local-cluster[1,1,1024]"], rows=some)
        yield Row(
            what="Spark, 2 executors of one core",
            against="Spark, 1 executor of one core",
            size=f"{some:.0e} rows",
            ratio=one.wall_s / two.wall_s,
            means="wall time of one / of two",
            ours_s=two.wall_s,
            theirs_s=one.wall_s,
            packages=packages,
            note=f"{two.cpu_s:.1f} s CPU with two, {one.cpu_s:.1f} s with one",
        )


def _beside_a_simple_job(rows: int, *, packages: tuple[str, ...]) -> Iterator[Row]:
    """Compare with one group-by of the same rows, with starting Java and Python and without."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small = write_table(SHAPES[0], folder, 10**5).rename(folder / "small.parquet")
        table = write_table(SHAPES[0], folder, rows)
        ways = (("", "start included", 1.2), (str(small), "starting apart", None))
        for first, what, limit in ways:
            ours, theirs = (
                _measured(script, [table, first, "local[2]", _QUERY], rows=rows)
                for script in (ON_SPARK, _SIMPLE)
            )
            yield Row(
                what=f"Spark local[2], {what}",
                against="a simple PySpark group-by (unsafe noise, no duplicates, no errors)",
                size=f"{rows:.0e} rows",
                ratio=ours.cpu_s / theirs.cpu_s,
                means="our CPU time / its CPU time",
                target=None if limit is None else Target("at most", limit),
                ours_s=ours.cpu_s,
                theirs_s=theirs.cpu_s,
                packages=packages,
                note=f"{ours.cpu_s:.1f} s CPU and {theirs.cpu_s:.1f} s",
            )


def _measured(script: str, arguments: list[Path | str], *, rows: int) -> Spent:
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=os.environ
        | {"BENCHMARK_WORKERS": "2", "BENCHMARK_MEMORY": str(512 << 20)}
        | {"OMP_NUM_THREADS": "1"},
    )
    wall, cpu, peak, found = json.loads(done.stdout.splitlines()[-1])
    if abs(found - rows) > rows / 20:
        raise RuntimeError(f"expected about {rows} reports, got {found}.")
    return Spent(wall, cpu, peak)
