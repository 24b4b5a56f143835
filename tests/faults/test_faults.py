"""The planted faults fit the sources, and the runner tells a fault that is caught from one not."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from faults.__main__ import main
from faults.fault import Fault, FaultOutdated, plant
from faults.planted import FAULTS
from faults.run import Runner

ROOT = Path(__file__).parents[2]
WRONG_SUM = Fault(
    name="wrong-sum",
    wrong="Sums are one too large.",
    file="sums/__init__.py",
    old="return a + b\n",
    new="return a + b + 1\n",
    tests=("tests/test_sums.py",),
)
HARMLESS = replace(WRONG_SUM, name="harmless", wrong="Sums are turned.", new="return b + a\n")


@pytest.fixture(autouse=True)
def no_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pytest start quickly in the small project, which needs no plugins."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small project of one function, one test of it and one test that is slow."""
    root = tmp_path_factory.mktemp("project")
    (root / "src" / "sums").mkdir(parents=True)
    (root / "tests").mkdir()
    (root / "src/sums/__init__.py").write_text("def add(a, b):\n    return a + b\n")
    (root / "tests/test_sums.py").write_text(
        "import subprocess, sys\n"
        "import pytest\n"
        "from sums import add\n\n"
        "def test_sums():\n"
        "    assert add(1, 2) == 3\n\n"
        "@pytest.mark.slow\n"
        "def test_slowly():\n"
        "    raise AssertionError\n"
    )
    (root / "tests/test_child.py").write_text(
        "import subprocess, sys\n\n"
        "def test_a_child():\n"
        "    code = 'from sums import add; print(add(1, 2))'\n"
        "    done = subprocess.run([sys.executable, '-c', code], capture_output=True)\n"
        "    assert done.stdout == b'3\\n'\n"
    )
    (root / "tests/test_fixture.py").write_text(
        "import pytest\n\n"
        "@pytest.fixture\n"
        "def broken():\n"
        "    raise ValueError\n\n"
        "def test_with_it(broken):\n"
        "    pass\n"
    )
    (root / "tests/test_import.py").write_text("import sums.nothing\n")
    (root / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow: long\n")
    return root


def test_every_fault_fits_the_sources() -> None:
    """What a fault replaces stands in the sources once, and what it puts there can be compiled."""
    for fault in FAULTS:
        text = (ROOT / "src" / fault.file).read_text(encoding="utf-8")
        assert text.count(fault.old) == 1, f"{fault.name} must be rewritten for src/{fault.file}"
        if fault.file.endswith(".py"):
            compile(text.replace(fault.old, fault.new), fault.name, "exec")


def test_no_fault_speaks_of_names_that_are_not_there(tmp_path: Path) -> None:
    """All names in what is planted are known: a fault must be wrong, not fail to run."""
    for fault in FAULTS:
        text = (ROOT / "src" / fault.file).read_text(encoding="utf-8")
        if fault.file.endswith(".py"):
            planted = tmp_path / f"{fault.name}.py"
            planted.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
    assert _undefined(tmp_path) == []
    (tmp_path / "broken.py").write_text("def one():\n    return two\n", encoding="utf-8")
    assert _undefined(tmp_path) == ["broken.py"]


def _undefined(folder: Path) -> list[str]:
    """Return the files in which a name is used that nothing defines."""
    ruff = str(Path(sys.executable).with_name("ruff"))
    rules = ["--isolated", "--no-cache", "--output-format=json", "--select=F821,F822,F823"]
    done = subprocess.run(
        [ruff, "check", *rules, str(folder)], capture_output=True, text=True, check=False
    )
    return sorted({Path(found["filename"]).name for found in json.loads(done.stdout)})


def test_every_fault_names_tests_that_are_there() -> None:
    """The tests of a fault are files, and functions of them, and none of them is slow."""
    for fault in FAULTS:
        for test in fault.tests:
            file, _, name = test.partition("::")
            text = (ROOT / file).read_text(encoding="utf-8")
            found = re.search(rf"((?:^@.*\n)*)^def {name or 'test_'}", text, re.MULTILINE)
            assert found, f"{fault.name} names {test}, which is not there"
            assert "mark.slow" not in found[1], f"{fault.name} names {test}, which is slow"


def test_faults_have_names_of_their_own() -> None:
    """No two faults share a name, and each is said in one sentence."""
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    for fault in FAULTS:
        assert fault.wrong.endswith("."), fault.name


def test_a_fault_that_would_prove_nothing_is_refused() -> None:
    """A fault changes something, and names a test."""
    with pytest.raises(ValueError, match="must differ from old"):
        replace(WRONG_SUM, new=WRONG_SUM.old)
    with pytest.raises(ValueError, match="must name at least one test"):
        replace(WRONG_SUM, tests=())


def test_planting_changes_the_copy_alone(tmp_path: Path) -> None:
    """The text is replaced in the copy, and code compiled from it before is gone."""
    fault = FAULTS[0]
    copy = tmp_path / fault.file
    compiled = copy.parent / "__pycache__" / f"{copy.stem}.cpython-311.pyc"
    compiled.parent.mkdir(parents=True)
    compiled.touch()
    text = (ROOT / "src" / fault.file).read_text(encoding="utf-8")
    copy.write_text(text, encoding="utf-8")
    plant(fault, tmp_path)
    assert copy.read_text(encoding="utf-8") == text.replace(fault.old, fault.new) != text
    assert not compiled.exists()
    assert (ROOT / "src" / fault.file).read_text(encoding="utf-8") == text


@pytest.mark.parametrize("text", ["", "return a + b\nreturn a + b\n"])
def test_a_fault_that_no_longer_fits_is_named(tmp_path: Path, text: str) -> None:
    """Where the old text is gone, or stands twice, the fault to be rewritten is named."""
    (tmp_path / "sums").mkdir()
    (tmp_path / "sums/__init__.py").write_text(text)
    with pytest.raises(FaultOutdated, match="fault wrong-sum must be rewritten"):
        plant(WRONG_SUM, tmp_path)


def test_a_fault_is_caught_and_a_harmless_change_is_not(
    project: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A wrong sum is caught by the test of it; turning the summands is reported as not caught."""
    file = tmp_path / "faults.json"
    code = main(["--json", str(file)], faults=(WRONG_SUM, HARMLESS), root=project)
    lines = capsys.readouterr().out.splitlines()
    assert code == 1
    assert re.match(r"1/2 caught +wrong-sum \(.* s\) by tests/test_sums.py::test_sums", lines[0]), (
        lines
    )
    assert lines[1].startswith("2/2 NOT CAUGHT  harmless (")
    assert lines[2] == "1 of 2 caught"
    document = json.loads(file.read_text())
    assert document["schema"] == "rase.faults/1"
    assert [row["verdict"] for row in document["faults"]] == ["caught", "not caught"]


def test_all_caught_is_success(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With every chosen fault caught, also by a process that a test starts, the exit code is 0."""
    child = replace(WRONG_SUM, name="child", tests=("tests/test_child.py",))
    faults = (WRONG_SUM, HARMLESS, child)
    assert main(["--only", "wrong-sum", "child", "--jobs", "2"], faults=faults, root=project) == 0
    assert "2 of 2 caught" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("test", "detail"),
    [
        ("tests/test_import.py", "pytest ended with 2"),
        ("tests/test_nothing.py", "pytest ended with 4"),
        ("tests/test_sums.py::test_slowly", "pytest ended with 5"),
        ("tests/test_fixture.py", "pytest ended with 1 and no failed test"),
    ],
)
def test_what_is_no_failed_test_is_an_error(project: Path, test: str, detail: str) -> None:
    """A fault is not caught by a test that cannot be collected, set up, or is left out as slow."""
    outcome = Runner(project).run(replace(WRONG_SUM, tests=(test,)))
    assert outcome.verdict == "error"
    assert detail in outcome.detail


def test_broken_code_is_no_fault(project: Path) -> None:
    """A fault that only makes the code fail to run is an error: any test would notice that."""
    outcome = Runner(project).run(replace(WRONG_SUM, new="return a + b + one\n"))
    assert outcome.verdict == "error"
    assert "NameError: name 'one' is not defined" in outcome.detail


def test_other_sources_than_the_copy_are_an_error(tmp_path: Path) -> None:
    """Where the tests would import another module of the name, nothing is said of the fault."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/sys.py").write_text(WRONG_SUM.old)
    outcome = Runner(tmp_path).run(replace(WRONG_SUM, file="sys.py"))
    assert outcome.verdict == "error"
    assert "sys is not imported from the copy with the fault" in outcome.detail


def test_tests_that_do_not_end_are_ended(project: Path) -> None:
    """Tests that take too long are killed, and say neither that the fault was caught nor not."""
    outcome = Runner(project, limit_s=1e-3).run(WRONG_SUM)
    assert outcome.verdict == "error"


def test_a_stopped_runner_runs_nothing_and_leaves_no_copy(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a stop the next fault ends at once, and its copy is gone."""
    monkeypatch.setattr("tempfile.tempdir", os.fspath(tmp_path))
    runner = Runner(project)
    runner.stop()
    with pytest.raises(KeyboardInterrupt):
        runner.run(WRONG_SUM)
    assert not list(tmp_path.iterdir())


def test_the_list_says_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    """Listing plants nothing and names every fault."""
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [fault.name for fault in FAULTS]
