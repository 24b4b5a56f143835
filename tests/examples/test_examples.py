"""The examples run as their first lines say, each in an empty folder."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SHOWN = {
    "mean_of_a_csv.py": "hour 47: ",
    "device_in_ten_lines.py": "measured 412 W, reported place ",
    "custom_source.py": "one reading as the agent would take it: [",
    "own_estimator.py": "median_of_means: 297 ± 14",
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
