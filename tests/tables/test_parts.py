"""Cutting a table by its footers: every row in one part, whole rounds, and no more reading."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables.tables import skewed, sorted_by, write_parts

from rase.tables.files import find_files
from rase.tables.parquet import RowGroup, row_groups
from rase.tables.parts import Part, cut, cut_anyway

INTERVAL_MS = 1000


def groups_of(spans: Sequence[tuple[int, int]], rows: int = 100) -> list[RowGroup]:
    """Return row groups whose times lie in these spans."""
    return [
        RowGroup(0, number, rows * number, rows, (first, last))
        for number, (first, last) in enumerate(spans)
    ]


def covered(parts: Sequence[Part], number: int, group: RowGroup) -> int:
    """Return in how many parts rows of a round in a row group are read."""
    return sum(part.rounds[0] <= number < part.rounds[1] and group in part.groups for part in parts)


spans = st.lists(
    st.tuples(st.integers(-50_000, 50_000), st.integers(0, 30_000)).map(
        lambda one: (one[0], one[0] + one[1])
    ),
    min_size=1,
    max_size=12,
)


@given(spans=spans, most_rows=st.integers(1, 2000), usual=st.integers(1, 500))
def test_each_row_is_read_for_one_part(
    spans: list[tuple[int, int]], most_rows: int, usual: int
) -> None:
    """Whatever the order of a table, each of its rounds is in one part with all its row groups."""
    groups = groups_of(spans)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("rase.tables.parts._USUAL_ROWS", usual)
        parts = cut_anyway(groups, INTERVAL_MS, most_rows=most_rows)
    assert all(first.rounds[1] <= second.rounds[0] for first, second in pairwise(parts))
    for group in groups:
        assert group.time_ms is not None
        first, last = (time // INTERVAL_MS for time in group.time_ms)
        for number in {first, (first + last) // 2, last}:
            assert covered(parts, number, group) == 1


def test_a_table_by_time_is_cut_and_hardly_read_twice() -> None:
    """Row groups one after the other become parts of neighbouring row groups."""
    groups = groups_of([(1000 * hour, 1000 * hour + 999) for hour in range(40)], rows=1 << 18)
    parts = cut(groups, INTERVAL_MS, most_rows=1 << 30)
    assert parts is not None
    assert len(parts) == 20
    assert sum(part.rows for part in parts) <= 1.3 * sum(group.rows for group in groups)
    assert {part.slices for part in parts} == {1}


def test_a_table_by_device_is_not_cut() -> None:
    """Where every row group holds all rounds, cutting would read the table again and again."""
    groups = groups_of([(0, 1_000_000)] * 40, rows=1 << 18)
    assert cut(groups, INTERVAL_MS, most_rows=1 << 30) is None
    assert len(cut_anyway(groups, INTERVAL_MS, most_rows=1 << 30)) > 5


def test_a_small_table_is_one_part() -> None:
    """What is small is read at once, whatever its order."""
    parts = cut(groups_of([(0, 1_000_000)] * 4), INTERVAL_MS, most_rows=1 << 20)
    assert parts is not None
    assert [len(part.groups) for part in parts] == [4]


def test_a_round_too_large_is_read_in_slices() -> None:
    """A single round of more rows than may be held is read several times, some devices each."""
    groups = groups_of([(0, 10)] * 4, rows=1000)
    (part,) = cut_anyway(groups, INTERVAL_MS, most_rows=500)
    assert part.slices == 6
    assert part.rows == 6 * 4000


def test_footers_without_times_make_one_part() -> None:
    """Where footers do not tell times nothing is cut; a cluster reads all in slices."""
    groups = [RowGroup(0, number, 100 * number, 100, None) for number in range(3)]
    assert cut(groups, INTERVAL_MS, most_rows=1 << 20) is None
    (part,) = cut_anyway(groups, INTERVAL_MS, most_rows=100)
    assert part.groups == tuple(groups)
    assert part.slices == 3
    assert part.rounds[0] < -(10**15) < 10**15 < part.rounds[1]


@pytest.mark.parametrize("order", ["time", "device", "none"])
def test_footers_of_files(order: str, tmp_path: Path) -> None:
    """Real footers tell where rounds are: reading the parts finds every row once."""
    table = skewed(crowd=10)
    place = write_parts(sorted_by(table, order), tmp_path / "table", parts=2, row_group=100)
    groups, damaged = row_groups(find_files(str(place)))
    assert damaged == []
    assert sum(group.rows for group in groups) == len(table)
    times = [1000 * int(time.timestamp()) for time in table["time"].to_pylist()]
    for group in groups:
        assert group.time_ms is not None
        assert min(times) <= group.time_ms[0] <= group.time_ms[1] <= max(times)
    is_cut = cut(groups, 300_000, most_rows=1 << 20) is not None
    assert is_cut
