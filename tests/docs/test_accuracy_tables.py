"""Standard errors on the pages are those that the planner computes for the default law."""

import re
from pathlib import Path

import pytest
from scripts import accuracy_tables
from scripts.accuracy_tables import COMPUTED, PAGES, ROOT, filled, main

from rase.domain import Range
from rase.laws.registry import auto

PAGE = "docs/guides/choose-parameters.md"


def test_the_pages_are_as_computed(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody typed a figure: each page equals what the script writes, and each figure is used."""
    assert main(["--check"]) == 0
    assert capsys.readouterr().out == "as computed.\n"
    texts = "".join((ROOT / name).read_text("utf-8") for name in PAGES)
    for name in COMPUTED:
        assert f"<!-- computed {name} -->" in texts, name


def test_a_typed_figure_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A page with another number fails the check, and is corrected by the script."""
    right = (ROOT / PAGE).read_text("utf-8")
    wrong = right.replace("| 1,000 | ", "| 1,000 | 7 % | ", 1)
    assert wrong != right
    (tmp_path / PAGE).parent.mkdir(parents=True)
    (tmp_path / PAGE).write_text(wrong, "utf-8")
    monkeypatch.setattr(accuracy_tables, "ROOT", tmp_path)
    monkeypatch.setattr(accuracy_tables, "PAGES", (PAGE,))
    assert main(["--check"]) == 1
    assert f"{PAGE} differs" in capsys.readouterr().out
    assert main([]) == 0
    assert (tmp_path / PAGE).read_text("utf-8") == right


def test_the_table_is_that_of_the_law_itself() -> None:
    """Each cell is the worst variance of a decoded report, over the devices, under a root."""
    text = (ROOT / PAGE).read_text("utf-8")
    rows = re.findall(r"^\| ([\d,]+) \| (.*?) % \| (.*?) % \| (.*?) % \| (.*?) % \|$", text, re.M)
    assert len(rows) == 4
    for devices, *cells in rows:
        for epsilon, cell in zip((0.5, 1.0, 2.0, 4.0), cells, strict=True):
            law = auto(epsilon, Range(0, 1))
            worst = max(float(law.variance(place / 64)) for place in range(65))
            error = 100 * (worst / int(devices.replace(",", ""))) ** 0.5
            assert float(cell) == pytest.approx(error, rel=0.05)


def test_an_unknown_mark_is_refused() -> None:
    """A mark that nothing is computed for is a mistake of the page."""
    with pytest.raises(KeyError):
        filled("<!-- computed nothing -->1<!-- /computed -->")
