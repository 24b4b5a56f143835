"""What `rase run --memory` promises, for tables of every layout, with the real command."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.engine import SHAPES, Shape, write_table

LIMIT_MB = 256
# What the program itself takes, at most: the page on running tables says so.
BEYOND_MB = 150
# Held as a whole, their rows take far more than the limit.
ROWS = 2_000_000
COMMAND = """
import sys
from rase.cli import main

try:
    main(sys.argv[1:])
finally:
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    print(status["VmHWM"].removesuffix("kB\\n"))
"""
OFTEN = {"many small rounds", "no order at all", "device names as text", "CSV"}


def marked(shape: Shape) -> object:
    """Return a layout; those that take the way of another are run less often."""
    marks = [] if shape.what in OFTEN else [pytest.mark.slow]
    return pytest.param(shape, marks=marks, id=shape.what)


@pytest.mark.uncovered
@pytest.mark.parametrize("shape", [marked(shape) for shape in SHAPES])
def test_memory_is_a_promise(shape: Shape, tmp_path: Path) -> None:
    """No layout takes more than the limit and what the program itself takes."""
    assert peak_mb_of(shape, tmp_path, estimator="unbiased_mean") <= LIMIT_MB + BEYOND_MB


@pytest.mark.uncovered
def test_memory_is_a_promise_where_rounds_are_followed(tmp_path: Path) -> None:
    """62,500 rounds of `tracked`, which holds its rounds to look back, take no more either."""
    shape = replace(next(shape for shape in SHAPES if shape.devices == 100), devices=32)
    assert peak_mb_of(shape, tmp_path, estimator="tracked") <= LIMIT_MB + BEYOND_MB


def peak_mb_of(shape: Shape, folder: Path, *, estimator: str) -> float:
    """Run the command on a table of a shape, and return what it took."""
    place = write_table(shape, folder, ROWS)
    words = f"--range 0 3000 --epsilon 1 --every {shape.every} --workers 2"
    more = f"--memory {LIMIT_MB}MB --estimator {estimator} --details --out {folder / 'out.csv'}"
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "run", str(place), *words.split(), *more.split()],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert f"read      {ROWS - ROWS % min(shape.devices, ROWS)} rows" in done.stderr or (
        shape.missing
    )
    return int(done.stdout.split()[-1]) * 1024 / 1e6
