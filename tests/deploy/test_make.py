"""What make runs: the tests on Spark wherever they can run, and in CI always."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPARK = "--cov-append tests/engine/spark"


def steps(target: str, *arguments: str, path: Path, **environment: str) -> str:
    """Return what make would do, on a machine with this PATH."""
    make = shutil.which("make")
    assert make is not None
    done = subprocess.run(
        [make, "--dry-run", "--no-print-directory", target, *arguments],
        cwd=ROOT,
        env={"PATH": str(path), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A machine with a shell and awk, and without Java."""
    for name in ("sh", "awk"):
        found = shutil.which(name)
        assert found is not None
        (tmp_path / name).symlink_to(found)
    return tmp_path


def test_spark_is_tested_where_there_is_java(path: Path) -> None:
    """With Java on PATH or named, Spark is installed and its tests run with their coverage."""
    for named in ({"JAVA_HOME": "/somewhere"}, {}):
        found = steps("test", path=path, **named)
        assert ("bootstrap.py spark" in found) == bool(named)
        assert SPARK in found
    java = path / "java"
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    assert "bootstrap.py spark" in steps("test", path=path)


def test_without_java_nothing_large_is_fetched(path: Path) -> None:
    """Without Java the tests on Spark are skipped, each with its reason; Spark is not fetched."""
    found = steps("test", path=path)
    assert "bootstrap.py dev" in found
    assert "bootstrap.py spark" not in found
    assert SPARK in found


def test_ci_has_no_way_around(path: Path) -> None:
    """In CI Spark is installed at any rate, so that a missing Java fails instead of skipping."""
    assert "export CI=true" in (ROOT / ".ci/run").read_text("utf-8")
    found = steps("test", path=path, CI="true")
    assert "bootstrap.py spark" in found
    assert SPARK in found
    assert found.index(SPARK) < found.index("coverage report")


def test_a_choice_of_tests_leaves_spark_out(path: Path) -> None:
    """Asked for some tests alone, make runs no others."""
    assert SPARK not in steps("test", "ARGS=-k something", path=path, CI="true")
