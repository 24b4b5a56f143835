"""Data of any kind to panels: prepared sets, fleets, long tables, and what is refused."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from tests.tables.peak_memory import peak_mib_of

from rase.errors import DataError
from rase.lab import resample
from rase.lab.datasets import Wanted, load, open_panel
from rase.lab.fleet import SyntheticFleet
from rase.lab.resample import Grid, gaps_of, usual_interval_ms
from rase.lab.sources import CHECKSUMS, SOURCES, check_file
from rase.tables.layouts import Columns

LONG = (
    "time,device,value\n"
    "2024-01-01T00:00:00Z,a,1\n"
    "2024-01-01T00:00:00Z,b,10\n"
    "2024-01-01T00:30:00Z,a,3\n"
    "2024-01-01T00:30:00Z,b,\n"
    "2024-01-01T01:00:00Z,a,5\n"
    "2024-01-01T01:00:00Z,b,\n"
    "2024-01-01T01:30:00Z,a,7\n"
    "2024-01-01T01:30:00Z,b,\n"
)


def written(folder: Path, text: str) -> str:
    """Write a table and return its path."""
    (folder / "long.csv").write_text(text, encoding="utf-8")
    return str(folder / "long.csv")


def test_long_table(tmp_path: Path) -> None:
    """Without rounds asked for, the table's own interval is taken; null stays null."""
    loaded = load(written(tmp_path, LONG), Wanted())
    assert loaded.layout == "long"
    assert loaded.own_interval_ms == loaded.interval_ms == 1_800_000
    assert loaded.panel.devices == ("a", "b")
    assert loaded.panel.values[:, 0].tolist() == [1, 3, 5, 7]
    assert np.isnan(loaded.panel.values[:, 1]).tolist() == [False, True, True, True]
    assert (loaded.rows, loaded.nulls) == (8, 3)
    assert loaded.panel.source.endswith("long.csv")


def test_coverage(tmp_path: Path) -> None:
    """Half of an hour measured is enough by default, and not where more is asked for."""
    path = written(tmp_path, LONG)
    panel = open_panel(path, every="1h")
    assert panel.values[:, 0].tolist() == [2, 6]
    assert panel.values[0, 1] == 10
    assert np.isnan(panel.values[1, 1])
    strict = load(path, Wanted(every="1h", min_coverage=0.6))
    assert strict.panel.devices == ("a",)
    assert strict.notes == ("1 of 2 devices left out: too few readings.",)
    assert open_panel(path, every="1h", min_present=0.6).devices == ("a",)


def test_devices_and_span(tmp_path: Path) -> None:
    """Those with most readings are kept; the span is cut, its end left out."""
    path = written(tmp_path, LONG)
    assert open_panel(path, devices=1).devices == ("a",)
    span = open_panel(path, start="2024-01-01T00:30", end="2024-01-01T01:30:00+00:00")
    assert span.values[:, 0].tolist() == [3, 5]
    with pytest.raises(DataError, match="devices must be at most 2"):
        open_panel(path, devices=3)


def test_irregular_times(tmp_path: Path) -> None:
    """Irregular rows need rounds; then any reading counts, and a note says so."""
    rng = np.random.default_rng(1)
    times = 1_700_000_000 + np.cumsum(rng.integers(1, 500, 300))
    path = written(tmp_path, "time,device,value\n" + "\n".join(f"{t},a,1" for t in times))
    with pytest.raises(DataError, match="irregular times; give rounds"):
        open_panel(path)
    loaded = load(path, Wanted(every="1h"))
    assert loaded.own_interval_ms is None
    assert any("irregular" in note for note in loaded.notes)
    assert np.nanmax(loaded.panel.values) == 1


def test_parquet_and_other_columns(tmp_path: Path) -> None:
    """Columns may have other names."""
    times = pa.array([0, 60_000, 120_000]).cast(pa.timestamp("ms"))
    table = pa.table({"t": times, "who": ["x"] * 3, "w": [1.0, 2.0, 4.0]})
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet")
    wanted = Wanted(columns=Columns("t", "who", "w"))
    assert load(str(tmp_path / "x.parquet"), wanted).panel.values.tolist() == [[1], [2], [4]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time,device\n2024-01-01,a\n", "has no column 'value'"),
        ("time,device,value\n", "holds no rows"),
        ("time,device,value\n2024-01-01,a,\n2024-01-02,a,\n", "is empty in all 2 rows"),
        (LONG + "2024-01-01T01:30:00Z,b,1\n", "row 9 repeats a time of its device"),
        (LONG + "2024-01-01T00:10:00Z,a,1\n", "row 9 goes back in time"),
        (LONG + "2024-01-01T02:00:00,a,1\n", "mixes times with and without a zone, first in row 9"),
        (LONG + "2024-01-01T02:00:00Z,a,x\n", "must hold numbers, and row 9 does not"),
        ("time,device,value\n2024-01-01,a,1\n", "irregular times"),
    ],
)
def test_bad_tables(tmp_path: Path, text: str, message: str) -> None:
    """Bad data is refused in one line that says where and what to do."""
    with pytest.raises(DataError, match=message) as refused:
        open_panel(written(tmp_path, text))
    assert "\n" not in str(refused.value)


def test_zones_mixed_in_a_later_block(tmp_path: Path) -> None:
    """A zone that appears megabytes later is still refused."""
    rows = "".join(f"2024-01-01T00:00:00,d{number:05},1\n" for number in range(60_000))
    path = written(tmp_path, f"time,device,value\n{rows}2024-01-01T00:00:00Z,e,1\n")
    with pytest.raises(DataError, match="first in row 60001"):
        open_panel(path, every="1h")


def test_rounds_must_fit(tmp_path: Path) -> None:
    """Rounds shorter than the data's interval, or no multiple of it, are refused."""
    for every in ("15min", "45min"):
        with pytest.raises(DataError, match=r"whole multiples of its interval, 1800 s, got"):
            open_panel(written(tmp_path, LONG), every=every)


def test_unknown_sources(tmp_path: Path) -> None:
    """A misspelt name is guessed; an archive is to be unpacked; a missing file is said to be."""
    with pytest.raises(DataError, match="did you mean 'refit-hourly'"):
        open_panel("refit_hourly")
    with pytest.raises(DataError, match=r"there is no data set or file 'nowhere/x\.csv'; see"):
        open_panel("nowhere/x.csv")
    (tmp_path / "CLEAN_REFIT_081116.7z").write_bytes(b"7z")
    with pytest.raises(DataError, match="is an archive; unpack it"):
        open_panel(str(tmp_path / "CLEAN_REFIT_081116.7z"))


def test_fleet() -> None:
    """The synthetic fleet is a source: by default, by sizes and seed, at other intervals."""
    panel = open_panel("fleet")
    assert (panel.rounds, panel.n, panel.unit) == (600, 64, "W")
    assert not np.isnan(panel.values).any()
    small = open_panel("fleet:8x2:3", every="15min")
    assert (small.rounds, small.n) == (192, 8)
    assert small.devices == SyntheticFleet(8, 2, 3).names
    hourly = open_panel("fleet:8x2:3")
    assert small.values.reshape(48, 4, 8).mean(axis=1) == pytest.approx(hourly.values)
    assert open_panel("fleet:8x2", devices=5).n == 5
    with pytest.raises(DataError, match="days must be at least 1"):
        open_panel("fleet:8x0")
    with pytest.raises(DataError, match="whole minutes that divide a day"):
        open_panel("fleet:8x2", every="7min")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"min_coverage": 1.5}, "min_coverage must be between 0 and 1"),
        ({"min_present": -1}, "min_present must be between 0 and 1"),
        ({"devices": 0}, "devices must be at least 1"),
        ({"start": "soon"}, "start must look like 2014-06-08"),
        ({"start": "2014-06-08", "end": "2014-06-08"}, "end must be later than start"),
        ({"every": "often"}, "a duration must look like"),
    ],
)
def test_wrong_arguments(arguments: dict[str, object], message: str) -> None:
    """Arguments are checked before anything is read."""
    with pytest.raises(ValueError, match=message):
        Wanted(**arguments)  # type: ignore[arg-type]


@pytest.mark.uncovered
@pytest.mark.parametrize(
    ("name", "every", "rounds", "span"),
    [
        ("refit-64x25d", None, 600, (0, 984.33)),
        ("refit-hourly", None, 15_852, (0, 2802.83)),
        ("refit-1min", "1d", 631, (0, 1820.37)),
        ("swiss", "1h", 1176, (-36_480, 456_900)),
        ("beijing-temp", None, 35_064, (-19.9, 41.6)),
        ("beijing-pm25", "1d", 1462, (3, 571.75)),
    ],
)
def test_prepared(
    data_folder: Path, name: str, every: str | None, rounds: int, span: tuple[float, float]
) -> None:
    """Every prepared data set opens with the devices it is said to have, in its unit.

    Smallest and largest were computed apart from this code, with pandas.
    """
    panel = open_panel(name, every=every)
    source = SOURCES[name]
    assert (panel.n, panel.unit) == (source.devices, source.unit)
    assert panel.rounds == rounds
    assert (np.nanmin(panel.values), np.nanmax(panel.values)) == pytest.approx(span, abs=0.05)
    assert check_file(data_folder / source.file) == "ok"


def test_local_clocks_become_utc(data_folder: Path) -> None:
    """Midnight in Beijing is 16:00 UTC of the day before."""
    panel = open_panel("beijing-temp")
    assert panel.times_ms[0] == 1_362_067_200_000  # 2013-02-28 16:00


def test_prepared_but_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prepared data is found through RASE_DATA alone, and a missing file is named."""
    monkeypatch.delenv("RASE_DATA", raising=False)
    with pytest.raises(DataError, match="RASE_DATA names, and it names none"):
        open_panel("refit-hourly")
    monkeypatch.setenv("RASE_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"must hold refit_hourly\.parquet"):
        open_panel("refit-hourly")
    assert check_file(tmp_path / "refit_hourly.parquet") == "absent"
    (tmp_path / "refit_hourly.parquet").write_bytes(b"PAR1")
    assert check_file(tmp_path / "refit_hourly.parquet") == "differs"
    with pytest.raises(DataError, match="is a damaged Parquet file"):
        open_panel("refit-hourly")
    assert all(len(checksum) == 64 for checksum in CHECKSUMS.values())


def test_grid_grows_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readings may come in any order of time and device; a table too large is refused."""
    rng = np.random.default_rng(2026)
    times, devices = rng.integers(-50_000, 50_000, 5000), rng.integers(0, 40, 5000)
    values = rng.normal(size=5000)
    grid = Grid(1000)
    for part in np.array_split(np.arange(5000), 37):
        grid.add(times[part], devices[part], values[part])
    starts, means = grid.means(devices=41)
    assert means.shape == (100, 41)
    assert starts[0] == -50_000
    for row, device in ((0, 3), (57, 39), (99, 0)):
        inside = (times // 1000 == row - 50) & (devices == device)
        expected = values[inside].mean() if inside.any() else np.nan
        assert means[row, device] == pytest.approx(expected, nan_ok=True)
    monkeypatch.setattr(resample, "_MOST_CELLS", 100)
    with pytest.raises(DataError, match="101 rounds x 1 devices are more than a study can hold"):
        Grid(1).add(np.array([0, 100]), np.array([0, 0]), np.ones(2))
    empty = Grid(1, start_ms=5, end_ms=9)
    empty.add(np.array([0, 100]), np.array([0, 0]), np.ones(2))
    assert empty.means()[1].shape == (0, 0)


def test_interval_and_gaps() -> None:
    """One row has no interval; gaps, silent and constant devices are found."""
    first = next(SyntheticFleet(3, 1).batches())
    assert usual_interval_ms([first]) == 3_600_000
    nan = np.nan
    gaps = gaps_of(np.array([[1, nan, 2.0], [nan] * 3, [nan] * 3, [1, nan, 3], [nan] * 3]))
    assert (gaps.empty_rounds, gaps.longest_empty) == (3, 2)
    assert (gaps.silent, gaps.constant) == ((1,), (0,))
    assert gaps.null_share == pytest.approx(11 / 15)
    assert gaps_of(np.zeros((0, 0))).null_share == 0


MEASURED = """
import sys
from rase.lab.datasets import open_panel
panel = open_panel(sys.argv[1], every="1d")
print(panel.n, panel.rounds)
"""


@pytest.mark.uncovered
@pytest.mark.parametrize("layout", ["long", "wide"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, layout: str) -> None:
    """Ten times the rows take little more memory, less than the rows themselves would.

    A long table would take 31 MiB more if it were kept, a wide one 11 MiB, besides the 16 to 19 MiB
    that blocks of a longer file take.
    """
    assert growth_mib(tmp_path, (15_000, 150_000), layout=layout) < 25


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["long", "wide"])
def test_memory_stays_for_ever(tmp_path: Path, layout: str) -> None:
    """Six million more rows, of 150 MB, take no more memory: a file of any size can be read."""
    assert growth_mib(tmp_path, (300_000, 900_000), layout=layout) < 48


def growth_mib(folder: Path, counts: tuple[int, int], *, layout: str) -> float:
    """Return how much more memory the longer of two tables of ten devices takes."""
    peaks = []
    for count in counts:
        time, device = np.repeat(60 * np.arange(count), 10), np.tile(np.arange(10), count)
        if layout == "long":
            table = pa.table({"time": time, "device": device, "value": device + 0.5})
        else:
            columns = {f"d{number}": time[::10] % 97 for number in range(10)}
            table = pa.table({"time": time[::10], **columns})
        pyarrow.csv.write_csv(table, folder / f"{count}.csv")
        counts_shown, peak = peak_mib_of(MEASURED, str(folder / f"{count}.csv"))
        assert counts_shown == [10, -(-count // 1440)]
        peaks.append(peak)
    return peaks[1] - peaks[0]
