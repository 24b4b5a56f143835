"""Spark gives the same bits as the pipeline in memory and the local engine."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.engine.tables import BR, columns_of, skewed, sorted_by, write_parts

from rase import BudgetAware, Pipeline, Precision, SeededRandom, ValueRange
from rase.engine.files import find_files
from rase.engine.job import Job
from rase.engine.local import run_local
from rase.engine.spark import run_spark

ESTIMATORS = ("auto", "sample_mean", "median", "bootstrap_mean")


def test_generated_table(either_session: Any, tmp_path: Path) -> None:
    """Gaps, nulls, duplicates and one large round: memory, local and Spark agree bit for bit."""
    table = skewed()
    place = write_parts(sorted_by(table, "device"), tmp_path / "table", parts=3)
    job = Job(source=find_files(str(place)), randomizer=BR, every="5min", estimators=ESTIMATORS)
    pipeline = Pipeline(BR, estimator=list(ESTIMATORS))
    expected = pipeline.run(columns_of(table), every="5min", rng=SeededRandom(3))
    local = run_local(job, rng=SeededRandom(3))
    assert list(local) == expected
    run = run_spark(job, session=either_session, rng=SeededRandom(3))
    assert list(run) == expected
    assert run.summary == local.summary
    assert run.summary.duplicates > 50
    assert max(result.n for result in expected) > 20 * min(result.n for result in expected)


@pytest.mark.parametrize(
    ("file", "high"),
    [
        pytest.param("refit_64x25d.parquet", 3000, id="refit"),
        pytest.param("swiss_households_15min.parquet", 10, id="swiss", marks=pytest.mark.slow),
    ],
)
def test_genuine_tables(
    either_session: Any, data_folder: Path, file: str, high: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """REFIT and the Swiss households: memory, local and Spark agree bit for bit."""
    rows = pq.ParquetFile(data_folder / file).metadata.num_rows
    monkeypatch.setattr("rase.engine.pieces._PIECE_ROWS", rows // 8)
    monkeypatch.setattr("rase.engine.pieces.BUCKET_ROWS", rows // 8)
    table = pq.read_table(data_folder / file)
    mechanism = BudgetAware(1.0, ValueRange(0, high), Precision(beta=0.5, rho=0.9))
    source = find_files(str(data_folder / file))
    job = Job(source=source, randomizer=mechanism, every="1h", estimators=("auto", "median"))
    pipeline = Pipeline(mechanism, estimator=["auto", "median"])
    expected = pipeline.run(columns_of(table), every="1h", rng=SeededRandom(3))
    assert len(expected) >= 600
    assert list(run_local(job, rng=SeededRandom(3))) == expected
    assert list(run_spark(job, session=either_session, rng=SeededRandom(3))) == expected
