"""Open a server's database, whichever engine it is in."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rase.storage.address import DatabaseAddress
from rase.storage.interface import Database, Transaction
from rase.storage.migrate import migrations_of, version_of
from rase.storage.sqlite import SqliteDatabase, open_sqlite

__all__ = ["look_at", "looked_into", "open_database"]


def open_database(address: DatabaseAddress, *, migrations: str) -> Database:
    """Open a server's database and bring it to the newest form.

    Args:
        address: A file of SQLite, or a database of PostgreSQL.
        migrations: Whose database it is: "shuffler", "fusion" or "registrar".

    Raises:
        StorageUnusable: If the database is damaged, foreign, of a newer release, or not opened.
        StorageBusy: If the database cannot be used now.
        ModuleNotFoundError: If the database is PostgreSQL and psycopg is not installed.
    """
    if isinstance(address, Path):
        return open_sqlite(address, migrations=migrations)
    # psycopg is an extra: who keeps state in a file does not need it.
    from rase.storage.postgres import open_postgres

    return open_postgres(address, migrations=migrations)


def look_at(address: DatabaseAddress, *, role: str) -> int:
    """Return the version of a server's database without changing anything; 0 if there is none yet.

    Args:
        address: A file of SQLite, or a database of PostgreSQL.
        role: Whose database it is.

    Raises:
        StorageUnusable: If the database is damaged, foreign or cannot be opened.
        StorageBusy: If the database cannot be used now.
        ModuleNotFoundError: If the database is PostgreSQL and psycopg is not installed.
    """
    if isinstance(address, Path):
        if not address.exists():
            return 0
        with closing(SqliteDatabase(address)) as file:
            file.check()
            return version_of(file, role)
    from rase.storage.postgres import PostgresDatabase

    with closing(PostgresDatabase(address, schema=f"rase_{role}")) as server:
        server.check()
        return version_of(server, role)


@contextmanager
def looked_into(address: DatabaseAddress, *, role: str) -> Iterator[Transaction | None]:
    """Read a server's database while the server runs, without changing anything.

    Args:
        address: A file of SQLite, or a database of PostgreSQL.
        role: Whose database it is.

    Yields:
        A snapshot; None if there is no database yet, or it is not of this release.

    Raises:
        StorageError: Named, if it cannot be read.
        ModuleNotFoundError: If the database is PostgreSQL and psycopg is not installed.
    """
    if look_at(address, role=role) != migrations_of(role)[-1].number:
        yield None
        return
    database: Database
    if isinstance(address, Path):
        database = SqliteDatabase(address)
    else:
        from rase.storage.postgres import PostgresDatabase

        database = PostgresDatabase(address, schema=f"rase_{role}")
    with closing(database), database.snapshot() as transaction:
        yield transaction
