"""The prepared data and a generated fleet: the same bits from files as from memory."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.tables.tables import columns_of

from rase import BudgetAware, Precision, Range, RunPlan, SeededRandom, run_table
from rase.lab.large_fleet import LargeFleet, write_large_fleet
from rase.tables.run import run

PRECISION = Precision(beta=0.5, rho=0.9)
ESTIMATORS = ("tracked", "median")


def plan_of(public: Range, every: str) -> RunPlan:
    """Return a plan for a table."""
    law = BudgetAware(1.0, public, PRECISION)
    return RunPlan(randomizer=law, estimator=ESTIMATORS, every=every)


def in_memory(table: Any, public: Range, every: str) -> list[Any]:
    """Return what columns in memory give."""
    return list(run_table(columns_of(table), plan_of(public, every), rng=SeededRandom(2026)))


def runs_of(place: Path, public: Range, every: str) -> list[list[Any]]:
    """Return what files give with one thread and two, with much memory and with little."""
    plan = plan_of(public, every)
    return [
        list(run(place, plan, rng=SeededRandom(2026), workers=workers, memory_bytes=memory))
        for workers, memory in ((1, 1 << 30), (2, 1 << 30), (2, 1 << 16))
    ]


@pytest.mark.parametrize(
    ("name", "public", "every"),
    [
        ("refit_64x25d.parquet", Range(0, 3000), "1d"),
        pytest.param("refit_64x25d.parquet", Range(0, 3000), "1h", marks=pytest.mark.slow),
        pytest.param("refit_hourly.parquet", Range(0, 3000), "1d", marks=pytest.mark.slow),
        pytest.param("swiss_households_15min.parquet", Range(0, 4), "1d", marks=pytest.mark.slow),
    ],
)
def test_prepared_tables(data_folder: Path, name: str, public: Range, every: str) -> None:
    """Measured tables give the same bits from files and in memory."""
    path = data_folder / name
    expected = in_memory(pq.read_table(path), public, every)
    for found in runs_of(path, public, every):
        assert found == expected


@pytest.mark.uncovered
@pytest.mark.parametrize("kind", ["parquet", "csv.gz"])
def test_a_generated_fleet(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table with gaps, duplicates and one crowded round gives the same bits everywhere."""
    monkeypatch.setattr("rase.tables.parts._USUAL_ROWS", 5000)
    monkeypatch.setattr("rase.tables.run.FEWEST_ROWS", 3000)
    monkeypatch.setattr("rase.tables.run._ONE_PART_ROWS", 5000)
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
    expected = in_memory(table, Range(0, 3000), "1h")
    for found in runs_of(place, Range(0, 3000), "1h"):
        assert found == expected
    assert max(result.n for result in expected) > 5000
