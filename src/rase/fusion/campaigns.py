"""The campaigns and keysets of the fusion centre: proposed, countersigned, looked up by round."""

from dataclasses import replace
from typing import Any, Protocol

from rase.campaign import Campaign
from rase.clock import Clock, round_number
from rase.fusion.mechanism import campaign_of
from rase.service.acts import record_act
from rase.storage.interface import Database, Transaction
from rase.validation import CampaignInvalid
from rase.wire.keys import Keyset, SigningKey
from rase.wire.messages import INNER_SIZES, PART_BYTES
from rase.wire.signed import (
    PinnedKeys,
    SignedCampaign,
    SignedKeyset,
    campaign_bytes,
    campaign_from_bytes,
    campaign_hash,
    signature_of,
)
from rase.wire.suites import KEM_NUMBERS

__all__ = [
    "Countersigner",
    "Publisher",
    "campaign_in_round",
    "campaign_of_hash",
    "campaign_of_version",
    "current_campaign",
    "current_keyset",
    "known_campaigns",
    "next_version",
]


class Countersigner(Protocol):
    """The other server, asked for its signature; HTTP in life, a function in tests."""

    def campaign(self, campaign: Campaign, fusion_signature: bytes) -> bytes:
        """Return the shuffler's signature of a campaign."""
        ...

    def keyset(self, keyset: Keyset, fusion_signature: bytes) -> bytes:
        """Return the shuffler's signature of a keyset."""
        ...


class Publisher:
    """Publish campaigns and keysets: sign, have the shuffler countersign, store.

    Every step can be repeated: what is published already is returned as it is, and what was
    proposed but not countersigned is proposed again with the same bytes.

    Args:
        database: The fusion centre's.
        clock: Says which rounds are still to come.
        key: The fusion centre's signing key.
        pinned: The public signing keys of both servers.
        countersigner: The shuffler.
        max_batch_bytes: The longest batch that is taken: rounds of a campaign must fit, or they
            would be refused when their reports are erased already. None if nothing is known of it.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        key: SigningKey,
        pinned: PinnedKeys,
        countersigner: Countersigner,
        max_batch_bytes: int | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._key = key
        self._pinned = pinned
        self._countersigner = countersigner
        self._max_batch_bytes = max_batch_bytes

    def publish(self, campaign: Campaign, *, by: str = "") -> SignedCampaign:
        """Publish a first campaign, or a new version for rounds to come.

        Args:
            campaign: The campaign.
            by: Who publishes it, for the log of acts; the user of this process if empty.

        Raises:
            CampaignInvalid: If the new version may not follow the published one, or its rounds
                could be too long to be taken.
            RaseError: If the shuffler refuses it or cannot be reached; nothing is published then.
        """
        # No part of a long batch has fewer than k_min reports, and those before it have fewer than
        # twice as many; with each goes the head of its encoding, with all of them a short frame.
        size = INNER_SIZES[KEM_NUMBERS[campaign.kem]]
        longest = max(PART_BYTES // size, 2 * campaign.k_min) * (size + 3) + 128
        if self._max_batch_bytes is not None and longest > self._max_batch_bytes:
            text = (
                f"fusion.limits.max_batch_bytes must be at least {longest} for a campaign with "
                f"k_min {campaign.k_min}, got {self._max_batch_bytes}: its batches would be "
                "refused. Raise it in the settings of the fusion centre, or lower k_min."
            )
            raise CampaignInvalid([text])
        signature = signature_of(campaign, self._key)
        with self._database.transaction() as transaction:
            known = _read_countersignature(transaction, campaign)
            if known is None:
                self._check_follows(transaction, campaign)
                _propose(transaction, campaign, signature)
        if known is None:
            known = self._countersigner.campaign(campaign, signature)
        signed = SignedCampaign(campaign, signature, known)
        # The shuffler's signature is checked before anybody learns that there is a campaign.
        SignedCampaign.from_bytes(signed.to_bytes(), self._pinned)
        with self._database.transaction() as transaction:
            # Written again: another proposal may have taken this one's place meanwhile. It is not
            # lost by that, the shuffler signs one campaign of a version alone.
            if _read_countersignature(transaction, campaign) is None:
                _propose(transaction, campaign, signature)
                transaction.execute(
                    "UPDATE campaigns SET shuffler_signature = ? WHERE hash = ?",
                    (known, campaign_hash(campaign)),
                )
                subject = f"{campaign.id} version {campaign.version}"
                record_act(
                    transaction, "publish campaign", subject, now_s=self._clock.now_s(), by=by
                )
        return signed

    def publish_keyset(self, keyset: Keyset, *, by: str = "") -> SignedKeyset:
        """Publish the public keys of both servers.

        Args:
            keyset: The keys.
            by: Who publishes them, for the log of acts; the user of this process if empty.

        Raises:
            ValueError: If its version is not above the published one.
            RaseError: If the shuffler refuses it or cannot be reached.
        """
        signature = signature_of(keyset, self._key)
        body = keyset.to_bytes()
        with self._database.transaction() as transaction:
            newest = current_keyset(transaction)
            if newest is not None and newest.keyset.to_bytes() == body:
                return newest
            if newest is not None and keyset.version <= newest.keyset.version:
                raise ValueError(
                    f"version must be above {newest.keyset.version}, which is published, "
                    f"got {keyset.version}."
                )
            transaction.execute("DELETE FROM keysets WHERE shuffler_signature IS NULL")
            transaction.execute(
                "INSERT INTO keysets (version, body, fusion_signature) VALUES (?, ?, ?)",
                (keyset.version, body, signature),
            )
        signed = SignedKeyset(keyset, signature, self._countersigner.keyset(keyset, signature))
        SignedKeyset.from_bytes(signed.to_bytes(), self._pinned)
        with self._database.transaction() as transaction:
            # Another proposal of this version may have taken its place meanwhile, as above.
            transaction.execute(
                "DELETE FROM keysets WHERE version = ? AND shuffler_signature IS NULL",
                (keyset.version,),
            )
            added = transaction.execute(
                "INSERT INTO keysets (version, body, fusion_signature, shuffler_signature) "
                "VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING version",
                (keyset.version, body, signature, signed.shuffler_signature),
            )
            if added:
                subject, now_s = str(keyset.version), self._clock.now_s()
                record_act(transaction, "publish keyset", subject, now_s=now_s, by=by)
        return signed

    def _check_follows(self, transaction: Transaction, campaign: Campaign) -> None:
        previous = current_campaign(transaction, campaign.id)
        if previous is not None:
            now = round_number(int(self._clock.now_s()), campaign.round_s)
            campaign.check_succeeds(previous.campaign, from_round=now + 1)
        elif campaign.version != 1:
            raise CampaignInvalid(
                [f"version must be 1 in a first campaign, got {campaign.version}."]
            )


def next_version(campaign: Campaign, *, not_before: int, **changes: Any) -> Campaign:
    """Return the campaign's next version: the paper's feedback of new (beta, rho).

    Args:
        campaign: The version that is published.
        not_before: The first round of the new one.
        **changes: The fields that change.

    Raises:
        CampaignInvalid: If such a version may not follow this one.
    """
    changes.setdefault("not_after", max(campaign.not_after, not_before))
    changes |= {"version": campaign.version + 1, "not_before": not_before}
    if campaign.delta is None and campaign.states is None:
        return replace(campaign, **changes)
    # Other numbers are other claims: they are computed again. States have no range to change.
    return campaign_of(campaign.as_fields() | changes)


_COLUMNS = "body, fusion_signature, shuffler_signature"


def known_campaigns(transaction: Transaction) -> list[str]:
    """Return the ids of the published campaigns."""
    rows = transaction.execute(
        "SELECT DISTINCT campaign FROM campaigns WHERE shuffler_signature IS NOT NULL "
        "ORDER BY campaign"
    )
    return [row[0] for row in rows]


def current_campaign(transaction: Transaction, campaign_id: str) -> SignedCampaign | None:
    """Return the newest published version of a campaign."""
    rows = transaction.execute(
        f"SELECT {_COLUMNS} FROM campaigns WHERE campaign = ? "  # noqa: S608 - fixed words
        "AND shuffler_signature IS NOT NULL ORDER BY version DESC LIMIT 1",
        (campaign_id,),
    )
    return _read_signed(rows[0]) if rows else None


def campaign_in_round(
    transaction: Transaction, campaign_id: str, round: int
) -> SignedCampaign | None:
    """Return the published version that holds in a round: the newest that has begun by then."""
    rows = transaction.execute(
        f"SELECT {_COLUMNS} FROM campaigns WHERE campaign = ? AND not_before <= ? "  # noqa: S608
        "AND shuffler_signature IS NOT NULL ORDER BY version DESC LIMIT 1",
        (campaign_id, round),
    )
    found = _read_signed(rows[0]) if rows else None
    return found if found is not None and found.campaign.holds_in(round) else None


def campaign_of_version(transaction: Transaction, campaign_id: str, version: int) -> Campaign:
    """Return a published version of a campaign."""
    rows = transaction.execute(
        f"SELECT {_COLUMNS} FROM campaigns WHERE campaign = ? AND version = ?",  # noqa: S608
        (campaign_id, version),
    )
    return campaign_from_bytes(bytes(rows[0][0]))


def campaign_of_hash(transaction: Transaction, hash: bytes) -> Campaign | None:  # noqa: A002
    """Return the published campaign of a hash."""
    rows = transaction.execute(
        "SELECT body FROM campaigns WHERE hash = ? AND shuffler_signature IS NOT NULL", (hash,)
    )
    return campaign_from_bytes(bytes(rows[0][0])) if rows else None


def current_keyset(transaction: Transaction) -> SignedKeyset | None:
    """Return the newest published keyset."""
    rows = transaction.execute(
        f"SELECT {_COLUMNS} FROM keysets "  # noqa: S608 - fixed words
        "WHERE shuffler_signature IS NOT NULL ORDER BY version DESC LIMIT 1"
    )
    if not rows:
        return None
    body, fusion, shuffler = (bytes(part) for part in rows[0])
    return SignedKeyset(Keyset.from_bytes(body), fusion, shuffler)


def _read_signed(row: tuple[Any, ...]) -> SignedCampaign:
    body, fusion, shuffler = (bytes(part) for part in row)
    return SignedCampaign(campaign_from_bytes(body), fusion, shuffler)


def _read_countersignature(transaction: Transaction, campaign: Campaign) -> bytes | None:
    rows = transaction.execute(
        "SELECT shuffler_signature FROM campaigns WHERE hash = ?", (campaign_hash(campaign),)
    )
    return bytes(rows[0][0]) if rows and rows[0][0] is not None else None


def _propose(transaction: Transaction, campaign: Campaign, signature: bytes) -> None:
    # A proposal that the shuffler never signed binds nobody and may be replaced.
    transaction.execute(
        "DELETE FROM campaigns WHERE campaign = ? AND shuffler_signature IS NULL", (campaign.id,)
    )
    transaction.execute(
        "INSERT INTO campaigns (campaign, version, hash, body, not_before, fusion_signature) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (
            campaign.id,
            campaign.version,
            campaign_hash(campaign),
            campaign_bytes(campaign),
            campaign.not_before,
            signature,
        ),
    )
