"""Sorted runs: any order in, rounds ascending out, in bounded memory and without a trace."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rase.engine.runs import ReportRuns

RECORD_BYTES = 24

records = st.lists(st.tuples(st.integers(-5, 9), st.integers(0, 30)), unique=True, max_size=80)


@given(rows=records, memory_records=st.integers(1, 20), batch=st.integers(1, 30))
def test_rounds_ascend(rows: list[tuple[int, int]], memory_records: int, batch: int) -> None:
    """Whatever fits into memory, rounds come ascending and whole, by key."""
    with ReportRuns(memory_records * RECORD_BYTES, extra=("epsilon",)) as runs:
        for start in range(0, len(rows), batch):
            rounds, keys = np.array(rows[start : start + batch], dtype=np.int64).T
            reports = (100 * rounds + keys).astype(float)
            runs.append(rounds, keys.astype(np.uint64), reports=reports, epsilon=reports / 2)
        found = []
        for number, part in runs.rounds():
            assert set(part["round"].tolist()) == {number}
            keys = part["key"].astype(np.int64)
            assert part["report"].tolist() == (100 * number + keys).tolist()
            assert part["epsilon"].tolist() == (part["report"] / 2).tolist()
            found += [(number, key) for key in keys.tolist()]
    assert found == sorted(rows)


def test_nothing_is_named_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is spilled has no name, and is gone after use and after a failure."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    column = np.arange(100)

    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    def fail() -> None:
        with ReportRuns(RECORD_BYTES) as runs:
            runs.append(column, column.astype(np.uint64), reports=column.astype(float))
            assert runs.spilled > 0
            assert open_files() == before + 1
            assert list(tmp_path.iterdir()) == []
            raise KeyError

    before = open_files()
    with pytest.raises(KeyError):
        fail()
    assert open_files() == before


def test_no_spill_below_the_limit() -> None:
    """What fits into memory never touches the disk."""
    with ReportRuns(4 * RECORD_BYTES) as runs:
        column = np.arange(4)
        runs.append(column, column.astype(np.uint64), reports=column.astype(float))
        assert [number for number, _ in runs.rounds()] == [0, 1, 2, 3]
        assert runs.spilled == 0


def test_memory_must_be_positive() -> None:
    """A limit of nothing is refused."""
    with pytest.raises(ValueError, match="memory_bytes must be greater than 0, got 0"):
        ReportRuns(0)
