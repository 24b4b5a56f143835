"""A whole table through the pipeline: the same answers as in memory, counted and budgeted."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rase import BudgetAware, Laplace, Pipeline, Precision, SeededRandom, Uniform, ValueRange
from rase.collect import Collector
from rase.engine.stream import ShufflerOfRound, run_table
from rase.engine.table import Rows, open_table
from rase.errors import DataError
from rase.kernels.keyed import public_numbers
from rase.kernels.words import Words
from rase.pipeline import RoundResult

PUBLIC = ValueRange(0, 100)
PAPER = Precision(beta=0.5, rho=0.9)


class Batches:
    """A source made of batches at hand."""

    def __init__(self, *batches: tuple[list[int], list[int], list[float]]) -> None:
        self._batches = batches

    def batches(self) -> Iterator[Rows]:
        """Yield them as rows; NaN is a null."""
        for times, devices, values in self._batches:
            column = np.array(values)
            yield Rows(np.array(times), np.array(devices), np.nan_to_num(column), ~np.isnan(column))


def test_rounds_truth_and_summary() -> None:
    """Rounds come in order with the true mean; what was read, clipped and spent is counted."""
    source = Batches(
        ([0, 500, 1500], [0, 0, 0], [10.0, 30.0, 150.0]),
        ([2500, 200, 900], [0, 1, 1], [float("nan"), 40.0, -20.0]),
    )
    pipeline = Pipeline(BudgetAware(2.0, PUBLIC, PAPER))
    seen: list[int] = []
    run = run_table(
        source,
        pipeline,
        every="1s",
        rng=SeededRandom(1),
        truth=True,
        on_batch=lambda: seen.append(1),
    )
    results = list(run)
    assert [(one.round, one.start_ms, one.n) for one in results] == [(0, 0, 2), (1, 1000, 1)]
    assert [one.truth for one in results] == [15.0, 150.0]
    assert len(seen) == 2
    summary = run.summary
    assert (summary.rows, summary.nulls, summary.devices, summary.rounds) == (6, 1, 2, 2)
    assert (summary.reports, summary.clipped) == (3, 1)
    assert (summary.most_reports, summary.most_epsilon) == (2, 4.0)
    assert list(run) == []


def test_every_time_is_a_round() -> None:
    """Without an interval each time is a round, and no truth is kept unless asked for."""
    run = run_table(Batches(([5, 7], [0, 0], [1.0, 2.0])), Pipeline(Laplace(1.0, PUBLIC)))
    assert [(one.round, one.start_ms, one.truth) for one in run] == [(5, 5, None), (7, 7, None)]


def test_equals_the_pipeline_in_memory(tmp_path: Path) -> None:
    """However little memory there is, the run equals the pipeline over arrays, bit by bit."""
    columns = {
        "time": np.tile(np.arange(300) * 60, 20),
        "device": np.repeat(np.arange(20), 300),
        "value": np.linspace(0, 100, 6000),
    }
    path = tmp_path / "readings.parquet"
    pq.write_table(pa.table(columns), path)
    pipeline = Pipeline(Laplace(1.0, PUBLIC), estimator=("unbiased_mean", "median"))

    def ran(memory_bytes: int) -> list[RoundResult]:
        table = open_table(path)
        return list(
            run_table(table, pipeline, every="5min", rng=SeededRandom(3), memory_bytes=memory_bytes)
        )

    in_memory = pipeline.run(columns, every="5min", rng=SeededRandom(3))
    assert len(in_memory) == 60
    assert ran(1000) == ran(64 << 20) == in_memory


def test_contributors_with_their_own_budget() -> None:
    """Where budgets differ, the most spent is that of the device that spent most."""
    pipeline = Pipeline(Laplace((1.0, 8.0, 2.0), PUBLIC))
    source = Batches(([1, 2, 3, 1], [0, 0, 0, 1], [1.0, 2.0, 3.0, 4.0]))
    run = run_table(source, pipeline, rng=SeededRandom(1))
    assert [one.n for one in run] == [2, 1, 1]
    assert run.summary.most_epsilon == 8.0
    assert run.summary.most_reports == 3


def test_groups_of_a_round() -> None:
    """A round's shuffler may depend on who reports in it; the pipeline's own stays as it was."""
    seen: list[list[list[int]]] = []
    numbers = public_numbers([str(code) for code in range(5)])

    def groups_of(devices: Words) -> ShufflerOfRound:
        assert devices.tolist() == sorted(numbers[[2, 4]].tolist())

        def shuffler(reporting: Words) -> Uniform:
            seen.append([reporting.tolist()])
            return Uniform()

        return shuffler

    pipeline = Pipeline(Laplace(1.0, PUBLIC))
    own = pipeline.shuffler
    source = Batches(([1, 1, 2], [4, 2, 2], [1.0, 2.0, 3.0]))
    list(run_table(source, pipeline, groups_of=groups_of))
    assert seen == [[sorted(numbers[[2, 4]].tolist())], [[int(numbers[2])]]]
    assert pipeline.shuffler is own


def test_nothing_is_released_before_all_is_checked() -> None:
    """A wrong row at the very end keeps the first round from being released."""
    source = Batches(([1, 2], [0, 0], [1.0, 2.0]), ([1], [0], [3.0]))
    with pytest.raises(DataError, match="row 3 goes back in time"):
        next(iter(run_table(source, Pipeline(Laplace(1.0, PUBLIC)))))


@pytest.mark.uncovered
def test_truth_of_many_rounds() -> None:
    """True means are added up over batches, however many rounds there are."""
    rng = np.random.default_rng(7)
    times = np.arange(0, 3000)
    values = rng.uniform(0, 100, (2, len(times)))

    class Long:
        def batches(self) -> Iterator[Rows]:
            valid = np.ones(100, np.bool_)
            for device in (0, 1):
                for start in range(0, len(times), 100):
                    part = slice(start, start + 100)
                    yield Rows(times[part], np.full(100, device), values[device][part], valid)

    run = run_table(Long(), Pipeline(Laplace(1.0, PUBLIC), estimator="unbiased_mean"), truth=True)
    assert np.allclose([result.truth or 0.0 for result in run], values.mean(axis=0))


def test_interval_must_be_a_duration() -> None:
    """A round's length is checked before anything is read."""
    with pytest.raises(ValueError, match="a duration must look like"):
        run_table(Batches(), Pipeline(Laplace(1.0, PUBLIC)), every="soon")


def test_collector_and_run_agree_on_rounds() -> None:
    """A run's rounds start where the collector's do, also before 1970."""
    source = Batches(([-1], [0], [1.0]))
    (result,) = run_table(source, Pipeline(Laplace(1.0, PUBLIC)), every="1h")
    number = Collector(3_600_000).add([-1, 10**9], [0, 0], value=[1.0, 1.0]).round[0]
    assert (result.round, result.start_ms) == (number, -3_600_000)
