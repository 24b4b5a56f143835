"""The command-line reference names every command and every option."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

from rase.cli import COMMANDS, main

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")


def commands(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Yield a command and those below it, by what one types."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from commands(f"{name} {below}", found)


TYPED = [
    typed
    for name, place in COMMANDS.items()
    for typed in commands(f"rase {name}", import_module(place.module).command)
]


@pytest.mark.parametrize("width", [80, 120])
def test_help_fits_a_terminal(width: int) -> None:
    """No line of any command's help is longer than a terminal is wide."""
    assert len(TYPED) > 80
    for name, command in TYPED:
        context = click.Context(
            command, info_name=name, terminal_width=width, max_content_width=width
        )
        longest = max(command.get_help(context).splitlines(), key=len)
        assert len(longest) <= width, f"{name}: {longest}"


def test_every_option_is_documented() -> None:
    """A command has a section of its own that names all its options, and no others."""
    for name, command in TYPED:
        assert f"## `{name}" in REFERENCE
        section = REFERENCE.split(f"## `{name}", 1)[1].split("\n## ", 1)[0]
        options = {
            option
            for parameter in command.params
            if isinstance(parameter, click.Option)
            for option in parameter.opts
            if option.startswith("--")
        }
        documented = {word.strip("`") for word in section.split() if word.startswith("`--")}
        assert documented == options, name


def test_every_command_has_help() -> None:
    """Each command and option says what it does."""
    for _, command in TYPED:
        assert command.help
        for parameter in command.params:
            assert not isinstance(parameter, click.Option) or parameter.help


def test_exit_codes_are_documented() -> None:
    """The exit codes stand in the reference."""
    for code in (0, 1, 2, 3, 4, 5, 6, 7, 130):
        assert f"| {code} |" in REFERENCE


def mentioned(page: Path) -> Iterator[str]:
    """Yield what a page shows as typed: in blocks, in indented lines, and within sentences."""
    text = page.read_text(encoding="utf-8")
    yield from re.findall(r"^[ >$]*(rase [a-z].*)$", text, re.MULTILINE)
    yield from re.findall(r"`(rase [a-z][^`]*)`", text)


PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]


def test_every_command_that_a_page_shows_exists() -> None:
    """Commands and options in documents are those of the program."""
    known = dict(TYPED)
    wrong = []
    lines = [(page, line) for page in PAGES for line in mentioned(page)]
    assert len(lines) > len(PAGES)
    for page, line in lines:
        words = re.split(r"[\s\[\]|]+", line.split(" #")[0].split(" > ")[0])
        name, rest = "rase", words[1:]
        while rest and f"{name} {rest[0]}" in known:
            name, rest = f"{name} {rest[0]}", rest[1:]
        if name == "rase" and rest[:1] in (["help"], ["version"]):
            # Read by the group as --help and --version: tests/cli/test_main.py.
            continue
        if name == "rase":
            wrong.append((page.name, line))
            continue
        allowed = {"--help", *(o for p in known[name].params for o in (*p.opts, *p.secondary_opts))}
        below = [n for n in known if n.startswith(f"{name} ")]
        is_group = bool(below) and bool(rest) and re.fullmatch(r"[a-z-]+", rest[0]) is not None
        options = [word.split("=")[0].rstrip(",.;:)") for word in rest if word.startswith("--")]
        if is_group or not allowed.issuperset(options):
            wrong.append((page.name, line))
    assert wrong == []


def plans() -> list[str]:
    """Return every question to the planner that a page shows whole, without the reader's files."""
    needs_more = re.compile("…|LOW|--data|--plot|--range-from")
    lines = {line for page in PAGES for line in mentioned(page) if line.startswith("rase plan --")}
    return sorted(line for line in lines if not needs_more.search(line))


def test_every_plan_that_a_page_shows_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    """A reader who types it gets the error to expect, not a complaint about what is missing."""
    assert plans()
    for line in plans():
        exit_code = main(line.split()[1:])
        shown = capsys.readouterr()
        assert exit_code == 0, (line, shown.err)
        answers = ("unbiased_mean", "what you ask", "a share is known to")
        assert any(words in shown.out for words in answers), line
