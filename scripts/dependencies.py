"""Write docs/reference/dependencies.md: every package that is installed, with its licence.

Run it in an environment that holds them (.venv-fuzz, with what requirements/release.txt names):
licences come from the packages' own metadata. Which packages there are comes from the locked files,
so a test can tell that the page is current without any of them.
"""

import re
import sys
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.sbom import locked

__all__ = ["PAGE", "licence"]

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/reference/dependencies.md"
_HEAD = """# Dependencies

Every Python package that this project installs, with the licence named in its metadata.
`requirements/*.txt` lock their versions and hashes, and nothing else is installed (`pip
--require-hashes`). `make sbom` writes a CycloneDX bill of materials; `make audit-dependencies` asks
a public service for known vulnerabilities. `scripts/dependencies.py` writes this page.

"""
# Where no metadata says it: read in the licence files of the packages.
_READ = {"atheris": "Apache-2.0", "colorama": "BSD-3-Clause (Windows only)"}
_SHORT = 60


def main() -> int:
    """Write the page."""
    running = {name for name, _, _ in locked("demo")}
    others = ("dev", "fuzz", "installer", "release")
    testing = {name for profile in others for name, _, _ in locked(profile)} - running
    parts = [_HEAD]
    for title, names in (("To run it", running), ("To test and document it", testing)):
        rows = [f"| {name} | {licence(name)} |\n" for name in sorted(names)]
        parts.append(f"## {title}\n\n| package | licence |\n|---|---|\n{''.join(rows)}\n")
    PAGE.write_text("".join(parts).rstrip() + "\n", encoding="utf-8")
    return 0


def licence(name: str) -> str:
    """Return the licence of an installed package, as short as its metadata has it."""
    if name in _READ:
        return _READ[name]
    try:
        found = metadata(name).json
    except PackageNotFoundError:
        return "not installed on this system"
    plain = str(found.get("license_expression") or found.get("license") or "")
    if plain and len(plain) <= _SHORT and "\n" not in plain:
        return plain
    kinds = [
        one.rpartition(" :: ")[2]
        for one in found.get("classifier", [])
        if one.startswith("License :: ")
    ]
    if kinds:
        return ", ".join(kinds)
    return re.split(r"[\n.]", plain.strip())[0][:_SHORT] or "not named"


if __name__ == "__main__":
    sys.exit(main())
