"""Memory of a run: bounded by its limit, devices and rounds, not by the rows of the table."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from tests.tables.peak_memory import peak_mib_of

MEASURED = """
import sys
from rase import Laplace, RunPlan, SeededRandom, Range
from rase.tables.run import run

plan = RunPlan(randomizer=Laplace(1.0, Range(0, 100)), every="100s", estimator="unbiased_mean")
done = run(sys.argv[1], plan, rng=SeededRandom(1), memory_bytes=48 << 20, workers=2)
print(len(list(done)), done.summary.rows)
"""


def peak_mib(path: Path, *, rows: int, rounds: int) -> float:
    """Run a table in a process of its own and return its peak memory."""
    counts, peak = peak_mib_of(MEASURED, str(path))
    assert counts == [rounds, rows]
    return peak


def growth_mib(folder: Path, rows: tuple[int, int], *, ending: str, is_by_device: bool) -> float:
    """Return how much more memory the denser of two tables of 10 devices and 500 rounds takes."""
    peaks = []
    for count in rows:
        # So many readings of each device in a round of 100 seconds.
        time, device = np.arange(500 * count) * 100_000 // count, np.arange(10)
        if is_by_device:
            time, device = np.tile(time, 10), np.repeat(device, 500 * count)
        else:
            time, device = np.repeat(time, 10), np.tile(device, 500 * count)
        time = pa.array(time).cast(pa.timestamp("ms"))
        columns = {"time": time, "device": device, "value": np.arange(len(time)) % 100.0}
        path = folder / f"{count}.{ending}"
        if ending == "csv":
            pyarrow.csv.write_csv(pa.table(columns), path)
        else:
            pyarrow.parquet.write_table(pa.table(columns), path, row_group_size=50_000)
        peaks.append(peak_mib(path, rows=5000 * count, rounds=500))
    return peaks[1] - peaks[0]


@pytest.mark.uncovered
@pytest.mark.parametrize("is_by_device", [True, False])
def test_peak_does_not_grow(is_by_device: bool, tmp_path: Path) -> None:
    """Another 1.5 million rows, 36 MiB as three columns, take less than 20 MiB more."""
    growth = growth_mib(tmp_path, (100, 400), ending="parquet", is_by_device=is_by_device)
    assert growth < 20


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("is_by_device", [True, False])
def test_peak_does_not_grow_long(ending: str, is_by_device: bool, tmp_path: Path) -> None:
    """Another 9 million rows, 206 MiB as three columns, take less than 40 MiB more."""
    growth = growth_mib(tmp_path, (200, 2000), ending=ending, is_by_device=is_by_device)
    assert growth < 40
