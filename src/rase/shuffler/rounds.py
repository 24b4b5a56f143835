"""Which rounds are due, and who may close one: a lease with an expiry, a token and attempts.

Any number of closers may share a database: each takes a round that no other is taking, and a round
that reports are being written to is taken when that is done.
"""

import hmac
import secrets
from dataclasses import dataclass, field
from typing import Final

from rase.errors import StorageError
from rase.shuffler.documents import Documents
from rase.storage.interface import Database, Transaction

__all__ = ["Lease", "LeaseLost", "begin_rounds", "check_lease", "claim_round", "prune_rounds"]

_MOST_AT_ONCE: Final = 500
_MAX_DOUBLINGS: Final = 3


class LeaseLost(StorageError):
    """Another closer has taken over the round; nothing of this one's work was written."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to close one round, for some time.

    Args:
        campaign_hash: CH of its campaign.
        round: The round.
        token: Known to the holder alone.
        attempt: 1 for the first holder, one more for each later one.
    """

    campaign_hash: bytes = field(repr=False)
    round: int
    token: bytes = field(repr=False)
    attempt: int


def begin_rounds(database: Database, documents: Documents, *, now_s: float) -> bool:
    """Note the rounds whose time is up, also those without any report: they are withheld.

    Returns:
        Whether some are left for the next call, as after a long outage.
    """
    is_more = False
    with database.share() as transaction:
        rows = transaction.execute("SELECT hash, next_round FROM campaign ORDER BY hash FOR UPDATE")
        next_rounds = {bytes(hash_): next_round for hash_, next_round in rows}
        for agreed in documents:
            campaign, first = agreed.campaign, next_rounds[agreed.hash]
            due = (int(now_s) - campaign.grace_s) // campaign.round_s - 1
            end = min(due, documents.last_round(agreed)) + 1
            if first >= end:
                continue
            is_more |= end - first > _MOST_AT_ONCE
            end = min(end, first + _MOST_AT_ONCE)
            transaction.execute_many(
                "INSERT INTO round (campaign, round, closes_s, block_start, state, lease_until_s, "
                "attempts) VALUES (?, ?, ?, ?, 'open', 0, 0) ON CONFLICT DO NOTHING",
                [
                    (agreed.hash, round, campaign.closes_s(round), campaign.block_start(round))
                    for round in range(first, end)
                ],
            )
            transaction.execute(
                "UPDATE campaign SET next_round = ? WHERE hash = ?", (end, agreed.hash)
            )
    return is_more


def claim_round(database: Database, *, now_s: float, lease_s: int) -> Lease | None:
    """Take the lease of a round that is due and that nobody holds; from now on it is closed.

    The time doubles with each attempt, so that a round too large for the first lease is closed at
    last. A lease that ends later than any can was written by a clock that was wrong, and holds
    nobody off; who has it still can then write nothing. Rounds of one block are closed in their
    order: each may leave reports to the next.

    Returns:
        The lease, or None if no round is due.
    """
    now = int(now_s)
    with database.share() as transaction:
        rows = transaction.execute(
            "SELECT campaign, round, attempts FROM round WHERE state IN ('open', 'closing') "
            "AND closes_s <= ? AND (lease_until_s <= ? OR lease_until_s > ?) "
            "AND NOT EXISTS (SELECT 1 FROM round earlier "
            "WHERE earlier.campaign = round.campaign AND earlier.round >= round.block_start "
            "AND earlier.round < round.round AND earlier.state IN ('open', 'closing')) "
            "ORDER BY closes_s, campaign LIMIT 1 FOR UPDATE SKIP LOCKED",
            (now, now, now + (lease_s << _MAX_DOUBLINGS)),
        )
        if not rows:
            return None
        campaign, round, attempts = rows[0]
        lease = Lease(bytes(campaign), round, secrets.token_bytes(16), attempts + 1)
        until = now + (lease_s << min(attempts, _MAX_DOUBLINGS))
        transaction.execute(
            "UPDATE round SET state = 'closing', lease_token = ?, lease_until_s = ?, "
            "attempts = ? WHERE campaign = ? AND round = ?",
            (lease.token, until, lease.attempt, lease.campaign_hash, round),
        )
    return lease


def check_lease(transaction: Transaction, lease: Lease) -> None:
    """Refuse to go on if the round was taken over; call it where its end is written.

    Raises:
        LeaseLost: If so.
    """
    rows = transaction.execute(
        "SELECT state, lease_token FROM round WHERE campaign = ? AND round = ? FOR UPDATE",
        (lease.campaign_hash, lease.round),
    )
    is_ours = bool(rows) and rows[0][0] == "closing"
    if not is_ours or not hmac.compare_digest(bytes(rows[0][1]), lease.token):
        raise LeaseLost(f"round {lease.round} was taken over by another closer.")


def prune_rounds(database: Database, *, before_s: float) -> None:
    """Forget rounds that were closed long ago; they stay closed, being before ``next_round``."""
    with database.transaction() as transaction:
        transaction.execute(
            "DELETE FROM round WHERE state IN ('released', 'carried', 'below_k') AND closes_s < ? "
            "AND round < (SELECT next_round FROM campaign WHERE hash = round.campaign)",
            (int(before_s),),
        )
