"""SQLite: write-ahead log, every commit on the disk, deleted rows overwritten."""

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path

from rase.errors import StorageBusy, StorageConflict, StorageError, StorageUnusable
from rase.storage.dialect import to_sqlite
from rase.storage.interface import Parameters, Row
from rase.storage.migrate import migrate

__all__ = ["SqliteDatabase", "open_sqlite"]

_BUSY_S = 10.0
# While a checkpoint waits for readers nobody can write, so it waits for next to nothing.
_SCRUB_S = 0.1
# Rows of one statement; the oldest SQLite that we meet binds 999 values.
_AT_ONCE = 200
# The extended codes carry the primary one in their low byte.
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
# What a disk, a memory or another process does to us, and may stop doing.
_FOR_NOW = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_READONLY,
}
_WAY_OUT = (
    "Stop the server, keep the file for study and restore the latest copy; rounds since then are "
    "lost."
)


def open_sqlite(path: Path, *, migrations: str) -> "SqliteDatabase":
    """Open a server's database, make it if it is missing, and bring it to the newest form.

    Args:
        path: The file; its folder must exist. Only its owner can read it.
        migrations: Whose database it is: "shuffler" or "fusion".

    Raises:
        StorageUnusable: If the file is damaged, foreign, of a newer release or cannot be opened.
        StorageBusy: If the disk is full or another process holds the file too long.
    """
    try:
        # The mode is set when the file is made; SQLite gives its logs the same.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise StorageUnusable(
            f"the database {path} cannot be opened: {error.strerror}. Name a folder that exists "
            "and can be written."
        ) from None
    database = SqliteDatabase(path)
    try:
        database.check()
        migrate(database, migrations)
    except BaseException:
        database.close()
        raise
    return database


class SqliteDatabase:
    """The connections to one file: one writer, and as many readers as are in use.

    Args:
        path: An existing file, or an empty one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writing = threading.Lock()
        self._idle: dict[bool, list[sqlite3.Connection]] = {True: [], False: []}

    @contextmanager
    def transaction(self) -> Iterator["_SqliteTransaction"]:
        """Write: commit to the disk at the end of the block, roll back if it raises."""
        with self._writing, self._block("BEGIN IMMEDIATE", may_write=True) as transaction:
            yield transaction

    # SQLite has one writer at a time, whatever is asked for.
    share = transaction

    @contextmanager
    def snapshot(self) -> Iterator["_SqliteTransaction"]:
        """Read the state of one moment."""
        with self._block("BEGIN", may_write=False) as transaction:
            yield transaction

    def scrub(self) -> bool:
        """Move the write-ahead log into the file and cut it to nothing, if no reader is inside."""
        with self._writing, self._connection(may_write=True) as connection:
            connection.execute(f"PRAGMA busy_timeout = {round(1000 * _SCRUB_S)}")
            try:
                rows = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                connection.execute(f"PRAGMA busy_timeout = {round(1000 * _BUSY_S)}")
        ((blocked, _, _),) = rows
        return not blocked

    def check(self) -> None:
        """Refuse a damaged file.

        Raises:
            StorageUnusable: If the file is damaged.
        """
        with self._connection(may_write=True) as connection:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()
        if found != ("ok",):
            raise StorageUnusable(f"the database {self._path} is damaged. {_WAY_OUT}")

    def check_unused(self) -> None:
        """Refuse a file that another process has open.

        Raises:
            StorageBusy: If another process has the file open.
        """
        self.close()
        connection = sqlite3.connect(self._path, timeout=0.1, isolation_level=None)
        try:
            # Only who is alone with a file may end its write-ahead log.
            connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.OperationalError:
            raise StorageBusy(
                f"the database {self._path} is in use. Stop the server first."
            ) from None
        finally:
            connection.close()

    def close(self) -> None:
        """Close all connections; the last one moves the log into the file."""
        for connections in self._idle.values():
            while connections:
                connections.pop().close()

    @contextmanager
    def _block(self, begin: str, *, may_write: bool) -> Iterator["_SqliteTransaction"]:
        with self._connection(may_write=may_write) as connection:
            connection.execute(begin)
            try:
                yield _SqliteTransaction(connection)
                connection.execute("COMMIT")
            except BaseException:
                # A full disk may have rolled back already.
                if connection.in_transaction:
                    with suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _connection(self, *, may_write: bool) -> Iterator[sqlite3.Connection]:
        try:
            idle = self._idle[may_write]
            try:
                connection = idle.pop()
            except IndexError:
                connection = self._connect(may_write=may_write)
            try:
                yield connection
            finally:
                # Closing ends a transaction that could not even be rolled back.
                connection.close() if connection.in_transaction else idle.append(connection)
        except sqlite3.Error as error:
            raise self._translate_error(error) from error

    def _connect(self, *, may_write: bool) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            # What is deleted is overwritten with zeros, not only forgotten.
            connection.execute("PRAGMA secure_delete = ON")
            if not may_write:
                connection.execute("PRAGMA query_only = ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def _translate_error(self, error: sqlite3.Error) -> StorageError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _DAMAGED:
            return StorageUnusable(f"the database {self._path} is damaged. {_WAY_OUT}")
        if code == sqlite3.SQLITE_CONSTRAINT:
            return StorageConflict("a row that must be unique is there already.")
        if code in _FOR_NOW:
            return StorageBusy(f"the database {self._path} cannot be used now: {error}.")
        return StorageError(f"the database {self._path} refused: {error}.")


class _SqliteTransaction:
    """Run statements on a connection that is inside a transaction."""

    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        return self._connection.execute(to_sqlite(sql), parameters).fetchall()

    def insert_new(
        self,
        table: str,
        columns: Sequence[str],
        rows: Sequence[Parameters],
        *,
        key: int,
    ) -> list[bool]:
        is_new: list[bool] = []
        for start in range(0, len(rows), _AT_ONCE):
            is_new += self._insert(table, columns, rows[start : start + _AT_ONCE], key=key)
        return is_new

    def _insert(
        self, table: str, columns: Sequence[str], rows: Sequence[Parameters], *, key: int
    ) -> list[bool]:
        """Insert all rows at once; after the first duplicate insert the rest one by one.

        One statement for all gives the interpreter's lock away once, not once a row. OR FAIL keeps
        the rows before the first conflict, and so needs no journal of its own.
        """
        marks = ", ".join([f"({', '.join('?' * len(columns))})"] * len(rows))
        before = self._connection.total_changes
        try:
            self._connection.execute(
                f"INSERT OR FAIL INTO {table} ({', '.join(columns)}) VALUES {marks}",  # noqa: S608 - our words
                list(chain.from_iterable(rows)),
            )
        except sqlite3.IntegrityError as error:
            if str(error) != _conflict_message(table, columns[:key]):
                raise
        else:
            return [True] * len(rows)
        done = self._connection.total_changes - before
        rest = [self._insert(table, columns, [row], key=key)[0] for row in rows[done + 1 :]]
        return [*[True] * done, False, *rest]

    def execute_many(self, sql: str, rows: Iterable[Parameters]) -> int:
        return self._connection.executemany(sql, rows).rowcount


def _conflict_message(table: str, columns: Sequence[str]) -> str:
    """Return SQLite's message for a duplicate key."""
    return f"UNIQUE constraint failed: {', '.join(f'{table}.{name}' for name in columns)}"
