"""Coverage pauses for tests that are marked, and for no others."""

import subprocess
import sys
from pathlib import Path

import pytest
from coverage import CoverageData

_PACKAGE = """
def plain():
    return 1

def dear():
    return 2

def later():
    return 3
"""
_TESTS = '''
import subprocess, sys
import measured, pytest

def test_first():
    """Covered."""
    assert measured.plain() == 1

@pytest.mark.uncovered
def test_dear():
    """Not covered, and what it starts neither."""
    assert measured.dear() == 2
    subprocess.run([sys.executable, "-c", "import measured; measured.dear()"], check=True)

def test_later():
    """Covered again."""
    assert measured.later() == 3
'''
_SETTINGS = """
[tool.pytest.ini_options]
markers = ["uncovered: pauses"]
pythonpath = ["."]
[tool.coverage.run]
branch = true
source_pkgs = ["measured"]
parallel = true
patch = ["subprocess"]
"""


@pytest.mark.uncovered
def test_only_the_marked_test_is_left_out(tmp_path: Path) -> None:
    """Lines of tests before and after a marked one are measured, its own are not."""
    (tmp_path / "measured.py").write_text(_PACKAGE, encoding="utf-8")
    (tmp_path / "test_it.py").write_text(_TESTS, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(_SETTINGS, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--cov", "--cov-report=", "-p", "tests.uncovered"],
        cwd=tmp_path,
        env={"PATH": "", "PYTHONPATH": f"{Path(__file__).parents[1]}:{tmp_path}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    data = CoverageData(str(tmp_path / ".coverage"))
    data.read()
    lines = data.lines(str(tmp_path / "measured.py"))
    assert lines is not None
    assert {3, 9} <= set(lines)
    assert 6 not in lines
