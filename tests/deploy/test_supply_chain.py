"""What is installed is locked, listed and licensed; secrets stay out of arguments and timings."""

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
from scripts import audit_dependencies, dependencies, sbom

from rase.cli import COMMANDS
from rase.cli import main as program

ROOT = Path(__file__).parents[2]
SECRET = re.compile(r"token|passw|secret|credential|private|proof|cookie")
# Public keys, of servers; a validity in days.
PUBLIC = {"fusion_key", "shuffler_key", "registrar_key", "keys_valid"}


def commands(name: str, command: Any) -> Iterator[tuple[str, click.Command]]:
    """Yield every command below one."""
    if isinstance(command, click.Group):
        for inner, one in command.commands.items():
            yield from commands(f"{name} {inner}", one)
    else:
        yield name, command


@cache
def sources() -> list[tuple[Path, ast.Module]]:
    """Return every module of the package, read once."""
    return [
        (path.relative_to(ROOT), ast.parse(path.read_text("utf-8")))
        for path in sorted((ROOT / "src/rase").rglob("*.py"))
    ]


@pytest.mark.parametrize("profile", sbom.PROFILES)
def test_every_locked_package_has_hashes(profile: str) -> None:
    """No line of a lock installs what nobody looked at."""
    text = (ROOT / f"requirements/{profile}.txt").read_text("utf-8")
    packages = sbom.locked(profile)
    assert len(packages) == len(re.findall(r"^[A-Za-z0-9].*==", text, re.MULTILINE))
    assert all(hashes for _, _, hashes in packages)
    # Twice by name where versions of Python need versions of their own.
    assert len({(name, version) for name, version, _ in packages}) == len(packages)


def test_packages_are_installed_by_their_hashes_alone() -> None:
    """The one place that installs asks pip for hashes, and for nothing that builds itself."""
    text = (ROOT / "scripts/bootstrap.py").read_text("utf-8")
    assert '"--require-hashes", "--only-binary=:all:"' in text


def test_the_bill_of_materials_holds_all_and_is_the_same_each_time() -> None:
    """CycloneDX with name, version, address and hashes of every package; no time in it."""
    bill = sbom.bill()
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert json.dumps(bill) == json.dumps(sbom.bill())
    found = {(one["name"], one["version"]) for one in bill["components"]}
    for profile in sbom.PROFILES:
        assert {(name, version) for name, version, _ in sbom.locked(profile)} <= found
    for one in bill["components"]:
        assert one["purl"] == f"pkg:pypi/{one['name']}@{one['version']}"
        assert one["hashes"]
    required = {one["name"] for one in bill["components"] if one["scope"] == "required"}
    assert required == {name for name, _, _ in sbom.locked("demo")}


def test_the_bill_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Into the file that is named."""
    target = tmp_path / "build" / "sbom.json"
    monkeypatch.setattr("sys.argv", ["sbom.py", str(target)])
    assert sbom.main() == 0
    assert json.loads(target.read_text("utf-8")) == sbom.bill()


def test_the_page_of_dependencies_is_current() -> None:
    """It names every package of the locks, each with a licence."""
    rows = dict(re.findall(r"^\| ([a-z0-9._-]+) \| (.+) \|$", dependencies.PAGE.read_text(), re.M))
    rows.pop("package", None)
    profiles = ("demo", "dev", "fuzz", "installer", "release")
    assert set(rows) == {name for one in profiles for name, _, _ in sbom.locked(one)}
    assert not {name for name, licence in rows.items() if licence.startswith("not ")}


@pytest.mark.parametrize(
    ("code", "says", "expected"),
    [
        (0, "No known vulnerabilities found", 0),
        (1, "Found 2 known vulnerabilities in 1 package", 1),
        (1, "requests.exceptions.ConnectionError", 4),
        (0, "click  Dependency not found on PyPI and could not be audited: click (8.3)", 4),
    ],
)
def test_a_service_that_was_not_asked_is_no_answer(code: int, says: str, expected: int) -> None:
    """Only an audit that took place can pass."""
    assert audit_dependencies.verdict("demo", code, says) == expected


def test_no_option_takes_a_secret() -> None:
    """All users of a machine see arguments: secrets come by files and standard input."""
    looked = 0
    for name, entry in COMMANDS.items():
        for path, command in commands(name, import_module(entry.module).command):
            for one in command.params:
                looked += 1
                is_secret = SECRET.search(str(one.name)) or str(one.name).endswith("key")
                if one.name in PUBLIC or not is_secret or getattr(one, "is_flag", False):
                    continue
                assert isinstance(one.type, click.Path | click.File), f"{path} {one.opts}"
    assert looked > 100


def test_a_password_in_an_address_is_refused_as_an_argument(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`rase storage copy --to` takes an address without one, and does not repeat it."""
    for url in ("postgresql://u:hunter2@h/d", "postgresql://u@h/d?password=hunter2"):
        assert program(["storage", "copy", "--to", url]) == 2
        told = capsys.readouterr().err
        assert "--to must have no password" in told
        assert "hunter2" not in told


def test_started_processes_carry_no_secret() -> None:
    """No command line that the package starts is made of something named as a secret."""
    starters = {"run", "Popen", "create_subprocess_exec", "call", "check_call", "check_output"}
    calls = 0
    for path, tree in sources():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            owner = node.func.value
            if node.func.attr in starters and getattr(owner, "id", "") in ("subprocess", "asyncio"):
                calls += 1
                for argument in node.args:
                    assert not SECRET.search(ast.unparse(argument)), f"{path}:{node.lineno}"
    assert calls >= 1


def test_secrets_are_compared_in_constant_time() -> None:
    """No == or != on anything named as a secret: hmac.compare_digest, or a look-up by hash."""
    checked = 0
    for path, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "hmac.compare_digest":
                checked += 1
            if not isinstance(node, ast.Compare):
                continue
            is_equality = any(isinstance(one, ast.Eq | ast.NotEq) for one in node.ops)
            sides = [node.left, *node.comparators]
            if is_equality and not any(isinstance(one, ast.Constant) for one in sides):
                names = [ast.unparse(one).rpartition(".")[2] for one in sides]
                assert not any(SECRET.search(name) for name in names), f"{path}:{node.lineno}"
    assert checked >= 8


def test_the_check_for_comparisons_finds_one(tmp_path: Path) -> None:
    """A planted comparison of a token is seen."""
    tree = ast.parse("if given.token == token: pass")
    (node,) = [one for one in ast.walk(tree) if isinstance(one, ast.Compare)]
    assert SECRET.search(ast.unparse(node.left).rpartition(".")[2])


def test_no_log_call_is_given_a_secret() -> None:
    """Events and journal lines are made of names that are no secrets."""
    calls = 0
    for path, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr not in ("event", "note"):
                    continue
                calls += 1
                for keyword in node.keywords:
                    assert not SECRET.search(str(keyword.arg)), f"{path}:{node.lineno}"
                    assert not SECRET.search(ast.unparse(keyword.value)), f"{path}:{node.lineno}"
    assert calls >= 10


def test_scripts_need_nothing_but_python() -> None:
    """Bill and audit run before anything is installed."""
    for module in (sbom, audit_dependencies):
        assert isinstance(module, ModuleType)
        tree = ast.parse(Path(str(module.__file__)).read_text("utf-8"))
        imported = {
            (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name)
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
        }
        assert imported <= {
            *("argparse", "collections.abc", "json", "re", "subprocess", "sys", "tempfile"),
            *("tomllib", "uuid", "venv", "pathlib", "typing"),
        }
