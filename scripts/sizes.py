"""Measure how many bytes the locked packages download, into requirements/sizes.json.

Called by lock.py, on the machine that locks: other systems and versions of Python download other
files of about the same size. bootstrap.py says the sum before it downloads.
"""

import json
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "requirements" / "sizes.json"
PROFILES = ("demo", "dev", "server", "spark", "bench", "fuzz", "installer", "release")


def main() -> int:
    """Ask pip what it would install for each profile, and each file for its size."""
    reports = []
    with tempfile.TemporaryDirectory() as scratch:
        for profile in PROFILES:
            report = Path(scratch) / "report.json"
            options = [
                "--dry-run",
                "--ignore-installed",
                "--no-deps",
                "--require-hashes",
                "--quiet",
            ]
            lock = f"--requirement=requirements/{profile}.txt"
            command = [sys.executable, "-m", "pip", "install", *options, lock]
            subprocess.run([*command, f"--report={report}"], check=True, cwd=ROOT)
            reports.append(json.loads(report.read_text(encoding="utf-8")))
    write(sizes_of(reports, size_at), TABLE)
    return 0


def sizes_of(reports: Iterable[Any], measure: Callable[[str], int]) -> dict[str, int]:
    """Return the bytes of every package of the reports, by its name and version."""
    files = {
        f"{normal(one['metadata']['name'])}=={one['metadata']['version']}": (
            one["download_info"]["url"]
        )
        for report in reports
        for one in report["install"]
    }
    return {name: measure(url) for name, url in sorted(files.items())}


def size_at(url: str) -> int:
    """Return the size of a file, without fetching it where it is far away."""
    if url.startswith("file:"):
        return Path(unquote(urlsplit(url).path)).stat().st_size
    request = urllib.request.Request(url, method="HEAD")  # noqa: S310 - what pip would fetch
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        return int(answer.headers["Content-Length"])


def write(sizes: dict[str, int], path: Path) -> None:
    """Write the table, a package a line."""
    path.write_text(json.dumps(sizes, indent=0) + "\n", encoding="utf-8")


def normal(name: str) -> str:
    """Return a package's name as locks spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main())
