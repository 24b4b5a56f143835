"""Lines, statements, functions and imports of the source, from its syntax trees."""

import ast
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

__all__ = ["Module", "Room", "Shape", "lonely", "modules_of", "rooms_of", "shape_of"]

_ROOT_ROOM = "(root)"
# Where a statement holds others.
_BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")


@dataclass(frozen=True)
class Module:
    """One file of the source.

    Args:
        name: Its dotted name, without the package's own.
        room: The folder at the top that it is in.
        text: What it says.
        is_package: Whether it is the `__init__` of a folder.
    """

    name: str
    room: str
    text: str
    is_package: bool = False

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """The module and its statements, also those within others; no statement is in a value."""
        found: list[ast.AST] = [self.tree]
        for node in found:
            for block in _BLOCKS:
                found += getattr(node, block, ())
        return found

    @cached_property
    def lines(self) -> int:
        """How many lines it has."""
        return self.text.count("\n")

    @cached_property
    def statements(self) -> int:
        """How many statements it has; a docstring is none."""
        return sum(isinstance(node, ast.stmt) for node in self.nodes) - len(self.docstrings)

    @cached_property
    def docstrings(self) -> list[ast.stmt]:
        """Those of the module, of its classes and of its functions."""
        return list(_docstrings(self.nodes))

    @cached_property
    def code_lines(self) -> int:
        """How many lines hold code: neither empty, nor a comment, nor a docstring."""
        documented: set[int] = set()
        for node in self.docstrings:
            documented.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        return sum(
            bool(line.strip()) and not line.lstrip().startswith("#") and number not in documented
            for number, line in enumerate(self.text.splitlines(), start=1)
        )

    @cached_property
    def function_lengths(self) -> list[int]:
        """How many lines each function has, without decorators."""
        return [
            (node.end_lineno or node.lineno) - node.lineno + 1
            for node in self.nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]


@dataclass(frozen=True, slots=True)
class Room:
    """The size of one room."""

    name: str
    files: int
    lines: int
    statements: int


@dataclass(frozen=True, slots=True)
class Shape:
    """How dense the code is, and how long its functions are.

    Args:
        statements_per_line: Statements for each line that holds code.
        functions: How many there are.
        median: Lines of the middle function.
        p90: Lines that nine in ten functions do not exceed.
        longest: Lines of the longest.
    """

    statements_per_line: float
    functions: int
    median: float
    p90: float
    longest: int


def modules_of(source: Path) -> list[Module]:
    """Read every Python file below a package's folder."""
    modules = []
    for path in sorted(source.rglob("*.py")):
        place = path.relative_to(source)
        room = place.parts[0] if len(place.parts) > 1 else _ROOT_ROOM
        text = path.read_text(encoding="utf-8")
        modules.append(Module(_dotted(place), room, text, path.name == "__init__.py"))
    return modules


def rooms_of(modules: Sequence[Module]) -> list[Room]:
    """Return the size of each room, the largest first."""
    by_room: defaultdict[str, list[Module]] = defaultdict(list)
    for module in modules:
        by_room[module.room].append(module)
    rooms = [
        Room(name, len(held), sum(one.lines for one in held), sum(one.statements for one in held))
        for name, held in by_room.items()
    ]
    return sorted(rooms, key=lambda room: -room.lines)


def shape_of(modules: Sequence[Module]) -> Shape:
    """Return how dense the code is, and how long its functions are."""
    lengths = sorted(length for module in modules for length in module.function_lengths)
    code = sum(module.code_lines for module in modules)
    return Shape(
        statements_per_line=sum(module.statements for module in modules) / max(code, 1),
        functions=len(lengths),
        median=statistics.median(lengths) if lengths else 0,
        p90=lengths[int(0.9 * len(lengths))] if lengths else 0,
        longest=lengths[-1] if lengths else 0,
    )


def lonely(modules: Sequence[Module], package: str = "rase") -> list[str]:
    """Return the modules that exactly one other module of their own room imports, and nobody else.

    Imports for types alone count, too: whoever reads the importer has to open the module. A package
    is no module of its own: importing one of its modules imports it.
    """
    names = {module.name for module in modules if not module.is_package}
    importers: Mapping[str, set[str]] = defaultdict(set)
    for module in modules:
        for target in _imports(module, names, package):
            if target != module.name:
                importers[target].add(module.name)
    room = {module.name: module.room for module in modules}
    return [
        name
        for name in sorted(names)
        if len(importers[name]) == 1
        and room[name] != _ROOT_ROOM
        and room[next(iter(importers[name]))] == room[name]
    ]


def _imports(module: Module, names: set[str], package: str) -> Iterator[str]:
    for node in module.nodes:
        if isinstance(node, ast.Import):
            asked = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            asked = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in asked:
            short = name.removeprefix(f"{package}.")
            if name.startswith(f"{package}.") and short in names:
                yield short


def _docstrings(nodes: Sequence[ast.AST]) -> Iterator[ast.stmt]:
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                yield first


def _dotted(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
