"""Pack the device agent into one file, ``dist/rase-device.pyz``, that a bare Python runs.

What is packed is what ``rase.device.__main__`` and the laws import, at once or later, followed
through the source; and paho, for MQTT, as locked. The same sources give the same bytes: names are
sorted, all files have one time, and there is no bytecode.
"""

import ast
import hashlib
import io
import sys
import zipfile
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path

from rase.device.sources import SOURCES
from rase.laws.registry import REGISTRY

__all__ = ["ENTRIES", "FOREIGN", "foreign_imports", "modules_of", "pack_device"]

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
# The program, and the laws and sources, which are imported by name when they are asked for.
ENTRIES = (
    "rase.device.__main__",
    *sorted({f"rase.laws.{module}" for _, module, _ in REGISTRY.values()}),
    *sorted(f"rase.device.sources.{kind.module}" for kind in SOURCES.values()),
)
# Files that the modules of a package read; only these are packed besides modules.
DATA = {".css", ".js", ".jsonl", ".sql"}
# What the agent uses where it is installed, and works without.
FOREIGN = {"cryptography", "numpy"}
VENDORED = "paho-mqtt"
_START = """\
import sys

if sys.version_info < (3, 11):
    found = "%d.%d" % sys.version_info[:2]
    sys.exit("rase-device.pyz: error: Python must be 3.11 or newer, got " + found + ".")

from rase.device.__main__ import main

sys.exit(main())
"""


def main() -> int:
    """Write the file that is named, or dist/rase-device.pyz, and print size and digest."""
    target = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "dist/rase-device.pyz"
    target.parent.mkdir(parents=True, exist_ok=True)
    content = pack_device()
    target.write_bytes(content)
    target.chmod(0o755)
    digest = hashlib.sha256(content).hexdigest()
    print(f"{target}: {len(content):,} bytes, SHA-256 {digest}")
    return 0


def pack_device() -> bytes:
    """Return the bytes of the file."""
    files = {"__main__.py": _START.encode(), "LICENSE": (ROOT / "LICENSE").read_bytes()}
    for path in modules_of(ENTRIES).values():
        files[path.relative_to(SOURCE).as_posix()] = path.read_bytes()
    packages = {Path(name).parent for name in files if name.endswith("/__init__.py")}
    for package in packages:
        for path in (SOURCE / package).iterdir():
            if path.suffix in DATA:
                files[path.relative_to(SOURCE).as_posix()] = path.read_bytes()
    files |= _vendored()
    memory = io.BytesIO()
    memory.write(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(memory, "a", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, content)
    return memory.getvalue()


def modules_of(entries: Sequence[str]) -> dict[str, Path]:
    """Return the project's modules that some lead to, by name, and the packages above each.

    Args:
        entries: The modules to begin with.
    """
    found: dict[str, Path] = {}
    waiting = list(entries)
    while waiting:
        name = waiting.pop()
        path = _file_of(name)
        if name in found or path is None:
            continue
        found[name] = path
        waiting += [name.rpartition(".")[0], *_imports(path)]
    return found


def foreign_imports(modules: dict[str, Path]) -> set[str]:
    """Return the packages outside of the project and the standard library that modules import."""
    tops = {name.partition(".")[0] for path in modules.values() for name in _imports(path)}
    return tops - set(sys.stdlib_module_names) - {"rase"}


def _imports(path: Path) -> set[str]:
    """Return every name that a file imports anywhere but for its types."""
    names: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(path.read_bytes())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
        waiting += ast.iter_child_nodes(node)
    return names


def _file_of(name: str) -> Path | None:
    if not name.startswith("rase"):
        return None
    base = SOURCE / name.replace(".", "/")
    return next(
        (path for path in (base / "__init__.py", base.with_suffix(".py")) if path.is_file()), None
    )


def _vendored() -> dict[str, bytes]:
    """Return the files of the vendored package, with its licences."""
    package = distribution(VENDORED)
    files = {}
    for file in package.files or []:
        name = file.as_posix()
        if name.endswith((".py", ".dist-info/METADATA")) or ".dist-info/licenses/" in name:
            files[name] = file.read_binary()
    if not any("/licenses/" in name for name in files):
        raise SystemExit(f"{VENDORED} must carry its licence; none was found.")
    return files


if __name__ == "__main__":
    sys.exit(main())
