"""``rase run``: what it prints, writes and says."""

import csv
import hashlib
import json
import math
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from rase import Duchi, Range
from rase.cli import main

RANGE = ["--range", "0", "100", "--epsilon", "4"]


@pytest.fixture
def readings(tmp_path: Path) -> Path:
    """A table of 8 devices over 6 hours: 45 readings, one of them outside the range, 3 empty."""
    path = tmp_path / "readings.csv"
    lines = ["time,device,value"]
    for device in range(8):
        for hour in range(6):
            value = "" if (device, hour) in {(0, 1), (1, 1), (2, 5)} else str(10 * device + hour)
            lines.append(f"2024-05-01T{hour:02}:00:00Z,d{device},{value}")
    lines[-1] = lines[-1].rsplit(",", 1)[0] + ",500"
    path.write_text("\n".join(lines) + "\n")
    return path


def ran(*arguments: object, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Run a command that must succeed; return what it printed and said."""
    capsys.readouterr()
    exit_code = main(["run", *map(str, arguments), "--details"])
    shown = capsys.readouterr()
    assert exit_code == 0, shown.err
    return shown.out, shown.err


def test_table_for_people(readings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rounds stand in aligned columns on stdout; stderr says what was read, done and spent."""
    out, err = ran(readings, *RANGE, "--every", "1h", capsys=capsys)
    lines = out.splitlines()
    assert lines[0].split() == ["time", "method", "value", "standard_error", "low", "high", "n"]
    assert [line.split()[0] for line in lines[1:]] == [
        f"2024-05-01T{hour:02}:00:00Z" for hour in range(6)
    ]
    assert [line.split()[-1] for line in lines[1:]] == ["8", "6", "8", "8", "8", "7"]
    assert len({len(line) for line in lines}) == 1
    assert "48 rows of 8 devices, 3 empty; 6 rounds." in err
    assert "4-LDP per report" in err
    assert "a device sent up to 6 reports: together epsilon 24 over the whole run." in err
    assert "uniform in 6 rounds" in err
    assert "1 reading (2.2 %) outside 0 to 100, moved to its nearest end" in err
    assert "wider --range" in err
    assert "seeded" not in err


def test_seed(readings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A seed repeats the noise and says that it protects nobody; without one noise is fresh.

    False-alarm rate: 1.1e-20, the chance that two runs print the same six means, computed from the
    exact law of each round's sum and the two decimals of the table.
    """
    first, err = ran(readings, *RANGE, "--seed", 1, capsys=capsys)
    assert "seeded noise: for study only, protects nobody." in err
    assert first == ran(readings, *RANGE, "--seed", 1, capsys=capsys)[0]
    assert first != ran(readings, *RANGE, "--seed", 2, capsys=capsys)[0]
    asked = (readings, *RANGE, "--estimator", "unbiased-mean")
    fresh = ran(*asked, capsys=capsys)[0]
    assert fresh != ran(*asked, capsys=capsys)[0]


def test_json(readings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One document with a schema: parameters, results, summary and errors."""
    out, _ = ran(
        *(readings, *RANGE, "--every", "1h", "--window", "2h", "--truth", "--json", "--seed", 1),
        *("--estimator", "unbiased-mean", "--estimator", "median", "--level", 0.9),
        capsys=capsys,
    )
    document = json.loads(out)
    assert document["schema"] == "rase.run/2"
    assert document["parameters"]["epsilon"] == 4.0
    assert document["parameters"]["window"] == 2
    assert document["summary"]["clipped"] == 1
    assert document["summary"]["nulls"] == 3
    assert document["shuffles"][0]["method"] == "uniform"
    results = document["results"]
    assert len(results) == 2 * (6 + 5)
    first = results[0]
    hours = [f"2024-05-01T{hour:02}:00:00Z" for hour in range(3)]
    assert (first["time"], first["until"], first["of_rounds"]) == (hours[0], hours[1], 1)
    assert (first["n"], first["method"], first["local_epsilon"]) == (8, "unbiased_mean", 4.0)
    assert first["low"] < first["value"] < first["high"]
    assert first["truth"] == 35.0
    assert first["error"] == first["value"] - 35.0
    window = next(row for row in results if row["of_rounds"] == 2)
    assert (window["time"], window["until"], window["n"]) == (hours[0], hours[2], 14)
    assert (window["rounds"], window["local_epsilon"]) == (2, 8.0)
    assert window["round"] == first["round"] + 1
    assert 3600 * first["round"] == datetime.fromisoformat(hours[0]).timestamp()
    errors = {(row["estimator"], row["of_rounds"]): row for row in document["errors"]}
    assert set(errors) == {(e, w) for e in ("unbiased_mean", "median") for w in (1, 2)}
    assert errors["median", 2]["count"] == 5


def test_the_winsorized_mean_is_one_of_the_estimators(
    readings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is asked for by name, for rounds and windows."""
    out, _ = ran(
        *(readings, *RANGE, "--mechanism", "laplace", "--every", "1h", "--window", "2h", "--json"),
        *("--estimator", "winsorized-mean", "--estimator", "unbiased_mean"),
        capsys=capsys,
    )
    rows = json.loads(out)["results"]
    assert {row["estimator"] for row in rows} == {"winsorized_mean", "unbiased_mean"}


def test_truth_is_told(readings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the truth known, errors stand in the table and RMSE and bias are said."""
    out, err = ran(
        readings, *RANGE, "--every", "1h", "--window", 3, "--truth", "--seed", 5, capsys=capsys
    )
    assert out.splitlines()[0].split()[-2:] == ["truth", "error"]
    assert "tracked per round: RMSE " in err
    assert "tracked per window of 3: RMSE " in err
    assert err.count("bias ") == 2
    assert err.count("skill     tracked ") == 1
    assert "against the mean of earlier rounds (RMSE " in err


def test_one_report_has_no_known_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An error that cannot be known is null in JSON and called unknown for people."""
    path = tmp_path / "one.csv"
    path.write_text("time,device,value\n1.5,a,2\n".replace("1.5", "1500000000123"))
    arguments = (path, *RANGE, "--estimator", "sample_mean")
    (row,) = json.loads(ran(*arguments, "--json", capsys=capsys)[0])["results"]
    assert [row[name] for name in ("standard_error", "low", "high")] == [None] * 3
    assert row["time"] == "2017-07-14T02:40:00.123Z"
    assert row["until"] == ""
    out, err = ran(*arguments, capsys=capsys)
    assert out.splitlines()[1].split()[3:] == ["unknown", "unknown", "unknown", "1"]
    assert "read as milliseconds since 1970 (UTC)" in err


def hours_of(path: Path, means: dict[int, float]) -> Path:
    """Write a table of 40 devices that all read the mean of an hour, give or take 5."""
    lines = ["time,device,value"]
    lines += [
        f"2024-05-01T{hour:02}:00:00Z,d{device},{mean + device % 11 - 5}"
        for hour, mean in means.items()
        for device in range(40)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("swing", "words"),
    [
        (0.0, "verdict   not distinguishable from a constant: 24 rounds"),
        (40.0, "verdict   the rounds differ by more than their noise: by about"),
    ],
)
def test_the_verdict_needs_no_truth(
    swing: float, words: str, *, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fleet that rests and one that moves are told apart in the summary and the document."""
    means = {hour: 50 + swing * (-1) ** (hour // 6) for hour in range(24)}
    table = hours_of(tmp_path / "table.csv", means)
    out, err = ran(table, *RANGE, "--every", "1h", "--seed", 1, "--json", capsys=capsys)
    assert words in err
    assert f"verdict   {json.loads(out)['verdict']}." in err
    _, err = ran(table, *RANGE, "--every", "6h", "--seed", 1, capsys=capsys)
    assert "verdict   unknown yet: 4 of 8 rounds needed." in err
    out, err = ran(table, *RANGE, "--estimator", "median", "--json", capsys=capsys)
    assert json.loads(out)["verdict"] is None
    assert "verdict" not in err


def test_a_resting_fleet_is_not_called_moving_because_its_range_is_learnt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ranges change from round to round, and what they clip is in the errors; no advice then."""
    table = hours_of(tmp_path / "table.csv", dict.fromkeys(range(16), 40.0))
    asked = (table, "--range", 0, 1000, "--epsilon", 2, "--every", "1h", "--mechanism", "auto")
    _, err = ran(*asked, "--feedback", "--seed", 1, capsys=capsys)
    assert "verdict   not distinguishable from a constant: 16 rounds" in err
    assert " would show.\n" in err


def test_windows_that_lack_rounds_answer_unless_strict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An hour without readings: its windows say from how many rounds they are."""
    table = hours_of(tmp_path / "table.csv", dict.fromkeys((0, 1, 2, 4, 5, 6, 7), 30.0))
    asked = (table, *RANGE, "--every", "1h", "--window", "4", "--seed", 1, "--truth")
    out, _ = ran(*asked, "--json", capsys=capsys)
    rows = [row for row in json.loads(out)["results"] if row["of_rounds"] == 4]
    assert [(row["time"][11:13], row["until"][11:13], row["rounds"]) for row in rows] == [
        *(("01", "05", 3), ("02", "06", 3), ("03", "07", 3), ("04", "08", 4)),
    ]
    assert all(0 <= row["low"] < row["high"] <= 100 for row in rows)
    # Rounds that rest: what is added for a missing one is less than its noise.
    assert rows[-1]["standard_error"] < rows[0]["standard_error"] < 3 * rows[-1]["standard_error"]
    out, _ = ran(*asked, capsys=capsys)
    assert out.splitlines()[0].split()[:3] == ["time", "rounds", "of_rounds"]
    out, _ = ran(*asked, "--json", "--strict", capsys=capsys)
    strict = [row for row in json.loads(out)["results"] if row["of_rounds"] == 4]
    assert strict == rows[-1:]


def test_later_rounds_help_unless_what_was_known_then_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A daily wave under much noise comes out nearer; unbiased means and skill stay."""
    table = tmp_path / "table.csv"
    rows = [
        f"{3600 * hour},d{device},{50 + 20 * math.sin(math.tau * hour / 24) + device % 11 - 5}"
        for hour in range(240)
        for device in range(40)
    ]
    table.write_text("\n".join(["time,device,value", *rows]) + "\n")
    asked = (table, *RANGE[:3], "--epsilon", 1, "--every", "1h", "--seed", 1, "--truth", "--json")
    asked += ("--estimator", "tracked", "--estimator", "unbiased-mean", "--window", 6)
    out, said = ran(*asked, "--details", capsys=capsys)
    now = json.loads(out)
    then = json.loads(ran(*asked, "--as-known-then", capsys=capsys)[0])
    assert "as_known_then" not in now["parameters"]
    assert then["parameters"]["as_known_then"] is True
    found = {
        (place, name, over): [
            row for row in one["results"] if (row["estimator"], row["of_rounds"]) == (name, over)
        ]
        for place, one in enumerate((then, now))
        for name in ("tracked", "unbiased_mean")
        for over in (1, 6)
    }
    assert found[0, "unbiased_mean", 1] == found[1, "unbiased_mean", 1]
    assert {row["method"] for row in found[0, "tracked", 1]} == {"tracked"}
    revised = [row["revision"] for row in found[1, "tracked", 1]]
    assert revised == [int(row["method"] == "smoothed") for row in found[1, "tracked", 1]]
    assert sum(revised) > 120
    assert now["looked_back"] == {"rounds": 240, "revised": sum(revised)}
    assert "looked_back" not in then
    assert now["compared"]["is_moving"] is True
    assert 10 < now["compared"]["spread"] < 20
    assert now["compared"]["rounds"] == 240
    assert f"later     {sum(revised)} of 240 rounds of tracked were revised" in said
    for over, gain in ((1, 1.5), (6, 1.0)):
        squares = [
            sum(row["error"] ** 2 for row in found[place, "tracked", over]) for place in (0, 1)
        ]
        assert squares[1] <= squares[0] / gain
    skills = [
        next(one["skill"] for one in doc["errors"] if one["estimator"] == "tracked")
        for doc in (then, now)
    ]
    assert skills[0] == skills[1]


def test_few_rounds_are_not_looked_back_at(
    readings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With six rounds the rows are those that were known then."""
    asked = (readings, *RANGE, "--every", "1h", "--seed", 1)
    assert ran(*asked, "--as-known-then", capsys=capsys)[0] == ran(*asked, capsys=capsys)[0]


def test_neither_estimates_nor_intervals_of_tracked_leave_the_range(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fleet at 6 % of a wide range at epsilon 0.5: no estimate is exactly an end.

    Unbiased means lie outside now and then, and their intervals end at the range all the same.
    """
    table = hours_of(tmp_path / "table.csv", dict.fromkeys(range(24), 6.0))
    out, _ = ran(
        *(table, "--range", 0, 100, "--epsilon", 0.5, "--every", "1h", "--seed", 1, "--json"),
        *("--estimator", "tracked", "--estimator", "unbiased_mean"),
        capsys=capsys,
    )
    rows = json.loads(out)["results"]
    assert all(0 <= row["low"] < row["high"] <= 100 for row in rows)
    assert {row["estimator"] for row in rows} == {"tracked", "unbiased_mean"}
    assert all(0 < row["value"] < 100 for row in rows if row["estimator"] == "tracked")
    assert any(row["value"] < 0 for row in rows if row["estimator"] == "unbiased_mean")


@pytest.mark.parametrize("ending", ["csv", "parquet", "json"])
def test_out(
    ending: str, readings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --out the results go to the file, stdout stays empty, and nothing else is left."""
    path = tmp_path / f"results.{ending}"
    path.write_text("old")
    out, err = ran(readings, *RANGE, "--every", "1h", "--seed", 1, "--out", path, capsys=capsys)
    assert out == ""
    assert f"written   {path}" in err
    manifest = tmp_path / f"{path.name}.manifest.json"
    assert set(tmp_path.iterdir()) == {readings, path, manifest}
    told = json.loads(manifest.read_text())
    assert told["noise"] == "seeded, for study only"
    assert told["input"]["files"][0]["bytes"] == readings.stat().st_size
    assert told["results"][0]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    out, _ = ran(readings, *RANGE, "--every", "1h", "--seed", 1, "--json", capsys=capsys)
    expected = json.loads(out)["results"]
    rows: list[dict[str, Any]]
    match ending:
        case "csv":
            rows = list(csv.DictReader(path.read_text().splitlines()))
            rows = [row | {"value": float(row["value"]), "n": int(row["n"])} for row in rows]
        case "parquet":
            rows = pq.read_table(path).to_pylist()
            assert b"rase.run/2" in pq.ParquetFile(path).metadata.metadata[b"rase"]
        case _:
            rows = json.loads(path.read_text())["results"]
    assert set(rows[0]) == set(expected[0])
    for name in ("time", "until", "method", "value", "n", "shuffle"):
        assert [row[name] for row in rows] == [row[name] for row in expected]


def test_two_runs_have_twice_the_epsilon_and_say_so(
    readings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Noise is drawn again by a second run, so manifest and summary name what two of them cost.

    False-alarm rate: below 1.1e-20, as where noise is fresh without a seed; here no digit is cut.
    """
    runs = []
    for name in ("first.json", "second.json"):
        asked = (*RANGE, "--every", "1h", "--estimator", "unbiased-mean", "--out", tmp_path / name)
        _, err = ran(readings, *asked, capsys=capsys)
        told = json.loads((tmp_path / f"{name}.manifest.json").read_text())
        spent = told["summary"]["most_epsilon"]
        assert spent > 0
        assert f"whoever sees two has epsilon {2 * spent:g} instead of {spent:g}" in err
        assert told["publish_once"].startswith("Publish one run of these readings only")
        assert f"publish   {told['publish_once']}" in err
        runs.append(json.loads((tmp_path / name).read_text())["results"])
    assert [row["time"] for row in runs[0]] == [row["time"] for row in runs[1]]
    assert [row["value"] for row in runs[0]] != [row["value"] for row in runs[1]]


def test_a_second_run_doubles_what_an_observer_learns() -> None:
    """Two readings differ by e^epsilon in one report, and by its square in those of two runs."""
    rows = list(Duchi(1.0, Range(0, 1, steps=1)).table_rows())
    ratios = [math.log(rows[1][code] / rows[0][code]) for code in rows[0]]
    assert max(ratios) == pytest.approx(1.0, abs=1e-9)
    twice = [one + other for one in ratios for other in ratios]
    assert max(twice) == pytest.approx(2.0, abs=1e-9)


def test_out_and_json(readings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With both, the file and stdout carry the same results."""
    path = tmp_path / "results.json"
    out, _ = ran(readings, *RANGE, "--out", path, "--json", capsys=capsys)
    assert json.loads(out) == json.loads(path.read_text())


@pytest.mark.parametrize("count", [101, 200])
def test_long_parquet(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Long results are written piece by piece."""
    monkeypatch.setattr("rase.cli.output._PARQUET_ROWS", 100)
    path = tmp_path / "readings.csv"
    rows = "".join(f"{second},a,1\n" for second in range(count))
    path.write_text(f"time,device,value\n{rows}")
    out = tmp_path / "results.parquet"
    ran(path, *RANGE, "--out", out, capsys=capsys)
    assert pq.ParquetFile(out).metadata.num_rows == count
    assert pq.ParquetFile(out).metadata.num_row_groups == 2


@pytest.mark.parametrize("first", ["known", "unknown"])
@pytest.mark.parametrize("more", [[], ["--partition-by", "day"]])
def test_errors_that_are_not_known_are_empty_numbers_in_parquet(
    first: str,
    more: list[str],
    *,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Pieces and files in which no error is known have the types of those in which one is."""
    monkeypatch.setattr("rase.cli.output._PARQUET_ROWS", 2)
    path = tmp_path / "readings.csv"
    days = range(4)
    both = days[:2] if first == "known" else days[2:]
    rows = [f"2024-05-0{day + 1}T00:00:00Z,a,1\n" for day in days]
    rows += [f"2024-05-0{day + 1}T00:00:00Z,b,2\n" for day in both]
    path.write_text(f"time,device,value\n{''.join(rows)}")
    out = tmp_path / "results.parquet"
    ran(path, *RANGE, "--estimator", "sample_mean", *more, "--out", out, capsys=capsys)
    files = sorted(out.rglob("*.parquet")) if more else [out]
    tables = [pq.ParquetFile(file).read() for file in files]
    types = {str(table.schema.field("standard_error").type) for table in tables}
    assert types == {"double"}
    assert len({tuple(table.schema.types) for table in tables}) == 1
    errors = pa.concat_tables(tables)["standard_error"].to_pylist()
    assert [error is not None for error in errors] == [day in both for day in days]


def test_trials(readings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Trials repeat the run with other noise of the seed; without a seed they are refused."""
    out, err = ran(readings, *RANGE, "--trials", 3, "--seed", 1, "--truth", capsys=capsys)
    lines = [line.split() for line in out.splitlines()]
    assert lines[0][0] == "trial"
    assert [line[0] for line in lines[1:]] == ["1"] * 6 + ["2"] * 6 + ["3"] * 6
    assert len({line[3] for line in lines[1:]}) > 10
    assert "RMSE" in err
    assert main(["run", str(readings), *RANGE, "--trials", "3"]) == 5
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "spend its epsilon 3 times; add --seed to mark the run as study." in shown.err


@pytest.mark.parametrize("mechanism", ["laplace", "duchi", "piecewise", "hybrid"])
def test_mechanisms(mechanism: str, readings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every mechanism runs, on the grid asked for."""
    out, _ = ran(
        *(readings, *RANGE, "--mechanism", mechanism, "--steps", 10, "--truth", "--json"),
        capsys=capsys,
    )
    assert len(json.loads(out)["results"]) == 6


def test_robust_shuffler(readings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Alpha and groups choose the robust shuffler, which says what it did and why."""
    arguments = (readings, *RANGE, "--alpha", 0.001, "--groups", 2)
    out, err = ran(*arguments, "--json", capsys=capsys)
    assert [row["shuffle"] for row in json.loads(out)["results"]] == ["mallows"] * 6
    assert "mallows in 6 rounds: " in err
    assert "d_σ privacy for the groups used" in err
    _, err = ran(readings, *RANGE, "--alpha", 30, "--groups", 4, capsys=capsys)
    assert "uniform in 6 rounds: " in err


def test_graph(readings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A graph names the real groups, also in rounds where some do not report."""
    graph = tmp_path / "graph.csv"
    edges = "".join(f"d{device},d{(device + 2) % 8}\n" for device in range(8))
    graph.write_text(f"first,second\n{edges}")
    arguments = (readings, *RANGE, "--alpha", 0.01, "--groups", 2, "--seed", 1, "--json")
    rows = json.loads(ran(*arguments, capsys=capsys)[0])["results"]
    known = json.loads(ran(*arguments, "--graph", graph, capsys=capsys)[0])
    assert known["parameters"]["graph"] == str(graph)
    assert rows[0]["real_loss"] > known["results"][0]["real_loss"] > rows[0]["alpha"]


@pytest.mark.uncovered
def test_real_appliances(data_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the REFIT slice the error is the one predicted, within 16 % over 600 hours.

    The ratio of 600 nearly normal errors has a standard deviation of 2.9 %: false-alarm rate below
    1e-7, and a noise 30 % too large is rejected.
    """
    out, err = ran(
        *(data_folder / "refit_64x25d.parquet", "--range", 0, 1000, "--epsilon", 2),
        *("--every", "1h", "--window", "1d", "--truth", "--seed", 2026, "--json"),
        *("--estimator", "unbiased_mean", "--estimator", "tracked"),
        capsys=capsys,
    )
    document = json.loads(out)
    assert document["summary"]["devices"] == 64
    assert document["summary"]["rounds"] == 600
    hourly = document["errors"][0]
    predicted = pytest.approx(hourly["predicted_rmse"], rel=0.16)
    assert hourly["rmse"] == predicted
    assert 1.3 * hourly["rmse"] != predicted
    tracked = document["errors"][1]
    assert (hourly["estimator"], tracked["estimator"]) == ("unbiased_mean", "tracked")
    assert hourly["skill"] < 1 < hourly["rmse"] / tracked["rmse"]
    assert tracked["history_rmse"] == hourly["history_rmse"]
    assert "38400 rows of 64 devices, 0 empty; 600 rounds." in err


@pytest.mark.uncovered
@pytest.mark.parametrize(
    ("every", "rounds"), [("1h", 1176), pytest.param("15min", 4704, marks=pytest.mark.slow)]
)
def test_real_households(
    every: str, rounds: int, data_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The 2.5 million readings of the Swiss households go through, oddities clipped and counted."""
    out, err = ran(
        *(data_folder / "swiss_households_15min.parquet", "--range", 0, 10, "--epsilon", 1),
        *("--every", every, "--truth", "--seed", 2026),
        capsys=capsys,
    )
    assert len(out.splitlines()) == rounds + 1
    assert f"2526048 rows of 537 devices, 0 empty; {rounds} rounds." in err
    assert "outside 0 to 10, moved to its nearest end" in err


@pytest.mark.parametrize("mechanism", ["optimal", "auto"])
def test_the_best_mechanisms_can_be_asked_for(
    readings: Path, mechanism: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both are what is drawn unasked at epsilon 4, of less error than the paper's randomizer."""
    arguments = (readings, *RANGE, "--every", "1h", "--seed", "1", "--json")
    best = json.loads(ran(*arguments, "--mechanism", mechanism, capsys=capsys)[0])
    unasked = json.loads(ran(*arguments, capsys=capsys)[0])
    paper = json.loads(ran(*arguments, "--mechanism", "budget-aware", capsys=capsys)[0])
    assert best["results"] == unasked["results"]
    assert best["parameters"]["drawn_mechanism"] == "optimal"
    assert paper["parameters"]["drawn_mechanism"] == "budget-aware"
    for ours, theirs in zip(best["results"], paper["results"], strict=True):
        assert ours["standard_error"] < theirs["standard_error"]


def test_feedback_tells_the_range_it_came_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Probing rounds narrow the range; with few rounds that is said instead; graphs are refused."""
    path = tmp_path / "wide.csv"
    lines = ["time,device,value"]
    for device in range(40):
        lines += [f"{3600 * hour},{device},{4000 if not device else 100}" for hour in range(10)]
    path.write_text("\n".join(lines))
    asked = (path, "--range", 0, 5000, "--epsilon", 2, "--feedback", "--seed", 1, "--truth")
    _, told = ran(*asked, "--estimator", "unbiased_mean", capsys=capsys)
    assert "range     " in told
    assert "at the end: clipping adds" in told
    assert "the errors of tracked and unbiased_mean hold what that adds." in told
    path.write_text("\n".join(line for line in lines if "," in line and line[0] in "t0"))
    _, told = ran(*asked, capsys=capsys)
    assert "too few rounds to choose another" in told
    assert main(["run", *map(str, asked), "--alpha", "1", "--groups", "2", "--graph", "x"]) == 2


@pytest.fixture
def days(readings: Path, tmp_path: Path) -> Path:
    """The same table as Parquet files of two hours each."""
    folder = tmp_path / "days"
    table = pyarrow.csv.read_csv(readings)
    for start in range(0, 6, 2):
        hours = [start <= time.hour < start + 2 for time in table["time"].to_pylist()]
        part = table.filter(pa.array(hours)).sort_by("time")
        (folder / f"from={start}").mkdir(parents=True)
        pq.write_table(part, folder / f"from={start}" / "part.parquet", row_group_size=5)
    return folder


@pytest.mark.parametrize("more", [["--feedback"], ["--epsilons"]])
def test_what_needs_the_order_takes_folders_of_parquet(
    more: list[str],
    readings: Path,
    days: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Files are read one after the other; the results are those of one table sorted by time."""
    owners = tmp_path / "owners.csv"
    owners.write_text("d3,0.25\n")
    if more == ["--epsilons"]:
        more = ["--epsilons", str(owners), "--mechanism", "hybrid"]
    head, *rows = readings.read_text().splitlines()
    readings.write_text("\n".join([head, *sorted(rows)]) + "\n")
    asked = (*RANGE, "--every", "1h", "--seed", "1", "--json", *more)
    text, _ = ran(readings, *asked, capsys=capsys)
    parquet, told = ran(days, *asked, capsys=capsys)
    assert json.loads(parquet)["results"] == json.loads(text)["results"]
    assert "48 rows of 8 devices, 3 empty; 6 rounds." in told


def test_devices_may_stand_in_the_path(
    readings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Folders that are called after their device are read as a column of devices is."""
    asked = (*RANGE, "--every", "1h", "--seed", "1", "--json", "--feedback")
    table = pyarrow.csv.read_csv(readings)
    for name in {*table["device"].to_pylist()}:
        folder = tmp_path / "meters" / f"device={name}"
        folder.mkdir(parents=True)
        part = table.filter(pyarrow.compute.equal(table["device"], name))
        pq.write_table(part.drop_columns("device"), folder / "part.parquet")
    text, _ = ran(readings, *asked, capsys=capsys)
    parquet, _ = ran(tmp_path / "meters", *asked, capsys=capsys)
    assert json.loads(parquet)["results"] == json.loads(text)["results"]


def test_what_needs_the_order_names_or_skips_damaged_files(
    days: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file without its end is named; with --skip-bad it is left out and counted."""
    torn = days / "from=2" / "part.parquet"
    torn.write_bytes(torn.read_bytes()[:-20])
    asked = (days, *RANGE, "--every", "1h", "--feedback")
    assert main(["run", *map(str, asked)]) == 2
    assert f"{torn} is a damaged Parquet file" in capsys.readouterr().err
    _, told = ran(*asked, "--skip-bad", capsys=capsys)
    assert "32 rows of 8 devices, 3 empty; 4 rounds." in told
    assert "skipped   1 damaged part of the table." in told


@pytest.mark.parametrize("more", [[], ["--feedback"], ["--epsilons"]])
def test_rows_that_go_back_in_time_change_no_number(
    more: list[str],
    readings: Path,
    days: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Files whose names do not follow time, and lines from the last to the first, are sorted."""
    owners = tmp_path / "owners.csv"
    owners.write_text("d3,0.25\n")
    if more == ["--epsilons"]:
        more = ["--epsilons", str(owners), "--mechanism", "hybrid"]
    asked = (*RANGE, "--every", "1h", "--window", "2", "--seed", "1", "--truth", "--json", *more)
    in_order = json.loads(ran(days, *asked, capsys=capsys)[0])
    assert [row["time"] for row in in_order["results"] if row["of_rounds"] == 1] == [
        f"2024-05-01T{hour:02}:00:00Z" for hour in range(6)
    ]
    (days / "from=0").rename(days / "from=9")
    head, *rows = readings.read_text().splitlines()
    readings.write_text("\n".join([head, *rows[::-1]]) + "\n")
    for table in (days, readings):
        assert json.loads(ran(table, *asked, capsys=capsys)[0]) == in_order


def test_owners_budgets(readings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Devices whose owners allow less report with less; classes and their sizes are told."""
    owners = tmp_path / "owners.csv"
    some = readings.read_text().splitlines()[1].split(",")[1]
    owners.write_text(f"{some},0.25\n")
    asked = (readings, *RANGE, "--every", "1h", "--mechanism", "hybrid", "--epsilons", owners)
    out, err = ran(*asked, "--json", capsys=capsys)
    assert "classes   epsilon 0.25: 1 device, epsilon " in err
    document = json.loads(out)
    assert document["parameters"]["epsilons"] == str(owners)
    assert {row["estimator"] for row in document["results"]} == {"tracked"}
    out, err = ran(*asked, "--mechanism", "auto", "--json", capsys=capsys)
    # Of 0.25 and 4: the law that is best for the mean of all reports.
    assert json.loads(out)["parameters"]["drawn_mechanism"] == "optimal"


def test_calendar_days_in_a_zone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Days of 23 and 24 hours have a row each, and only days that are over."""
    begin_s = int(datetime.fromisoformat("2024-03-30T23:00:00+00:00").timestamp())
    lines = ["time,device,value"]
    for hour in range(23 + 24 + 5):
        lines.extend(f"{begin_s + 3600 * hour},d{device},{10 * device}" for device in range(4))
    path = tmp_path / "readings.csv"
    path.write_text("\n".join(lines) + "\n")
    asked = [path, *RANGE, "--every", "1h", "--window", "1d", "--timezone", "Europe/Zurich"]
    found = json.loads(ran(*asked, "--json", capsys=capsys)[0])
    days = [row for row in found["results"] if row["of_rounds"] > 1]
    assert [(row["time"], row["until"], row["rounds"], row["of_rounds"]) for row in days] == [
        ("2024-03-30T23:00:00Z", "2024-03-31T22:00:00Z", 23, 23),
        ("2024-03-31T22:00:00Z", "2024-04-01T22:00:00Z", 24, 24),
    ]
    assert found["parameters"]["timezone"] == "Europe/Zurich"
