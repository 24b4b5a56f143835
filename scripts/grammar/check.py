"""Run Harper over passages, and sort out what is right although a rule objects.

Reading a passage costs Harper a millisecond or two, and there are thousands; so each text is read
once, and where a file is named, texts in which it found nothing are not read again until the
rules, the checker or the texts change.
"""

import hashlib
import json
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.grammar.texts import Passage

from rase.atomic_files import write_atomic

__all__ = ["Mistake", "Right", "Rules", "find_mistakes", "rules_of"]

_PROGRAM = Path(__file__).parent / "check.mjs"
_LOCK = Path(__file__).parent / "package-lock.json"


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


def find_mistakes(
    passages: Sequence[Passage], rules: Rules, *, node: str, kept: Path | None = None
) -> list[Mistake]:
    """Return every mistake in the passages, and every entry of the rules that has no use.

    Args:
        passages: What to check.
        rules: How.
        node: The program Node.js.
        kept: The file in which hashes of texts without any finding are kept, if any.
    """
    places: defaultdict[str, list[Passage]] = defaultdict(list)
    for passage in passages:
        places[passage.text].append(passage)
    clean = _Clean(kept, rules)
    texts = [text for text in places if text not in clean]
    asked = {"passages": texts, "on": rules.on}
    done = subprocess.run(
        [node, str(_PROGRAM)], input=json.dumps(asked), capture_output=True, text=True, check=True
    )
    answer = json.loads(done.stdout)
    clean.keep(set(places) - {texts[one["index"]] for one in answer["found"]})
    found = [(one, passage) for one in answer["found"] for passage in places[texts[one["index"]]]]
    used: set[Right] = set()
    mistakes = list(_mistakes(found, rules.right, used))
    mistakes += [_useless(rule, "there is no such rule") for rule in answer["unknown"]]
    mistakes += [
        _useless(one.rule, f"nothing needs the exception for {one.text!r} any more")
        for one in rules.right
        if one not in used
    ]
    return mistakes


class _Clean:
    """The texts in which this checker with these rules found nothing, by their hashes."""

    def __init__(self, kept: Path | None, rules: Rules) -> None:
        checker = _PROGRAM.read_text("utf-8") + _LOCK.read_text("utf-8")
        self._version = f"{checker} {rules.on}"
        self._file = kept
        self._hashes: set[str] = set()
        # A file that cannot be read costs time alone.
        with suppress(OSError):
            if self._file:
                self._hashes.update(self._file.read_text("utf-8").split())

    def __contains__(self, text: str) -> bool:
        return self._hash(text) in self._hashes

    def keep(self, texts: set[str]) -> None:
        """Keep these, and only these, if they can be kept."""
        with suppress(OSError):
            if self._file:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(self._file, "\n".join(sorted(map(self._hash, texts))))

    def _hash(self, text: str) -> str:
        return hashlib.sha256(f"{self._version}\0{text}".encode()).hexdigest()


def _mistakes(
    found: Sequence[tuple[Mapping[str, Any], Passage]], right: Sequence[Right], used: set[Right]
) -> Iterator[Mistake]:
    for one, passage in found:
        start = one["start"]
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
