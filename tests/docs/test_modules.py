"""Modules introduce themselves: the first sentence of each says its duty."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "scripts", "examples", "benchmarks")
MODULES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def test_every_module_says_its_duty_in_one_sentence() -> None:
    """A docstring begins with a line of its own that is a whole sentence, or a question."""
    wrong = []
    for path in MODULES:
        first, *rest = told_by(path)
        # A command may begin the sentence, as it is typed.
        is_sentence = first[:1].isupper() or first.startswith("``rase ")
        is_sentence = is_sentence and first.endswith((".", "?"))
        if not is_sentence or (rest and rest[0]):
            wrong.append(f"{path.relative_to(ROOT)}: {first}")
    assert len(MODULES) > 300
    assert wrong == []


def test_no_two_modules_have_one_duty() -> None:
    """Two modules that say the same would be one module; packages have their own."""
    said = [told_by(path)[0] for path in MODULES if path.name != "__init__.py"]
    assert sorted(said) == sorted(set(said))


def test_every_file_that_the_code_names_is_there() -> None:
    """A guarantee whose test has moved away would be one that nobody checks any more."""
    sources = [path for path in (ROOT / "src").rglob("*") if path.suffix in {".py", ".c", ".h"}]
    named = {
        (name, path)
        for path in sources
        for name in re.findall(
            r"\b(?:tests|docs|benchmarks)/[\w/-]+\.(?:py|md)\b", path.read_text(encoding="utf-8")
        )
    }
    assert len(named) > 50
    assert [f"{name} in {path}" for name, path in named if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("room", ["kernels", "laws", "shuffle", "accounting"])
def test_every_promise_names_the_test_that_would_notice_its_loss(room: str) -> None:
    """Where guarantees are made and laws are drawn, each paragraph about them cites a test file."""
    said = [
        " ".join(paragraph.split())
        for path in (ROOT / "src/rase" / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        for paragraph in (ast.get_docstring(node) or "").split("\n\n")
        if paragraph.startswith(("Guarantee:", "Validation:"))
    ]
    assert len(said) > 3
    assert [one for one in said if not re.search(r"tests/[\w/]+", one)] == []


@cache
def told_by(path: Path) -> list[str]:
    """Return the lines of a module's docstring."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n")
