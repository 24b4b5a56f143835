"""Close a round: open the outer envelopes, draw the order once, write the outbox, erase the rest.

All that changes, changes in one transaction: a crash before it leaves the round as it was, and the
order that was drawn is forgotten unseen; after it there is one set of bytes to forward, for ever.

A round below k_min is dropped; or, where the campaign carries rounds, its reports wait for those of
the next rounds of the block, to which the fusion centre sees them belong: see
docs/decisions/0006-carried-rounds-share-a-block.md. Each device has at most one report in a
release, its newest. Cover reports end here: nobody counts them, and nobody sees them further on.

Whoever knows a label knows who could have sent under it, so each label of a release has to hide
its senders by itself: below k_min it is merged into label 0 before anything is forwarded.
"""

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from rase.campaign import Campaign
from rase.kernels.words import SecureRandom, checked_secure
from rase.shuffle.release import Manifest
from rase.shuffler.documents import Agreed, Documents
from rase.shuffler.intake import tag_number
from rase.shuffler.membership import IS_MEMBER, member_pattern
from rase.shuffler.minorities import keep_minorities
from rase.shuffler.opening import OuterOpenerPool
from rase.shuffler.order import Order, draw_order
from rase.shuffler.public_keys import keep_own_keys
from rase.shuffler.rounds import Lease, check_lease
from rase.storage.interface import Database
from rase.wire.keys import OpeningKey, SigningKey
from rase.wire.messages import (
    INNER_SIZES,
    PART_BYTES,
    Batch,
    BatchManifest,
    LabelCount,
    batch_id,
)
from rase.wire.outer import OpenedOuter
from rase.wire.signed import SignedManifest, signature_of
from rase.wire.suites import KEM_NUMBERS

__all__ = ["OTHER", "Closed", "Releaser", "cut_batch", "merge_labels"]

OTHER: Final = 0

# How many reports are opened at once: what they take is all that a large round takes twice.
_PAGE: Final = 8192


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
        minority: How many named another keyset, or were sealed for another key of the fusion
            centre, than the devices of their round go by.
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
    minority: int = 0


@dataclass(frozen=True, slots=True)
class _Parcel:
    """A batch as it is stored and sent, for ever the same."""

    body: bytes
    manifest: bytes


class _Sent(NamedTuple):
    """A report as it was stored, its sender, and the sender's public group."""

    round: int
    device: int
    wire: bytes
    group: str


@dataclass(slots=True)
class _Crowd:
    """The open reports of one fusion key, in few objects: a round may have a million of them.

    ``pages`` holds the envelopes one after the other, _PAGE of ``size`` bytes in each but the last:
    one long row of bytes would have to be moved while it grows. Where no report can be carried,
    ``rounds`` and ``devices`` are empty.
    """

    size: int
    pages: list[bytes | bytearray] = field(default_factory=list)
    labels: bytearray = field(default_factory=bytearray)
    rounds: "array[int]" = field(default_factory=partial(array, "q"))
    devices: "array[int]" = field(default_factory=partial(array, "q"))
    groups: list[str] = field(default_factory=list)

    def add(self, one: _Sent, found: OpenedOuter, *, may_carry: bool) -> None:
        """Add a report that opened."""
        if len(self.labels) % _PAGE == 0:
            # What is full needs no room to grow.
            self.pages[-1:] = [bytes(page) for page in self.pages[-1:]]
            self.pages.append(bytearray())
        self.pages[-1] += found.inner
        self.labels.append(found.mark.label)
        self.groups.append(one.group)
        if may_carry:
            self.rounds.append(one.round)
            self.devices.append(one.device)

    def envelope(self, place: int) -> bytes:
        """Return the envelope of a place."""
        page, begin = self.pages[place // _PAGE], place % _PAGE * self.size
        return bytes(memoryview(page)[begin : begin + self.size])

    def keep(self, places: list[int]) -> None:
        """Drop all reports but those in some places."""
        self.pages = [
            b"".join(self.envelope(place) for place in places[begin : begin + _PAGE])
            for begin in range(0, len(places), _PAGE)
        ]
        self.labels = bytearray(self.labels[place] for place in places)
        self.rounds = array("q", (self.rounds[place] for place in places))
        self.devices = array("q", (self.devices[place] for place in places))
        self.groups = [self.groups[place] for place in places]


class _Found(NamedTuple):
    """The newest report of each device by its fusion key, and what else there was."""

    by_key: dict[int, _Crowd]
    reports: int
    unopened: int
    covers: int
    minorities: Counter[int]


class Releaser:
    """Close rounds with the shuffler's keys.

    Args:
        database: The shuffler's.
        opener: Opens outer envelopes.
        key: The shuffler's signing key.
        name: The shuffler's name in manifests.
        rng: The secure source of orders.
        part_bytes: How long a batch may be before it is forwarded in parts.

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
        part_bytes: int = PART_BYTES,
    ) -> None:
        self._database = database
        self._opener = opener
        self._key = key
        self._name = name
        self._rng = checked_secure(rng)
        self._part_bytes = part_bytes

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

    def close(self, lease: Lease, agreed: Agreed, *, documents: Documents, now_s: float) -> Closed:
        """Close a round for good.

        Since the lease was taken nobody adds to the round, so opening happens before the
        transaction and does not keep others from writing.

        Args:
            lease: The right to close it.
            agreed: Its campaign.
            documents: All that was agreed: nothing is carried past the last round of this version
                of the campaign, and a report counts only if it is sealed for the key of its round.
            now_s: The time, from which the batches may be forwarded.

        Raises:
            LeaseLost: If another closer took over; nothing was written.
        """
        tag = tag_number(agreed.hash)
        block = agreed.campaign.block_start(lease.round), lease.round
        found = self._open_reports(agreed, block, documents)
        with self._database.snapshot() as transaction:
            # Those that are enrolled, not revoked, and may report to this campaign.
            ((members,),) = transaction.execute(
                f"SELECT COUNT(*) FROM device WHERE {IS_MEMBER}",  # noqa: S608 - a fixed text
                (member_pattern(agreed.campaign.id),),
            )
        k_min, last_round = agreed.campaign.k_min, documents.last_round(agreed)
        is_last = lease.round >= min(agreed.campaign.block_end(lease.round), last_round)
        # The largest first: it decides the estimate if the fusion centre takes only one.
        ways = sorted(found.by_key.items(), key=lambda way: -len(way[1].labels))
        large = [(key_id, some) for key_id, some in ways if len(some.labels) >= k_min]
        waiting = [] if is_last else [some for _, some in ways if len(some.labels) < k_min]
        carried = [
            (round, tag, device)
            for some in waiting
            for round, device in zip(some.rounds, some.devices, strict=True)
        ]
        state = "released" if large else "carried" if carried else "below_k"
        batches = 0
        with self._database.share() as transaction:
            check_lease(transaction, lease)
            # One after the other: a large round is longer than the memory for it.
            for parcel in self._parcels(agreed, lease.round, large, members):
                transaction.execute(
                    "INSERT INTO outbox (batch, campaign, round, body, manifest, state, next_s, "
                    "attempts) VALUES (?, ?, ?, ?, ?, 'waiting', ?, 0)",
                    (
                        batch_id(parcel.body),
                        agreed.hash,
                        lease.round,
                        parcel.body,
                        parcel.manifest,
                        int(now_s),
                    ),
                )
                batches += 1
                del parcel
            # Fewer than k_min of each key, so reading and writing them again costs little.
            wires = [
                row
                for place in carried
                for row in transaction.execute(
                    "SELECT round, tag, device, wire FROM report "
                    "WHERE round = ? AND tag = ? AND device = ?",
                    place,
                )
            ]
            transaction.execute(
                "DELETE FROM report WHERE round >= ? AND round <= ? AND tag = ?", (*block, tag)
            )
            if wires:
                transaction.execute_many(
                    "INSERT INTO report (round, tag, device, wire) VALUES (?, ?, ?, ?)", wires
                )
            reports = sum(len(some.labels) for _, some in ways)
            transaction.execute(
                "UPDATE round SET state = ?, reports = ?, lease_token = NULL "
                "WHERE campaign = ? AND round = ?",
                (state, reports, agreed.hash, lease.round),
            )
            if found.minorities:
                keep_minorities(transaction, found.minorities, now_s=now_s)
        released = sum(len(some.labels) for _, some in large)
        minority = found.minorities.total()
        counted = released + found.unopened + found.covers + minority + len(carried)
        return Closed(
            state,
            batches,
            released,
            found.unopened,
            found.covers,
            len(carried),
            found.reports - counted,
            minority,
        )

    def _read_sent(self, agreed: Agreed, block: tuple[int, int]) -> Iterator[list[_Sent]]:
        """Go through what waits of the rounds of a block up to the one that closes, oldest first.

        What devices sent that may not report to the campaign by now is passed over, and erased
        with the rest.

        Nobody adds to them meanwhile, so each page can be read by itself.
        """
        # Reading the groups of a large fleet takes long, and a plan without any needs none.
        group = "device.group_name" if agreed.campaign.shuffle.groups else "''"
        place = member_pattern(agreed.campaign.id), tag_number(agreed.hash)
        # Round by round, so that the key of the table leads to the begin of each page.
        for round in range(block[0], block[1] + 1):
            after, is_more = -1, True
            while is_more:
                with self._database.snapshot() as transaction:
                    rows = transaction.execute(
                        f"SELECT report.device, report.wire, {group} FROM report "  # noqa: S608 - one of two fixed texts
                        f"JOIN device ON device.id = report.device AND {IS_MEMBER} "
                        "WHERE report.tag = ? AND report.round = ? AND report.device > ? "
                        "ORDER BY report.device LIMIT ?",
                        (*place, round, after, _PAGE),
                    )
                yield [_Sent(round, device, bytes(wire), name) for device, wire, name in rows]
                is_more = len(rows) == _PAGE
                after = rows[-1][0] if rows else after

    def _open_reports(self, agreed: Agreed, block: tuple[int, int], documents: Documents) -> _Found:
        kem = KEM_NUMBERS[agreed.campaign.kem]
        by_key: dict[int, _Crowd] = {}
        # By device, where the reports of several rounds are looked at: the newest alone counts.
        newest: dict[int, tuple[int, int]] = {}
        reports = unopened = covers = 0
        minorities: Counter[int] = Counter()
        keys: dict[tuple[int, int], int | None] = {}
        may_carry = agreed.campaign.carry_rounds > 0
        for page in self._read_sent(agreed, block):
            opened = self._opener.open_envelopes(
                [one.wire for one in page], campaign_hash=agreed.hash, kem=kem
            )
            reports += len(page)
            for found, one in zip(opened, page, strict=True):
                if found is None or found.round != one.round:
                    unopened += 1
                    continue
                place = found.keyset, found.round
                if place not in keys:
                    keys[place] = documents.fusion_key(found.keyset, agreed.campaign, found.round)
                key_id = found.mark.fusion_key_id
                if found.mark.is_cover:
                    covers += 1
                elif key_id != keys[place]:
                    # Reports sealed for a key of their own could be told from those of the crowd.
                    minorities[found.keyset if documents.has_keyset(found.keyset) else 0] += 1
                else:
                    some = by_key.setdefault(key_id, _Crowd(INNER_SIZES[kem]))
                    if block[0] < block[1]:
                        newest[one.device] = key_id, len(some.labels)
                    some.add(one, found, may_carry=may_carry)
        if block[0] < block[1]:
            for key_id, some in by_key.items():
                some.keep(sorted(at for own, at in newest.values() if own == key_id))
        # A batch of one fusion key below k_min would single its senders out.
        return _Found(by_key, reports, unopened, covers, minorities)

    def _parcels(
        self, agreed: Agreed, round: int, large: list[tuple[int, _Crowd]], members: int
    ) -> Iterator[_Parcel]:
        """Make what is forwarded: a batch of each key, in parts if long; or that there is none."""
        campaign = agreed.campaign
        if not large:
            withheld = Batch(agreed.hash, round, 0, ())
            yield self._sign_parcel(withheld, campaign, None, members=None)
        for key_id, some in large:
            order, manifest = draw_order(some.groups, campaign.shuffle, rng=self._rng)
            order, counts = _by_label(order, some.labels, campaign)
            # Labels are public: the best observer guesses within each and is right once in each.
            success = min(1.0, manifest.attacker_success * len(counts))
            manifest = replace(manifest, attacker_success=success)
            parts = [counts]
            # The order of another law says something as a whole alone.
            if len(order) * some.size > self._part_bytes and manifest.method == "uniform":
                most = max(1, self._part_bytes // some.size)
                parts = cut_batch(counts, most=most, k_min=campaign.k_min)
            begin = 0
            for number, labels in enumerate(parts):
                end = begin + sum(one.reports for one in labels)
                places, begin = order[begin:end].tolist(), end
                # No name for what is in it: it would stay while the next part is made.
                yield self._sign_parcel(
                    Batch(agreed.hash, round, key_id, tuple(map(some.envelope, places)), labels),
                    campaign,
                    manifest,
                    # Whoever was revoked meanwhile is not counted any more.
                    members=max(members, len(order)),
                    part=(number, len(parts)) if len(parts) > 1 else None,
                )

    def _sign_parcel(
        self,
        batch: Batch,
        campaign: Campaign,
        manifest: Manifest | None,
        *,
        members: int | None,
        part: tuple[int, int] | None = None,
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
            part=None if part is None else part[0],
            parts=None if part is None else part[1],
        )
        signed = SignedManifest(said, signature_of(said, self._key))
        return _Parcel(body, signed.to_bytes())


def _by_label(
    order: Order, found: Sequence[int], campaign: Campaign
) -> tuple[Order, tuple[LabelCount, ...]]:
    """Return an order by labels that enough reports share, and how many reports have each."""
    if campaign.shuffle.method == "uniform":
        labels = np.array(merge_labels(found, k_min=campaign.k_min), np.uint8)
    else:
        # The order of such a shuffle goes over the whole round; labels would tear it apart.
        labels = np.full(len(found), OTHER, np.uint8)
    counts = np.bincount(labels).tolist()
    # The sort keeps the order inside each label, which stays uniform.
    return order[np.argsort(labels[order], kind="stable")], tuple(
        LabelCount(label, count) for label, count in enumerate(counts) if count
    )


def merge_labels(labels: Sequence[int], *, k_min: int) -> list[int]:
    """Return each report's label with those that have fewer than k_min reports replaced by 0.

    If those that were merged are themselves fewer than k_min, the smallest of the other labels
    joins them, so that no label of the result, 0 included, has fewer.

    Guarantee: each label of the result has at least k_min reports if there are as many at all
    (tests/shuffler/test_labels.py).

    Args:
        labels: The label of each report of a round that is to be released.
        k_min: The fewest reports of a label.

    Example:
        >>> merge_labels([1, 1, 1, 2, 3, 3], k_min=3)
        [1, 1, 1, 0, 0, 0]
        >>> merge_labels([1, 1, 1, 1, 2, 2, 2, 3], k_min=3)
        [1, 1, 1, 1, 0, 0, 0, 0]
    """
    counts = Counter(labels)
    others = counts.pop(OTHER, 0)
    kept = sorted(counts, key=lambda label: (counts[label], label))
    while kept and (counts[kept[0]] < k_min or 0 < others < k_min):
        others += counts[kept.pop(0)]
    large = set(kept)
    return [label if label in large else OTHER for label in labels]


def cut_batch(
    counts: Sequence[LabelCount], *, most: int, k_min: int
) -> list[tuple[LabelCount, ...]]:
    """Cut a batch that is sorted by labels, each of k_min reports or more; return what parts hold.

    Guarantee: each label of a part has at least k_min reports; no part has more than ``most``, or
    twice k_min if that is larger (tests/shuffler/test_parts.py).

    Example:
        >>> cut_batch([LabelCount(0, 5)], most=4, k_min=2)
        [(LabelCount(label=0, reports=2),), (LabelCount(label=0, reports=3),)]
    """
    parts: list[dict[int, int]] = []
    held = most + 1
    for label, reports in counts:
        number = max(1, min(-(-reports // most), reports // k_min))
        for place in range(number):
            size = reports * (place + 1) // number - reports * place // number
            held += size
            if held > most:
                parts.append({})
                held = size
            parts[-1][label] = parts[-1].get(label, 0) + size
    return [tuple(LabelCount(*pair) for pair in part.items()) for part in parts]
