"""Tables that cannot be used: the file and the row are named, and nothing is released."""

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.tables.tables import BR, skewed, sorted_by, write_parts

from rase import RunPlan, SeededRandom
from rase.cli import main
from rase.errors import DataError, StorageBusy
from rase.tables.files import find_files
from rase.tables.run import LocalRun, run
from rase.tables.source import open_source

TABLE = sorted_by(skewed(crowd=10), "time")
FLAGS = ("--range", "0", "100", "--epsilon", "1", "--every", "5min")


def ran(place: Path, *, skips_bad: bool = False, **settings: Any) -> LocalRun:
    """Return a seeded run of a table."""
    source = open_source(place, skips_bad=skips_bad)
    return run(source, RunPlan(randomizer=BR, every="5min"), rng=SeededRandom(1), **settings)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A table in three files."""
    return write_parts(TABLE, tmp_path / "table", parts=3)


def tear(path: Path, *, at: float) -> None:
    """Overwrite a fifth of a file, or what is left of it."""
    content = path.read_bytes()
    start = int(at * len(content))
    end = min(start + len(content) // 5, len(content))
    path.write_bytes(content[:start] + b"\xff" * (end - start) + content[end:])


@pytest.mark.parametrize("at", [0.3, 0.95])
def test_damaged_files_are_named_or_skipped(at: float, place: Path) -> None:
    """Torn in its rows or in its footer, a file is named; skipped, it is counted."""
    tear(place / "part-01.parquet", at=at)
    with pytest.raises(DataError, match=r"part-01\.parquet is a damaged Parquet file; .*skip-bad"):
        list(ran(place))
    done = ran(place, skips_bad=True)
    assert list(done)
    assert 1 <= done.summary.bad_files <= 4
    assert 0 < done.summary.rows < len(TABLE)


@pytest.mark.parametrize(
    ("whole", "damaged", "message"),
    [
        ("metér".encode(), b"met\xc3(r", "text that is not UTF-8; write or copy the file again"),
        (b"value", b"val\xd5e", "is a damaged Parquet file; write or copy it again"),
    ],
)
def test_damaged_texts(whole: bytes, damaged: bytes, message: str, tmp_path: Path) -> None:
    """Bytes that are no text, in a device's name or in a column's, are told in one line."""
    path = tmp_path / "a.parquet"
    table = pa.table({"time": [1, 2], "device": ["metér", "b"], "value": [1.0, 2.0]})
    pq.write_table(table, path, compression="none", use_dictionary=False)
    content = path.read_bytes()
    assert whole in content
    path.write_bytes(content.replace(whole, damaged))
    with pytest.raises(DataError, match=message):
        list(open_source(path).batches())


def test_files_that_are_no_tables(place: Path) -> None:
    """An empty file, one cut off and a picture among the tables are named; skipped, counted."""
    (place / "part-05.parquet").write_bytes(b"\x89PNG not a table")
    (place / "part-06.parquet").write_bytes(b"")
    with pytest.raises(DataError, match=r"part-05\.parquet is not Parquet"):
        ran(place)
    done = ran(place, skips_bad=True)
    assert list(done)
    assert done.summary.bad_files == 2
    assert done.summary.rows == len(TABLE)


@pytest.mark.parametrize(
    ("column", "change", "message"),
    [
        ("time", lambda c: c.cast(pa.timestamp("ms")), "with a zone in .*without a zone in"),
        ("time", lambda c: c.cast(pa.int64()), "timestamps with a zone in .* whole numbers in"),
        ("device", lambda c: pa.array(np.arange(len(c))), "text in .* whole numbers in"),
        ("value", lambda c: c.cast(pa.string()), "numbers in .* text in"),
    ],
)
def test_mixed_schemas(column: str, change: Any, message: str, place: Path) -> None:
    """Columns of different kinds in different files are refused before a row is read."""
    path = place / "part-02.parquet"
    table = pq.read_table(path)
    number = table.schema.get_field_index(column)
    pq.write_table(table.set_column(number, column, change(table[column].combine_chunks())), path)
    with pytest.raises(DataError, match=message):
        list(ran(place))


def test_whole_readings_beside_decimals(place: Path) -> None:
    """Readings may be whole numbers in one file; units of time may differ."""
    path = place / "part-02.parquet"
    table = pq.read_table(path)
    table = table.set_column(2, "value", table["value"].cast(pa.int32(), safe=False))
    table = table.set_column(0, "time", table["time"].cast(pa.timestamp("us", tz="Asia/Tokyo")))
    pq.write_table(table, path)
    done = ran(place)
    assert len(list(done)) == 40


def test_a_missing_column_is_named(place: Path) -> None:
    """A file without one of the columns is named, with what it has."""
    table = pq.read_table(place / "part-02.parquet")
    pq.write_table(table.rename_columns(["time", "id", "value", "row"]), place / "part-02.parquet")
    with pytest.raises(DataError, match=r"part-02\.parquet has no column 'device'; it has 'time'"):
        list(ran(place))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            {"time": [None, 1], "device": ["a", "b"], "value": [1.0, 2.0]},
            "time' is empty in row 1",
        ),
        (
            {"time": [1, 2], "device": ["a", None], "value": [1.0, 2.0]},
            "device' is empty in row 2",
        ),
        ({"time": [1, 2], "device": ["a", "b"], "value": [1.0, np.inf]}, "row 2 holds NaN"),
        ({"time": [1, 2], "device": [1.5, 2.5], "value": [1.0, 2.0]}, "texts or whole numbers"),
        ({"time": [1, 2], "device": ["a", "b"], "value": [None, None]}, "empty in all 2 rows"),
        ({"time": [], "device": [], "value": []}, "holds no rows"),
        (
            {"time": ["2024-01-01T00:00:00Z", "2024-01-01T00:05"], "device": ["a"] * 2}
            | {"value": [1.0, 2.0]},
            "mixes times with and without a zone",
        ),
    ],
)
def test_wrong_rows(rows: dict[str, Any], message: str, tmp_path: Path) -> None:
    """A row that cannot be used is named with its file."""
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table(rows), path)
    with pytest.raises(DataError, match=message):
        list(ran(path))


def test_zones_must_agree_between_files(tmp_path: Path) -> None:
    """Written times with a zone in one file and without in another are refused."""
    (tmp_path / "table").mkdir()
    for name, time in (("a", "2024-01-01T00:00:00Z"), ("b", "2024-01-01T00:00:00")):
        rows = {"time": [time], "device": [name], "value": [1.0]}
        pq.write_table(pa.table(rows), tmp_path / "table" / f"{name}.parquet")
    with pytest.raises(DataError, match="mixes times with and without a zone"):
        list(ran(tmp_path / "table"))


def test_formats_are_not_mixed(place: Path) -> None:
    """Parquet and text together are refused; so are places with nothing in them."""
    (place / "more.csv").write_text("time,device,value\n1,a,1\n")
    with pytest.raises(DataError, match=r"mixes Parquet \(.*\) and CSV \(.*more\.csv\)"):
        ran(place)
    (place.parent / "empty").mkdir()
    with pytest.raises(DataError, match=r"the folder .*empty holds no tables"):
        ran(place.parent / "empty")
    with pytest.raises(DataError, match=r"there is no file .*none"):
        ran(place / "none*")
    with pytest.raises(DataError, match="a store that pyarrow does not know; use s3://"):
        find_files("nowhere://bucket/table")


def must_spill(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send every table through the store, as a large one in no order of time would go."""
    monkeypatch.setattr("rase.tables.run.cut", lambda *_parts, **_limits: None)
    monkeypatch.setattr("rase.tables.run._ONE_PART_ROWS", 1)
    monkeypatch.setattr("rase.tables.store._PIECE_BYTES", 1000)


class FullDisk:
    """A file that takes some bytes and then has no room left."""

    def __init__(self, room: int) -> None:
        self.room = room

    def seek(self, *_place: int) -> int:
        """Return a place."""
        return 0

    def write(self, content: memoryview) -> int:
        """Take what there is room for."""
        if len(content) > self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= len(content)
        return len(content)

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def test_full_disk(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A disk that fills up while rows are spilled stops the run with the way out."""
    must_spill(monkeypatch)
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_options: FullDisk(10_000))
    with pytest.raises(StorageBusy, match="is full after 0 MiB of spilled rows; nothing was"):
        list(ran(place, memory_bytes=1))
    out = tmp_path / "results.csv"
    assert main(["run", str(place), *FLAGS, "--memory", "1", "--out", str(out)]) == 1
    told = capsys.readouterr()
    assert told.err.startswith("rase: error: the disk of ")
    assert told.err.count("\n") == 1
    assert not out.exists()


def test_other_failures_of_the_disk(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no full disk is told as what it is."""

    class Broken(FullDisk):
        def write(self, content: memoryview) -> int:
            """Fail."""
            raise OSError(errno.EIO, "Input/output error")

    must_spill(monkeypatch)
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_options: Broken(0))
    with pytest.raises(OSError, match="Input/output error"):
        list(ran(place, memory_bytes=1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--memory", "much"), "a size must look like 512MB, 4GB or 4GiB, got 'much'."),
        (("--memory", "0"), "--memory must be more than nothing."),
        (("--workers", "0"), "0 is not in the range x>=1."),
        (("--master", "local[2]"), "--master needs --engine spark."),
        (("--partition-by", "day"), "--partition-by needs --out: the folder to write."),
        (("--partition-by", "hour"), "'hour' is not one of"),
        (("--partition-by", "day", "--out", "table"), "must be a folder that is not there yet"),
    ],
)
def test_bad_arguments(
    arguments: tuple[str, ...],
    message: str,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Wrong options are told in one line, before anything is read."""
    monkeypatch.chdir(place.parent)
    assert main(["run", "table", *FLAGS, *arguments]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_folder_of_results(place: Path, tmp_path: Path) -> None:
    """Results may be a folder partitioned by day, whole or not at all, with a manifest inside."""
    out = tmp_path / "results"
    arguments = ("--seed", "1", "--partition-by", "day", "--out", str(out), "--workers", "1")
    assert main(["run", str(place), *FLAGS, *arguments]) == 0
    assert [path.relative_to(out).as_posix() for path in sorted(out.rglob("*.*"))] == [
        "day=1970-01-01/part-0.parquet",
        "manifest.json",
    ]
    assert pq.read_table(out / "day=1970-01-01").num_rows == 40
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results", "table"]
