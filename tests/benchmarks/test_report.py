"""RESULTS.md and its picture, written from rows that were kept."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from benchmarks.harness import Row, Target
from benchmarks.report import written

ROWS = [
    Row("sampler", "numpy", "1e6", 0.3, target=Target("at most", 0.4), packages=("numpy 2",)),
    Row("sampler", "numba", "1e6", 0.9, target=Target("at most", 0.4), note="It is compiled."),
    Row("opening", "bare", "1e4", 0.9, target=Target("at least", 0.85), packages=("numpy 2",)),
    Row("opening", "other", "1e4", 2.0, means="our epsilon / its epsilon"),
]


@pytest.fixture
def kept(tmp_path: Path) -> list[Path]:
    """Two benchmarks as they are kept, the second without a target."""
    files = []
    for name, rows in (("first", ROWS), ("second", ROWS[3:])):
        document = {
            "question": f"Is {name} fast?",
            "machine": "a processor",
            "rows": [asdict(row) for row in rows],
        }
        files.append(tmp_path / f"{name}.json")
        files[-1].write_text(json.dumps(document), encoding="utf-8")
    return files


def test_every_row_stands_beside_its_target(kept: list[Path], tmp_path: Path) -> None:
    """A ratio is met, missed or without a target, and the page says which."""
    page = tmp_path / "RESULTS.md"
    written(page, kept)
    lines = page.read_text(encoding="utf-8").splitlines()
    assert "## first: Is first fast?" in lines
    assert "| sampler | numpy | 1e6 | 0.3 | at most 0.4 | met |" in lines
    assert "| sampler | numba | 1e6 | 0.9 | at most 0.4 | **missed** |" in lines
    assert "| opening | bare | 1e4 | 0.9 | at least 0.85 | met |" in lines
    assert lines.count("| opening | other | 1e4 | 2 |  |  |") == 2
    assert "- sampler (1e6): It is compiled." in lines
    assert "Versions: numpy 2." in lines
    means = "Ratio: our epsilon / its epsilon, best of 1; our time / its time, best of 1."
    assert means in lines
    assert lines.count("Measured on a processor.") == 2
    assert lines.index("## first: Is first fast?") < lines.index("## second: Is second fast?")


@pytest.mark.uncovered
def test_what_is_written_twice_is_the_same(kept: list[Path], tmp_path: Path) -> None:
    """Page and picture depend on the rows alone, so a repeated run leaves no difference."""
    found = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        page = tmp_path / folder / "RESULTS.md"
        written(page, kept)
        found.append((page.read_bytes(), page.with_suffix(".svg").read_bytes()))
    assert found[0] == found[1]


def test_the_picture_has_a_bar_for_each_target(kept: list[Path], tmp_path: Path) -> None:
    """Rows without a target have none; rows that differ in their peer alone have one each."""
    page = tmp_path / "RESULTS.md"
    written(page, kept)
    picture = page.with_suffix(".svg").read_text(encoding="utf-8")
    assert "![Ratio divided by target](RESULTS.svg)" in page.read_text(encoding="utf-8")
    for name in ("sampler / numpy, 1e6", "sampler / numba, 1e6", "opening / bare, 1e4"):
        assert name in picture
    assert "opening / other" not in picture
    # Met blue, missed orange.
    assert picture.count("#0072b2") == 2
    assert picture.count("#d55e00") == 1


def test_without_targets_there_is_no_picture(kept: list[Path], tmp_path: Path) -> None:
    """The page does not show what was not drawn."""
    page = tmp_path / "RESULTS.md"
    written(page, kept[1:])
    assert "![" not in page.read_text(encoding="utf-8")
    assert not page.with_suffix(".svg").exists()


def test_without_matplotlib_there_is_a_page(
    kept: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The picture is an extra."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = tmp_path / "RESULTS.md"
    written(page, kept)
    assert "| sampler | numpy |" in page.read_text(encoding="utf-8")
    assert "![" not in page.read_text(encoding="utf-8")
