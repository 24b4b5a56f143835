"""Files that are there whole or not at all: written next to their place, then moved there.

Whoever reads such a file sees the old one or the new one, at every moment and after every crash.
Pure Python without NumPy, because the device agent imports it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

__all__ = ["replacing", "replacing_folder", "sync_folder", "write_atomic"]


@contextmanager
def replacing(
    path: Path, *, mode: int | None = None, part: Path | None = None
) -> Iterator[IO[bytes]]:
    """Open a file that takes the place of ``path`` if all goes well, and is on the disk then.

    Args:
        path: The file to be; its folder must exist.
        mode: Who may read it, from the first moment on; what the process's mask says if None.
        part: Where it is written until it is whole, and what a dead process left is removed; a name
            of this process's own if None, for files that several processes may write.

    Raises:
        OSError: If the file cannot be written; an older file then stays as it was.
    """
    part = part or _part_of(path)
    try:
        with os.fdopen(_open_new(part, path, mode), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()
    sync_folder(path.parent)


def write_atomic(path: Path, content: bytes | str, *, mode: int | None = None) -> None:
    """Write a file so that nobody ever sees a part of it.

    Args:
        path: The file to be; its folder must exist.
        content: What it will hold; texts become UTF-8.
        mode: Who may read it; what the process's mask says if None.

    Raises:
        OSError: If the file cannot be written; an older file then stays as it was.
    """
    with replacing(path, mode=mode) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing_folder(path: Path, *, mode: int = 0o777) -> Iterator[Path]:
    """Make a folder that gets its name only if all goes well; half of one would look like a whole.

    Args:
        path: The folder to be; an empty one may be in its place.
        mode: Who may look into it, less what the process's mask forbids.

    Raises:
        OSError: If the folder cannot be made, or something else has that name.
    """
    import shutil  # brings compressors along, which a device agent never needs

    part = _part_of(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.mkdir(mode=mode)
        yield part
        part.replace(path)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk, as the files that they name are."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _part_of(path: Path) -> Path:
    """Return where this process writes a file until it is whole."""
    return path.with_name(f".{path.name}.{os.getpid()}.part")


def _open_new(part: Path, path: Path, mode: int | None) -> int:
    """Open a new file with its mode, so that there is no moment in which others could read it."""
    try:
        # A process of the same number may have died here.
        part.unlink(missing_ok=True)
        handle = os.open(
            part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode
        )
    except OSError as error:
        # Whoever reads this asked for the one, and has never heard of the other.
        raise OSError(error.errno, error.strerror, str(path)) from None
    if mode is not None:
        os.fchmod(handle, mode)
    return handle
