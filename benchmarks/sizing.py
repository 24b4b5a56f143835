"""The sizing tables of the guides: times, memory and cost, filled in from what was kept."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["PRICE", "fill_guides"]

PRICE = 0.05
"""What a core costs for an hour, as plain machines do in clouds."""

_SIZES = ((1e7, "10 million"), (1e9, "1 billion"), (1.44e10, "14.4 billion"))


def fill_guides(guides: Path, kept: Path) -> None:
    """Write the tables between their marks anew, for each file of results that is there.

    Args:
        guides: The folder of the guides.
        kept: The folder of the kept results.
    """
    tables: dict[str, tuple[str, Callable[[list[dict[str, Any]]], list[str]]]] = {
        "batch": ("laptop-to-cluster", _sizing),
        "spark": ("spark", _shares),
    }
    for name, (guide, table) in tables.items():
        results, page = kept / f"{name}.json", guides / f"{guide}.md"
        if not results.exists() or not page.exists():
            continue
        lines = table(json.loads(results.read_text(encoding="utf-8"))["rows"])
        before, _, rest = page.read_text(encoding="utf-8").partition("<!-- sizing -->")
        after = rest.partition("<!-- /sizing -->")[2]
        marked = "\n".join(["<!-- sizing -->", "", *lines, "", "<!-- /sizing -->"])
        page.write_text(before + marked + after, encoding="utf-8")


def _sizing(rows: list[dict[str, Any]]) -> list[str]:
    """Scale the largest table that was measured to others: CPU time grows with the rows."""
    growth = next(row for row in rows if row["what"].startswith("CPU time at"))
    memory = next(row for row in rows if row["against"] == "1 GB")
    lines = ["| rows | CPU time | memory, two threads | cost |", "|---|---|---|---|"]
    for count, named in _SIZES:
        spent_s = growth["ours_s"] / 1e8 * count
        cost = PRICE * spent_s / 3600
        lines.append(f"| {named} | {_time(spent_s)} | {memory['ratio']:.1f} GB | {cost:.5f} |")
    return lines


def _shares(rows: list[dict[str, Any]]) -> list[str]:
    lines = ["| what | against | rows | ratio | |", "|---|---|---|---|---|"]
    for row in rows:
        told = f"{row['means']}: {row['ours_s']:.1f} s and {row['theirs_s']:.1f} s; {row['note']}"
        size = row["size"].removesuffix(" rows")
        lines.append(f"| {row['what']} | {row['against']} | {size} | {row['ratio']:.1f} | {told} |")
    return lines


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
