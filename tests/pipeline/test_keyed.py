"""The steps of a batch run: independent of batches and order, and the pipeline in memory."""

import numpy as np
import pytest
from tests.cases import each_case

from rase import BudgetAware, Laplace, Pipeline, Precision, Robust, SeededRandom, ValueRange
from rase.collect import Contributions
from rase.estimate.counted import COUNTED_FROM
from rase.kernels.keyed import RunKey
from rase.pipeline.keyed import DeviceTags, Reports, drawn_reports, round_result, rounds_of

PUBLIC = ValueRange(0, 100)
BR = BudgetAware(2.0, PUBLIC, Precision(0.5, 0.9))
KEY = RunKey(bytes(range(32)))


def reports_of(count: int, pipeline: Pipeline) -> Reports:
    """Draw the reports of some devices in four rounds."""
    some = Contributions(np.arange(count) % 4, np.arange(count), np.linspace(0, 100, count))
    devices = DeviceTags.of_names(KEY, [f"device {code}" for code in range(count)])
    return drawn_reports(pipeline, some, key=KEY, devices=devices)


@each_case("span", [1, 1 << 20, 1 << 40])
def test_in_order(span: int) -> None:
    """Reports are sorted by round and then key, near rounds and far ones."""
    rng = np.random.default_rng(1)
    rounds = span * rng.integers(-3, 3, 500)
    keys = rng.integers(0, 1 << 63, 500, dtype=np.uint64)
    found = Reports(rounds, keys, rng.uniform(size=500)).in_order()
    expected = np.lexsort((keys, rounds))
    assert (found.key == keys[expected]).all()
    assert (found.round == rounds[expected]).all()


@each_case("is_sorted", [True, False])
def test_large_rounds_in_order(is_sorted: bool) -> None:
    """A few large rounds are sorted one by one, to the same order."""
    rng = np.random.default_rng(1)
    rounds = rng.integers(-1, 2, 20_000)
    rounds = np.sort(rounds) if is_sorted else rounds
    keys = rng.integers(0, 1 << 63, 20_000, dtype=np.uint64)
    found = Reports(rounds, keys, keys.astype(float)).order()
    assert (found == np.lexsort((keys, rounds))).all()


def test_near_keys_are_told_apart() -> None:
    """Keys that agree in their leading bits are sorted by all of them."""
    keys = np.array([3, 2, 1, 0], dtype=np.uint64)
    found = Reports(np.array([1, 1, 0, 0]), keys, np.zeros(4)).in_order()
    assert found.key.tolist() == [0, 1, 2, 3]
    nothing = Reports(np.zeros(0, np.int64), keys[:0], np.zeros(0))
    assert len(nothing.in_order()) == len(nothing.order()) == 0
    assert list(rounds_of(nothing.round)) == []


@each_case("shuffler", [None, Robust(alpha=0.3, group_count=16)])
def test_rounds_do_not_depend_on_the_order_of_reports(shuffler: Robust | None) -> None:
    """However reports arrive, each round's result is the same, and every report is in one round."""
    pipeline = Pipeline(BR, shuffler, ["auto", "median", "bootstrap_mean"])
    reports = reports_of(400, pipeline)
    mixed = reports.chosen(np.random.default_rng(2).permutation(400))
    ran = []
    for some in (reports, Reports.joined([mixed.chosen(slice(0, 9)), mixed.chosen(slice(9, 400))])):
        ordered = some.in_order()
        ran.append(
            [
                round_result(
                    pipeline, number, reports=ordered.report[part], key=KEY, start_ms=number
                )
                for number, part in rounds_of(some.round)
            ]
        )
    assert ran[0] == ran[1]
    assert [result.n for result in ran[0]] == [100] * 4


def test_large_rounds_are_counted() -> None:
    """From 4096 reports on a round is counted; its mean is that of the reports one by one."""
    table = {
        "time": np.zeros(COUNTED_FROM),
        "device": np.arange(COUNTED_FROM),
        "value": np.linspace(0, 100, COUNTED_FROM),
    }
    (large,) = Pipeline(BR, estimator=["auto", "sample_mean"]).run(table, rng=SeededRandom(1))
    assert abs(large.estimate.value - 50) < 7 * large.estimate.standard_error
    assert large.spread == pytest.approx(100**2 / 12, rel=0.5)
    (unknown,) = Pipeline(Laplace(2.0, PUBLIC), estimator="median").run(table, rng=SeededRandom(1))
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
    pipeline = Pipeline(BR)
    one = pipeline.run(
        {"time": time, "device": device, "value": value}, every="5min", rng=SeededRandom(1)
    )
    assert pipeline.run(again, every="5min", rng=SeededRandom(1)) == one


def test_a_source_used_twice_draws_other_noise() -> None:
    """A second run with one source of study goes on with it, as everywhere."""
    table = {"time": [0, 0], "device": ["a", "b"], "value": [1.0, 2.0]}
    rng = SeededRandom(1)
    assert Pipeline(BR).run(table, rng=rng) != Pipeline(BR).run(table, rng=rng)
