"""Files that appear whole or not at all: written beside their place, then put there."""

import os
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: Path, content: bytes | str) -> None:
    """Write a file so that nobody ever sees a part of it.

    Args:
        path: The file to be; its folder must exist.
        content: What it shall hold; texts become UTF-8.

    Raises:
        OSError: If it cannot be written; an older file then stays as it was.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        beside.write_bytes(content.encode() if isinstance(content, str) else content)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
