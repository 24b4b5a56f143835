"""Open outer envelopes, in this process if they are few, in a pool of processes if many."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from struct import Struct
from typing import Final

from rase.errors import WireError
from rase.service.workers import Keys, OpenerPool
from rase.wire.keys import OpeningKey
from rase.wire.messages import INNER_SIZES, MARK_SIZE, REPORT_SIZES, Mark
from rase.wire.outer import OpenedOuter, OuterOpener

__all__ = ["OuterOpenerPool", "open_outer"]

_CHUNK: Final = 1000


class OuterOpenerPool(OpenerPool):
    """Open the outer envelopes of any campaign with the shuffler's private keys."""

    def open_envelopes(
        self, wires: Sequence[bytes], *, campaign_hash: bytes, kem: int
    ) -> list[OpenedOuter | None]:
        """Return what is in each envelope, None for those that do not open.

        Args:
            wires: The reports, all of one campaign.
            campaign_hash: CH.
            kem: The number of the campaign's KEM.
        """
        work = partial(_open_packed, campaign_hash=campaign_hash, kem=kem)
        pieces = [
            _pack_wires(wires[place : place + _CHUNK], kem)
            for place in range(0, len(wires), _CHUNK)
        ]
        opened = self.open_all(work, pieces, count=len(wires))
        rows = chain.from_iterable(map(_row(kem).iter_unpack, opened))
        return [
            OpenedOuter(round, keyset, Mark.from_bytes(mark), inner) if is_open else None
            for is_open, round, keyset, mark, inner in rows
        ]


def _pack_wires(wires: Sequence[bytes], kem: int) -> bytes:
    # One long byte string goes to another process much faster than a thousand short ones.
    size = REPORT_SIZES[kem]
    # Zeros do not open, as no report of another size does.
    return b"".join(wire if len(wire) == size else bytes(size) for wire in wires)


def _open_packed(keys: Keys, packed: bytes, *, campaign_hash: bytes, kem: int) -> bytes:
    opener = OuterOpener(campaign_hash, keys, inner_kem=kem)
    wires = Struct(f"{REPORT_SIZES[kem]}s").iter_unpack(packed)
    row = _row(kem)
    found = (_open_one(opener, wire) for (wire,) in wires)
    return b"".join(
        bytes(row.size)
        if one is None
        else row.pack(True, one.round, one.keyset, one.mark.to_bytes(), one.inner)
        for one in found
    )


def _row(kem: int) -> Struct:
    """Return how an envelope is reported: whether it opened, and the fields inside."""
    return Struct(f">?II{MARK_SIZE}s{INNER_SIZES[kem]}s")


def _open_one(opener: OuterOpener, wire: bytes) -> OpenedOuter | None:
    try:
        return opener.open(wire)
    except WireError:
        return None


def open_outer(
    keys: Iterable[OpeningKey], wire: bytes, *, campaign_hash: bytes, kem: int
) -> OpenedOuter:
    """Open one envelope, and say why if it does not open.

    Args:
        keys: The shuffler's private keys.
        wire: The report.
        campaign_hash: CH.
        kem: The number of the campaign's KEM.

    Raises:
        WireError: Named, see `rase.wire.outer.OuterOpener.open`.
    """
    return OuterOpener(campaign_hash, keys, inner_kem=kem).open(wire)
