"""An empty Debian root, for tests of what others install on a machine with nothing but Python."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.patience import PATIENCE_S
from tests.programs import program

# A root that was made before, to be used instead of a new one: `debootstrap` takes a minute or two.
KEPT = "RASE_DEBIAN_ROOT"
_INCLUDED = "python3,python3-venv"


@dataclass(frozen=True, slots=True)
class DebianRoot:
    """Run commands in a Debian that holds Python and none of its packages.

    Args:
        path: Where it lies on this machine.
    """

    path: Path

    def command(self, *words: object) -> list[str]:
        """Return what runs a command in there, with nothing of this environment."""
        clean = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "HOME=/root"]
        return [program("chroot"), str(self.path), *clean, *map(str, words)]

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Run a command that must succeed."""
        done = subprocess.run(
            self.command(*words), capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done


@pytest.fixture(scope="session")
def debian_root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DebianRoot]:
    """Debian's smallest system with its own Python, made for this run or kept from another."""
    if kept := os.environ.get(KEPT):
        yield DebianRoot(Path(kept))
        return
    if os.geteuid() != 0:
        pytest.skip("a Debian root is made by root: run this as root or in a container")
    path = tmp_path_factory.mktemp("debian") / "root"
    words = ["--variant=minbase", f"--include={_INCLUDED}", "bookworm", str(path)]
    made = subprocess.run(
        [program("debootstrap"), *words], capture_output=True, text=True, check=False
    )
    try:
        if made.returncode != 0:
            pytest.skip(f"debootstrap failed: {made.stdout.strip().splitlines()[-1]}")
        yield DebianRoot(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)
