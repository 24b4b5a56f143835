"""Write the standard errors in the docs from the planner: no such figure is typed by hand.

A page marks what is written for it as ``<!-- computed NAME -->…<!-- /computed -->``.

Usage: python scripts/accuracy_tables.py [--check]
"""

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from rase import Range, plan

__all__ = ["COMPUTED", "PAGES", "ROOT", "filled", "main", "standard_error"]

ROOT = Path(__file__).parents[1]
PAGES = (
    "docs/guides/choose-parameters.md",
    "docs/explain/compare.md",
    "docs/explain/limits.md",
    "docs/start/first-device.md",
)
_MARK = re.compile(r"(<!-- computed ([a-z0-9-]+) -->)(.*?)(<!-- /computed -->)", re.DOTALL)
_DEVICES = (64, 1_000, 10_000, 100_000)
_EPSILONS = (0.5, 1.0, 2.0, 4.0)
_POWER_W = 3000


@lru_cache
def standard_error(devices: int, epsilon: float) -> float:
    """Return the worst standard error of a round's mean by the default law, for a width of 1."""
    made = plan(Range(0, 1), epsilon, devices=devices, detail="quick")
    return made.error("unbiased_mean").round.noise


def _trusted(devices: int) -> float:
    """Return the error of Laplace noise that a trusted server adds once to a sum, at epsilon 1."""
    return math.sqrt(2) / devices


def _table() -> str:
    lines = [
        "| devices | " + " | ".join(f"ε = {epsilon:g}" for epsilon in _EPSILONS) + " |",
        "|---:|" + "---:|" * len(_EPSILONS),
    ]
    for devices in _DEVICES:
        errors = (_percent(standard_error(devices, epsilon)) for epsilon in _EPSILONS)
        lines.append(f"| {devices:,} | " + " | ".join(errors) + " |")
    # Between empty lines, which every reader of Markdown needs around a table.
    return "\n\n" + "\n".join(lines) + "\n\n"


def _percent(share: float) -> str:
    return f"{float(f'{100 * share:.2g}'):g} %"


def _watts(devices: int) -> str:
    return f"{_POWER_W * standard_error(devices, 1.0):.0f} W"


COMPUTED: Mapping[str, Callable[[], str]] = {
    "standard-errors": _table,
    "local-error": lambda: _percent(standard_error(1_000, 1.0)),
    "central-error": lambda: _percent(_trusted(1_000)),
    "local-over-central": lambda: f"{standard_error(1_000, 1.0) / _trusted(1_000):.0f} times",
    "small-fleet": lambda: _watts(64),
    "thousand-devices": lambda: _watts(1_000),
}


def filled(text: str) -> str:
    """Return a page with every marked figure computed again.

    Raises:
        KeyError: If a mark names nothing that is computed.
    """
    return _MARK.sub(lambda found: f"{found[1]}{COMPUTED[found[2]]()}{found[4]}", text)


def main(arguments: Sequence[str]) -> int:
    """Write the figures, or say which pages differ from what is computed."""
    different = []
    for name in PAGES:
        path = ROOT / name
        text = path.read_text("utf-8")
        if filled(text) != text:
            different.append(name)
            if "--check" not in arguments:
                path.write_text(filled(text), encoding="utf-8")
    if "--check" not in arguments:
        return 0
    for name in different:
        print(f"{name} differs: run scripts/accuracy_tables.py.")
    if not different:
        print("as computed.")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
