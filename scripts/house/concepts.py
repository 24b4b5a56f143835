"""One idea, one home: which implementations of an idea there are, held against a checked list."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scripts.house.code import Module

__all__ = ["Concept", "concepts_of", "problems"]


@dataclass(frozen=True, slots=True)
class Concept:
    """An idea, where it is implemented, and how another implementation would be recognised.

    Args:
        name: What the idea is called.
        homes: Each implementation as ``module:name``.
        signs: Regular expressions; a module that holds one, and is no home, is another home.
    """

    name: str
    homes: tuple[str, ...]
    signs: tuple[str, ...] = ()


def concepts_of(listed: Sequence[Mapping[str, Any]]) -> list[Concept]:
    """Return the concepts as a file lists them."""
    return [
        Concept(one["name"], tuple(one["homes"]), tuple(one.get("signs", ()))) for one in listed
    ]


def problems(concepts: Sequence[Concept], modules: Sequence[Module]) -> Iterator[str]:
    """Yield homes that no longer exist, and implementations that are not listed."""
    by_name = {module.name: module for module in modules}
    for concept in concepts:
        for home in concept.homes:
            place, _, name = home.partition(":")
            if place not in by_name or name not in _defined(by_name[place].tree):
                yield f"{concept.name}: {home} is listed, but there is no such thing: remove it."
        known = {home.partition(":")[0] for home in concept.homes}
        for sign in concept.signs:
            for module in modules:
                if module.name not in known and re.search(sign, module.text, re.MULTILINE):
                    yield f"{concept.name}: {module.name} looks like another one ({sign})."


def _defined(tree: ast.Module) -> set[str]:
    names = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names.update(
                f"{node.name}.{one.name}"
                for one in node.body
                if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
            )
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        if isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return names
