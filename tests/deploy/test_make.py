"""What make runs: the tests on Spark where they are asked for, and in CI always."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from scripts import skipped, suite
from tests import tiers
from tests.programs import program

ROOT = Path(__file__).parents[2]
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
        assert found.rstrip().endswith("scripts.suite check unit system")
    assert {tiers.SPARK, "--without-spark"} <= set(suite.command_of(["system"]))
    assert "--without-spark" in suite.command_of(["unit", "system"])


def test_spark_is_tested_where_it_is_asked_for(path: Path) -> None:
    """`make test SPARK=1`, and CI always, installs Spark and runs its tests with the others."""
    assert "export CI=true" in (ROOT / ".ci/run").read_text("utf-8")
    for found in (steps("test", "SPARK=1", path=path), steps("test", path=path, CI="true")):
        assert "bootstrap.py spark" in found
        assert "scripts.suite check unit system spark" in found
    assert steps("test", path=path, CI="true").rstrip().endswith("spark lint")
    assert "lint" not in steps("test", "SPARK=1", path=path)
    for parts in (["unit", "system", "spark"], ["system", "spark"], ["spark"]):
        assert "--without-spark" not in suite.command_of(parts)
    assert tiers.SPARK in suite.command_of(["spark"])
    assert tiers.SPARK in suite.command_of(["system", "spark"])


def test_a_choice_of_tests_runs_no_others(path: Path) -> None:
    """Asked for some tests alone, make hands them to pytest, or to the tier that is named."""
    chosen = steps("test", "ARGS=-k something", path=path, CI="true")
    assert chosen.rstrip().endswith("--workers=3 -k something")
    assert "scripts.suite unit -- -k some" in steps("unit", "ARGS=-k some", path=path)
    assert suite.command_of(["unit"], ["-k", "some"])[-2:] == ["-k", "some"]


def test_every_test_is_in_one_tier() -> None:
    """What the parts are given leaves out no file of tests and runs none twice."""
    for place in (*tiers.SYSTEM, tiers.SPARK):
        assert (ROOT / place).exists(), f"{place} is listed in tests/tiers.py and does not exist"
    counted = Counter(tiers.tier_of(path, ROOT) for path in ROOT.glob("tests/**/test_*.py"))
    assert set(counted) == {"unit", "system", "spark"}
    ignored = {one.removeprefix("--ignore=") for one in suite.command_of(["unit"]) if "=" in one}
    assert ignored >= {*tiers.SYSTEM, tiers.SPARK}
    assert set(tiers.SYSTEM) <= set(suite.command_of(["system"]))
    together = suite.command_of(["unit", "system", "spark"])
    assert [one for one in together if "tests" in one] == []  # all there are
    first = tiers.group_of(ROOT / tiers.SPARK / "test_bits.py", ROOT)
    assert first < tiers.group_of(ROOT / "tests/live/test_kills.py", ROOT)
    assert tiers.group_of(ROOT / "tests/live/test_kills.py", ROOT) < tiers.group_of(
        ROOT / "tests/wire/test_cbor.py", ROOT
    )
    assert counted["unit"] > counted["system"] > counted["spark"]
    assert tiers.waits(ROOT / "tests/live/test_kills.py", ROOT)
    assert not tiers.waits(ROOT / "tests/simulation/test_deaths.py", ROOT)


def test_skipped_tests_are_summed_up_over_all_runs(tmp_path: Path) -> None:
    """Reasons of both runs are added, those of the most tests first; without any, no line."""
    file = tmp_path / "build" / "skipped.jsonl"
    assert skipped.summary(skipped.read(file)) == []
    skipped.add(file, {"caddy is not installed: x": 2, "nginx is not installed: y": 1})
    skipped.add(file, {"nginx is not installed: y": 2})
    assert skipped.summary(skipped.read(file))[:3] == [
        "Skipped 5 tests:",
        "    3 nginx is not installed: y",
        "    2 caddy is not installed: x",
    ]


@pytest.mark.parametrize(
    ("reason", "is_gated"),
    [
        ("Spark was not asked for: make test SPARK=1", True),
        ("nginx is not installed: apt-get install nginx-light", False),
    ],
)
def test_a_machine_without_programs_is_not_held_to_their_coverage(
    reason: str, is_gated: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate of the whole falls only if a program is absent, and that is said."""
    asked: list[list[str]] = []

    class Failing:
        returncode = 1

        def __init__(self, command: list[str], **_: object) -> None:
            asked.append(command)

        def communicate(self) -> tuple[str, None]:
            return "", None

    monkeypatch.setattr("scripts.suite.subprocess.Popen", Failing)
    assert suite.gates({reason: 3}) == ["coverage", "coverage of the mathematics"]
    whole, mathematics = asked
    assert ("--fail-under=0" in whole) == (not is_gated)
    assert "--fail-under=100" in mathematics
    assert (skipped.UNGATED in capsys.readouterr().out) == (not is_gated)


def planned(*commands: str) -> Callable[..., suite.Part]:
    """Return a stand-in for `_begin`'s commands that runs lines of shell, one for each part."""
    lines = iter(commands)
    begin = suite._begin
    return lambda name, command: begin(name, ["/bin/sh", "-c", next(lines)])


def test_parts_run_together_and_one_failure_fails_all(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits for a file that the other makes; both logs are printed, and who failed."""
    monkeypatch.setattr(suite, "LOGS", tmp_path)
    monkeypatch.setattr(suite, "SKIPPED", tmp_path / "skipped.jsonl")
    monkeypatch.setattr(suite, "TIMES", tmp_path / "times.jsonl")
    meet = "touch {0}/{1}; while [ ! -e {0}/{2} ]; do :; done; echo {1} met {2}; "
    one, two = meet.format(tmp_path, "a", "b"), meet.format(tmp_path, "b", "a")
    times = '{"kind": "file", "name": "tests/slow.py", "seconds": 2.5}'
    with_times = f"{two} echo '{times}' >> $RASE_TIMES; exit 3"
    again = planned("true", "true")
    monkeypatch.setattr(suite, "_begin", planned(one, with_times))
    assert suite.main(["check", "system"]) == 1
    printed = capfd.readouterr().out
    assert "a met b" in printed
    assert "b met a" in printed
    assert "check passed after" in printed
    assert "tests FAILED with exit code 3" in printed
    assert "    2.5 s  tests/slow.py" in printed
    assert "FAILED: tests." in printed
    monkeypatch.setattr(suite, "_begin", again)
    assert suite.main(["check", "system"]) == 0


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A name that is no part, or none, runs nothing and names the parts."""
    assert suite.main(["units"]) == 2
    assert suite.main([]) == 2
    assert (
        "parts must be among check, unit, system, spark, lint, got units."
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("options", [(), ("--workers", "2")], ids=["alone", "workers"])
def test_pytest_reports_skips_and_how_to_get_what_they_need(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    """A run says it itself, also with workers; a run of make writes it, and its times."""
    file, times = tmp_path / "skipped.jsonl", tmp_path / "times.jsonl"
    chosen = ["tests/deploy/test_caddy.py", "-k", "valid"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *chosen]
    clean = {k: v for k, v in os.environ.items() if k not in {"CI", "RASE_SKIPPED", "RASE_TIMES"}}
    clean["RASE_TESTS_WITHOUT"] = "caddy"
    for variables in ({}, {"RASE_SKIPPED": str(file), "RASE_TIMES": str(times)}):
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
    first, *_ = suite.summary(times)
    assert first.startswith("Slowest files, of ")
    assert '"name": "tests/deploy/test_caddy.py"' in times.read_text("utf-8")
