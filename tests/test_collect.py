"""The collector: one reading per device and round, whatever way the rows arrive."""

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import each_case

from rase.collect import Collector, Contributions, combined
from rase.errors import DataError

Row = tuple[int, int, float | None]


def collected(rows: list[Row], *, interval_ms: int | None, cuts: list[int]) -> dict[object, float]:
    """Run rows through a collector, cut into batches at the given places."""
    collector = Collector(interval_ms)
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    parts = [add(collector, rows[low:high]) for low, high in pairwise(edges)]
    assert collector.rows == len(rows)
    assert collector.nulls == sum(value is None for _, _, value in rows)
    assert collector.devices == len({device for _, device, _ in rows})
    parts.append(collector.finish())
    assert len(collector.finish()) == 0
    found: dict[object, float] = {}
    for part in parts:
        keys = zip(part.round.tolist(), part.contributor.tolist(), strict=True)
        for key, reading in zip(keys, part.reading.tolist(), strict=True):
            assert key not in found
            found[key] = reading
    return found


def add(collector: Collector, rows: list[Row]) -> Contributions:
    """Add rows, None meaning a null."""
    return collector.add(
        [time for time, _, _ in rows],
        [device for _, device, _ in rows],
        value=[0.0 if value is None else value for _, _, value in rows],
        is_valid=[value is not None for _, _, value in rows],
    )


def expected(rows: list[Row], *, interval_ms: int | None) -> dict[object, float]:
    """Average by plain Python."""
    groups = defaultdict(list)
    for time, device, value in rows:
        if value is not None:
            number = time if interval_ms is None else time // interval_ms
            groups[number, device].append(value)
    return {key: sum(values) / len(values) for key, values in groups.items()}


tables = st.lists(
    st.tuples(
        st.integers(-50, 50),
        st.integers(0, 6),
        st.none() | st.integers(-1000, 1000).map(float),
    ),
    unique_by=lambda row: (row[0], row[1]),
    max_size=60,
)
intervals = st.none() | st.integers(1, 40)
cuts_anywhere = st.lists(st.integers(0, 60), max_size=8)


@given(rows=tables, interval_ms=intervals, cuts=cuts_anywhere)
def test_sorted_by_device(rows: list[Row], interval_ms: int | None, cuts: list[int]) -> None:
    """A table sorted by device and time gives the plain averages, however it is cut."""
    rows = sorted(rows, key=lambda row: (row[1], row[0]))
    found = collected(rows, interval_ms=interval_ms, cuts=cuts)
    assert found == pytest.approx(expected(rows, interval_ms=interval_ms), rel=1e-12)


@given(rows=tables, interval_ms=intervals, cuts=cuts_anywhere, seed=st.integers(0, 1000))
def test_interleaved(rows: list[Row], interval_ms: int | None, cuts: list[int], seed: int) -> None:
    """Devices may be interleaved in any way that keeps the time of each going forward."""
    slots = np.random.default_rng(seed).permutation([device for _, device, _ in rows]).tolist()
    queues: dict[int, list[Row]] = defaultdict(list)
    for row in sorted(rows, reverse=True, key=lambda row: row[0]):
        queues[row[1]].append(row)
    mixed = [queues[device].pop() for device in slots]
    found = collected(mixed, interval_ms=interval_ms, cuts=cuts)
    assert found == pytest.approx(expected(rows, interval_ms=interval_ms), rel=1e-12)


@each_case("cut", [0, 1, 2, 3])
def test_backwards(cut: int) -> None:
    """Time going back within a device is refused with the row's number, in one batch or two."""
    rows: list[Row] = [(0, 0, 1.0), (5, 1, 1.0), (4, 0, 1.0), (3, 1, 1.0)]
    with pytest.raises(DataError, match=r"^row 4 goes back in time for its device; sort the table"):
        collected(rows, interval_ms=10, cuts=[cut])


@each_case("cut", [0, 1, 2])
def test_repeated(cut: int) -> None:
    """Of rows with one time and device the first reading counts; nulls are none."""
    rows: list[Row] = [(7, 3, None), (7, 3, 1.0), (7, 3, 5.0), (8, 3, 3.0)]
    assert collected(rows, interval_ms=10, cuts=[cut]) == {(0, 3): 2.0}


def test_repeats_may_be_refused() -> None:
    """Where it was asked for, a row that repeats a time is refused by its number."""
    collector = Collector(None, refuses_repeats=True)
    with pytest.raises(DataError, match=r"^row 2 repeats a time of its device; keep one row"):
        add(collector, [(7, 3, 1.0), (7, 3, 1.0), (6, 3, 1.0)])


def test_first_wrong_row_is_named() -> None:
    """Of several wrong rows the first in the table is named, whatever the devices' codes."""
    rows: list[Row] = [(5, 9, 1.0), (5, 0, 1.0), (4, 9, 1.0), (4, 0, 1.0)]
    with pytest.raises(DataError, match=r"^row 3 "):
        add(Collector(10), rows)


def test_messages_hold_no_reading() -> None:
    """A refusal shows no value, and contributions hide theirs when printed."""
    collector = Collector(10)
    add(collector, [(5, 0, 12345.5)])
    with pytest.raises(DataError) as refusal:
        add(collector, [(4, 0, 12345.5)])
    assert "12345" not in str(refusal.value)
    assert "12345" not in repr(collector.finish())


def test_memory_follows_devices() -> None:
    """What the collector keeps does not grow with the rows that pass through it."""
    collector = Collector(1)
    for start in range(0, 10_000, 1000):
        times = np.arange(start, start + 1000)
        collector.add(times, np.zeros(1000, int), value=np.ones(1000))
    kept = sum(part.nbytes for part in vars(collector).values() if isinstance(part, np.ndarray))
    assert kept < 100
    assert collector.rows == 10_000


@each_case("interval_ms", [0, -5])
def test_interval_must_be_positive(interval_ms: int) -> None:
    """A round has a length."""
    with pytest.raises(ValueError, match="interval_ms must be greater than 0, got"):
        Collector(interval_ms)


def test_columns_of_one_length() -> None:
    """Columns that differ in length are refused."""
    with pytest.raises(ValueError, match="one length, got 1, 2, 1 and 1"):
        Collector(1).add([1], [0, 1], value=[1.0])


@given(rows=tables, interval_ms=intervals, seed=st.integers(0, 1000))
def test_combined_at_once(rows: list[Row], interval_ms: int | None, seed: int) -> None:
    """Rows in any order give the plain averages; how many rows each is of is told."""
    there = [row for row in rows if row[2] is not None]
    mixed = [there[place] for place in np.random.default_rng(seed).permutation(len(there))]
    columns = (np.array([row[place] for row in mixed], dtype=np.int64) for place in (0, 1))
    values = np.array([row[2] for row in mixed], dtype=np.float64)
    some, counts = combined(*columns, value=values, interval_ms=interval_ms)
    keys = zip(some.round.tolist(), some.contributor.tolist(), strict=True)
    found = dict(zip(keys, some.reading.tolist(), strict=True))
    assert found == pytest.approx(expected(there, interval_ms=interval_ms), rel=1e-12)
    assert (len(some) if counts is None else counts.sum()) == len(there)


def test_combined_far_apart() -> None:
    """Rounds and devices far apart are told apart as well; of equal times the first row counts."""
    times = np.array([10**12 + 7, 3, 3])
    some, counts = combined(
        times, np.array([10**6, 5, 5]), value=np.array([1.0, 2.0, 9.0]), interval_ms=None
    )
    assert sorted(some.reading.tolist()) == [1.0, 2.0]
    assert counts is not None
    assert counts.tolist() == [1, 1]
