"""`beijing_air_hourly` from the public download: made-up stations by hand, the published sum."""

import csv
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet
import pytest

from rase.cli import main
from rase.errors import DataError
from rase.lab import beijing_recipe
from rase.lab.beijing_recipe import (
    COLUMNS,
    CONTENT_SHA256,
    STATIONS,
    content_sha256,
    has_published_content,
    read_stations,
)
from rase.lab.sources import check_file

HOURS = 30


@pytest.fixture
def download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twelve made-up stations of thirty hours in the format of the download, a folder down."""
    monkeypatch.setattr(beijing_recipe, "_HOURS", HOURS)
    folder = tmp_path / "download/PRSA_Data_20130301-20170228"
    folder.mkdir(parents=True)
    for station in STATIONS:
        write_station(folder, station)
    return tmp_path / "download"


def write_station(folder: Path, station: str, *, left_out: int = -1) -> None:
    """Write the hours of a station; a missing reading is NA, or blank as in some copies."""
    with (folder / f"PRSA_Data_{station}_20130301-20170228.csv").open("w", newline="") as file:
        rows = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
        rows.writerow(
            ["No", "year", "month", "day", "hour", *COLUMNS.values(), "wd", "station"],
        )
        for number in range(HOURS):
            at = datetime(2013, 3, 1, tzinfo=UTC) + timedelta(hours=number)
            values = [number + place / 4 for place in range(len(COLUMNS))]
            line = ",".join(f"{value:g}" for value in values)
            line = line.replace("7.5", "NA", 1) if number == 5 else line
            line = line.replace("8.5", " ", 1) if number == 6 else line
            if number != left_out:
                clock = f"{at.year},{at.month},{at.day},{at.hour}"
                file.write(f'{number + 1},{clock},{line},"NW","{station}"\n')


def test_stations_become_one_table(download: Path) -> None:
    """Each hour of each station has its readings; what is missing has none."""
    table = read_stations(download)
    assert table.num_rows == HOURS * len(STATIONS)
    assert table.column_names == ["time", "device", *COLUMNS]
    first = table.slice(HOURS, 1).to_pylist()[0]
    assert first["device"] == STATIONS[1]
    assert first["time"].isoformat() == "2013-03-01T00:00:00"
    assert (first["pm25"], first["pm10"], first["wspm"]) == (0, 0.25, 2.5)
    missing = {name: table.column(name)[5].as_py() for name in COLUMNS}
    assert [name for name, value in missing.items() if value is None] == ["wspm"]
    assert table.column("wspm")[6].as_py() is None


def test_a_command_makes_checks_and_refuses(
    download: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Readings that are not the published ones are written only if one insists."""
    out = tmp_path / "beijing_air_hourly.parquet"
    typed = ["lab", "prepare", "beijing", str(download), "--out", str(out)]
    assert main(typed) == 2
    assert "are not the published ones of beijing" in capsys.readouterr().err
    assert not out.exists()
    assert main([*typed, "--unchecked"]) == 0
    assert "They are NOT the published ones" in capsys.readouterr().err
    assert check_file(out) == "differs"
    assert content_sha256(pyarrow.parquet.read_table(out)) == content_sha256(
        read_stations(download)
    )


def test_one_reading_more_or_less_changes_the_sum(download: Path) -> None:
    """A hundredth, or a reading that is missing, is noticed."""
    before = content_sha256(read_stations(download))
    path = next(download.rglob("PRSA_Data_Wanliu_*.csv"))
    text = path.read_text()
    for changed in (text.replace("10.25", "10.26", 1), text.replace("10.25", "NA", 1)):
        path.write_text(changed)
        assert content_sha256(read_stations(download)) != before


def test_a_download_that_is_not_whole_is_named(download: Path) -> None:
    """A station that is missing, lacks an hour, or is something else is refused by its file."""
    folder = next(download.rglob("*.csv")).parent
    write_station(folder, "Dongsi", left_out=7)
    with pytest.raises(DataError, match=r"Dongsi_.* must have each hour of the four years once"):
        read_stations(download)
    (folder / "PRSA_Data_Dongsi_20130301-20170228.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"Dongsi_.* cannot be read as a station"):
        read_stations(download)
    (folder / "PRSA_Data_Dongsi_20130301-20170228.csv").unlink()
    with pytest.raises(DataError, match="must hold PRSA_Data_Dongsi_"):
        read_stations(download)


def test_the_published_file_has_the_published_sum(data_folder: Path) -> None:
    """The sum is that of the file with which everything was measured."""
    table = pyarrow.parquet.read_table(data_folder / "beijing_air_hourly.parquet")
    assert content_sha256(table) == CONTENT_SHA256


def test_a_file_of_something_else_has_not_the_content(tmp_path: Path) -> None:
    """Text is no table."""
    (tmp_path / "beijing_air_hourly.parquet").write_text("no table")
    assert not has_published_content(tmp_path / "beijing_air_hourly.parquet")
