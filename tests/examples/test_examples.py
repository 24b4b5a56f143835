"""The examples run as their first lines say, each in an empty folder."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scripts.notebooks import NOTEBOOKS, outputs_of, page_of, text_of

EXAMPLES = Path(__file__).parents[2] / "examples"
SHOWN = {
    "mean_of_a_csv.py": "hour 47: ",
    "device_in_ten_lines.py": "measured 412 W, reported place ",
    "custom_source.py": "one reading as the agent would take it: [",
    "own_estimator.py": "median_of_means: 308 ± 10",
    "sweep_epsilon.py": "Picture: sweep.png",
}


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_an_example_runs_and_shows_what_it_promises(name: str, tmp_path: Path) -> None:
    """It ends well, warns of nothing, and prints its result."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert SHOWN[name] in ran.stdout


def test_the_list_names_every_example() -> None:
    """The README of the folder has a row for each file."""
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    files = [path.name for path in EXAMPLES.iterdir() if path.suffix in {".py", ".ipynb"}]
    assert [name for name in files if f"]({name})" not in text] == []


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_shows_what_it_gives(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every cell runs in order, and what comes out is what is stored."""
    monkeypatch.chdir(tmp_path)
    book = notebook(name)
    cells = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    drawn = 0
    for cell, found in zip(cells, outputs_of(book), strict=True):
        assert text_of(found) == text_of(cell["outputs"]), "run make notebooks"
        drawn += sum("image/png" in one.get("data", {}) for one in found)
        kinds = [one["output_type"] for one in cell["outputs"]]
        assert kinds == [one["output_type"] for one in found]
    assert drawn >= 1


def test_the_gallery_is_whole() -> None:
    """Every notebook is in it, none is large, and its texts point to what is there."""
    assert sorted(NOTEBOOKS) == sorted(path.stem for path in EXAMPLES.glob("*.ipynb"))
    for name in NOTEBOOKS:
        assert (EXAMPLES / f"{name}.ipynb").stat().st_size < 200_000
        cells = notebook(name)["cells"]
        texts = "".join("".join(one["source"]) for one in cells if one["cell_type"] == "markdown")
        links = re.findall(r"\]\(([^)#:]+)\)", texts)
        assert links
        assert [link for link in links if not (EXAMPLES / link).exists()] == []
        assert "Next: [" in texts.splitlines()[-1] or "Next: [" in texts.splitlines()[-2]
        page, pictures = page_of(notebook(name), name)
        assert pictures
        assert all(f"]({file})" in page for file in pictures)
        assert ".ipynb)" not in page


def notebook(name: str) -> dict[str, Any]:
    """Return a notebook."""
    path = EXAMPLES / f"{name}.ipynb"
    book: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return book
