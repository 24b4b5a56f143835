"""Which processes of a server run, and which keys each holds: a row that every one renews.

The keys stand there as their public halves, which a process derives from the private ones it has
loaded. So whoever publishes a keyset can see whether all running processes could open its reports.
"""

import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

from rase.clock import Clock
from rase.errors import StorageError
from rase.storage.interface import Database, Transaction
from rase.wire import cbor
from rase.wire.keys import KeyConfig, OpeningKey

__all__ = ["ALIVE_S", "Heartbeat", "KeyRow", "Process", "key_row", "key_rows", "running"]

ALIVE_S: Final = 90
"""How many seconds a process that says nothing counts as running."""

_BEAT_S: Final = 10.0
_FORGET_S: Final = 86400
_MAX_BYTES: Final = 1 << 20

KeyRow: TypeAlias = tuple[int, int, int, int, bytes]
"""What makes up a public key: its number, KEM, KDF, cipher and bytes."""


@dataclass(frozen=True, slots=True)
class Process:
    """What one process said of itself.

    Args:
        part: What it does: "intake", "closer" or "fusion".
        seen_s: When it was last seen.
        keys: The public halves of the keys it opens reports with.
    """

    part: str
    seen_s: int
    keys: frozenset[KeyRow]


class Heartbeat:
    """Say that this process runs, again and again.

    Args:
        database: The server's.
        clock: Its time.
        part: What the process does.
        keys: Returns the private keys it holds now.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        part: str,
        keys: Callable[[], Iterable[OpeningKey]] = tuple,
    ) -> None:
        self._database = database
        self._clock = clock
        self._part = part
        self._keys = keys
        self._name = secrets.token_hex(8)
        self._held: tuple[OpeningKey, ...] = ()
        self._said = b""
        self._next_s = clock.monotonic_s()
        self._has_begun = False

    def beat(self) -> bool:
        """Write the row if it is time to, or if the keys are others; return whether it was written.

        Raises:
            StorageError: If the row could not be written; the next call tries again.
        """
        held = tuple(self._keys())
        now_s = self._clock.monotonic_s()
        if self._has_begun and held == self._held and now_s < self._next_s:
            return False
        if held != self._held or not self._has_begun:
            self._said = cbor.encode([list(row) for row in sorted(key_rows(held))])
        seen_s = int(self._clock.now_s())
        with self._database.share() as transaction:
            if not self._has_begun:
                transaction.execute("DELETE FROM heartbeat WHERE seen_s < ?", (seen_s - _FORGET_S,))
            transaction.execute(
                "INSERT INTO heartbeat (process, part, seen_s, keys) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (process) DO UPDATE SET seen_s = excluded.seen_s, "
                "keys = excluded.keys",
                (self._name, self._part, seen_s, self._said),
            )
        self._has_begun, self._held, self._next_s = True, held, now_s + _BEAT_S
        return True

    def stop(self) -> None:
        """Take the row back: the process ends in good order."""
        with suppress(StorageError), self._database.share() as transaction:
            transaction.execute("DELETE FROM heartbeat WHERE process = ?", (self._name,))


def running(transaction: Transaction, *, now_s: float, part: str) -> list[Process]:
    """Return the processes of a kind that were seen lately, the last one first."""
    rows = transaction.execute(
        "SELECT part, seen_s, keys FROM heartbeat WHERE part = ? AND seen_s > ? "
        "ORDER BY seen_s DESC",
        (part, int(now_s) - ALIVE_S),
    )
    return [Process(name, seen_s, _read(bytes(keys))) for name, seen_s, keys in rows]


def key_rows(keys: Iterable[OpeningKey]) -> list[KeyRow]:
    """Return the public halves of private keys."""
    # The times of use stand in keysets; a key alone has none.
    return [key_row(key.config(not_before_s=0, not_after_s=1)) for key in keys]


def key_row(config: KeyConfig) -> KeyRow:
    """Return what makes up a public key, without its times."""
    return config.id, config.kem, config.kdf, config.aead, config.public_key


def _read(keys: bytes) -> frozenset[KeyRow]:
    return frozenset(
        (number, kem, kdf, aead, public)
        for number, kem, kdf, aead, public in cbor.decode(keys, max_size=_MAX_BYTES)
    )
