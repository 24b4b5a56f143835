"""The prepared data and a generated fleet: the local engine gives the bits of the pipeline."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rase import BudgetAware, Pipeline, Precision, SeededRandom, ValueRange
from rase.engine.files import find_files
from rase.engine.job import Job
from rase.engine.local import run_local
from rase.lab.large_fleet import LargeFleet, write_large_fleet

PRECISION = Precision(beta=0.5, rho=0.9)
ESTIMATORS = ("auto", "median")


def in_memory(table: Any, public: ValueRange, every: str) -> list[Any]:
    """Return what the pipeline in memory says of an Arrow table."""
    mapping = {name: table[name].to_numpy() for name in ("time", "device", "value")}
    pipeline = Pipeline(BudgetAware(1.0, public, PRECISION), estimator=ESTIMATORS)
    return pipeline.run(mapping, every=every, rng=SeededRandom(2026))


def engine_runs(place: Path, public: ValueRange, every: str) -> list[list[Any]]:
    """Return what the engine says with one thread and two, with much memory and with little."""
    job = Job(
        source=find_files(str(place)),
        randomizer=BudgetAware(1.0, public, PRECISION),
        estimators=ESTIMATORS,
        every=every,
    )
    return [
        list(run_local(job, rng=SeededRandom(2026), workers=workers, memory_bytes=memory))
        for workers, memory in ((1, 1 << 30), (2, 1 << 30), (2, 1 << 16))
    ]


@pytest.mark.parametrize(
    ("name", "public", "every"),
    [
        ("refit_64x25d.parquet", ValueRange(0, 3000), "1d"),
        pytest.param("refit_64x25d.parquet", ValueRange(0, 3000), "1h", marks=pytest.mark.slow),
        pytest.param("refit_hourly.parquet", ValueRange(0, 3000), "1d", marks=pytest.mark.slow),
        pytest.param(
            "swiss_households_15min.parquet", ValueRange(0, 4), "1d", marks=pytest.mark.slow
        ),
    ],
)
def test_prepared_tables(data_folder: Path, name: str, public: ValueRange, every: str) -> None:
    """Measured tables give the same bits with the engine and in memory."""
    path = data_folder / name
    expected = in_memory(pq.read_table(path), public, every)
    for found in engine_runs(path, public, every):
        assert found == expected


@pytest.mark.uncovered
@pytest.mark.parametrize("kind", ["parquet", "csv.gz"])
def test_a_generated_fleet(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table with gaps, duplicates and one crowded round gives the same bits everywhere."""
    monkeypatch.setattr("rase.engine.pieces._PIECE_ROWS", 5000)
    monkeypatch.setattr("rase.engine.pieces.BUCKET_ROWS", 7000)
    monkeypatch.setattr("rase.engine.buckets._FEWEST_ROWS", 3000)
    fleet = LargeFleet(
        devices=300, days=2, interval_s=1800, gaps=0.1, duplicates=0.05, skew=20.0, seed=3
    )
    place = tmp_path / "fleet"
    rows = write_large_fleet(fleet, place, kind=kind)
    parquet = place
    if kind != "parquet":
        parquet = tmp_path / "parquet"
        assert write_large_fleet(fleet, parquet) == rows
    table = pq.read_table(parquet)
    assert len(table) == rows > 300 * 96
    expected = in_memory(table, ValueRange(0, 3000), "1h")
    for found in engine_runs(place, ValueRange(0, 3000), "1h"):
        assert found == expected
    assert max(result.n for result in expected) > 5000
