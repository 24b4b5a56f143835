"""Processes that open envelopes for a server: they hold its keys, and end when it does.

HPKE in cryptography holds the interpreter's lock, so threads would not help.
"""

import os
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait

from rase.wire.keys import OpeningKey

__all__ = ["worker_keys", "worker_pool"]

_keys: tuple[OpeningKey, ...] = ()


def worker_pool(processes: int, keys: tuple[OpeningKey, ...]) -> ProcessPoolExecutor:
    """Return a pool whose processes get the keys once, when they start, never with their work.

    Args:
        processes: How many at the most.
        keys: What `worker_keys` gives in them.
    """
    # Spawned: a fork would share the database's connections, and a lock that a thread holds.
    return ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=_begin, initargs=(keys,)
    )


def worker_keys() -> tuple[OpeningKey, ...]:
    """Return the keys that this process of a pool was started with."""
    return _keys


def _begin(keys: tuple[OpeningKey, ...]) -> None:
    global _keys  # noqa: PLW0603 - a process of a pool has no other place
    _keys = keys
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    # A server that was killed cannot end its workers, and they would keep its keys.
    wait([sentinel])
    os._exit(0)
