"""Write tables, picture and counts of docs/explain/accuracy.md from what benchmarks kept.

Usage: python scripts/accuracy_page.py [--check]
"""

import importlib
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["KEPT", "PAGE", "Cell", "cells", "counts", "filled", "main", "renewed", "table"]

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "benchmarks/results/accuracy.json"
PAGE = ROOT / "docs/explain/accuracy.md"
FIGURE = ROOT / "docs/explain/figures/accuracy.png"
_HEAD = """\
| data | ε | `tracked` | unbiased mean | paper | constant | paper / `tracked` | skill | \
forecast skill (at least) | covered | forecast error |
|---|---|---|---|---|---|---|---|---|---|---|
"""
_TABLE = re.compile(re.escape(_HEAD) + r"(?:\|.*\n)*")
_COUNTS = re.compile(r"(?<=\n## In numbers\n\n)(?:[-\s].*\n)+?(?=\n## )")
# Benchmarks that make a table of their own out of what they kept.
_TABLES = ("coverage", "together", "windows", "ranges", "distribution", "aggregates", "answers")
# Rows may be kept under the name that the estimator had when they were measured.
_NAMES = {"auto": "tracked"}
_WISHED = (0.92, 0.98)
_NEAR = 1.15
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class Cell:
    """Hold what was measured on one slice at one epsilon.

    Args:
        data: The slice.
        epsilon: The budget of a report.
        rmse: Root mean square errors by estimator.
        skill: The constant's error over that of ``tracked``.
        foretold_skill: What was foretold of it, and its lower end.
        covered: The share of 95 % intervals that held the truth.
        foretold: The foretold error.
    """

    data: str
    epsilon: float
    rmse: dict[str, float]
    skill: float
    foretold_skill: tuple[float, float]
    covered: float
    foretold: float

    @property
    def paper(self) -> float:
        """The better of the paper's estimators."""
        return min(self.rmse["sample_mean"], self.rmse["median"])


def main(arguments: Sequence[str]) -> int:
    """Write table, counts and picture, or say whether the page is as it must be."""
    found = cells(json.loads(KEPT.read_text("utf-8"))["rows"])
    text = PAGE.read_text("utf-8")
    if "--check" in arguments:
        is_same = renewed(text, found) == text
        print("as measured." if is_same else "differs: run scripts/accuracy_page.py.")
        return 0 if is_same else 1
    PAGE.write_text(filled(renewed(text, found)), encoding="utf-8")
    FIGURE.write_bytes(_picture(found))
    return 0


def cells(rows: Sequence[dict[str, str | float]]) -> list[Cell]:
    """Return the cells that the rows of the benchmark tell, four rows a cell."""
    found = []
    for place in range(0, len(rows), 4):
        nearer, skill, covered, foretold = rows[place : place + 4]
        data, epsilon = str(nearer["size"]).rsplit(", ", 1)[0].split(", epsilon ")
        pairs = str(nearer["note"]).removeprefix("RMSE: ").split(", ")
        told, least = _numbers(skill)[:2]
        found.append(
            Cell(
                data,
                float(epsilon),
                {_NAMES.get(name, name): float(value) for name, value in map(str.split, pairs)},
                float(skill["ratio"]),
                (told, least),
                _numbers(covered)[0],
                _numbers(foretold)[0],
            )
        )
    return found


def renewed(text: str, found: Sequence[Cell]) -> str:
    """Return the page with the table and the counts of these cells."""
    return _COUNTS.sub(lambda _: counts(found), _TABLE.sub(lambda _: table(found), text))


def filled(text: str) -> str:
    """Return the page with the tables that other benchmarks make, each below its own head."""
    for name in _TABLES:
        benchmark, kept = _benchmark(name), _kept(name)
        several = getattr(benchmark, "tables", None)
        for lines in [benchmark.table(kept)] if several is None else several(kept):
            start = text.index(lines[0])
            text = text[:start] + "\n".join(lines) + text[text.index("\n\n", start) :]
    return text


def table(found: Sequence[Cell]) -> str:
    """Return the table, one cell a line."""
    lines = []
    for one in found:
        told, least = one.foretold_skill
        errors = (one.rmse["tracked"], one.rmse["unbiased_mean"], one.paper, one.rmse["history"])
        lines.append(
            f"| {one.data} | {one.epsilon:g} | {' | '.join(map(_short, errors))} | "
            f"{one.paper / one.rmse['tracked']:.1f} | {one.skill:.2f} | {told:.2f} ({least:.2f}) | "
            f"{100 * one.covered:.1f} % | {_short(one.foretold)} |\n"
        )
    return _HEAD + "".join(lines)


def counts(found: Sequence[Cell]) -> str:
    """Return in sentences how often each wish was met, and where it was not."""
    nearer = [one.paper / one.rmse["tracked"] for one in found]
    twice = [ratio for one, ratio in zip(found, nearer, strict=True) if 0.5 <= one.epsilon <= 2]
    promised = [one for one in found if one.foretold_skill[1] > 1]
    kept = [one for one in promised if one.skill > 1]
    others = [one for one in found if one.skill > 1 and one not in promised]
    worst = min(found, key=lambda one: one.skill)
    far = [one for one in found if not 1 / _NEAR <= one.foretold / one.rmse["tracked"] <= _NEAR]
    outside = [one for one in found if not _WISHED[0] <= one.covered <= _WISHED[1]]
    names = list(dict.fromkeys(one.data for one in found))
    means = {
        name: sum(one.covered for one in found if one.data == name)
        / sum(one.data == name for one in found)
        for name in names
    }
    lines = (
        (
            f"Nearer than the best of the paper's estimators: {min(twice):.1f} to {max(twice):.1f} "
            f"times at ε of 0.5, 1 and 2, {min(nearer):.1f} times or more at every ε."
        ),
        (
            f"Skill above 1 promised in {len(promised)} of {len(found)} rows, kept in {len(kept)} "
            f"of them; above 1 in {len(others)} others. Worst: {worst.skill:.2f} "
            f"({_place(worst)})."
        ),
        f"Errors forecast from these same readings, with other noise: within 15 % in "
        f"{len(found) - len(far)} of {len(found)} rows"
        + _but(far, lambda one: f"{100 * (one.foretold / one.rmse['tracked'] - 1):+.0f} %")
        + " This shows that the trials are right, not that other days are like these.",
        _benchmark("halves").sentence(_kept("halves")),
        f"Intervals at 95 % held the truth in 92 to 98 % of the rounds in "
        f"{len(found) - len(outside)} of {len(found)} rows"
        + _but(outside, lambda one: f"{100 * one.covered:.1f} %"),
        "Averaged over ε they held it in "
        + ", ".join(f"{100 * share:.1f} % ({name})" for name, share in means.items())
        + ".",
    )
    return "".join(f"- {line}\n" for line in lines)


def _benchmark(name: str) -> Any:
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return importlib.import_module(f"benchmarks.{name}")


def _kept(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((KEPT.parent / f"{name}.json").read_text("utf-8"))[
        "rows"
    ]
    return rows


def _but(some: Sequence[Cell], told: Callable[[Cell], str]) -> str:
    rest = ", ".join(f"{_place(one)}: {told(one)}" for one in some)
    return f"; not in {rest}." if rest else "."


def _place(one: Cell) -> str:
    return f"{one.data} at {one.epsilon:g}"


def _numbers(row: dict[str, str | float]) -> list[float]:
    return [float(number) for number in _NUMBER.findall(str(row["note"]))]


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def _picture(found: Sequence[Cell]) -> bytes:
    # Here, because the table can be checked where nothing is installed to draw with.
    from rase.lab.pictures import Chart, Level, Line, Picture
    from rase.lab.plots import draw_picture

    def chart(data: str) -> Chart:
        some = [one for one in found if one.data == data]
        budgets = [one.epsilon for one in some]

        def line(label: str, look: str, errors: list[float]) -> Line:
            is_constant = look == "history"
            return Line(
                label, budgets, errors, look=look, style="dashed" if is_constant else "solid"
            )

        return Chart(
            data,
            "epsilon of a report",
            "RMSE of a round",
            (
                line("tracked", "tracked", [one.rmse["tracked"] for one in some]),
                line("unbiased mean", "unbiased_mean", [one.rmse["unbiased_mean"] for one in some]),
                line("best of the paper", "sample_mean", [one.paper for one in some]),
                line("constant", "history", [one.rmse["history"] for one in some]),
            ),
            x_scale="log",
            y_scale="log",
        )

    names = list(dict.fromkeys(one.data for one in found))
    budgets = sorted({one.epsilon for one in found})
    covered = Chart(
        "Intervals at 95 %",
        "epsilon of a report",
        "share that held the truth",
        tuple(
            Line(name, budgets, [one.covered for one in found if one.data == name])
            for name in names
        ),
        levels=(Level(0.92, "92 and 98 %"), Level(0.98, "92 and 98 %")),
        x_scale="log",
        y_limits=(0.88, 1.005),
    )
    charts = (*map(chart, names), covered)
    return draw_picture(Picture(charts, columns=3, chart_size=(4.2, 3.2)))[1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
