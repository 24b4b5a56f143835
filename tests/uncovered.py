"""Pause coverage where it would double what a test costs: in the system, and where it is marked.

The mark ``uncovered`` is for long computations of unit tests whose lines other tests run as well,
so that the gates of coverage lose nothing. A plugin of tests/conftest.py.
"""

import os
from collections.abc import Generator
from pathlib import Path

import pytest
from coverage import Coverage
from tests.tiers import tier_of

__all__ = ["pytest_runtest_protocol"]

_ROOT = Path(__file__).parents[1]
# With these set, every Python process that a test starts is measured, too.
_OF_PROCESSES = ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Stop coverage before such a test and its fixtures, and start it again afterwards."""
    running = Coverage.current()
    is_unit = tier_of(item.path, _ROOT) == "unit"
    if running is None or (is_unit and item.get_closest_marker("uncovered") is None):
        return (yield)
    kept = {name: os.environ.pop(name) for name in _OF_PROCESSES if name in os.environ}
    running.stop()
    try:
        return (yield)
    finally:
        running.start()
        os.environ.update(kept)
