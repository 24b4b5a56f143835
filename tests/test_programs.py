"""On a machine with Python and a shell alone, tests that need programs skip and none fails."""

import ast
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from tests.cases import each_case
from tests.programs import ABSENT, PROGRAMS, absence, commands_in, find

ROOT = Path(__file__).parents[1]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
STARTERS = {"run", "Popen", "call", "check_call", "check_output"}
SHELLS = {"/bin/sh", "/bin/bash"}


def bare_machine(folder: Path) -> dict[str, str]:
    """Return the environment of a machine that has almost nothing installed."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    for name, target in (("python3", sys.executable), ("sh", "/bin/sh")):
        (bin_folder / name).symlink_to(target)
    return {
        "PATH": str(bin_folder),
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        # Servers outside of the PATH and packages of node are absent as well.
        ABSENT: "all",
    }


def test_no_test_fails_where_no_program_is_installed(tmp_path: Path) -> None:
    """All tests are collected, and every test that needs a program is skipped with its reason."""
    report = tmp_path / "report.xml"
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--no-cov", "-m", "needs"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests", *options, f"--junit-xml={report}"],
        cwd=ROOT,
        env=bare_machine(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    cases = list(ET.parse(report).getroot().iter("testcase"))  # noqa: S314 - pytest's own
    reasons = {one.get("message", "") for case in cases for one in case.iter("skipped")}
    ran = [case.get("name") for case in cases if case.find("skipped") is None]
    assert ran == []
    assert len(cases) > 100
    for name in (
        "caddy",
        "nginx",
        "initdb",
        "mosquitto",
        "chromium-headless-shell",
        "promtool",
        "node",
    ):
        assert any(f"{name} is not installed: " in reason for reason in reasons), name


def test_each_program_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is absent has its name and a command in the reason, and what is there has none."""
    monkeypatch.setenv(ABSENT, "nginx axe")
    assert absence("nginx") == "nginx is not installed: apt-get install nginx-light"
    assert absence("axe") == "axe is not installed: npm ci --prefix tests/browser"
    monkeypatch.setenv(ABSENT, "all")
    assert all(str(absence(name)).startswith(f"{name} is not installed: ") for name in PROGRAMS)
    monkeypatch.delenv(ABSENT)
    for name in PROGRAMS:
        assert (absence(name) is None) == (find(name) is not None)


def test_every_program_is_set_up_for_ci() -> None:
    """`.ci/setup` gets each by the command that the reason names."""
    setup = (ROOT / ".ci/setup").read_text("utf-8")
    # What the machine must bring for the project to be installed and built at all.
    own = {"make", "cc", "chroot"}
    for name in set(PROGRAMS) - own:
        tool, *_, thing = PROGRAMS[name].get.split()
        assert thing in setup, (tool, thing)


def test_a_script_is_known_by_its_commands() -> None:
    """The first word of a line counts, arguments do not."""
    script = "rase init try nginx\n  mosquitto_pub -t x\n\nnginx -t\n"
    assert commands_in(script) == ("mosquitto_pub", "nginx")


def test_programs_are_looked_for_in_one_place() -> None:
    """No test starts a program by its bare name or looks for one itself."""
    found = {
        str(path.relative_to(ROOT)): places
        for path in TESTS
        if path.name != "programs.py"
        if (places := looked_for(ast.parse(path.read_text("utf-8"))))
    }
    assert len(TESTS) > 100
    assert found == {}


@each_case(
    "code",
    [
        "subprocess.run(['nginx', '-t'])",
        "subprocess.Popen(args=('redis-server', '-v'))",
        "subprocess.run('caddy')",
        "NGINX = shutil.which('nginx')",
        "NGINX = 'nginx'",
        "CHROMIUM = '/usr/bin/chromium-headless-shell'",
        "command = ['mosquitto', '-c', path]",
    ],
)
def test_a_program_of_its_own_is_found(code: str) -> None:
    """The ways in which tests have named programs before are all seen."""
    assert looked_for(ast.parse(code))


def looked_for(tree: ast.Module) -> list[str]:
    """Return the places where a module names a program to start, with their lines."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = _head(node.value)
            found += [f"{node.lineno}: {value}"] if _is_program(value) else []
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called in {"which", "shutil.which"}:
            found.append(f"{node.lineno}: {called}")
        if called.removeprefix("subprocess.") in STARTERS and called not in STARTERS:
            given = [word.value for word in node.keywords if word.arg == "args"]
            value = _head([*node.args, *given][0])
            if value is not None and value not in SHELLS:
                found.append(f"{node.lineno}: {value}")
    return found


def _head(node: ast.expr) -> str | None:
    """Return the text that a command begins with, if it is written out."""
    if isinstance(node, ast.List | ast.Tuple) and node.elts:
        node = node.elts[0]
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return str(ast.literal_eval(node)) if is_text else None


def _is_program(value: str | None) -> bool:
    return value is not None and Path(value).name in PROGRAMS and " " not in value
