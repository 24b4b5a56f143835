"""Rows by partition of their rounds, in memory up to a limit, encrypted on disk beyond it.

Tables that cannot be read round after round, because of their order, pass through here once. What
is spilled holds readings before any noise, so it is encrypted with a key that exists in this
process's memory alone, and the file has no name: it vanishes with the process, however that ends.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from rase.errors import StorageBusy
from rase.tables.readings import Devices, KeyedRows, distinct_tags

__all__ = ["PARTITIONS", "RowStore"]

# Rounds are dealt out to so many partitions, by their number.
_PARTITION_BITS = 6
PARTITIONS = 1 << _PARTITION_BITS
# Knuth's multiplier: 2^64 divided by the golden ratio.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_COLUMNS = [("time_ms", "<i8"), ("tag", "<u8", (2,)), ("public", "<u8"), ("quanta", "<f8")]
# Pieces of a partition are written when they are at least so large, but for the last.
_PIECE_BYTES = 1 << 18
_NONCE_BYTES = 12


@dataclass(slots=True, repr=False)
class _Partition:
    """Rows of some rounds, those held and where those spilled are; without ``repr``."""

    held: list[NDArray[Any]] = field(default_factory=list)
    held_bytes: int = 0
    spilled: list[tuple[int, int, int]] = field(default_factory=list)
    rows: int = 0
    null_ms: list[int] = field(default_factory=list)


class RowStore:
    """Collect rows in any order and give them back partition by partition.

    A round lies wholly in one partition, its rows in the order in which they came. Use it as a
    context manager, which frees the disk. Several threads may take partitions at the same time.

    Args:
        memory_bytes: How many bytes may be held before some are spilled.
        interval_ms: The length of a round; None makes each time a round.
        has_budgets: Whether devices differ in epsilon.
        has_labels: Whether devices have labels.
        folder: Where to spill; the system's folder for temporary files if None.

    Attributes:
        spilled_bytes: How many bytes were written to disk.
    """

    def __init__(
        self,
        memory_bytes: int,
        *,
        interval_ms: int | None,
        has_budgets: bool = False,
        has_labels: bool = False,
        folder: Path | None = None,
    ) -> None:
        self.spilled_bytes = 0
        self._limit = max(memory_bytes, _PIECE_BYTES)
        self._interval_ms = interval_ms or 1
        self._has_budgets, self._has_labels = has_budgets, has_labels
        more = [("epsilon", "<f8")] * has_budgets + [("label", "<i8")] * has_labels
        self._row = np.dtype([*_COLUMNS, *more])
        self._folder = folder
        self._partitions = [_Partition() for _ in range(PARTITIONS)]
        self._held_bytes = 0
        self._file: IO[bytes] | None = None
        self._cipher = AESGCM(AESGCM.generate_key(bit_length=256))
        self._pieces = 0
        self._lock = Lock()

    def __enter__(self) -> Self:
        """Return the store."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Forget all rows and free the disk."""
        self._partitions = []
        if self._file is not None:
            self._file.close()

    def add(self, rows: KeyedRows) -> None:
        """Take the next rows of the table.

        Raises:
            StorageBusy: If the disk is full.
        """
        table = np.empty(len(rows.time_ms), dtype=self._row)
        table["time_ms"] = rows.time_ms
        table["tag"] = rows.devices.tags.take(rows.device, axis=0)
        table["public"] = rows.devices.public[rows.device]
        table["quanta"] = rows.quanta
        if self._has_budgets and rows.devices.epsilon is not None:
            table["epsilon"] = rows.devices.epsilon[rows.device]
        if self._has_labels and rows.devices.label is not None:
            table["label"] = rows.devices.label[rows.device]
        part = self._partition_of(rows.time_ms)
        nulls = rows.null_ms
        null_part = self._partition_of(nulls)
        order = np.argsort(part, kind="stable")
        ends = np.cumsum(np.bincount(part, minlength=PARTITIONS)).tolist()
        for number, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            if end > start:
                self._keep(self._partitions[number], table[order[start:end]])
        for number in np.unique(null_part).tolist():
            self._partitions[number].null_ms += nulls[null_part == number].tolist()
        while self._held_bytes > self._limit:
            self._spill(max(self._partitions, key=lambda one: one.held_bytes))

    def _partition_of(self, time_ms: NDArray[np.int64]) -> NDArray[np.uint8]:
        # Times of rounds are often multiples of some number: the product's leading bits are not.
        rounds = (time_ms // self._interval_ms).view(np.uint64)
        return ((rounds * _GOLDEN) >> np.uint64(64 - _PARTITION_BITS)).astype(np.uint8)

    def sizes(self) -> list[int]:
        """Return how many rows with a reading each partition has."""
        return [one.rows for one in self._partitions]

    def take(self, number: int, *, part: int = 0, slices: int = 1) -> KeyedRows:
        """Return the rows of a partition, or of those devices in it that fall into a slice.

        Args:
            number: The partition.
            part: Which part of its devices.
            slices: Into how many parts its devices are cut, because all rows are too many to hold.
        """
        one = self._partitions[number]
        pieces = [_sliced(piece, part, slices) for piece in self._read(one)]
        table = np.concatenate(pieces) if pieces else np.empty(0, dtype=self._row)
        first, code = distinct_tags(np.ascontiguousarray(table["tag"]))
        devices = Devices(
            np.ascontiguousarray(table["tag"][first]),
            np.ascontiguousarray(table["public"][first]),
            np.ascontiguousarray(table["epsilon"][first]) if self._has_budgets else None,
            label=np.ascontiguousarray(table["label"][first]) if self._has_labels else None,
        )
        nulls = one.null_ms if part == 0 else []
        return KeyedRows(
            np.ascontiguousarray(table["time_ms"]),
            code,
            np.ascontiguousarray(table["quanta"]),
            devices,
            np.array(nulls, dtype=np.int64),
        )

    def drop(self, number: int) -> None:
        """Forget a partition."""
        with self._lock:
            self._held_bytes -= self._partitions[number].held_bytes
            self._partitions[number] = _Partition()

    def _keep(self, one: _Partition, rows: NDArray[Any]) -> None:
        one.held.append(rows)
        one.held_bytes += rows.nbytes
        one.rows += len(rows)
        self._held_bytes += rows.nbytes

    def _spill(self, one: _Partition) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - closed at exit
        plain = np.concatenate(one.held).tobytes()
        # One key a store and one number a piece: no nonce serves twice.
        nonce = self._pieces.to_bytes(_NONCE_BYTES, "big")
        sealed = self._cipher.encrypt(nonce, plain, None)
        try:
            place = self._file.seek(0, os.SEEK_END)
            self._file.write(sealed)
            self._file.flush()
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                folder = self._folder or tempfile.gettempdir()
                raise StorageBusy(
                    f"the disk of {folder} is full after {self.spilled_bytes >> 20} MiB of spilled "
                    "rows; nothing was released. Free some room there, or give more --memory."
                ) from error
            raise
        one.spilled.append((self._pieces, place, len(sealed)))
        self._pieces += 1
        self.spilled_bytes += len(sealed)
        self._held_bytes -= one.held_bytes
        one.held, one.held_bytes = [], 0

    def _read(self, one: _Partition) -> Iterator[NDArray[Any]]:
        for number, place, size in one.spilled:
            with self._lock:
                assert self._file is not None  # noqa: S101 - something was spilled to it
                self._file.seek(place)
                sealed = self._file.read(size)
            plain = self._cipher.decrypt(number.to_bytes(_NONCE_BYTES, "big"), sealed, None)
            yield np.frombuffer(plain, dtype=self._row)
        yield from one.held


def _sliced(rows: NDArray[Any], part: int, slices: int) -> NDArray[Any]:
    if slices == 1:
        return rows
    chosen: NDArray[Any] = rows[rows["tag"][:, 1] % np.uint64(slices) == part]
    return chosen
