"""Packed reports by bucket, in memory up to a limit and on disk beyond it.

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

from rase.engine.tally import Tally
from rase.errors import StorageBusy

__all__ = ["BucketStore"]

# Written at once, so that a spill does not hold all other threads for long.
_AT_ONCE = 64 << 20


class BucketStore:
    """Collect packed reports in any order and give them back bucket by bucket.

    Use it as a context manager, which frees the disk. Several threads may use it together.

    Args:
        memory_bytes: How many bytes may be held before some are spilled.
        folder: Where to spill; the system's folder for temporary files if None.

    Attributes:
        spilled_bytes: How many bytes were written to disk.

    Raises:
        ValueError: If ``memory_bytes`` is not positive.

    Example:
        >>> with BucketStore(1 << 20) as store:
        ...     store.add(7, b"some", tally=Tally(reports=1))
        ...     store.add(7, b" reports", tally=Tally(reports=2))
        ...     blobs, tally = store.take(7)
        >>> b"".join(blobs), tally.reports
        (b'some reports', 3)
    """

    def __init__(self, memory_bytes: int, *, folder: Path | None = None) -> None:
        if memory_bytes <= 0:
            raise ValueError(f"memory_bytes must be greater than 0, got {memory_bytes}.")
        self.memory_bytes = memory_bytes
        self.spilled_bytes = 0
        self._folder = folder
        self._held: dict[int, list[bytes]] = {}
        self._held_bytes = 0
        self._spilled: dict[int, list[tuple[int, int]]] = {}
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

    def add(self, bucket: int, packed: bytes, *, tally: Tally) -> None:
        """Add packed reports of a bucket, and what was counted for it.

        Raises:
            StorageBusy: If the disk is full.
        """
        with self._lock:
            self._tallies[bucket] = self._tallies.get(bucket, Tally()) + tally
            if packed:
                self._held.setdefault(bucket, []).append(packed)
                self._held_bytes += len(packed)
            while self._held_bytes > self.memory_bytes:
                self._spill()

    def take(self, bucket: int) -> tuple[list[bytes], Tally]:
        """Return all of a bucket, once."""
        with self._lock:
            held = self._held.pop(bucket, [])
            self._held_bytes -= sum(map(len, held))
            places = self._spilled.pop(bucket, [])
            tally = self._tallies.pop(bucket, Tally())
        return [*(self._read(*place) for place in places), *held], tally

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
        by_size = sorted(self._held, key=lambda bucket: -sum(map(len, self._held[bucket])))
        freed = 0
        for bucket in by_size:
            blobs = self._held.pop(bucket)
            for blob in blobs:
                self._spilled.setdefault(bucket, []).append((self._write(blob), len(blob)))
                freed += len(blob)
                self._held_bytes -= len(blob)
            if freed >= wanted:
                return

    def _write(self, blob: bytes) -> int:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(  # noqa: SIM115 - closed with the store
                    prefix="rase-", dir=self._folder, buffering=0
                )
            start = self._file.seek(0, os.SEEK_END)
            written = 0
            while written < len(blob):
                written += self._file.write(memoryview(blob)[written:]) or 0
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
