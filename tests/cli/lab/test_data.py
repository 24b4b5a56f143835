"""``rase lab data`` and ``rase lab fleet``: lists, checks and files."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

from rase.cli.lab.data import data_command, fleet_command
from rase.errors import DataError
from rase.lab.datasets import open_panel
from rase.tables.rows import Rows

lab = click.Group("lab", commands=[data_command, fleet_command])


def run(*arguments: str) -> Result:
    """Run a command and let unexpected failures out."""
    return CliRunner().invoke(lab, arguments, catch_exceptions=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder of its own, without prepared data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RASE_DATA", raising=False)
    return tmp_path


def test_list_without_data(folder: Path) -> None:
    """All sources are listed as absent, and the way to have them is said."""
    done = run("data")
    assert done.exit_code == 0
    rows = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines()[1:]}
    assert rows["refit-64x25d"] == rows["swiss"] == rows["beijing-temp"] == "absent"
    assert rows["fleet"] == "made"
    assert "RASE_DATA names no folder" in done.stderr
    assert "CC BY-SA 4.0" in done.stdout


def test_list_with_a_wrong_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with another checksum is told apart from one that is missing."""
    (folder / "refit_hourly.parquet").write_bytes(b"PAR1")
    monkeypatch.setenv("RASE_DATA", str(folder))
    done = run("data")
    assert "not as published: refit_hourly.parquet; fetch them again." in done.stderr
    document = json.loads(run("data", "--json").stdout)
    assert document["schema"] == "rase.lab.data/1"
    states = {source["name"]: source["state"] for source in document["sources"]}
    assert (states["refit-hourly"], states["swiss"]) == ("differs", "absent")
    assert len(document["files"]) == 10


def test_list_with_data(data_folder: Path) -> None:
    """The prepared files are as published."""
    document = json.loads(run("data", "--json").stdout)
    assert {file["state"] for file in document["files"]} == {"ok"}


def test_check_of_ones_own_file(folder: Path) -> None:
    """A file is read as in a study, its gaps are counted, its range is said not to be private."""
    rows = "".join(f"2024-01-{day:02},{name},{day % 7}\n" for name in "ab" for day in (1, 2, 3, 9))
    (folder / "own.csv").write_text(f"time,device,value\n{rows}", encoding="utf-8")
    done = run("data", "own.csv", "--every", "1d")
    assert done.exit_code == 0
    assert "read as   long" in done.stdout
    assert "55.6 % of readings missing, 5 rounds without any, 5 of them in a row" in done.stdout
    assert "smallest  1\n" in done.stdout
    assert "houses unknown, device types unknown, sensors 2" in done.stdout
    assert "a --range chosen from them is not private" in done.stderr
    assert "irregular" in done.stdout


def test_check_as_json(folder: Path) -> None:
    """One document; what cannot be known is null; one device and constant ones are warned of."""
    (folder / "one.csv").write_text("time,lamp\n2024-01-01,5\n2024-01-02,5\n", encoding="utf-8")
    document = json.loads(run("data", "one.csv", "--json").stdout)
    assert document["schema"] == "rase.lab.data.check/1"
    assert (document["layout"], document["devices"], document["rounds"]) == ("wide", 1, 2)
    assert document["statistics"]["day_correlation"] is None
    assert document["first"] == "2024-01-01T00:00:00Z"
    assert any("one device" in warning for warning in document["warnings"])
    assert any("1 devices never change, such as lamp" in line for line in document["warnings"])


def test_check_of_the_fleet(folder: Path) -> None:
    """Table I is computed from a synthetic fleet."""
    done = run("data", "fleet:80x2", "--every", "1h")
    assert "training: houses 17, device types 11, sensors 68" in done.stdout
    assert "test: houses 3" in done.stdout


def test_refusals(folder: Path) -> None:
    """Wrong options and wrong data end in one line each."""
    assert run("data", "fleet", "--every", "often").exit_code == 2
    swapped = run("data", "fleet", "--start", "2014-07-01", "--end", "2014-06-01")
    assert "end must be later" in swapped.stderr
    with pytest.raises(DataError, match=r"there is no data set or file 'x\.csv'"):
        run("data", "x.csv")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_fleet_files(folder: Path, suffix: str) -> None:
    """A written fleet reads back the same, outages missing; the same seed gives the same file."""
    options = ("--devices", "12", "--days", "6", "--seed", "3", "--interval", "30min")
    for name in ("a", "b"):
        done = run("fleet", *options, "--outages-per-year", "60", "--out", f"{name}{suffix}")
        assert done.exit_code == 0
        assert "3456 rows of 12 devices over 6 days" in done.stderr
    assert (folder / f"a{suffix}").read_bytes() == (folder / f"b{suffix}").read_bytes()
    panel = open_panel(f"a{suffix}")
    assert (panel.rounds, panel.n) == (288, 12)
    whole = open_panel("fleet:12x6:3", every="30min")
    has_reading = panel.values == panel.values
    assert 0.5 < has_reading.mean() < 1
    assert panel.values[has_reading] == pytest.approx(whole.values[has_reading], abs=0.006)
    assert sorted(entry.name for entry in folder.iterdir()) == [f"a{suffix}", f"b{suffix}"]
    if suffix == ".parquet":
        assert pyarrow.parquet.read_schema("a.parquet").metadata[b"unit"] == b"W"


def test_nothing_half_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that breaks off leaves no file, and an older one as it was."""
    from rase.lab.fleet import SyntheticFleet

    whole = SyntheticFleet.batches

    def broken(self: SyntheticFleet) -> Iterator[Rows]:
        yield next(iter(whole(self)))
        raise KeyboardInterrupt

    monkeypatch.setattr(SyntheticFleet, "batches", broken)
    (folder / "old.csv").write_text("old")
    with pytest.raises(click.Abort):
        fleet_command.main(["--out", "old.csv"], standalone_mode=False)
    assert (folder / "old.csv").read_text() == "old"
    assert [entry.name for entry in folder.iterdir()] == ["old.csv"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--out", "x.json"), "--out must end in .csv or .parquet, got 'x.json'."),
        (("--out", "none/x.csv"), "--out must lie in a folder that exists"),
        (("--out", "x.csv", "--interval", "7min"), "whole minutes that divide a day"),
        (("--out", "x.csv", "--interval", "never"), "a duration must look like"),
        (("--out", "x.csv", "--outages-per-year", "-1"), "outages_per_year must be at least 0"),
        ((), "Missing option '--out'"),
    ],
)
def test_fleet_refused(folder: Path, options: tuple[str, ...], message: str) -> None:
    """Wrong options are told before any work is done."""
    done = run("fleet", *options)
    assert done.exit_code == 2
    assert message in done.stderr
    assert list(folder.iterdir()) == []


def test_without_pyarrow(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list needs no pyarrow; reading and writing say how to get it."""
    for name in ("datasets", "streams", "readers", "fleet_file"):
        monkeypatch.delitem(sys.modules, f"rase.lab.{name}", raising=False)
    for name in ("pyarrow", "pyarrow.csv", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    assert run("data").exit_code == 0
    with pytest.raises(DataError, match=r'pip install "rase-iot\[lab\]"'):
        run("data", "fleet")
    with pytest.raises(DataError, match=r'pip install "rase-iot\[lab\]"'):
        run("fleet", "--out", "x.csv")
    assert list(folder.iterdir()) == []
