"""Measured cells on disk, keyed by measurement, readings and code.

A cell appears whole or not at all, so that a run may be killed at any moment and resumed.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import rase
from rase.atomic_files import write_atomic

__all__ = ["CellCache", "code_version"]

# What is measured, and what it finds by name; all that these import counts too. Texts, pictures
# and the command line do not, so that they may change without measuring again.
_ROOTS = ("lab/experiments/measure.py", "lab/attacks")
# What a room compiles or reads besides its modules.
_OTHER_SOURCES = frozenset({".c", ".h", ".jsonl", ".sql"})
# Several times as fast as a parser; tests/lab/test_provenance.py compares the two on all sources.
_IMPORT = re.compile(
    r"^[ \t]*(?:import[ \t]+([\w.]+)|from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|.*))",
    re.MULTILINE,
)
_NAME = re.compile(r"\w+")


class CellCache:
    """Keep outcomes in a folder, one small JSON file a cell.

    Args:
        folder: Where; made when the first cell is kept.
        checksum: Of the readings.
        code: The version of the code; that of this package if not given.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     cache = CellCache(Path(folder), checksum="ab", code="cd")
        ...     cache.keep("cell 1", {"recall": 0.5})
        ...     cache.find("cell 1"), cache.find("cell 2")
        ({'recall': 0.5}, None)
    """

    def __init__(self, folder: Path, *, checksum: str, code: str | None = None) -> None:
        self._folder = folder
        self._checksum = checksum
        self.code = code_version() if code is None else code

    def find(self, key: str) -> dict[str, Any] | None:
        """Return the outcome of a cell, or None if it was not measured yet.

        A damaged file counts as not measured.
        """
        with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            kept = json.loads(self._path(key).read_text(encoding="utf-8"))
            if kept["key"] == key:
                outcome: dict[str, Any] = kept["outcome"]
                return outcome
        return None

    def keep(self, key: str, outcome: Mapping[str, Any]) -> None:
        """Keep the outcome of a cell.

        Raises:
            OSError: If the folder cannot be written to.
        """
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps({"key": key, "outcome": outcome}))

    def _path(self, key: str) -> Path:
        name = hashlib.sha256(f"{self.code}\n{self._checksum}\n{key}".encode()).hexdigest()
        return self._folder / name[:2] / f"{name}.json"


@lru_cache(maxsize=16)
def code_version(roots: tuple[str, ...] | None = None) -> str:
    """Return a hash of the sources that a measurement uses: its own and all they import.

    Args:
        roots: Files and folders of the package; those of the experiments unless given.

    Raises:
        FileNotFoundError: If a root is neither.
    """
    root = Path(rase.__file__).parent
    digest = hashlib.sha256()
    for path in _sources(root, roots):
        digest.update(f"{path.relative_to(root).as_posix()}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _sources(root: Path, roots: tuple[str, ...] | None = None) -> list[Path]:
    """Follow imports from the roots to every source of the package they lead to."""
    waiting = [
        path
        for name in roots or _ROOTS
        for path in ((root / name).rglob("*.py") if (root / name).is_dir() else [root / name])
    ]
    found: set[Path] = set()
    named: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        new = _imports_of(path, root.name) - named
        named |= new
        for name in new:
            place = root.joinpath(*name.split("."))
            files = (place.with_suffix(".py"), place / "__init__.py")
            waiting += [file for file in files if file.is_file()]
    rooms = {path.relative_to(root).parts[0] for path in found if path.parent != root}
    for room in rooms:
        found.update(path for path in (root / room).rglob("*") if path.suffix in _OTHER_SOURCES)
    return sorted(found)


def _imports_of(path: Path, package: str) -> set[str]:
    """Return what a source imports of a package, wherever in it: modules, and what may be one."""
    names: set[str] = set()
    for module, origin, imported in _IMPORT.findall(path.read_text(encoding="utf-8")):
        first, *rest = (module or origin).split(".")
        if first == package:
            # A package is imported before what is in it.
            names.update(".".join(rest[:depth]) for depth in range(1, len(rest) + 1))
            names.update(".".join([*rest, name]) for name in _NAME.findall(imported))
    return names
