"""Open outer envelopes: here if they are few, by a pool of processes if they are many."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain
from struct import Struct
from types import TracebackType
from typing import Final

from rase.errors import WireError
from rase.service.workers import worker_keys, worker_pool
from rase.wire.keys import OpeningKey
from rase.wire.messages import INNER_SIZES, REPORT_SIZES
from rase.wire.outer import OpenedOuter, OuterOpener

__all__ = ["Peeler"]

_CHUNK: Final = 1000


class Peeler:
    """Open the outer envelopes of any campaign with the shuffler's private keys.

    Args:
        keys: The shuffler's private keys.
        workers: How many processes for large rounds; 1 for none.
        pool_from: The fewest reports for which processes are worth their start.
        renewed: Returns the keys that are to be held now; None if they never change.
    """

    def __init__(
        self,
        keys: Sequence[OpeningKey],
        *,
        workers: int = 1,
        pool_from: int = 8 * _CHUNK,
        renewed: Callable[[], Sequence[OpeningKey]] | None = None,
    ) -> None:
        self._keys = tuple(keys)
        self._renewed = renewed
        self._workers = workers
        self._pool_from = pool_from
        self._pool: ProcessPoolExecutor | None = None

    @property
    def keys(self) -> tuple[OpeningKey, ...]:
        """The shuffler's private keys."""
        return self._keys

    def renew(self) -> bool:
        """Take the keys that are to be held now; return whether they are others."""
        keys = self._keys if self._renewed is None else tuple(self._renewed())
        if keys == self._keys:
            return False
        self._keys = keys
        # Its processes have the old ones.
        self.close()
        return True

    def peel(
        self, wires: Sequence[bytes], *, campaign_hash: bytes, kem: int
    ) -> list[OpenedOuter | None]:
        """Return what is in each envelope, None for those that do not open.

        Args:
            wires: The reports, all of one campaign.
            campaign_hash: CH.
            kem: The number of the campaign's KEM.
        """
        if self._workers == 1 or len(wires) < self._pool_from:
            return _peel(self._keys, campaign_hash, kem, wires)
        try:
            return self._peel_in_pool(wires, campaign_hash, kem)
        except BrokenProcessPool:
            # A worker was killed, perhaps for want of memory. The round is opened here, and the
            # next one gets new workers.
            self.close()
            return _peel(self._keys, campaign_hash, kem, wires)

    def _peel_in_pool(
        self, wires: Sequence[bytes], campaign_hash: bytes, kem: int
    ) -> list[OpenedOuter | None]:
        if self._pool is None:
            self._pool = worker_pool(self._workers, self._keys)
        parts = [wires[place : place + _CHUNK] for place in range(0, len(wires), _CHUNK)]
        jobs = [
            self._pool.submit(_peel_packed, campaign_hash, kem, _packed(part, kem))
            for part in parts
        ]
        return list(chain.from_iterable(_unpacked(job.result(), kem) for job in jobs))

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def __enter__(self) -> "Peeler":
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


def _packed(wires: Sequence[bytes], kem: int) -> bytes:
    # One long byte string goes to another process much faster than a thousand short ones.
    size = REPORT_SIZES[kem]
    # Zeros do not open, as no report of another size does.
    return b"".join(wire if len(wire) == size else bytes(size) for wire in wires)


def _peel_packed(campaign_hash: bytes, kem: int, packed: bytes) -> bytes:
    wires = [wire for (wire,) in Struct(f"{REPORT_SIZES[kem]}s").iter_unpack(packed)]
    row = _row(kem)
    return b"".join(
        bytes(row.size) if found is None else row.pack(True, *found)
        for found in _peel(worker_keys(), campaign_hash, kem, wires)
    )


def _unpacked(packed: bytes, kem: int) -> Iterator[OpenedOuter | None]:
    for is_open, *found in _row(kem).iter_unpack(packed):
        yield OpenedOuter(*found) if is_open else None


def _row(kem: int) -> Struct:
    """Return how a worker tells of one envelope: whether it opened, and the fields inside."""
    return Struct(f">?IB{INNER_SIZES[kem]}s")


def _peel(
    keys: tuple[OpeningKey, ...], campaign_hash: bytes, kem: int, wires: Sequence[bytes]
) -> list[OpenedOuter | None]:
    opener = OuterOpener(campaign_hash, keys, inner_kem=kem)
    return [_opened(opener, wire) for wire in wires]


def _opened(opener: OuterOpener, wire: bytes) -> OpenedOuter | None:
    try:
        return opener.open(wire)
    except WireError:
        return None
