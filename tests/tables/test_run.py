"""Runs of rows that come in batches: rounds, truth, counts, and nothing before all is checked."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rase import BudgetAware, Laplace, Precision, Range, RunPlan, SeededRandom
from rase.errors import DataError
from rase.tables.budgets import BudgetClasses
from rase.tables.rows import Rows
from rase.tables.run import free_memory, run

PUBLIC = Range(0, 100)
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


def laplace(**changes: Any) -> RunPlan:
    """Return a plan with the plainest mechanism."""
    return RunPlan(randomizer=Laplace(1.0, PUBLIC), **changes)


def test_rounds_truth_and_summary() -> None:
    """Rounds come in order with the true mean; what was read, clipped and spent is counted."""
    source = Batches(
        ([0, 500, 1500], [0, 0, 0], [10.0, 30.0, 150.0]),
        ([2500, 200, 900], [0, 1, 1], [float("nan"), 40.0, -20.0]),
    )
    plan = RunPlan(randomizer=BudgetAware(2.0, PUBLIC, PAPER), every="1s", truth=True)
    seen: list[str] = []
    done = run(source, plan, rng=SeededRandom(1), on_progress=lambda what, _: seen.append(what))
    results = list(done)
    assert [(one.round, one.start_ms, one.n) for one in results] == [(0, 0, 2), (1, 1000, 1)]
    assert [one.truth for one in results] == [15.0, 150.0]
    assert seen[:2] == ["read", "read"]
    summary = done.summary
    assert (summary.rows, summary.nulls, summary.devices, summary.rounds) == (6, 1, 2, 2)
    assert (summary.reports, summary.clipped) == (3, 1)
    assert (summary.most_reports, summary.most_epsilon) == (2, 4.0)
    assert list(done) == []


def test_every_time_is_a_round() -> None:
    """Without an interval each time is a round, and no truth is kept unless asked for."""
    done = run(Batches(([5, 7], [0, 0], [1.0, 2.0])), laplace())
    assert [(one.round, one.start_ms, one.truth) for one in done] == [(5, 5, None), (7, 7, None)]


def test_times_may_go_back() -> None:
    """Rows need no order: the same in any order and any number of batches gives the same bits."""
    rng = np.random.default_rng(5)
    times = np.tile(np.arange(300) * 60_000, 20)
    devices = np.repeat(np.arange(20), 300)
    values = np.linspace(0, 100, 6000)

    def ran(order: Any, cuts: int, memory_bytes: int) -> list[Any]:
        parts = np.array_split(order, cuts)
        source = Batches(
            *((times[one].tolist(), devices[one].tolist(), values[one].tolist()) for one in parts)
        )
        plan = laplace(estimator=("unbiased_mean", "median"), every="5min")
        return list(run(source, plan, rng=SeededRandom(3), memory_bytes=memory_bytes))

    expected = ran(np.arange(6000), 1, 1 << 28)
    assert len(expected) == 60
    assert ran(rng.permutation(6000), 1, 1 << 28) == expected
    assert ran(rng.permutation(6000), 7, 1) == expected


def test_devices_with_their_own_budget() -> None:
    """Where budgets differ, the most spent is that of the device that spent most."""
    plan = laplace(budgets=BudgetClasses({"1": 0.25}, 1.0))
    source = Batches(([1, 2, 3, 1], [1, 1, 1, 0], [1.0, 2.0, 3.0, 4.0]))
    done = run(source, plan, rng=SeededRandom(1))
    assert [one.n for one in done] == [2, 1, 1]
    assert done.summary.most_epsilon == 1.0
    assert done.summary.most_reports == 3


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([], "holds no rows"),
        ([([1, 2], [0, 0], [float("nan")] * 2)], "column 'value' of the table is empty in all 2"),
    ],
)
def test_nothing_to_run(batches: list[Any], message: str) -> None:
    """A table without a reading is refused, not answered with nothing."""
    with pytest.raises(DataError, match=message):
        list(run(Batches(*batches), laplace()))


def test_nothing_is_released_before_all_is_checked() -> None:
    """A wrong row at the very end keeps the first round from being released."""

    class Failing:
        def batches(self) -> Iterator[Rows]:
            yield from Batches(([1, 2], [0, 0], [1.0, 2.0])).batches()
            raise DataError("row 3 is wrong.")

    with pytest.raises(DataError, match="row 3 is wrong"):
        next(iter(run(Failing(), laplace())))


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

    done = run(Long(), laplace(estimator="unbiased_mean", truth=True))
    assert np.allclose([result.truth or 0.0 for result in done], values.mean(axis=0))


def test_rounds_before_1970() -> None:
    """A round begins at a multiple of its length, also before 1970."""
    (result,) = run(Batches(([-1], [0], [1.0])), laplace(every="1h"))
    assert (result.round, result.start_ms) == (-1, -3_600_000)


def test_free_memory_where_nobody_can_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """On systems without a count of free memory a modest one is assumed."""

    def missing(*_arguments: Any, **_options: Any) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    assert free_memory() == 2 << 30


def test_a_plan_excludes_what_cannot_go_together() -> None:
    """Budgets of contributors belong to the devices of a table, not to the mechanism."""
    with pytest.raises(ValueError, match="epsilon must be one number for a table"):
        RunPlan(randomizer=Laplace((1.0, 2.0), PUBLIC))
