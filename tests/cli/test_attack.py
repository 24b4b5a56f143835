"""``rase attack``: attacking a configuration on one's own data, and what it refuses."""

import csv
import json
import sys
from pathlib import Path

import pytest

from rase.cli import main
from rase.cli.attack import read_configuration
from rase.lab.attacks import ATTACK_NAMES

GOOD = """
[campaign]
low = 0
high = 1000
epsilon = 4
shuffle = "mallows"
alpha = 30
groups = 2
"""
DATA = "fleet:16x5:1"
Shown = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a good configuration."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rase.toml").write_text(GOOD)
    (tmp_path / "own.csv").write_text(
        "time,device,value\n"
        + "".join(f"{3600 * hour},{name},{hour}\n" for hour in range(9) for name in "ab")
    )
    return tmp_path


def attacked(*arguments: str) -> int:
    """Attack the fleet with the configuration of the folder."""
    return main(["attack", DATA, "--config", "rase.toml", *arguments])


def refused(capsys: Shown, folder: Path, *arguments: str, exit_code: int) -> str:
    """Run a command that must fail well; return the one line it says."""
    before = sorted(folder.rglob("*"))
    assert main(["attack", *arguments]) == exit_code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("rase: error: ")
    assert shown.err.count("\n") == 1
    assert sorted(folder.rglob("*")) == before
    return shown.err


def test_table(capsys: Shown) -> None:
    """Each attack has a line with interval, chance, and what it achieves unprotected."""
    assert attacked("--attack", "bayes", "--attack", "mallows_aware") == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert lines[0].split()[:3] == ["attack", "recall", "low"]
    assert [line.split()[0] for line in lines[1:]] == ["bayes", "mallows_aware"]
    assert "mallows_aware names the right sender of" in shown.err
    assert "times chance" in shown.err


def test_a_table_in_another_dialect(capsys: Shown, folder: Path) -> None:
    """Tables are read as `rase run` reads them, and what was guessed is printed."""
    lines = [
        f"{1 + hour // 24:02}.01.2024 {hour % 24:02}:00;{name};{base + hour % 5},5"
        for hour in range(120)
        for name, base in (("a", 10), ("b", 50), ("c", 90))
    ]
    text = "\n".join(["Zeitstempel;Gerät;Messwert", *lines])
    (folder / "table.csv").write_text(text, encoding="utf-16")
    typed = ["attack", "table.csv", "--config", "rase.toml", "--attack", "bayes"]
    assert main([*typed, "--dates", "day-first"]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[1].startswith("bayes")
    assert "column 'Messwert' holds the readings." in shown.err


def test_document(capsys: Shown) -> None:
    """The JSON document says data, configuration and results; the same seed repeats it."""
    assert attacked("--attack", "bayes", "--json", "--seed", "3") == 0
    text = capsys.readouterr().out
    document = json.loads(text)
    assert document["schema"] == "rase.attack/1"
    assert document["configuration"]["shuffle"] == "mallows"
    (result,) = document["results"]
    assert result["low"] <= result["recall"] <= result["high"]
    assert result["chance"] == 1 / 16
    assert attacked("--attack", "bayes", "--json", "--seed", "3") == 0
    assert capsys.readouterr().out == text


def test_file(capsys: Shown) -> None:
    """Results go to a file too."""
    assert attacked("--attack", "bayes", "--out", "out.csv", "--arrival", "random") == 0
    capsys.readouterr()
    with Path("out.csv").open(newline="") as file:
        assert [row["attack"] for row in csv.DictReader(file)] == ["bayes"]
    assert attacked("--attack", "bayes", "--out", "out.json") == 0
    document = json.loads(Path("out.json").read_text())
    assert [row["attack"] for row in document["results"]] == ["bayes"]


@pytest.mark.uncovered
def test_usual_and_all_attacks(capsys: Shown) -> None:
    """Without --attack the usual ones run, with all every one."""
    short = ("--devices", "4", "--json")
    assert attacked(*short) == 0
    assert len(json.loads(capsys.readouterr().out)["results"]) == 7
    assert attacked(*short, "--attack", "all") == 0
    names = [row["attack"] for row in json.loads(capsys.readouterr().out)["results"]]
    assert tuple(names) == ATTACK_NAMES


def test_own_table(capsys: Shown) -> None:
    """A CSV of time, device and value is attacked as it is."""
    assert main(["attack", "own.csv", "--config", "rase.toml", "--attack", "slot", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["devices"], document["rounds"]) == (2, 9)


def test_nothing_found(capsys: Shown) -> None:
    """Where no attack beats chance, that is said."""
    Path("rase.toml").write_text("[campaign]\nlow = 0\nhigh = 1000\nepsilon = 0.01\n")
    assert attacked("--attack", "linkage", "--split", "time") == 0
    assert "no attack names senders better than blind guessing" in capsys.readouterr().err


@pytest.mark.uncovered
@pytest.mark.parametrize("shuffle", ["none", "uniform", "mallows", "robust", "paper"])
@pytest.mark.parametrize("mechanism", ["budget-aware", "hybrid"])
def test_every_shuffle_and_mechanism(shuffle: str, mechanism: str, capsys: Shown) -> None:
    """All that a configuration may name can be attacked."""
    Path("rase.toml").write_text(
        GOOD.replace("mallows", shuffle) + f'mechanism = "{mechanism}"\nbeta = 0.4\n'
    )
    assert attacked("--attack", "slot", "--json") == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert (result["recall"] == 1) == (shuffle == "none")


def test_campaign_files_will_do() -> None:
    """A campaign's own form is read: several budgets, a table of the shuffle, named groups."""
    Path("rase.toml").write_text(
        '[campaign]\nid = "street"\nwindow = 24\nlow = 0\nhigh = 10\nepsilon = [0.5, 2]\n'
        '[campaign.shuffle]\nmethod = "robust"\nalpha = 3\ngroups = ["north", "south"]\n'
    )
    configuration = read_configuration(Path("rase.toml"))
    assert (configuration.epsilon, configuration.shuffle) == (2.0, "robust")
    assert (configuration.alpha, configuration.groups) == (3.0, 2)


def test_all_mistakes_are_told(folder: Path, capsys: Shown) -> None:
    """Every mistake of a file is told at once, with exit code 3."""
    Path("rase.toml").write_text(
        '[campaign]\nlow = "zero"\nepsilon = [1, "two"]\nmechanism = "magic"\nbeta = 2\n'
        'steps = 1.5\nshuffle = "robust"\ncolour = "red"\n'
    )
    error = refused(capsys, folder, DATA, "--config", "rase.toml", exit_code=3)
    for mistake in (
        "colour is no key of [campaign].",
        "low must be a number, got 'zero'.",
        "high is missing.",
        "epsilon must be a number, got [1, 'two'].",
        "mechanism must be one of auto, budget-aware, ",
        "steps must be a whole number, got 1.5.",
        "shuffle robust needs alpha and groups.",
        "beta must be between 0 and 1, got 2.0.",
    ):
        assert mistake in error


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[campaign]\nlow = 9\nhigh = 1\nepsilon = 1\n", "low must be below high"),
        ("[campaign]\nlow = 0\nhigh = 1\nepsilon = -1\n", "epsilon must be"),
        (GOOD.replace("alpha = 30", "alpha = 0"), "alpha must be"),
        (GOOD.replace("groups = 2", "groups = 0"), "group_count must be"),
        ("low = 0\n", "there must be a table [campaign]."),
        ("[campaign\n", "rase.toml: "),
    ],
)
def test_bad_configurations(folder: Path, capsys: Shown, text: str, message: str) -> None:
    """A configuration that cannot be is refused with exit code 3."""
    Path("rase.toml").write_text(text)
    assert message in refused(capsys, folder, DATA, "--config", "rase.toml", exit_code=3)


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        ((DATA,), 2, "Missing option '--config'."),
        ((DATA, "--config", "none.toml"), 3, "none.toml: No such file or directory."),
        (("none.csv", "--config", "rase.toml"), 2, "none.csv"),
        ((DATA, "--config", "rase.toml", "--attack", "magic"), 2, "got 'magic'"),
        ((DATA, "--config", "rase.toml", "--devices", "1"), 2, "1 is not in the range"),
        (("own.csv", "--config", "rase.toml", "--devices", "9"), 2, "devices must be at most 2"),
        ((DATA, "--config", "rase.toml", "--every", "soon"), 2, "a duration must look like"),
        ((DATA, "--config", "rase.toml", "--out", "x.xls"), 2, "--out must end in"),
        (("own.csv", "--config", "rase.toml", "--out", "own.csv"), 2, "must be another file than"),
        (("fleet:1x9:1", "--config", "rase.toml"), 2, "two or more"),
        (("fleet:4x2:1", "--config", "rase.toml", "--attack", "profile"), 2, "needs at least 3"),
    ],
)
def test_bad_input(
    folder: Path, capsys: Shown, arguments: tuple[str, ...], exit_code: int, message: str
) -> None:
    """What cannot be attacked is refused in one line, and nothing is written."""
    assert message in refused(capsys, folder, *arguments, exit_code=exit_code)


def test_missing_packages(folder: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the packages of the lab one line says what to install."""
    monkeypatch.setitem(sys.modules, "rase.lab.datasets", None)
    error = refused(capsys, folder, DATA, "--config", "rase.toml", exit_code=1)
    assert 'pip install "rase-iot[lab]"' in error
