"""The sizing table of the guide: computed from what the benchmark kept, and nothing else."""

import json
from pathlib import Path

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
