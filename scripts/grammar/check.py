"""Run Harper over passages, and sort out what is right although a rule objects."""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.grammar.texts import Passage

__all__ = ["Mistake", "Right", "Rules", "find_mistakes", "rules_of"]

_PROGRAM = Path(__file__).parent / "check.mjs"


@dataclass(frozen=True, slots=True)
class Right:
    """A text that is right although a rule objects to it."""

    rule: str
    text: str


@dataclass(frozen=True, slots=True)
class Rules:
    """What is checked.

    Args:
        on: The rules that are used.
        right: Texts that are right although a rule objects.
        generated: Pages that a program writes.
    """

    on: tuple[str, ...] = ()
    right: tuple[Right, ...] = ()
    generated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mistake:
    """What a rule objects to, and where."""

    place: str
    line: int
    rule: str
    words: str
    message: str

    def __str__(self) -> str:
        where = f"{self.place}:{self.line}" if self.line else self.place
        return f"{where}: {self.words!r}: {self.message} ({self.rule})"


def rules_of(listed: Mapping[str, Any]) -> Rules:
    """Return the rules as a file lists them."""
    return Rules(
        on=tuple(listed["on"]),
        right=tuple(Right(**one) for one in listed.get("right", ())),
        generated=tuple(listed.get("generated", ())),
    )


def find_mistakes(passages: Sequence[Passage], rules: Rules, *, node: str) -> list[Mistake]:
    """Return every mistake in the passages, and every entry of the rules that has no use.

    Args:
        passages: What to check.
        rules: How.
        node: The program Node.js.
    """
    asked = {"passages": [one.text for one in passages], "on": rules.on}
    done = subprocess.run(
        [node, str(_PROGRAM)], input=json.dumps(asked), capture_output=True, text=True, check=True
    )
    answer = json.loads(done.stdout)
    used: set[Right] = set()
    mistakes = list(_mistakes(answer["found"], passages, rules.right, used))
    mistakes += [_useless(rule, "there is no such rule") for rule in answer["unknown"]]
    mistakes += [
        _useless(one.rule, f"nothing needs the exception for {one.text!r} any more")
        for one in rules.right
        if one not in used
    ]
    return mistakes


def _mistakes(
    found: Sequence[Mapping[str, Any]],
    passages: Sequence[Passage],
    right: Sequence[Right],
    used: set[Right],
) -> Iterator[Mistake]:
    for one in found:
        passage, start = passages[one["index"]], one["start"]
        end = start + len(one["words"])
        covering = {
            entry
            for entry in right
            if entry.rule == one["rule"] and _covers(entry.text, passage.text, start, end)
        }
        used |= covering
        if not covering:
            line = passage.line and passage.line + passage.text.count("\n", 0, start)
            yield Mistake(passage.place, line, one["rule"], one["words"], one["message"])


def _covers(text: str, passage: str, start: int, end: int) -> bool:
    """Return whether a text stands in the passage around what a rule objects to."""
    flat = passage.replace("\n", " ")
    at = flat.find(text, max(0, end - len(text)))
    return 0 <= at <= start and end <= at + len(text)


def _useless(rule: str, reason: str) -> Mistake:
    return Mistake("scripts/grammar/rules.toml", 0, rule, rule, f"{reason}: take it out.")
