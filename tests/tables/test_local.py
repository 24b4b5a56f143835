"""Runs on one machine: the same bits whatever the table's order, the threads and the memory."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.tables.tables import BR, PUBLIC, by_hand, columns_of, skewed, sorted_by, write_parts

from rase import (
    Hybrid,
    MallowsShuffle,
    Robust,
    RunPlan,
    SeededRandom,
    Uniform,
    run_table,
    unbiased_mean,
)
from rase.errors import DataError
from rase.series.rounds import RoundResult, Rounds
from rase.tables.files import find_files
from rase.tables.groups import GraphSettings
from rase.tables.layouts import Columns
from rase.tables.run import LocalRun, free_memory, run
from rase.tables.source import open_source

TABLE = skewed()
COMPRESSIONS = {"csv": None, "csv.gz": "gzip", "csv.bz2": "bz2", "csv.zst": "zstd"}
ESTIMATORS = ("tracked", "sample_mean", "median", "bootstrap_mean")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut into parts as a table a thousand times as large would be."""
    monkeypatch.setattr("rase.tables.parts._USUAL_ROWS", 500)
    monkeypatch.setattr("rase.tables.run.FEWEST_ROWS", 300)
    monkeypatch.setattr("rase.tables.run._ONE_PART_ROWS", 500)
    monkeypatch.setattr("rase.tables.store._PIECE_BYTES", 1 << 16)


def plan_of(**changes: Any) -> RunPlan:
    """Return a plan for rounds of five minutes."""
    settings: dict[str, Any] = {"randomizer": BR, "every": "5min", "estimator": ESTIMATORS}
    return RunPlan(**(settings | changes))


def ran(place: Any, *, workers: int = 1, memory_bytes: int = 1 << 30, **changes: Any) -> LocalRun:
    """Return a run of a table with a seed."""
    plan = plan_of(**changes)
    return run(place, plan, rng=SeededRandom(3), workers=workers, memory_bytes=memory_bytes)


def in_memory(table: Any = TABLE, **changes: Any) -> Rounds:
    """Return what columns in memory give."""
    return run_table(columns_of(table), plan_of(**changes), rng=SeededRandom(3))


@cache
def plain() -> list[RoundResult]:
    """Return what those of the plain table give, which many tests compare with: computed once."""
    return list(in_memory())


def test_a_run_is_what_the_rules_say() -> None:
    """Each round's mean is that of reports drawn one by one, from readings averaged by hand."""
    for result in plain():
        reports = EXPECTED[result.round or 0]
        alone = unbiased_mean(reports, randomizer=BR)
        assert result.n == len(reports)
        assert result.alone is not None
        assert result.alone.value == pytest.approx(alone.value, rel=1e-12)
        assert result.alone.standard_error == pytest.approx(alone.standard_error, rel=1e-12)
        assert result.estimates["sample_mean"].value == pytest.approx(np.mean(reports), rel=1e-12)
        assert result.estimates["median"].value == pytest.approx(np.median(reports), rel=1e-12)
    assert len(plain()) == len(EXPECTED) == 40


EXPECTED = by_hand(TABLE, seed=3, every_ms=300_000)


@pytest.mark.uncovered
@pytest.mark.parametrize("order", ["time", "device", "none"])
@pytest.mark.parametrize(("workers", "memory_bytes"), [(1, 1 << 30), (2, 200_000), (2, 1)])
def test_order_threads_and_memory_do_not_matter(
    order: str, workers: int, memory_bytes: int, tmp_path: Path
) -> None:
    """Sorted by time, by device or not at all, with 1 and 2 threads and any memory: same bits."""
    place = write_parts(sorted_by(TABLE, order), tmp_path / "table", parts=3, row_group=100)
    whole = ran(place, workers=workers, memory_bytes=memory_bytes)
    assert list(whole) == plain()
    if order != "time":
        assert (whole.spilled_bytes > 0) == (memory_bytes < 1 << 30)
    summary = whole.summary
    assert summary.rows == len(TABLE)
    assert summary.nulls == TABLE["value"].null_count
    assert summary.duplicates > 50
    assert summary.reports == sum(result.n for result in plain())
    assert summary.most_reports == 40
    assert summary.most_epsilon == 40.0
    assert summary.rounds == 40


def test_a_small_table_needs_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that fit one part are not sorted by rounds first, and give the same bits."""
    place = write_parts(sorted_by(TABLE, "none"), tmp_path / "table", parts=3, row_group=100)
    through_store = list(ran(place))
    monkeypatch.setattr("rase.tables.run._ONE_PART_ROWS", len(TABLE))
    monkeypatch.setattr("rase.tables.run.RowStore", None)
    assert list(ran(place)) == through_store == plain()


@pytest.mark.uncovered
@pytest.mark.parametrize("order", ["time", "none"])
def test_huge_rounds_are_drawn_in_slices(order: str, tmp_path: Path) -> None:
    """A round too large to be held is drawn in slices of its devices, to the same bits."""
    table = skewed(rounds=9, crowd=20_000)
    place = write_parts(sorted_by(table, order), tmp_path / "table", parts=2)
    some: dict[str, Any] = {"estimator": ("tracked", "unbiased_mean"), "truth": True}
    sliced = list(ran(place, workers=2, memory_bytes=1, **some))
    assert sliced == list(ran(place, **some)) == list(in_memory(table, **some))
    assert max(result.n for result in sliced) > 15_000


@pytest.mark.parametrize(
    "shuffler", [Robust(0.3, 16), MallowsShuffle(0.1)], ids=["robust", "mallows"]
)
def test_shufflers_are_told_in_the_manifest(shuffler: Any, tmp_path: Path) -> None:
    """What the shuffler of a round does is told; a mean does not depend on the order it leaves."""
    place = write_parts(sorted_by(TABLE, "device"), tmp_path / "table", parts=2)
    results = list(ran(place, workers=2, shuffler=shuffler))
    assert [result.manifest for result in results] == [
        shuffler.manifest_for(result.n) for result in results
    ]
    assert [result.estimates for result in results] == [result.estimates for result in plain()]


def test_other_mechanisms(tmp_path: Path) -> None:
    """Mechanisms that draw more words for some rows give the same reports as well."""
    place = write_parts(sorted_by(TABLE, "time"), tmp_path / "table", parts=2)
    hybrid = Hybrid(2.0, PUBLIC)
    results = list(ran(place, randomizer=hybrid))
    assert results == list(in_memory(randomizer=hybrid))
    expected = by_hand(TABLE, seed=3, every_ms=300_000, randomizer=hybrid)
    for result in results:
        mean = np.mean(expected[result.round or 0])
        assert result.estimates["sample_mean"].value == pytest.approx(mean, rel=1e-12)


@pytest.mark.uncovered
@pytest.mark.parametrize("ending", COMPRESSIONS)
def test_text_files(ending: str, tmp_path: Path) -> None:
    """The same table as text, plain or compressed, gives the same bits."""
    (tmp_path / "table").mkdir()
    ordered = sorted_by(TABLE, "time")
    for number, part in enumerate((ordered.slice(0, 1000), ordered.slice(1000))):
        path = str(tmp_path / "table" / f"{number}.{ending}")
        kind = COMPRESSIONS[ending]
        with pa.output_stream(path, compression=kind) as file:
            pyarrow.csv.write_csv(part, file)
    whole = ran(tmp_path / "table")
    assert list(whole) == plain()
    assert whole.summary.duplicates > 50


@pytest.mark.uncovered
def test_hive_partitions_and_globs(tmp_path: Path) -> None:
    """A column may lie in the folders' names; hidden files are left out; a glob chooses files."""
    for name in set(TABLE["device"].to_pylist()[:400]):
        folder = tmp_path / "table" / f"device={name}"
        folder.mkdir(parents=True)
        mine = TABLE.filter(pa.compute.equal(TABLE["device"], name)).drop_columns(["device"])
        pq.write_table(mine, folder / "part.parquet")
    (tmp_path / "table" / "_SUCCESS").touch()
    names = [path.name.removeprefix("device=") for path in (tmp_path / "table").glob("device=*")]
    some = TABLE.filter(pa.compute.is_in(TABLE["device"], pa.array(names)))
    expected = list(in_memory(some))
    assert list(ran(tmp_path / "table")) == expected
    glob = f"{tmp_path}/table/device=*/*.parquet"
    assert list(ran(glob)) == expected
    address = f"file://{tmp_path}/table"
    assert list(ran(address)) == expected
    glob = f"file://{tmp_path}/table/device=*/*.parquet"
    assert list(ran(glob)) == expected


@pytest.mark.uncovered
@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.large_string(), "dictionary"])
def test_kinds_of_devices(kind: Any, tmp_path: Path) -> None:
    """Whole numbers and all kinds of text name the same devices."""
    numbers = pa.array([int(name.removeprefix("meter-")) for name in TABLE["device"].to_pylist()])
    device = numbers.cast(pa.string()) if kind == "dictionary" else numbers.cast(kind)
    device = device.dictionary_encode() if kind == "dictionary" else device
    place = TABLE.schema.get_field_index("device")
    table = TABLE.set_column(place, "device", device)
    as_text = TABLE.set_column(place, "device", numbers.cast(pa.string()))
    folder = write_parts(table, tmp_path / "table", parts=2)
    assert list(ran(folder)) == list(in_memory(as_text))


def test_each_time_a_round(tmp_path: Path) -> None:
    """Without an interval each time is a round, from files as in memory."""
    place = write_parts(sorted_by(TABLE, "device"), tmp_path / "table", parts=2)
    settings: dict[str, Any] = {"every": None, "estimator": "unbiased_mean"}
    assert list(ran(place, **settings)) == list(in_memory(**settings))


def test_truth(tmp_path: Path) -> None:
    """True means are those of the readings, whatever the order."""
    found = []
    for order in ("time", "device"):
        place = write_parts(sorted_by(TABLE, order), tmp_path / order, parts=2)
        found.append([result.truth for result in ran(place, workers=2, truth=True)])
    assert found[0] == found[1]
    assert all(truth is not None and 30 < truth < 70 for truth in found[0])


def test_real_groups(tmp_path: Path) -> None:
    """Groups from a graph are cut for those who report, the same from Parquet and from text."""
    names = sorted({name for name in TABLE["device"].to_pylist() if name < "meter-01000"})
    edges = tuple((names[place], names[place + 1]) for place in range(0, len(names) - 1, 2))
    small = TABLE.filter(pa.compute.less(TABLE["device"], "meter-01000"))
    graph = GraphSettings(edges, 5.0, len(names) // 2)
    place = write_parts(sorted_by(small, "time"), tmp_path / "table", parts=2)
    settings: dict[str, Any] = {"graph": graph, "shuffler": Robust(5.0, len(names) // 2)}
    results = list(ran(place, workers=2, **settings))
    pyarrow.csv.write_csv(sorted_by(small, "time"), tmp_path / "table.csv")
    assert list(ran(tmp_path / "table.csv", **settings)) == results
    # Slices of devices do not lose who reports in a round.
    assert list(ran(tmp_path / "table.csv", memory_bytes=1, **settings)) == results
    assert {result.manifest.method for result in results} <= {"mallows", "uniform"}
    wrong = GraphSettings((("nobody", "noone"), ("meter-00001", "x")), 5.0, 2)
    with pytest.raises(DataError, match="names 1 devices that are not in the table"):
        list(ran(place, graph=wrong))


def test_secure_runs_differ(tmp_path: Path) -> None:
    """Without a seed nothing repeats.

    False alarms: below 1e-75. In a round of 20 reports or more two means are equal with probability
    below 0.01, for they spread over thousands of grid steps; all of 40 would have to be.
    """
    place = write_parts(TABLE, tmp_path / "table", parts=1)
    plan = plan_of(estimator="unbiased_mean")
    assert list(run(place, plan)) != list(run(place, plan))


def test_wrong_plans_are_refused() -> None:
    """What cannot be done is refused before a file is read."""
    for settings, message in (
        ({"every": "soon"}, "a duration must look like"),
        ({"window": 1}, "window must hold two rounds or more, got 1"),
        ({"estimator": "best"}, "estimator must be one of"),
        ({"estimator": []}, "estimator must name at least one"),
    ):
        with pytest.raises(ValueError, match=message):
            plan_of(**settings)
    assert isinstance(plan_of().shuffler, Uniform)


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    """So are numbers of threads and bytes below 1."""
    place = write_parts(TABLE, tmp_path / "table", parts=1)
    with pytest.raises(ValueError, match="workers must be at least 1, got 0"):
        run(place, plan_of(), workers=0)
    with pytest.raises(ValueError, match="memory_bytes must be at least 1, got 0"):
        run(place, plan_of(), memory_bytes=0)
    assert free_memory() > 1 << 20
    assert Columns() == ("time", "device", "value")


def test_a_source_may_be_opened_before(tmp_path: Path) -> None:
    """Files that were found, and a source that was opened, are run like their path."""
    place = write_parts(TABLE, tmp_path / "table", parts=2)
    files = find_files(str(place))
    assert list(ran(files)) == list(ran(open_source(files))) == plain()
