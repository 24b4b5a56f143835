"""The private keys that a server holds now, and processes that open many envelopes with them.

HPKE in cryptography holds the interpreter's lock, so threads would not help.
"""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from types import TracebackType
from typing import Self, TypeVar

from rase.wire.keys import OpeningKey

__all__ = ["Keys", "OpenerPool"]

Keys = tuple[OpeningKey, ...]
_Piece = TypeVar("_Piece")
_Result = TypeVar("_Result")

# From here on handing work to other processes costs less than it saves.
_MANY = 2048


class OpenerPool:
    """Open envelopes with the keys that are held now: here if they are few, in processes if many.

    Args:
        keys: The private keys that are held now.
        processes: How many processes share the work if there is much; None for one a core, fewer
            than 2 for none.
        many: From how many envelopes on there is much.
        renewed: Returns the keys that are to be held now; None if they never change.
    """

    def __init__(
        self,
        keys: Sequence[OpeningKey],
        *,
        processes: int | None = 1,
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
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the processes."""
        self.close()

    @property
    def keys(self) -> Keys:
        """The private keys that are held now."""
        return self._keys

    def renew(self) -> bool:
        """Take the keys that are to be held now; return whether they are others."""
        keys = self._keys if self._renewed is None else tuple(self._renewed())
        with self._lock:
            if keys == self._keys:
                return False
            # Its processes have the old ones; they end when what they were given is done.
            self._keys, pool, self._pool = keys, self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)
        return True

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()

    def open_all(
        self, work: Callable[[Keys, _Piece], _Result], pieces: Sequence[_Piece], *, count: int
    ) -> list[_Result]:
        """Return what becomes of each piece of the work, in their order.

        Args:
            work: Opens a piece with the keys; it is named to other processes, and so are pieces.
            pieces: Some envelopes each.
            count: How many envelopes there are in all.
        """
        keys = self._keys
        if self._processes < 2 or count < self._many:
            return [work(keys, piece) for piece in pieces]
        try:
            pool = self._workers()
            try:
                waiting = [pool.submit(_in_worker, work, piece) for piece in pieces]
            except BrokenProcessPool:
                raise
            except RuntimeError:
                # New keys came meanwhile, and this pool takes no more work.
                return [work(keys, piece) for piece in pieces]
            return [one.result() for one in waiting]
        except BrokenProcessPool:
            # A worker was killed, perhaps for want of memory. All is opened here, and the next
            # work gets new processes.
            self.close()
            return [work(keys, piece) for piece in pieces]

    def _workers(self) -> ProcessPoolExecutor:
        """Return the processes; they get the keys once, when they start, never with their work."""
        with self._lock:
            if self._pool is None:
                # Spawned: a fork would share the database's connections, and locks of threads.
                self._pool = ProcessPoolExecutor(
                    self._processes,
                    mp_context=get_context("spawn"),
                    initializer=_begin,
                    initargs=(self._keys,),
                )
            return self._pool


# The keys that this process of a pool was started with.
_keys: Keys = ()


def _begin(keys: Keys) -> None:
    global _keys  # noqa: PLW0603 - a process of a pool has no other place
    _keys = keys
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _in_worker(work: Callable[[Keys, _Piece], _Result], piece: _Piece) -> _Result:
    return work(_keys, piece)


def _end_with(sentinel: int) -> None:
    # A server that was killed cannot end its workers, and they would keep its keys.
    wait([sentinel])
    os._exit(0)
