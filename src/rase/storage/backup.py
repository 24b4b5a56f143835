"""A copy of a server's SQLite file while the server runs, for its owner only."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from rase.errors import ConfigurationError, StorageUnusable

__all__ = ["back_up"]

_PAGES = 1024


def back_up(source: Path, target: Path, *, erase: str | None = None) -> None:
    """Copy a database of one moment into a new file that only its owner can read.

    Args:
        source: The database; a server may be writing to it.
        target: The copy; it must not exist, so that no older copy, with whatever mode it has, is
            written over.
        erase: Statements that take out of the copy what must not be kept twice.

    Raises:
        ConfigurationError: If the target exists or cannot be made.
        StorageUnusable: If the database is absent, damaged or cannot be read.
    """
    if not source.is_file():
        raise StorageUnusable(f"the database must be a file that exists, got {source}.")
    try:
        # The mode is set when the file is made: there is no moment at which others can read it.
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        raise ConfigurationError(
            [f"the copy must be a new file, got {target}; name another."]
        ) from None
    except OSError as error:
        problem = (
            f"the copy {target} cannot be made: {error.strerror}. Name a folder that exists and "
            "can be written."
        )
        raise ConfigurationError([problem]) from None
    try:
        _copy(source, target, erase)
    except sqlite3.Error as error:
        target.unlink()
        raise StorageUnusable(f"the database {source} cannot be copied: {error}.") from None
    except BaseException:
        target.unlink()
        raise


def _copy(source: Path, target: Path, erase: str | None) -> None:
    address = f"file:{quote(str(source.absolute()))}?mode=ro"
    with (
        closing(sqlite3.connect(address, uri=True)) as original,
        closing(sqlite3.connect(target)) as copied,
    ):
        # One view of the file for all pieces: otherwise each commit of the server would make the
        # copy begin again, and that of a busy one would never end. No writer waits for a reader.
        original.execute("BEGIN")
        original.execute("SELECT 1 FROM sqlite_master").fetchone()
        original.backup(copied, pages=_PAGES)
        if copied.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise sqlite3.DatabaseError("it is damaged")
        if erase is not None:
            copied.executescript(erase)
            # Not only unlinked: no page of the file holds it any more.
            copied.execute("VACUUM")
