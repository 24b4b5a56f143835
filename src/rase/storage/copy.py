"""Move a server's state to another database: all of it or nothing, compared before it counts.

Two databases with the same reports would be closed twice, in two orders, which spends the shuffle's
guarantee twice. So the old one is marked in the end, and no server opens it again.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from rase.errors import StorageError, StorageUnusable
from rase.storage.interface import Database, Row, Transaction
from rase.storage.migrate import MOVED, migrations_of
from rase.storage.sqlite import SqliteDatabase

__all__ = ["CopiedTable", "copy_database", "tables_of"]

_DROPPED = re.compile(r"DROP TABLE (\w+)")
_TABLE = re.compile(r"CREATE TABLE (\w+)")
_MODULUS: Final = 1 << 256


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """Say what one table holds, in both databases.

    Args:
        name: The table.
        rows: How many rows.
        digest: A hash of them all, in whatever order, in hex.
    """

    name: str
    rows: int
    digest: str


def copy_database(source: SqliteDatabase, target: Database, *, role: str) -> list[CopiedTable]:
    """Copy all tables into an empty database, compare, and mark the source as moved.

    After a crash it can be repeated: what was copied as a whole is compared and marked.

    Args:
        source: The database of a server that does not run.
        target: A database of the same role and form.
        role: "shuffler", "fusion" or "registrar".

    Returns:
        Every table with what it holds.

    Raises:
        StorageBusy: If a server still uses the source, or either cannot be used now.
        StorageUnusable: If the target holds something else.
        StorageError: If what arrived is not what was sent; the target is then as it was.
    """
    source.check_unused()
    # The source's transaction spans all: nobody writes to it meanwhile.
    with source.transaction() as reading:
        with target.transaction() as writing:
            copied = _copy_tables(reading, writing, tables_of(role))
        reading.execute("UPDATE schema_version SET role = ?", (f"{role}{MOVED}",))
    return copied


def tables_of(role: str) -> tuple[str, ...]:
    """Return the tables of a role, in the order in which they are made.

    Example:
        >>> tables_of("fusion")[:3]
        ('campaigns', 'keysets', 'rounds')
    """
    tables: dict[str, None] = {}
    for step in migrations_of(role):
        for statement in step.statements:
            if match := _TABLE.match(statement):
                tables[match[1]] = None
            elif match := _DROPPED.match(statement):
                del tables[match[1]]
    return tuple(tables)


def _copy_tables(
    reading: Transaction, writing: Transaction, tables: Iterable[str]
) -> list[CopiedTable]:
    content = {table: _rows(reading, table) for table in tables}
    sent = [_describe_table(table, rows) for table, rows in content.items()]
    there = [_describe_table(table, _rows(writing, table)) for table in content]
    if any(table.rows for table in there):
        if there == sent:
            return sent
        filled = ", ".join(table.name for table in there if table.rows)
        raise StorageUnusable(
            f"the target must be empty, but has rows in {filled}. Name another database."
        )
    for table, rows in content.items():
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            writing.execute_many(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608 - names of ours
    if [_describe_table(table, _rows(writing, table)) for table in content] != sent:
        raise StorageError("what arrived is not what was sent; nothing was kept.")
    return sent


def _rows(transaction: Transaction, table: str) -> list[Row]:
    return transaction.execute(f"SELECT * FROM {table}")  # noqa: S608 - a name of ours


def _describe_table(table: str, rows: list[Row]) -> CopiedTable:
    # A sum of hashes: engines give rows in different orders.
    total = sum(int.from_bytes(sha256(repr(tuple(row)).encode()).digest(), "big") for row in rows)
    return CopiedTable(table, len(rows), f"{total % _MODULUS:064x}")
