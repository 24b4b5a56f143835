"""Run tests marked ``uncovered`` while coverage pauses: it would double what they cost.

The mark is for long computations whose lines other tests run as well, so that the gates of coverage
lose nothing. A plugin of tests/conftest.py.
"""

import os
from collections.abc import Generator

import pytest
from coverage import Coverage

__all__ = ["pytest_runtest_protocol"]

# With these set, every Python process that a test starts is measured, too.
_OF_PROCESSES = ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Stop coverage before a marked test and its fixtures, and start it again afterwards."""
    running = Coverage.current()
    if running is None or item.get_closest_marker("uncovered") is None:
        return (yield)
    kept = {name: os.environ.pop(name) for name in _OF_PROCESSES if name in os.environ}
    running.stop()
    try:
        return (yield)
    finally:
        running.start()
        os.environ.update(kept)
