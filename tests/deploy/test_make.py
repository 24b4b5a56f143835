"""What make runs: the tests on Spark where they are asked for, and in CI always."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import skipped
from tests.programs import program

ROOT = Path(__file__).parents[2]
SPARK = "--cov-append tests/engine/spark"
pytestmark = pytest.mark.needs("make")


def steps(target: str, *arguments: str, path: Path, **environment: str) -> str:
    """Return what make would do, on a machine with this PATH."""
    done = subprocess.run(
        [program("make"), "--dry-run", "--no-print-directory", target, *arguments],
        cwd=ROOT,
        env={"PATH": str(path), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A machine with a shell and Java, and with nothing else."""
    (tmp_path / "sh").symlink_to("/bin/sh")
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    return tmp_path


def test_java_alone_fetches_no_spark(path: Path) -> None:
    """Java on PATH or named by JAVA_HOME installs nothing; what is left out is said."""
    for named in ({"JAVA_HOME": "/somewhere"}, {}):
        found = steps("test", path=path, **named)
        assert "bootstrap.py dev" in found
        assert "bootstrap.py spark" not in found
        assert SPARK not in found
        assert "--without-spark" in found


def test_spark_is_tested_where_it_is_asked_for(path: Path) -> None:
    """`make test SPARK=1` installs Spark and runs its tests with their coverage."""
    found = steps("test", "SPARK=1", path=path)
    assert "bootstrap.py spark" in found
    assert "--without-spark" not in found
    assert found.index(SPARK) < found.index("coverage report")


def test_ci_has_no_way_around(path: Path) -> None:
    """In CI Spark is installed at any rate, so that a missing Java fails instead of skipping."""
    assert "export CI=true" in (ROOT / ".ci/run").read_text("utf-8")
    found = steps("test", path=path, CI="true")
    assert "bootstrap.py spark" in found
    assert "--without-spark" not in found
    assert found.index(SPARK) < found.index("coverage report")


def test_a_choice_of_tests_leaves_spark_out(path: Path) -> None:
    """Asked for some tests alone, make runs no others."""
    assert SPARK not in steps("test", "ARGS=-k something", path=path, CI="true")


def test_what_was_skipped_is_the_last_that_make_says(path: Path) -> None:
    """The summary comes after all runs of pytest and the coverage, from a file begun empty."""
    lines = steps("test", "SPARK=1", path=path).strip().split("\n")
    assert lines[-1].endswith("scripts/skipped.py build/skipped.jsonl")
    first = next(place for place, line in enumerate(lines) if "bin/pytest" in line)
    assert lines.index("rm -f build/skipped.jsonl") < first


def test_skipped_tests_are_summed_up_over_all_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reasons of both runs are added, those of the most tests first; without any, no line."""
    file = tmp_path / "build" / "skipped.jsonl"
    monkeypatch.setattr("sys.argv", ["skipped.py", str(file)])
    assert skipped.main() == 0
    assert capsys.readouterr().out == ""
    skipped.add(file, {"caddy is not installed: x": 2, "nginx is not installed: y": 1})
    skipped.add(file, {"nginx is not installed: y": 2})
    assert skipped.main() == 0
    assert capsys.readouterr().out.split("\n")[:3] == [
        "Skipped 5 tests:",
        "    3 nginx is not installed: y",
        "    2 caddy is not installed: x",
    ]
    monkeypatch.setattr("sys.argv", ["skipped.py"])
    assert skipped.main() == 2


@pytest.mark.parametrize(
    ("reason", "is_gated"),
    [
        ("Spark was not asked for: make test SPARK=1", True),
        ("nginx is not installed: apt-get install nginx-light", False),
    ],
)
def test_a_machine_without_programs_is_not_held_to_their_coverage(
    reason: str,
    is_gated: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The gate of the whole falls only if a program is absent; then the summary says so."""
    text = (ROOT / "Makefile").read_text("utf-8")
    assert "\t$(BIN)/coverage report $(UNGATED)\n" in text
    (given,) = re.findall(r"^UNGATED := \$\$\((.*)\)$", text, re.MULTILINE)
    file = tmp_path / "skipped.jsonl"
    for lines in ({}, {reason: 3}):
        skipped.add(file, lines)
        shell = given.replace("$(SKIPPED)", str(file))
        done = subprocess.run(["/bin/sh", "-c", shell], capture_output=True, text=True, check=False)
        assert (done.stdout == "") == (is_gated or not lines)
    monkeypatch.setattr("sys.argv", ["skipped.py", str(file)])
    assert skipped.main() == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[1] == f"    3 {reason}"
    assert (printed[-1] == skipped.UNGATED) == (not is_gated)


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "workers"])
def test_pytest_reports_skips_and_how_to_get_what_they_need(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    """A run says it itself, also with workers; a run of make writes it for the end."""
    file = tmp_path / "skipped.jsonl"
    chosen = ["tests/deploy/test_caddy.py", "-k", "valid"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *chosen]
    clean = {k: v for k, v in os.environ.items() if k not in {"CI", "RASE_SKIPPED"}}
    clean["RASE_TESTS_WITHOUT"] = "caddy"
    for variables in ({}, {"RASE_SKIPPED": str(file)}):
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**clean, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert ("caddy is not installed" in done.stdout) == (not variables)
    assert skipped.read(file) == {"caddy is not installed: apt-get install caddy": 1}
