"""Many inner envelopes at once: in this process when they are few, in a pool when they are many."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from rase.errors import UnknownKey, WireError
from rase.service.workers import Keys, OpenerPool
from rase.wire.inner import InnerOpener, replay_tag
from rase.wire.issuing import verifier_of
from rase.wire.keys import OpeningKey
from rase.wire.messages import Batch, Content
from rase.wire.tokens import NONCE_SIZE, spent_tag

__all__ = ["BatchOpener", "Opened", "open_inner"]

_PIECE = 1024
_BAD, _REPORT, _UNTOKENED = 0, 1, 2


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Opened:
    """What was in a batch's envelopes, in their order; it has no repr, these are reports.

    Args:
        places: The grid places; 0 where there is none.
        classes: The epsilon classes likewise.
        is_report: Where there is a report; elsewhere the envelope is refused.
        tags: The replay tag of each envelope, opened or not.
        tokens: What is kept of each report's token; zeros where there is none.
        untokened: How many reports opened and had no token of their window.
    """

    places: NDArray[np.int64]
    classes: NDArray[np.uint8]
    is_report: NDArray[np.bool_]
    tags: tuple[bytes, ...]
    tokens: tuple[bytes, ...] = ()
    untokened: int = 0

    @property
    def refused_count(self) -> int:
        """How many envelopes did not open."""
        return int(len(self.tags) - self.is_report.sum())


class BatchOpener(OpenerPool):
    """Open the envelopes of whole batches with the fusion centre's private keys."""

    def open(
        self,
        batch: Batch,
        *,
        class_count: int,
        modulus: bytes,
        block_start: int | None = None,
    ) -> Opened:
        """Return what the envelopes hold; those that do not open are marked, not fatal.

        Args:
            batch: The batch.
            class_count: How many epsilon classes its campaign has.
            modulus: The key that their tokens must be signed by.
            block_start: The round that its contents name, if another than the batch's own.

        Raises:
            UnknownKey: If the key of the batch is not held here.
        """
        if not self._holds(batch.key_id):
            # A rotation may have put it there a moment ago.
            self.renew()
        if not self._holds(batch.key_id):
            raise UnknownKey(
                f"the batch was sealed for key {batch.key_id}, not held here.",
                problem="key-not-held",
            )
        named = batch.round if block_start is None else block_start
        work = partial(
            _open_piece,
            campaign_hash=batch.campaign_hash,
            class_count=class_count,
            key_id=batch.key_id,
            round=named,
            size=len(batch.inner[0]),
            modulus=modulus,
        )
        starts = range(0, len(batch.inner), _PIECE)
        bodies = [b"".join(batch.inner[start : start + _PIECE]) for start in starts]
        pieces = self.open_all(work, bodies, count=len(batch.inner))
        packed = np.concatenate([np.frombuffer(rows, _ROW) for rows, _ in pieces])
        return Opened(
            places=packed["place"].astype(np.int64),
            classes=packed["class"].copy(),
            is_report=packed["kind"] == _REPORT,
            tags=tuple(tag for _, tags in pieces for (tag,) in _TAG.iter_unpack(tags)),
            tokens=tuple(bytes(tag) for tag in packed["token"].tolist()),
            untokened=int((packed["kind"] == _UNTOKENED).sum()),
        )

    def _holds(self, key_id: int) -> bool:
        return key_id in {key.id for key in self.keys}


_ROW = np.dtype([("kind", "u1"), ("class", "u1"), ("place", "<i8"), ("token", "V16")])
_ROW_BYTES = Struct("<BBq16s")
_NOTHING = _ROW_BYTES.pack(_BAD, 0, 0, b"")
_NO_TOKEN = _ROW_BYTES.pack(_UNTOKENED, 0, 0, b"")
_TAG = Struct("16s")


def _open_piece(
    keys: Keys,
    body: bytes,
    *,
    campaign_hash: bytes,
    class_count: int,
    key_id: int,
    round: int,
    size: int,
    modulus: bytes,
) -> tuple[bytes, bytes]:
    """Open some envelopes that stand one after the other; return a row and a tag for each."""
    opener = _opener(campaign_hash, class_count, keys)
    verifier = verifier_of(modulus)
    rows, tags = [], []
    for start in range(0, len(body), size):
        envelope = body[start : start + size]
        tags.append(replay_tag(envelope))
        try:
            content = opener.open(envelope, key_id=key_id, round=round)
        except WireError:
            rows.append(_NOTHING)
            continue
        token = content.token
        if not verifier.is_signed(token[:NONCE_SIZE], token[NONCE_SIZE:]):
            rows.append(_NO_TOKEN)
            continue
        kept = content.epsilon_class, content.place, spent_tag(token)
        rows.append(_ROW_BYTES.pack(_REPORT, *kept))
    return b"".join(rows), b"".join(tags)


@lru_cache(maxsize=8)
def _opener(campaign_hash: bytes, class_count: int, keys: Keys) -> InnerOpener:
    return InnerOpener(campaign_hash, keys, class_count=class_count)


def open_inner(
    keys: Iterable[OpeningKey],
    inner: bytes,
    *,
    campaign_hash: bytes,
    class_count: int,
    key_id: int,
    round: int,
) -> Content:
    """Open one envelope, and say why if it does not open.

    Args:
        keys: The fusion centre's private keys.
        inner: The envelope.
        campaign_hash: CH.
        class_count: How many epsilon classes the campaign has.
        key_id: The number of the key that it was sealed for.
        round: The round that its content must name.

    Raises:
        WireError: Named, see `rase.wire.inner.InnerOpener.open`.
    """
    opener = InnerOpener(campaign_hash, keys, class_count=class_count)
    return opener.open(inner, key_id=key_id, round=round)
