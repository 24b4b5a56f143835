"""The benchmark of layouts: each table is what its name says, and `--rows` reaches it."""

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from benchmarks import __main__ as program
from benchmarks import engine
from benchmarks.engine import SHAPES, Shape, write_table
from benchmarks.harness import Row

ROWS = 20_000


def columns_of(shape: Shape, folder: Path) -> tuple[pa.Table, int]:
    """Write a small table of a shape with 50 devices; return it, and its number of row groups."""
    place = write_table(replace(shape, devices=50), folder, ROWS)
    if place.suffix == ".csv":
        return pyarrow.csv.read_csv(place), 0
    return pyarrow.parquet.read_table(place), pyarrow.parquet.ParquetFile(place).num_row_groups


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.what)
def test_tables_are_what_their_names_say(shape: Shape, tmp_path: Path) -> None:
    """Order, gaps, names and row groups are those of the shape; no device is twice in a round."""
    table, groups = columns_of(replace(shape, group_rows=shape.group_rows // 100), tmp_path)
    assert (
        not table.group_by(["time", "device"])
        .aggregate([([], "count_all")])["count_all"]
        .to_numpy()
        .max()
        > 1
    )
    missing = ROWS - len(table)
    assert abs(missing - shape.missing * ROWS) <= 0.5 * shape.missing * ROWS
    steps = np.diff(table["time"].cast(pa.timestamp("ms")).cast(pa.int64()).to_numpy())
    assert bool((steps < 0).any()) == (shape.late > 0)
    # A late row is behind a later one once, and a table in no order is so about half of the time.
    assert (steps < 0).mean() <= 2 * shape.late
    assert pa.types.is_string(table["device"].type) == shape.has_names
    if shape.ending != "csv":
        assert groups == -(-len(table) // (shape.group_rows // 100))


def test_rows_reach_the_benchmark_and_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--rows is handed on, for a table of another size is not for the record."""
    asked = []

    def rows(*, quick: bool, table_rows: int | None = None) -> list[Row]:
        asked.append((quick, table_rows))
        return [Row("ours", "theirs", "1", 0.5)]

    module = ModuleType("benchmarks.engine")
    module.rows = rows  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "benchmarks.engine", module)
    monkeypatch.setattr(program, "KEPT", tmp_path / "results")
    monkeypatch.setattr(sys, "argv", ["benchmarks", "engine", "--rows", "500", "--here"])
    assert program.main() == 0
    assert asked == [(False, 500)]
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("words", [["noise", "--rows", "5"], ["engine", "--rows", "0"]])
def test_rows_that_mean_nothing_are_refused(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other benchmarks have no tables of that kind, and no table has fewer than one row."""
    monkeypatch.setattr(sys, "argv", ["benchmarks", *words])
    with pytest.raises(SystemExit):
        program.main()
    assert "--rows must be 1 or more, and takes engine alone." in capsys.readouterr().err


def test_a_command_that_fails_is_not_measured() -> None:
    """A run that ends badly stops the benchmark with what it said."""
    with pytest.raises(RuntimeError, match="it ended with 3: no"):
        engine._measured("sys.stderr.write('no'); sys.exit(3)", [])


def test_our_command_is_measured(tmp_path: Path) -> None:
    """The real command runs on a table of the benchmark, within sane bounds."""
    place = write_table(replace(SHAPES[0], devices=50), tmp_path, 2000)
    command = engine._command(SHAPES[0], place, tmp_path / "out.csv", estimator="unbiased_mean")
    spent = engine._measured(engine._OURS, command)
    assert spent.cpu_s > 0
    assert spent.peak_bytes > 10_000_000
    assert len((tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()) == 1 + 2000 // 50
