"""What records state about themselves, and how it is found out that they are of earlier code."""

import ast
from pathlib import Path

import pytest

import rase
from rase.clock import FakeClock
from rase.lab import cache, provenance
from rase.lab.provenance import HEADER, Measurement, is_of_this_code

ROOMS = ("rooms", "single.py")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny package in place of the real one, outside a repository."""
    folder = tmp_path / "repository/src/rase"
    for name, text in {
        "__init__.py": "",
        "single.py": "",
        "rooms/one.py": "from rase.front import run\nfrom rase.kernels import sums\n",
        "front/__init__.py": "from rase.front.inner import run\n",
        "front/inner.py": "run = 1\n",
        "front/other.py": "",
        "kernels/sums.py": "",
        "kernels/native.c": "int sum;\n",
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr("rase.__file__", str(folder / "__init__.py"))
    cache.code_version.cache_clear()
    return folder


def test_a_header_states_command_seed_date_time_rooms_and_code(package: Path) -> None:
    """Every record has the same fields, and the time is that of the measurement."""
    clock = FakeClock(1_800_000_000.0)
    measurement = Measurement(ROOMS, clock=clock)
    clock.advance(12.34)
    header = measurement.header("make chaos", seed=7)
    assert tuple(header) == HEADER
    code = header.pop("code")
    assert len(code) == 16
    assert header == {
        "command": "make chaos",
        "seed": 7,
        "commit": None,
        "date": "2027-01-15",
        "seconds": 12.3,
        "rooms": ["rooms", "single.py"],
    }


@pytest.mark.parametrize(
    "name", ["rooms/one.py", "single.py", "front/__init__.py", "front/inner.py", "kernels/native.c"]
)
def test_a_change_of_a_room_or_of_what_it_imports_makes_a_record_old(
    package: Path, name: str
) -> None:
    """Packages that re-export count with what they export, and kernels with their C."""
    header = Measurement(ROOMS).header("x", seed=None)
    assert is_of_this_code(header)
    with (package / name).open("a") as file:
        file.write("\n")
    cache.code_version.cache_clear()
    assert not is_of_this_code(header)


def test_a_change_elsewhere_leaves_a_record_as_it_is(package: Path) -> None:
    """What no room imports may change."""
    header = Measurement(ROOMS).header("x", seed=None)
    (package / "front/other.py").write_text("changed = 1\n")
    cache.code_version.cache_clear()
    assert is_of_this_code(header)


def test_what_changed_while_it_was_measured_is_of_no_code(package: Path) -> None:
    """Programs that started early ran other code than those that started late."""
    measurement = Measurement(ROOMS)
    (package / "single.py").write_text("changed = 1\n")
    assert measurement.header("x", seed=None)["code"] is None


def test_unknown_or_missing_rooms_are_never_of_this_code(package: Path) -> None:
    """A record that does not say what it speaks of, or speaks of what is gone, is old."""
    header = Measurement(ROOMS).header("x", seed=None)
    assert not is_of_this_code({**header, "rooms": None})
    assert not is_of_this_code({**header, "rooms": []})
    assert not is_of_this_code({**header, "code": None})
    assert not is_of_this_code({**header, "rooms": ["gone.py"]})
    with pytest.raises(FileNotFoundError):
        Measurement(("gone.py",))
    with pytest.raises(ValueError, match="rooms must name at least one"):
        Measurement(())


def test_the_commit_is_that_of_the_sources_and_says_if_they_differ(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changed sources are named; a repository that does not hold the package is not."""
    answers = {"ls-files": "__init__.py", "rev-parse": "ab12", "status": ""}

    def git(folder: Path, *arguments: str) -> str | None:
        assert folder == package
        return answers.get(arguments[0])

    monkeypatch.setattr(provenance, "_git", git)
    assert Measurement(ROOMS).header("x", seed=None)["commit"] == "ab12"
    answers["status"] = "M single.py"
    assert Measurement(ROOMS).header("x", seed=None)["commit"] == "ab12+changes"
    del answers["ls-files"]
    assert Measurement(ROOMS).header("x", seed=None)["commit"] is None


def test_without_git_the_commit_is_unknown(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has no git can measure, too."""
    monkeypatch.setenv("PATH", str(package))
    assert Measurement(ROOMS).header("x", seed=None)["commit"] is None


@pytest.mark.uncovered
def test_imports_are_found_as_a_parser_finds_them() -> None:
    """The quick search misses no import of the package in any of its sources."""
    root = Path(rase.__file__).parent
    count = 0
    for path in root.rglob("*.py"):
        found = cache._imports_of(path, "rase")
        for node in ast.walk(ast.parse(path.read_bytes())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
            ours = {name.removeprefix("rase.") for name in names if name.startswith("rase.")}
            count += len(ours)
            assert ours <= found, path
    assert count > 1000
