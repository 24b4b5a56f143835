"""Memory of a batch run: bounded by batches, devices and the spill limit, not by the table."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from tests.engine.peak_memory import peak_mib_of

# Releases are replaced by a count: they keep nothing, and 300,000 of them take a minute.
MEASURED = """
import sys
from rase import Laplace, Pipeline, SeededRandom, ValueRange
from rase.engine import stream
from rase.engine.table import open_table

class Count(int):
    def tracked(self, tracker):
        return self

stream.round_result = lambda pipeline, number, *, reports, **known: Count(len(reports))
pipeline = Pipeline(Laplace(1.0, ValueRange(0, 100)))
run = stream.run_table(open_table(sys.argv[1]), pipeline, rng=SeededRandom(1), memory_bytes=1 << 20)
print(sum(run), run.summary.rounds)
"""


def peak_mib(path: Path, *, rows: int, rounds: int) -> float:
    """Run a table in a process of its own and return its peak memory."""
    counts, peak = peak_mib_of(MEASURED, str(path))
    assert counts == [rows, rounds]
    return peak


def growth_mib(folder: Path, rounds: tuple[int, int], *, ending: str, is_by_device: bool) -> float:
    """Return how much more memory the longer of two tables of 10 devices takes."""
    peaks = []
    for count in rounds:
        time, device = np.arange(count), np.arange(10)
        if is_by_device:
            time, device = np.tile(time, 10), np.repeat(device, count)
        else:
            time, device = np.repeat(time, 10), np.tile(device, count)
        columns = {"time": time, "device": device, "value": (time % 100).astype(float)}
        path = folder / f"{count}.{ending}"
        if ending == "csv":
            pyarrow.csv.write_csv(pa.table(columns), path)
        else:
            pyarrow.parquet.write_table(pa.table(columns), path, row_group_size=10 * count)
        peaks.append(peak_mib(path, rows=10 * count, rounds=count))
    return peaks[1] - peaks[0]


@pytest.mark.uncovered
def test_peak_does_not_grow(tmp_path: Path) -> None:
    """800,000 more reports, 18 MiB and twice that to sort, take less than 10 MiB more."""
    growth = growth_mib(tmp_path, (20_000, 100_000), ending="parquet", is_by_device=True)
    assert growth < 10


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("is_by_device", [True, False])
def test_peak_does_not_grow_long(ending: str, is_by_device: bool, tmp_path: Path) -> None:
    """6 million more reports, 137 MiB and twice that to sort, take less than 70 MiB more."""
    growth = growth_mib(tmp_path, (100_000, 700_000), ending=ending, is_by_device=is_by_device)
    assert growth < 70
