"""The record of a group of slow tests: what is counted, and when there is none."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scripts.records.parts import ROOT

from rase.lab.provenance import HEADER

CONFTEST = """
def pytest_addoption(parser):
    parser.addoption("--without-spark", action="store_true")
def pytest_configure(config):
    config.addinivalue_line("markers", "slow: taken")
"""
TESTS = """
import pytest
pytestmark = pytest.mark.slow
@pytest.fixture
def broken():
    raise OSError
@pytest.fixture
def leaving():
    yield
    raise OSError
def test_passes(): pass
def test_fails(): assert False
def test_is_not_set_up(broken): pass
def test_is_not_torn_down(leaving): pass
def test_is_skipped(): pytest.skip("absent")
"""


def run(folder: Path, tests: str, *options: str) -> tuple[int, dict[str, Any] | None]:
    """Run a group that is a file of tests; return the exit code and the record."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(tests)
    file = folder / "record.json"
    program = (
        "import sys; from scripts.records import slow_tests as it;"
        "it._workers = lambda: ['--workers', '1'];"
        "it.GROUPS['tiny'] = it.Group((sys.argv[1],), ('domain.py',));"
        "sys.exit(it.main(['tiny', '--json', *sys.argv[2:]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder), str(file), *options],
        cwd=ROOT,
        # Of the plugins that are installed only this one takes part; to load the rest takes longer.
        env={
            **os.environ,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_PLUGINS": "tests.pool",
        },
        capture_output=True,
        check=False,
    )
    return done.returncode, json.loads(file.read_text()) if file.exists() else None


@pytest.mark.parametrize("options", [(), ("--seconds", "600")], ids=["workers", "one process"])
def test_every_test_counts_once(tmp_path: Path, options: tuple[str, ...]) -> None:
    """A test fails if any of its steps does; what failed is named, and the exit code is 1."""
    code, record = run(tmp_path, TESTS, *options)
    assert code == 1
    assert record is not None
    assert [name for name in HEADER if name not in record] == []
    counts = {name: record[name] for name in ("tests", "passed", "failed", "skipped")}
    assert counts == {"tests": 5, "passed": 1, "failed": 3, "skipped": 1}
    assert [name.partition("::")[2] for name in record["failures"]] == [
        "test_fails",
        "test_is_not_set_up",
        "test_is_not_torn_down",
    ]


def test_a_short_run_says_how_many_tests_it_left_out(tmp_path: Path) -> None:
    """After its time no further test starts, and the command in the record says so."""
    tests = "import pytest\npytestmark = pytest.mark.slow\n"
    tests += "".join(f"def test_{number}(): pass\n" for number in range(3))
    code, record = run(tmp_path, tests, "--seconds", "1e-9")
    assert code == 0
    assert record is not None
    assert (record["tests"], record["passed"], record["failed"]) == (3, 1, 0)
    assert record["command"].endswith(" (stopped after 1e-09 s)")


@pytest.mark.parametrize(
    ("tests", "options"),
    [
        ("import absent_module", ()),
        ("import absent_module", ("--seconds", "600")),
        ("def test_is_quick(): pass", ("--seconds", "600")),
    ],
)
def test_without_tests_there_is_no_record(
    tmp_path: Path, tests: str, options: tuple[str, ...]
) -> None:
    """Tests that cannot be collected, or that are not slow, prove nothing."""
    code, record = run(tmp_path, tests, *options)
    assert code != 0
    assert record is None
