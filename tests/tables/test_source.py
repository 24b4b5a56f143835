"""Tables of readings: what is understood, and what is refused with one clear line."""

import gzip
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rase.errors import DataError
from rase.tables.files import find_files
from rase.tables.layouts import Columns
from rase.tables.rows import Rows
from rase.tables.source import open_source

HOUR_MS = 3_600_000
START = datetime(2014, 6, 8, 1, tzinfo=UTC).replace(tzinfo=None)
START_MS = 1_402_189_200_000


def read(path: Path, **options: Any) -> Rows:
    """Read a whole table as one batch."""
    batches = list(open_source(path, **options).batches())
    return Rows(
        *(
            np.concatenate([getattr(batch, name) for batch in batches])
            for name in ("time_ms", "device", "value", "is_valid")
        )
    )


def csv_file(folder: Path, text: str, name: str = "readings.csv") -> Path:
    """Write a CSV file."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def parquet_file(folder: Path, **columns: Any) -> Path:
    """Write a Parquet file with good columns, some replaced."""
    good = {"time": pa.array([START]), "device": pa.array(["a"]), "value": pa.array([1.0])}
    path = folder / "readings.parquet"
    pq.write_table(pa.table(good | columns), path)
    return path


def test_csv(tmp_path: Path) -> None:
    """A CSV file gives milliseconds, codes by first appearance, values, and nulls where empty."""
    path = csv_file(tmp_path, "time,device,value\n2014-06-08 01:00,b,1.5\n2014-06-08 02:00,a,\n")
    rows = read(path)
    assert rows.time_ms.tolist() == [START_MS, START_MS + HOUR_MS]
    assert rows.device.tolist() == [0, 1]
    assert rows.value.tolist() == [1.5, 0.0]
    assert rows.is_valid.tolist() == [True, False]
    assert "1.5" not in repr(rows)


def test_gzip_bom_blanks_and_extra_columns(tmp_path: Path) -> None:
    """Compression, a byte order mark, blanks around fields and further columns do not matter."""
    text = '\ufefftime, device ,note,value\n 1402189200 , a ,"x\ny", 2.5 \n1402192800,a,7,  \n'
    path = tmp_path / "readings.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    table = open_source(path)
    (rows,) = table.batches()
    assert rows.time_ms.tolist() == [START_MS, START_MS + HOUR_MS]
    assert rows.is_valid.tolist() == [True, False]
    assert table.device_codes == {"a": 0}
    assert table.share_read == 1.0


def test_types_are_not_guessed_from_the_first_block(tmp_path: Path) -> None:
    """A column that looks whole at first may hold fractions a million rows later."""
    lines = [f"{second},1,{second}" for second in range(120_000)]
    path = csv_file(tmp_path, "\n".join(["time,device,value", *lines, "120000,x1,0.5"]) + "\n")
    table = open_source(path)
    batches = list(table.batches())
    assert len(batches) > 1
    assert batches[-1].value[-1] == 0.5
    assert table.device_codes == {"1": 0, "x1": 1}
    assert sum(map(len, table.batches())) == 120_001


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("2014-06-08T01:00:00", START_MS),
        ("2014-06-08T01:00:00Z", START_MS),
        ("2014-06-08T03:00:00+02:00", START_MS),
        ("2014-06-08T01:00:00.0129", START_MS + 12),
        ("2014-06-08T01:00:00.012999999", START_MS + 12),
        ("2014-06-08T01:00:00.012999999Z", START_MS + 12),
        ("2014-06-08", START_MS - HOUR_MS),
        ("1402189200", START_MS),
        ("1402189200012", START_MS + 12),
        ("-1", -1000),
    ],
)
def test_times_as_text(tmp_path: Path, text: str, milliseconds: int) -> None:
    """ISO texts with and without zone, dates, seconds and milliseconds are times."""
    rows = read(csv_file(tmp_path, f"time,device,value\n{text},a,1\n"))
    assert rows.time_ms.tolist() == [milliseconds]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([START], pa.timestamp("s")),
        pa.array([START], pa.timestamp("ms")),
        pa.array([START], pa.timestamp("us")),
        pa.array([START], pa.timestamp("ns")),
        pa.array([START.replace(tzinfo=UTC)], pa.timestamp("us", "Europe/Berlin")),
        pa.array([START.replace(tzinfo=timezone(timedelta(0)))]),
        pa.array([START_MS]),
        pa.array([START_MS // 1000], pa.uint32()),
        pa.array([START_MS / 1000]),
        pa.array([float(START_MS)], pa.float64()),
        pa.array(["2014-06-08T01:00:00"], pa.large_string()),
        pa.array(["2014-06-08T01:00:00"]).dictionary_encode(),
        pa.array(["2014-06-08T01:00:00"], pa.string_view()),
    ],
    ids=lambda column: f"{column.type} {column[0]}",
)
def test_times_in_parquet(tmp_path: Path, column: Any) -> None:
    """Timestamps of any unit and zone, whole numbers and texts are times."""
    assert read(parquet_file(tmp_path, time=column)).time_ms.tolist() == [START_MS]


def test_fractions_of_seconds(tmp_path: Path) -> None:
    """Seconds with a fraction keep their milliseconds, whatever a float makes of them."""
    seconds = [START_MS / 1000 + place / 1000 for place in range(1000)]
    columns = {"device": pa.array([1] * 1000), "value": pa.array([1.0] * 1000)}
    rows = read(parquet_file(tmp_path, time=pa.array(seconds), **columns))
    assert rows.time_ms.tolist() == [START_MS + place for place in range(1000)]


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_dates(tmp_path: Path, kind: Any) -> None:
    """A date is its first moment, in UTC."""
    rows = read(parquet_file(tmp_path, time=pa.array([date(2014, 6, 8)], kind)))
    assert rows.time_ms.tolist() == [START_MS - HOUR_MS]


def test_times_before_1970_round_down(tmp_path: Path) -> None:
    """Half a millisecond before 1970 lies in the millisecond before it."""
    column = pa.array([-500], pa.timestamp("us"))
    assert read(parquet_file(tmp_path, time=column)).time_ms.tolist() == [-1]


@pytest.mark.parametrize(("number", "unit"), [(START_MS, "milliseconds"), (5, "seconds")])
def test_note_on_whole_numbers(tmp_path: Path, number: int, unit: str) -> None:
    """How whole numbers were understood is said once."""
    table = open_source(parquet_file(tmp_path, time=pa.array([number])))
    list(table.batches())
    list(table.batches())
    assert table.notes == [f"column 'time' holds whole numbers, read as {unit} since 1970 (UTC)."]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([3.0, None], pa.float32()),
        pa.array([3, None], pa.int16()),
        pa.array([Decimal("3.00"), None]),
        pa.array(["3", None]),
        pa.array(["3.0", " "]).dictionary_encode(),
    ],
    ids=lambda column: str(column.type),
)
def test_values_in_parquet(tmp_path: Path, column: Any) -> None:
    """Numbers of any type, and texts that are numbers, are values."""
    rows = read(
        parquet_file(tmp_path, time=pa.array([1, 2]), device=pa.array([7, 7]), value=column)
    )
    assert rows.value.tolist() == [3.0, 0.0]
    assert rows.is_valid.tolist() == [True, False]


def test_codes_by_first_appearance(tmp_path: Path) -> None:
    """Codes follow the rows, not a dictionary's order, over all batches and every reading."""
    device = pa.DictionaryArray.from_arrays([2, 0, 2, 1], ["a", "b", "c"])
    path = parquet_file(
        tmp_path, time=pa.array([1, 2, 3, 4]), device=device, value=pa.array([1.0] * 4)
    )
    table = open_source(path)
    for _ in range(2):
        assert [code for rows in table.batches() for code in rows.device.tolist()] == [0, 1, 0, 2]
    assert table.device_codes == {"c": 0, "a": 1, "b": 2}
    assert table.share_read == 1.0


def test_other_names(tmp_path: Path) -> None:
    """Columns may have other names."""
    path = csv_file(tmp_path, "t,id,w\n1,a,2\n")
    rows = read(path, columns=Columns("t", "id", "w"))
    assert rows.value.tolist() == [2.0]


def test_parquet_named_csv(tmp_path: Path) -> None:
    """The content decides, not the name."""
    path = parquet_file(tmp_path).rename(tmp_path / "readings.csv")
    assert read(path).value.tolist() == [1.0]


REFUSED_TEXTS = {
    "time,device,valu,x\n1,a,2,3\n": r"no column 'value'; it has 'time', 'device', 'valu', 'x': "
    r"did you mean 'valu'\? Choose the column with --value-column, or --quantity\.",
    "q,x,y\n1,a,2\n": r"it has 'q', 'x', 'y'\. Choose the column with --time-column",
    ",".join(f"c{i}" for i in range(30)) + "\n": r"'c9' and 20 more",
    "1402189200,kettle,12.75\n": r"no header line; write one above the rows: time,device,value",
    "time,device,value,value\n1,a,2,3\n": "2 columns named 'value'; keep one",
    "time,device,value\n": "holds no rows",
    "time,device,value": "holds no rows",
    "time,device,value\n1,a,\n2,a,\n": "column 'value' of .* is empty in all 2 rows",
    "time,device,value\n1,a,1\n2,a,12,75\n": "row 2 of .* has another number of columns",
    "time,device,value\n1,a,1\n2,a,x\n3,a,4\n": "must hold numbers, and row 2 does not; leave",
    "time,device,value\n1,a,-inf\n": "row 1 holds infinity",
    "time,device,value\n1,a,1\n,a,1\n": "column 'time' is empty in row 2; give every row its time",
    "time,device,value\n1,a,1\n2,,1\n": "column 'device' is empty in row 2",
    "time,device,value\n8.6.,a,1\n": "column 'time' holds no time in row 1",
    "time,device,value\n2014-06-08,a,1\n2014-06-09,a,1\nnext day,a,1\n": "no time in row 3",
    "time,device,value\n2014-06-08T00:00Z,a,1\n2014-06-09T00:00,a,1\n": "mixes times.*row 2;",
    "time,device,value\n-9223372036854775808,a,1\n": "too large in row 1",
}


@pytest.mark.parametrize("text", REFUSED_TEXTS)
def test_refused_csv(tmp_path: Path, text: str) -> None:
    """A CSV file that cannot be used is refused in one line that quotes no row."""
    path = csv_file(tmp_path, text)
    with pytest.raises(DataError, match=REFUSED_TEXTS[text]) as refusal:
        read(path)
    # The folder's name has numbers of its own.
    message = str(refusal.value).replace(str(path), "")
    assert "\n" not in message
    assert "75" not in message
    assert "kettle" not in message


def test_csv_wrong_far_below(tmp_path: Path) -> None:
    """A row that is short is named by its number, also beyond the first blocks of the file."""
    rows = "".join(f"{second},a,1\n" for second in range(200_000))
    path = csv_file(tmp_path, f"time,device,value\n{rows}200000,a\n")
    with pytest.raises(DataError, match=r"row 200001 of .* has another number of columns"):
        read(path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"time": pa.array([True])}, "'time' must hold timestamps, .* got bool"),
        ({"time": pa.array([float("nan")])}, "column 'time' holds no time in row 1"),
        ({"time": pa.array([float("inf")])}, "column 'time' holds no time in row 1"),
        ({"device": pa.array([1.5])}, "'device' must hold texts or whole numbers, got double"),
        ({"value": pa.array([START])}, "'value' must hold numbers, got timestamp"),
        ({"value": pa.array([float("nan")])}, "row 1 holds NaN"),
        ({"value": pa.array([None], pa.null())}, "is empty in all 1 rows"),
    ],
)
def test_refused_parquet(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    """A Parquet file whose columns are of other types is refused."""
    with pytest.raises(DataError, match=message):
        read(parquet_file(tmp_path, **columns))


def test_row_numbers_count_over_batches(tmp_path: Path) -> None:
    """A wrong row is named by its number in the file, not in its batch."""
    values = [1.0] * 999 + [float("inf")] + [1.0] * 5
    path = parquet_file(
        tmp_path, time=pa.array(range(1005)), device=pa.array([1] * 1005), value=pa.array(values)
    )
    with pytest.raises(DataError, match="row 1000 holds"):
        list(open_source(path).batches())


def test_no_such_file(tmp_path: Path) -> None:
    """A missing file, an empty folder, an empty file and a forbidden one are told apart."""
    with pytest.raises(DataError, match="there is no file"):
        open_source(tmp_path / "none.csv")
    with pytest.raises(DataError, match=r"the folder .* holds no tables"):
        open_source(tmp_path)
    with pytest.raises(DataError, match="is empty"):
        open_source(csv_file(tmp_path, ""))
    with pytest.raises(DataError, match=r"there is no file .*deeper\.csv"):
        open_source(csv_file(tmp_path, "x") / "deeper.csv")


@pytest.mark.parametrize(
    ("log", "name"),
    [
        ("_delta_log/00000000000000000000.json", "Delta"),
        ("metadata/00000-1.metadata.json", "Iceberg"),
        ("metadata/00000-1.metadata.json.gz", "Iceberg"),
        (".hoodie/hoodie.properties", "Hudi"),
    ],
)
def test_a_table_with_a_log_is_refused(log: str, name: str, tmp_path: Path) -> None:
    """Files that a log has removed still lie there, so no folder, part or glob of it is read."""
    table = tmp_path / "table"
    data = table / "data/day=1"
    data.mkdir(parents=True)
    path = parquet_file(data)
    assert read(tmp_path).value.tolist() == [1.0]
    (table / log).parent.mkdir()
    assert read(table).value.tolist() == [1.0]  # as yet an empty folder of that name
    (table / log).write_text("{}", encoding="utf-8")
    # The whole of a Delta table is read by its log: test_delta.py.
    whole = [] if name == "Delta" else [table]
    for place in (tmp_path, *whole, data, table / "*/*/*.parquet", data / "*.parquet"):
        with pytest.raises(DataError, match=f"belongs to a table of {name}: its log, .*{log[:5]}"):
            open_source(place)
    assert read(path).value.tolist() == [1.0]  # one file that was named


def test_a_folder_called_metadata_is_no_log(tmp_path: Path) -> None:
    """Only Iceberg's own files make a folder of that name a log."""
    parquet_file(tmp_path)
    (tmp_path / "metadata").mkdir()
    csv = csv_file(tmp_path / "metadata", "time,device,value\n1,a,2\n")
    assert read(tmp_path / "*.parquet").value.tolist() == [1.0]
    assert read(csv.parent).value.tolist() == [2.0]


def test_neither_csv_nor_parquet(tmp_path: Path) -> None:
    """Spreadsheets, false Parquet, other encodings and damaged files are told apart."""
    path = tmp_path / "readings.xlsx"
    path.write_bytes(b"PK\x03\x04\0\0\0")
    with pytest.raises(DataError, match="archive that cannot be read as a spreadsheet"):
        open_source(path)
    path = csv_file(tmp_path, "time,device,value\n1,a,2\n", "readings.parquet")
    with pytest.raises(DataError, match="is not Parquet, whatever its name says"):
        open_source(path)
    path = tmp_path / "latin.csv"
    path.write_bytes("time,device,value\n1,Küche,2\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"cannot be read as CSV .* UTF-8"):
        read(path)
    path = tmp_path / "half.csv.gz"
    path.write_bytes(gzip.compress(b"time,device,value\n1,a,2\n" * 100)[:30])
    with pytest.raises(DataError, match="is cut off; copy or compress it again"):
        read(path)


@pytest.mark.parametrize("kept", [0.5, 0.999])
def test_damaged_parquet(tmp_path: Path, kept: float) -> None:
    """A Parquet file cut off is damaged."""
    path = parquet_file(tmp_path)
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    with pytest.raises(DataError, match="is a damaged Parquet file"):
        open_source(path)


def test_parquet_damaged_inside(tmp_path: Path) -> None:
    """Damage found only while reading is told in the same words."""
    path = tmp_path / "readings.parquet"
    columns = {"time": list(range(5000)), "device": ["a"] * 5000, "value": [0.5] * 5000}
    pq.write_table(pa.table(columns), path, compression="zstd")
    content = bytearray(path.read_bytes())
    content[4:600] = b"\xff" * 596
    path.write_bytes(content)
    with pytest.raises(DataError, match="is a damaged Parquet file"):
        read(path)


def test_zones_must_not_be_mixed_across_batches(tmp_path: Path) -> None:
    """A time without a zone far behind times with one is refused by its row, not read as UTC."""
    rows = [
        f"2024-01-01T{hour:02}:{minute:02}:00Z,a{second},1"
        for second in range(40)
        for hour in range(24)
        for minute in range(60)
    ]
    path = tmp_path / "mixed.csv"
    path.write_text("time,device,value\n" + "\n".join([*rows, "2024-01-02T00:00:00,z,1"]) + "\n")
    with pytest.raises(
        DataError, match=f"mixes times with and without a zone, first in row {len(rows) + 1}"
    ):
        for _ in open_source(path).batches():
            pass


def test_a_table_of_a_catalogue_needs_spark() -> None:
    """The name of such a table says nothing to one machine, and the refusal says what to add."""
    with pytest.raises(DataError, match="add --engine spark"):
        find_files("table:meters.readings")
