"""The kernel: plain values in, noisy reports out, the same however often and wherever it runs."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from tests.engine.tables import BR, skewed, sorted_by, write_parts

from rase import Laplace, Pipeline, ValueRange
from rase.engine.files import find_files
from rase.engine.footers import RowGroup, row_groups
from rase.engine.kernel import Kernel
from rase.engine.packed import pack, unpack
from rase.engine.pieces import plan_pieces
from rase.engine.reading import read_piece
from rase.engine.store import BucketStore
from rase.engine.tally import Tally
from rase.kernels.keyed import RunKey
from rase.pipeline.keyed import Reports

KEY = RunKey(bytes(range(32)))
TABLE = skewed(crowd=10)
INTERVAL_MS = 300_000


@pytest.mark.parametrize("order", ["time", "device", "none"])
def test_pieces_hold_every_row_once(
    order: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row is in one piece, and so are all rows of a device and round."""
    monkeypatch.setattr("rase.engine.pieces._PIECE_ROWS", 300)
    monkeypatch.setattr("rase.engine.pieces.BUCKET_ROWS", 500)
    files = find_files(
        str(write_parts(sorted_by(TABLE, order), tmp_path / "table", parts=2, row_group=100))
    )
    plan = plan_pieces(row_groups(files)[0], INTERVAL_MS, most_rows=1 << 12)
    seen: dict[tuple[int, str], int] = {}
    rows = 0
    for piece in plan.pieces:
        part = read_piece(files, piece, interval_ms=INTERVAL_MS)
        rows += len(part)
        names = part.names.to_pylist()
        pairs = zip((part.time_ms // INTERVAL_MS).tolist(), part.device.tolist(), strict=True)
        for pair in {(number, names[code]) for number, code in pairs}:
            assert pair not in seen
            seen[pair] = piece.number
            assert piece.buckets[0] <= pair[0] // plan.bucket_rounds <= piece.buckets[1]
    assert rows == len(TABLE)
    assert len(plan.pieces) > 1 or order == "none"
    assert len(plan.buckets) > 3


def test_footers_without_bounds_make_one_bucket() -> None:
    """Where footers tell neither times nor devices, all is one piece and one bucket."""
    groups = [RowGroup(0, number, 100 * number, 100, None, None) for number in range(3)]
    plan = plan_pieces(groups, 1000)
    assert len(plan.pieces) == 1
    assert plan.pieces[0].rows == 300
    assert {round // plan.bucket_rounds for round in (-5, 10**15)} <= set(plan.buckets)


def test_randomize_is_a_pure_function(tmp_path: Path) -> None:
    """Pickled and run again, alone or with buckets left out, the kernel draws the same reports."""
    files = find_files(str(write_parts(TABLE, tmp_path / "table", parts=1)))
    plan = plan_pieces(row_groups(files)[0], INTERVAL_MS)
    rows = read_piece(files, plan.pieces[0], interval_ms=INTERVAL_MS)
    kernel = Kernel(Pipeline(BR), INTERVAL_MS, bucket_rounds=5)
    drawn = kernel.randomize(rows, KEY)
    kernel, key = pickle.loads(pickle.dumps((kernel, KEY)))  # noqa: S301 - our own bytes
    again = kernel.randomize(rows, key, without=frozenset({2, 3}))
    assert set(again.reports) == set(drawn.reports) - {(2, 0), (3, 0)}
    assert set(again.tallies) == set(drawn.tallies) - {2, 3}
    for place, reports in again.reports.items():
        assert pack(reports) == pack(drawn.reports[place])
    assert sum(tally.rows for tally in drawn.tallies.values()) == len(TABLE)
    nothing = kernel.randomize(rows, key, without=frozenset(drawn.tallies))
    assert (nothing.reports, nothing.tallies) == ({}, {})


def test_only_noisy_reports_leave(tmp_path: Path) -> None:
    """No reading is among what the kernel hands on, and nothing is shown by repr."""
    files = find_files(str(write_parts(TABLE, tmp_path / "table", parts=1)))
    plan = plan_pieces(row_groups(files)[0], None)
    rows = read_piece(files, plan.pieces[0], interval_ms=None)
    # Noise of a thousand times the range: a report equal to its reading is a reading.
    kernel = Kernel(Pipeline(Laplace(1e-3, ValueRange(0, 100, 1 << 16))), None, bucket_rounds=1000)
    drawn = kernel.randomize(rows, KEY)
    reports = np.concatenate([part.report for part in drawn.reports.values()])
    assert np.isin(np.round(reports, 2), rows.value).mean() < 0.01
    assert "value" not in repr(rows)
    assert f"{reports[0]:.3f}"[:6] not in repr(drawn)


def test_packed_reports() -> None:
    """Packed reports come back to the last bit; bytes that are cut off are refused."""
    reports = Reports(
        np.array([-3, 7]), np.array([0, 2**64 - 1], dtype=np.uint64), np.array([0.1, -0.0])
    )
    back = unpack(pack(reports))
    assert back.round.tolist() == [-3, 7]
    assert back.key.tolist() == [0, 2**64 - 1]
    assert np.signbit(back.report).tolist() == [False, True]
    with pytest.raises(ValueError, match="must be whole, got"):
        unpack(pack(reports)[:-1])


@pytest.mark.parametrize("memory_bytes", [1, 100, 10_000])
def test_store(memory_bytes: int, tmp_path: Path) -> None:
    """Whatever fits, a bucket comes back whole, once, and what is spilled has no name."""
    with BucketStore(memory_bytes, folder=tmp_path) as store:
        for number in range(20):
            column = np.full(5, number)
            reports = Reports(column, column.astype(np.uint64), column.astype(float))
            store.add(number % 3, reports, shard=number % 2)
            store.count(number % 3, Tally(rows=5))
        assert list(tmp_path.iterdir()) == []
        assert store.tally().rows == 100
        found = [
            sorted(float(part.report[0]) for part in store.take(bucket, shard=shard))
            for bucket in range(3)
            for shard in range(2)
        ]
        assert sorted(number for part in found for number in part) == list(range(20))
        assert store.take(0) == []
        assert store.take_tally(1).rows == 35
        assert store.take_tally(1).rows == 0
        assert (store.spilled_bytes > 0) == (memory_bytes < 10_000)
    with pytest.raises(ValueError, match="memory_bytes must be greater than 0"):
        BucketStore(0)
