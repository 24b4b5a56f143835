"""What operators did: published, enrolled, approved, revoked, rotated, retried, discarded.

The log is only ever added to, in the transaction of the act itself. Each line carries a hash of
itself and of the line before it, so an export shows whether an older line was changed or taken
away since. It names campaigns, keys, subscribers and handles of devices, never an
owner and never anything that was reported.
"""

import getpass
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from rase.clock import SystemClock
from rase.errors import StorageUnusable
from rase.storage.interface import Database, Transaction

__all__ = ["AUTOMATIC", "Act", "check_export", "list_acts", "record_act"]

AUTOMATIC: Final = "automatic"
"""Who did what nobody asked for: rotation by the settings."""

_FIRST: Final = bytes(32)


@dataclass(frozen=True, slots=True)
class Act:
    """One line of the log.

    Args:
        number: 1 for the first.
        time_s: When it was done.
        act: What was done, verb and object.
        subject: To what.
        by: The user of the system, the subscriber whose token was shown, or "automatic".
        hash: Of this line and all before it, in hex.
    """

    number: int
    time_s: int
    act: str
    subject: str
    by: str
    hash: str


def record_act(
    transaction: Transaction, act: str, subject: str, *, now_s: float | None = None, by: str = ""
) -> None:
    """Add a line to the log; it is there if and only if the act itself is.

    Args:
        transaction: That of the act, which writes alone.
        act: What is done, verb and object.
        subject: To what; never an owner's name, a token or a value.
        now_s: The time; the system's if None.
        by: Who does it; the user who runs this process if empty.
    """
    rows = transaction.execute("SELECT number, hash FROM act ORDER BY number DESC LIMIT 1")
    number, before = (rows[0][0] + 1, bytes(rows[0][1])) if rows else (1, _FIRST)
    time_s = int(SystemClock().now_s() if now_s is None else now_s)
    by = by or _this_user()
    transaction.execute(
        "INSERT INTO act (number, time_s, act, subject, done_by, hash) VALUES (?, ?, ?, ?, ?, ?)",
        (number, time_s, act, subject, by, _link(before, number, time_s, act, subject, by)),
    )


def list_acts(database: Database) -> list[Act]:
    """Return the whole log, the oldest line first.

    Raises:
        StorageUnusable: If a line is not the one that was written, or one is missing between two.
    """
    with database.snapshot() as transaction:
        rows = transaction.execute(
            "SELECT number, time_s, act, subject, done_by, hash FROM act ORDER BY number"
        )
    before = _FIRST
    for place, (number, time_s, act, subject, by, found) in enumerate(rows, start=1):
        before = _link(before, place, time_s, act, subject, by)
        if number != place or bytes(found) != before:
            raise StorageUnusable(
                f"line {place} of the log of acts is not the one that was written: somebody has "
                "changed the database. Compare it with an export that you keep elsewhere."
            )
    return [
        Act(number, time_s, act, subject, by, bytes(found).hex())
        for number, time_s, act, subject, by, found in rows
    ]


def check_export(acts: Sequence[Act], exported: Iterable[Any]) -> int:
    """Compare the log with an earlier export of it.

    Args:
        acts: The log now.
        exported: The lines of the export, each with its number and hash.

    Returns:
        How many lines came since.

    Raises:
        ValueError: If the export holds no lines of a log.
        StorageUnusable: If a line of the export is not in the log any more.
    """
    count = 0
    for line in exported:
        count += 1
        try:
            number, found = line["number"], line["hash"]
        except (TypeError, KeyError):
            raise ValueError(
                "the export must hold lines with number and hash, as --json prints them."
            ) from None
        if number != count or count > len(acts) or acts[count - 1].hash != found:
            raise StorageUnusable(
                f"line {count} of the export is not in the log any more: the database was changed, "
                "or is an older backup."
            )
    return len(acts) - count


def _link(before: bytes, *fields: int | str) -> bytes:
    """Return the hash of a line and of all before it."""
    line = json.dumps(fields, separators=(",", ":")).encode()
    return sha256(before + line).digest()


def _this_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container may run under a number that has no name.
        return "unknown user"
