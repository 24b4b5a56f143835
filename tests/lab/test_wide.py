"""Wide tables: a column of times, one column per device, in the dialects one meets."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from rase.errors import DataError
from rase.lab.datasets import Wanted, load, open_panel
from rase.tables.columns import Hints
from rase.tables.layouts import Columns

UCI = (
    '"";"MT_001";"MT_002"\n'
    '"2011-01-01 00:15:00";0;"2,5"\n'
    '"2011-01-01 00:30:00";1,25;7\n'
    '"2011-01-01 00:45:00";;8,5\n'
    '"2011-01-01 01:00:00";3;1\n'
)


def written(folder: Path, text: str, name: str = "wide.csv") -> str:
    """Write a table and return its path."""
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def test_semicolons_and_decimal_commas(tmp_path: Path) -> None:
    """ElectricityLoadDiagrams' layout: an unnamed time column, semicolons, decimal commas."""
    loaded = load(written(tmp_path, UCI, "LD2011_2014.txt"), Wanted(unit="kW"))
    panel = loaded.panel
    assert loaded.layout == "wide"
    assert panel.devices == ("MT_001", "MT_002")
    assert panel.unit == "kW"
    assert loaded.own_interval_ms == 900_000
    assert panel.values[:, 1].tolist() == [2.5, 7, 8.5, 1]
    assert np.isnan(panel.values[2, 0])
    assert any("decimal comma" in note for note in loaded.notes)
    assert (loaded.rows, loaded.nulls) == (8, 1)


def test_resampled(tmp_path: Path) -> None:
    """A round is the mean of its rows; one measured for less than half has no reading."""
    panel = open_panel(written(tmp_path, UCI), every="30min")
    assert panel.values[:, 1].tolist() == pytest.approx([2.5, 7.75, 1])
    panel = open_panel(written(tmp_path, UCI), every="1h", min_coverage=0.75)
    assert panel.values[0, 0] == pytest.approx(6)
    assert panel.devices == ("MT_002",)


@pytest.mark.parametrize("separator", [",", "\t", "|", ";"])
def test_separators(tmp_path: Path, separator: str) -> None:
    """Commas, tabs, bars and semicolons are told apart by the header; points stay points."""
    text = "time,a,b\n2024-01-01T00:00Z,1.5,2\n2024-01-01T01:00Z,2.5,NA\n"
    panel = open_panel(written(tmp_path, text.replace(",", separator)))
    assert panel.values[:, 0].tolist() == [1.5, 2.5]
    assert np.isnan(panel.values[1, 1])


def test_gzip_and_parquet(tmp_path: Path) -> None:
    """Compressed text and Parquet are read too, recognised by content."""
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(UCI.encode()))
    assert open_panel(str(tmp_path / "a.csv.gz")).values[1].tolist() == [1.25, 7]
    table = pa.table({"when": pa.array([0, 3_600_000]).cast(pa.timestamp("ms")), "x": [1.0, 2.0]})
    pyarrow.parquet.write_table(table, tmp_path / "b.parquet")
    assert open_panel(str(tmp_path / "b.parquet")).values.tolist() == [[1], [2]]


def test_chosen_time_column_and_decimal(tmp_path: Path) -> None:
    """The times may stand anywhere, and decimals be told."""
    text = "a;when;b\n1;1700000000;2\n2;1700000060;3,5\n"
    times = Columns(time="when")
    loaded = load(written(tmp_path, text), Wanted(columns=times, hints=Hints(decimal="comma")))
    assert loaded.panel.devices == ("a", "b")
    assert loaded.panel.values.tolist() == [[1, 2], [2, 3.5]]
    assert any("seconds since 1970" in note for note in loaded.notes)
    with pytest.raises(DataError, match=r"column 'b' must hold numbers, and row 2 does not"):
        load(
            str(tmp_path / "wide.csv"),
            Wanted(columns=times, hints=Hints(decimal="point")),
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("time\n2024-01-01\n", "no column besides the times"),
        ("time,a,a\n2024-01-01,1,2\n", "has two columns named 'a'; keep one"),
        ("time,a,\n2024-01-01,1,2\n", "a column without a name"),
        ("time,a\n", "holds no rows"),
        ("time,a\n2024-01-01,\n2024-01-02,\n", "is empty in all"),
        ("time,a,b\n2024-01-01,1,1\n2024-01-01,1,1\n", "row 2 repeats a time of its device"),
        ("time,a,b\n2024-01-02,1,1\n2024-01-01,1,1\n", "row 2 goes back in time for its device"),
        ("time,a\n2024-01-02,1\n2024-01-03\n", "row 2 of .* has another number of columns"),
        (
            "time,a\n2024-01-01T00:00:00Z,1\n2024-01-01T01:00:00,1\n",
            "mixes times with and without a zone, first in row 2",
        ),
        ("1.5,2.5\n3,4\n", "has no header line; write one"),
    ],
)
def test_refused(tmp_path: Path, text: str, message: str) -> None:
    """What cannot be used is refused in one line that says where and what to do."""
    with pytest.raises(DataError, match=message) as refused:
        open_panel(written(tmp_path, text), every="1d")
    assert "\n" not in str(refused.value)


def test_zones_mixed_in_a_later_block(tmp_path: Path) -> None:
    """Blocks are compared with one another: a zone that comes in later is refused too."""
    hours = np.datetime64("2000-01-01T00", "s") + np.arange(60_000) * np.timedelta64(3600, "s")
    lines = [f"{hour}{'Z' if row >= 55_000 else ''},1" for row, hour in enumerate(hours.tolist())]
    with pytest.raises(DataError, match="first in row 55001"):
        open_panel(written(tmp_path, "\n".join(["time,a", *lines])))


def test_damaged(tmp_path: Path) -> None:
    """Files that break off, or are no table, are refused in one line."""
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(UCI.encode() * 2)[:-30])
    with pytest.raises(DataError, match="is cut off; copy or compress it again"):
        open_panel(str(tmp_path / "cut.csv.gz"))
    (tmp_path / "y.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(DataError, match="is a damaged Parquet file"):
        open_panel(str(tmp_path / "y.parquet"))
    with pytest.raises(DataError, match="has no column 'when'"):
        load(written(tmp_path, UCI), Wanted(columns=Columns(time="when")))


def test_one_reader(tmp_path: Path) -> None:
    """What `rase run` reads makes a panel too: other names, dates, zones, UTF-16."""
    text = "Zeitstempel;Gerät;Messwert\n%s"
    rows = ((5, "a", "1,5"), (5, "b", "2"), (6, "a", "3"), (6, "b", "4,5"))
    lines = "".join(f"0{hour}.01.2024 00:00;{who};{value}\n" for hour, who, value in rows)
    (tmp_path / "t.csv").write_text(text % lines, encoding="utf-16")
    wanted = Wanted(hints=Hints(dates="day-first", timezone="Europe/Berlin"))
    loaded = load(str(tmp_path / "t.csv"), wanted)
    assert loaded.layout == "long"
    assert loaded.panel.values.tolist() == [[1.5, 2], [3, 4.5]]
    assert loaded.panel.times_ms[0] == 1_704_326_400_000  # the UTC day of 2024-01-04 23:00
    assert any("'Messwert' holds the readings" in note for note in loaded.notes)


def test_columns_of_no_known_name_are_devices(tmp_path: Path) -> None:
    """A panel has several devices, so only rows that are said to be long are quantities of one."""
    path = written(tmp_path, "when,kettle,fridge\n2024-01-01,1,2\n2024-01-02,3,4\n")
    assert open_panel(path).devices == ("kettle", "fridge")
    with pytest.raises(DataError, match="has no column 'time'"):
        load(path, Wanted(hints=Hints(form="long")))
