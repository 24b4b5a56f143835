"""`refit_64x25d` from public downloads: made-up houses by hand, the published readings exactly."""

import csv
import shutil
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from rase.cli import main
from rase.errors import DataError
from rase.lab.readers import house_batches
from rase.lab.refit_events import events_in, find_events, minute_means
from rase.lab.refit_recipe import (
    APPLIANCES,
    CONTENT_SHA256,
    FIRST_DAY,
    Appliance,
    Events,
    content_sha256,
    has_published_content,
    hourly_means,
    recipe_table,
)
from rase.lab.sources import check_file

HOUSES = sorted({appliance.house for appliance in APPLIANCES})
HEADER = ["Time", "Unix", "Aggregate", *(f"Appliance{n}" for n in range(1, 10)), "Issues"]
START_S = int(FIRST_DAY.timestamp())
TV = Appliance("H01-A8", "Television", 2, 2)


@pytest.fixture(scope="module")
def houses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eighteen made-up houses in the format of the cleaned release, three hours each."""
    folder = tmp_path_factory.mktemp("refit")
    rng = np.random.default_rng(20260101)
    for house in HOUSES:
        with (folder / f"CLEAN_House{house}.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(HEADER)
            at_s, runs = START_S - 3600 + house, np.zeros(9, dtype=bool)
            while at_s < START_S + 2 * 3600:
                runs ^= rng.random(9) < 0.02
                watts = np.where(runs, rng.integers(1, 3000, 9), rng.integers(0, 2, 9))
                time = datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
                issue = int(rng.random() < 0.05)
                rows.writerow([time, at_s, int(watts.sum()), *map(int, watts), issue])
                at_s += int(rng.choice([6, 7, 8, 14, 200], p=[0.3, 0.3, 0.2, 0.19, 0.01]))
    return folder


def by_hand(path: Path, appliance: Appliance) -> dict[int, float]:
    """Return an appliance's hourly means, row by row and minute by minute."""
    rows: dict[int, list[int]] = defaultdict(list)
    with path.open() as file:
        for row in csv.DictReader(file):
            if row["Issues"] != "1":
                rows[int(row["Unix"]) // 60].append(int(row[appliance.column]))
    means = {minute: sum(values) / len(values) for minute, values in sorted(rows.items())}
    hours: dict[int, float] = defaultdict(float)
    run: list[tuple[int, float]] = []
    # The first minute of a file says nothing about when a run began.
    is_whole = False
    for minute, mean in means.items():
        if mean > appliance.least_w:
            run.append((minute, mean))
            continue
        if run and is_whole and minute - run[0][0] >= appliance.least_min:
            energy = round(sum(watts for _, watts in run) + mean, 2)
            for inside in range(run[0][0], minute):
                hour = (inside * 60 - START_S) // 3600
                hours[hour] += energy / (minute - run[0][0]) / 60
        run, is_whole = [], True
    return hours


@pytest.mark.uncovered
def test_houses_become_the_means_that_one_computes_by_hand(houses: Path) -> None:
    """Rows to minutes, minutes to events, events to hours, for each of the 64 appliances."""
    means = hourly_means(events_in(houses))
    assert means.shape == (64, 600)
    compared = 0
    for row, appliance in zip(means, APPLIANCES, strict=True):
        expected = by_hand(houses / f"CLEAN_House{appliance.house}.csv", appliance)
        # A hundredth for the rounding of the mean.
        assert row[0] == pytest.approx(expected.get(0, 0.0), abs=0.0101), appliance
        assert row[1] == pytest.approx(expected.get(1, 0.0), abs=0.0101), appliance
        compared += expected.get(0, 0.0) > 0
    assert compared > 32
    assert not means[:, 3:].any()


def test_a_command_makes_checks_and_refuses(
    houses: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Readings other than the published ones are written only if asked for, and named so."""
    out = tmp_path / "refit_64x25d.parquet"
    typed = ["lab", "prepare", "refit-64x25d", str(houses), "--out", str(out)]
    assert main(typed) == 2
    told = capsys.readouterr().err
    assert "are not the published ones" in told
    assert CONTENT_SHA256 in told
    assert not out.exists()
    assert main([*typed, "--unchecked"]) == 0
    assert "NOT the published ones" in capsys.readouterr().err
    table = pyarrow.parquet.read_table(out)
    assert (table.num_rows, table.column_names) == (38_400, ["time", "device", "value"])
    assert table.schema.metadata[b"licence"] == b"CC BY 4.0"
    assert check_file(out) == "differs"
    assert main([*typed[:-1], str(tmp_path / "x.csv")]) == 2
    assert "must end in .parquet" in capsys.readouterr().err


@pytest.mark.uncovered
def test_the_published_readings_come_out_of_the_published_events(
    data_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From tables of the events, as the repository has them, all 38,400 readings, bit by bit."""
    write_events(data_folder / "refit_events.parquet", tmp_path / "output/02_event_segments")
    out = tmp_path / "refit_64x25d.parquet"
    assert main(["lab", "prepare", "refit-64x25d", str(tmp_path), "--out", str(out)]) == 0
    assert f"published ones: SHA-256 of the readings {CONTENT_SHA256}" in capsys.readouterr().err
    published = pyarrow.parquet.read_table(data_folder / out.name)
    made = pyarrow.parquet.read_table(out)
    for name in published.column_names:
        assert made.column(name).to_pylist() == published.column(name).to_pylist()
    # Other bytes, same readings: the catalogue takes it for what it is.
    assert out.read_bytes() != (data_folder / out.name).read_bytes()
    assert check_file(out) == "ok"
    changed = made.column("value").to_numpy().copy()
    changed[17] += 0.01
    pyarrow.parquet.write_table(recipe_table(changed.reshape(64, 600)), out)
    assert check_file(out) == "differs"


def test_the_names_and_thresholds_are_those_of_the_data(data_folder: Path) -> None:
    """Appliances are named as in the list of devices; no event is shorter than the least."""
    with (data_folder / "refit_devices.csv").open() as file:
        types = {row["device"]: row["type"] for row in csv.DictReader(file)}
    assert {one.device: one.name for one in APPLIANCES} == {
        one.device: types[one.device] for one in APPLIANCES
    }
    table = pyarrow.parquet.read_table(data_folder / "refit_events.parquet").to_pandas()
    minutes = (table["end"] - table["start"]).dt.total_seconds() / 60
    shortest = minutes.groupby(table["device"], observed=True).min()
    assert all(shortest[one.device] >= one.least_min for one in APPLIANCES)
    assert sum(shortest[one.device] == one.least_min for one in APPLIANCES) >= 60


def test_the_64_are_those_that_ran_in_most_hours(data_folder: Path) -> None:
    """Of 126 appliances known in each of the 600 hours and running in ten or more, the first 64."""
    within = [("time", ">=", FIRST_DAY.replace(tzinfo=None)), ("time", "<", datetime(2014, 7, 3))]  # noqa: DTZ001
    hours = pyarrow.parquet.read_table(data_folder / "refit_hourly.parquet", filters=within)
    by_device = hours.to_pandas().assign(runs=lambda rows: rows["value"] > 0)
    grouped = by_device.groupby(by_device["device"].astype(str))
    is_known = (grouped["quality"].max() == 0) & (grouped.size() == 600)
    active = grouped["runs"].sum()[is_known]
    active = active[active >= 10].sort_values(ascending=False)
    assert len(active) == 126
    assert set(active.index[:64]) == {one.device for one in APPLIANCES}
    assert active.iloc[63] > active.iloc[64]


@pytest.mark.uncovered
def test_genuine_minutes_give_the_published_events(data_folder: Path) -> None:
    """From another project's minutes of two houses, 97 % of the events of three appliances.

    It cleaned the minutes in ways of its own, so not all of them.
    """
    minutes = pyarrow.parquet.read_table(data_folder / "refit_1min.parquet").to_pandas().dropna()
    events = pyarrow.parquet.read_table(data_folder / "refit_events.parquet").to_pandas()
    known = agreed = 0
    for appliance in APPLIANCES:
        if appliance.device not in {"H02-A3", "H02-A8", "H20-A9"}:
            continue
        rows = minutes[minutes["device"] == appliance.device]
        rows = rows[(rows["time"] >= "2014-06-06") & (rows["time"] < "2014-07-05")]
        at_min = rows["time"].to_numpy("datetime64[m]").astype(np.int64)
        found = find_events(at_min, rows["value"].to_numpy(float), appliance)
        there = events[events["device"] == appliance.device]
        there = there[(there["start"] >= "2014-06-06") & (there["end"] < "2014-07-05")]
        edges = [
            there[name].to_numpy("datetime64[m]").astype(np.int64) for name in ("start", "end")
        ]
        expected = set(zip(*(edge.tolist() for edge in edges), strict=True))
        known += len(expected)
        agreed += len(
            expected & set(zip(found.start_min.tolist(), found.end_min.tolist(), strict=True))
        )
    assert known > 300
    assert agreed / known > 0.95


def test_the_genuine_rows_of_a_house_are_averaged_by_minutes(data_folder: Path) -> None:
    """The first rows of house 1: two minutes, each the mean of its rows."""
    times, watts = [], []
    for batch, _ in house_batches(data_folder / "refit_sample_House_1.csv", ("Appliance1",)):
        times.append(batch.column("Unix").to_numpy())
        watts.append(batch.column("Appliance1").to_numpy().astype(float))
    minutes, means = minute_means(np.concatenate(times), np.concatenate(watts))
    assert [datetime.fromtimestamp(60 * int(one), UTC).minute for one in minutes] == [6, 7]
    assert means == pytest.approx([(74 + 75 + 74) / 3, 74.0])


@pytest.mark.parametrize(
    ("watts", "expected"),
    [
        # Two minutes above 2 W, and the quiet one after them counts to the energy.
        ([0, 5, 7, 1, 0], [(1, 3, 13.0)]),
        ([0, 5, 1, 0], []),  # too short
        ([9, 9, 9, 0], []),  # cut by the beginning
        ([0, 9, 9, 9], []),  # cut by the end
        ([0, 2, 2, 0], []),  # the threshold itself is not above it
        ([0, 5, float("nan"), 5, 5, 0], [(3, 5, 10.0)]),
        ([9, 0, 5, 5, 0, 9], [(2, 4, 10.0)]),
    ],
)
def test_runs_above_the_threshold_are_events(
    watts: list[float], expected: list[tuple[int, int, float]]
) -> None:
    """An event begins above the threshold and ends with the first minute that is not."""
    found = find_events(np.arange(len(watts), dtype=np.int64), np.array(watts, dtype=float), TV)
    parts = (found.start_min, found.end_min, found.energy_wmin)
    assert list(zip(*(part.tolist() for part in parts), strict=True)) == expected


def test_events_that_begin_before_or_end_after_count_in_part() -> None:
    """Only the minutes within the 25 days enter an hour's mean."""
    first = START_S // 60
    none = Events(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    events = {one.device: none for one in APPLIANCES}
    edges = np.array([first - 30, first + 36_000 - 15], dtype=np.int64)
    events["H01-A1"] = Events(edges, edges + 60, np.array([600.0, 6000.0]))
    means = hourly_means(events)
    assert means[0, 0] == 5.0
    assert means[0, -1] == 25.0
    assert np.count_nonzero(means) == 2


def test_a_download_that_is_not_whole_is_named(houses: Path, tmp_path: Path) -> None:
    """A missing house, no rows of these days, a damaged table, and no folder at all."""
    shutil.copytree(houses, tmp_path / "some")
    (tmp_path / "some/CLEAN_House7.csv").unlink()
    with pytest.raises(DataError, match="has no house 7"):
        events_in(tmp_path / "some")
    (tmp_path / "some/CLEAN_House7.csv").write_text(
        ",".join(HEADER) + "\n2013-10-09 13:06:17,1381323977,523,74,0,69,0,0,0,0,0,1,0\n"
    )
    with pytest.raises(DataError, match=r"House7\.csv has no rows around the 25 days"):
        events_in(tmp_path / "some")
    with pytest.raises(DataError, match="must be a folder"):
        events_in(tmp_path / "gone")
    table = tmp_path / "tables/house1/02_appliance_event_segments_house1.csv"
    table.parent.mkdir(parents=True)
    table.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="cannot be read as a table of events"):
        events_in(tmp_path / "tables")


def test_a_file_of_something_else_has_not_the_content(tmp_path: Path) -> None:
    """Neither text nor another table passes for the published readings."""
    path = tmp_path / "refit_64x25d.parquet"
    path.write_text("no table")
    assert not has_published_content(path)
    pyarrow.parquet.write_table(pa.table({"value": [1.0]}), path)
    assert not has_published_content(path)
    assert content_sha256(np.zeros((64, 600), dtype=np.float32)) != CONTENT_SHA256


def write_events(source: Path, folder: Path) -> None:
    """Write events as the tables of the repository have them, a house a file."""
    table = pyarrow.parquet.read_table(source).to_pandas()
    table = table[(table["end"] >= "2014-06-01") & (table["start"] < "2014-07-10")]
    for house in HOUSES:
        place = folder / f"house{house}"
        place.mkdir(parents=True)
        rows = table[table["device"].astype(str).str.startswith(f"H{house:02d}-")]
        with (place / f"02_appliance_event_segments_house{house}.csv").open("w") as file:
            file.write("appliance_ID,appliance_name,Shiftability,start_time,end_time,")
            file.write("duration(min),energy(W)\n")
            for row in rows.itertuples():
                minutes = (row.end - row.start).total_seconds() / 60
                file.write(f"Appliance{row.device[-1]},x,Base,{row.start},{row.end},{minutes},")
                # Kept in single precision, published with two digits.
                file.write(f"{row.energy_wmin:.2f}\n")
