"""Reports by bucket, in memory up to a limit and on disk beyond it.

Only randomized reports come here, so nothing that is spilled needs more protection than what leaves
a device. The file has no name: it vanishes with the process, however that ends.
"""

import errno
import os
import tempfile
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import IO, Self

from rase.engine.packed import pack, unpack
from rase.engine.tally import Tally
from rase.errors import StorageBusy
from rase.pipeline.keyed import Reports

__all__ = ["BucketStore"]

# Written at once, so that a spill does not hold all other threads for long.
_AT_ONCE = 64 << 20


class BucketStore:
    """Collect reports in any order and give them back bucket by bucket.

    Use it as a context manager, which frees the disk. Several threads may use it together.

    Args:
        memory_bytes: How many bytes may be held before some are spilled.
        folder: Where to spill; the system's folder for temporary files if None.

    Attributes:
        spilled_bytes: How many bytes were written to disk.

    Raises:
        ValueError: If ``memory_bytes`` is not positive.

    Example:
        >>> import numpy as np
        >>> some = Reports(np.array([7, 7]), np.zeros(2, np.uint64), np.array([1.5, 2.5]))
        >>> with BucketStore(memory_bytes=1) as store:
        ...     store.add(0, some)
        ...     parts = store.take(0)
        >>> parts[0].report.tolist(), store.spilled_bytes
        ([1.5, 2.5], 48)
    """

    def __init__(self, memory_bytes: int, *, folder: Path | None = None) -> None:
        if memory_bytes <= 0:
            raise ValueError(f"memory_bytes must be greater than 0, got {memory_bytes}.")
        self.memory_bytes = memory_bytes
        self.spilled_bytes = 0
        self._folder = folder
        self._held: dict[tuple[int, int], list[Reports]] = {}
        self._held_bytes = 0
        self._spilled: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self._tallies: dict[int, Tally] = {}
        self._file: IO[bytes] | None = None
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def count(self, bucket: int, tally: Tally) -> None:
        """Add what was counted for a bucket."""
        with self._lock:
            self._tallies[bucket] = self._tallies.get(bucket, Tally()) + tally

    def add(self, bucket: int, reports: Reports, *, shard: int = 0) -> None:
        """Add reports of a bucket.

        Raises:
            StorageBusy: If the disk is full.
        """
        with self._lock:
            self._held.setdefault((bucket, shard), []).append(reports)
            self._held_bytes += reports.nbytes
            while self._held_bytes > self.memory_bytes:
                self._spill()

    def take(self, bucket: int, *, shard: int = 0) -> list[Reports]:
        """Return all reports of a bucket, or of a shard of it, once."""
        with self._lock:
            held = self._held.pop((bucket, shard), [])
            self._held_bytes -= _size(held)
            places = self._spilled.pop((bucket, shard), [])
        return [*(unpack(self._read(*place)) for place in places), *held]

    def take_tally(self, bucket: int) -> Tally:
        """Return what was counted for a bucket, once."""
        with self._lock:
            return self._tallies.pop(bucket, Tally())

    def tally(self) -> Tally:
        """Return what was counted for all buckets that are still here."""
        with self._lock:
            total = Tally()
            for tally in self._tallies.values():
                total += tally
            return total

    def close(self) -> None:
        """Free memory and disk."""
        self._held, self._spilled, self._held_bytes = {}, {}, 0
        if self._file is not None:
            self._file.close()
            self._file = None

    def _spill(self) -> None:
        """Write the largest buckets to disk, until a good part of the limit is free."""
        wanted = min(_AT_ONCE, max(self.memory_bytes // 2, 1))
        by_size = sorted(self._held, key=lambda place: -_size(self._held[place]))
        freed = 0
        for place in by_size:
            for reports in self._held.pop(place):
                packed = pack(reports)
                self._spilled.setdefault(place, []).append((self._write(packed), len(packed)))
                freed += reports.nbytes
                self._held_bytes -= reports.nbytes
            if freed >= wanted:
                return

    def _write(self, blob: memoryview) -> int:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(  # noqa: SIM115 - closed with the store
                    prefix="rase-", dir=self._folder, buffering=0
                )
            start = self._file.seek(0, os.SEEK_END)
            written = 0
            while written < len(blob):
                written += self._file.write(blob[written:]) or 0
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            place = self._folder or tempfile.gettempdir()
            raise StorageBusy(
                f"the disk of {place} is full after {self.spilled_bytes >> 20} MiB of spilled "
                "reports; nothing was released. Free some space, give more --memory, or name "
                "another folder in TMPDIR."
            ) from error
        self.spilled_bytes += len(blob)
        return start

    def _read(self, start: int, size: int) -> bytes:
        if self._file is None:
            raise ValueError("a store must be open to be read, got a closed one.")
        parts = []
        while size:
            # At a place of its own, so that threads do not move each other's.
            part = os.pread(self._file.fileno(), size, start)
            if not part:
                raise OSError(errno.EIO, "spilled reports are cut off")
            parts.append(part)
            start, size = start + len(part), size - len(part)
        return b"".join(parts)


def _size(parts: list[Reports]) -> int:
    return sum(part.nbytes for part in parts)
