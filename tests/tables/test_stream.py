"""Tables of numbered devices in one pass: the same bits as by sorting, in bounded memory."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.tables.tables import BR

from rase import RunPlan, SeededRandom, run_table
from rase.errors import DataError
from rase.kernels.keyed import public_numbers
from rase.tables.files import find_files
from rase.tables.parquet import ParquetSource, RowGroup
from rase.tables.run import LocalRun, run
from rase.tables.stream import Stream, layout_of
from rase.tables.summary import DeviceCounts, NumberedCounts, Tally

EVERY_MS = 300_000
ROUNDS, DEVICES = 60, 40


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read so few rows at a time that a small table has many tasks."""
    monkeypatch.setattr("rase.tables.stream._TASK_ROWS", 150)
    monkeypatch.setattr("rase.tables.parquet._CHUNK_ROWS", 60)
    monkeypatch.setattr("rase.tables.run._ONE_PART_ROWS", 100)
    monkeypatch.setattr("rase.tables.run.FEWEST_ROWS", 300)
    monkeypatch.setattr("rase.tables.parts._USUAL_ROWS", 500)


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many row groups each pass left to be drawn otherwise."""
    left = list[int]()
    whole = Stream.parts

    def watched(self: Stream, on_progress: Callable[[float], None]) -> Iterator[Any]:
        yield from whole(self, on_progress)
        left.append(len(self.left))

    monkeypatch.setattr(Stream, "parts", watched)
    return left


def table_of(order: str = "time", *, far: int = 7) -> Any:
    """Return one row of each device and round, with gaps, empty rows and a round that is empty."""
    rng = np.random.default_rng(4)
    number = np.flatnonzero(rng.random(ROUNDS * DEVICES) < 0.9)
    if order == "none":
        number = rng.permutation(number)
    if order == "late":
        late = rng.choice(len(number), 20, replace=False)
        number[np.sort(late)] = number[late]
    rounds, device = np.divmod(number, DEVICES)
    is_empty = (rng.random(len(number)) < 0.05) | (rounds == 33)
    return pa.table(
        {
            "time": pa.array(EVERY_MS * rounds + rng.integers(EVERY_MS, size=len(rounds))),
            "device": pa.array(far * device + 1000),
            "value": pa.array(rng.uniform(-20, 120, len(number)), mask=is_empty),
        }
    )


def written(table: Any, path: Path, *, group_rows: int = 100) -> str:
    """Write a table and return where it is."""
    table = table.set_column(0, "time", table["time"].cast(pa.timestamp("ms", tz="UTC")))
    pq.write_table(table, path / "table.parquet", row_group_size=group_rows)
    return str(path / "table.parquet")


def ran(place: str, **changes: Any) -> tuple[list[Any], LocalRun]:
    """Return the results of a table with a seed, and the run."""
    plan = RunPlan(randomizer=BR, every="5min", **{"estimator": ["unbiased_mean"], **changes})
    done = run(place, plan, rng=SeededRandom(3), workers=2, memory_bytes=1 << 30)
    return list(done), done


def by_sorting(place: str, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Any:
    """Return what comes of it without a single pass."""
    with monkeypatch.context() as only:
        only.setattr("rase.tables.run.layout_of", lambda *_, **__: None)
        return ran(place, **changes)


@pytest.mark.parametrize("order", ["time", "late", "none"])
@pytest.mark.parametrize("far", [1, 500])
def test_any_order_gives_the_same_bits(
    order: str, far: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streamed: list[int]
) -> None:
    """Results, counts and the truth are those of the table sorted by rounds, in whatever order."""
    place = written(table_of(order, far=far), tmp_path)
    found, one = ran(place, truth=True, estimator=["tracked", "median"])
    assert streamed == [0]
    expected, other = by_sorting(place, monkeypatch, truth=True, estimator=["tracked", "median"])
    assert found == expected
    assert len(found) == ROUNDS - 1
    assert one.summary == other.summary
    assert one.summary.clipped > 0 < one.summary.nulls


@pytest.mark.parametrize("repeated", [1, 40])
def test_devices_that_report_twice_are_averaged(
    repeated: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streamed: list[int]
) -> None:
    """Rounds in which a device has two rows are found, however few, and drawn from their means."""
    table = table_of().sort_by("time")
    some = table.filter(table["value"].is_valid()).take(np.arange(0, 30 * repeated, 30))
    again = some.set_column(0, "time", pa.array(some["time"].to_numpy() // EVERY_MS * EVERY_MS))
    place = written(pa.concat_tables([table, again]).sort_by("time"), tmp_path)
    found, one = ran(place)
    assert streamed[0] > 0
    expected, other = by_sorting(place, monkeypatch)
    assert found == expected
    assert one.summary == other.summary


def test_a_table_of_repeats_is_given_up_early(tmp_path: Path, streamed: list[int]) -> None:
    """Where devices report more than once a round nearly nothing is read before that is known."""
    table = table_of()
    place = written(pa.concat_tables([table] * 4).sort_by("time"), tmp_path)
    _, done = ran(place)
    groups = len(ParquetSource(find_files(place)).groups)
    assert streamed[0] > groups - 15
    assert done.summary.duplicates > 0


def test_places_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streamed: list[int]
) -> None:
    """Where open rounds take more memory than there is, the rest is sorted instead."""
    place = written(table_of("none"), tmp_path)
    monkeypatch.setattr("rase.tables.stream._BYTES_PER_PLACE", 1 << 22)
    found, one = ran(place)
    assert streamed[0] > 0
    expected, other = by_sorting(place, monkeypatch)
    assert found == expected
    assert one.summary == other.summary


def test_an_interrupted_run_goes_on(tmp_path: Path, streamed: list[int]) -> None:
    """What was complete when a run stopped is not drawn again, and all is counted once."""
    place = written(table_of().sort_by("time"), tmp_path)
    plan = RunPlan(randomizer=BR, every="5min", estimator="unbiased_mean")
    expected, whole = ran(place)

    def stop(what: str, share: float) -> None:
        if share > 0.5:
            raise KeyboardInterrupt

    work = tmp_path / "work"
    settings: dict[str, Any] = {"rng": SeededRandom(3), "workers": 2, "memory_bytes": 1 << 30}
    with pytest.raises(KeyboardInterrupt):
        list(run(place, plan, work=work, on_progress=stop, **settings))
    again = run(place, plan, work=work, **(settings | {"rng": SeededRandom(3)}))
    assert list(again) == expected
    assert again.resumed > 0
    assert again.summary == whole.summary
    assert streamed == [0, 0]


def test_footers_that_lie_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of devices that the footers do not have are missed, and nothing is released."""
    place = written(table_of(), tmp_path)
    source = ParquetSource(find_files(place))
    source.groups = [replace(group, devices=(1000, 1010)) for group in source.groups]
    plan = RunPlan(randomizer=BR, every="5min")
    with pytest.raises(DataError, match="lie where the footers say"):
        list(run(source, plan, workers=2, memory_bytes=1 << 30))


def group_of(first: int, last: int, **changes: Any) -> RowGroup:
    """Return a row group by its rounds."""
    times = (EVERY_MS * first, EVERY_MS * (last + 1) - 1)
    return replace(RowGroup(0, 0, 0, 200, times, (1000, 1099)), **changes)


def test_layouts() -> None:
    """Rounds are complete when no later row group may hold them; only open ones are held."""
    groups = [group_of(first, first + 1) for first in range(50)]
    layout = layout_of(groups, EVERY_MS, ahead=3, most_bytes=100_000)
    assert layout is not None
    assert layout.width == 4
    assert layout.complete == (*range(50), 51)
    assert (layout.first_device, layout.devices) == (1000, 100)
    late = [*groups, group_of(0, 50)]
    layout = layout_of(late, EVERY_MS, ahead=3, most_bytes=100_000)
    assert layout is not None
    assert layout.width == 51
    assert layout.complete[-2:] == (0, 51)


@pytest.mark.parametrize("missing", ["time_ms", "devices"])
def test_what_has_no_layout(missing: str) -> None:
    """Without bounds in the footers, or with too many devices, there is no single pass."""
    groups = [group_of(0, 1), group_of(1, 2)]
    assert layout_of(groups, EVERY_MS, ahead=3, most_bytes=1000) is None
    changes: dict[str, Any] = {missing: None}
    groups[1] = replace(groups[1], **changes)
    assert layout_of(groups, EVERY_MS, ahead=3, most_bytes=1 << 30) is None


def test_numbered_counts_add_up() -> None:
    """Counts by numbers and by public numbers are of the same devices."""
    counts = DeviceCounts()
    counts.add(DeviceCounts(numbered=NumberedCounts(5, np.array([1, 0, 2], np.int32))))
    counts.add(DeviceCounts(numbered=NumberedCounts(3, np.array([4, 0], np.int32))))
    assert counts.numbered is not None
    assert (counts.numbered.first, counts.numbered.reports.tolist()) == (3, [4, 0, 1, 0, 2])
    counts.add(DeviceCounts(np.sort(public_numbers(["7"])), np.array([3])))
    summary = counts.summary(Tally(), rounds=1, epsilon=2.0)
    assert (summary.devices, summary.most_reports, summary.most_epsilon) == (3, 5, 10.0)


def test_one_table_in_memory_is_the_same(tmp_path: Path) -> None:
    """A file that is streamed gives what its columns in memory give."""
    table = table_of("none")
    found, _ = ran(written(table, tmp_path))
    times = table["time"].to_numpy().astype("datetime64[ms]")
    columns = {"time": times, "device": table["device"].to_numpy(), "value": table["value"]}
    plan = RunPlan(randomizer=BR, every="5min", estimator=["unbiased_mean"])
    assert list(run_table(columns, plan, rng=SeededRandom(3))) == found
