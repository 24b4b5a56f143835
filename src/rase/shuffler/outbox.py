"""What waits for the fusion centre, as operators see it: which batches and why, never what is in.

The bytes of a batch stay as they are, whatever is done here: there is one permutation of a round.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rase.campaign import Campaign
from rase.service.acts import record_act
from rase.shuffler.proposals import MAX_PROPOSAL_BYTES
from rase.storage.interface import Database, Transaction
from rase.wire import cbor
from rase.wire.signed import campaign_from_bytes

__all__ = ["WaitingBatch", "agreed_campaigns", "discard_batches", "list_outbox", "retry_batches"]


@dataclass(frozen=True, slots=True)
class WaitingBatch:
    """Say of one batch what an operator needs to know.

    Args:
        batch: Its id, in hex.
        campaign: The campaign's id.
        round: The round in which it was released.
        state: "waiting", or "refused" if it is not sent any more.
        age_s: How many seconds ago the round closed.
        attempts: How often it was sent.
        refusals: How often the fusion centre refused it.
        problem: Why it was not taken the last time; empty if it was not sent yet.
    """

    batch: str
    campaign: str
    round: int
    state: str
    age_s: int
    attempts: int
    refusals: int
    problem: str


def agreed_campaigns(transaction: Transaction) -> dict[bytes, Campaign]:
    """Return the agreed versions of campaigns by their hash, without checking signatures again."""
    rows = transaction.execute("SELECT hash, signed FROM campaign")
    return {
        bytes(hash_): campaign_from_bytes(
            cbor.decode(bytes(signed), max_size=MAX_PROPOSAL_BYTES)[1]
        )
        for hash_, signed in rows
    }


def list_outbox(database: Database, *, now_s: float) -> list[WaitingBatch]:
    """Return the batches that the fusion centre has not taken, the oldest first."""
    with database.snapshot() as transaction:
        campaigns = agreed_campaigns(transaction)
        rows = transaction.execute(
            "SELECT batch, campaign, round, state, attempts, refusals, problem FROM outbox"
        )
    found = []
    for batch, campaign_hash, round, state, attempts, refusals, problem in rows:
        campaign = campaigns[bytes(campaign_hash)]
        found.append(
            WaitingBatch(
                batch=bytes(batch).hex(),
                campaign=campaign.id,
                round=round,
                state=state,
                age_s=max(int(now_s) - campaign.closes_s(round), 0),
                attempts=attempts,
                refusals=refusals,
                problem=problem or "",
            )
        )
    return sorted(found, key=lambda one: (-one.age_s, one.campaign, one.round, one.batch))


def retry_batches(database: Database, batches: Sequence[str] = ()) -> list[str]:
    """Have batches sent again, at once; all that are in the outbox if none is named.

    Args:
        database: The shuffler's.
        batches: Their ids in hex, or how they begin.

    Returns:
        The ids of those that are sent again.

    Raises:
        LookupError: If there is no such batch, or more than one; then nothing is changed.
    """
    with database.transaction() as transaction:
        chosen = _choose_batches(transaction, batches)
        transaction.execute_many(
            "UPDATE outbox SET state = 'waiting', next_s = 0, attempts = 0, refusals = 0 "
            "WHERE batch = ?",
            [(bytes.fromhex(batch),) for batch in chosen],
        )
        _record_batches(transaction, "retry batch", chosen)
    return chosen


def discard_batches(database: Database, batches: Sequence[str]) -> list[str]:
    """Erase batches for good: their rounds never become final with the reports in them.

    Raises:
        LookupError: If there is no such batch, or more than one; then nothing is changed.
    """
    with database.transaction() as transaction:
        chosen = _choose_batches(transaction, batches) if batches else []
        transaction.execute_many(
            "DELETE FROM outbox WHERE batch = ?", [(bytes.fromhex(batch),) for batch in chosen]
        )
        _record_batches(transaction, "discard batch", chosen)
    return chosen


def _record_batches(transaction: Transaction, act: str, batches: Sequence[str]) -> None:
    for batch in batches:
        record_act(transaction, act, batch)


def _choose_batches(transaction: Transaction, batches: Sequence[str]) -> list[str]:
    known = sorted(
        bytes(batch).hex() for (batch,) in transaction.execute("SELECT batch FROM outbox")
    )
    if not batches:
        return known
    chosen: dict[str, None] = {}
    for name in batches:
        found = [batch for batch in known if batch.startswith(name.lower())]
        if len(found) != 1:
            count = "no batch" if not found else f"{len(found)} batches"
            raise LookupError(
                f"{count} in the outbox begin with {name}; see rase shuffler outbox list."
            )
        chosen[found[0]] = None
    return list(chosen)
