"""The examples run as their first lines say, each in an empty folder."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

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


def test_the_notebook_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every cell runs in order, unseen; what it tells of the fleet is what its texts say."""
    from matplotlib import pyplot as plt

    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    cells = [cell for cell in notebook()["cells"] if cell["cell_type"] == "code"]
    for cell in cells:
        exec(compile("".join(cell["source"]), "cell", "exec"), names)  # noqa: S102 - our own
        assert cell["outputs"] == [], "outputs are not stored: they would be read as results"
    told = capsys.readouterr().out
    assert len(cells) >= 8
    assert "1-LDP per report" in told
    alone, followed = re.findall(r": (\d+) of 72 hours, (\d+) W wide", told)
    assert int(alone[0]) >= 60
    assert int(followed[1]) < int(alone[1])
    assert len(plt.get_fignums()) == 2
    plt.close("all")


def test_links_of_the_notebook_lead_somewhere() -> None:
    """Its texts point to pages that exist."""
    texts = "".join(
        "".join(cell["source"]) for cell in notebook()["cells"] if cell["cell_type"] == "markdown"
    )
    links = re.findall(r"\]\(([^)#:]+)\)", texts)
    assert links
    assert [link for link in links if not (EXAMPLES / link).exists()] == []


def notebook() -> dict[str, Any]:
    """Return the notebook."""
    path = EXAMPLES / "privacy_against_error.ipynb"
    book: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return book
