"""Is the local engine faster and smaller than NumPy in memory, and does it grow linearly?

Ours reads a Hive-partitioned folder, averages what a device measured in a round, finds duplicates,
draws certified noise by a secure key, shuffles every round and gives it an unbiased mean with its
error. The script holds the table in memory, adds float noise, shuffles by sorting and averages: no
duplicates, no error, no guarantee. Each runs in a process of its own.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import Row, Target, versions
from rase.kernels import backend
from rase.lab.large_fleet import LargeFleet, write_large_fleet

__all__ = ["large_table", "rows"]

DEVICES = 100_000
# Peak memory is that of the process itself: ru_maxrss begins with the size of its parent.
MEASURED = """
import json, os, sys, time
{work}
start, spent = time.perf_counter(), time.process_time()
found = work(sys.argv[1])
wall, cpu = time.perf_counter() - start, time.process_time() - spent
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
peak = 1024 * int(status["VmHWM"].removesuffix("kB\\n"))
print(json.dumps([wall, cpu, peak, found]))
"""
OURS = """
from rase import BudgetAware, Precision, Range, RunPlan
from rase.tables.run import run as run_here

def work(place):
    plan = RunPlan(
        randomizer=BudgetAware(1.0, Range(0, 3000), Precision(beta=0.5, rho=0.9)),
        estimator="unbiased_mean",
        every="1h",
    )
    memory = int(os.environ["BENCHMARK_MEMORY"])
    workers = int(os.environ["BENCHMARK_WORKERS"])
    return sum(one.n for one in run_here(place, plan, workers=workers, memory_bytes=memory))
"""
SCRIPT = """
import numpy as np
import pyarrow.parquet

def work(place):
    table = pyarrow.parquet.read_table(place, columns=["time", "value"])
    rounds = table["time"].to_numpy().astype("datetime64[ms]").astype(np.int64) // 3_600_000
    readings = np.clip(table["value"].to_numpy(), 0, 3000)
    rng = np.random.default_rng()
    noisy = np.clip(readings + rng.laplace(0, 3000, len(readings)), 0, 3000)
    order = np.lexsort((rng.random(len(noisy)), rounds))
    noisy, rounds = noisy[order], rounds[order]
    starts = np.flatnonzero(np.append(True, rounds[1:] != rounds[:-1]))
    means = np.add.reduceat(noisy, starts) / np.diff(starts, append=len(noisy))
    return int(np.diff(starts, append=len(noisy)).sum()) if len(means) else 0
"""


@dataclass(frozen=True, slots=True)
class Spent:
    """What one run took."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


def rows(*, quick: bool) -> Iterator[Row]:
    """Compare with the script, then sizes with each other."""
    small, middle, large = (10**5, 10**6, 10**6) if quick else (10**6, 2 * 10**7, 10**8)
    repeats = 1 if quick else 3
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = large_table(folder, middle)
        ours, script, one = [], [], []
        for _ in range(repeats):
            ours.append(_measured(OURS, table, rows=middle))
            script.append(_measured(SCRIPT, table, rows=middle))
            one.append(_measured(OURS, table, rows=middle, workers=1))
        best, theirs, single = (_best(runs) for runs in (ours, script, one))
        size = f"{middle:.0e} rows, {DEVICES:,} devices a round"
        packages = versions("numpy", "pyarrow", "cryptography")
        yield Row(
            what=f"local engine, 2 threads, {backend.kernels_in_use()}",
            against="numpy script in memory (unsafe noise, no duplicates, no errors)",
            size=size,
            ratio=theirs.wall_s / best.wall_s,
            means="its wall time / ours",
            target=None if quick else Target("at least", 2.5),
            ours_s=best.wall_s,
            theirs_s=theirs.wall_s,
            repeats=repeats,
            packages=packages,
            note=_note(best, theirs),
        )
        yield Row(
            what="memory of the local engine",
            against="numpy script in memory",
            size=size,
            ratio=best.peak_bytes / theirs.peak_bytes,
            means="our peak / its peak",
            target=None if quick else Target("at most", 0.5),
            repeats=repeats,
            note=_note(best, theirs),
        )
        yield Row(
            what="local engine, 2 threads",
            against="local engine, 1 thread",
            size=size,
            ratio=single.wall_s / best.wall_s,
            means="its wall time / ours",
            ours_s=best.wall_s,
            theirs_s=single.wall_s,
            repeats=repeats,
        )
        few = _best(
            [_measured(OURS, large_table(folder, small), rows=small) for _ in range(repeats)]
        )
        wide = large_table(folder, large)
        many = _best([_measured(OURS, wide, rows=large) for _ in range(1 if quick else 2)])
        factor = large // small
        yield Row(
            what=f"CPU time at {factor} times the rows",
            against=f"{factor} times itself",
            size=f"{small:.0e} and {large:.0e} rows",
            ratio=many.cpu_s / (factor * few.cpu_s),
            means="CPU(large) / (factor x CPU(small))",
            target=None if quick else Target("at most", 1.15),
            ours_s=many.cpu_s,
            theirs_s=few.cpu_s,
            note=_note(many, few),
        )
        if not quick:
            yield Row(
                what=f"CPU time at {large // middle} times the rows, where starting counts little",
                against=f"{large // middle} times itself",
                size=f"{middle:.0e} and {large:.0e} rows",
                ratio=many.cpu_s / (large / middle * best.cpu_s),
                means="CPU(large) / (factor x CPU(small))",
                target=Target("at most", 1.15),
                ours_s=many.cpu_s,
                theirs_s=best.cpu_s,
            )
        yield Row(
            what="memory of the local engine",
            against="1 GB",
            size=f"{large:.0e} rows",
            ratio=many.peak_bytes / 1e9,
            means="peak / 1e9 bytes",
            target=Target("at most", 1.0),
            ours_s=many.wall_s,
            note=f"{many.wall_s:.1f} s, {many.cpu_s:.1f} s CPU",
        )


def large_table(folder: Path, rows: int) -> Path:
    """Write a table of so many rows; hourly readings of 100,000 meters."""
    place = folder / f"{rows}"
    if not place.exists():
        rounds = max(rows // DEVICES, 1)
        days = max(rounds // 24, 1)
        devices = rows // (24 * days)
        write_large_fleet(LargeFleet(devices=devices, days=days, interval_s=3600), place)
    return place


def _measured(work: str, table: Path, *, rows: int, workers: int = 2) -> Spent:
    memory = 512 << 20
    done = subprocess.run(
        [sys.executable, "-c", MEASURED.replace("{work}", work), str(table)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ
        | {"BENCHMARK_WORKERS": str(workers), "BENCHMARK_MEMORY": str(memory)}
        | {"OMP_NUM_THREADS": "1"},
    )
    wall, cpu, peak, found = json.loads(done.stdout)
    if abs(found - rows) > rows / 20:
        raise RuntimeError(f"expected about {rows} reports, got {found}.")
    return Spent(wall, cpu, peak)


def _best(runs: list[Spent]) -> Spent:
    """Return the best of each; other work on the machine only ever adds."""
    return Spent(
        min(run.wall_s for run in runs),
        min(run.cpu_s for run in runs),
        min(run.peak_bytes for run in runs),
    )


def _note(ours: Spent, theirs: Spent) -> str:
    return (
        f"{ours.cpu_s:.2f} s CPU and {ours.peak_bytes / 1e6:.0f} MB against {theirs.cpu_s:.2f} s "
        f"and {theirs.peak_bytes / 1e6:.0f} MB"
    )
