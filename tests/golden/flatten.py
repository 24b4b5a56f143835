"""Numbers out of a document, under neutral names.

A document is what a command prints as JSON, or values of the library. It becomes a flat mapping of
paths to numbers: ``results[3].estimate`` is the entry 3 of the list under ``results[].estimate``.
Texts are dropped, apart from times, which become seconds since 1970, and whole numbers that are
written as texts because JSON readers would round them.

``names.json`` maps each path of today to the neutral name under which its number is recorded, or to
null if it must not be: what was measured with a clock, dates, versions. There is one map for each
kind of document. What many documents hold, such as an estimate, has a map of its own, and a path
names it: ``"latest": ["latest", "answer"]``. A ``*`` in a path stands for a key that is itself a
name, such as that of an estimator; these are translated by ``words``.

A number whose path is in no map is an error, so that no new field goes unnoticed. When the product
renames a field, the left side of the map follows; the right side and the recorded numbers stay.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Number", "Numbers", "Unmapped", "flattened", "name_maps"]

Number = float | int | bool | None
# Each neutral path with its values, and where in the document each of them was.
Numbers = dict[str, list[tuple[str, Number]]]
NAMES = Path(__file__).with_name("names.json")
_TIME = re.compile(r"\d{4}-\d\d-\d\d([T ][0-9:.]+(Z|[+-]\d\d:\d\d)?)?")
_WHOLE = re.compile(r"-?\d+")


class Unmapped(Exception):
    """A document holds numbers whose paths are in no map."""


@cache
def name_maps() -> dict[str, dict[str, str | None]]:
    """Return the map of each kind of document, and the ``words``."""
    maps = json.loads(NAMES.read_text(encoding="utf-8"))
    return {kind: dict(_whole(names, maps)) for kind, names in maps.items()}


def _whole(names: Mapping[str, Any], maps: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Yield the entries of a map, with those of the maps it names."""
    for path, name in names.items():
        if isinstance(name, list):
            neutral, kind = name
            for inner, inner_name in _whole(maps[kind], maps):
                yield (
                    f"{path}.{inner}",
                    None if inner_name is None else f"{neutral}.{inner_name}",
                )
        else:
            yield path, name


def flattened(
    document: Any,
    names: Mapping[str, str | None],
    words: Mapping[str, str | None],
) -> Numbers:
    """Return the numbers of a document under their neutral names.

    Args:
        document: Mappings, sequences, arrays, dataclasses, numbers and texts, in each other.
        names: Paths of today to neutral names.
        words: Keys that are names to neutral ones.

    Raises:
        Unmapped: If numbers are left for which there is no name.
    """
    found: Numbers = {}
    unknown: dict[str, Number] = {}
    for keys, number in _leaves(document, ()):
        mapped = _mapped(keys, names, words)
        if mapped is None:
            if number is not None:
                unknown.setdefault(_path(keys), number)
        elif mapped[1] is not None:
            found.setdefault(mapped[1], []).append((mapped[0], number))
    if unknown:
        shown = ", ".join(f"{path} = {number}" for path, number in list(unknown.items())[:10])
        raise Unmapped(f"{len(unknown)} paths are not in {NAMES.name}: {shown}")
    return found


def _leaves(value: Any, keys: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield each number with the keys that lead to it."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, (*keys, str(key)))
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _leaves(getattr(value, field.name), (*keys, field.name))
    elif isinstance(value, np.ndarray):
        yield from _leaves(value.tolist(), keys)
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _leaves(inner, (*keys, place))
    elif (number := _number(value)) is not _NOTHING:
        yield keys, number


_NOTHING = object()


def _number(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    if isinstance(value, str) and _TIME.fullmatch(value):
        moment = datetime.fromisoformat(value)
        return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
    return _NOTHING


def _mapped(
    keys: tuple[str | int, ...],
    names: Mapping[str, str | None],
    words: Mapping[str, str | None],
) -> tuple[str, str | None] | None:
    """Return where a number is and its neutral name; None if the map does not know it.

    A path is tried as it is, then with one of its keys as a ``*``.
    """
    pattern = _pattern(keys)
    if pattern in names:
        return _path(keys), names[pattern]
    for place, key in enumerate(keys):
        if not isinstance(key, str) or words.get(key) is None:
            continue
        pattern = _pattern((*keys[:place], "*", *keys[place + 1 :]))
        if pattern in names:
            name = names[pattern]
            return _path(keys), None if name is None else name.replace("*", str(words[key]))
    return None


def _pattern(keys: tuple[str | int, ...]) -> str:
    return _joined("[]" if isinstance(key, int) else f".{key}" for key in keys)


def _path(keys: tuple[str | int, ...]) -> str:
    return _joined(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)


def _joined(parts: Iterator[str]) -> str:
    return "".join(parts).removeprefix(".")
