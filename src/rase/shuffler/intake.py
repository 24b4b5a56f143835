"""A report is checked by its header and stored, never opened: no private key is needed here."""

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from rase.errors import WireError, WrongCampaign, WrongSize
from rase.shuffler.documents import Agreed, Documents, OpenRound
from rase.storage.interface import Database, Transaction
from rase.storage.retry import retry
from rase.wire.keys import Role
from rase.wire.messages import HEADER_SIZE, REPORT_SIZES, Header
from rase.wire.suites import KEM_NUMBERS

__all__ = [
    "WITHOUT_REPORTS",
    "Outcome",
    "Pending",
    "check_report",
    "round_is_open",
    "store_reports",
    "tag_number",
]

WITHOUT_REPORTS: Final = "DELETE FROM report; DELETE FROM enrolment_token; DELETE FROM proposal"
"""Takes out of a copy who reported, and tokens, which a copy that is put back would take again."""


_MOST_KNOWN: Final = 256


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
    """Check all that the header has: size, campaign, key, round.

    Args:
        wire: The report.
        device: Its sender.
        documents: What was agreed.
        now_s: The time.

    Raises:
        WireError: With the problem that the device is sent.
    """
    head = wire[:HEADER_SIZE]
    found = documents.open_rounds.get(head)
    if found is None or not found.begin_s <= now_s < found.end_s or len(wire) != found.size:
        found = _open_round(wire, documents, now_s)
        # Who seals for many rounds that are open at once, at most forgets some.
        if len(documents.open_rounds) >= _MOST_KNOWN:
            documents.open_rounds.clear()
        documents.open_rounds[head] = found
    return Pending(found.agreed, found.round, device, wire)


def store_reports(database: Database, reports: Sequence[Pending]) -> list[Outcome]:
    """Store reports in one transaction; when this returns, they are on the disk.

    The first envelope of a device in a round counts. The same bytes again are a retry; other
    bytes are ignored.

    Returns:
        What became of each.

    Raises:
        StorageError: If nothing was stored, or it is not known whether: sending again shows.
    """
    return retry(lambda: _store(database, reports))


def _open_round(wire: bytes, documents: Documents, now_s: float) -> OpenRound:
    """Return what the header of a report stands for, if reports like it are taken now."""
    header = Header.from_report(wire)
    agreed = documents.of_tag(header.campaign_tag)
    if agreed is None:
        raise WrongCampaign("no campaign of this report is known here.")
    campaign = agreed.campaign
    size = REPORT_SIZES[KEM_NUMBERS[campaign.kem]]
    if len(wire) != size:
        raise WrongSize("the report has the size of another key encapsulation than the campaign's.")
    if documents.of_round(campaign.id, header.round) is not agreed or documents.keyset is None:
        raise WireError(
            f"version {campaign.version} of the campaign does not hold in this round.",
            problem="outdated-config",
        )
    keyset = documents.keyset
    key = keyset.accepted_key(Role.SHUFFLER, header.key_id, now_s=now_s)
    begin_s, end_s = campaign.round_end_s(header.round), campaign.closes_s(header.round)
    if documents.fusion_key(header.keyset, campaign, header.round) is None:
        raise WireError(
            f"the report names keyset {header.keyset}; the devices of round {header.round} go by "
            f"keyset {keyset.version}.",
            problem="other-keyset",
        )
    if now_s < begin_s:
        raise WireError(f"round {header.round} has not ended yet.", problem="round-not-open")
    if now_s >= end_s:
        raise WireError(f"round {header.round} is closed.", problem="round-closed")
    begin_s = max(begin_s, key.not_before_s)
    end_s = min(end_s, key.not_after_s + 2 * keyset.cache_s)
    return OpenRound(agreed, header.round, begin_s, end_s, size)


def round_is_open(transaction: Transaction, agreed: Agreed, round: int) -> bool:
    """Return whether a round still takes reports, and note that it now has some.

    The clock has been asked before; this settles the race with the closer, who takes no round
    while this transaction looks at it.
    """
    place = (agreed.hash, round)
    state = transaction.execute(_STATE, place)
    if not state:
        ((next_round,),) = transaction.execute(
            "SELECT next_round FROM campaign WHERE hash = ? FOR SHARE", (agreed.hash,)
        )
        if round < next_round:
            return False
        transaction.execute(
            "INSERT INTO round (campaign, round, closes_s, block_start, state, lease_until_s, "
            "attempts) VALUES (?, ?, ?, ?, 'open', 0, 0) ON CONFLICT DO NOTHING",
            (*place, agreed.campaign.closes_s(round), agreed.campaign.block_start(round)),
        )
        # Where another process was faster, the row is its own and may be closing already.
        state = transaction.execute(_STATE, place)
    return state == [("open",)]


def tag_number(hash: bytes) -> int:  # noqa: A002 - the protocol's word
    """Return the campaign's tag as the number that keeps the key of a report narrow."""
    return int.from_bytes(hash[:8], "big", signed=True)


_STATE: Final = "SELECT state FROM round WHERE campaign = ? AND round = ? FOR SHARE"


def _store(database: Database, reports: Sequence[Pending]) -> list[Outcome]:
    agreed = {(report.agreed.hash, report.round): report.agreed for report in reports}
    tags = {place: tag_number(place[0]) for place in agreed}
    with database.share() as transaction:
        is_open = {
            place: round_is_open(transaction, agreed[place], place[1]) for place in sorted(agreed)
        }
        taken = [report for report in reports if is_open[report.agreed.hash, report.round]]
        rows = [
            (one.round, tags[one.agreed.hash, one.round], one.device, one.wire) for one in taken
        ]
        is_new = transaction.insert_new("report", ("round", "tag", "device", "wire"), rows, key=3)
        if len(taken) == len(reports) and all(is_new):
            return [Outcome.STORED] * len(reports)
        stored = _find_stored(
            transaction, [report for report, new in zip(taken, is_new, strict=True) if not new]
        )
    fates = iter(is_new)
    return [
        _outcome(report, is_new=next(fates), stored=stored)
        if is_open[report.agreed.hash, report.round]
        else Outcome.CLOSED
        for report in reports
    ]


def _outcome(
    report: Pending, *, is_new: bool, stored: dict[tuple[int, int, int], bytes]
) -> Outcome:
    if is_new:
        return Outcome.STORED
    return Outcome.REPEATED if stored.get(_key(report)) == report.wire else Outcome.IGNORED


def _find_stored(
    transaction: Transaction, reports: Sequence[Pending]
) -> dict[tuple[int, int, int], bytes]:
    """Return what is stored in the place of reports that are not new."""
    places: dict[tuple[int, int], set[int]] = {}
    for report in reports:
        round, tag, device = _key(report)
        places.setdefault((round, tag), set()).add(device)
    found: dict[tuple[int, int, int], bytes] = {}
    for (round, tag), devices in places.items():
        marks = ", ".join("?" * len(devices))
        rows = transaction.execute(
            f"SELECT device, wire FROM report WHERE round = ? AND tag = ? AND device IN ({marks})",  # noqa: S608 - question marks
            (round, tag, *devices),
        )
        found |= {(round, tag, device): bytes(wire) for device, wire in rows}
    return found


def _key(report: Pending) -> tuple[int, int, int]:
    return report.round, tag_number(report.agreed.hash), report.device
