"""Run a group of the slow tests, and record how many passed, failed and were skipped.

Usage: python -m scripts.records.slow_tests GROUP --json FILE [--seconds N]
"""

import argparse
import json
import os
import shlex
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from rase.lab.provenance import Measurement

__all__ = ["GROUPS", "Group", "Tally", "main"]


@dataclass(frozen=True, slots=True)
class Group:
    """Name the tests of a group, and the rooms they speak of."""

    tests: tuple[str, ...]
    rooms: tuple[str, ...]


GROUPS: Final = {
    "statistics": Group(
        (
            "tests/accounting",
            "tests/counts",
            "tests/kernels",
            "tests/lab",
            "tests/laws",
            "tests/series",
            "tests/shuffle",
            "tests/statistical",
        ),
        (
            *("accounting", "counts", "kernels", "lab/attacks", "lab/audit", "laws", "series"),
            "shuffle",
        ),
    ),
    "simulations": Group(
        ("tests/device", "tests/fusion", "tests/shuffler", "tests/simulation"),
        ("device", "fusion", "shuffler"),
    ),
    "processes": Group(
        ("tests/cli", "tests/tables", "tests/fuzz", "tests/live"),
        (
            *("cli/campaign.py", "cli/device.py", "cli/fusion.py", "cli/init.py", "cli/keys.py"),
            *("cli/run.py", "cli/shuffler.py"),
            *("dashboard", "device", "fusion", "service", "shuffler", "subscriber", "tables"),
        ),
    ),
}


@dataclass(slots=True, eq=False)
class Tally:
    """Count the outcomes of tests as pytest reports them; a plugin, which pytest hashes.

    Args:
        seconds: After so long no further test starts; None for no limit.
    """

    seconds: float | None = None
    collected: int = 0
    is_over: bool = False
    is_collected: bool = True
    outcomes: dict[str, str] = field(default_factory=dict)
    _session: pytest.Session | None = None
    _start_s: float = field(default_factory=time.monotonic)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Keep how many tests there are."""
        self._session = session
        self.collected = len(session.items)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Notice files whose tests cannot even be collected."""
        self.is_collected = self.is_collected and not report.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test once: as failed if any of its steps did, as skipped if it never ran."""
        before = self.outcomes.get(report.nodeid)
        counts = report.failed or report.skipped or report.when == "call"
        if counts and before != "failed":
            self.outcomes[report.nodeid] = report.outcome
        is_late = self.seconds is not None and time.monotonic() - self._start_s > self.seconds
        if is_late and self._session is not None and report.when == "teardown":
            self.is_over = len(self.outcomes) < self.collected
            self._session.shouldstop = self.is_over and "the time is over"

    def figures(self) -> dict[str, Any]:
        """Return what the record says."""
        counts = {
            name: sum(outcome == name for outcome in self.outcomes.values())
            for name in ("passed", "failed", "skipped")
        }
        return {
            "tests": max(self.collected, len(self.outcomes)),
            **counts,
            "failures": sorted(name for name, end in self.outcomes.items() if end == "failed"),
        }


def main(arguments: list[str]) -> int:
    """Run a group and write its record; 1 if a test failed, another code if there is no record."""
    parser = argparse.ArgumentParser(prog="python -m scripts.records.slow_tests")
    parser.add_argument("group", choices=GROUPS)
    parser.add_argument("--json", type=Path, required=True, help="where the record goes")
    parser.add_argument("--seconds", type=float, help="start no test after so long")
    options = parser.parse_args(arguments)
    group = GROUPS[options.group]
    words = ["-v", "-m", "slow", "--without-spark", *group.tests]
    tally = Tally(options.seconds)
    measurement = Measurement(group.rooms)
    # A limit needs one process, whose session can be stopped.
    code = pytest.main([*words, *([] if options.seconds else _workers())], plugins=[tally])
    has_run = code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or tally.is_over
    if not has_run or not tally.is_collected:
        return int(code) or 1
    command = f"pytest {shlex.join(words)}"
    if options.seconds:
        command += f" (stopped after {options.seconds:g} s)"
    record = {
        "schema": "rase.tests/1",
        **measurement.header(command, seed=None),
        **tally.figures(),
    }
    options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 1 if record["failed"] else 0


def _workers() -> list[str]:
    """Return as many workers as `make slow` has: tests also wait for processes and disks."""
    return ["--workers", "3" if (os.cpu_count() or 1) <= 2 else "4"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
