"""The two engines behind one face, as the contract tests see them."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from rase.storage.address import DatabaseAddress
from rase.storage.interface import Database
from rase.storage.migrate import migrate
from rase.storage.opening import open_database
from rase.storage.postgres import PostgresDatabase
from rase.storage.sqlite import SqliteDatabase

__all__ = ["ENGINES", "Engine", "NewAddress", "columns_of", "schema_of", "setting_of"]

ENGINES = ["sqlite", "postgres"]
NewAddress: TypeAlias = Callable[[str], DatabaseAddress]


class Engine:
    """A place for one database.

    Args:
        address: The place, which is empty.
    """

    def __init__(self, address: DatabaseAddress) -> None:
        self.address = address
        self._opened: list[Database] = []

    def opened(self, migrations: str = "shuffler") -> Database:
        """Open it as another process does."""
        self._opened.append(open_database(self.address, migrations=migrations))
        return self._opened[-1]

    def of_version(self, role: str, version: int) -> None:
        """Make it a database of an earlier release."""
        database: SqliteDatabase | PostgresDatabase
        if isinstance(self.address, Path):
            database = SqliteDatabase(self.address)
        else:
            database = PostgresDatabase(self.address, schema=f"rase_{role}")
            database.check()
            database.make_schema()
        assert migrate(database, role, target=version) == version
        database.close()

    def close(self) -> None:
        """Close what was opened."""
        for database in self._opened:
            database.close()


def schema_of(database: Database) -> list[tuple[str, ...]]:
    """Return everything the database consists of."""
    sql = "SELECT type, name, sql FROM sqlite_master ORDER BY name"
    if isinstance(database, PostgresDatabase):
        sql = (
            "SELECT table_name, column_name, data_type, is_nullable "
            "FROM information_schema.columns WHERE table_schema = current_schema() "
            "UNION ALL SELECT tablename, indexname, indexdef, '' FROM pg_indexes "
            "WHERE schemaname = current_schema() ORDER BY 1, 2"
        )
    with database.snapshot() as transaction:
        return transaction.execute(sql)


def columns_of(database: Database) -> set[str]:
    """Return the names of all columns of all tables."""
    sql = (
        "SELECT p.name FROM sqlite_master m, pragma_table_info(m.name) p WHERE m.type = 'table'"
        if isinstance(database, SqliteDatabase)
        else "SELECT column_name FROM information_schema.columns "
        "WHERE table_schema = current_schema()"
    )
    with database.snapshot() as transaction:
        return {name for (name,) in transaction.execute(sql)}


def setting_of(address: DatabaseAddress) -> str:
    """Return an address as it stands in a rase.toml."""
    return str(address) if isinstance(address, Path) else address.url
