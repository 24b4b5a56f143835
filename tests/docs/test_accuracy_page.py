"""The table of the page on accuracy is what the benchmark kept, and nothing typed by hand."""

import json
import runpy
from pathlib import Path

import pytest

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts/accuracy_page.py"))


def test_the_table_is_as_measured() -> None:
    """The page holds a line for each of the 30 cells, with the numbers that were kept."""
    found = SCRIPT["cells"](json.loads(SCRIPT["KEPT"].read_text("utf-8"))["rows"])
    page = SCRIPT["PAGE"].read_text("utf-8")
    assert len(found) == 30
    assert SCRIPT["table"](found) in page
    assert SCRIPT["renewed"](page, found) == page


def test_another_number_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    """A page with one digit changed differs from the one that would be written."""
    found = SCRIPT["cells"](json.loads(SCRIPT["KEPT"].read_text("utf-8"))["rows"])
    page = SCRIPT["PAGE"].read_text("utf-8")
    line = SCRIPT["table"](found).splitlines()[2]
    assert SCRIPT["renewed"](page.replace(line, line.replace("REFIT", "Other")), found) == page
    assert SCRIPT["main"](["--check"]) == 0
    assert "as measured" in capsys.readouterr().out


def test_tables_of_other_benchmarks_are_written_too() -> None:
    """A number that somebody typed into one of them is taken back."""
    page = SCRIPT["PAGE"].read_text("utf-8")
    assert SCRIPT["filled"](page) == page
    row = "| Swiss households | 0.5 | "
    assert page.count(row) == 3
    assert SCRIPT["filled"](page.replace(row, f"{row}9")).count(f"{row}9") == 2
