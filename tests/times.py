"""Where the time of a run of pytest went: by file and by fixture, also with workers.

Of files the processor's time is counted, with that of the processes they start and wait for: the
time by the wall depends on what else runs.

A plugin of tests/conftest.py. With ``RASE_TIMES`` set, a run adds its lines to that file, and
scripts/suite.py prints the sum over all runs.
"""

import json
import os
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

__all__ = [
    "pytest_fixture_setup",
    "pytest_runtest_makereport",
    "pytest_runtest_protocol",
    "pytest_terminal_summary",
]

VARIABLE = "RASE_TIMES"
# Shorter ones are many, and none of them is worth a line.
_LEAST_S = 0.05
_SENT = "fixture_seconds"
_SENT_CPU = "processor_seconds"
_CPU = pytest.StashKey[float]()
_FIXTURES = pytest.StashKey[dict[str, float]]()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: "pytest.FixtureDef[Any]", request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Note how long a fixture took, with the test that was the first to ask for it."""
    start = perf_counter()
    try:
        return (yield)
    finally:
        seconds = perf_counter() - start
        item = request._pyfuncitem  # the one way to the test from a fixture of any scope
        if seconds >= _LEAST_S:
            name = f"{fixturedef.baseid or item.path.name}::{fixturedef.argname}"
            item.stash.setdefault(_FIXTURES, {})[name] = seconds


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note how much of the processor was used before a test."""
    item.stash[_CPU] = _processor_s()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Send the times along with the report, which workers send on."""
    report = yield
    now = _processor_s()
    setattr(report, _SENT_CPU, now - item.stash[_CPU])
    item.stash[_CPU] = now
    if call.when == "setup":
        setattr(report, _SENT, item.stash.get(_FIXTURES, {}))
    return report


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Write the sums by file and by fixture, one line each."""
    path = os.environ.get(VARIABLE)
    if not path:
        return
    files: defaultdict[str, float] = defaultdict(float)
    fixtures: defaultdict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                files[report.nodeid.split("::")[0]] += getattr(report, _SENT_CPU, 0.0)
                for name, seconds in getattr(report, _SENT, {}).items():
                    fixtures[name] += seconds
    with Path(path).open("a", encoding="utf-8") as file:
        for kind, sums in (("file", files), ("fixture", fixtures)):
            for name, seconds in sums.items():
                line = {"kind": kind, "name": name, "seconds": round(seconds, 3)}
                file.write(json.dumps(line) + "\n")


def _processor_s() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system
