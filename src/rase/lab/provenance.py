"""What every record of a measurement states about itself: command, seed, commit, date and code."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import rase
from rase.clock import Clock, SystemClock
from rase.lab.cache import code_version

__all__ = ["HEADER", "Measurement", "is_of_this_code"]

HEADER = ("command", "seed", "commit", "date", "seconds", "rooms", "code")


class Measurement:
    """Take the time of a measurement and the state of the sources when it began.

    Args:
        rooms: The files and folders of the package that are measured; all they import counts too.
        clock: Gives the date and how long it took.

    Raises:
        FileNotFoundError: If a room is not in the package.
        ValueError: If there is no room.

    Example:
        >>> header = Measurement(("domain.py",)).header("rase demo", seed=1)
        >>> header["command"], header["seed"], header["rooms"]
        ('rase demo', 1, ['domain.py'])
    """

    def __init__(self, rooms: Sequence[str], *, clock: Clock | None = None) -> None:
        if not rooms:
            raise ValueError("rooms must name at least one file or folder, got none.")
        self._rooms = tuple(rooms)
        self._clock = SystemClock() if clock is None else clock
        self._code = _code_now(self._rooms)
        self._commit = _commit()
        self._start_s = self._clock.monotonic_s()

    def header(self, command: str, *, seed: int | None) -> dict[str, Any]:
        """Return the header of the record, at the end of the measurement.

        The code is None if the sources changed in the meantime: programs that were started late
        ran other code than those that were started early.

        Args:
            command: What to type to measure the same again.
            seed: The seed; None if the randomness is secure or each test has its own seed.
        """
        is_same = _code_now(self._rooms) == self._code
        values = (
            command,
            seed,
            self._commit,
            datetime.fromtimestamp(self._clock.now_s(), UTC).date().isoformat(),
            round(self._clock.monotonic_s() - self._start_s, 1),
            list(self._rooms),
            self._code if is_same else None,
        )
        return dict(zip(HEADER, values, strict=True))


def is_of_this_code(record: Mapping[str, Any]) -> bool:
    """Return whether the sources that a record speaks of are those of today.

    A record without rooms or code is of unknown code, and a room that is gone was changed.
    """
    rooms, code = record.get("rooms"), record.get("code")
    if not rooms or not code:
        return False
    try:
        return code_version(tuple(rooms)) == str(code)
    except FileNotFoundError:
        return False


def _code_now(rooms: tuple[str, ...]) -> str:
    """Return the hash of the sources as they are on the disk now, whatever was hashed before."""
    code: str = code_version.__wrapped__(rooms)
    return code


def _commit() -> str | None:
    """Return the commit of the sources, with "+changes" where they differ from it.

    None if the package is not in a repository of its own: one that is installed may lie within
    somebody else's.
    """
    package = Path(rase.__file__).parent
    if _git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    commit = _git(package, "rev-parse", "HEAD")
    if commit and _git(package, "status", "--porcelain", "--", "."):
        return f"{commit}+changes"
    return commit or None


def _git(folder: Path, *arguments: str) -> str | None:
    git = shutil.which("git")
    if git is None:
        return None
    done = subprocess.run(  # noqa: S603 - fixed commands
        [git, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    return None if done.returncode else done.stdout.strip()
