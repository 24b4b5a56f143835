"""Close a round: open the outer envelopes, draw the order once, write the outbox, erase the rest.

All that changes, changes in one transaction: a crash before it leaves the round as it was, and the
order that was drawn is forgotten unseen; after it there is one set of bytes to forward, for ever.

A round below k_min is dropped; or, where the campaign carries rounds, its reports wait for those of
the next rounds of the block, to which the fusion centre sees them belong: see
docs/decisions/0006-carried-rounds-share-a-block.md. Each device has at most one report in a
release, its newest. Cover reports end here: nobody counts them, and nobody sees them further on.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import NamedTuple

from rase.campaign import Campaign
from rase.kernels.words import SecureRandom, checked_secure
from rase.shuffle.release import Manifest
from rase.shuffler.documents import Agreed
from rase.shuffler.intake import tag_number
from rase.shuffler.labels import OTHER, merge_labels
from rase.shuffler.opening import OuterOpenerPool
from rase.shuffler.order import draw_order
from rase.shuffler.public_keys import keep_own_keys
from rase.shuffler.rounds import Lease, check_lease
from rase.storage.interface import Database
from rase.wire.keys import OpeningKey, SigningKey
from rase.wire.messages import Batch, BatchManifest, LabelCount, batch_id
from rase.wire.signed import SignedManifest, signature_of
from rase.wire.suites import KEM_NUMBERS

__all__ = ["Closed", "Releaser"]


@dataclass(frozen=True, slots=True)
class Closed:
    """Say what became of a round.

    Args:
        state: "released"; "carried" if what came waits for the next round; "below_k".
        batches: How many batches wait to be forwarded; one says that the round is withheld.
        released: How many reports they hold.
        unopened: How many reports did not open.
        covers: How many only hid that there was nothing to say.
        carried: How many wait for the next round of the block.
        dropped: How many were too few of their fusion key, or of the round, or older than another
            of their device.
    """

    state: str
    batches: int
    released: int
    unopened: int
    covers: int
    carried: int
    dropped: int


@dataclass(frozen=True, slots=True)
class _Parcel:
    """A batch as it is stored and sent, for ever the same."""

    body: bytes
    manifest: bytes
    n: int


class _Sent(NamedTuple):
    """A report as it was stored, its sender, and the sender's public group."""

    round: int
    device: int
    wire: bytes
    group: str


class _Member(NamedTuple):
    """A report whose outer envelope is open."""

    inner: bytes
    label: int
    sent: _Sent


class _Found(NamedTuple):
    """The newest report of each device by its fusion key, and what else there was."""

    by_key: dict[int, list[_Member]]
    unopened: int
    covers: int


class Releaser:
    """Close rounds with the shuffler's keys.

    Args:
        database: The shuffler's.
        opener: Opens outer envelopes.
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
        opener: OuterOpenerPool,
        key: SigningKey,
        name: str,
        rng: SecureRandom | None = None,
    ) -> None:
        self._database = database
        self._opener = opener
        self._key = key
        self._name = name
        self._rng = checked_secure(rng)

    @property
    def keys(self) -> tuple[OpeningKey, ...]:
        """The private keys that reports are opened with now."""
        return self._opener.keys

    def publish_keys(self) -> None:
        """Note in the database which public keys reports may be sealed for."""
        keep_own_keys(self._database, self._opener.keys)

    def renew_keys(self) -> None:
        """Take the keys that the settings name now, and note them in the database."""
        if self._opener.renew():
            self.publish_keys()

    def close(self, lease: Lease, agreed: Agreed, *, last_round: int, now_s: float) -> Closed:
        """Close a round for good.

        Since the lease was taken nobody adds to the round, so opening happens before the
        transaction and does not keep others from writing.

        Args:
            lease: The right to close it.
            agreed: Its campaign.
            last_round: The last round of this version of the campaign: nothing is carried past it.
            now_s: The time, from which the batches may be forwarded.

        Raises:
            LeaseLost: If another closer took over; nothing was written.
        """
        tag = tag_number(agreed.hash)
        block = agreed.campaign.block_start(lease.round), lease.round
        sent = self._read_sent(agreed, block)
        found = self._open_reports(sent, agreed)
        members = self._members()
        parcels, carried = [], []
        is_last = lease.round >= min(agreed.campaign.block_end(lease.round), last_round)
        for key_id, some in found.by_key.items():
            if len(some) >= agreed.campaign.k_min:
                parcels.append(self._parcel(agreed, lease.round, key_id, some, members))
            elif not is_last:
                carried += [member.sent for member in some]
        state = "released" if parcels else "carried" if carried else "below_k"
        # The largest first: it decides the estimate if the fusion centre takes only one.
        parcels.sort(key=lambda parcel: -parcel.n)
        parcels = parcels or [self._withheld_parcel(agreed, lease.round)]
        with self._database.share() as transaction:
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
                "DELETE FROM report WHERE round >= ? AND round <= ? AND tag = ?", (*block, tag)
            )
            if carried:
                # Fewer than k_min of each key, so writing them again costs little.
                transaction.execute_many(
                    "INSERT INTO report (round, tag, device, wire) VALUES (?, ?, ?, ?)",
                    [(one.round, tag, one.device, one.wire) for one in carried],
                )
            transaction.execute(
                "UPDATE round SET state = ?, reports = ?, lease_token = NULL "
                "WHERE campaign = ? AND round = ?",
                (state, sum(map(len, found.by_key.values())), agreed.hash, lease.round),
            )
        released = sum(parcel.n for parcel in parcels)
        dropped = len(sent) - found.unopened - found.covers - released - len(carried)
        return Closed(
            state, len(parcels), released, found.unopened, found.covers, len(carried), dropped
        )

    def _read_sent(self, agreed: Agreed, block: tuple[int, int]) -> list[_Sent]:
        """Return what waits of the rounds of a block up to the one that closes, oldest first."""
        # Reading the groups of a large fleet takes long, and a plan without any needs none.
        group = "device.group_name" if agreed.campaign.shuffle.groups else "''"
        with self._database.snapshot() as transaction:
            rows = transaction.execute(
                f"SELECT report.round, report.device, report.wire, {group} FROM report "  # noqa: S608 - one of two fixed texts
                "JOIN device ON device.id = report.device "
                "WHERE report.round >= ? AND report.round <= ? AND report.tag = ? "
                "ORDER BY report.round",
                (*block, tag_number(agreed.hash)),
            )
        return [_Sent(round, device, bytes(wire), group) for round, device, wire, group in rows]

    def _open_reports(self, sent: list[_Sent], agreed: Agreed) -> _Found:
        kem = KEM_NUMBERS[agreed.campaign.kem]
        wires = [one.wire for one in sent]
        opened = self._opener.open_envelopes(wires, campaign_hash=agreed.hash, kem=kem)
        newest: dict[int, tuple[int, _Member]] = {}
        unopened = covers = 0
        for found, one in zip(opened, sent, strict=True):
            if found is None or found.round != one.round:
                unopened += 1
            elif found.mark.is_cover:
                covers += 1
            else:
                member = _Member(found.inner, found.mark.label, one)
                newest[one.device] = found.mark.fusion_key_id, member
        # A batch of one fusion key below k_min would single its senders out.
        by_key: dict[int, list[_Member]] = defaultdict(list)
        for key_id, member in newest.values():
            by_key[key_id].append(member)
        return _Found(by_key, unopened, covers)

    def _members(self) -> int:
        """Count the devices that are enrolled and not revoked, whichever campaigns they serve."""
        with self._database.snapshot() as transaction:
            ((count,),) = transaction.execute("SELECT COUNT(*) FROM device")
        return int(count)

    def _parcel(
        self, agreed: Agreed, round: int, key_id: int, some: list[_Member], members: int
    ) -> _Parcel:
        campaign = agreed.campaign
        order, manifest = draw_order(
            [member.sent.group for member in some], campaign.shuffle, rng=self._rng
        )
        order, counts = _by_label(order, [member.label for member in some], campaign)
        inner = tuple(some[place].inner for place in order)
        batch = Batch(agreed.hash, round, key_id, inner, counts)
        # Labels are public: the best observer guesses within each, and is right once in each.
        success = min(1.0, manifest.attacker_success * len(counts))
        manifest = replace(manifest, attacker_success=success)
        # A device that was revoked while its report was opened is no longer counted.
        return self._sign_parcel(batch, campaign, manifest, members=max(members, len(some)))

    def _withheld_parcel(self, agreed: Agreed, round: int) -> _Parcel:
        return self._sign_parcel(
            Batch(agreed.hash, round, 0, ()), agreed.campaign, None, members=None
        )

    def _sign_parcel(
        self, batch: Batch, campaign: Campaign, manifest: Manifest | None, *, members: int | None
    ) -> _Parcel:
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
            members=members,
            shuffled_epsilon=None if manifest is None else campaign.shuffled_epsilon,
            delta=None if manifest is None else campaign.delta,
        )
        signed = SignedManifest(said, signature_of(said, self._key))
        return _Parcel(body, signed.to_bytes(), len(batch.inner))


def _by_label(
    order: list[int], labels: list[int], campaign: Campaign
) -> tuple[list[int], tuple[LabelCount, ...]]:
    """Return an order by labels that enough reports share, and how many reports have each."""
    if campaign.shuffle.method == "uniform":
        labels = merge_labels(labels, k_min=campaign.k_min)
    else:
        # The order of such a shuffle goes over the whole round; labels would tear it apart.
        labels = [OTHER] * len(labels)
    # The sort keeps the order inside each label, which stays uniform.
    counts = tuple(LabelCount(*pair) for pair in sorted(Counter(labels).items()))
    return sorted(order, key=labels.__getitem__), counts
