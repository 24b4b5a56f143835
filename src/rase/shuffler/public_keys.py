"""The shuffler's own public keys: published by the opening process, compared by the signing one.

Countersigning needs no private opening key, so the closer leaves the public halves in the database.
"""

from collections.abc import Iterable

from rase.errors import WireError
from rase.service.heartbeat import KeyRow, key_row, key_rows, running
from rase.service.key_offer import offer_bytes
from rase.service.keyring import PublicKeys
from rase.storage.interface import Database, Transaction
from rase.wire.keys import Keyset, OpeningKey, Role, SigningKey

__all__ = ["ForeignKey", "check_own_keys", "keep_offer", "keep_own_keys", "kept_offer"]

_COLUMNS = "id, kem, kdf, aead, public_key"


class ForeignKey(WireError):
    """A keyset names a key of the shuffler that the shuffler does not hold."""

    problem = "foreign-key"


def keep_own_keys(database: Database, keys: Iterable[OpeningKey]) -> None:
    """Note the public halves of the keys that open reports now, in place of those noted before.

    Nothing is written if they are the same.
    """
    rows = sorted(key_rows(keys))
    with database.snapshot() as transaction:
        if _own_keys(transaction) == rows:
            return
    with database.transaction() as transaction:
        transaction.execute("DELETE FROM opening_key")
        transaction.execute_many(
            f"INSERT INTO opening_key ({_COLUMNS}) VALUES (?, ?, ?, ?, ?)",  # noqa: S608 - a constant
            rows,
        )


def keep_offer(database: Database, public: PublicKeys, *, key: SigningKey) -> None:
    """Sign the public keys for a fusion centre that follows them, in place of those before.

    Nothing is written if they are the same.
    """
    signed = offer_bytes(public, key)
    if kept_offer(database) == signed:
        return
    with database.transaction() as transaction:
        transaction.execute(
            "INSERT INTO key_offer (number, signed) VALUES (1, ?) "
            "ON CONFLICT (number) DO UPDATE SET signed = excluded.signed",
            (signed,),
        )


def kept_offer(database: Database) -> bytes | None:
    """Return the public keys as they were signed last; None where keys are not rotated here."""
    with database.snapshot() as transaction:
        rows = transaction.execute("SELECT signed FROM key_offer")
    return bytes(rows[0][0]) if rows else None


def check_own_keys(transaction: Transaction, keyset: Keyset, *, now_s: float) -> None:
    """Refuse a keyset with a key that the closer does not hold: its reports could not be opened.

    Args:
        transaction: Of the shuffler's database.
        keyset: What is to be countersigned.
        now_s: The time: keys that expired so long ago that no report may use them are not
            compared, as their private halves may be erased.

    Raises:
        ForeignKey: Naming the keys.
    """
    own = _own_keys(transaction)
    # Any of several closers may be the one that closes a round.
    closers = running(transaction, now_s=now_s, part="closer")
    held = set(own).intersection(*(closer.keys for closer in closers))
    foreign = sorted(
        config.id
        for config in keyset.configs
        if config.role is Role.SHUFFLER
        and now_s < config.not_after_s + 2 * keyset.cache_s
        and key_row(config) not in held
    )
    if not foreign:
        return
    numbers = ", ".join(str(number) for number in foreign)
    if not own:
        raise ForeignKey(
            f"key {numbers} of the shuffler cannot be compared: its closer has not run yet. Start "
            "rase shuffler run and propose the keyset again."
        )
    raise ForeignKey(
        f"key {numbers} of the keyset is not one that every closer of the shuffler holds. Compare "
        "rase keys show on both sides; after a rotation see in the shuffler's log that it has "
        "reloaded its keys, adopt its public.json, and propose the keyset again."
    )


def _own_keys(transaction: Transaction) -> list[KeyRow]:
    found = transaction.execute(f"SELECT {_COLUMNS} FROM opening_key ORDER BY id")  # noqa: S608 - a constant
    return [(number, kem, kdf, aead, bytes(public)) for number, kem, kdf, aead, public in found]
