"""One file after another for targets that read files, in memory where there is such a folder."""

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

__all__ = ["written"]


def written(name: str, data: bytes) -> Path:
    """Return a file with these bytes; the next one of the name takes its place."""
    path = _folder() / name
    path.write_bytes(data)
    return path


@functools.cache
def _folder() -> Path:
    memory = Path("/dev/shm")  # noqa: S108 - a folder of its own name is made there
    place = memory if memory.is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="rase-fuzz-", dir=place))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
