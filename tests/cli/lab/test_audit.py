"""``rase lab audit``: what it prints, keeps and refuses."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from rase.cli import main
from rase.kernels.words import Random
from rase.lab.audit import catalogue
from rase.lab.audit.subject import Cells, Subject

Shown = pytest.CaptureFixture[str]
QUICK = ("--samples", "2000", "--only", "duchi 1", "--only", "uniform, two")


def test_table_and_talk(capsys: Shown) -> None:
    """The table stands on stdout, the confidence of the whole on stderr."""
    assert main(["lab", "audit", *QUICK, "--seed", "1"]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0].split()[:4] == ["name", "kind", "claim", "delta"]
    assert "uniform, two exchanged" in shown.out
    assert "claims hold; all lower bounds together at confidence 99.9999 %." in shown.err


def test_without_a_seed_randomness_is_secure(capsys: Shown) -> None:
    """The document and the talk say so; one audit in a million may find a true claim broken."""
    assert main(["lab", "audit", *QUICK, "--json"]) in (0, 7)
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    assert (document["seed"], document["randomness"]) == (None, "secure")
    assert "seeded" not in shown.err


def test_json_and_file(tmp_path: Path, capsys: Shown) -> None:
    """The document says how to get it again; the file holds the same rows."""
    path = tmp_path / "audit.json"
    assert main(["lab", "audit", *QUICK, "--seed", "1", "--json", "--out", str(path)]) == 0
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    assert document["schema"] == "rase.lab.audit/1"
    assert document["command"] == (
        "rase lab audit --samples 2000 --only 'duchi 1' --only 'uniform, two' --seed 1"
    )
    assert (document["seed"], document["randomness"]) == (1, "seeded, for study")
    assert document["broken"] == 0
    assert json.loads(path.read_text())["results"] == document["results"]
    assert "seeded randomness: for study only." in shown.err


def test_fast_takes_a_hundredth(capsys: Shown) -> None:
    """The quick audit counts 100000 samples."""
    assert main(["lab", "audit", "--fast", "--only", "duchi 0.5", "--seed", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["samples"] == 100_000


def test_a_broken_claim_ends_with_seven(monkeypatch: pytest.MonkeyPatch, capsys: Shown) -> None:
    """The table is printed all the same, and the last line names what is broken."""

    def tells(is_second: bool, count: int, rng: Random) -> Cells:
        return np.full(count, int(is_second))

    broken = Subject("open book", "report", "a or b", 1.0, 2, tells)
    monkeypatch.setattr(catalogue, "subjects", lambda: [broken])
    assert main(["lab", "audit", "--samples", "1000"]) == 7
    shown = capsys.readouterr()
    assert "BROKEN" in shown.out
    assert "1 of 1 claims are broken: open book (" in shown.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--only", "none"),
            "only must be a kind (report, certificate, device, pair, order, law, channel, promise,",
        ),
        (("--samples", "10"), "10 is not in the range"),
        (("--seed", "-1"), "-1 is not in the range"),
        (("--out", "audit.txt"), "--out must end in"),
    ],
)
def test_bad_input(capsys: Shown, arguments: tuple[str, ...], message: str) -> None:
    """What cannot be audited is refused in one line."""
    assert main(["lab", "audit", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err


def test_missing_packages(capsys: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the packages of the lab one line says what to install."""
    monkeypatch.setitem(sys.modules, "rase.lab.audit.catalogue", None)
    assert main(["lab", "audit"]) == 1
    assert 'pip install "rase-iot[lab]"' in capsys.readouterr().err
