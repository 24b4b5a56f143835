"""The language that code and text are held to: banned words, and names of functions."""

import re
from pathlib import Path

import pytest
from scripts.house.code import Module
from scripts.house.language import (
    Found,
    Word,
    find_banned,
    is_participle,
    participles,
    pending_problems,
    words_of,
)

LISTED = [
    {"pattern": "told|tells?", "instead": "state", "allow": [r"\btells?\b[^.]{0,80}\bapart\b"]},
]


def write(root: Path, name: str, text: str) -> None:
    """Write a file of a made-up project."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a project with one good module and the pages that every project has."""
    write(tmp_path, "src/rase/good.py", '"""Return a number."""\n')
    write(tmp_path, "docs/index.md", "A page.\n")
    write(tmp_path, "README.md", "A page.\n")
    write(tmp_path, "CONTRIBUTING.md", "A page.\n")
    return tmp_path


def test_a_banned_word_is_found_with_its_place_and_what_to_write(root: Path) -> None:
    """It is found in names of functions and in pages, whatever its case, and not inside words."""
    write(root, "src/rase/bad.py", "\n\ndef _told() -> int: ...\n")
    write(root, "docs/guides/bad.md", "Tells all. A toldo is none of it.\n")
    found = list(find_banned(root, words_of(LISTED)))
    assert found == [
        Found("src/rase/bad.py", 3, "told", "state"),
        Found("docs/guides/bad.md", 1, "Tells", "state"),
    ]
    assert str(found[0]) == "src/rase/bad.py:3: 'told'; write: state."


def test_a_legitimate_use_is_allowed_even_across_lines(root: Path) -> None:
    """To tell two things apart is no other word for reporting them."""
    write(root, "docs/bad.md", "Nobody can tell two readings\napart.\n\nThey tell it.\n")
    assert [one.line for one in find_banned(root, words_of(LISTED))] == [4]


def test_a_pending_part_may_have_as_many_words_as_listed_and_must_shrink() -> None:
    """More words, a word elsewhere, and a part without any are problems."""
    found = [Found("src/rase/lab/a.py", line, "told", "state") for line in (1, 2)]
    assert list(pending_problems(found, {"src/rase/lab": 2})) == []
    assert list(pending_problems(found, {"src/rase/lab": 1})) == [
        "src/rase/lab must have at most 1 banned words, got 2."
    ]
    assert list(pending_problems(found, {})) == [str(one) for one in found]
    assert list(pending_problems(found, {"src/rase/lab": 2, "docs": 1})) == [
        "docs has no banned word any more: take it off the list of pending parts."
    ]


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("shown", True),
        ("_joined", True),
        ("__told", True),
        ("show_login", False),
        ("joined_parts", False),
        ("read", False),
        ("split", False),
        ("seed", False),
    ],
)
def test_a_participle_is_one_word_that_says_what_was_done(name: str, is_one: bool) -> None:
    """Verbs with an object, and forms that are also the present tense, are none."""
    assert is_participle(name) is is_one


def test_functions_and_methods_are_counted_wherever_they_are() -> None:
    """Methods and functions inside of functions are counted, classes are not."""
    text = "class Told:\n    def shown(self):\n        def drawn(): ...\n\ndef draw(): ...\n"
    assert participles([Module("a.b", "a", text)]) == ["a.b:shown", "a.b:drawn"]


def test_words_are_read_without_what_they_do_not_allow() -> None:
    """A word without a list of legitimate uses has none."""
    assert words_of([{"pattern": "anew", "instead": "again"}]) == [
        Word(re.compile("(?<![A-Za-z])(?:anew)(?![A-Za-z])", re.IGNORECASE), "again")
    ]
