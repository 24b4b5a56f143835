"""Who may ask: tokens with scopes, of which only hashes are kept, and the log of what was asked."""

import hmac
import re
import secrets
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from rase.clock import Clock
from rase.fusion.refusals import NO_TOKEN, NOT_ALLOWED, Refused
from rase.service.acts import record_act
from rase.storage.interface import Database, Transaction

__all__ = [
    "ADMIN_CAMPAIGN",
    "READ_ESTIMATES",
    "SCOPES",
    "Access",
    "Subscriber",
    "add_subscriber",
    "authenticate",
    "list_access",
    "list_subscribers",
    "record_access",
    "revoke_subscriber",
]

READ_ESTIMATES: Final = "read:estimates"
ADMIN_CAMPAIGN: Final = "admin:campaign"
SCOPES: Final = (READ_ESTIMATES, ADMIN_CAMPAIGN)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@-]{0,62}")
_TOKEN = re.compile(r"rase_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_NOBODY = bytes(32)
_MAX_QUESTION = 300


@dataclass(frozen=True, slots=True)
class Subscriber:
    """Who may ask what, without the token.

    Args:
        name: As the operator calls the subscriber.
        scopes: What the token allows.
        expires_s: The second from which it no longer does; None for never.
        revoked_s: When the operator took it back; None if not.
        made_s: When it was made; None if that was not written down.
    """

    name: str
    scopes: tuple[str, ...]
    expires_s: int | None = None
    revoked_s: int | None = None
    made_s: int | None = None

    def check_allows(self, scope: str) -> None:
        """Refuse what the token does not allow.

        Raises:
            Refused: Naming the scope.
        """
        if scope not in self.scopes:
            raise Refused(NOT_ALLOWED, f"This needs a token with the scope {scope}.")


@dataclass(frozen=True, slots=True)
class Access:
    """One line of the access log.

    Args:
        time_s: When it was asked.
        subscriber: Who asked.
        question: What was asked.
        answer: What became of it.
    """

    time_s: int
    subscriber: str
    question: str
    answer: str


def add_subscriber(
    database: Database,
    name: str,
    *,
    scopes: tuple[str, ...] = (READ_ESTIMATES,),
    expires_s: int | None = None,
    made_s: int | None = None,
    by: str = "",
) -> str:
    """Make a subscriber and return the token, which is shown this once and never stored.

    Args:
        database: The fusion centre's.
        name: A name that no other subscriber has or had.
        scopes: What the token allows, out of `SCOPES`.
        expires_s: The second from which it no longer does; None for never.
        made_s: The present second, to be shown later; None if nobody needs to know.
        by: Who makes it, for the log of acts; the user of this process if empty.

    Raises:
        ValueError: If the name is taken or cannot be one, or a scope is unknown.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"name must be 1 to 63 letters, digits, blanks or ._@-, got {name!r}.")
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown or not scopes:
        raise ValueError(f"scopes must be out of {', '.join(SCOPES)}, got {unknown}.")
    handle, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    with database.transaction() as transaction:
        if transaction.execute("SELECT 1 FROM subscribers WHERE subscriber = ?", (name,)):
            raise ValueError(f"name must be a new one: {name!r} is or was a subscriber.")
        transaction.execute(
            "INSERT INTO subscribers (subscriber, handle, token_hash, scopes, expires_s, made_s) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (name, handle, _hash_secret(secret), " ".join(scopes), expires_s, made_s),
        )
        record_act(
            transaction, "add subscriber", f"{name} ({', '.join(scopes)})", now_s=made_s, by=by
        )
    return f"rase_{handle}_{secret}"


def list_subscribers(database: Database) -> list[Subscriber]:
    """Return all subscribers, also those whose token was taken back."""
    with database.snapshot() as transaction:
        rows = transaction.execute(
            "SELECT subscriber, scopes, expires_s, revoked_s, made_s FROM subscribers "
            "ORDER BY subscriber"
        )
    return [Subscriber(name, tuple(scopes.split()), *times) for name, scopes, *times in rows]


def revoke_subscriber(database: Database, clock: Clock, *, name: str, by: str = "") -> None:
    """Take a token back; from now on it opens nothing.

    Args:
        database: The fusion centre's.
        clock: Its time.
        name: The subscriber's.
        by: Who does it, for the log of acts; the user of this process if empty.

    Raises:
        ValueError: If there is no such subscriber.
    """
    with database.transaction() as transaction:
        if not transaction.execute("SELECT 1 FROM subscribers WHERE subscriber = ?", (name,)):
            raise ValueError(f"name must be that of a subscriber, got {name!r}.")
        transaction.execute(
            "UPDATE subscribers SET revoked_s = COALESCE(revoked_s, ?) WHERE subscriber = ?",
            (int(clock.now_s()), name),
        )
        record_act(transaction, "revoke subscriber", name, now_s=clock.now_s(), by=by)


def authenticate(database: Database, clock: Clock, *, token: str | None) -> Subscriber:
    """Return whose token it is.

    Raises:
        Refused: If the token is missing, unknown, expired or revoked, without saying which.
    """
    match = _TOKEN.fullmatch(token or "")
    handle, secret = match.groups() if match else ("", "")
    with database.snapshot() as transaction:
        rows = transaction.execute(
            "SELECT token_hash, subscriber, scopes, expires_s, revoked_s FROM subscribers "
            "WHERE handle = ?",
            (handle,),
        )
    expected = bytes(rows[0][0]) if rows else _NOBODY
    # An unknown handle takes as long as a wrong secret, so neither can be searched for.
    is_right = hmac.compare_digest(_hash_secret(secret), expected)
    if rows and is_right:
        _, name, scopes, expires_s, revoked_s = rows[0]
        if revoked_s is None and (expires_s is None or clock.now_s() < expires_s):
            return Subscriber(name, tuple(scopes.split()), expires_s)
    raise Refused(NO_TOKEN, "Send a valid token: Authorization: Bearer …")


def record_access(
    database: Database, clock: Clock, *, subscriber: str, question: str, answer: str
) -> None:
    """Write down what a subscriber asked, before the answer leaves."""
    with database.transaction() as transaction:
        ((last,),) = transaction.execute("SELECT COALESCE(MAX(number), 0) FROM access_log")
        transaction.execute(
            "INSERT INTO access_log (number, time_s, subscriber, question, answer) "
            "VALUES (?, ?, ?, ?, ?)",
            (last + 1, int(clock.now_s()), subscriber, question[:_MAX_QUESTION], answer),
        )


def list_access(
    database: Database, *, subscriber: str | None = None, limit: int = 100
) -> list[Access]:
    """Return the newest lines of the access log, oldest first.

    Args:
        database: The fusion centre's.
        subscriber: Only of this one.
        limit: How many at most.
    """
    with database.snapshot() as transaction:
        rows = _newest(transaction, subscriber, limit)
    return [Access(*row) for row in reversed(rows)]


def _newest(
    transaction: Transaction, subscriber: str | None, limit: int
) -> list[tuple[int, str, str, str]]:
    columns = "SELECT time_s, subscriber, question, answer FROM access_log "
    if subscriber is None:
        rows = transaction.execute(columns + "ORDER BY number DESC LIMIT ?", (limit,))
    else:
        rows = transaction.execute(
            columns + "WHERE subscriber = ? ORDER BY number DESC LIMIT ?", (subscriber, limit)
        )
    return [(row[0], row[1], row[2], row[3]) for row in rows]


def _hash_secret(secret: str) -> bytes:
    # The secret has 256 random bits: a slow hash would protect nothing more.
    return sha256(secret.encode()).digest()
