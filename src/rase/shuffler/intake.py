"""A report is checked by its header and stored, never opened: no private key is needed here."""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from rase.errors import WireError, WrongCampaign, WrongSize
from rase.shuffler.documents import Agreed, Documents
from rase.storage.face import Database, Transaction
from rase.wire.keys import Role
from rase.wire.messages import REPORT_SIZES, Header
from rase.wire.suites import KEM_NUMBERS

__all__ = ["Outcome", "Pending", "check_report", "round_is_open", "store_reports", "tag_number"]


class Outcome(Enum):
    """Say what became of a report."""

    STORED = "stored"
    REPEATED = "repeated"
    IGNORED = "ignored"
    CLOSED = "closed"


class Pending(NamedTuple):
    """A report that passed all checks but those of the database."""

    agreed: Agreed
    round: int
    device: int
    wire: bytes


def check_report(wire: bytes, device: int, *, documents: Documents, now_s: float) -> Pending:
    """Check all that the header tells: size, campaign, key, round.

    Args:
        wire: The report.
        device: Its sender.
        documents: What was agreed.
        now_s: The time.

    Raises:
        WireError: With the problem that the device is told.
    """
    header = Header.from_report(wire)
    agreed = documents.of_tag(header.campaign_tag)
    if agreed is None:
        raise WrongCampaign("no campaign of this report is known here.")
    campaign = agreed.campaign
    if len(wire) != REPORT_SIZES[KEM_NUMBERS[campaign.kem]]:
        raise WrongSize("the report has the size of another key encapsulation than the campaign's.")
    if documents.of_round(campaign.id, header.round) is not agreed or documents.keyset is None:
        raise WireError(
            f"version {campaign.version} of the campaign does not hold in this round.",
            problem="outdated-config",
        )
    documents.keyset.accepted(Role.SHUFFLER, header.key_id, now_s=now_s)
    if now_s < campaign.round_end_s(header.round):
        raise WireError(f"round {header.round} has not ended yet.", problem="round-not-open")
    if now_s >= campaign.closes_s(header.round):
        raise WireError(f"round {header.round} is closed.", problem="round-closed")
    return Pending(agreed, header.round, device, wire)


def store_reports(database: Database, reports: Sequence[Pending]) -> list[Outcome]:
    """Store reports in one transaction; when this returns, they are on the disk.

    The first envelope of a device in a round counts. The same bytes again are a retry; other
    bytes are ignored.

    Returns:
        What became of each.

    Raises:
        StorageError: If nothing was stored.
    """
    with database.transaction() as transaction:
        is_open: dict[tuple[bytes, int], bool] = {}
        outcomes = []
        for report in reports:
            place = report.agreed.hash, report.round
            if place not in is_open:
                is_open[place] = round_is_open(transaction, report.agreed, report.round)
            outcomes.append(_store(transaction, report) if is_open[place] else Outcome.CLOSED)
    return outcomes


def round_is_open(transaction: Transaction, agreed: Agreed, round: int) -> bool:
    """Return whether a round still takes reports, and note that it now has some.

    The clock has been asked before; this settles the race with the closer.
    """
    rows = transaction.execute(
        "SELECT state FROM round WHERE campaign = ? AND round = ?", (agreed.hash, round)
    )
    if rows:
        return bool(rows[0][0] == "open")
    ((next_round,),) = transaction.execute(
        "SELECT next_round FROM campaign WHERE hash = ?", (agreed.hash,)
    )
    if round < next_round:
        return False
    transaction.execute(
        "INSERT INTO round (campaign, round, closes_s, state, lease_until_s, attempts) "
        "VALUES (?, ?, ?, 'open', 0, 0) ON CONFLICT DO NOTHING",
        (agreed.hash, round, agreed.campaign.closes_s(round)),
    )
    return True


def tag_number(hash: bytes) -> int:  # noqa: A002 - the protocol's word
    """Return the campaign's tag as the number that keeps the key of a report narrow."""
    return int.from_bytes(hash[:8], "big", signed=True)


def _store(transaction: Transaction, report: Pending) -> Outcome:
    key = report.round, tag_number(report.agreed.hash), report.device
    stored = transaction.execute(
        "INSERT INTO report (round, tag, device, wire) VALUES (?, ?, ?, ?) "
        "ON CONFLICT DO NOTHING RETURNING device",
        (*key, report.wire),
    )
    if stored:
        return Outcome.STORED
    ((wire,),) = transaction.execute(
        "SELECT wire FROM report WHERE round = ? AND tag = ? AND device = ?", key
    )
    return Outcome.REPEATED if bytes(wire) == report.wire else Outcome.IGNORED
