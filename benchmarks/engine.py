"""What does `rase run` cost on the tables users have, against a careful script in DuckDB?

Whole commands, each in a process of its own: ours by the command line, with secure randomness, the
unbiased mean and a limit of memory; theirs drops repeated times, averages by device and round,
clips, adds float noise and gives mean, standard deviation and count of each round. CPU time and
peak memory are of the whole process, its start included. With `--rows` tables are smaller; rounds
keep their sizes as far as the rows allow.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from benchmarks.harness import Row, Target, peer, versions

__all__ = ["SHAPES", "Shape", "rows", "write_table"]

ROWS = 10_000_000
QUICK_ROWS = 100_000
MEMORY_MB = 300
# How far the whole process may go beyond the limit: the interpreter and its libraries.
_BEYOND_MB = 150
_LOW, _HIGH, _EPSILON = 0, 3000, 1
_FIRST_MS = 1_704_067_200_000  # 2024-01-01
# Not ru_maxrss: that one begins with the size of the process that started this one.
_MEASURED = """
import atexit, json, os, sys

def report():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    peak = 1024 * int(status["VmHWM"].removesuffix("kB\\n"))
    spent = os.times()
    with open(os.environ["BENCHMARK_SPENT"], "w") as file:
        json.dump([spent.user + spent.system, peak], file)

atexit.register(report)
"""
_OURS = """
from rase.cli import main
sys.exit(main(sys.argv[1:]))
"""
# What nobody can do without: the columns as numbers, and secure noise for each row.
_FLOOR = """
import pyarrow.parquet as pq
from rase import Range, auto
from rase.tables.arrow import as_numpy

place, low, high, epsilon = sys.argv[1:]
law = auto(float(epsilon), Range(float(low), float(high)))
for batch in pq.ParquetFile(place).iter_batches(1 << 17, columns=["time", "device", "value"]):
    law.draw_many(as_numpy(batch.column("value")))
"""
_THEIRS = """
import csv, duckdb

place, out, every_ms, low, high, epsilon = sys.argv[1:]
# With the two cores that ours uses; its memory is not limited.
base = duckdb.connect(config={"threads": 2})
read = "read_csv" if place.endswith(".csv") else "read_parquet"
found = base.execute(
    f'''
    WITH distinct_times AS (
        SELECT time, device, first(value) AS value FROM {read}(?) WHERE value IS NOT NULL
        GROUP BY time, device
    ), readings AS (
        SELECT epoch_ms(time) // {every_ms} AS round,
            greatest({low}, least({high}, avg(value))) AS reading, random() - 0.5 AS chance
        FROM distinct_times GROUP BY round, device
    )
    SELECT round, avg(noisy), stddev_samp(noisy), count(*) FROM (
        SELECT round,
            reading - ({high} - {low}) / {epsilon} * sign(chance) * ln(1 - 2 * abs(chance)) AS noisy
        FROM readings
    ) GROUP BY round ORDER BY round
    ''',
    [place],
).fetchall()
with open(out, "w", newline="") as file:
    csv.writer(file).writerows(found)
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """A layout of a table that users have.

    Args:
        what: What to call it.
        devices: How many devices report in a round; fewer where the table has fewer rows.
        most_ratio: What share of the peer's CPU time it may take.
        every: The length of a round.
        group_rows: How many rows a row group has.
        missing: Which share of the readings is missing.
        late: Which share of the rows was written at another place than its time says.
        has_names: Whether devices are texts.
        ending: How the file ends.
    """

    what: str
    devices: int
    most_ratio: float
    every: str = "1h"
    group_rows: int = 1 << 17
    missing: float = 0.0
    late: float = 0.0
    has_names: bool = False
    ending: str = "parquet"


SHAPES = (
    Shape("in order of time, row groups of 131,072", 100_000, 0.6),
    Shape("in order of time, row groups of 1,048,576", 100_000, 0.6, group_rows=1 << 20),
    Shape("many small rounds", 100, 1.0, every="1min"),
    Shape("gaps: 2 % of readings missing", 1_000_000, 1.5, missing=0.02),
    Shape("huge rounds", 5_000_000, 1.5),
    Shape("0.1 % of rows late", 100_000, 1.5, late=0.001),
    Shape("no order at all", 100_000, 1.5, late=1.0),
    Shape("device names as text", 100_000, 1.5, has_names=True),
    Shape("CSV", 100_000, 1.5, ending="csv"),
)
_EVERY_MS = {"1h": 3_600_000, "1min": 60_000}
_TRACKED = Target("at most", 2.5)


@dataclass(frozen=True, slots=True)
class _Spent:
    cpu_s: float
    peak_bytes: int


def rows(*, quick: bool, table_rows: int | None = None) -> Iterator[Row]:
    """Measure each layout: CPU time against the peer, and memory against the limit."""
    count = table_rows or (QUICK_ROWS if quick else ROWS)
    # CPU time of whole processes varies by 3 to 5 %: two runs of each would take ten minutes more.
    repeats = 1
    peer("duckdb")
    yield from _measure_growth(count)
    for shape in SHAPES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            place = write_table(shape, folder, count)
            yield from _measure_shape(shape, place, rows=count, repeats=repeats)


def _measure_growth(rows: int) -> Iterator[Row]:
    """Measure ten times the rows: against a tenth of them, and against decoding plus noise."""
    shape, spent = SHAPES[0], list[_Spent]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first = write_table(shape, folder, rows)
        for times in (1, 10):
            place = _repeat(first, folder / f"times{times}.parquet", times)
            out = folder / "out.csv"
            spent.append(_measured(_OURS, _command(shape, place, out, estimator="unbiased_mean")))
            for left in folder.glob("out.*"):
                left.unlink()
        floor = _measured(_FLOOR, [str(place), str(_LOW), str(_HIGH), str(_EPSILON)])
    size = f"{10 * rows:.0e} rows, {min(shape.devices, rows):,} devices a round"
    yield Row(
        what="ten times the rows, unbiased_mean",
        against="decoding of the three columns and noise for each row",
        size=size,
        ratio=spent[1].cpu_s / floor.cpu_s,
        means="our CPU time / that of both, each a whole process",
        target=Target("at most", 2.2),
        ours_s=spent[1].cpu_s,
        theirs_s=floor.cpu_s,
        packages=versions("numpy", "pyarrow"),
        note=f"{spent[1].cpu_s:.1f} s and {spent[1].peak_bytes / 1e6:.0f} MB; {floor.cpu_s:.1f} s",
    )
    yield Row(
        what="growth in time, unbiased_mean",
        against=f"{rows:.0e} rows",
        size=size,
        ratio=spent[1].cpu_s / spent[0].cpu_s,
        means="CPU time / that of a tenth of the rows",
        target=Target("at most", 11.0),
        ours_s=spent[1].cpu_s,
        theirs_s=spent[0].cpu_s,
    )


def _repeat(table: Path, place: Path, times: int) -> Path:
    """Write a table several times, each later than the one before, in no more memory than one."""
    rows = pyarrow.parquet.read_table(table)
    begun = rows["time"].cast(pa.int64()).to_numpy()
    length = int(begun.max() - begun.min()) + _EVERY_MS["1h"]
    with pyarrow.parquet.ParquetWriter(place, rows.schema, compression="zstd") as writer:
        for number in range(times):
            time = pa.array(begun + number * length, pa.timestamp("ms"))
            writer.write_table(rows.set_column(0, "time", time), row_group_size=1 << 17)
    return place


def write_table(shape: Shape, folder: Path, rows: int) -> Path:
    """Write a table of a shape.

    Args:
        shape: Its layout.
        folder: Where to write it.
        rows: How many rows it has before some are left out; whole rounds of them.
    """
    rng = np.random.default_rng(20)
    devices = min(shape.devices, rows)
    number = np.arange(rows - rows % devices, dtype=np.int64)
    if shape.missing:
        number = number[rng.random(number.size) >= shape.missing]
    moved = np.flatnonzero(rng.random(number.size) < shape.late)
    number[moved] = number[rng.permutation(moved)]
    rounds, device = np.divmod(number, devices)
    value = (
        600 + 200 * np.cos(rounds * (2 * np.pi / 24)) + 80 * rng.standard_exponential(len(rounds))
    )
    table = pa.table(
        {
            "time": pa.array(_FIRST_MS + rounds * _EVERY_MS[shape.every], pa.timestamp("ms")),
            "device": _names(device, devices) if shape.has_names else pa.array(device),
            "value": value,
        }
    )
    place = folder / f"table.{shape.ending}"
    if shape.ending == "csv":
        pyarrow.csv.write_csv(table, place)
    else:
        pyarrow.parquet.write_table(
            table, place, compression="zstd", row_group_size=shape.group_rows
        )
    return place


def _names(device: NDArray[np.int64], devices: int) -> pa.Array:
    names = pa.array([f"meter-{one:07}" for one in range(devices)])
    return pa.DictionaryArray.from_arrays(pa.array(device, pa.int32()), names).dictionary_decode()


def _measure_shape(shape: Shape, place: Path, *, rows: int, repeats: int) -> Iterator[Row]:
    out = place.parent / "out.csv"
    limits = [str(one) for one in (_EVERY_MS[shape.every], _LOW, _HIGH, _EPSILON)]
    estimators = ["unbiased_mean"] + (["tracked"] if shape.devices == 100 else [])
    theirs: list[_Spent] = []
    ours: dict[str, list[_Spent]] = {name: [] for name in estimators}
    for _ in range(repeats):
        theirs.append(_measured(_THEIRS, [str(place), str(out), *limits]))
        out.unlink()
        for name in estimators:
            ours[name].append(_measured(_OURS, _command(shape, place, out, estimator=name)))
            for left in place.parent.glob("out.*"):
                left.unlink()
    their_cpu, their_peak = _best(theirs)
    size = f"{rows:.0e} rows, {min(shape.devices, rows):,} devices a round"
    for name in estimators:
        cpu, peak = _best(ours[name])
        note = (
            f"{cpu:.1f} s and {peak / 1e6:.0f} MB; the script "
            f"{their_cpu:.1f} s and {their_peak / 1e6:.0f} MB"
        )
        yield Row(
            what=f"{shape.what}, {name}",
            against="careful DuckDB script (unsafe noise)",
            size=size,
            ratio=cpu / their_cpu,
            means="our CPU time / its CPU time",
            target=_TRACKED if name == "tracked" else Target("at most", shape.most_ratio),
            ours_s=cpu,
            theirs_s=their_cpu,
            repeats=repeats,
            packages=versions("duckdb", "numpy", "pyarrow"),
            note=note,
        )
        yield Row(
            what=f"memory: {shape.what}, {name}",
            against=f"--memory {MEMORY_MB}MB and {_BEYOND_MB} MB for the program",
            size=size,
            ratio=peak / 1e6 / (MEMORY_MB + _BEYOND_MB),
            means="our peak / what it may take",
            target=Target("at most", 1.0),
            repeats=repeats,
        )


def _command(shape: Shape, place: Path, out: Path, *, estimator: str) -> list[str]:
    words = f"--range {_LOW} {_HIGH} --epsilon {_EPSILON} --every {shape.every} --workers 2"
    more = f"--memory {MEMORY_MB}MB --estimator {estimator}"
    return ["run", str(place), *words.split(), *more.split(), "--out", str(out)]


def _measured(work: str, arguments: list[str]) -> _Spent:
    # Users do not compile all modules at each start.
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.NamedTemporaryFile() as spent:
        done = subprocess.run(
            [sys.executable, "-c", _MEASURED + work, *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=inherited | {"BENCHMARK_SPENT": spent.name, "OMP_NUM_THREADS": "1"},
        )
        if done.returncode:
            raise RuntimeError(f"it ended with {done.returncode}: {done.stderr}")
        cpu_s, peak = json.loads(Path(spent.name).read_text(encoding="ascii"))
        return _Spent(cpu_s, peak)


def _best(runs: list[_Spent]) -> tuple[float, int]:
    """Return the best of each; other work on the machine only ever adds."""
    return min(run.cpu_s for run in runs), min(run.peak_bytes for run in runs)
