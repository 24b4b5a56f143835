"""Cells of a long benchmark on disk, so that it can be stopped and continued.

A cell counts as long as neither the code that was measured nor that which measures has changed.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rase.lab.cache import CellCache, code_version

__all__ = ["Figures", "KeptCells"]

Figures = dict[str, float]

_HERE = Path(__file__).parent
_FOLDER = _HERE / ".cells"


class KeptCells:
    """Keep the figures of a benchmark, cell by cell.

    Args:
        roots: The modules of the package that are measured; all that they import counts, too.
        files: The files of this folder that measure.
        folder: Where.
        is_kept: Whether to keep and find anything.
    """

    def __init__(
        self,
        roots: Sequence[str],
        files: Sequence[str],
        *,
        folder: Path = _FOLDER,
        is_kept: bool = True,
    ) -> None:
        digest = hashlib.sha256(code_version(tuple(roots)).encode())
        for name in files:
            digest.update((_HERE / name).read_bytes())
        code = digest.hexdigest()
        self._cache = CellCache(folder, checksum="", code=code) if is_kept else None

    def measured(self, key: str, work: Callable[[], Mapping[str, float]]) -> Figures:
        """Return the figures of a cell, measured now if they are not kept."""
        found = None if self._cache is None else self._cache.find(key)
        if found is None:
            found = dict(work())
            if self._cache is not None:
                self._cache.keep(key, found)
        return found
