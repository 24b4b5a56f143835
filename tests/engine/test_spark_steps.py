"""What executors do, here without Spark: Arrow in, Arrow out, the same bits as elsewhere."""

import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.engine.tables import BR, skewed, sorted_by, write_parts

import rase
from rase import SeededRandom
from rase.engine.files import Files, find_files
from rase.engine.footers import row_groups
from rase.engine.job import GraphSettings, Job
from rase.engine.kernel import Kernel
from rase.engine.local import run_local
from rase.engine.packed import unpack
from rase.engine.pieces import plan_pieces
from rase.engine.spark_steps import SENT, Steps, Told, code_hash, piece_table
from rase.errors import DataError
from rase.estimate.tracker import Tracker
from rase.kernels.keyed import RunKey

TABLE = skewed()


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut small, into many blobs."""
    monkeypatch.setattr("rase.engine.pieces._PIECE_ROWS", 500)
    monkeypatch.setattr("rase.engine.pieces.BUCKET_ROWS", 700)
    monkeypatch.setattr("rase.engine.spark_steps._BLOB_REPORTS", 50)


def steps_of(job: Job, *, seed: int = 3, **changes: Any) -> tuple[Steps, tuple[Any, ...]]:
    """Return the steps of a job and its pieces."""
    groups, _ = row_groups(job.source)
    plan = plan_pieces(groups, job.interval_ms, most_rows=1 << 20)
    shards = changes.pop("shards", 1)
    kernel = Kernel(
        job.pipeline,
        job.interval_ms,
        plan.bucket_rounds,
        truth=job.truth,
        has_groups=job.graph is not None,
        shards=shards,
    )
    key = RunKey.drawn(SeededRandom(seed))
    return Steps(kernel=kernel, key=key, device_bits=2, **changes), plan.pieces


def drawn(steps: Steps, source: Files, pieces: tuple[Any, ...]) -> Any:
    """Return all that is sent between the steps."""
    batches = iter(piece_table(source, pieces).to_batches(max_chunksize=1))
    return pa.Table.from_batches(list(steps.draw(batches)), schema=SENT)


def told_of(steps: Steps, sent: Any) -> Told:
    """Group as Spark does, here in the order of arrival, and estimate."""
    if steps.kernel.shards > 1:
        parts = partitions(sent, "kind", "number", "shard")
        sent = pa.Table.from_batches(
            batch
            for part in parts
            for batch in steps.each(steps.gather, part, by=("kind", "number", "shard"))
        )
    told = pa.Table.from_batches(
        batch
        for part in partitions(sent, "kind", "number")
        for batch in steps.each(steps.estimate, part, by=("kind", "number"))
    )
    return Told.of(told, lists_devices=steps.lists_devices)


def partitions(rows: Any, *by: str) -> list[Any]:
    """Return rows in three partitions by their groups, in small batches."""
    places: dict[int, list[int]] = {}
    for row, name in enumerate(zip(*(rows[name].to_pylist() for name in by), strict=True)):
        places.setdefault(sum(name) % 3, []).append(row)
    return [iter(rows.take(some).to_batches(max_chunksize=7)) for some in places.values()]


def job_of(place: Path, **changes: Any) -> Job:
    """Return a job over a table."""
    settings: dict[str, Any] = {"randomizer": BR, "every": "5min", "estimators": ("auto", "median")}
    source = find_files(str(place), skips_bad=changes.pop("skips_bad", False))
    return Job(source=source, **(settings | changes))


@pytest.mark.uncovered
@pytest.mark.parametrize("order", ["time", "device"])
@pytest.mark.parametrize("truth", [False, True])
def test_equals_the_local_engine(order: str, truth: bool, tmp_path: Path) -> None:
    """Sent in any order and in small blobs: results and counts are those of the local engine."""
    place = write_parts(sorted_by(TABLE, order), tmp_path / "table", parts=3)
    job = job_of(place, truth=truth)
    local = run_local(job, rng=SeededRandom(3))
    expected = list(local)
    steps, pieces = steps_of(job)
    sent = drawn(steps, job.source, pieces)
    backwards = sent.take(list(range(len(sent)))[::-1])
    for rows in (sent, backwards):
        told = told_of(steps, rows)
        results = sorted(told.results, key=lambda result: result.round or 0)
        tracker = Tracker(BR.value_range)
        assert [result.tracked(tracker) for result in results] == expected
        summary = local.summary
        assert (told.devices, told.most_reports) == (summary.devices, summary.most_reports)
        assert (told.tally.rows, told.tally.nulls) == (summary.rows, summary.nulls)
        assert (told.tally.reports, told.tally.clipped) == (summary.reports, summary.clipped)
        assert told.tally.duplicates == summary.duplicates
        assert told.refusal is None


@pytest.mark.parametrize("shards", [2, 8])
def test_rounds_in_shards(shards: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round that no executor holds whole gives the same bits from its shards."""
    monkeypatch.setattr("rase.engine.kernel.COUNTED_FROM", 100)
    monkeypatch.setattr("rase.pipeline.keyed.COUNTED_FROM", 100)
    place = write_parts(sorted_by(TABLE, "device"), tmp_path / "table", parts=2)
    job = job_of(place, estimators=("unbiased_mean",), truth=True)
    expected = list(run_local(job, rng=SeededRandom(3)))
    steps, pieces = steps_of(job, shards=shards)
    told = told_of(steps, drawn(steps, job.source, pieces))
    found = {result.round: result for result in told.results}
    assert found == {result.round: result for result in expected}
    assert max(result.n for result in expected) > 1000


def test_drawn_again_it_is_the_same(tmp_path: Path) -> None:
    """A piece that another executor draws again is the same; with another key it is not."""
    job = job_of(write_parts(TABLE, tmp_path / "table", parts=1))
    steps, pieces = steps_of(job)
    assert drawn(steps, job.source, pieces).equals(drawn(steps, job.source, pieces))
    other, _ = steps_of(job, seed=4)
    assert not drawn(steps, job.source, pieces).equals(drawn(other, job.source, pieces))


def test_no_reading_is_sent(tmp_path: Path) -> None:
    """What is sent holds no reading, but for values that reports and readings share."""
    job = job_of(write_parts(TABLE, tmp_path / "table", parts=1), every=None)
    steps, pieces = steps_of(job)
    sent = drawn(steps, job.source, pieces)
    blobs = [blob.as_py() for blob in sent["reports"] if len(blob.as_py())]
    # As they are packed, and from wherever a number could begin.
    inside = [
        np.frombuffer(blob[at:][: (len(blob) - at) // 8 * 8]) for blob in blobs for at in (0, 4)
    ]
    reports = np.concatenate([unpack(blob).report for blob in blobs] + inside)
    readings = np.array([value for value in TABLE["value"].to_pylist() if value is not None])
    # Reports lie on 4097 places of the range; of these, 17 have two decimals as readings have.
    shared = set(readings) & set(reports)
    assert len(set(readings)) > 2000
    assert len(shared) <= 17
    counts = b"".join(tally.as_py() for tally in sent["tally"].drop_null())
    assert not [value for value in set(readings) - shared if struct.pack("<d", value) in counts]


def test_two_answers_about_one_group_are_refused(tmp_path: Path) -> None:
    """An engine that tears a group apart gives no results at all."""
    job = job_of(write_parts(TABLE, tmp_path / "table", parts=1))
    steps, pieces = steps_of(job)
    torn = drawn(steps, job.source, pieces).to_batches(max_chunksize=7)
    halves = [
        pa.Table.from_batches(steps.each(steps.estimate, iter(part), by=("kind", "number")))
        for part in (torn[::2], torn[1::2])
    ]
    with pytest.raises(RuntimeError, match="must lie in one partition, got two answers"):
        Told.of(pa.concat_tables(halves))


def test_refusals_travel(tmp_path: Path) -> None:
    """A row that cannot be used becomes a refusal, the first of all pieces."""
    values = [float("nan") if row % 2000 == 1000 else 1.0 for row in range(len(TABLE))]
    bad = TABLE.set_column(2, "value", [values])
    job = job_of(write_parts(bad, tmp_path / "table", parts=3))
    steps, pieces = steps_of(job)
    told = told_of(steps, drawn(steps, job.source, pieces))
    assert "must hold finite" in (told.refusal or "")
    with pytest.raises(DataError) as raised:
        list(run_local(job, workers=1))
    assert told.refusal == str(raised.value)


def test_what_was_skipped_is_told(tmp_path: Path) -> None:
    """Row groups that cannot be read are named by their place in the whole table."""
    place = write_parts(sorted_by(TABLE, "time"), tmp_path / "table", parts=3)
    path = place / "part-01.parquet"
    content = bytearray(path.read_bytes())
    content[10:2000] = bytes(1990)
    path.write_bytes(content)
    job = job_of(place, skips_bad=True)
    steps, pieces = steps_of(job)
    told = told_of(steps, drawn(steps, job.source, pieces))
    assert told.reading["skipped"]
    assert {file for file, _ in told.reading["skipped"]} == {1}
    assert told.reading["zones"] == []


def test_devices_are_listed_for_groups(tmp_path: Path) -> None:
    """Real groups need all devices; with them, rounds are shuffled as on one machine."""
    names = sorted({name for name in TABLE["device"].to_pylist() if name < "meter-01000"})
    edges = tuple((names[place], names[place + 1]) for place in range(0, len(names) - 1, 2))
    small = TABLE.filter(pa.compute.less(TABLE["device"], "meter-01000"))
    graph = GraphSettings(edges, 5.0, len(names) // 2)
    job = job_of(write_parts(small, tmp_path / "table", parts=2), graph=graph)
    steps, pieces = steps_of(job, lists_devices=True)
    told = told_of(steps, drawn(steps, job.source, pieces))
    assert len(told.all_devices) == len(names)
    steps, pieces = steps_of(job, groups=graph.groups(told.all_devices))
    told = told_of(steps, drawn(steps, job.source, pieces))
    expected = list(run_local(job, rng=SeededRandom(3)))
    found = {result.round: result.estimates["median"] for result in told.results}
    assert found == {result.round: result.estimates["median"] for result in expected}


def test_the_code_that_is_compared_is_all_that_decides_on_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change is noticed wherever readings are averaged, drawn, shuffled or estimated."""
    package = tmp_path / "rase"
    shutil.copytree(Path(rase.__file__).parent, package, ignore=shutil.ignore_patterns("static"))
    monkeypatch.setattr(rase, "__file__", str(package / "__init__.py"))
    found = {code_hash.__wrapped__()}
    changed = (
        "collect.py",
        "stream.py",
        "kernels/keyed.py",
        "pipeline/keyed.py",
        "engine/kernel.py",
    )
    for name in changed:
        with (package / name).open("a", encoding="utf-8") as file:
            file.write("# another version\n")
        found.add(code_hash.__wrapped__())
    assert len(found) == 1 + len(changed)


def test_other_code_draws_nothing(tmp_path: Path) -> None:
    """An executor with other code than the driver's stops before it draws other noise."""
    job = job_of(write_parts(TABLE, tmp_path / "table", parts=1))
    steps, pieces = steps_of(job)
    sent = drawn(steps, job.source, pieces)
    other, _ = steps_of(job, code="of another version")
    message = "executors must run the code of the driver"
    with pytest.raises(RuntimeError, match=message):
        drawn(other, job.source, pieces)
    for step in (other.gather, other.estimate):
        with pytest.raises(RuntimeError, match=message):
            step(sent)


def test_the_key_is_never_shown(tmp_path: Path) -> None:
    """Steps, as they may stand in a log, hide the key."""
    steps, _ = steps_of(job_of(write_parts(TABLE, tmp_path / "table", parts=1)))
    assert "key=RunKey(...)" in repr(steps)
