"""The store of rows: any order in, whole rounds out, and nothing readable left on a disk."""

import errno
import io
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rase.errors import StorageBusy
from rase.kernels.keyed import RunKey
from rase.tables import store as stores
from rase.tables.readings import Devices, KeyedRows
from rase.tables.store import PARTITIONS, RowStore

KEY = RunKey(bytes(range(32)))


def rows_of(
    times: list[int], devices: list[int], quanta: list[float], *, nulls: tuple[int, ...] = ()
) -> KeyedRows:
    """Return keyed rows of devices by number, each with a budget of its own."""
    codes = np.array(devices, dtype=np.int64)
    count = int(codes.max(initial=-1)) + 1
    names = [f"device {code}" for code in range(count)]
    data = np.frombuffer("".join(names).encode(), np.uint8)
    offsets = np.cumsum([0, *map(len, names)])
    tags, public = KEY.tags(data, offsets)
    return KeyedRows(
        np.array(times, dtype=np.int64),
        codes,
        np.array(quanta),
        Devices(tags, public, np.arange(1.0, count + 1)),
        np.array(nulls, dtype=np.int64),
    )


def contents(found: KeyedRows) -> list[tuple[int, int, float]]:
    """Return time, public number and reading of each row."""
    public = found.devices.public[found.device]
    return list(zip(found.time_ms.tolist(), public.tolist(), found.quanta.tolist(), strict=True))


@given(
    rows=st.lists(st.tuples(st.integers(-9000, 9000), st.integers(0, 5)), max_size=120),
    memory_bytes=st.sampled_from([1, 2000, 1 << 20]),
    batch=st.integers(1, 50),
    slices=st.integers(1, 3),
)
def test_every_row_comes_back_in_its_order(
    rows: list[tuple[int, int]], memory_bytes: int, batch: int, slices: int
) -> None:
    """Whatever fits into memory, a round comes back whole, its rows in the order of the table."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stores, "_PIECE_BYTES", 64)
        with RowStore(memory_bytes, interval_ms=100, has_budgets=True) as store:
            starts = range(0, len(rows), batch)
            for start in starts:
                part = rows[start : start + batch]
                times, devices = [time for time, _ in part], [device for _, device in part]
                values = [float(start + place) for place in range(len(part))]
                store.add(rows_of(times, devices, values, nulls=(7,)))
            seen, nulls = list[float](), 0
            place_of = dict[int, tuple[int, int]]()
            for number in range(PARTITIONS):
                for one in range(slices):
                    found = store.take(number, part=one, slices=slices)
                    nulls += len(found.null_ms)
                    assert found.quanta.tolist() == sorted(found.quanta.tolist())
                    seen += found.quanta.tolist()
                    for time in found.time_ms.tolist():
                        # A round lies in one partition, all rows of a device in one slice.
                        assert place_of.setdefault(time // 100, (number, 0))[0] == number
            assert sum(store.sizes()) == len(rows)
    assert sorted(seen) == [float(place) for place in range(len(rows))]
    assert nulls == len(range(0, len(rows), batch))


def test_devices_keep_their_budgets_and_numbers() -> None:
    """A device is known by its tag, wherever its rows came from."""
    with RowStore(1 << 20, interval_ms=None, has_budgets=True) as store:
        store.add(rows_of([1, 1], [0, 2], [10.0, 12.0]))
        store.add(rows_of([1, 1], [2, 1], [13.0, 11.0]))
        taken = [store.take(number) for number in range(PARTITIONS)]
    (found,) = [one for one in taken if len(one.time_ms)]
    assert contents(found) == contents(rows_of([1] * 4, [0, 2, 2, 1], [10.0, 12.0, 13.0, 11.0]))
    assert len(found.devices) == 3
    assert found.devices.epsilon is not None
    assert found.devices.epsilon[found.device].tolist() == [1.0, 3.0, 3.0, 2.0]


@pytest.mark.parametrize("step_ms", [1, 1000, 3_600_000, 86_400_000])
def test_rounds_are_spread_over_partitions(step_ms: int) -> None:
    """Rounds at any distance fill the partitions about evenly, so that threads share the work."""
    times = [step_ms * place for place in range(64 * 40)]
    with RowStore(1 << 20, interval_ms=None) as store:
        store.add(rows_of(times, [0] * len(times), [1.0] * len(times)))
        assert min(store.sizes()) > 10
        assert max(store.sizes()) < 120


class Spy(io.BytesIO):
    """A file that remembers what was in it when it was closed."""

    content = b""

    def close(self) -> None:
        """Keep the bytes for the test."""
        if not self.closed:
            Spy.content = self.getvalue()
        super().close()


def test_what_is_spilled_is_encrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a reading nor a time nor a device's tag is found in the spilled bytes.

    False alarms: below 1e-14. The key is fresh, and one of four needles of 8 bytes stands at one of
    some 4,000 places of the encrypted bytes with probability 1.6e4 / 2^64.
    """
    monkeypatch.setattr(stores, "_PIECE_BYTES", 64)
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: Spy())
    rows = rows_of([123_456_789] * 50, list(range(50)), [4711.5] * 50)
    with RowStore(1, interval_ms=1000, has_budgets=True) as store:
        store.add(rows)
        assert store.spilled_bytes > 50 * 40
    secrets = [
        np.float64(4711.5).tobytes(),
        np.int64(123_456_789).tobytes(),
        rows.devices.tags[3].tobytes()[:8],
        rows.devices.public[3].tobytes(),
    ]
    assert len(Spy.content) == store.spilled_bytes < 4000
    assert not any(secret in Spy.content for secret in secrets)
    with RowStore(1, interval_ms=1000, has_budgets=True) as again:
        first = Spy.content
        again.add(rows)
    # Another store has another key: the same rows are other bytes.
    assert Spy.content != first


def test_what_is_spilled_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No name is left in the folder, and the file is gone after use and after a failure."""
    monkeypatch.setattr(stores, "_PIECE_BYTES", 64)

    def open_files() -> list[str]:
        """Return the files in the folder that are open; others may come and go meanwhile."""
        found = []
        for place in Path("/proc/self/fd").iterdir():
            with suppress(OSError):
                found.append(str(place.readlink()))
        return [name for name in found if name.startswith(f"{tmp_path}/")]

    def fail() -> None:
        with RowStore(1, interval_ms=1, folder=tmp_path) as store:
            store.add(rows_of(list(range(100)), [0] * 100, [1.0] * 100))
            assert store.spilled_bytes > 0
            assert len(open_files()) == 1
            assert list(tmp_path.iterdir()) == []
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert open_files() == []


def test_rows_are_not_shown() -> None:
    """Neither the store nor its parts show a reading when they are printed."""
    with RowStore(1 << 20, interval_ms=1) as store:
        store.add(rows_of([1], [0], [4711.5]))
        assert "4711" not in repr(vars(store))


def test_what_fits_is_not_spilled() -> None:
    """Below the limit nothing touches the disk, and a partition that was dropped frees room."""
    with RowStore(1 << 20, interval_ms=1) as store:
        store.add(rows_of(list(range(500)), [0] * 500, [1.0] * 500))
        assert store.spilled_bytes == 0
        for number in range(PARTITIONS):
            store.drop(number)
        assert sum(store.sizes()) == 0
        assert sum(len(store.take(number).time_ms) for number in range(PARTITIONS)) == 0


@pytest.mark.parametrize(
    ("number", "kind", "message"),
    [
        (
            errno.ENOSPC,
            StorageBusy,
            r"the disk of /.* is full after 0 MiB of spilled rows; nothing was released",
        ),
        (errno.EIO, OSError, "broken"),
    ],
)
def test_a_full_disk_is_told(
    number: int, kind: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no room left, the refusal says what to do; other faults stay as they are."""

    class Full(io.BytesIO):
        def write(self, _content: Any) -> int:
            raise OSError(number, "broken")

    monkeypatch.setattr(stores, "_PIECE_BYTES", 64)
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: Full())
    with RowStore(1, interval_ms=1) as store, pytest.raises(kind, match=message):
        store.add(rows_of(list(range(100)), [0] * 100, [1.0] * 100))
