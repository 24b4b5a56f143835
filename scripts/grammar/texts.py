"""The texts that people read, in passages: pages, docstrings of public names, help of commands."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import click

__all__ = [
    "Passage",
    "passages_of",
    "passages_of_commands",
    "passages_of_docstring",
    "passages_of_page",
]

_PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs")
_FENCE = re.compile(r"\s*(```|~~~)")
_CODE = re.compile(r" {4,}|\t")
_ITEM = re.compile(r"\s*([-*]|\d+\.) ")
_TITLE = re.compile(r"(Args|Returns|Raises|Yields|Attributes|Example|Examples):$")
# An argument, and what it is; the name is code.
_ARGUMENT = re.compile(r"( {4,})\**([A-Za-z_][\w.]*)( \([^)]*\))?: ")


@dataclass(frozen=True, slots=True)
class Passage:
    """One passage of text, and where it begins.

    Args:
        place: A file from the root, or a command and its option.
        line: The line of the file it begins at; 0 for what a command prints.
        text: The passage, as Markdown.
    """

    place: str
    line: int
    text: str


def passages_of(root: Path, *, generated: Sequence[str] = ()) -> Iterator[Passage]:
    """Yield all that is checked: pages, docstrings of public names, help of every command.

    Args:
        root: The project.
        generated: Pages that a program writes from the texts of others.
    """
    for name in _PAGES:
        top = root / name
        for page in sorted(top.rglob("*.md")) if top.is_dir() else [top]:
            place = page.relative_to(root).as_posix()
            if place not in generated:
                yield from passages_of_page(place, page.read_text(encoding="utf-8"))
    for module in sorted((root / "src").rglob("*.py")):
        place = module.relative_to(root).as_posix()
        for line, text in _docstrings(ast.parse(module.read_text(encoding="utf-8"))):
            yield from passages_of_docstring(place, line, text)
    yield from passages_of_commands()


def passages_of_page(place: str, text: str) -> Iterator[Passage]:
    """Yield the paragraphs, items and cells of tables of a page, without its code."""
    fenced, after_text = False, False
    block: list[tuple[int, str]] = []
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        if _FENCE.match(line):
            fenced = not fenced
        is_code = fenced or _FENCE.match(line) or (_CODE.match(line) and not after_text)
        is_row = line.lstrip().startswith("|")
        if block and (is_code or is_row or not line.strip() or _ITEM.match(line)):
            yield Passage(place, block[0][0], "\n".join(part for _, part in block))
            block = []
        if is_row and not fenced:
            yield from (
                Passage(place, number, cell.strip())
                for cell in line.split("|")
                if " " in cell.strip()
            )
        elif line.strip() and not is_code:
            block.append((number, line.strip() if block else _ITEM.sub("", line).strip()))
        # Indented lines below a sentence or an item carry it on.
        after_text = bool(line.strip()) and not is_code


def passages_of_docstring(place: str, line: int, text: str) -> Iterator[Passage]:
    """Yield the paragraphs of a docstring, without its examples and names of arguments."""
    block: list[str] = []
    start, in_example = line, False
    for number, part in enumerate([*text.splitlines(), ""], start=line):
        in_example = bool(part.strip()) and (in_example or part.lstrip().startswith(">>>"))
        argument = _ARGUMENT.match(part)
        is_end = not part.strip() or in_example or argument or _TITLE.match(part.strip())
        if block and is_end:
            yield Passage(place, start, "\n".join(block))
            block = []
        if part.strip() and not in_example and not _TITLE.match(part.strip()):
            start = start if block else number
            block.append((part[argument.end() :] if argument else part).strip())


def passages_of_commands() -> Iterator[Passage]:
    """Yield the help of every command of `rase`, and of every option of it."""
    commands = import_module("rase.cli").COMMANDS
    for name, place in commands.items():
        yield from _help_of(f"rase {name}", import_module(place.module).command)


def _help_of(typed: str, command: click.Command) -> Iterator[Passage]:
    for paragraph in re.split(r"\n\s*\n", (command.help or "").split("\f")[0]):
        if paragraph and not paragraph.startswith("\b"):
            yield Passage(typed, 0, paragraph)
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.help:
            yield Passage(f"{typed} {parameter.opts[-1]}", 0, parameter.help)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            if found is not None:
                yield from _help_of(f"{typed} {below}", found)


def _docstrings(node: ast.Module | ast.ClassDef) -> Iterator[tuple[int, str]]:
    """Yield the first line and the text of each docstring of a module's or class's public names."""
    if text := ast.get_docstring(node):
        yield node.body[0].lineno, text
    for one in node.body:
        is_public = not getattr(one, "name", "_").startswith("_")
        if is_public and isinstance(one, ast.ClassDef):
            yield from _docstrings(one)
        elif is_public and isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(one) or ""
            yield one.body[0].lineno, text
