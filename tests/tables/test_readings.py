"""One reading for each device and round, whatever way the rows arrive."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import each_case

from rase.domain import Range
from rase.tables.readings import Contributions, Quanta, contributions_of

Row = tuple[int, int, float | None]


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


@given(rows=tables, interval_ms=intervals, seed=st.integers(0, 1000))
def test_rows_in_any_order(rows: list[Row], interval_ms: int | None, seed: int) -> None:
    """Rows in any order give the plain averages; how many rows each is of is told."""
    there = [row for row in rows if row[2] is not None]
    mixed = [there[place] for place in np.random.default_rng(seed).permutation(len(there))]
    columns = (np.array([row[place] for row in mixed], dtype=np.int64) for place in (0, 1))
    values = np.array([row[2] for row in mixed], dtype=np.float64)
    some, counts = contributions_of(*columns, value=values, interval_ms=interval_ms)
    keys = zip(some.round.tolist(), some.device.tolist(), strict=True)
    found = dict(zip(keys, some.reading.tolist(), strict=True))
    assert found == pytest.approx(expected(there, interval_ms=interval_ms), rel=1e-12)
    assert (len(some.round) if counts is None else counts.sum()) == len(there)


def test_rounds_and_devices_far_apart() -> None:
    """Rounds and devices far apart are told apart as well; of equal times the first row counts."""
    times = np.array([10**12 + 7, 3, 3])
    some, counts = contributions_of(
        times, np.array([10**6, 5, 5]), value=np.array([1.0, 2.0, 9.0]), interval_ms=None
    )
    assert sorted(some.reading.tolist()) == [1.0, 2.0]
    assert counts is not None
    assert counts.tolist() == [1, 1]


@each_case("interval_ms", [None, 10])
def test_repeated(interval_ms: int | None) -> None:
    """Of rows with one time and device the first reading counts."""
    times, devices = np.array([7, 7, 8]), np.array([3, 3, 3])
    some, counts = contributions_of(
        times, devices, value=np.array([1.0, 5.0, 3.0]), interval_ms=interval_ms
    )
    assert counts is not None
    expected = ([1.0, 3.0], [1, 1]) if interval_ms is None else ([2.0], [2])
    assert (some.reading.tolist(), counts.tolist()) == expected


def test_nothing_has_no_contribution() -> None:
    """No rows make no contributions."""
    none = np.zeros(0, np.int64)
    some, counts = contributions_of(none, none, value=np.zeros(0), interval_ms=5)
    assert (len(some.round), counts) == (0, None)


def test_contributions_hide_their_readings() -> None:
    """Readings before any noise are not shown when printed."""
    some = Contributions(np.array([1]), np.array([2]), np.array([12345.5]))
    assert "12345" not in repr(some)


@given(
    values=st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=50),
    seed=st.integers(0, 1000),
    width=st.floats(1e-3, 1e6),
)
def test_sums_of_quanta_do_not_depend_on_their_order(
    values: list[float], seed: int, width: float
) -> None:
    """Readings in whole quanta add up to the same in any order, and are hardly moved by it."""
    quanta = Quanta(Range(-width, width))
    counts = quanta.counts(np.array(values))
    mixed = np.random.default_rng(seed).permutation(counts)
    assert counts.sum() == mixed.sum()
    back = quanta.readings(counts)
    inside = np.abs(values) <= width
    assert np.abs(back - values)[inside].max(initial=0.0) <= quanta.size / 2
    assert (np.abs(back[~inside]) >= width).all()
