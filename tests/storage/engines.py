"""The two engines behind one face, as the contract tests see them."""

from pathlib import Path

from rase.storage.address import DatabaseAddress
from rase.storage.face import Database
from rase.storage.migrate import migrate
from rase.storage.opening import open_database
from rase.storage.postgres import PostgresDatabase
from rase.storage.sqlite import SqliteDatabase

__all__ = ["ENGINES", "Engine", "schema_of"]

ENGINES = ["sqlite", "postgres"]


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
