"""RESULTS.md and its picture: what all kept benchmarks measured, each ratio beside its target."""

import json
import textwrap
from pathlib import Path
from typing import Any

from benchmarks.harness import Target

__all__ = ["written"]

HEAD = """# Benchmarks

Written by `make bench`; each table answers one question. A ratio was measured in one run, both
sides in turn, the best of the repetitions counting. Times are of one machine: only ratios carry
over.
"""


def written(target: Path, kept: list[Path]) -> None:
    """Write the page, and the picture beside it when matplotlib is there."""
    parts = [json.loads(file.read_text(encoding="utf-8")) for file in kept]
    picture = target.with_suffix(".svg")
    shown = _drawn(picture, parts)
    text = HEAD + (f"\n![Ratio divided by target]({picture.name})\n" if shown else "")
    for file, part in zip(kept, parts, strict=True):
        text += f"\n## {file.stem}: {part['question']}\n\n{_table(part['rows'])}"
        text += f"\nMeasured on {part['machine']}.\n"
    target.write_text(text, encoding="utf-8")


def _table(rows: list[dict[str, Any]]) -> str:
    lines = ["| what | against | size | ratio | target | |", "|---|---|---|---|---|---|"]
    packages: list[str] = []
    for row in rows:
        limit = _target(row)
        goal = "" if limit is None else f"{limit.sense} {limit.limit:g}"
        verdict = "" if limit is None else "met" if limit.is_met(row["ratio"]) else "**missed**"
        cells = [row["what"], row["against"], row["size"], f"{row['ratio']:.3g}", goal, verdict]
        lines.append("| " + " | ".join(cells) + " |")
        packages += [package for package in row["packages"] if package not in packages]
    notes = [f"- {row['what']} ({row['size']}): {row['note']}" for row in rows if row["note"]]
    means = sorted({f"{row['means']}, best of {row['repeats']}" for row in rows})
    told = [f"Ratio: {'; '.join(means)}."]
    told += [f"Versions: {', '.join(packages)}."] if packages else []
    return "\n".join([*lines, "", *told, *(["", *notes] if notes else []), ""])


def _target(row: dict[str, Any]) -> Target | None:
    return Target(**row["target"]) if row["target"] else None


def _drawn(picture: Path, parts: list[dict[str, Any]]) -> bool:
    """Draw how far each ratio lies from its target: left of the line is better."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        return False
    bars = []
    for row in (row for part in parts for row in part["rows"]):
        target = _target(row)
        if target is None or row["ratio"] <= 0:
            continue
        share = row["ratio"] / target.limit
        name = f"{row['what']} / {row['against']}, {row['size']}"
        bars.append((name, share if target.sense == "at most" else 1 / share))
    if not bars:
        return False
    bars.reverse()
    with mpl.rc_context({"svg.hashsalt": "rase", "svg.fonttype": "none"}):
        # Long names go on two lines, so that the bars keep half of the width.
        names = [textwrap.fill(name, 70) for name, _ in bars]
        figure = Figure(figsize=(11, 1 + 0.34 * len(bars)), layout="constrained")
        axes = figure.add_subplot()
        colours = ["#0072B2" if share <= 1 else "#D55E00" for _, share in bars]
        # Places and not names, or bars of the same name would lie on one another.
        axes.barh(range(len(bars)), [share for _, share in bars], color=colours)
        axes.set_yticks(range(len(bars)), names)
        axes.set_ylim(-1, len(bars))
        axes.axvline(1, color="black", linewidth=1)
        axes.set_xscale("log")
        axes.tick_params(axis="y", labelsize=7)
        axes.set_xlabel("measured / allowed (left of the line: target met)")
        figure.savefig(picture, metadata={"Date": None})
    return True
