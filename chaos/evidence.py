"""What every result says of itself: the command, the seed, and the code it was measured with."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

from rase.lab.cache import code_version

__all__ = ["measured"]

_ROOTS = ("cli", "device", "fusion", "shuffler", "subscriber")


def measured(command: str, *, seed: int | None) -> dict[str, Any]:
    """Return command, seed, hash of the programs' sources, and the date of their last change."""
    return {
        "command": command,
        "seed": seed,
        "code": code_version(_ROOTS),
        "code_date": _code_date(),
    }


def _code_date() -> str | None:
    """Return the day of the last commit of the sources; None outside a repository."""
    root = Path(__file__).parents[1]
    git = shutil.which("git")
    if git is None:
        return None
    command = [git, "log", "-1", "--format=%cs", "--", "src"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None
