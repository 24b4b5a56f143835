"""Repeat a transaction that lost a conflict; it left no trace, so nothing happens twice.

Locks are taken in one order everywhere, so this is rare; PostgreSQL may still choose one of two
transactions to end.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from rase.errors import StorageContended

__all__ = ["retry"]

_T = TypeVar("_T")
_TRIES: Final = 5


def retry(work: Callable[[], _T]) -> _T:
    """Run work, and repeat it if its transaction lost a conflict; return its result.

    Args:
        work: Opens its transaction itself, and can be repeated as a whole.

    Raises:
        StorageContended: If the transaction lost every time.
    """
    for _ in range(_TRIES - 1):
        try:
            return work()
        except StorageContended:
            continue
    return work()
