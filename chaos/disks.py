"""Disks that take their time: a library, preloaded, that makes a process wait for every sync."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

__all__ = ["build_slow_disk", "compiler", "disk_variables"]

_SOURCE: Final = Path(__file__).with_name("slow_disk.c")


def compiler() -> str | None:
    """Return the C compiler; None if there is none, or it does not even tell its version."""
    found = shutil.which("cc") or shutil.which("gcc")
    if found is None:
        return None
    asked = subprocess.run([found, "--version"], capture_output=True, check=False)
    return found if asked.returncode == 0 else None


def build_slow_disk(folder: Path) -> Path:
    """Build the library and return its file.

    Args:
        folder: Where it goes.

    Raises:
        RuntimeError: If it cannot be built, with what the compiler said.
    """
    library = folder / "slow_disk.so"
    command = [compiler() or "cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE)]
    done = subprocess.run([*command, "-ldl"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{_SOURCE.name} cannot be built: {done.stderr}")
    return library


def disk_variables(library: Path, name: str, before: dict[str, str]) -> dict[str, str]:
    """Return the environment of a process whose disk is slowed by a file.

    Args:
        library: As built.
        name: The process's.
        before: Its environment until now; what is preloaded there stays so.
    """
    file = library.with_name(f"{name}.disk")
    file.write_text("0")
    preloaded = f"{before.get('LD_PRELOAD', '')} {library}".strip()
    return {**before, "LD_PRELOAD": preloaded, "RASE_SLOW_DISK": str(file)}
