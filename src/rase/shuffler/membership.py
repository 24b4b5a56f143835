"""Which devices may report to which campaigns: every one, unless their operator names some.

Campaigns of one shuffler can so have fleets of their own: who controls many devices of one has none
in another. Devices that nobody limited serve every campaign, those of later days too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from rase.errors import WireError
from rase.service.acts import record_act
from rase.shuffler.outbox import agreed_campaigns
from rase.storage.interface import Database, Transaction
from rase.validation import Mistakes

__all__ = [
    "IS_MEMBER",
    "Member",
    "NotAMember",
    "add_members",
    "changes_of",
    "list_members",
    "member_pattern",
    "open_devices",
    "read_campaigns",
    "remove_members",
    "write_campaigns",
]

IS_MEMBER: Final = "(device.campaigns IS NULL OR device.campaigns LIKE ?)"
"""A condition on a row of ``device``, whose parameter is `member_pattern`."""


_Campaigns: TypeAlias = frozenset[str] | None
# More acts of one kind at once are one line of the log.
_MOST_NAMED: Final = 100


class NotAMember(WireError):
    """An enrolled device reports to a campaign that it was not admitted to."""

    problem = "not-a-member"


@dataclass(frozen=True, slots=True, order=True)
class Member:
    """Name one device that may report to a campaign.

    Args:
        group: Its public group.
        device: Its handle.
        is_limited: Whether it may report to named campaigns only; otherwise to every one.
    """

    group: str
    device: str
    is_limited: bool


def write_campaigns(campaigns: Sequence[str]) -> str | None:
    """Return campaigns as they are stored; None, for every one, if none is named.

    Raises:
        CampaignInvalid: If one is not the id of a campaign.

    Example:
        >>> write_campaigns(["homes", "air"]), write_campaigns([])
        (' air homes ', None)
    """
    mistakes = Mistakes()
    for name in campaigns:
        mistakes.identifier("campaign", name)
    mistakes.raise_if_any()
    return _text_of(frozenset(campaigns)) if campaigns else None


def read_campaigns(stored: str | None) -> _Campaigns:
    """Return the campaigns of a device as they are stored; None for every one."""
    return None if stored is None else frozenset(stored.split())


def member_pattern(campaign: str) -> str:
    """Return the pattern of stored campaigns that a campaign is among."""
    return f"% {campaign} %"


def changes_of(transaction: Transaction) -> int:
    """Return how often the campaigns of devices were changed."""
    rows = transaction.execute("SELECT changes FROM membership WHERE id = 0")
    return int(rows[0][0]) if rows else 0


def list_members(database: Database, campaign: str) -> list[Member]:
    """Return the devices that may report to a campaign, by group and handle.

    Raises:
        LookupError: If there is no such campaign.
    """
    with database.snapshot() as transaction:
        _check_known(transaction, campaign)
        rows = transaction.execute(
            f"SELECT group_name, id, campaigns IS NOT NULL FROM device WHERE {IS_MEMBER}",  # noqa: S608 - a fixed text
            (member_pattern(campaign),),
        )
    return sorted(Member(group, f"{device:016x}", bool(limited)) for group, device, limited in rows)


def add_members(
    database: Database, campaign: str, devices: Sequence[int], *, only: bool = False
) -> int:
    """Let devices report to a campaign.

    Args:
        database: The shuffler's.
        campaign: The campaign's id.
        devices: Their numbers, see `rase.shuffler.enrolment.device_numbers`.
        only: Whether they may report to no other campaign from now on.

    Returns:
        How many were changed; those that may already report to it are not.

    Raises:
        LookupError: If there is no such campaign, or a device is not enrolled; nothing is changed.
    """

    def change(held: _Campaigns) -> _Campaigns:
        if only:
            return frozenset([campaign])
        return None if held is None else held | {campaign}

    return _change(database, devices, change, act="add members", campaign=campaign)


def remove_members(database: Database, campaign: str, devices: Sequence[int]) -> int:
    """Let devices report to a campaign no more; what waits of theirs for it is not released.

    A device that served every campaign serves the others that there are now, and no later one
    before it is added.

    Returns:
        How many were changed.

    Raises:
        LookupError: If there is no such campaign, or a device is not enrolled; nothing is changed.
    """
    with database.snapshot() as transaction:
        others = {one.id for one in agreed_campaigns(transaction).values()} - {campaign}

    def change(held: _Campaigns) -> _Campaigns:
        return frozenset(others) if held is None else held - {campaign}

    return _change(database, devices, change, act="remove members", campaign=campaign)


def open_devices(database: Database, devices: Sequence[int]) -> int:
    """Let devices report to every campaign again, those of later days too; return how many changed.

    Raises:
        LookupError: If a device is not enrolled; then nothing is changed.
    """
    return _change(database, devices, lambda _: None, act="open to every campaign")


def _change(
    database: Database,
    devices: Sequence[int],
    change: Callable[[_Campaigns], _Campaigns],
    *,
    act: str,
    campaign: str = "",
) -> int:
    changed = []
    with database.transaction() as transaction:
        if campaign:
            _check_known(transaction, campaign)
        for device in devices:
            rows = transaction.execute("SELECT campaigns FROM device WHERE id = ?", (device,))
            if not rows:
                raise LookupError(f"device {device:016x} is not enrolled; nothing was changed.")
            held = read_campaigns(rows[0][0])
            wished = change(held)
            if wished != held:
                changed.append((None if wished is None else _text_of(wished), device))
        if not changed:
            return 0
        transaction.execute_many("UPDATE device SET campaigns = ? WHERE id = ?", changed)
        transaction.execute(
            "INSERT INTO membership (id, changes) VALUES (0, 1) "
            "ON CONFLICT (id) DO UPDATE SET changes = membership.changes + 1"
        )
        named = [f"{device:016x}" for _, device in changed]
        if len(named) > _MOST_NAMED:
            named = [f"{len(named)} devices"]
        for name in named:
            record_act(transaction, act, f"{campaign} {name}".lstrip())
    return len(changed)


def _check_known(transaction: Transaction, campaign: str) -> None:
    known = sorted({one.id for one in agreed_campaigns(transaction).values()})
    if campaign not in known:
        named = f"there are {', '.join(known)}" if known else "none is agreed yet"
        raise LookupError(f"there is no campaign {campaign} here: {named}.")


def _text_of(campaigns: frozenset[str]) -> str:
    return f" {' '.join(sorted(campaigns))} "
