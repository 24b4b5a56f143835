"""The original REFIT download: both releases, disorder, outages, spikes, and damaged files."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from numpy.typing import NDArray
from tests.tables.peak_memory import peak_mib_of

from rase.errors import DataError
from rase.lab.datasets import Wanted, load, open_panel
from rase.lab.readers import RefitFiles, refit_houses

START_S = 1381323600  # 2013-10-09 13:00:00 UTC
APPLIANCES = [f"Appliance{number}" for number in range(1, 10)]


def write_house(
    path: Path,
    time_s: NDArray[np.int64],
    watts: NDArray[np.float64],
    *,
    issues: NDArray[np.int64] | None = None,
) -> Path:
    """Write a house as the original is laid out; the same watts for all columns, plus their number.

    NaN is written as ``NaN``, as in the second part of the study.
    """
    columns: dict[str, object] = {
        "Time": pa.array(1000 * time_s).cast(pa.timestamp("ms")).cast(pa.timestamp("s")),
        "Unix": time_s,
        "Aggregate": pa.array(["500"] * len(time_s)),
    }
    for number, name in enumerate(APPLIANCES):
        texts = [f"{value + number:.0f}" if np.isfinite(value) else "NaN" for value in watts]
        columns[name] = pa.array(texts)
    if issues is not None:
        columns["Issues"] = issues
    with path.open("wb") as file:
        pyarrow.csv.write_csv(
            pa.table(columns),
            file,
            pyarrow.csv.WriteOptions(quoting_style="none", quoting_header="none"),
        )
    return path


def by_seconds(
    rows: list[tuple[int, float, int]], *, interval_s: int, outage_s: int = 120, share: float = 0.5
) -> NDArray[np.float64]:
    """Return the means of rounds second by second: the plain way the loader must agree with."""
    last = {time: (watts, issue) for time, watts, issue in sorted(rows, key=lambda row: row[0])}
    times = sorted(last)
    first = times[0] // interval_s * interval_s
    seconds = np.full((times[-1] // interval_s + 1) * interval_s - first, np.nan)
    for time, following in zip(times, [*times[1:], times[-1] + 8], strict=True):
        held = following - time if following - time <= outage_s else 8
        watts, issue = last[time]
        if not issue and not watts > 4000:
            seconds[time - first : time - first + held] = watts
    rounds = seconds.reshape(-1, interval_s)
    counts = (~np.isnan(rounds)).sum(axis=1)
    means = np.nansum(rounds, axis=1) / np.maximum(counts, 1)
    return np.where((counts >= share * interval_s) & (counts > 0), means, np.nan)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("interval_s", [10, 60, 900])
def test_agrees_with_every_second_counted(tmp_path: Path, seed: int, interval_s: int) -> None:
    """Unsorted and double rows, outages, issues, NaN and spikes give the mean of the seconds."""
    rng = np.random.default_rng(seed)
    steps = rng.choice([1, 6, 7, 8, 60, 120, 121, 700], 400, p=[0.1, 0.2, 0.2, 0.3, *[0.05] * 4])
    time_s = START_S + np.cumsum(steps)
    watts = rng.integers(0, 3000, 400).astype(float)
    watts[rng.random(400) < 0.05] = np.nan
    watts[rng.random(400) < 0.05] = 9000
    issues = (rng.random(400) < 0.1).astype(np.int64)
    double = rng.integers(0, 400, 40)
    time_s, watts, issues = (
        np.concatenate([column, column[double]]) for column in (time_s, watts, issues)
    )
    watts[400:] = rng.integers(0, 3000, 40)
    # Rows change places by up to a block, but the later of two with one time stays the later.
    order = np.argsort(np.arange(440) + rng.integers(0, 30, 440), kind="stable")
    order = np.concatenate([order[order < 400], order[order >= 400]])
    time_s, watts, issues = time_s[order], watts[order], issues[order]
    write_house(tmp_path / "CLEAN_House3.csv", time_s, watts, issues=issues)
    files = RefitFiles(houses=refit_houses(tmp_path), interval_s=interval_s, min_coverage=0.2)
    first = next(files.batches())
    found = np.where(first.is_valid, first.value, np.nan)
    rows = list(zip(time_s.tolist(), watts.tolist(), issues.tolist(), strict=True))
    expected = by_seconds(rows, interval_s=interval_s, share=0.2)
    assert np.isfinite(expected).any()
    assert np.array_equal(first.time_ms[:1], [1000 * (time_s.min() // interval_s * interval_s)])
    assert found == pytest.approx(expected, abs=1e-3, nan_ok=True)


def test_both_releases_and_names(tmp_path: Path) -> None:
    """The older release has no Issues; houses are read by number, whichever are there."""
    time_s = START_S + 8 * np.arange(900)
    for house in (2, 13, 15):
        write_house(tmp_path / f"House_{house}.csv", time_s, np.full(900, 100.0 * house))
    (tmp_path / "readme.txt").write_text("REFIT")
    panel = open_panel(str(tmp_path), every="1h")
    assert panel.n == 27
    assert panel.devices[:2] == ("H02-A1", "H02-A2")
    assert panel.devices[-1] == "H15-A9"
    assert panel.times_ms.tolist() == [1000 * START_S, 1000 * (START_S + 3600)]
    assert panel.values[0, [0, 9, 18, 26]].tolist() == [200, 1300, 1500, 1508]
    assert panel.unit == "W"


def test_issues_are_marked_or_kept(tmp_path: Path) -> None:
    """The time of a row marked by Issues is not measured, unless it is asked for."""
    time_s = START_S + 10 * np.arange(361)
    issues = np.repeat([1, 0], [180, 181])
    watts = np.repeat([50.0, 100.0], [180, 181])
    path = write_house(tmp_path / "CLEAN_House1.csv", time_s, watts, issues=issues)
    assert open_panel(str(path), every="1h").values[0, 0] == pytest.approx(100)
    files = RefitFiles(houses=refit_houses(path), interval_s=3600, keeps_issues=True)
    assert next(files.batches()).value[0] == pytest.approx(75)


def test_outages_stay_empty(tmp_path: Path) -> None:
    """A value is not held through an outage: the hours inside have no reading."""
    time_s = START_S + np.concatenate([8 * np.arange(450), 6 * 3600 + 8 * np.arange(450)])
    path = write_house(tmp_path / "CLEAN_House1.csv", time_s, np.full(900, 80.0))
    panel = open_panel(str(path), every="1h")
    assert np.isnan(panel.values[:, 0]).tolist() == [False, *[True] * 5, False]


def test_spikes_are_not_readings(tmp_path: Path) -> None:
    """An appliance above 4000 W is a fault, and no reading of 0 either; the mains may be there."""
    time_s = START_S + 8 * np.arange(450)
    watts = np.where(np.arange(450) < 100, 20_000.0, 60.0)
    path = write_house(tmp_path / "House_1.csv", time_s, watts)
    loaded = load(str(path), Wanted(every="1h", has_mains=True))
    assert loaded.panel.devices[-1] == "H01-AGG"
    assert loaded.panel.values[0].tolist() == [*range(60, 69), 500]
    assert "spikes above 4000 W" in loaded.notes[0]


def test_span(tmp_path: Path) -> None:
    """Only the hours asked for are kept, whole."""
    time_s = START_S + 8 * np.arange(4500)
    write_house(tmp_path / "House_1.csv", time_s, np.arange(4500.0) // 450)
    start, end = "2013-10-09T15:00", "2013-10-09T17:00Z"
    panel = open_panel(str(tmp_path), every="1h", start=start, end=end)
    assert panel.values[:, 0].tolist() == [2, 3]
    with pytest.raises(DataError, match=r"no device of .* has readings in enough rounds"):
        open_panel(str(tmp_path), every="1h", start="2020-01-01")


def test_the_printed_rows_of_the_original(data_folder: Path) -> None:
    """The nine rows of House_1.csv that are public give their fridge and mains."""
    panel = load(
        str(data_folder / "refit_sample_House_1.csv"),
        Wanted(every="1min", has_mains=True, min_coverage=0.7),
    ).panel
    assert panel.times_ms[0] == 1_381_323_960_000
    # 13:06:17 to 13:07: 14 s of 74 W, 15 s of 75 W, 14 s of 74 W; then 59 of 60 s.
    assert panel.values[0, 0] == pytest.approx((74 * 28 + 75 * 15) / 43, abs=1e-4)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("CLEAN_House4.csv", "", "has no column Time"),
        ("CLEAN_House4.csv", "HEADER", "holds no rows below its header"),
        (
            "CLEAN_House4.csv",
            "HEADER\n2013-10-09 13:06:17,1381323977,5",
            "row 1 of .* is cut short",
        ),
        ("House_4.csv", "HEADER\nx,y,1,1,1,1,1,1,1,1,1,1\n", "cannot be read as a REFIT house"),
        ("House_4.csv", None, "cannot be read as a REFIT house"),
        ("House_4.csv", "HEADER\nx,,1,1,1,1,1,1,1,1,1,1\n", "rows without Unix"),
        ("House_4.csv", "Time,Unix,Aggregate\n1,2,3\n", "has no column Appliance1"),
    ],
)
def test_damaged_files(tmp_path: Path, name: str, content: str | None, message: str) -> None:
    """A folder with one damaged house is refused in one line: the file and the way out."""
    time_s = START_S + 8 * np.arange(900)
    write_house(tmp_path / "House_3.csv", time_s, np.full(900, 1.0))
    header = ",".join(["Time", "Unix", "Aggregate", *APPLIANCES])
    if content is None:
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_text(content.replace("HEADER", header))
    with pytest.raises(DataError, match=message) as refused:
        open_panel(str(tmp_path), every="1h")
    assert name in str(refused.value)
    assert "copy or unpack" in str(refused.value).lower()
    assert "\n" not in str(refused.value)


def test_refused_folders(tmp_path: Path) -> None:
    """An empty folder, one without houses, one with a house twice, a file without a number."""
    with pytest.raises(DataError, match=r"is empty; give a folder with CLEAN_House1\.csv"):
        open_panel(str(tmp_path), every="1h")
    (tmp_path / "notes.txt").write_text("none")
    with pytest.raises(DataError, match="holds no REFIT house file"):
        open_panel(str(tmp_path), every="1h")
    time_s = START_S + 8 * np.arange(10)
    house = write_house(tmp_path / "House_1.csv", time_s, np.full(10, 1.0))
    with pytest.raises(DataError, match="irregular times; give rounds, such as 1h"):
        open_panel(str(tmp_path))
    other = write_house(tmp_path / "any.csv", time_s, np.full(10, 1.0))
    with pytest.raises(DataError, match="must name its house"):
        open_panel(str(other), every="1h")
    (tmp_path / "CLEAN_House1.csv").write_bytes(house.read_bytes())
    with pytest.raises(DataError, match="holds house 1 twice, CLEAN_House1"):
        open_panel(str(tmp_path), every="1h")


MEASURED = """
import sys
from rase.lab.datasets import open_panel
open_panel(sys.argv[1], every="1h")
"""


def large_house(path: Path, rows: int) -> None:
    """Write a long house quickly."""
    time_s = START_S + 8 * np.arange(rows)
    columns = {"Time": time_s, "Unix": time_s, "Aggregate": time_s % 900}
    columns |= dict.fromkeys(APPLIANCES, time_s // 80 % 100) | {"Issues": time_s * 0}
    with path.open("wb") as file:
        pyarrow.csv.write_csv(
            pa.table(columns), file, pyarrow.csv.WriteOptions(quoting_header="none")
        )


@pytest.mark.uncovered
def test_memory_is_that_of_one_house(tmp_path: Path) -> None:
    """Half a million rows of a house take at most 120 bytes each, and another house no more."""
    for name in ("small", "large", "two"):
        (tmp_path / name).mkdir()
    large_house(tmp_path / "small/CLEAN_House1.csv", 1000)
    large_house(tmp_path / "large/CLEAN_House1.csv", 500_000)
    for number in (1, 2):
        house = tmp_path / f"two/CLEAN_House{number}.csv"
        house.hardlink_to(tmp_path / "large/CLEAN_House1.csv")
    small, large, two = (
        peak_mib_of(MEASURED, str(tmp_path / name))[1] for name in ("small", "large", "two")
    )
    assert large - small < 120 * 500_000 / 2**20
    # Kept together with the first, the second house would add about 45 MiB.
    assert two - large < 22
