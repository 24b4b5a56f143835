"""Spark gives the same bits as one machine, from files and from memory."""

from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.tables.tables import BR, columns_of, skewed, sorted_by, write_parts

from rase import (
    BudgetAware,
    Precision,
    Range,
    RoundResult,
    RunPlan,
    SeededRandom,
    auto,
    run_table,
)
from rase.tables.budgets import BudgetClasses
from rase.tables.feedback import RangeFeedback
from rase.tables.run import run
from rase.tables.spark import run_on_spark
from rase.tables.summary import RunSummary

ESTIMATORS = ("tracked", "sample_mean", "median", "bootstrap_mean")
PLAN = RunPlan(randomizer=BR, every="5min", estimator=ESTIMATORS)


def test_generated_table(either_session: Any, spark_folder: Path) -> None:
    """Gaps, nulls, duplicates and one large round: memory, files and Spark agree bit for bit."""
    place, expected, summary = generated(spark_folder)
    done = run_on_spark(place, PLAN, session=either_session, rng=SeededRandom(3))
    assert list(done) == expected
    assert done.summary == summary
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
    session: Any, data_folder: Path, file: str, high: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """REFIT and the Swiss households: memory, files and Spark agree bit for bit.

    That executors give the same bits as threads is shown on the generated table.
    """
    rows = pq.ParquetFile(data_folder / file).metadata.num_rows
    monkeypatch.setattr("rase.tables.parts._USUAL_ROWS", rows // 8)
    plan, expected = genuine(data_folder / file, high)
    assert len(expected) >= 600
    done = run_on_spark(data_folder / file, plan, session=session, rng=SeededRandom(3))
    assert list(done) == expected


def test_budgets(session: Any, spark_folder: Path) -> None:
    """Devices with a budget of their own draw and are estimated as on one machine."""
    place, _, _ = generated(spark_folder)
    budgets = BudgetClasses({"meter-00001": 0.25, "meter-00002": 0.5}, 1.0)
    plan = RunPlan(randomizer=BR, every="5min", budgets=budgets)
    local = run(place, plan, rng=SeededRandom(3))
    expected = list(local)
    done = run_on_spark(place, plan, session=session, rng=SeededRandom(3))
    assert list(done) == expected
    assert done.summary == local.summary


def test_a_learnt_range(session: Any, spark_folder: Path) -> None:
    """A range that is learnt as the run goes is the same, and so is every round."""
    place, _, _ = generated(spark_folder)
    wide = Range(0, 1000)
    plan = RunPlan(
        randomizer=auto(2.0, wide), every="30min", feedback=lambda: RangeFeedback(2.0, wide)
    )
    local = run(place, plan, rng=SeededRandom(3))
    expected = list(local)
    done = run_on_spark(place, plan, session=session, rng=SeededRandom(3))
    assert list(done) == expected
    assert done.summary == local.summary
    assert done.feedback is not None
    assert local.feedback is not None
    assert done.feedback.domain == local.feedback.domain != wide


@cache
def generated(folder: Path) -> tuple[Path, list[RoundResult], RunSummary]:
    """Return a table, and what one machine makes of it: once for all sessions."""
    table = skewed()
    place = write_parts(sorted_by(table, "device"), folder / "bits", parts=3)
    expected = list(run_table(columns_of(table), PLAN, rng=SeededRandom(3)))
    local = run(place, PLAN, rng=SeededRandom(3))
    assert list(local) == expected
    return place, expected, local.summary


@cache
def genuine(path: Path, high: float) -> tuple[RunPlan, list[RoundResult]]:
    """Return a plan for a genuine table, and what one machine makes of it."""
    mechanism = BudgetAware(1.0, Range(0, high), Precision(beta=0.5, rho=0.9))
    plan = RunPlan(randomizer=mechanism, every="1h", estimator=("tracked", "median"))
    expected = list(run_table(columns_of(pq.read_table(path)), plan, rng=SeededRandom(3)))
    assert list(run(path, plan, rng=SeededRandom(3))) == expected
    return plan, expected
