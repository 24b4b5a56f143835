"""Algorithm 3 in one process: a round, a table, the one-line call."""

import datetime as dt
import math
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.cases import each_case

from rase import (
    BudgetAware,
    DataError,
    Duchi,
    Estimate,
    Hybrid,
    Laplace,
    MallowsShuffle,
    Partition,
    Piecewise,
    Precision,
    Range,
    Robust,
    RunPlan,
    SeededRandom,
    aggregate,
    run_round,
    run_table,
    unbiased_mean,
)
from rase.series.rounds import RoundResult, Rounds
from rase.series.tracker import Tracker
from rase.tables.budgets import BudgetClasses

PUBLIC = Range(0, 100)
BR = BudgetAware(2.0, PUBLIC, Precision(0.5, 0.9))
ALL = ["unbiased_mean", "sample_mean", "median", "bootstrap_mean"]
CET = dt.timezone(dt.timedelta(hours=1))


def of_table(table: Any, *, rng: SeededRandom | None = None, **settings: Any) -> Rounds:
    """Run a table with the mechanism of the paper, unless another is given."""
    return run_table(table, RunPlan(**({"randomizer": BR} | settings)), rng=rng)


def test_a_round_is_randomized_shuffled_and_estimated() -> None:
    """One round gives every estimator's answer and the shuffler's manifest."""
    result = run_round(np.arange(100), randomizer=BR, estimator=ALL, rng=SeededRandom(1))
    assert list(result.estimates) == ALL
    assert result.n == result.estimate.n == 100
    assert result.estimate is result.estimates["unbiased_mean"]
    assert result.manifest.method == "uniform"
    assert result.round is None


@each_case("make", [Laplace, Duchi, Piecewise, Hybrid])
def test_every_mechanism_runs_and_covers_the_truth(
    make: type[Laplace] | type[Duchi] | type[Piecewise] | type[Hybrid],
) -> None:
    """The truth lies within seven standard errors. False alarms: below 1e-11."""
    readings = np.linspace(10, 90, 4000)
    estimate = run_round(readings, randomizer=make(1.0, PUBLIC), rng=SeededRandom(2026)).estimate
    assert abs(estimate.value - 50) < 7 * estimate.standard_error


def test_each_reading_is_randomized_once() -> None:
    """Whatever the number of estimators, noise is drawn one time for each reading."""
    calls: list[int] = []

    class Counting(Laplace):
        def draw_many(self, readings, *, rng=None):  # type: ignore[no-untyped-def]
            """Count, then draw."""
            calls.append(np.size(readings))
            return super().draw_many(readings, rng=rng)

    table = {"time": [0, 0, 3600], "device": ["a", "b", "a"], "value": [1.0, 2.0, 3.0]}
    run_table(table, RunPlan(randomizer=Counting(1.0, PUBLIC), estimator=ALL, every="1h"))
    assert sum(calls) == 3
    run_round([1.0, 2.0], randomizer=Counting(1.0, PUBLIC), estimator=ALL)
    assert sum(calls) == 5


def test_seeded_runs_repeat_and_secure_runs_differ() -> None:
    """The seed decides everything; without one nothing repeats.

    False alarms: below 1e-14. Two sums of 50 reports are equal with probability below 0.01, for
    they spread over thousands of grid steps; here all of eight would have to be.
    """

    def ran(rng: SeededRandom | None) -> RoundResult:
        return run_round(range(50), randomizer=BR, estimator=ALL, rng=rng)

    assert ran(SeededRandom(3)).estimates == ran(SeededRandom(3)).estimates
    secure = {ran(None).estimate.value for _ in range(8)}
    assert len(secure) > 1


def test_tables_are_cut_into_rounds() -> None:
    """Rows of an interval make a round; a device's readings in it are averaged; null is silent."""
    table = {
        "time": [0, 1800, 3600, 0, 3600, 7200],
        "device": ["a", "a", "a", "b", "b", "b"],
        "value": [10.0, 30.0, 50.0, 40.0, None, math.nan],
    }
    sure = BudgetAware(30.0, PUBLIC, Precision(0, 0.9))
    results = of_table(table, randomizer=sure, every="1h", rng=SeededRandom(1))
    assert [(r.round, r.start_ms, r.n) for r in results] == [(0, 0, 2), (1, 3_600_000, 1)]
    assert results[0].estimate.value == pytest.approx(30, abs=15)


@each_case(
    "time",
    [
        np.array(["2026-01-01T00:00", "2026-01-01T01:00"], dtype="datetime64[m]"),
        [dt.datetime(2026, 1, 1, 0), dt.datetime(2026, 1, 1, 1)],  # noqa: DTZ001
        ["2026-01-01T00:00:00", "2026-01-01T01:00:00"],
        np.array([1767225600, 1767229200]),
        np.array([1767225600, 1767229200], dtype=object),
        np.array([1767225600000, 1767229200000]),
        np.array([1767225600.0, 1767229200.0]),
        [dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 1, 1, tzinfo=dt.UTC)],
        [dt.datetime(2026, 1, 1, hour, tzinfo=CET) for hour in (1, 2)],
        ["2026-01-01T00:00:00Z", "2026-01-01T02:00:00+01:00"],
    ],
)
def test_times_come_in_several_forms(time: object) -> None:
    """Datetimes, texts, seconds and milliseconds mean the same, whatever zone and kind of array."""
    table = {"time": time, "device": ["a", "a"], "value": [1.0, 2.0]}
    results = of_table(table)
    assert [r.start_ms for r in results] == [1767225600000, 1767229200000]


def test_arrow_tables_and_other_mappings_are_tables() -> None:
    """Whatever has the three columns can be run, also by the one-line form."""
    columns = {"time": [0, 0], "device": [1, 2], "value": [1.0, 2.0]}
    for table in (columns, MappingProxyType(columns), pa.table(columns)):
        results = aggregate(table, (0, 100), epsilon=1.0, every="1h")
        assert [r.n for r in results] == [2]


@each_case(
    ("change", "message"),
    [
        ({"value": None}, "has no column 'value'; it has 'time', 'device'"),
        ({"value": [1.0]}, "must have one length"),
        ({"value": [None, None]}, "at least one reading"),
        ({"value": [1.0, math.inf]}, "finite"),
        ({"time": ["soon", "later"]}, "column 'time' holds no time in row 1"),
        ({"time": [True, False]}, "'time' must hold timestamps"),
        ({"time": [0, None]}, "column 'time' is empty in row 2; give every row its time"),
        ({"time": [math.nan, 0.0]}, "column 'time' is empty in row 1"),
        ({"time": np.array(["NaT", "2026"], "datetime64[s]")}, "'time' is empty in row 1"),
        ({"time": ["NaT", "2026-01-01"]}, "holds no time in row 1"),
        ({"device": ["a", None]}, "column 'device' is empty in row 2; give every row its device"),
        ({"value": np.ones((2, 1))}, "value must hold one item a row, got 2 dimensions"),
        ({"value": [[1.0], [2.0]]}, "'value' must hold numbers"),
    ],
)
def test_bad_tables_are_refused(change: dict[str, object], message: str) -> None:
    """A table that cannot be used is refused with what is wrong."""
    table: dict[str, object] = {"time": [0, 0], "device": ["a", "b"], "value": [1.0, 2.0]}
    table.update(change)
    if table["value"] is None:
        del table["value"]
    with pytest.raises(DataError, match=message):
        of_table(table)


@each_case("table", [[1.0, 2.0], None])
def test_what_is_no_table_is_refused(table: object) -> None:
    """Bare readings get a sentence that says what a table is."""
    with pytest.raises(DataError, match=r"must be a data frame or a mapping .* `rase run` takes"):
        of_table(table)


def test_a_path_is_a_table(tmp_path: Path) -> None:
    """The path of a file is run like the rows in it, also by the one-line form."""
    columns = {"time": [0, 0, 5], "device": ["a", "b", "a"], "value": [1.0, 2.0, 3.0]}
    path = tmp_path / "readings.csv"
    path.write_text("time,device,value\n0,a,1\n0,b,2\n5,a,3\n")
    expected = of_table(columns, every="1s", rng=SeededRandom(1))
    assert of_table(path, every="1s", rng=SeededRandom(1)) == expected
    one_line = aggregate(str(path), (0, 100), epsilon=2.0, every="1s", rng=SeededRandom(1))
    assert [result.n for result in one_line] == [2, 1]
    with pytest.raises(DataError, match="there is no file"):
        aggregate(tmp_path / "none.csv", (0, 100), epsilon=2.0)


@each_case("domain", [5, None, (0,), (0, 1, 2)])
def test_a_range_is_a_pair(domain: Any) -> None:
    """Anything else is named, in the one-line form too."""
    with pytest.raises(TypeError, match="domain must be a pair of numbers or a Range"):
        aggregate([1.0, 2.0], domain, epsilon=1)


def test_readings_beyond_all_bounds_are_clipped_or_refused_quietly() -> None:
    """What overflows on the way to the grid lies outside; a whole number may be too large."""
    table = {"time": [0, 0], "device": ["a", "b"], "value": [1e308, -1e308]}
    (result,) = of_table(table, rng=SeededRandom(1))
    assert math.isfinite(result.estimate.value)
    with pytest.raises(TypeError, match="readings must be numbers"):
        aggregate([10**400], (0, 100), epsilon=1)


def test_a_value_that_is_no_number_is_not_shown() -> None:
    """The refusal says what to do, and neither it nor its causes quote what may be a reading."""
    table = {"time": [0, 0], "device": ["a", "b"], "value": ["4711 W", 2.0]}
    with pytest.raises(DataError, match="column 'value' must hold") as refused:
        of_table(table)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__
    assert "4711" not in str(refused.value)


def test_contributors_with_budgets_of_their_own_are_estimated_together() -> None:
    """Each report travels with its budget; the mean stays unbiased.

    False alarms: below 1e-11 (seven standard errors).
    """
    budgets = tuple(np.tile([0.5, 4.0], 2000))
    readings = np.tile([20.0, 80.0], 2000)
    mixed = BudgetAware(budgets, PUBLIC, Precision(0.5, 0.9))
    result = run_round(readings, randomizer=mixed, estimator=ALL, rng=SeededRandom(2026))
    assert abs(result.estimate.value - 50) < 7 * result.estimate.standard_error
    one_line = aggregate(readings, PUBLIC, epsilon=budgets, rng=SeededRandom(2026))
    assert one_line.method == "combined_mean"
    assert abs(one_line.value - 50) < 7 * one_line.standard_error


def test_budgets_belong_to_devices_in_tables() -> None:
    """A device has its budget in every round, also where others do not report."""
    table = {"time": [0, 0, 1, 1], "device": ["c", "a", "b", "c"], "value": [10.0] * 4}
    results = of_table(
        table,
        randomizer=BudgetAware(30.0, PUBLIC, Precision(0, 0.9)),
        estimator="unbiased_mean",
        budgets=BudgetClasses({"b": 0.5}, 30.0),
        rng=SeededRandom(1),
    )
    # Without the device of budget 0.5 the error is that of budget 30.
    assert results[0].estimate.standard_error < 5 < results[1].estimate.standard_error


def test_budgets_of_a_round_are_refused_for_a_table() -> None:
    """A sequence of budgets says nothing of which device is meant."""
    table = {"time": [0, 0], "device": ["a", "b"], "value": [1.0, 2.0]}
    with pytest.raises(ValueError, match="epsilon must be one number for a table"):
        aggregate(table, (0, 100), epsilon=(1.0, 2.0))


def test_too_few_budgets_are_refused() -> None:
    """A contributor without a budget stops the round."""
    mixed = BudgetAware((1.0, 2.0), PUBLIC, Precision(0.5, 0.9))
    with pytest.raises(ValueError, match="2 budgets"):
        run_round([1.0, 2.0, 3.0], randomizer=mixed)


def test_own_estimators_and_shufflers_take_part() -> None:
    """A function of one's own is called by its name; the shuffler's manifest is kept."""

    def largest(reports, /, *, randomizer, epsilon=None, rng=None):  # type: ignore[no-untyped-def]
        """Return the largest report."""
        value = float(randomizer.values_of(reports.places).max())
        return Estimate(value, 1.0, n=reports.n, method="largest", target="max")

    shuffler = Robust(alpha=1.0, group_count=2, partition=Partition([0, 0, 1, 1]))
    result = run_round(
        [1, 2, 3, 4], randomizer=BR, shuffler=shuffler, estimator=[largest, "median"]
    )
    assert list(result.estimates) == ["largest", "median"]
    assert result.manifest.n == 4
    mallows = run_round([1, 2, 3], randomizer=BR, shuffler=MallowsShuffle(theta=0.5))
    assert mallows.manifest.method == "mallows"


@each_case("readings", [[], 5.0, [[1.0, 2.0]]])
def test_a_round_needs_one_row_of_readings(readings: object) -> None:
    """No readings, one number, and a matrix are refused."""
    with pytest.raises(ValueError, match="readings must be one row"):
        run_round(readings, randomizer=BR)  # type: ignore[arg-type]


def test_unknown_and_missing_estimators_are_refused() -> None:
    """A wrong name is answered with the right ones."""
    with pytest.raises(ValueError, match="unbiased_mean"):
        run_round([1.0], randomizer=BR, estimator="unbiased")
    with pytest.raises(ValueError, match="at least one estimator"):
        run_round([1.0], randomizer=BR, estimator=[])


def test_a_round_is_estimated_as_its_reports_are() -> None:
    """Running a round adds nothing of its own to the mean."""
    reports = BR.randomize(np.arange(100.0), rng=SeededRandom(9))
    alone = unbiased_mean(reports, randomizer=BR)
    together = run_round(np.arange(100.0), randomizer=BR, rng=SeededRandom(9)).estimate
    assert together.value == pytest.approx(alone.value)
    assert together.standard_error == pytest.approx(alone.standard_error)


def test_tracked_follows_the_rounds_of_a_table() -> None:
    """By default each round borrows from those before; a round by itself is its unbiased mean."""
    table = {
        "time": [3600 * round for round in range(60) for _ in range(20)],
        "device": [f"d{device}" for _ in range(60) for device in range(20)],
        "value": [30.0] * 1200,
    }
    results = of_table(table, rng=SeededRandom(2026))
    tracked, alone = results[-1].estimate, results[-1].alone
    assert alone is not None
    assert (tracked.method, alone.method) == ("tracked", "unbiased_mean")
    assert tracked.standard_error < alone.standard_error / 2
    by_hand = Tracker(PUBLIC)
    for result in results:
        assert result.alone is not None
        assert result.start_ms is not None
        last = by_hand.update(result.start_ms / 1000, result.alone)
    # Without what rounds tell of their spread it is nearly the same.
    assert last.value == pytest.approx(tracked.value, abs=tracked.standard_error)
    single = run_round([30.0] * 20, randomizer=BR, rng=SeededRandom(2026))
    assert single.estimates == {"tracked": single.alone}
    other = run_round([30.0] * 20, randomizer=BR, estimator="median", rng=SeededRandom(2026))
    assert other.alone is None


def test_large_rounds() -> None:
    """A round of thousands has the mean of its readings, and their spread."""
    count = 5000
    table = {
        "time": np.zeros(count),
        "device": np.arange(count),
        "value": np.linspace(0, 100, count),
    }
    (large,) = of_table(table, estimator=["tracked", "sample_mean"], rng=SeededRandom(1))
    assert abs(large.estimate.value - 50) < 7 * large.estimate.standard_error
    assert large.spread == pytest.approx(100**2 / 12, rel=0.5)
    (unknown,) = of_table(table, estimator="median", rng=SeededRandom(1))
    assert unknown.spread is None


def test_a_table_may_be_in_any_order() -> None:
    """Rows in another order, and repeated rows, give the same results; the first row counts."""
    rng = np.random.default_rng(3)
    time, device = np.repeat(np.arange(60) * 60, 20), np.tile(np.arange(20), 60)
    value = rng.uniform(0, 100, 1200)
    order = rng.permutation(1200)
    again = {
        "time": np.append(time[order], time[:50]),
        "device": np.append(device[order], device[:50]),
        "value": np.append(value[order], np.zeros(50)),
    }
    columns = {"time": time, "device": device, "value": value}
    one = of_table(columns, every="5min", rng=SeededRandom(1))
    assert of_table(again, every="5min", rng=SeededRandom(1)) == one


def test_a_source_used_twice_draws_other_noise() -> None:
    """A second run with one source of study goes on with it, as everywhere."""
    table = {"time": [0, 0], "device": ["a", "b"], "value": [1.0, 2.0]}
    rng = SeededRandom(1)
    assert of_table(table, rng=rng) != of_table(table, rng=rng)


def test_tables_without_pyarrow() -> None:
    """Where pyarrow is missing, the refusal says how to get it; a round needs none."""
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import rase\n"
        "print(rase.aggregate([1.0, 2.0], (0, 100), epsilon=1).n)\n"
        "try: rase.aggregate({'time': [0], 'device': [1], 'value': [2.0]}, (0, 9), epsilon=1)\n"
        "except rase.DataError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("2\n")
    assert 'pip install "rase-iot[tables]"' in done.stdout
