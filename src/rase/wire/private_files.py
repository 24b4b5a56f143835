"""Write files of secrets for their owner only, and read them with an eye on who else could.

A file of keys or passwords that others can read is refused. A token is read all the same, with a
warning: shells make such files by ``>``, and containers mount them for everybody.
"""

import os
import stat
import sys
from pathlib import Path
from typing import Final, TextIO

from rase.atomic_files import replacing, sync_folder

__all__ = [
    "is_open_to_others",
    "read_private",
    "read_secret",
    "replace_private",
    "secret_of",
    "write_private",
]

_OTHERS: Final = 0o077
_GROUP_READS: Final = 0o040
_LONGEST: Final = 2048


def write_private(path: Path, text: str) -> None:
    """Write a new file that only its owner can read; an existing one is never overwritten.

    It is on the disk when this returns, and not there at all if it could not be written whole.

    Raises:
        FileExistsError: If there is a file of that name.
    """
    # The mode is set when the file is made: there is no moment in which others could open it.
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(handle)
    except BaseException:
        # Half a key would keep a whole one from being written in its place.
        path.unlink()
        raise
    sync_folder(path.parent)


def replace_private(path: Path, text: str) -> None:
    """Replace a file that only its owner can read; the old or the new one is always there.

    Raises:
        OSError: If the file could not be written; the old one is unchanged.
    """
    with replacing(path, mode=0o600, part=path.with_name(f".{path.name}.new")) as file:
        file.write(text.encode("ascii"))


def read_private(path: Path) -> str:
    """Return the text of a file that only its owner can read.

    Raises:
        PermissionError: If others can read it too.
    """
    with path.open(encoding="ascii", errors="replace") as file:
        mode = os.fstat(file.fileno()).st_mode & 0o777
        if is_open_to_others(path, mode):
            raise PermissionError(f"{path} must be for its owner only (chmod 600), got {mode:o}.")
        return file.read(_LONGEST)


def read_secret(path: Path) -> str:
    """Return a token or an address with a password from a file, without blank ends.

    Raises:
        OSError: If the file cannot be read.
        UnicodeDecodeError: If the file is not text.
    """
    with path.open(encoding="utf-8") as file:
        return secret_of(file)


def secret_of(file: TextIO, *, most: int = -1) -> str:
    """Return the secret in an open file, and warn on standard error if others can read it, too.

    What is no file of its own, such as a pipe or a terminal, is nobody else's to open, and about
    a file that was led to standard input nothing is said.

    Args:
        file: The file.
        most: How many characters are read; all of them if it is below 0.

    Raises:
        UnicodeDecodeError: If the file is not text.
    """
    try:
        mode = os.fstat(file.fileno()).st_mode
    except OSError:
        # A file in memory has no mode.
        return file.read(most).strip()
    # Standard input has a name that is no path, what was opened by a number has none.
    if stat.S_ISREG(mode) and isinstance(file.name, str) and file is not sys.stdin:
        path = Path(file.name)
        if is_open_to_others(path, mode):
            sys.stderr.write(
                f"rase: warning: {path} holds a secret and must be for its owner only, got "
                f"{mode & 0o777:o}: chmod 600 {path}\n"
            )
    return file.read(most).strip()


def is_open_to_others(path: Path, mode: int) -> bool:
    """Return whether a file of this mode can be read by others than its owner."""
    given = os.environ.get("CREDENTIALS_DIRECTORY")
    if given and path.resolve().parent == Path(given).resolve():
        # systemd opens its credentials to one user by an access list, whose mask stands in the
        # place of the group's rights.
        mode &= ~_GROUP_READS
    return bool(mode & _OTHERS)
