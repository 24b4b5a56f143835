"""Algorithm 3 in one process."""

import datetime as dt
import math
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
    Pipeline,
    Precision,
    Robust,
    SeededRandom,
    ValueRange,
    aggregate,
    unbiased_mean,
)
from rase.estimate.tracker import Tracker

PUBLIC = ValueRange(0, 100)
BR = BudgetAware(2.0, PUBLIC, Precision(0.5, 0.9))
ALL = ["unbiased_mean", "sample_mean", "median", "bootstrap_mean"]
CET = dt.timezone(dt.timedelta(hours=1))


def test_a_round_is_randomized_shuffled_and_estimated() -> None:
    """One round gives every estimator's answer and the shuffler's manifest."""
    result = Pipeline(BR, estimator=ALL).run_round(np.arange(100), rng=SeededRandom(1))
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
    estimate = Pipeline(make(1.0, PUBLIC)).run_round(readings, rng=SeededRandom(2026)).estimate
    assert abs(estimate.value - 50) < 7 * estimate.standard_error


def test_each_reading_is_randomized_once() -> None:
    """Whatever the number of estimators, noise is drawn one time for each reading."""
    calls: list[int] = []

    class Counting(Laplace):
        def randomize(self, readings, *, rng=None):  # type: ignore[no-untyped-def]
            """Count, then randomize."""
            calls.append(np.size(readings))
            return super().randomize(readings, rng=rng)

    table = {"time": [0, 0, 3600], "device": ["a", "b", "a"], "value": [1.0, 2.0, 3.0]}
    Pipeline(Counting(1.0, PUBLIC), estimator=ALL).run(table, every="1h")
    assert sum(calls) == 3


def test_seeded_runs_repeat_and_secure_runs_differ() -> None:
    """The seed decides everything; without one nothing repeats.

    False alarms: below 1e-14. Two sums of 50 reports are equal with probability below 0.01, for
    they spread over thousands of grid steps; here all of eight would have to be.
    """
    pipeline = Pipeline(BR, estimator=ALL)
    seeded = [pipeline.run_round(range(50), rng=SeededRandom(3)).estimates for _ in range(2)]
    assert seeded[0] == seeded[1]
    secure = {pipeline.run_round(range(50)).estimate.value for _ in range(8)}
    assert len(secure) > 1


def test_tables_are_cut_into_rounds() -> None:
    """Rows of an interval make a round; a device's readings in it are averaged; null is silent."""
    table = {
        "time": [0, 1800, 3600, 0, 3600, 7200],
        "device": ["a", "a", "a", "b", "b", "b"],
        "value": [10.0, 30.0, 50.0, 40.0, None, math.nan],
    }
    results = Pipeline(BudgetAware(30.0, PUBLIC, Precision(0, 0.9))).run(
        table, every="1h", rng=SeededRandom(1)
    )
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
        [dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 1, 1, tzinfo=dt.UTC)],
        [dt.datetime(2026, 1, 1, hour, tzinfo=CET) for hour in (1, 2)],
        ["2026-01-01T00:00:00Z", "2026-01-01T02:00:00+01:00"],
    ],
)
def test_times_come_in_several_forms(time: object) -> None:
    """Datetimes, texts and seconds mean the same, whatever their zone and the array's kind."""
    table = {"time": time, "device": ["a", "a"], "value": [1.0, 2.0]}
    results = Pipeline(BR).run(table)
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
        ({"value": None}, "must have a column 'value'"),
        ({"value": [1.0]}, "must have one length"),
        ({"value": [None, None]}, "at least one reading"),
        ({"value": [1.0, math.inf]}, "finite"),
        ({"time": ["soon", "later"]}, "datetimes or whole seconds"),
        ({"time": [True, False]}, "datetimes or whole seconds"),
        ({"time": [0, None]}, "time is missing in row 2; give every row its time"),
        ({"time": [math.nan, 0.0]}, "time is missing in row 1"),
        ({"time": np.array(["NaT", "2026"], "datetime64[s]")}, "time is missing in row 1"),
        ({"time": ["NaT", "2026-01-01"]}, "datetimes or whole seconds"),
        ({"time": [1767225600000, 0]}, "divide milliseconds by 1000"),
        ({"device": ["a", None]}, "device is missing in row 2; give every row its device"),
        ({"value": [[1.0], [2.0]]}, "value must hold one item a row, got 2 dimensions"),
    ],
)
def test_bad_tables_are_refused(change: dict[str, object], message: str) -> None:
    """A table that cannot be used is refused with what is wrong."""
    table: dict[str, object] = {"time": [0, 0], "device": ["a", "b"], "value": [1.0, 2.0]}
    table.update(change)
    if table["value"] is None:
        del table["value"]
    with pytest.raises(DataError, match=message):
        Pipeline(BR).run(table)


@each_case("table", ["readings.csv", [1.0, 2.0], None])
def test_what_is_no_table_is_refused(table: object) -> None:
    """A path or bare readings get a sentence that says what a table is."""
    with pytest.raises(DataError, match=r"must be a data frame or a mapping .* `rase run` takes"):
        Pipeline(BR).run(table)


@each_case("value_range", [5, None, (0,), (0, 1, 2)])
def test_a_range_is_a_pair(value_range: Any) -> None:
    """Anything else is named, in the one-line form too."""
    with pytest.raises(TypeError, match="value_range must be a pair of numbers or a ValueRange"):
        aggregate([1.0, 2.0], value_range, epsilon=1)


def test_readings_beyond_all_bounds_are_clipped_or_refused_quietly() -> None:
    """What overflows on the way to the grid lies outside; a whole number may be too large."""
    table = {"time": [0, 0], "device": ["a", "b"], "value": [1e308, -1e308]}
    (result,) = Pipeline(BR).run(table, rng=SeededRandom(1))
    assert math.isfinite(result.estimate.value)
    with pytest.raises(TypeError, match="readings must be numbers"):
        aggregate([10**400], (0, 100), epsilon=1)


def test_a_value_that_is_no_number_is_not_shown() -> None:
    """The refusal says what to do, and neither it nor its causes quote what may be a reading."""
    table = {"time": [0, 0], "device": ["a", "b"], "value": ["4711 W", 2.0]}
    with pytest.raises(DataError, match="value must hold numbers") as refused:
        Pipeline(BR).run(table)
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
    result = Pipeline(mixed, estimator=ALL).run_round(readings, rng=SeededRandom(2026))
    assert abs(result.estimate.value - 50) < 7 * result.estimate.standard_error
    one_line = aggregate(readings, PUBLIC, epsilon=budgets, rng=SeededRandom(2026))
    assert one_line.method == "combined_mean"
    assert abs(one_line.value - 50) < 7 * one_line.standard_error


def test_budgets_belong_to_devices_in_tables() -> None:
    """The i-th budget is that of the i-th device by name, also when some do not report."""
    mixed = BudgetAware((30.0, 0.5, 30.0), PUBLIC, Precision(0, 0.9))
    table = {"time": [0, 0, 1, 1], "device": ["c", "a", "b", "c"], "value": [10.0] * 4}
    results = Pipeline(mixed, estimator="unbiased_mean").run(table, rng=SeededRandom(1))
    # Without the device of budget 0.5 the error is that of budget 30.
    assert results[0].estimate.standard_error < 5 < results[1].estimate.standard_error


def test_too_few_budgets_are_refused() -> None:
    """A contributor without a budget stops the run."""
    mixed = BudgetAware((1.0, 2.0), PUBLIC, Precision(0.5, 0.9))
    table = {"time": [0, 0, 0], "device": ["a", "b", "c"], "value": [1.0, 2.0, 3.0]}
    with pytest.raises(ValueError, match="2 budgets for contributor number 3"):
        Pipeline(mixed).run(table)


def test_own_estimators_and_shufflers_take_part() -> None:
    """A function of one's own is called by its name; the shuffler's manifest is kept."""

    def largest(reports, /, *, randomizer, epsilon=None, rng=None):  # type: ignore[no-untyped-def]
        """Return the largest report."""
        return Estimate(float(np.max(reports)), 1.0, n=len(reports), method="largest", target="max")

    shuffler = Robust(alpha=1.0, group_count=2, partition=Partition([0, 0, 1, 1]))
    result = Pipeline(BR, shuffler, [largest, "median"]).run_round([1, 2, 3, 4])
    assert list(result.estimates) == ["largest", "median"]
    assert result.manifest.n == 4
    assert Pipeline(BR, MallowsShuffle(theta=0.5)).run_round([1, 2, 3]).manifest.method == "mallows"


@each_case("readings", [[], 5.0, [[1.0, 2.0]]])
def test_a_round_needs_one_row_of_readings(readings: object) -> None:
    """No readings, one number, and a matrix are refused."""
    with pytest.raises(ValueError, match="readings must be one row"):
        Pipeline(BR).run_round(readings)  # type: ignore[arg-type]


def test_unknown_and_missing_estimators_are_refused() -> None:
    """A wrong name is answered with the right ones."""
    with pytest.raises(ValueError, match="unbiased_mean"):
        Pipeline(BR, estimator="unbiased")
    with pytest.raises(ValueError, match="at least one estimator"):
        Pipeline(BR, estimator=[])


def test_the_pipeline_decodes_as_the_estimator_does_alone() -> None:
    """The pipeline adds nothing of its own to the mean."""
    source = SeededRandom(9)
    reports = BR.randomize(np.arange(100.0), rng=source)
    alone = unbiased_mean(reports, randomizer=BR)
    together = Pipeline(BR).release(reports, rng=source).estimate
    assert together.value == pytest.approx(alone.value)
    assert together.standard_error == pytest.approx(alone.standard_error)


def test_auto_follows_the_rounds_of_a_table() -> None:
    """By default each round borrows from those before; a round by itself is its unbiased mean."""
    table = {
        "time": [3600 * round for round in range(60) for _ in range(20)],
        "device": [f"d{device}" for _ in range(60) for device in range(20)],
        "value": [30.0] * 1200,
    }
    results = Pipeline(BR).run(table, rng=SeededRandom(2026))
    tracked, alone = results[-1].estimate, results[-1].alone
    assert alone is not None
    assert (tracked.method, alone.method) == ("auto", "unbiased_mean")
    assert tracked.standard_error < alone.standard_error / 2
    by_hand = Tracker(PUBLIC)
    for result in results:
        assert result.alone is not None
        assert result.start_ms is not None
        last = by_hand.update(result.start_ms / 1000, result.alone)
    # Without what rounds tell of their spread it is nearly the same.
    assert last.value == pytest.approx(tracked.value, abs=tracked.standard_error)
    single = Pipeline(BR).run_round([30.0] * 20, rng=SeededRandom(2026))
    assert single.estimates == {"auto": single.alone}
    other = Pipeline(BR, estimator="median").run_round([30.0] * 20, rng=SeededRandom(2026))
    assert other.alone is None
