"""The sizing table of the guide: computed from what the benchmark kept, and nothing else."""

import json
import shutil
from pathlib import Path

import pytest
from benchmarks.sizing import fill_guides

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs/guides/laptop-to-cluster.md"
PRICE = 0.05


def sizing() -> list[str]:
    """Return the lines of the table, from the kept results of benchmarks/batch.py."""
    kept = json.loads((ROOT / "benchmarks/results/batch.json").read_text(encoding="utf-8"))
    growth = next(row for row in kept["rows"] if row["what"].startswith("CPU time at"))
    memory = next(row for row in kept["rows"] if row["against"] == "1 GB")
    per_row_s = growth["ours_s"] / 1e8
    lines = []
    for rows, named in ((1e7, "10 million"), (1e9, "1 billion"), (1.44e10, "14.4 billion")):
        spent_s = per_row_s * rows
        cost = PRICE * spent_s / 3600
        lines.append(f"| {named} | {_time(spent_s)} | {memory['ratio']:.1f} GB | {cost:.5f} |")
    return lines


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def test_the_guide_states_what_was_measured() -> None:
    """Times, memory and cost of the guide are those of the kept benchmark."""
    text = GUIDE.read_text(encoding="utf-8")
    table = text.partition("<!-- sizing -->")[2].partition("<!-- /sizing -->")[0]
    assert [line for line in table.splitlines() if line.startswith("|")][2:] == sizing()


@pytest.mark.parametrize(("name", "kept"), [("laptop-to-cluster", "batch"), ("spark", "spark")])
def test_the_guides_are_as_the_benchmarks_fill_them(name: str, kept: str, tmp_path: Path) -> None:
    """Filled in anew from the kept results no guide changes; without results it is left alone."""
    page = tmp_path / f"{name}.md"
    shutil.copy(ROOT / f"docs/guides/{name}.md", page)
    expected = page.read_text(encoding="utf-8")
    head, mark, rest = expected.partition("<!-- /sizing -->")
    assert mark
    old = f"{head}| an old figure |\n{mark}{rest}"
    page.write_text(old, encoding="utf-8")
    fill_guides(tmp_path, ROOT / "benchmarks/results")
    is_measured = (ROOT / f"benchmarks/results/{kept}.json").exists()
    assert page.read_text(encoding="utf-8") == (expected if is_measured else old)


def test_shares_of_spark(tmp_path: Path) -> None:
    """The table of Spark tells each ratio with what was divided, in place of what stood there."""
    row = {
        "what": "Spark", "against": "local", "size": "1e+08 rows", "ratio": 3.04,
        "means": "its CPU time / local's", "ours_s": 60.8, "theirs_s": 20.0, "note": "on wheels",
    }  # fmt: skip
    (tmp_path / "spark.json").write_text(json.dumps({"rows": [row]}), encoding="utf-8")
    page = tmp_path / "spark.md"
    page.write_text("a\n<!-- sizing -->\nold\n<!-- /sizing -->\nz\n", encoding="utf-8")
    fill_guides(tmp_path, tmp_path)
    told = "its CPU time / local's: 60.8 s and 20.0 s; on wheels"
    expected = f"| Spark | local | 1e+08 | 3.0 | {told} |"
    text = page.read_text(encoding="utf-8")
    assert expected in text.splitlines()
    assert "old" not in text
    assert text.startswith("a\n<!-- sizing -->\n\n| what ")
    assert text.endswith("|\n\n<!-- /sizing -->\nz\n")
