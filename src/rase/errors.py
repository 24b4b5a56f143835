"""The refusals of RASE: every failure that a user can fix, as one small tree.

::

    RaseError
    ├── DataError            the table of readings cannot be used as it is
    ├── PrivacyRefused       answering would break a privacy rule
    │   ├── BudgetSpent      a report would exceed a privacy budget
    │   └── TooFew           fewer devices reported than are ever released together
    ├── NotIdentifiable      the reports carry no information on what was asked
    ├── ConfigurationError   settings cannot be used; lists every mistake
    ├── StorageError         a database did not do what it was asked
    │   ├── StorageBusy      it cannot write now: full disk, lock; trying again may help
    │   │   ├── StorageContended    another transaction was in the way; try again at once
    │   │   └── StorageUnreachable  its server does not answer
    │   ├── StorageConflict  a row that must be unique is there already
    │   └── StorageUnusable  damaged, foreign, or of a newer release
    └── WireError            a message cannot be accepted; names its problem type
        ├── WrongSize        truncated or oversized
        ├── UnknownVersion   a format version that this release does not know
        ├── UnknownKey       no usable key of that number
        ├── WrongCampaign    another campaign, or another version of it
        ├── WrongRound       another round than the message around it
        ├── NotOpened        changed, or sealed for another key, campaign or round
        ├── Malformed        bytes that the format does not allow
        ├── BadSignature     not signed by the pinned keys
        └── Unsupported      needs cryptography that is not installed here

Wrong arguments raise ``ValueError`` or ``TypeError``, as everywhere in Python. No message ever
holds a reading, or a report next to the identity of its sender.
"""

import os
import sys
import time
from collections.abc import Iterable

__all__ = [
    "BadSignature",
    "BudgetSpent",
    "ConfigurationError",
    "DataError",
    "Malformed",
    "NotIdentifiable",
    "NotOpened",
    "PrivacyRefused",
    "RaseError",
    "StorageBusy",
    "StorageConflict",
    "StorageContended",
    "StorageError",
    "StorageUnreachable",
    "StorageUnusable",
    "TooFew",
    "UnknownKey",
    "UnknownVersion",
    "Unsupported",
    "WireError",
    "WrongCampaign",
    "WrongRound",
    "WrongSize",
    "describe_failure",
    "write_failure",
]


class RaseError(Exception):
    """Root of all refusals; ``exit_code`` is what the command line returns for it."""

    exit_code = 1


class DataError(RaseError):
    """A table of readings is malformed; the message says where and what to do."""

    exit_code = 2


class PrivacyRefused(RaseError):
    """The request is sound but answering it would break a privacy rule."""

    exit_code = 5


class TooFew(PrivacyRefused):
    """Fewer devices reported than are ever released together."""


class BudgetSpent(PrivacyRefused):
    """A report would exceed a privacy budget; says spent, asked, limit and when it refreshes.

    Args:
        scope: Which limit refuses, in words.
        spent: The epsilon already spent under it.
        asked: The epsilon the report would add.
        limit: The epsilon it allows.
        refresh_round: The first later round in which the report would be allowed; None for never.
        refresh_s: The second since 1970 at which that round begins.
    """

    def __init__(
        self,
        scope: str,
        *,
        spent: float,
        asked: float,
        limit: float,
        refresh_round: int | None = None,
        refresh_s: int | None = None,
    ) -> None:
        self.spent = spent
        self.asked = asked
        self.limit = limit
        self.refresh_round = refresh_round
        self.refresh_s = refresh_s
        when = "this does not refresh"
        if refresh_round is not None and refresh_s is not None:
            begin = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(refresh_s))
            when = f"refreshes in round {refresh_round}, {begin}"
        super().__init__(
            f"{scope} allows epsilon {limit:.9g}: spent {spent:.9g}, asked {asked:.9g}; {when}."
        )


class NotIdentifiable(RaseError):
    """The mechanism's reports do not determine the aggregate that was asked for."""

    exit_code = 2


class ConfigurationError(RaseError):
    """Settings cannot be used; ``mistakes`` lists everything that is wrong with them.

    Args:
        mistakes: One sentence for each.
    """

    exit_code = 3

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__(" ".join(self.mistakes))


class StorageError(RaseError):
    """A database did not do what it was asked, and kept nothing of it."""


class StorageBusy(StorageError):
    """The database cannot be used now: the disk is full, or another process holds it."""


class StorageContended(StorageBusy):
    """Two transactions were in each other's way and this one was ended; nothing of it was kept."""


class StorageUnreachable(StorageBusy):
    """The database's server does not answer, or the connection was lost.

    If it was lost during a commit, nobody knows whether that happened: every step of the servers
    can be repeated.
    """

    exit_code = 4


class StorageConflict(StorageError):
    """A row that must be unique is there already."""


class StorageUnusable(StorageError):
    """The database is damaged, foreign, or of a newer release; says which and what to do."""

    exit_code = 3


class WireError(RaseError):
    """A message cannot be accepted; ``problem`` is its type in rase.wire.problems.

    Args:
        message: One sentence without value or key.
        problem: The problem type, where it is not the one of the class.
    """

    exit_code = 6
    problem = "bad-report"

    def __init__(self, message: str, *, problem: str | None = None) -> None:
        super().__init__(message)
        if problem is not None:
            self.problem = problem


class WrongSize(WireError):
    """The message is truncated or oversized."""


class UnknownVersion(WireError):
    """The message has a format version that this release does not know."""


class UnknownKey(WireError):
    """No usable key has the number that was asked for; fetching the keyset again may help."""

    problem = "outdated-config"


class WrongCampaign(WireError):
    """The message belongs to another campaign, or to another version of it."""

    problem = "unknown-campaign"


class WrongRound(WireError):
    """The message belongs to another round than the one it came with."""


class NotOpened(WireError):
    """The envelope was changed, or sealed for another key, campaign or round."""


class Malformed(WireError):
    """The bytes are not such as the format allows."""


class BadSignature(WireError):
    """The message is not signed by the pinned keys."""


class Unsupported(WireError):
    """The message needs cryptography that is not installed here."""


def describe_failure(error: BaseException) -> tuple[str, int]:
    """Return what a program says of a failure, in one sentence, and the code it exits with."""
    match error:
        case RaseError():
            return str(error), error.exit_code
        case KeyboardInterrupt():
            return "interrupted.", 130
        case OSError(strerror=None) if str(error):
            # One of ours, which says all there is to say.
            return str(error), 1
        case OSError():
            reason = error.strerror or type(error).__name__
            return f"{error.filename or 'writing'}: {reason}.", 1
        case _:
            return (
                f"unexpected {type(error).__name__}; please report it, with what RASE_DEBUG=1 "
                "prints and without private data."
            ), 1


def write_failure(
    message: str, *, program: str = "rase", error: BaseException | None = None
) -> None:
    """Write on stderr, in one line, why a command failed.

    A server may have said why; its words are shown, and move nothing on the terminal.

    Args:
        message: What to say.
        program: The command that was typed.
        error: What ended it; its traceback comes first where RASE_DEBUG is 1.
    """
    if error is not None and os.environ.get("RASE_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    words = " ".join(message.split())
    shown = "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in words
    )
    sys.stderr.write(f"{program}: error: {shown}\n")
