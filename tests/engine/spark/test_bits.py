"""Spark gives the same bits as the pipeline in memory and the local engine."""

from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.engine.tables import BR, columns_of, skewed, sorted_by, write_parts

from rase import BudgetAware, Pipeline, Precision, RoundResult, SeededRandom, ValueRange
from rase.engine.files import find_files
from rase.engine.job import Job
from rase.engine.local import run_local
from rase.engine.spark import run_spark
from rase.engine.tally import RunSummary

ESTIMATORS = ("auto", "sample_mean", "median", "bootstrap_mean")


def test_generated_table(either_session: Any, spark_folder: Path) -> None:
    """Gaps, nulls, duplicates and one large round: memory, local and Spark agree bit for bit."""
    job, expected, summary = generated(spark_folder)
    run = run_spark(job, session=either_session, rng=SeededRandom(3))
    assert list(run) == expected
    assert run.summary == summary
    assert summary.duplicates > 50
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
    job, expected = genuine(data_folder / file, high)
    assert len(expected) >= 600
    assert list(run_spark(job, session=either_session, rng=SeededRandom(3))) == expected


@cache
def generated(folder: Path) -> tuple[Job, list[RoundResult], RunSummary]:
    """Return a job, and what both engines of one machine make of it: once for both sessions."""
    table = skewed()
    place = write_parts(sorted_by(table, "device"), folder / "bits", parts=3)
    job = Job(source=find_files(str(place)), randomizer=BR, every="5min", estimators=ESTIMATORS)
    pipeline = Pipeline(BR, estimator=list(ESTIMATORS))
    expected = pipeline.run(columns_of(table), every="5min", rng=SeededRandom(3))
    local = run_local(job, rng=SeededRandom(3))
    assert list(local) == expected
    return job, expected, local.summary


@cache
def genuine(path: Path, high: float) -> tuple[Job, list[RoundResult]]:
    """Return a job over a genuine table, and what both engines of one machine make of it."""
    mechanism = BudgetAware(1.0, ValueRange(0, high), Precision(beta=0.5, rho=0.9))
    source = find_files(str(path))
    job = Job(source=source, randomizer=mechanism, every="1h", estimators=("auto", "median"))
    pipeline = Pipeline(mechanism, estimator=["auto", "median"])
    expected = pipeline.run(columns_of(pq.read_table(path)), every="1h", rng=SeededRandom(3))
    assert list(run_local(job, rng=SeededRandom(3))) == expected
    return job, expected
