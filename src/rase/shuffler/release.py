"""Close a round: open the outer envelopes, draw the order once, write the outbox, erase the rest.

All that changes, changes in one transaction: a crash before it leaves the round as it was, and the
order that was drawn is forgotten unseen; after it there is one set of bytes to forward, for ever.

A round below k_min is dropped. It is not carried into the next: an inner envelope is bound to its
round, so the fusion centre would see which of the two it belongs to, and fewer than k_min of one
round would have been released together.
"""

from collections import defaultdict
from dataclasses import dataclass

from rase.campaign import Campaign
from rase.kernels.words import SecureRandom, checked_secure
from rase.shuffle.release import Manifest
from rase.shuffler.documents import Agreed
from rase.shuffler.intake import tag_number
from rase.shuffler.order import draw_order
from rase.shuffler.own_keys import keep_own_keys
from rase.shuffler.peeling import Peeler
from rase.shuffler.rounds import Lease, check_lease
from rase.storage.face import Database
from rase.wire.keys import SigningKey
from rase.wire.messages import Batch, BatchManifest, batch_id
from rase.wire.signed import SignedManifest, signature_of
from rase.wire.suites import KEM_NUMBERS

__all__ = ["Closed", "Releaser"]


@dataclass(frozen=True, slots=True)
class Closed:
    """Say what became of a round.

    Args:
        state: "released" or "below_k".
        batches: How many batches wait to be forwarded; one tells that the round is withheld.
        released: How many reports they hold.
        unopened: How many reports did not open.
        dropped: How many were too few of their fusion key, or of the round.
    """

    state: str
    batches: int
    released: int
    unopened: int
    dropped: int


@dataclass(frozen=True, slots=True)
class _Parcel:
    """A batch as it is stored and sent, for ever the same."""

    body: bytes
    manifest: bytes
    n: int


class Releaser:
    """Close rounds with the shuffler's keys.

    Args:
        database: The shuffler's.
        peeler: Opens outer envelopes.
        key: The shuffler's signing key.
        name: The shuffler's name in manifests.
        rng: The secure source of orders.

    Raises:
        TypeError: If ``rng`` is not a SecureRandom.
    """

    def __init__(
        self,
        database: Database,
        *,
        peeler: Peeler,
        key: SigningKey,
        name: str,
        rng: SecureRandom | None = None,
    ) -> None:
        self._database = database
        self._peeler = peeler
        self._key = key
        self._name = name
        self._rng = checked_secure(rng)

    def tell_keys(self) -> None:
        """Note in the database which public keys reports may be sealed for."""
        keep_own_keys(self._database, self._peeler.keys)

    def close(self, lease: Lease, agreed: Agreed, *, now_s: float) -> Closed:
        """Close a round for good.

        Since the lease was taken nobody adds to the round, so opening happens before the
        transaction and does not keep others from writing.

        Args:
            lease: The right to close it.
            agreed: Its campaign.
            now_s: The time, from which the batches may be forwarded.

        Raises:
            LeaseLost: If another closer took over; nothing was written.
        """
        tag = tag_number(agreed.hash)
        with self._database.snapshot() as transaction:
            # Reading the groups of a large fleet takes long, and a plan without any needs none.
            group = "device.group_name" if agreed.campaign.shuffle.groups else "''"
            rows = transaction.execute(
                f"SELECT report.wire, {group} FROM report "  # noqa: S608 - one of two fixed texts
                "JOIN device ON device.id = report.device "
                "WHERE report.round = ? AND report.tag = ?",
                (lease.round, tag),
            )
        by_key, unopened = self._opened(rows, agreed, lease.round)
        parcels = [
            self._parcel(agreed, lease.round, key_id, members)
            for key_id, members in by_key.items()
            if len(members) >= agreed.campaign.k_min
        ]
        state = "released" if parcels else "below_k"
        # The largest first: it decides the estimate if the fusion centre takes only one.
        parcels.sort(key=lambda parcel: -parcel.n)
        parcels = parcels or [self._withheld(agreed, lease.round)]
        with self._database.shared() as transaction:
            check_lease(transaction, lease)
            transaction.execute_many(
                "INSERT INTO outbox (batch, campaign, round, body, manifest, state, next_s, "
                "attempts) VALUES (?, ?, ?, ?, ?, 'waiting', ?, 0)",
                [
                    (
                        batch_id(parcel.body),
                        agreed.hash,
                        lease.round,
                        parcel.body,
                        parcel.manifest,
                        int(now_s),
                    )
                    for parcel in parcels
                ],
            )
            transaction.execute(
                "DELETE FROM report WHERE round = ? AND tag = ?", (lease.round, tag)
            )
            transaction.execute(
                "UPDATE round SET state = ?, lease_token = NULL WHERE campaign = ? AND round = ?",
                (state, agreed.hash, lease.round),
            )
        released = sum(parcel.n for parcel in parcels)
        return Closed(state, len(parcels), released, unopened, len(rows) - unopened - released)

    def _opened(
        self, rows: list[tuple[bytes, str]], agreed: Agreed, round: int
    ) -> tuple[dict[int, list[tuple[bytes, str]]], int]:
        wires = [bytes(wire) for wire, _ in rows]
        kem = KEM_NUMBERS[agreed.campaign.kem]
        opened = self._peeler.peel(wires, campaign_hash=agreed.hash, kem=kem)
        # A batch of one fusion key below k_min would single its senders out.
        by_key: dict[int, list[tuple[bytes, str]]] = defaultdict(list)
        for found, (_, group) in zip(opened, rows, strict=True):
            if found is not None and found.round == round:
                by_key[found.fusion_key_id].append((found.inner, group))
        return by_key, len(rows) - sum(len(members) for members in by_key.values())

    def _parcel(
        self, agreed: Agreed, round: int, key_id: int, members: list[tuple[bytes, str]]
    ) -> _Parcel:
        order, manifest = draw_order(
            [group for _, group in members], agreed.campaign.shuffle, rng=self._rng
        )
        batch = Batch(agreed.hash, round, key_id, tuple(members[place][0] for place in order))
        return self._signed(batch, agreed.campaign, manifest)

    def _withheld(self, agreed: Agreed, round: int) -> _Parcel:
        return self._signed(Batch(agreed.hash, round, 0, ()), agreed.campaign, None)

    def _signed(self, batch: Batch, campaign: Campaign, manifest: Manifest | None) -> _Parcel:
        body = batch.to_bytes()
        said = BatchManifest(
            batch_id=batch_id(body),
            shuffler=self._name,
            n=len(batch.inner),
            k_min=campaign.k_min,
            method="withheld" if manifest is None else manifest.method,
            theta=None if manifest is None else manifest.theta,
            alpha=0.0 if manifest is None else manifest.alpha,
            real_loss=0.0 if manifest is None else manifest.real_loss,
            attacker_success=0.0 if manifest is None else manifest.attacker_success,
        )
        signed = SignedManifest(said, signature_of(said, self._key))
        return _Parcel(body, signed.to_bytes(), len(batch.inner))
