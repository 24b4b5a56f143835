"""Arrow arrays to NumPy and back, without pandas."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.engine import SHAPES, write_table

from rase.tables.arrow import as_arrow, as_numpy

SEEN = """
import sys
from rase.cli import main

main(sys.argv[1:])
print("pandas" in sys.modules)
"""


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1, 2, 3, 4], pa.int64()),
        pa.array([1, 2, 3, 4], pa.int32()),
        pa.array([1, 2, 3, 2**64 - 1], pa.uint64()),
        pa.array([1.0, -0.0, float("nan"), 2.0]),
        pa.array([True, False, False, True] * 5),
        pa.array([True, None, False, True]),
        pa.array([1.5, None, 2.0, 3.0]),
        pa.array(["a", "b", "c", "d"]),
        pa.array([], pa.int64()),
        pa.array([1, 2, 3, 4], pa.timestamp("ms")),
    ],
)
def test_what_pyarrow_gives(array: Any) -> None:
    """The same as from pyarrow, also of a part of an array."""
    for part in (array, array[1:], array[1:3], array[4:]):
        expected = part.to_numpy(zero_copy_only=False)
        np.testing.assert_array_equal(as_numpy(part), expected)
        assert as_numpy(part).dtype == expected.dtype


def test_back_again() -> None:
    """The memory is shared."""
    numbers = np.array([3, 2**64 - 1], dtype=np.uint64)
    assert as_arrow(numbers).to_pylist() == [3, 2**64 - 1]
    assert np.shares_memory(as_numpy(as_arrow(numbers)), numbers)


@pytest.mark.uncovered
def test_a_run_does_without_pandas(tmp_path: Path) -> None:
    """To import pandas would take more time than a small table."""
    pytest.importorskip("pandas")
    place = write_table(SHAPES[0], tmp_path, 1000)
    words = f"run {place} --range 0 3000 --epsilon 1 --every 1h --out {tmp_path / 'out.csv'}"
    done = subprocess.run(
        [sys.executable, "-c", SEEN, *words.split()], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False"]
