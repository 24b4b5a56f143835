"""``rase demo``: a table, a picture and honest words."""

import json
import sys
from pathlib import Path

import pytest

from rase.cli import main

# The live part has tests of its own.
SMALL = ("--devices", "16", "--days", "3", "--seed", "1", "--rounds", "0")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.uncovered
def test_table_and_picture(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table on stdout, the words on stderr, the picture in the folder."""
    assert main(["demo", *SMALL]) == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert lines[0].split() == ["estimator", "hour", "day", "3", "days", "bias", "predicted"]
    assert {line.split()[0] for line in lines[1:]} == {
        *("tracked", "unbiased_mean", "sample_mean", "median", "bootstrap_mean"),
    }
    assert "epsilon 2 a report, 48 a day, 144 in all" in shown.err
    assert "uniform in every hour" in shown.err
    assert "one hour of 16 devices says little" in shown.err
    assert "The reports of optimal can be averaged as they are; the median" in shown.err
    assert "seeded noise: for study only" in shown.err
    assert "rase run readings.csv" in shown.err
    assert [entry.name for entry in folder.iterdir()] == ["rase-demo.png"]
    assert (folder / "rase-demo.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.uncovered
def test_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One document; with much budget the fleet's mean is found and the noise is not blamed."""
    arguments = ["--days", "2", "--epsilon", "30", "--rounds", "0", "--json", "--out", "x.png"]
    assert main(["demo", *arguments, "--seed", "1"]) == 0
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    assert document["schema"] == "rase.demo/2"
    assert document["picture"] == "x.png"
    assert document["live"] is None
    found = document["estimators"]["unbiased_mean"]
    assert abs(found["error"]) < 6 * found["standard_error"]
    assert "says little" not in shown.err


def test_without_a_seed_noise_is_secure(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is said of a seed."""
    assert main(["demo", "--devices", "4", "--days", "1", "--rounds", "0", "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["schema"] == "rase.demo/2"
    assert "seeded" not in shown.err


@pytest.mark.uncovered
def test_the_bias_of_plain_means_is_that_of_the_mechanism(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Reports of one bit cannot be averaged as they are, and the words say by how much."""
    assert main(["demo", *SMALL, "--epsilon", "0.5"]) == 0
    told = capsys.readouterr().err
    # (1 - tanh(1/4)) / 2 of the range: what a bit's mean lacks at an end.
    assert "the reports of duchi pull sample_mean and bootstrap_mean by up to 378 W" in told


def test_without_matplotlib(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without matplotlib there is the table, and a line that says how to get the picture."""
    monkeypatch.delitem(sys.modules, "rase.lab.figures", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    assert main(["demo", *SMALL]) == 0
    shown = capsys.readouterr()
    assert "unbiased_mean" in shown.out
    assert 'pip install "rase-iot[plot]"' in shown.err
    assert list(folder.iterdir()) == []


@pytest.mark.uncovered
def test_clipped(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Readings above the range are counted aloud."""
    from rase.domain import Range

    monkeypatch.setattr("rase.cli.demo._POWER_W", Range(0, 50))
    assert main(["demo", *SMALL]) == 0
    assert "readings lay above 50 W" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--epsilon", "0"), "epsilon must be"),
        (("--devices", "0"), "devices must be at least 1, got 0."),
        (("--days", "-1"), "days must be at least 1, got -1."),
        (("--rounds", "-1"), "-1 is not in the range x>=0."),
        (("--out", "none/x.png"), "--out must be a file in a folder that exists"),
    ],
)
def test_refused(
    arguments: tuple[str, ...], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wrong options are one line and exit code 2, and draw nothing."""
    assert main(["demo", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err
    assert list(folder.iterdir()) == []
