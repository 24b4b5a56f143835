"""Tables of Delta: the rows that count are those of the log's latest state."""

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from rase.cli.run import command
from rase.errors import DataError
from rase.tables.files import find_files, read_log
from rase.tables.source import open_source

deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed: make test does")


def table_of(*values: float, day: str = "2024-01-01") -> Any:
    """Return one row of each of some devices."""
    return pa.table(
        {
            "time": pa.array([1_700_000_000_000] * len(values), pa.timestamp("ms", tz="UTC")),
            "device": pa.array(range(len(values))),
            "value": pa.array(values),
            "day": pa.array([day] * len(values)),
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table whose first files the log has removed, partitioned by a text with marks."""
    place = tmp_path / "meters of 2024"
    deltalake.write_deltalake(place, table_of(1.0, 2.0), partition_by=["day"])
    later = table_of(3.0, 4.0, 5.0, day="a b:c?#%ü")
    deltalake.write_deltalake(place, later, mode="overwrite", partition_by=["day"])
    return place


def values_of(place: Path) -> list[float]:
    """Return all readings of a table."""
    return sorted(value for rows in open_source(place).batches() for value in rows.value.tolist())


def test_only_the_latest_state_counts(folder: Path) -> None:
    """Files that the log has removed still lie there, and are not read."""
    assert len(list(folder.rglob("*.parquet"))) == 2
    assert values_of(folder) == [3.0, 4.0, 5.0]
    deltalake.write_deltalake(folder, table_of(6.0), mode="append", partition_by=["day"])
    assert values_of(folder) == [3.0, 4.0, 5.0, 6.0]


def test_a_part_of_a_table_is_refused(folder: Path) -> None:
    """Only the whole table has a log that says what counts."""
    for place in (folder / "day=2024-01-01", folder.parent, folder / "*/*.parquet"):
        with pytest.raises(DataError, match="Give the folder of the whole table"):
            open_source(place)


def test_the_manifest_names_the_version(folder: Path, tmp_path: Path) -> None:
    """Whoever has the results finds the state of the table again."""
    words = ["--range", "0", "9", "--epsilon", "1", "--out", str(tmp_path / "out.csv")]
    done = CliRunner().invoke(command, [str(folder), *words])
    assert done.exit_code == 0, done.output
    manifest = json.loads((tmp_path / "out.csv.manifest.json").read_text("utf-8"))
    table = deltalake.DeltaTable(folder)
    assert manifest["input"]["snapshot"] == {
        "format": "delta",
        "table": str(table.metadata().id),
        "version": 1,
    }
    assert [Path(file["path"]).is_file() for file in manifest["input"]["files"]] == [True]


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"delta.enableDeletionVectors": "true"}, "deletionVectors"),
        ({"delta.columnMapping.mode": "name"}, "columnMapping"),
    ],
)
def test_what_is_not_understood_is_refused(
    settings: dict[str, str], name: str, tmp_path: Path
) -> None:
    """Files whose rows may be deleted, or whose columns have other names, are not guessed at."""
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    features = {"readerFeatures": [name], "writerFeatures": [name]}
    fields = [
        {"name": column, "type": kind, "nullable": True, "metadata": {}}
        for column, kind in (("time", "timestamp"), ("device", "long"), ("value", "double"))
    ]
    if name == "columnMapping":
        for number, field in enumerate(fields, start=1):
            field["metadata"] = {
                "delta.columnMapping.id": number,
                "delta.columnMapping.physicalName": f"c{number}",
            }
    about = {
        "id": "2ff18eb7-8aa9-4559-9ce1-702fafdc8148",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": settings,
        "createdTime": 0,
    }
    log = tmp_path / "table/_delta_log"
    log.mkdir(parents=True)
    actions = [{"protocol": protocol | features}, {"metaData": about}]
    lines = "\n".join(map(json.dumps, actions))
    (log / f"{0:020}.json").write_text(lines, encoding="utf-8")
    with pytest.raises(DataError, match=f"uses {name}, which is not understood"):
        read_log(str(tmp_path / "table"))


def test_a_damaged_log_is_refused(folder: Path) -> None:
    """A log that is no log is told in one line."""
    (folder / "_delta_log" / f"{1:020}.json").write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match=r"the log of the Delta table .* cannot be read"):
        open_source(folder)


def test_without_the_library(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install is said, and the files are not read as they lie there."""
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(DataError, match=r"rase-iot\[delta\]"):
        open_source(folder)


def test_paths_for_executors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are made absolute where others read them, and addresses stay as they are."""
    pq.write_table(table_of(1.0), tmp_path / "a.parquet")
    monkeypatch.chdir(tmp_path)
    files = find_files("a.parquet")
    assert files.files[0].path == "a.parquet"
    assert files.absolute().files[0].path == str(tmp_path / "a.parquet")
    remote = find_files(f"file://{tmp_path}/a.parquet")
    assert remote.absolute() is remote
