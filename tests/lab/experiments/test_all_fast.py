"""All experiments on the synthetic fleet: the claims that are true, and the departures."""

import json
from pathlib import Path
from typing import Any

import pytest

from rase.cli import main
from rase.lab.experiments.registry import EXPERIMENTS

# What an issue of the paper's own claims would need: these must be among the checks.
ORDERINGS = {
    "fig5": ("raw is far above BR", "BR is above every shuffled scheme"),
    "fig6a": ("raw falls with n", "BR falls with n"),
    "fig6b": ("BR rises with epsilon",),
    "fig7": ("falls with epsilon",),
    "equal-epsilon": ("laplace falls with epsilon",),
}
DEPARTURES = {
    "switch-off": "more than 95 % keep",
    "bias-cliff": "falls off a cliff",
    "composition": "tell devices apart",
    "stronger": "beats chance against Mallows",
    "fig6d": "Where Algorithm 2 takes its Mallows branch",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of ``rase lab run all --fast``, which must end with exit code 0."""
    out = tmp_path_factory.mktemp("lab") / "out"
    assert main(["lab", "run", "all", "--fast", "--out", str(out)]) == 0
    return out


def study(folder: Path, name: str) -> dict[str, Any]:
    """Return a study as its file tells it."""
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return found


def test_every_claim_holds(folder: Path) -> None:
    """All claims of all experiments hold, and each experiment has some."""
    for name in EXPERIMENTS:
        checks = study(folder, name)["checks"]
        assert checks
        assert [check["claim"] for check in checks if not check["holds"]] == []


@pytest.mark.parametrize("name", ORDERINGS)
def test_orderings_are_checked(folder: Path, name: str) -> None:
    """The orderings of the paper that are true are among the claims that were checked."""
    claims = [check["claim"] for check in study(folder, name)["checks"]]
    for words in ORDERINGS[name]:
        assert any(words in claim for claim in claims)


@pytest.mark.parametrize("name", DEPARTURES)
def test_departures_are_checked(folder: Path, name: str) -> None:
    """What the paper would deny is checked too, and marked."""
    claims = [check["claim"] for check in study(folder, name)["checks"] if check["is_departure"]]
    assert any(DEPARTURES[name] in claim for claim in claims)


def test_profile_ordering_in_numbers(folder: Path) -> None:
    """Under profile the interval of raw lies above that of BR, and that above all shuffled ones."""
    rows = {
        row["scheme"]: row
        for row in study(folder, "fig5")["rows"]
        if row["attack"] == "profile" and row["device"] == "all"
    }
    assert rows["raw"]["recall_low"] > rows["br"]["recall_high"]
    for scheme in ("br-mallows", "laplace-fisher", "rase-paper", "best"):
        assert rows["br"]["recall_low"] > rows[scheme]["recall_high"]


def test_paper_numbers_come_out(folder: Path) -> None:
    """Fig. 7 and 8 come out near the paper's numbers, each under its own range."""
    average = {
        row["epsilon"]: row["average"]
        for row in study(folder, "fig7")["rows"]
        if row["estimator"] == "sample_mean"
    }
    assert 1100 < average[0.1] < 1400  # the paper: 1216.4
    assert 40 < average[9.0] < 75  # the paper: 60.9
    square = {row["epsilon"]: row["average"] for row in study(folder, "fig8")["rows"]}
    assert 1.6e6 < square[0.1] < 1.75e6  # the paper: 1.7e6
    assert 0.2e6 < square[9.0] < 0.6e6  # the paper: 0.3e6


def test_aware_attacker_in_numbers(folder: Path) -> None:
    """Knowing centre and theta names two fifths at k = 8 and a twelfth at k = 4, at any noise."""
    recall = {
        (row["target"], row["epsilon"]): row["recall_percent"]
        for row in study(folder, "stronger")["rows"]
        if row["attack"] == "mallows_aware"
    }
    for epsilon in (0.1, 1.0):
        assert 36 < recall["Mallows, k = 8", epsilon] < 47
        assert 6 < recall["Mallows, k = 4", epsilon] < 13
    assert recall["uniform, BR", 0.1] < 2.5


def test_everything_is_written(folder: Path) -> None:
    """Report, and for each experiment table, picture and study, all whole."""
    names = {file.name for file in folder.iterdir()}
    for name in EXPERIMENTS:
        assert {f"{name}.{ending}" for ending in ("csv", "json", "png", "svg")} <= names
    assert not list(folder.rglob("*.part"))
    assert (folder / "report.html").stat().st_size < 3e6
    assert main(["lab", "report", "--out", str(folder)]) == 0
