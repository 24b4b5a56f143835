"""Write what the locked files install as a bill of materials: CycloneDX 1.6 in JSON.

Made of requirements/*.txt alone, with the standard library alone: nothing is installed or asked
for, and the same locked files give the same bytes, so there is no time in it.
"""

import argparse
import json
import re
import sys
import tomllib
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["PROFILES", "bill", "locked"]

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "requirements"
# What running needs comes first: a package of it is required, all others are excluded from that.
PROFILES = ("demo", "dev", "bench", "fuzz", "spark", "installer", "release")
_PACKAGE = re.compile(r"^([A-Za-z0-9._-]+)==(\S+?)(?:\s*;\s*(.*?))?\s*\\?$", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def main() -> int:
    """Write the bill to the file that is named, or show it; of some profiles where they are."""
    parser = argparse.ArgumentParser(description="Write the bill of materials.")
    parser.add_argument("--profile", action="append", help="of this locked file; may be repeated")
    parser.add_argument("file", nargs="?", type=Path)
    options = parser.parse_args()
    text = json.dumps(bill(options.profile or PROFILES), indent=1, ensure_ascii=False) + "\n"
    if options.file is None:
        print(text, end="")
        return 0
    target: Path = options.file
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    return 0


def bill(profiles: Sequence[str] = PROFILES) -> dict[str, Any]:
    """Return the whole document.

    Args:
        profiles: The locked files whose packages it lists.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for profile in profiles:
        for name, version, hashes in locked(profile):
            one = found.setdefault((name, version), {"profiles": [], "hashes": set()})
            one["profiles"].append(profile)
            one["hashes"] |= hashes
    components = [_component(*key, **one) for key, one in sorted(found.items())]
    inside = json.dumps(components, sort_keys=True)
    own = f"pkg:pypi/{project['name']}@{project['version']}"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, own + inside)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": project["name"],
                "version": project["version"],
                "purl": own,
                "licenses": [{"license": {"id": project["license"]}}],
            }
        },
        "components": components,
        "dependencies": [{"ref": own, "dependsOn": [one["bom-ref"] for one in components]}],
    }


def locked(profile: str) -> list[tuple[str, str, set[str]]]:
    """Return name, version and hashes of every package that a profile locks."""
    text = (FOLDER / f"{profile}.txt").read_text("utf-8")
    heads = list(_PACKAGE.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    return [
        (head.group(1), head.group(2), set(_HASH.findall(text[head.end() : end])))
        for head, end in zip(heads, ends, strict=True)
    ]


def _component(name: str, version: str, *, profiles: list[str], hashes: set[str]) -> dict[str, Any]:
    purl = f"pkg:pypi/{name}@{version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "scope": "required" if {"demo", "server"} & set(profiles) else "excluded",
        "purl": purl,
        "hashes": [{"alg": "SHA-256", "content": one} for one in sorted(hashes)],
        "properties": [{"name": "rase:profile", "value": profile} for profile in profiles],
    }


if __name__ == "__main__":
    sys.exit(main())
