"""The language of code and text: banned words, and functions named by a bare participle."""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.house.code import Module

__all__ = [
    "Found",
    "Word",
    "find_banned",
    "is_participle",
    "participles",
    "pending_problems",
    "words_of",
]

_TEXTS = (".py", ".html", ".js", ".md")
_PLACES = ("src/rase", "docs", "README.md", "CONTRIBUTING.md")
# Libraries of others, and pages that a program writes from measurements.
_FOREIGN = ("src/rase/dashboard/static/vendor", "src/rase/studio/static/vendor")

# How many characters around a word may make it legitimate.
_REACH = 120
# Participles that do not end in "ed". Left out are forms that are also the present tense, and so
# name what a function does: cut, let, put, read, run, set, split.
_IRREGULAR = frozenset(
    [
        "begun",
        "bent",
        "bound",
        "bought",
        "broken",
        "brought",
        "built",
        "caught",
        "chosen",
        "done",
        "drawn",
        "driven",
        "fallen",
        "fed",
        "felt",
        "flown",
        "forgotten",
        "found",
        "given",
        "gone",
        "grown",
        "heard",
        "held",
        "hidden",
        "hung",
        "kept",
        "known",
        "laid",
        "led",
        "left",
        "lost",
        "made",
        "meant",
        "met",
        "paid",
        "rung",
        "said",
        "seen",
        "sent",
        "shaken",
        "shown",
        "sought",
        "spent",
        "spoken",
        "spun",
        "stolen",
        "struck",
        "sworn",
        "swept",
        "taken",
        "taught",
        "thought",
        "thrown",
        "told",
        "torn",
        "understood",
        "withdrawn",
        "withheld",
        "won",
        "written",
    ]
)
# They end in "ed" and are no participles.
_NO_PARTICIPLES = frozenset(
    ["bed", "embed", "exceed", "feed", "need", "proceed", "red", "seed", "shed", "speed", "succeed"]
)


@dataclass(frozen=True, slots=True)
class Word:
    """A banned word.

    Args:
        pattern: What it looks like.
        instead: What to write.
        allow: What makes a use legitimate; a space stands for any white space.
    """

    pattern: re.Pattern[str]
    instead: str
    allow: tuple[re.Pattern[str], ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """One use of a banned word."""

    path: str
    line: int
    word: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word!r}; write: {self.instead}."


def words_of(listed: Sequence[Mapping[str, Any]]) -> list[Word]:
    """Return the words as a file lists them."""
    return [
        Word(
            re.compile(rf"(?<![A-Za-z])(?:{one['pattern']})(?![A-Za-z])", re.IGNORECASE),
            one["instead"],
            tuple(
                re.compile(allowed.replace(" ", r"\s+"), re.IGNORECASE)
                for allowed in one.get("allow", ())
            ),
        )
        for one in listed
    ]


def find_banned(root: Path, words: Sequence[Word]) -> Iterator[Found]:
    """Yield every banned word in the source, the documentation and the two pages at the root."""
    for path in _texts(root):
        name = path.relative_to(root).as_posix()
        text = path.read_text(encoding="utf-8")
        for word in words:
            for match in word.pattern.finditer(text):
                if not _is_allowed(text, match, word.allow):
                    line = text.count("\n", 0, match.start()) + 1
                    yield Found(name, line, match.group(), word.instead)


def pending_problems(found: Sequence[Found], pending: Mapping[str, int]) -> Iterator[str]:
    """Yield a sentence for each word outside of the pending parts, or above what these may have."""
    counts: Counter[str] = Counter()
    for one in found:
        part = next((part for part in pending if f"{one.path}/".startswith(f"{part}/")), None)
        if part is None:
            yield str(one)
        else:
            counts[part] += 1
    for part, most in pending.items():
        if counts[part] > most:
            yield f"{part} must have at most {most} banned words, got {counts[part]}."
        elif counts[part] == 0:
            yield f"{part} has no banned word any more: take it off the list of pending parts."


def participles(modules: Sequence[Module]) -> list[str]:
    """Return the functions that are named by a bare participle, as ``module:name``."""
    return [
        f"{module.name}:{node.name}"
        for module in modules
        for node in module.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_participle(node.name)
    ]


def is_participle(name: str) -> bool:
    """Return whether a name is one word that is a participle, such as `shown` or `_joined`."""
    bare = name.strip("_")
    if "_" in bare or bare in _NO_PARTICIPLES:
        return False
    return bare in _IRREGULAR or bare.endswith("ed")


def _texts(root: Path) -> Iterator[Path]:
    for place in _PLACES:
        top = root / place
        paths = sorted(top.rglob("*")) if top.is_dir() else [top]
        for path in paths:
            name = path.relative_to(root).as_posix()
            if path.suffix in _TEXTS and path.is_file() and not name.startswith(_FOREIGN):
                yield path


def _is_allowed(text: str, match: re.Match[str], allow: Sequence[re.Pattern[str]]) -> bool:
    """Return whether a legitimate use covers the word; it may begin on the line before."""
    start = max(match.start() - _REACH, 0)
    around = text[start : match.end() + _REACH]
    return any(
        found.start() <= match.start() - start < found.end()
        for allowed in allow
        for found in allowed.finditer(around)
    )
