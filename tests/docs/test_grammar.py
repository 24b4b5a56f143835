"""The grammar of pages, docstrings and help, as `make grammar` checks it with Harper."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from scripts.grammar.check import Right, Rules, find_mistakes, rules_of
from scripts.grammar.texts import (
    Passage,
    passages_of,
    passages_of_commands,
    passages_of_docstring,
    passages_of_page,
)
from tests.lab.kept_cells import cache_root
from tests.programs import program

ROOT = Path(__file__).parents[2]
RULES = rules_of(tomllib.loads((ROOT / "scripts/grammar/rules.toml").read_text("utf-8")))
needs_harper = pytest.mark.needs("node", "harper")


def test_a_misspelt_word_is_found(tmp_path: Path) -> None:
    """What `make check` runs refuses it, in a page and in the help of an option, with its line."""
    command = [sys.executable, "-m", "codespell_lib", "--toml", str(ROOT / "pyproject.toml")]
    (tmp_path / "right.md").write_text("Each device seals its report.\n", "utf-8")
    right = subprocess.run([*command, str(tmp_path)], check=False, capture_output=True, text=True)
    assert (right.returncode, right.stdout) == (0, "")
    (tmp_path / "page.md").write_text("A page.\n\nEach device recieves a key.\n", "utf-8")
    (tmp_path / "command.py").write_text('HELP = "How reports are seperated."\n', "utf-8")
    wrong = subprocess.run([*command, str(tmp_path)], check=False, capture_output=True, text=True)
    assert wrong.returncode
    assert "page.md:3: recieves ==> receives" in wrong.stdout
    assert "command.py:1: seperated ==> separated" in wrong.stdout


@needs_harper
def test_texts_have_no_mistake() -> None:
    """No page, docstring of a public name or help of a command breaks a rule."""
    passages = list(passages_of(ROOT, generated=RULES.generated))
    assert len(passages) > 10_000
    kept = cache_root() / "grammar.txt"
    assert not [*map(str, find_mistakes(passages, RULES, node=program("node"), kept=kept))]


def test_clean_texts_are_read_once(tmp_path: Path) -> None:
    """A text without a finding is not read again by the same rules; one with a finding always is.

    What is kept is tied to the rules and to the checker: others read all again.
    """
    kept = tmp_path / "folder" / "grammar.txt"
    clean = Passage("page.md", 1, "A report is sent and kept.")
    wrong = [
        Passage(place, 1, "A report is sent and then then kept.") for place in ("a.md", "b.md")
    ]
    few, more = Rules(on=("ThenThan",)), Rules(on=("ThenThan", "RepeatedWords"))
    asked: list[list[str]] = []

    def places(passages: list[Passage], rules: Rules) -> list[str]:
        with pytest.MonkeyPatch.context() as patch:

            def answer(*_: object, **named: Any) -> "subprocess.CompletedProcess[str]":
                given = json.loads(named["input"])
                asked.append(given["passages"])
                found = [
                    {"index": n, "rule": on, "start": 0, "words": "", "message": ""}
                    for n, text in enumerate(given["passages"])
                    for on in given["on"]
                    if on == "RepeatedWords" and "then then" in text
                ]
                written = json.dumps({"found": found, "unknown": []})
                return subprocess.CompletedProcess([], 0, written)

            patch.setattr("scripts.grammar.check.subprocess.run", answer)
            found = find_mistakes(passages, rules, node="node", kept=kept)
        return [one.place for one in found]

    assert places([clean, *wrong], few) == []
    assert places([clean, *wrong], more) == ["a.md", "b.md"]
    assert places([clean, *wrong], more) == ["a.md", "b.md"]
    texts = [clean.text, wrong[0].text]
    assert asked == [texts, texts, texts[1:]]


@needs_harper
def test_planted_mistakes_are_found() -> None:
    """Each is found by its rule, at its line; a text that is right anyhow is not, if still used."""
    planted = [
        Passage("page.md", 3, "A report is sent\nand then then kept."),
        Passage("page.md", 9, "The noise is larger then the reading."),
        Passage("rase run", 0, "You should of asked the device."),
        Passage("page.md", 11, "The fits to resampled reports are kept."),
    ]
    rules = Rules(
        on=("RepeatedWords", "ThenThan", "ModalOf", "InflectedVerbAfterTo", "NoSuchRule"),
        right=(
            Right("InflectedVerbAfterTo", "fits to resampled"),
            Right("ModalOf", "could of"),
        ),
    )
    found = find_mistakes(planted, rules, node=program("node"))
    places = [(one.place, one.line, one.rule) for one in found]
    unused = "scripts/grammar/rules.toml"
    assert places == [
        ("page.md", 4, "RepeatedWords"),
        ("page.md", 9, "ThenThan"),
        ("rase run", 0, "ModalOf"),
        (unused, 0, "NoSuchRule"),
        (unused, 0, "ModalOf"),
    ]
    assert str(found[0]).startswith("page.md:4: 'then then'")
    assert str(found[2]).startswith("rase run: ")


def test_a_page_is_read_without_its_code() -> None:
    """Paragraphs, items and cells are passages; blocks of code, of both kinds, are not."""
    page = (
        "# Title\n\nOne\ntwo.\n\n    code here\n\n```\nmore code\n```\n"
        "- an item\n  of two lines\n\n| a cell | x |\n"
    )
    assert list(passages_of_page("p", page)) == [
        Passage("p", 1, "# Title"),
        Passage("p", 3, "One\ntwo."),
        Passage("p", 11, "an item\nof two lines"),
        Passage("p", 14, "a cell"),
    ]


def test_a_docstring_is_read_without_examples_and_names() -> None:
    """What is said of an argument is a passage; its name and what is typed are not."""
    text = "Do it.\n\n>>> do(1)\n1\n\nArgs:\n    first: What\n        to do.\n    **more: The rest."
    assert list(passages_of_docstring("m.py", 5, text)) == [
        Passage("m.py", 5, "Do it."),
        Passage("m.py", 11, "What\nto do."),
        Passage("m.py", 13, "The rest."),
    ]


def test_help_of_commands_is_read() -> None:
    """Groups, the commands below them, and options are among the places."""
    places = {one.place for one in passages_of_commands()}
    assert {"rase run", "rase run --epsilon", "rase lab run --data"} <= places
