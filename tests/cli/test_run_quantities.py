"""``rase run --quantity``: several columns of one table under one budget."""

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.cases import each_case

from rase.cli import main

DEVICES = 30
POWER, MODE = ("--quantity", "power=0:3000"), ("--quantity", "mode=off,on,other")
ASKED = (*POWER, *MODE, "--every", "1h")


def table(path: Path, *, hours: range = range(6), mode: str = "on") -> Path:
    """Write a row for each device and hour."""
    lines = ["time,device,power,mode"]
    for hour in hours:
        lines += [
            f"2024-05-01T{hour:02}:00:00Z,d{device},{100 * device},{mode if device % 3 else 'off'}"
            for device in range(DEVICES)
        ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def document(*arguments: object, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Run a command and return its JSON."""
    assert main(["run", *map(str, arguments), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_every_output_names_the_quantity(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Text, JSON, CSV, Parquet, page and picture; one total, and a verdict for each."""
    place = table(tmp_path / "t.csv")
    asked = (place, *ASKED, "--epsilon", "1", "--seed", "1")
    assert main(["run", *map(str, asked)]) == 0
    out, err = capsys.readouterr()
    names = [line.split()[1] for line in out.splitlines()]
    assert names == ["quantity", *["power"] * 6, *["mode"] * 18]
    assert "together epsilon 6. Publish one run" in err
    assert "by turns (1, 1). 1-LDP per report" in err
    found = document(*asked, capsys=capsys)
    assert found["summary"] == {
        "devices": DEVICES,
        "reports": 6 * DEVICES,
        "most_reports": 6,
        "most_epsilon": 6.0,
    }
    assert {one["quantity"] for one in found["results"]} == {"power", "mode"}
    assert "6 of 8 rounds needed" in found["quantities"]["power"]["verdict"]
    assert found["parameters"]["turns"] == {"power": 1, "mode": 1}
    assert found["parameters"]["quantities"]["mode"]["categories"] == "off,on,other"
    for ending in ("csv", "parquet"):
        out_place = tmp_path / f"o.{ending}"
        pages = ("--html", tmp_path / "o.html", "--plot", tmp_path / "o.png")
        more = pages if ending == "csv" else ()
        assert main(["run", *map(str, (*asked, "--out", out_place, *more))]) == 0
    with (tmp_path / "o.csv").open() as file:
        rows = list(csv.DictReader(file))
    printed = [str(one["value"]) for one in found["results"]]
    assert [row["value"] for row in rows] == printed
    kept = pq.read_table(tmp_path / "o.parquet")
    assert [str(one) for one in kept["value"].to_pylist()] == printed
    assert kept["quantity"].to_pylist() == [row["quantity"] for row in rows]
    page = (tmp_path / "o.html").read_text()
    assert "<th>quantity</th>" in page
    assert "mode: share of the reporting devices" in page
    assert "<br>mode: The shares of the last of 6 rounds are" in page
    manifest = json.loads((tmp_path / "o.csv.manifest.json").read_text())
    assert manifest["turns"] == {"power": 1, "mode": 1}
    assert not list(tmp_path.glob("*.unfinished"))


def test_a_split_cuts_budget_and_promise_into_parts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every device reports everything; epsilons and deltas of a round add up to what was asked."""
    place = table(tmp_path / "t.csv")
    asked = (place, *ASKED, "--split", "3,1", "--seed", "1")
    found = document(*asked, "--epsilon", "2", capsys=capsys)
    assert found["summary"]["most_reports"] == 12
    assert found["summary"]["most_epsilon"] == pytest.approx(12)
    own = found["parameters"]["quantities"]
    assert (own["power"]["epsilon"], own["mode"]["epsilon"]) == (1.5, 0.5)
    found = document(*asked, "--shuffled-epsilon", "2", "--delta", "1e-5", capsys=capsys)
    first = {one["quantity"]: one for one in reversed(found["results"])}
    assert sum(one["delta"] for one in first.values()) == pytest.approx(1e-5)
    assert 1.9 < sum(one["shuffled_epsilon"] for one in first.values()) <= 2
    assert found["summary"]["most_epsilon"] > found["shuffled_epsilon"] > 2
    assert any(one.startswith("mode: Rounds of fewer than 24") for one in found["promises"])


def test_a_table_that_grows_keeps_the_total(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of six hours and then six more a device has spent twelve; the quantities are bound."""
    folder = tmp_path / "days"
    folder.mkdir()
    table(folder / "a.csv")
    asked = (folder, *ASKED, "--epsilon", "1", "--continue", "--out", tmp_path / "o.json")

    def total() -> dict[str, Any]:
        found: dict[str, Any] = json.loads((tmp_path / "o.json").read_text())
        return found

    assert main(["run", *map(str, asked)]) == 0
    first = total()
    assert first["summary"]["most_epsilon"] == 6
    table(folder / "b.csv", hours=range(6, 12))
    assert main(["run", *map(str, asked)]) == 0
    second = total()
    assert second["summary"]["most_epsilon"] == 12
    was = {one["time"]: one["n"] for one in first["results"] if one["quantity"] == "power"}
    now = {one["time"]: one["n"] for one in second["results"] if one["quantity"] == "power"}
    assert now.items() >= was.items()
    assert len(now) == 12
    # Of each round the devices that report one quantity are those that report no other.
    other = {one["time"]: one["n"] for one in second["results"] if one["quantity"] == "mode"}
    assert {now[time] + other[time] for time in now} == {DEVICES}
    capsys.readouterr()
    more = [str(one) for one in asked]
    assert main(["run", *more, "--quantity", "device=a,b,other"]) == 3
    assert "were drawn with another turns" in capsys.readouterr().err


def test_a_table_that_is_refused_for_one_column_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second column is looked at before anything of the first is shown or kept."""
    place = table(tmp_path / "t.csv", mode="broken")
    asked = (place, *POWER, "--quantity", "mode=off,on", "--every", "1h", "--epsilon", "1")
    for more in ((), ("--out", tmp_path / "o.csv")):
        assert main(["run", *map(str, (*asked, *more))]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert "column 'mode' holds in row 2 none of the categories off, on" in err
        assert "broken" not in err
    assert sorted(tmp_path.iterdir()) == [place]


@each_case(
    ("arguments", "message"),
    [
        ((*POWER, "--quantity", "watt=0:1"), "no column 'watt'; it has 'time', 'device', 'power'"),
        ((*POWER, "--quantity", "power=0:1"), "--quantity power is given twice"),
        ((*POWER, "--quantity", "mode"), "must be a column and what its readings may be"),
        ((*POWER, "--quantity", "heat=21"), "--quantity heat must have a range LOW:HIGH"),
        ((*POWER, "--quantity", "heat=above:x"), "--quantity heat must have a range LOW:HIGH"),
        ((*POWER, *MODE, "--turns", "1"), "a number above 0 for each quantity (power, mode)"),
        ((*POWER, *MODE, "--turns", "1,0.5"), "--turns must be whole numbers"),
        ((*POWER, *MODE, "--turns", "64,1"), "64 together at most"),
        ((*POWER, *MODE, "--split", "1,-1"), "a number above 0 for each quantity (power, mode)"),
        ((*POWER, *MODE, "--split", "1,1", "--turns", "1,1"), "cannot be used together"),
        ((*POWER, "--range", "0", "1"), "--range and --quantity cannot be used together"),
        ((*POWER, "--feedback"), "--feedback and --quantity cannot be used together"),
        ((*POWER, "--value-column", "x"), "--value-column and --quantity cannot"),
        (("--range", "0", "1", "--turns", "1"), "--turns and --split need --quantity"),
    ],
)
def test_bad_input_is_named(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each mistake has its own words."""
    place = table(tmp_path / "t.csv")
    assert main(["run", str(place), *arguments, "--every", "1h", "--epsilon", "1"]) in (2, 3)
    assert message in capsys.readouterr().err


def test_turns_need_rounds_and_a_split_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without --every each time is a round, and cycles of turns have no sense."""
    place = str(table(tmp_path / "t.csv"))
    assert main(["run", place, *POWER, *MODE, "--epsilon", "1"]) == 2
    assert "--quantity needs --every" in capsys.readouterr().err
    asked = (place, *POWER, *MODE, "--split", "1,1", "--epsilon", "1", "--seed", "1")
    assert document(*asked, capsys=capsys)["summary"]["most_epsilon"] == 6
