"""Say which tests were skipped, why, and how to get what they need.

Each run of pytest adds its own lines to one file (tests/conftest.py), and scripts/suite.py prints
their sum. The file need not exist: then nothing was skipped.
"""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

# Of a program of tests/programs.py.
ABSENT = "is not installed"
ALL = "On Debian .ci/setup gets all programs, as root."
UNGATED = "Without them coverage was measured, but only that of the mathematics had to be complete."


def add(path: Path, reasons: Mapping[str, int]) -> None:
    """Add what one run of pytest skipped to the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        for reason, tests in reasons.items():
            file.write(json.dumps({"reason": reason, "tests": tests}) + "\n")


def read(path: Path) -> "Counter[str]":
    """Return how many tests were skipped for each reason, over all runs in the file."""
    found: Counter[str] = Counter()
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            found[entry["reason"]] += entry["tests"]
    return found


def summary(reasons: Mapping[str, int]) -> list[str]:
    """Return the lines to print: a reason each, those of the most tests first."""
    if not reasons:
        return []
    ordered = sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
    lines = [f"{tests:5} {reason}" for reason, tests in ordered]
    ends = [ALL] if any(ABSENT in reason for reason in reasons) else []
    return [f"Skipped {sum(reasons.values())} tests:", *lines, *ends]
