"""Measure the house: size, shape, the ways of `rase run` and a live round, homes of an idea.

Usage: python scripts/measure_house.py [--check] [--json]

Limits and ideas are in scripts/house.toml. With --check only what is over its limit is printed, and
the exit code is 1 if there is any. Limits go down with the house, never up without a reason in the
commit.
"""

import argparse
import json
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.house.additions import AGGREGATE, LAW
from scripts.house.code import Module, lonely, modules_of, rooms_of, shape_of
from scripts.house.concepts import concepts_of, problems
from scripts.house.language import find_banned, participles, pending_problems, words_of
from scripts.house.way import forwards, way_of_round, way_of_run

__all__ = ["language", "main", "measures", "over"]

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src/rase"
LIMITS = ROOT / "scripts/house.toml"
WORDS = ROOT / "scripts/words.toml"


def main(arguments: Sequence[str]) -> int:
    """Print what was measured, or what is over its limit; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python scripts/measure_house.py", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--check", action="store_true", help="print only what is over its limit")
    parser.add_argument("--json", action="store_true", help="print all as JSON")
    options = parser.parse_args(arguments)
    asked = tomllib.loads(LIMITS.read_text(encoding="utf-8"))
    modules = modules_of(SOURCE)
    listed = tomllib.loads(WORDS.read_text(encoding="utf-8"))
    found = measures(SOURCE, modules, asked["concepts"]) | language(ROOT, modules, listed)
    wrong = over(found, asked["limits"])
    if options.json:
        print(json.dumps({**found, "over": wrong}, indent=1))
    elif options.check:
        print("\n".join(wrong) or "the house is within its limits.")
    else:
        print("\n".join(_page(found, asked)))
    return 1 if options.check and wrong else 0


def measures(
    source: Path, modules: Sequence[Module], concepts: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return every measure of a source tree, by name."""
    shape = shape_of(modules)
    way, live = way_of_run(source), way_of_round(source)
    listed = concepts_of(concepts)
    return {
        "rooms": [asdict(room) for room in rooms_of(modules)],
        "lines": sum(module.lines for module in modules),
        "statements": sum(module.statements for module in modules),
        **asdict(shape),
        "lonely_modules": lonely(modules),
        "run_functions": len(way.functions),
        "run_files": way.files,
        "round_functions": len(live.functions),
        "round_files": live.files,
        "forwards": [*forwards(source, way), *forwards(source, live)],
        "law_files": LAW.files,
        "aggregate_files": AGGREGATE.files,
        "concepts": {one.name: len(one.homes) for one in listed},
        "concept_problems": list(problems(listed, modules)),
    }


def language(root: Path, modules: Sequence[Module], listed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the measures of the language: banned words, and names that are bare participles."""
    banned = list(find_banned(root, words_of(listed["words"])))
    return {
        "banned_words": len(banned),
        "participle_share": len(participles(modules)) / max(shape_of(modules).functions, 1),
        "language_problems": list(pending_problems(banned, listed.get("pending", {}))),
    }


def over(found: Mapping[str, Any], limits: Mapping[str, float]) -> list[str]:
    """Return a sentence for each measure that is over its limit."""
    wrong = [*found["concept_problems"], *found.get("language_problems", ())]
    for name, limit in limits.items():
        value = found[name]
        number = len(value) if isinstance(value, list | tuple) else value
        if number > limit:
            wrong.append(f"{name} must be at most {limit:g}, got {number:g}.")
    return wrong


def _page(found: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
    lines = [f"{'room':12} {'files':>6} {'lines':>7} {'statements':>11}"]
    lines += [
        f"{room['name']:12} {room['files']:6} {room['lines']:7} {room['statements']:11}"
        for room in found["rooms"]
    ]
    lines.append("")
    goals = asked["goals"]
    for name, limit in asked["limits"].items():
        value = found[name]
        number = len(value) if isinstance(value, list | tuple) else value
        goal = f", goal {goals[name]:g}" if name in goals else ""
        lines.append(f"{name:22} {number:10.4g}   limit {limit:g}{goal}")
    lines += ["", "Implementations of an idea (the goal is one):"]
    lines += [f"{count:4}  {name}" for name, count in found["concepts"].items()]
    return [*lines, *found["concept_problems"], *found["language_problems"]]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
