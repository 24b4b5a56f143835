"""The rows of a settled round: as they are read, and as its estimates are written, once.

rase.fusion.rounds decides when.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rase.campaign import Campaign
from rase.counts.counts import Counts
from rase.counts.estimate import Estimate
from rase.fusion.answers import describe_round
from rase.fusion.campaigns import campaign_of_version
from rase.fusion.mechanism import counts_of
from rase.privacy import PermutationPrivacy
from rase.series.answers import finite, number_fields
from rase.shuffle.attacker import exposed_success
from rase.storage.face import Transaction
from rase.wire import cbor
from rase.wire.messages import BatchManifest

__all__ = ["Settled", "keep_tags", "read_settled", "shuffle_in_words", "write_settled"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Settled:
    """Hold an open round as it was read: what is estimated is what is then made final.

    ``members`` is how many devices the shuffler counted; None if it did not say.
    """

    campaign: Campaign
    round: int
    batches: tuple[bytes, ...]
    shuffle: str
    members: int | None
    counts: Counts


def read_settled(transaction: Transaction, campaign: str, round: int) -> Settled:
    """Return an open round as it stands, its reports counted."""
    ((version,),) = transaction.execute(
        "SELECT version FROM rounds WHERE campaign = ? AND round = ?", (campaign, round)
    )
    batches = transaction.execute(
        "SELECT batch, manifest FROM batches WHERE campaign = ? AND round = ? ORDER BY batch",
        (campaign, round),
    )
    rows = transaction.execute(
        "SELECT places, classes FROM opened WHERE campaign = ? AND round = ?", (campaign, round)
    )
    agreed = campaign_of_version(transaction, campaign, version)
    manifests = [_manifest(bytes(row[1])) for row in batches]
    words = list(dict.fromkeys(map(shuffle_in_words, manifests)))
    if len(batches) > 1:
        words.append(f"in {len(batches)} batches")
    if rows and agreed.block_start(round) < round:
        words.append(f"may hold reports of earlier rounds, from {agreed.block_start(round)} on")
    return Settled(
        campaign=agreed.reported_in(round),
        round=round,
        batches=tuple(bytes(row[0]) for row in batches),
        shuffle="; ".join(words),
        members=_members(manifests),
        counts=counts_of(
            agreed.reported_in(round),
            np.frombuffer(b"".join(bytes(row[0]) for row in rows), "<i8").astype(np.int64),
            np.frombuffer(b"".join(bytes(row[1]) for row in rows), np.uint8),
        ),
    )


def _manifest(signed: bytes) -> BatchManifest:
    """Return what a shuffler signed; the signature was checked at intake."""
    _, body, _ = cbor.decode(signed, max_size=1 << 16)
    return BatchManifest.from_bytes(body)


def _members(manifests: Sequence[BatchManifest]) -> int | None:
    """Return how many devices there were by all batches of a round; None if one does not say."""
    released = [one for one in manifests if one.method != "withheld"]
    counts = [one.members for one in released if one.members is not None]
    if not counts or len(counts) < len(released):
        return None
    # Each device has one report in one of the batches, so there are as many at the least.
    return max(*counts, sum(one.n for one in released))


def shuffle_in_words(manifest: BatchManifest) -> str:
    """Return what a shuffler says it did, as one sentence."""
    if manifest.method == "withheld":
        return f"withheld by {manifest.shuffler}: fewer than {manifest.k_min} reports"
    if manifest.method == "uniform":
        return f"uniform shuffle by {manifest.shuffler}: the order says nothing about the senders"
    # By the law that the manifest names, not by anybody's word; a signed theta is a float.
    exposed = exposed_success(manifest.n, float(manifest.theta or 0.0))
    promise = PermutationPrivacy(
        manifest.alpha,
        manifest.real_loss,
        min(manifest.attacker_success, 1.0),
        1 / manifest.n,
        exposed_success=exposed,
    )
    return f"Mallows shuffle by {manifest.shuffler}: {str(promise).rstrip('.')}"


def keep_tags(transaction: Transaction, campaign: Campaign, round: int) -> None:
    """Keep the tags of a final round while its block goes on; forget those of a block that ends."""
    transaction.execute(
        "INSERT INTO block_tags (batch, campaign, round, tags) "
        "SELECT batch, campaign, round, tags FROM opened WHERE campaign = ? AND round = ?",
        (campaign.id, round),
    )
    ((next_version,),) = transaction.execute(
        "SELECT MIN(not_before) FROM campaigns WHERE campaign = ? AND version > ? "
        "AND shuffler_signature IS NOT NULL",
        (campaign.id, campaign.version),
    )
    first, last = campaign.block_start(round), campaign.block_end(round)
    if next_version is not None:
        last = min(last, next_version - 1)
    block = (campaign.id, first, last)
    ((done,),) = transaction.execute(
        "SELECT COUNT(*) FROM rounds WHERE campaign = ? AND round >= ? AND round <= ? "
        "AND state <> 'open'",
        block,
    )
    if done > last - first:
        transaction.execute(
            "DELETE FROM block_tags WHERE campaign = ? AND round >= ? AND round <= ?", block
        )


def write_settled(transaction: Transaction, settled: Settled, estimates: list[Estimate]) -> None:
    """Make a round final with these estimates, or withheld without any, under the next number."""
    where = (settled.campaign.id, settled.round)
    ((last,),) = transaction.execute("SELECT COALESCE(MAX(sequence), 0) FROM rounds")
    transaction.execute(
        "UPDATE rounds SET state = ?, sequence = ?, shuffle = ? WHERE campaign = ? AND round = ?",
        ("final" if estimates else "withheld", last + 1, settled.shuffle, *where),
    )
    described = describe_round(settled.campaign, settled.round)
    transaction.execute_many(
        'INSERT INTO answers (campaign, round, method, target, quantity, unit, "time", until, '
        "value, standard_error, degrees_of_freedom, low, high, n, local_epsilon) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *where,
                one.method,
                numbers["target"],
                *(described[name] for name in ("quantity", "unit", "time", "until")),
                one.value,
                numbers["standard_error"],
                finite(one.degrees_of_freedom),
                numbers["low"],
                numbers["high"],
                one.n,
                described["local_epsilon"],
            )
            for one in estimates
            for numbers in [number_fields(one)]
        ],
    )
