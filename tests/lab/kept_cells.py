"""Measured cells that outlive a run of the tests, and a clone.

Cells lie in a folder named by all that their outcomes depend on but the readings: the sources that
measure, the compiled kernels, Python and the packages that compute. `CellCache` adds the readings.
"""

import hashlib
import os
import platform
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import rase
from rase.clock import SystemClock
from rase.lab.cache import CellCache, code_version

MOST_VERSIONS = 20
MOST_DAYS = 30
_DAY_S = 86_400
_PACKAGES = ("cryptography", "numpy", "scikit-learn", "scipy")


class KeptCells(CellCache):
    """Cells on a disk that may be full or read-only: what cannot be kept is measured again."""

    def keep(self, key: str, outcome: Mapping[str, Any]) -> None:
        """Keep the outcome of a cell if it can be kept."""
        with suppress(OSError):
            super().keep(key, outcome)


def kept_folder(otherwise: Path) -> Path:
    """Return the folder for cells of this code, used from now on, and remove forgotten ones.

    It is in RASE_TEST_CACHE if that is set, else where XDG puts caches.

    Args:
        otherwise: Where to keep cells if nothing can be written there.
    """
    try:
        versions = cache_root() / "lab-cells"
        folder = versions / cells_version()
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            os.utime(folder)
        remove_unused(versions, now_s=SystemClock().now_s())
    except (OSError, RuntimeError):  # no home, read-only, a file in the way
        return otherwise
    return folder


def cells_version() -> str:
    """Return a hash of all that outcomes depend on, apart from readings and settings."""
    digest = hashlib.sha256(code_version().encode())
    kernels = Path(rase.__file__).parent / "kernels"
    for path in sorted([*kernels.glob("*.c"), *kernels.glob("*.h")]):
        digest.update(f"{path.name}\n".encode() + path.read_bytes())
    digest.update(f"{bool(list(kernels.glob('*.so')))} {platform.machine()}".encode())
    digest.update(f"{sys.version} {[version(name) for name in _PACKAGES]}".encode())
    return digest.hexdigest()[:16]


def remove_unused(versions: Path, *, now_s: float) -> None:
    """Remove the folders of versions that were not used for long, and the oldest of too many."""
    used = {}
    for folder in versions.iterdir():
        with suppress(FileNotFoundError):  # another process removes it, too
            used[folder] = folder.stat().st_mtime
    newest = sorted(used, key=lambda folder: used[folder], reverse=True)
    for place, folder in enumerate(newest):
        if place >= MOST_VERSIONS or used[folder] < now_s - MOST_DAYS * _DAY_S:
            shutil.rmtree(folder, ignore_errors=True)


def cache_root() -> Path:
    """Return the folder of what outlives a run of the tests, and a clone."""
    if named := os.environ.get("RASE_TEST_CACHE"):
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "rase-tests"
