"""What executors do, here without Spark: Arrow in, Arrow out, the same bits as elsewhere."""

import pickle
import shutil
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.tables.tables import BR, skewed, sorted_by, write_parts

import rase
from rase import RunPlan, SeededRandom, SquareWave
from rase.errors import DataError
from rase.kernels.keyed import RunKey
from rase.series.tracker import Tracker
from rase.tables.budgets import BudgetClasses
from rase.tables.files import Files, find_files
from rase.tables.groups import GraphSettings
from rase.tables.parquet import row_groups
from rase.tables.parts import Part, cut_anyway
from rase.tables.readings import KeyedRows
from rase.tables.rounds import Collected, draw
from rase.tables.run import regroup, run
from rase.tables.source import open_source
from rase.tables.spark_steps import Answer, Kind, Steps, Want, code_hash, part_table

TABLE = skewed()


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut small."""
    monkeypatch.setattr("rase.tables.parts._USUAL_ROWS", 500)
    monkeypatch.setattr("rase.tables.run._ONE_PART_ROWS", 500)


def plan_of(**changes: Any) -> RunPlan:
    """Return a plan for rounds of five minutes."""
    settings: dict[str, Any] = {
        "randomizer": BR,
        "every": "5min",
        "estimator": ("tracked", "median"),
        # Each round as it was known when it came: steps make rounds, they do not look back.
        "as_known_then": True,
    }
    return RunPlan(**(settings | changes))


def steps_of(plan: RunPlan, *, seed: int = 3, want: Want = Want.RESULTS, **changes: Any) -> Steps:
    """Return the steps of a plan."""
    settings: dict[str, Any] = {"device_bits": 2 if want is Want.RESULTS else 0}
    return Steps(want, plan=plan, key=RunKey.draw_key(SeededRandom(seed)), **(settings | changes))


def parts_of(files: Files, plan: RunPlan, *, most_rows: int = 1 << 20) -> list[Part]:
    """Return the parts of a table."""
    return cut_anyway(row_groups(files)[0], plan.interval_ms, most_rows=most_rows)


def worked(steps: Steps, files: Files, parts: list[Part]) -> Any:
    """Return all that the executors send after the first step, a task for each part."""
    batches = part_table(files, parts).to_batches(max_chunksize=1)
    return pa.Table.from_batches([row for batch in batches for row in steps.work(iter([batch]))])


def answered(steps: Steps, sent: Any, *, parts: int) -> Answer:
    """Group as Spark does, here in the order of arrival, and add up."""
    if steps.device_bits:
        places: dict[int, list[int]] = {}
        pairs = zip(sent["kind"].to_pylist(), sent["number"].to_pylist(), strict=True)
        for row, pair in enumerate(pairs):
            places.setdefault(sum(pair) % 3, []).append(row)
        sent = pa.Table.from_batches(
            batch
            for some in places.values()
            for batch in steps.reduce(iter(sent.take(some).to_batches(max_chunksize=7)))
        )
    return Answer.of(sent, parts=parts)


@pytest.mark.uncovered
@pytest.mark.parametrize("order", ["time", "device", "none"])
@pytest.mark.parametrize("truth", [False, True])
def test_equals_a_run_on_one_machine(order: str, truth: bool, tmp_path: Path) -> None:
    """Answered in any order: results and counts are those of a run on one machine."""
    files = find_files(
        str(write_parts(sorted_by(TABLE, order), tmp_path / "table", parts=3, row_group=100))
    )
    plan = plan_of(truth=truth)
    local = run(files, plan, rng=SeededRandom(3))
    expected = list(local)
    steps, parts = steps_of(plan), parts_of(files, plan)
    assert len(parts) > 1
    sent = worked(steps, files, parts)
    backwards = sent.take(list(range(len(sent)))[::-1])
    for rows in (sent, backwards):
        answer = answered(steps, rows, parts=len(parts))
        results = sorted(answer.part.results, key=lambda result: result.round or 0)
        tracker = Tracker(BR.domain)
        assert [result.tracked(tracker) for result in results] == expected
        summary, tally = local.summary, answer.part.tally
        assert (answer.devices, answer.most_reports) == (summary.devices, summary.most_reports)
        assert (tally.rows, tally.nulls) == (summary.rows, summary.nulls)
        assert (tally.reports, tally.clipped) == (summary.reports, summary.clipped)
        assert tally.duplicates == summary.duplicates
        assert answer.refusal is None


@pytest.mark.parametrize("most_rows", [200, 700])
def test_rounds_in_slices(most_rows: int, tmp_path: Path) -> None:
    """A round of more rows than an executor may hold gives the same bits, slice by slice."""
    place = write_parts(sorted_by(TABLE, "time"), tmp_path / "table", parts=2, row_group=100)
    files, plan = find_files(str(place)), plan_of(estimator="unbiased_mean", truth=True)
    expected = list(run(files, plan, rng=SeededRandom(3)))
    steps, parts = steps_of(plan), parts_of(files, plan, most_rows=most_rows)
    assert max(part.slices for part in parts) > 1
    answer = answered(steps, worked(steps, files, parts), parts=len(parts))
    found = {result.round: result for result in answer.part.results}
    assert found == {result.round: result for result in expected}
    assert max(result.n for result in expected) > 1000


def test_budgets_are_counted_by_device(tmp_path: Path) -> None:
    """What each device spent is added up over parts, where devices differ in epsilon."""
    budgets = BudgetClasses({"meter-00001": 0.25, "meter-00002": 0.5}, 1.0)
    files, plan = (
        find_files(str(write_parts(TABLE, tmp_path / "t", parts=2))),
        plan_of(budgets=budgets),
    )
    local = run(files, plan, rng=SeededRandom(3))
    expected = {result.round: result.alone for result in local}
    steps, parts = steps_of(plan), parts_of(files, plan)
    answer = answered(steps, worked(steps, files, parts), parts=len(parts))
    assert {result.round: result.alone for result in answer.part.results} == expected
    assert answer.most_epsilon == local.summary.most_epsilon == 40.0


def test_counts_of_rounds_with_their_own_range(tmp_path: Path) -> None:
    """Where the driver chose a range for each round, executors send counts drawn by it."""
    files = find_files(str(write_parts(TABLE, tmp_path / "table", parts=2)))
    plan = plan_of(randomizer=SquareWave(1.0, BR.domain))
    parts = parts_of(files, plan)
    asked = steps_of(plan, want=Want.ROUNDS)
    rounds = answered(asked, worked(asked, files, parts), parts=len(parts))
    assert sorted(rounds.rounds) == list(range(40))
    assert rounds.part.tally.rows == len(TABLE)
    laws = {
        number: SquareWave(1.0, rase.Range(0, 50 + 10 * (number % 2))) for number in range(3, 9)
    }
    steps = steps_of(plan, want=Want.COUNTS, randomizers=laws)
    answer = answered(steps, worked(steps, files, parts), parts=len(parts))
    key = RunKey.draw_key(SeededRandom(3))
    rows = KeyedRows.joined([chunk.keyed(key, plan) for chunk in open_source(files).chunks()])
    held = Collected.of(plan, rows).in_order().between(3, 8)
    expected = draw(plan, held, key=key, randomizer_of=laws.__getitem__)
    found = {
        number: (counts.places.tolist(), counts.counts.tolist())
        for drawn in answer.drawn
        for number, counts in zip(drawn.rounds.tolist(), drawn.each_round(), strict=True)
    }
    assert found == {
        number: (counts.places.tolist(), counts.counts.tolist())
        for number, counts in zip(expected.rounds.tolist(), expected.each_round(), strict=True)
    }


def test_names_of_devices(tmp_path: Path) -> None:
    """Names are found by the executors, for limits that owners set by name."""
    files = find_files(str(write_parts(TABLE, tmp_path / "table", parts=2)))
    steps, parts = Steps(Want.NAMES, plan=None, key=None), parts_of(files, plan_of())
    answer = answered(steps, worked(steps, files, parts), parts=len(parts))
    assert answer.names == set(TABLE["device"].to_pylist())
    with pytest.raises(ValueError, match="a plan and a key must be given"):
        worked(Steps(Want.RESULTS, plan=None, key=None), files, parts)


def test_worked_again_it_is_the_same(tmp_path: Path) -> None:
    """A part that another executor works off again is the same; with another key it is not."""
    files, plan = find_files(str(write_parts(TABLE, tmp_path / "t", parts=1))), plan_of()
    steps, parts = steps_of(plan), parts_of(files, plan)

    def results(steps: Steps) -> Any:
        return answered(steps, worked(steps, files, parts), parts=len(parts)).part.results

    assert results(steps) == results(steps)
    assert results(steps) != results(steps_of(plan, seed=4))


def test_no_reading_is_sent(tmp_path: Path) -> None:
    """What is sent holds no reading, wherever a number could begin."""
    files = find_files(str(write_parts(TABLE, tmp_path / "table", parts=1)))
    plan = plan_of(every=None)
    readings = {value for value in TABLE["value"].to_pylist() if value is not None}
    for want in (Want.RESULTS, Want.COUNTS, Want.ROUNDS):
        laws = None
        if want is Want.COUNTS:
            laws = {1000 * second: BR for second in range(12_100)}
        steps = steps_of(plan, want=want, randomizers=laws)
        sent = worked(steps, files, parts_of(files, plan))
        content = b"".join(blob.as_py() for blob in sent["content"])
        found = [value for value in readings if struct.pack("<d", value) in content]
        # Estimates lie on the places of the range as well; few of these have two decimals.
        assert len(found) <= 17
        assert len(readings) > 2000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows + rows[-1:], "must lie in one partition, got two answers"),
        (lambda rows: rows[:-1], "every part must be answered"),
    ],
)
def test_answers_that_are_not_one_each_are_refused(
    change: Any, message: str, tmp_path: Path
) -> None:
    """An engine that tears rows apart, repeats or loses them gives no results at all."""
    files, plan = find_files(str(write_parts(TABLE, tmp_path / "t", parts=1))), plan_of()
    steps, parts = steps_of(plan, device_bits=0), parts_of(files, plan)
    rows = sorted(worked(steps, files, parts).to_pylist(), key=lambda row: row["kind"])
    assert rows[-1]["kind"] == Kind.READING
    sent = worked(steps, files, parts).schema
    with pytest.raises(RuntimeError, match=message):
        Answer.of(pa.Table.from_pylist(change(rows), schema=sent), parts=len(parts))


def test_counts_of_devices_that_were_torn_apart_are_refused(tmp_path: Path) -> None:
    """Devices counted in two partitions would be counted twice."""
    place = write_parts(sorted_by(TABLE, "time"), tmp_path / "t", parts=1, row_group=100)
    files, plan = find_files(str(place)), plan_of()
    steps, parts = steps_of(plan), parts_of(files, plan)
    rows = worked(steps, files, parts)
    middle = len(rows) // 2
    halves = [
        pa.Table.from_batches(steps.reduce(iter(half.to_batches())))
        for half in (rows.slice(0, middle), rows.slice(middle))
    ]
    with pytest.raises(RuntimeError, match="must lie in one partition, got two answers"):
        Answer.of(pa.concat_tables(halves), parts=len(parts))


def test_refusals_travel(tmp_path: Path) -> None:
    """A row that cannot be used becomes a refusal, the first of all parts."""
    values = [float("nan") if row % 2000 == 1000 else 1.0 for row in range(len(TABLE))]
    bad = TABLE.set_column(2, "value", [values])
    files, plan = find_files(str(write_parts(bad, tmp_path / "table", parts=3))), plan_of()
    steps, parts = steps_of(plan), parts_of(files, plan)
    answer = answered(steps, worked(steps, files, parts), parts=len(parts))
    assert "must hold finite" in (answer.refusal or "")
    with pytest.raises(DataError) as raised:
        list(run(files, plan, workers=1))
    assert answer.refusal == str(raised.value)


def test_what_was_skipped_is_told(tmp_path: Path) -> None:
    """Row groups that cannot be read are named by their place in the whole table."""
    place = write_parts(sorted_by(TABLE, "time"), tmp_path / "table", parts=3)
    path = place / "part-01.parquet"
    content = bytearray(path.read_bytes())
    content[10:2000] = bytes(1990)
    path.write_bytes(content)
    files, plan = find_files(str(place), skips_bad=True), plan_of()
    steps, parts = steps_of(plan), parts_of(files, plan)
    answer = answered(steps, worked(steps, files, parts), parts=len(parts))
    assert {file for file, _ in answer.skipped} == {1}
    assert answer.zones == set()


def test_real_groups_are_those_of_who_reports(tmp_path: Path) -> None:
    """Executors tell who reports in a round, and rounds are shuffled as on one machine."""
    names = sorted({name for name in TABLE["device"].to_pylist() if name < "meter-01000"})
    edges = tuple((names[place], names[place + 1]) for place in range(0, len(names) - 1, 2))
    small = TABLE.filter(pa.compute.less(TABLE["device"], "meter-01000"))
    graph = GraphSettings(edges, 5.0, len(names) // 2)
    files = find_files(str(write_parts(small, tmp_path / "table", parts=2)))
    plan = plan_of(graph=graph)
    steps, parts = steps_of(plan), parts_of(files, plan)
    answer = answered(steps, worked(steps, files, parts), parts=len(parts))
    results = regroup(graph, answer.part.results, answer.reporting)
    expected = list(run(files, plan, rng=SeededRandom(3)))
    found = {result.round: (result.manifest, result.estimates["median"]) for result in results}
    assert found == {
        result.round: (result.manifest, result.estimates["median"]) for result in expected
    }


def test_the_code_that_is_compared_is_all_that_decides_on_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change is noticed wherever readings are averaged, drawn, shuffled or estimated."""
    package = tmp_path / "rase"
    shutil.copytree(Path(rase.__file__).parent, package, ignore=shutil.ignore_patterns("static"))
    monkeypatch.setattr(rase, "__file__", str(package / "__init__.py"))
    found = {code_hash.__wrapped__()}
    changed = (
        "domain.py",
        "counts/moments.py",
        "kernels/keyed.py",
        "laws/optimal.py",
        "series/tracker.py",
        "shuffle/shufflers.py",
        "tables/rounds.py",
    )
    for name in changed:
        with (package / name).open("a", encoding="utf-8") as file:
            file.write("# another version\n")
        found.add(code_hash.__wrapped__())
    assert len(found) == 1 + len(changed)


def test_other_code_draws_nothing(tmp_path: Path) -> None:
    """An executor with other code than the driver's stops before it draws other noise."""
    files, plan = find_files(str(write_parts(TABLE, tmp_path / "t", parts=1))), plan_of()
    parts = parts_of(files, plan)
    sent = worked(steps_of(plan), files, parts)
    other = steps_of(plan, code="of another version")
    message = "executors must run the code of the driver"
    with pytest.raises(RuntimeError, match=message):
        worked(other, files, parts)
    with pytest.raises(RuntimeError, match=message):
        list(other.reduce(iter(sent.to_batches())))


def test_steps_travel_and_hide_their_key() -> None:
    """Steps are sent as bytes; as they may stand in a log, they do not show the key."""
    steps = steps_of(plan_of())
    assert "key=RunKey(...)" in repr(steps)
    assert steps.key is not None
    again = pickle.loads(pickle.dumps(steps))  # noqa: S301 - our own bytes
    assert again.key.round(3).words(1) == steps.key.round(3).words(1)
    assert again.plan.described() == plan_of().described()
