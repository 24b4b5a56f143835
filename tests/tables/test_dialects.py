"""Tables as the world writes them: read rightly, or refused with both readings."""

import bz2
import gzip
import io
import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rase import SeededRandom, aggregate
from rase.cli.run import command
from rase.errors import DataError
from rase.tables.columns import Hints
from rase.tables.files import find_files
from rase.tables.layouts import Columns
from rase.tables.source import TableSource, open_source

NOON = datetime(2024, 3, 31, 12, tzinfo=UTC)
NOON_MS = 1_711_886_400_000
HEAD = "time,device,value\n"
# What the files below say, each in its own way: noon and an hour later, 12.5 and nothing.
EXPECTED = [(NOON_MS, "a", 12.5), (NOON_MS + 3_600_000, "b", None)]


def rows_of(source: TableSource) -> list[tuple[int, str, float | None]]:
    """Return all rows: time, device and reading, None where there is none."""
    found = []
    for chunk in source.chunks():
        names = [chunk.names[int(code)].as_py() for code in chunk.device]
        values = np.where(chunk.is_valid, chunk.value, np.nan).tolist()
        for time, name, value in zip(chunk.time_ms.tolist(), names, values, strict=True):
            found.append((time, name, None if np.isnan(value) else value))
    return found


def opened(folder: Path, content: str | bytes, **hints: Any) -> TableSource:
    """Write a file and open it."""
    path = folder / "table.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return open_source(find_files(str(path), hints=Hints(**hints)))


def timed(first: str, second: str) -> str:
    """Return the table with its times written in some way."""
    return f'{HEAD}"{first}",a,12.5\n"{second}",b,\n'


PLAIN = timed("2024-03-31T12:00:00Z", "2024-03-31T13:00:00Z")
READ: dict[str, str | bytes] = {
    "commas": PLAIN,
    "semicolons": PLAIN.replace(",", ";"),
    "tabs": PLAIN.replace(",", "\t"),
    "bars": PLAIN.replace(",", "|"),
    "semicolons and decimal commas": PLAIN.replace(",", ";").replace("12.5", "12,5"),
    "a quoted decimal comma": PLAIN.replace("12.5", '"12,5"'),
    "capital letters": PLAIN.replace("time,device,value", "Time,DEVICE,Value"),
    "byte order mark": "\ufeff" + PLAIN,
    "UTF-16": PLAIN.encode("utf-16"),
    "UTF-16, the other end first": b"\xfe\xff" + PLAIN.encode("utf-16-be"),
    "UTF-16 with tabs, as Excel writes it": PLAIN.replace(",", "\t").encode("utf-16"),
    "lines of DOS": PLAIN.replace("\n", "\r\n"),
    "no last line end": PLAIN.rstrip("\n"),
    "blanks": PLAIN.replace(",", " , ").replace('" ', '"'),
    "quotes around all": PLAIN.replace(",a,12.5", ',"a","12.5"'),
    "gzip": gzip.compress(PLAIN.encode()),
    "bzip2": bz2.compress(PLAIN.encode()),
    "zstd": pa.compress(PLAIN.encode(), "zstd", asbytes=True),
    "gzip with semicolons": gzip.compress(PLAIN.replace(",", ";").encode()),
    "seconds": timed("1711886400", "1711890000"),
    "seconds with a fraction": timed("1711886400.0", "1711890000.0"),
    "milliseconds": timed("1711886400000", "1711890000000"),
    "microseconds": timed("1711886400000000", "1711890000000000"),
    "nanoseconds": timed("1711886400000000000", "1711890000000000000"),
    "dots": timed("31.03.2024 12:00", "31.03.2024 13:00"),
    "dots, short": timed("31.3.24 12:00", "31.3.24 13:00"),
    "dots in the clock too": timed("31/03/2024 12.00.00", "31/03/2024 13.00.00"),
    "slashes, day first": timed("31/03/2024 12:00:00", "31/03/2024 13:00:00"),
    "slashes, month first": timed("03/31/2024 12:00:00", "03/31/2024 13:00:00"),
    "AM and PM": timed("03/31/2024 12 PM", "03/31/2024 1:00 pm"),
    "AM and PM with dots": timed("3/31/2024 12:00 p.m.", "3/31/2024 1:00:00.000 P.M."),
    "names of months": timed("31-Mar-2024 12:00", "31-March-2024 13:00"),
    "slashes, year first": timed("2024/03/31 12:00", "2024/03/31 13:00"),
    "offsets": timed("2024-03-31T14:00:00+02:00", "2024-03-31T15:00:00+02:00"),
    "offsets behind dots": timed("31.03.2024 14:00 +0200", "31.03.2024 15:00 +0200"),
    "UTC by name": timed("31.03.2024 12:00 UTC", "31.03.2024 13:00 UTC"),
    "repeated columns nobody asked for": (
        'time,device,value,x,x\n"2024-03-31T12:00:00Z",a,12.5,1,2\n"2024-03-31T13:00:00Z",b,,3,4\n'
    ),
    "empty columns": PLAIN.replace("value\n", "value,,\n")
    .replace("12.5\n", "12.5,,\n")
    .replace("b,\n", "b,,,\n"),
    "unsorted": "".join(PLAIN.splitlines(keepends=True)[place] for place in (0, 2, 1)),
}
LATER_MS = NOON_MS + 3_600_000
WIDE = "time,h1,h2\n2024-03-31T12:00:00Z,12.5,NA\n2024-03-31T13:00:00Z,,3\n"
WIDE_ROWS = [
    (NOON_MS, "h1", 12.5),
    (NOON_MS, "h2", None),
    (LATER_MS, "h1", None),
    (LATER_MS, "h2", 3.0),
]
# Tables that lack a column or have one for each device: what they say, and what is noted.
LAID_OUT: dict[str, tuple[str, list[tuple[int, str, float | None]], str]] = {
    "wide": (WIDE, WIDE_ROWS, "each column but 'time' is a device: 2 devices."),
    "wide with semicolons and commas": (
        WIDE.replace(",", ";").replace("12.5", "12,5"),
        WIDE_ROWS,
        "commas in column 'h1' are read as decimal commas.",
    ),
    "wide, times called otherwise": (
        WIDE.replace("time", "Timestamp"),
        WIDE_ROWS,
        "column 'Timestamp' holds the times.",
    ),
    "no time": (
        "device,value\na,1\nb,2\n",
        [(0, "a", 1.0), (0, "b", 2.0)],
        "no column of times: all rows are one round.",
    ),
    "one column": (
        "kWh\n12,5\n3\n-\n",
        [(0, "row 1", 12.5), (0, "row 2", 3.0), (0, "row 3", None)],
        "no column of devices: each row is a device of its own, so promises are for a row.",
    ),
    "a person in each row": (
        "id;income\nx;1.200,50\ny;900\n",
        [(0, "x", 1200.5), (0, "y", 900.0)],
        "column 'income' holds the readings.",
    ),
    "history of Home Assistant": (
        "entity_id,state,last_changed\nsensor.a,12.5,2024-03-31T12:00:00Z\nsensor.b,unavailable,"
        "2024-03-31T13:00:00Z\n".replace("Z", ".000Z"),
        [(NOON_MS, "sensor.a", 12.5), (LATER_MS, "sensor.b", None)],
        "column 'last_changed' holds the times.",
    ),
    "an index that was saved, too": (
        ",time,device,value\n0,2024-03-31T12:00:00Z,a,12.5\n",
        [(NOON_MS, "a", 12.5)],
        "",
    ),
}


@pytest.mark.parametrize("case", LAID_OUT)
def test_layouts(tmp_path: Path, case: str) -> None:
    """A table may be wide, or lack times or devices, or call its columns otherwise."""
    text, expected, note = LAID_OUT[case]
    source = opened(tmp_path, text)
    assert rows_of(source) == expected
    assert note in [*source.notes, ""]


def test_layouts_that_were_said(tmp_path: Path) -> None:
    """Where the header leaves it open the user's word decides."""
    text = "time,a,b\n2024-03-31T12:00:00Z,1,2\n"
    wide = [(NOON_MS, "a", 1.0), (NOON_MS, "b", 2.0)]
    assert rows_of(opened(tmp_path, text, form="wide")) == wide
    unnamed = text.replace("time", "")
    assert rows_of(opened(tmp_path, unnamed, form="wide")) == wide
    path = tmp_path / "table.csv"
    path.write_text("time,value\n1,5\n2,6\n", encoding="utf-8")
    source = open_source(path, columns=Columns(device="-"))
    assert rows_of(source) == [(1000, "row 1", 5.0), (2000, "row 2", 6.0)]
    path.write_text("time,device,value\n1,a,5\n", encoding="utf-8")
    assert rows_of(open_source(path, columns=Columns(time="-"))) == [(0, "a", 5.0)]


def test_layouts_elsewhere(tmp_path: Path) -> None:
    """Parquet, frames and several files follow the same rules."""
    table = pa.table({"ts": pa.array([NOON_MS, LATER_MS]), "m_1": [1.0, 2.0], "m_2": [None, 4.0]})
    wide = [(NOON_MS, "m_1", 1.0), (NOON_MS, "m_2", None), (LATER_MS, "m_1", 2.0)]
    wide.append((LATER_MS, "m_2", 4.0))
    pq.write_table(table, tmp_path / "t.parquet")
    for place in (tmp_path / "t.parquet", table, table.to_pandas().set_index("ts")):
        if hasattr(place, "index"):
            place.index = place.index.astype("datetime64[ms]")
        assert rows_of(open_source(place)) == wide
    (tmp_path / "t.parquet").unlink()
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("value\n5\n", encoding="utf-8")
    rows = [(0, "row 1", 5.0), (0, "row 2", 5.0)]
    assert rows_of(open_source(f"{tmp_path}/*.csv")) == rows
    pq.write_table(pa.table({"kwh": [5.0]}), tmp_path / "one.parquet")
    assert rows_of(open_source(tmp_path / "one.parquet")) == rows[:1]
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(DataError, match="damaged Parquet"):
        rows_of(open_source(f"{tmp_path}/*.parquet"))


class Lazy:
    """What a LazyFrame of Polars is here: a table once it is collected."""

    def collect_schema(self) -> None:
        """Do nothing; only its presence is looked at."""

    def collect(self) -> dict[str, list[Any]]:
        """Return the table."""
        return {"t": [0, 0], "who": ["a", "b"], "kw": [1.0, 3.0]}


def test_layouts_in_python() -> None:
    """Columns are named in Python as on the command line, and lazy frames are collected."""
    found = aggregate(
        Lazy(), (0, 4), epsilon=30, rng=SeededRandom(1), columns=("t", "who", "kw"), every="1h"
    )
    assert found[0].n == 2
    assert abs(found[0].estimate.value - 2) < 0.2
    with pytest.raises(DataError, match="got object"):
        open_source(object())


for mark in ("NA", "N/A", "nan", "NaN", "null", "None", "-", "?", "unavailable"):
    READ[f"{mark} for nothing"] = PLAIN.replace(",b,\n", f",b,{mark}\n")


@pytest.mark.parametrize("dialect", READ)
def test_dialects(tmp_path: Path, dialect: str) -> None:
    """A file in a dialect is the same table."""
    rows = rows_of(opened(tmp_path, READ[dialect]))
    assert sorted(rows, key=lambda row: row[0]) == EXPECTED


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (("1,200.5", "3"), (1200.5, 3.0)),
        (("1.200,5", "3"), (1200.5, 3.0)),
        (("1.200,5", "1.234"), (1200.5, 1234.0)),
        (("12,5", "1,234"), (12.5, 1.234)),
        (("12.5", "1,234"), (12.5, 1234.0)),
        (("1,234,567", "1"), (1234567.0, 1.0)),
        (("1 200,5", "1\u202f234 567"), (1200.5, 1234567.0)),
        (("1'200.5", "+3"), (1200.5, 3.0)),
        (("0,125", "1,234"), (0.125, 1.234)),
        (("\u22123,5", "1e3"), (-3.5, 1000.0)),
        (("1.234", "5"), (1.234, 5.0)),
    ],
)
def test_numbers(tmp_path: Path, cells: tuple[str, str], numbers: tuple[float, float]) -> None:
    """Decimal marks and thousands are told apart by all numbers of a table."""
    text = HEAD + "".join(f'{second},a,"{cell}"\n' for second, cell in enumerate(cells))
    assert tuple(row[2] for row in rows_of(opened(tmp_path, text))) == numbers


TWO_READINGS = {
    f'{HEAD}1,a,"1,234"\n': r"row 1: 1,234 may be 1\.234 \(say --decimal comma\) or 1234",
    "time;device;value\n1;a;1.234\n": r"1\.234 is 1234 with --decimal comma",
    f'{HEAD}1,a,"12,5"\n2,a,12.5\n': "with a point .*row 2.* and with a comma .*row 1",
    f"{HEAD}03/04/2024,a,1\n": "03/04/2024 may be 3 April .* or March 4",
    f"{HEAD}13/04/2024,a,1\n04/13/2024,a,1\n": "the day first in some rows and the month first",
    f"{HEAD}20240531,a,1\n": "may be 31 May 2024 or the second 20240531 after 1970",
    f"{HEAD}20240531180000,a,1\n": "may be 31 May 2024",
    f"{HEAD}45382.5,a,1\n": "a spreadsheet's days since 1900 or seconds since 1970",
    "time,value\n1,5\n": "all rows may be of one device .*, or each row of a device of its own",
    "time,temperature,humidity\n1,2,3\n": "may be one device each .* or quantities of one device",
    "timestamp,date,device,value\n1,2,a,3\n": "may be 'timestamp' or 'date'; choose",
    "time,h1,h1\n1,2,3\n": "two columns named 'h1'; keep one",
    "tim,device,value\n1,a,2\n": "no column 'time'.*did you mean 'tim'",
    "time,dev,value\n1,a,2\n": "no column 'device'.*did you mean 'dev'",
    "5\n6\n": "no header line",
    "a;b,c\n1;2,5\n": "may be separated by commas or semicolons",
    f"{HEAD}1,a,200 W\n": "row 1 holds a number with its unit; take the units away",
    f"{HEAD}05/06/07,a,1\n": "holds no time in row 1",
    f"{HEAD}31.02.2024,a,1\n": "holds no time in row 1",
    f'{HEAD}1,a,1\n2,a,"1,2,3"\n': "must hold numbers, and row 2 does not",
}


@pytest.mark.parametrize("text", TWO_READINGS)
def test_two_readings(tmp_path: Path, text: str) -> None:
    """What could be read in two ways is refused with both; what in none, by its row."""
    with pytest.raises(DataError, match=TWO_READINGS[text]):
        rows_of(opened(tmp_path, text))


def test_what_was_said_decides(tmp_path: Path) -> None:
    """The user's word settles what the rows leave open."""
    number = f'{HEAD}1,a,"1,234"\n'
    assert rows_of(opened(tmp_path, number, decimal="comma"))[0][2] == 1.234
    assert rows_of(opened(tmp_path, number, decimal="point"))[0][2] == 1234
    date = f"{HEAD}03/04/2024,a,1\n"
    april, march = 1_712_102_400_000, 1_709_510_400_000
    assert rows_of(opened(tmp_path, date, dates="day-first"))[0][0] == april
    assert rows_of(opened(tmp_path, date, dates="month-first"))[0][0] == march


def test_rows_far_below_tell(tmp_path: Path) -> None:
    """A day after the 12th, or a decimal, megabytes below settles what stands above it."""
    many = "".join(f'03/04/2024,{row},"1,234"\n' for row in range(60_000))
    rows = rows_of(opened(tmp_path, f'{HEAD}{many}03/13/2024,z,"0,5"\n'))
    assert rows[0] == (1_709_510_400_000, "0", 1.234)
    assert len(rows) == 60_001


def test_what_was_guessed_is_noted(tmp_path: Path) -> None:
    """How a table was understood can be printed."""
    source = opened(tmp_path, "time;device;value\n31.03.2024;a;12,5\n")
    rows_of(source)
    assert source.notes == [
        "semicolons separate the columns.",
        "commas in column 'value' are read as decimal commas.",
        "dates in column 'time' are read with the day first.",
    ]


@pytest.mark.parametrize("written", ["2024-03-31 14:00", "31.03.2024 14:00"])
def test_local_times(tmp_path: Path, written: str) -> None:
    """Times without a zone are those of the zone that was named."""
    text = f"{HEAD}{written},a,1\n"
    assert rows_of(opened(tmp_path, text, timezone="Europe/Berlin"))[0][0] == NOON_MS
    assert rows_of(opened(tmp_path, text, timezone="+02:00"))[0][0] == NOON_MS
    assert rows_of(opened(tmp_path, text))[0][0] == NOON_MS + 2 * 3_600_000


def test_clocks_that_are_set(tmp_path: Path) -> None:
    """An hour that was skipped is refused, and one that came twice with both moments."""
    text = f"{HEAD}2024-03-30 12:00,a,1\n2024-03-31 02:30,a,1\n"
    with pytest.raises(DataError, match=r"row 2 a time that Europe/Berlin skipped"):
        rows_of(opened(tmp_path, text, timezone="Europe/Berlin"))
    text = f"{HEAD}2024-10-27 02:30,a,1\n"
    both = r"it may be 2024-10-27T02:30:00\+02:00 or 2024-10-27T02:30:00\+01:00"
    with pytest.raises(DataError, match=both):
        rows_of(opened(tmp_path, text, timezone="Europe/Berlin"))
    with pytest.raises(ValueError, match="got 'Berlin'"):
        Hints(timezone="Berlin")


def test_parquet_in_a_zone(tmp_path: Path) -> None:
    """Timestamps without a zone in Parquet follow the same word, and so do their bounds."""
    path = tmp_path / "t.parquet"
    times = pa.array([datetime(2024, 3, 31, 14)], pa.timestamp("ms"))  # noqa: DTZ001
    pq.write_table(pa.table({"time": times, "device": ["a"], "value": [1.0]}), path)
    source: Any = open_source(find_files(str(path), hints=Hints(timezone="Europe/Berlin")))
    assert rows_of(source) == [(NOON_MS, "a", 1.0)]
    assert source.groups[0].time_ms == (NOON_MS, NOON_MS)


def grouped(number: float, decimals: int, mark: str, between: str) -> str:
    """Write a number with a decimal mark and something between thousands."""
    text = f"{number:,.{decimals}f}"
    return text.replace(",", "\0").replace(".", mark).replace("\0", between)


CLOCKS = ["%Y-%m-%d %H:%M:%S", "%Y/%m/%d %H:%M:%S", "%d.%m.%Y %H:%M:%S", "%d/%m/%Y %I:%M:%S %p"]
CLOCKS += ["%m/%d/%Y %H:%M:%S", "%d-%b-%Y %H:%M:%S", "%Y-%m-%dT%H:%M:%S+00:00", "epoch"]


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    readings=st.lists(
        st.one_of(st.none(), st.integers(-99_999_999, 99_999_999)), min_size=1, max_size=12
    ),
    seconds=st.integers(0, 2_000_000_000),
    separator=st.sampled_from(",;\t|"),
    marks=st.sampled_from([(".", ""), (".", ","), (",", ""), (",", "."), (",", " "), (".", "'")]),
    clock=st.sampled_from(CLOCKS),
    missing=st.sampled_from(["", "NA", "null", "-"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_any_dialect_gives_the_table_back(
    tmp_path_factory: pytest.TempPathFactory,
    *,
    readings: list[int | None],
    seconds: int,
    separator: str,
    marks: tuple[str, str],
    clock: str,
    missing: str,
    encoding: str,
    end: str,
) -> None:
    """A table written in any dialect is read as it was, once its rows tell the dialect."""
    # Two decimals settle the mark, and a day after the 12th the order of dates.
    start = datetime(1970, 1, 20, tzinfo=UTC) + timedelta(seconds=seconds)
    start = start.replace(day=20)
    lines = [separator.join(("Time", "device", "value"))]
    table = [(7, "x", 50), *((number, f"d{number}", one) for number, one in enumerate(readings))]
    expected = []
    for hours, device, hundredths in table:
        at = start + timedelta(hours=hours)
        text = str(int(at.timestamp())) if clock == "epoch" else at.strftime(clock)
        cell = missing if hundredths is None else grouped(hundredths / 100, 2, *marks)
        lines.append(separator.join(f'"{one}"' for one in (text, device, cell)))
        value = None if hundredths is None else hundredths / 100
        expected.append((1000 * int(at.timestamp()), device, value))
    content = end.join([*lines, ""]).encode(encoding)
    assert rows_of(opened(tmp_path_factory.mktemp("dialect"), content)) == expected


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    readings=st.lists(
        st.lists(st.one_of(st.none(), st.integers(-999_999, 999_999)), min_size=3, max_size=3),
        min_size=1,
        max_size=6,
    ),
    separator=st.sampled_from(",;\t|"),
    marks=st.sampled_from([(".", ""), (",", ""), (",", "."), (".", ",")]),
    missing=st.sampled_from(["", "NA", "-"]),
    time=st.sampled_from(["time", "Timestamp", "DATE", "zeit"]),
    device=st.sampled_from(["h{}", "Meter {}", "MT_00{}", "{}"]),
)
def test_any_wide_table_is_given_back(
    tmp_path_factory: pytest.TempPathFactory,
    *,
    readings: list[list[int | None]],
    separator: str,
    marks: tuple[str, str],
    missing: str,
    time: str,
    device: str,
) -> None:
    """A column for each device is read as the long table of the same readings."""
    names = [device.format(number) for number in range(1, 4)]
    lines, expected = [separator.join((time, *names))], []
    # Two decimals in the first row settle the mark.
    first: list[int | None] = [50, 50, 50]
    for hour, row in enumerate([first, *readings]):
        cells = [missing if one is None else grouped(one / 100, 2, *marks) for one in row]
        stamp = f"2024-03-{20 + hour}T00:00:00Z"
        lines.append(separator.join(f'"{cell}"' for cell in (stamp, *cells)))
        at = int(datetime(2024, 3, 20 + hour, tzinfo=UTC).timestamp()) * 1000
        expected += [
            (at, name, None if one is None else one / 100)
            for name, one in zip(names, row, strict=True)
        ]
    content = "\n".join([*lines, ""])
    assert rows_of(opened(tmp_path_factory.mktemp("wide"), content)) == expected


def test_options_of_the_command(tmp_path: Path) -> None:
    """The command passes on what it was told, prints guesses, and refuses hints on a cluster."""
    path = tmp_path / "table.csv"
    path.write_text("time;device;value\n03/04/2024;a;12,5\n", encoding="utf-8")
    asked = [str(path), "--range", "0", "100", "--epsilon", "1", "--seed", "1"]
    refused = CliRunner().invoke(command, asked)
    assert isinstance(refused.exception, DataError)
    done = CliRunner().invoke(command, [*asked, "--dates", "month-first"])
    assert done.exit_code == 0
    assert "2024-03-04" in done.stdout
    assert "read with the month first" in done.stderr
    other = CliRunner().invoke(command, [*asked, "--times-in", "UTC", "--engine", "spark"])
    assert other.exit_code == 2
    assert "need --engine local" in other.stderr
    unknown = CliRunner().invoke(command, [*asked, "--times-in", "Berlin"])
    assert unknown.exit_code == 2


@pytest.mark.parametrize("content", [PLAIN.encode(), gzip.compress(PLAIN.encode())])
def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Standard input and pipes are tables like any other, read as often as needed."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    source = open_source("-")
    assert rows_of(source) == rows_of(source) == EXPECTED
    assert source.place == "standard input"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    assert rows_of(open_source(pipe)) == EXPECTED
    writer.join()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(DataError, match="standard input is empty"):
        open_source("-")
