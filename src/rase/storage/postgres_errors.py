"""What PostgreSQL says in its own words, in ours: named, with the way out, without any value.

Only the first line of a statement's error is ever told, and only where it cannot hold a value: the
details of a conflict, for one, quote the row.
"""

from typing import Final

import psycopg

from rase.errors import (
    StorageBusy,
    StorageConflict,
    StorageContended,
    StorageError,
    StorageUnreachable,
    StorageUnusable,
)
from rase.storage.address import PostgresAddress

__all__ = ["named", "not_opened"]

_WAY_IN: Final = (
    "Set it in PGPASSWORD, in a file named by PGPASSFILE, or keep the whole address in a file "
    "named by database_file"
)
# libpq tells no codes when a connection fails, only words.
_WAYS_OUT: Final = {
    "password authentication failed": f"the password is wrong. {_WAY_IN}",
    "no password supplied": f"it asks for a password. {_WAY_IN}",
    "peer authentication failed": "this user may not log in as that one; see its pg_hba.conf",
    "pg_hba.conf": "it lets nobody in this way; see its pg_hba.conf",
    "certificate": "its certificate is not accepted; see sslrootcert and sslmode",
    "SSL": "TLS failed; see sslmode",
}


def not_opened(error: psycopg.Error, address: PostgresAddress) -> StorageError:
    """Return why a database could not be opened, with the way out."""
    text = str(error)
    if "database" in text and "does not exist" in text:
        return StorageUnusable(
            f"{address} does not exist. Make it on its server: createdb {address.name or 'rase'}."
        )
    if "role" in text and "does not exist" in text:
        return StorageUnusable(
            f"{address} knows no such user. Make it on its server: createuser --pwprompt rase."
        )
    for words, way_out in _WAYS_OUT.items():
        if words in text:
            return StorageUnusable(f"{address} cannot be opened: {way_out}.")
    return _unreachable(address)


def named(error: psycopg.Error, address: PostgresAddress) -> StorageError:
    """Return an error of a statement or connection as one of ours."""
    code = error.sqlstate or ""
    found: StorageError
    # The first two letters of a code are its class.
    match code[:2], code:
        case _, "40001" | "40P01":
            found = StorageContended(f"another transaction was in the way in {address}.")
        case "23", _:
            found = StorageConflict("a row that must be unique is there already.")
        case _, "XX001" | "XX002":
            found = StorageUnusable(
                f"{address} is damaged. Stop the servers and restore the latest copy; rounds since "
                "then are lost."
            )
        case _, "25006":
            found = StorageError(f"{address} is read-only here.")
        case (("53" | "55" | "58"), _):
            found = StorageBusy(f"{address} cannot be used now: {type(error).__name__}.")
        case (("08" | "57"), _):
            found = _unreachable(address)
        case "42", _:
            # Words of the language name tables and columns, never what is in them.
            found = StorageError(f"{address} refused: {error.diag.message_primary}.")
        case "", _ if isinstance(error, psycopg.OperationalError):
            found = _unreachable(address)
        case _:
            found = StorageError(f"{address} refused: {type(error).__name__} {code}.")
    return found


def _unreachable(address: PostgresAddress) -> StorageUnreachable:
    return StorageUnreachable(
        f"{address} does not answer. Is its server running, and there? It is tried again."
    )
