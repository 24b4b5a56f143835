"""Many inner envelopes at once: in this process when they are few, in a pool when they are many."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from rase.errors import UnknownKey, WireError
from rase.service.workers import worker_keys, worker_pool
from rase.wire.inner import InnerOpener, replay_tag
from rase.wire.keys import OpeningKey
from rase.wire.messages import Batch

__all__ = ["BatchOpener", "Opened"]

# From here on handing work to other processes costs less than it saves.
_MANY = 2048
_PIECE = 1024
_BAD, _COVER, _REPORT = 0, 1, 2


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Opened:
    """Hold what was in a batch's envelopes, in their order; it has no repr, these are reports.

    Args:
        places: The grid places; 0 where there is none.
        classes: The epsilon classes likewise.
        is_report: Where there is a report: neither cover nor refused.
        is_cover: Where there is a cover report.
        tags: The replay tag of each envelope, opened or not.
    """

    places: NDArray[np.int64]
    classes: NDArray[np.uint8]
    is_report: NDArray[np.bool_]
    is_cover: NDArray[np.bool_]
    tags: tuple[bytes, ...]

    @property
    def refused(self) -> int:
        """How many envelopes did not open."""
        return int(len(self.tags) - self.is_report.sum() - self.is_cover.sum())


class BatchOpener:
    """Open the envelopes of whole batches with the fusion centre's keys.

    Args:
        keys: The private keys that are held now.
        processes: How many processes a large batch is given to; None for one a core, 0 for none.
        many: The size from which a batch is large.
        renewed: Returns the keys that are to be held now; None if they never change.
    """

    def __init__(
        self,
        keys: Sequence[OpeningKey],
        *,
        processes: int | None = None,
        many: int = _MANY,
        renewed: Callable[[], Sequence[OpeningKey]] | None = None,
    ) -> None:
        self._keys = tuple(keys)
        self._renewed = renewed
        self._many = many
        self._processes = (os.cpu_count() or 1) if processes is None else processes
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def keys(self) -> tuple[OpeningKey, ...]:
        """The private keys that are held now."""
        return self._keys

    def renew(self) -> tuple[OpeningKey, ...]:
        """Take the keys that are to be held now, and return them."""
        if self._renewed is None:
            return self._keys
        keys = tuple(self._renewed())
        with self._lock:
            if keys == self._keys:
                return keys
            # Its processes have the old ones; they end when what they were given is done.
            self._keys, pool, self._pool = keys, self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)
        return keys

    def close(self) -> None:
        """End the pool's processes."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()

    def open(self, batch: Batch, *, class_count: int, block_start: int | None = None) -> Opened:
        """Return what the envelopes hold; those that do not open are marked, not fatal.

        Args:
            batch: The batch.
            class_count: How many epsilon classes its campaign has.
            block_start: The round that its contents name, if another than the batch's own.

        Raises:
            UnknownKey: If the key of the batch is not held here.
        """
        keys = self._keys
        if batch.key_id not in {key.id for key in keys}:
            # A rotation may have put it there a moment ago.
            keys = self.renew()
        if batch.key_id not in {key.id for key in keys}:
            raise UnknownKey(
                f"the batch was sealed for key {batch.key_id}, not held here.",
                problem="key-not-held",
            )
        size = len(batch.inner[0])
        named = batch.round if block_start is None else block_start
        job = (batch.campaign_hash, class_count, batch.key_id, named, size)
        starts = range(0, len(batch.inner), _PIECE)
        bodies = [b"".join(batch.inner[start : start + _PIECE]) for start in starts]
        if len(batch.inner) < self._many or self._processes < 2:
            pieces = [_open_piece(job, keys, body) for body in bodies]
        else:
            pieces = self._open_in_pool(job, bodies, keys)
        packed = np.concatenate([np.frombuffer(rows, _ROW) for rows, _ in pieces])
        return Opened(
            places=packed["place"].astype(np.int64),
            classes=packed["class"].copy(),
            is_report=packed["kind"] == _REPORT,
            is_cover=packed["kind"] == _COVER,
            tags=tuple(tag for _, tags in pieces for (tag,) in _TAG.iter_unpack(tags)),
        )

    def _open_in_pool(
        self, job: "_Job", bodies: list[bytes], keys: tuple[OpeningKey, ...]
    ) -> "list[_Piece]":
        try:
            pool = self._workers()
            try:
                waiting = [pool.submit(_open_in_worker, job, body) for body in bodies]
            except BrokenProcessPool:
                raise
            except RuntimeError:
                # New keys came meanwhile, and this pool takes no more work.
                return [_open_piece(job, keys, body) for body in bodies]
            return [one.result() for one in waiting]
        except BrokenProcessPool:
            # A worker was killed, perhaps for want of memory. The batch is opened here, and the
            # next one gets new workers.
            self.close()
            return [_open_piece(job, keys, body) for body in bodies]

    def _workers(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = worker_pool(self._processes, self._keys)
            return self._pool


_ROW = np.dtype([("kind", "u1"), ("class", "u1"), ("place", "<i8")])
_ROW_BYTES = Struct("<BBq")
_NOTHING = _ROW_BYTES.pack(_BAD, 0, 0)
_TAG = Struct("16s")
_Job = tuple[bytes, int, int, int, int]
_Piece = tuple[bytes, bytes]


def _open_in_worker(job: _Job, body: bytes) -> _Piece:
    return _open_piece(job, worker_keys(), body)


def _open_piece(job: _Job, keys: tuple[OpeningKey, ...], body: bytes) -> _Piece:
    """Open some envelopes that stand one after the other; return a row and a tag for each."""
    campaign_hash, class_count, key_id, round, size = job
    opener = _opener(campaign_hash, class_count, keys)
    rows, tags = [], []
    for start in range(0, len(body), size):
        envelope = body[start : start + size]
        tags.append(replay_tag(envelope))
        try:
            content = opener.open(envelope, key_id=key_id, round=round)
        except WireError:
            rows.append(_NOTHING)
            continue
        kind = _COVER if content.is_cover else _REPORT
        rows.append(_ROW_BYTES.pack(kind, content.epsilon_class, content.place))
    return b"".join(rows), b"".join(tags)


@lru_cache(maxsize=8)
def _opener(campaign_hash: bytes, class_count: int, keys: tuple[OpeningKey, ...]) -> InnerOpener:
    return InnerOpener(campaign_hash, keys, class_count=class_count)
