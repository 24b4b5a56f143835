"""Open a server's database, whichever engine it is in."""

from pathlib import Path

from rase.storage.address import DatabaseAddress
from rase.storage.face import Database
from rase.storage.sqlite import open_sqlite

__all__ = ["open_database"]


def open_database(address: DatabaseAddress, *, migrations: str) -> Database:
    """Open a server's database and bring it to the newest form.

    Args:
        address: A file of SQLite, or a database of PostgreSQL.
        migrations: Whose database it is: "shuffler" or "fusion".

    Raises:
        StorageUnusable: If it is damaged, foreign, of a newer release or cannot be opened.
        StorageBusy: If it cannot be used now.
        ModuleNotFoundError: If it is one of PostgreSQL and psycopg is not installed.
    """
    if isinstance(address, Path):
        return open_sqlite(address, migrations=migrations)
    # psycopg is an extra: who keeps state in a file does not need it.
    from rase.storage.postgres import open_postgres

    return open_postgres(address, migrations=migrations)
