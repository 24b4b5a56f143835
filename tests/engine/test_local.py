"""The local engine: the same bits as the pipeline in memory, whatever the table and the machine."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.engine.tables import BR, PUBLIC, columns_of, skewed, sorted_by, write_parts

from rase import Hybrid, MallowsShuffle, Pipeline, Robust, SeededRandom, Uniform
from rase.engine.files import Columns, find_files
from rase.engine.footers import row_groups
from rase.engine.job import GraphSettings, Job
from rase.engine.local import free_memory, run_local
from rase.engine.pieces import plan_pieces
from rase.errors import DataError
from rase.pipeline import RoundResult

TABLE = skewed()
COMPRESSIONS = {"csv": None, "csv.gz": "gzip", "csv.bz2": "bz2", "csv.zst": "zstd"}
ESTIMATORS = ("auto", "sample_mean", "median", "bootstrap_mean")


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut into pieces and buckets as a table a thousand times as large would be."""
    monkeypatch.setattr("rase.engine.pieces._PIECE_ROWS", 500)
    monkeypatch.setattr("rase.engine.pieces.BUCKET_ROWS", 700)
    monkeypatch.setattr("rase.engine.buckets._FEWEST_ROWS", 300)


def job_of(place: Path | str, **changes: Any) -> Job:
    """Return a job over a table."""
    settings: dict[str, Any] = {"randomizer": BR, "every": "5min", "estimators": ESTIMATORS}
    source = find_files(str(place), skips_bad=changes.pop("skips_bad", False))
    return Job(source=source, **(settings | changes))


def in_memory(table: Any = TABLE, **changes: Any) -> list[RoundResult]:
    """Return what the pipeline in memory says."""
    settings: dict[str, Any] = {"randomizer": BR, "shuffler": None, "estimator": list(ESTIMATORS)}
    pipeline = Pipeline(**(settings | changes))
    return pipeline.run(columns_of(table), every="5min", rng=SeededRandom(3))


@cache
def plain() -> list[RoundResult]:
    """Return what it says of the plain table, which many tests compare with: computed once."""
    return in_memory()


@pytest.mark.uncovered
@pytest.mark.parametrize("order", ["time", "device", "none"])
@pytest.mark.parametrize(("workers", "memory_bytes"), [(1, 1 << 30), (2, 200_000), (2, 1)])
def test_equals_the_pipeline_in_memory(
    order: str, workers: int, memory_bytes: int, tmp_path: Path
) -> None:
    """Sorted by time, by device or not at all, with 1 and 2 threads and any memory: same bits."""
    place = write_parts(sorted_by(TABLE, order), tmp_path / "table", parts=3)
    run = run_local(job_of(place), rng=SeededRandom(3), workers=workers, memory_bytes=memory_bytes)
    assert list(run) == plain()
    assert (run.spilled_bytes > 0) == (memory_bytes < 1 << 30)
    summary = run.summary
    assert summary.rows == len(TABLE)
    assert summary.nulls == TABLE["value"].null_count
    assert summary.duplicates > 50
    assert summary.reports == sum(result.n for result in plain())
    assert summary.most_reports == 40
    assert summary.most_epsilon == 40.0
    assert summary.rounds == 40


@pytest.mark.uncovered
@pytest.mark.parametrize("memory_bytes", [1 << 30, 1])
def test_huge_rounds_are_cut_by_the_shuffle_key(
    memory_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round too large to be held is counted in shards, to the same bits."""
    monkeypatch.setattr("rase.engine.kernel.COUNTED_FROM", 1000)
    table = skewed(rounds=9, crowd=20_000)
    place = write_parts(sorted_by(table, "time"), tmp_path / "table", parts=2)
    job = job_of(place, estimators=("auto", "unbiased_mean"), truth=True)
    assert plan_pieces(row_groups(job.source)[0], job.interval_ms).shards > 1
    run = list(run_local(job, rng=SeededRandom(3), workers=2, memory_bytes=memory_bytes))
    monkeypatch.setattr("rase.engine.pieces._MOST_BUCKETS", 1 << 20)
    whole = list(run_local(job, rng=SeededRandom(3), workers=2))
    assert run == whole
    expected = in_memory(table, estimator=["auto", "unbiased_mean"])
    assert [replace(result, truth=None) for result in run] == expected
    assert max(result.n for result in run) > 15_000


@pytest.mark.uncovered
@pytest.mark.parametrize(
    "shuffler", [Robust(0.3, 16), MallowsShuffle(0.1)], ids=["robust", "mallows"]
)
def test_orders_of_arrival(shuffler: Any, tmp_path: Path) -> None:
    """Where the order of arrival counts, devices stand in one order on every engine."""
    place = write_parts(sorted_by(TABLE, "device"), tmp_path / "table", parts=2)
    run = run_local(job_of(place, shuffler=shuffler), rng=SeededRandom(3), workers=2)
    assert list(run) == in_memory(shuffler=shuffler)


def test_other_mechanisms(tmp_path: Path) -> None:
    """Mechanisms that draw more words for some rows give the same reports as well."""
    place = write_parts(sorted_by(TABLE, "time"), tmp_path / "table", parts=2)
    hybrid = Hybrid(2.0, PUBLIC)
    run = run_local(job_of(place, randomizer=hybrid), rng=SeededRandom(3))
    assert list(run) == in_memory(randomizer=hybrid)


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
    run = run_local(job_of(tmp_path / "table"), rng=SeededRandom(3))
    assert list(run) == plain()
    assert run.summary.duplicates > 50


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
    expected = in_memory(some)
    assert list(run_local(job_of(tmp_path / "table"), rng=SeededRandom(3))) == expected
    glob = f"{tmp_path}/table/device=*/*.parquet"
    assert list(run_local(job_of(glob), rng=SeededRandom(3))) == expected
    address = f"file://{tmp_path}/table"
    assert list(run_local(job_of(address), rng=SeededRandom(3))) == expected
    glob = f"file://{tmp_path}/table/device=*/*.parquet"
    assert list(run_local(job_of(glob), rng=SeededRandom(3))) == expected


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
    assert list(run_local(job_of(folder), rng=SeededRandom(3))) == in_memory(as_text)


def test_each_time_a_round(tmp_path: Path) -> None:
    """Without an interval each time is a round, on the engine as in memory."""
    place = write_parts(sorted_by(TABLE, "device"), tmp_path / "table", parts=2)
    run = run_local(job_of(place, every=None, estimators=("unbiased_mean",)), rng=SeededRandom(3))
    pipeline = Pipeline(BR, estimator="unbiased_mean")
    assert list(run) == pipeline.run(columns_of(TABLE), rng=SeededRandom(3))


def test_truth(tmp_path: Path) -> None:
    """True means do not depend on the engine either; they are those of the readings."""
    found = []
    for order in ("time", "device"):
        place = write_parts(sorted_by(TABLE, order), tmp_path / order, parts=2)
        run = run_local(job_of(place, truth=True), rng=SeededRandom(3), workers=2)
        found.append([result.truth for result in run])
    assert found[0] == found[1]
    assert all(truth is not None and 30 < truth < 70 for truth in found[0])


def test_real_groups(tmp_path: Path) -> None:
    """Groups from a graph are cut for those who report, the same from Parquet and from text."""
    names = sorted({name for name in TABLE["device"].to_pylist() if name < "meter-01000"})
    edges = tuple((names[place], names[place + 1]) for place in range(0, len(names) - 1, 2))
    small = TABLE.filter(pa.compute.less(TABLE["device"], "meter-01000"))
    graph = GraphSettings(edges, 5.0, len(names) // 2)
    place = write_parts(sorted_by(small, "time"), tmp_path / "table", parts=2)
    settings = {"graph": graph, "shuffler": Robust(5.0, len(names) // 2)}
    run = list(run_local(job_of(place, **settings), rng=SeededRandom(3), workers=2))
    pyarrow.csv.write_csv(sorted_by(small, "time"), tmp_path / "table.csv")
    assert list(run_local(job_of(tmp_path / "table.csv", **settings), rng=SeededRandom(3))) == run
    assert {result.manifest.method for result in run} <= {"mallows", "uniform"}
    wrong = GraphSettings((("nobody", "noone"), ("meter-00001", "x")), 5.0, 2)
    with pytest.raises(DataError, match="names 1 devices that are not in the table"):
        list(run_local(job_of(place, graph=wrong)))


def test_secure_runs_differ(tmp_path: Path) -> None:
    """Without a seed nothing repeats."""
    place = write_parts(TABLE, tmp_path / "table", parts=1)
    job = job_of(place, estimators=("unbiased_mean",))
    assert list(run_local(job)) != list(run_local(job))


def test_arguments(tmp_path: Path) -> None:
    """Wrong arguments are refused before a file is read."""
    place = write_parts(TABLE, tmp_path / "table", parts=1)
    for settings, message in (
        ({"every": "soon"}, "a duration must look like"),
        ({"window": 1}, "window must hold two rounds or more, got 1"),
        ({"estimators": ("best",)}, "estimator must be one of"),
    ):
        with pytest.raises(ValueError, match=message):
            job_of(place, **settings)
    with pytest.raises(ValueError, match="workers must be at least 1, got 0"):
        run_local(job_of(place), workers=0)
    with pytest.raises(ValueError, match="memory_bytes must be at least 1, got 0"):
        run_local(job_of(place), memory_bytes=0)
    assert free_memory() > 1 << 20
    assert Columns().names == ("time", "device", "value")
    assert isinstance(job_of(place).shuffler, Uniform)
