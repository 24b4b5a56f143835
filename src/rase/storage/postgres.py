"""PostgreSQL: any number of processes on any number of machines share one state.

Isolation: transactions that write run READ COMMITTED with row locks in one order, so none of them
has to be repeated because another one read the same rows; those that must be alone take a lock on
the whole schema, which all others share. Readers see one moment (REPEATABLE READ, read only).

Errors of PostgreSQL are translated: named, with the way out, without any value. Only the first line
of a statement's error is ever passed on, and only where it cannot hold a value: the details of a
conflict, for one, quote the row.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import psycopg
from psycopg import sql as composed
from psycopg.abc import Buffer
from psycopg.types.numeric import NumericBinaryLoader

from rase.errors import (
    StorageBusy,
    StorageConflict,
    StorageContended,
    StorageError,
    StorageUnreachable,
    StorageUnusable,
)
from rase.storage.address import PostgresAddress
from rase.storage.dialect import to_postgres
from rase.storage.interface import Parameters, Row
from rase.storage.migrate import migrate

__all__ = ["LEAST_VERSION", "PostgresDatabase", "not_opened", "open_postgres", "translate_error"]

LEAST_VERSION: Final = 14
_BUSY_S: Final = 10.0
_CONNECT_S: Final = 5
# Servers allow a hundred connections by default; a process needs few at once.
_MOST_CONNECTIONS: Final = 10
# Advisory locks are numbers; this one is "rase", the other half is the schema's.
_LOCK_CLASS: Final = 0x72617365
_OPTIONS: Final = {
    "lock_timeout": "10s",
    # A machine that vanishes in the middle of a transaction must not hold its locks for hours.
    "idle_in_transaction_session_timeout": "60s",
    "client_min_messages": "warning",
}
_ARRAYS: Final[dict[type, str]] = {int: "bigint[]", str: "text[]", bytes: "bytea[]"}


def open_postgres(
    address: PostgresAddress, *, migrations: str, schema: str | None = None
) -> "PostgresDatabase":
    """Open a server's database and bring it to the newest form.

    Args:
        address: The database, which exists.
        migrations: Whose state it is: "shuffler" or "fusion".
        schema: Where its tables are; ``rase_`` and the role's name if None. It is made if missing.

    Raises:
        StorageUnusable: If the database cannot be opened, its server is too old, or it belongs
            to another role or a newer release.
        StorageUnreachable: If the server does not answer.
    """
    database = PostgresDatabase(address, schema=schema or f"rase_{migrations}")
    try:
        database.check()
        database.make_schema()
        migrate(database, migrations)
    except BaseException:
        database.close()
        raise
    return database


class PostgresDatabase:
    """A small pool of connections to one schema of a database.

    Args:
        address: The database.
        schema: Where the tables are.
    """

    def __init__(self, address: PostgresAddress, *, schema: str) -> None:
        self._address = address
        self._schema = schema
        self._idle: list[psycopg.Connection[Row]] = []
        self._free = threading.Semaphore(_MOST_CONNECTIONS)
        lock = f"({_LOCK_CLASS}, hashtext('{schema}'))"
        begin = "BEGIN ISOLATION LEVEL"
        # One text, so that the lock costs no journey of its own.
        self._alone = f"{begin} READ COMMITTED; SELECT pg_advisory_xact_lock{lock}"
        self._share_lock = f"{begin} READ COMMITTED; SELECT pg_advisory_xact_lock_shared{lock}"
        self._reading = f"{begin} REPEATABLE READ READ ONLY"

    @contextmanager
    def transaction(self) -> Iterator["_PostgresTransaction"]:
        """Write alone."""
        with self._block(self._alone) as transaction:
            yield transaction

    @contextmanager
    def share(self) -> Iterator["_PostgresTransaction"]:
        """Write at the same time as others."""
        with self._block(self._share_lock) as transaction:
            yield transaction

    @contextmanager
    def snapshot(self) -> Iterator["_PostgresTransaction"]:
        """Read the state of one moment."""
        with self._block(self._reading) as transaction:
            yield transaction

    def scrub(self) -> bool:
        """Free the space of deleted rows; their bytes stay until they are overwritten.

        Neither they nor what the write-ahead log keeps can be overwritten from here.
        """
        with self._connection() as connection:
            tables = connection.execute(
                "SELECT relname FROM pg_stat_user_tables WHERE schemaname = %s", (self._schema,)
            ).fetchall()
            if tables:
                names = [composed.Identifier(self._schema, name) for (name,) in tables]
                # Who meets another process that does the same leaves it to that one.
                words = composed.SQL("VACUUM (SKIP_LOCKED) {}")
                connection.execute(words.format(composed.SQL(", ").join(names)))
        return True

    def check(self) -> None:
        """Refuse a server that cannot be opened, is too old, or does not wait for the disk.

        Raises:
            StorageUnusable: If the server cannot be used.
            StorageUnreachable: If the server does not answer.
        """
        try:
            self._idle.append(self._connect())
        except psycopg.OperationalError as error:
            raise not_opened(error, self._address) from None
        version = self._idle[-1].info.server_version
        if version // 10_000 < LEAST_VERSION:
            raise StorageUnusable(
                f"the server of {self._address} must be PostgreSQL {LEAST_VERSION} or newer, got "
                f"{version // 10_000}. Move the database to a newer one."
            )
        self._check_durable()

    def make_schema(self) -> None:
        """Make the schema if it is missing.

        Raises:
            StorageError: If this user may not.
        """
        with self.transaction() as transaction:
            # IF NOT EXISTS asks for the right to make schemas even where there is one.
            there = transaction.execute(
                "SELECT 1 FROM pg_namespace WHERE nspname = ?", (self._schema,)
            )
            if not there:
                transaction.execute(f"CREATE SCHEMA {self._schema}")

    def close(self) -> None:
        """Close all connections."""
        while self._idle:
            self._idle.pop().close()

    def _check_durable(self) -> None:
        with self._connection() as connection:
            rows = connection.execute("SHOW synchronous_commit").fetchall()
        if rows == [("off",)]:
            raise StorageUnusable(
                f"synchronous_commit of {self._address} must not be off: what is acknowledged "
                "would be lost in a crash. Turn it on for this user or database."
            )

    @contextmanager
    def _block(self, begin: str) -> Iterator["_PostgresTransaction"]:
        with self._connection(begin) as connection:
            try:
                with connection.cursor(binary=True) as cursor:
                    yield _PostgresTransaction(cursor)
                connection.execute("COMMIT")
            except BaseException:
                with suppress(psycopg.Error):
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _connection(self, begin: str = "SELECT 1") -> Iterator[psycopg.Connection[Row]]:
        if not self._free.acquire(timeout=_BUSY_S):
            raise StorageBusy(f"all connections to {self._address} are in use.")
        try:
            connection = self._begin(begin)
            try:
                yield connection
            finally:
                self._give_back(connection)
        except psycopg.Error as error:
            raise translate_error(error, self._address) from error
        finally:
            self._free.release()

    def _begin(self, begin: str) -> psycopg.Connection[Row]:
        """Return a connection on which a transaction has begun.

        A server that was restarted leaves dead connections behind; nothing was done on them yet, so
        the next one is tried.
        """
        while True:
            try:
                connection, is_new = self._idle.pop(), False
            except IndexError:
                connection, is_new = self._connect(), True
            try:
                connection.execute(begin.encode())
            except psycopg.OperationalError:
                is_dead = connection.closed
                connection.close()
                if is_new or not is_dead:
                    raise
                continue
            return connection

    def _give_back(self, connection: psycopg.Connection[Row]) -> None:
        if connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            self._idle.append(connection)
        else:
            connection.close()

    def _connect(self) -> psycopg.Connection[Row]:
        options = {**_OPTIONS, "search_path": self._schema}
        connection: psycopg.Connection[Row] = psycopg.connect(
            self._address.url,
            autocommit=True,
            connect_timeout=_CONNECT_S,
            options=" ".join(f"-c {name}={value}" for name, value in options.items()),
            application_name=self._schema,
        )
        connection.adapters.register_loader("numeric", _WholeLoader)
        return connection


class _WholeLoader(NumericBinaryLoader):
    """Read sums of whole numbers as such, as SQLite gives them; nothing else is numeric."""

    def load(self, data: Buffer) -> Any:
        return int(super().load(data))


class _PostgresTransaction:
    """Run statements on a cursor whose connection is inside a transaction."""

    __slots__ = ("_cursor",)

    def __init__(self, cursor: psycopg.Cursor[Row]) -> None:
        self._cursor = cursor

    def execute(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        self._run(sql, parameters)
        return self._cursor.fetchall() if self._cursor.description else []

    def insert_new(
        self,
        table: str,
        columns: Sequence[str],
        rows: Sequence[Parameters],
        *,
        key: int,
    ) -> list[bool]:
        if not rows:
            return []
        places: dict[tuple[Any, ...], int] = {}
        for place, row in enumerate(rows):
            places.setdefault(tuple(row[:key]), place)
        # Sorted: two processes that insert the same keys then wait for, not against, each other.
        chosen = [rows[place] for _, place in sorted(places.items())]
        marks = ", ".join(f"%b::{_ARRAYS[type(value)]}" for value in rows[0])
        is_new = [False] * len(rows)
        keys = ", ".join(columns[:key])
        sql = (
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT * FROM unnest({marks}) "  # noqa: S608 - our words
            f"ON CONFLICT ({keys}) DO NOTHING RETURNING {keys}"
        )
        self._cursor.execute(sql.encode(), [list(column) for column in zip(*chosen, strict=True)])
        for found in self._cursor.fetchall():
            is_new[places[tuple(found)]] = True
        return is_new

    def execute_many(self, sql: str, rows: Iterable[Parameters]) -> int:
        self._cursor.executemany(to_postgres(sql).encode(), rows)
        return max(self._cursor.rowcount, 0)

    def _run(self, sql: str, parameters: Parameters) -> None:
        # As bytes: psycopg's types allow no other text than literals, and all of ours are constant.
        self._cursor.execute(to_postgres(sql).encode(), parameters)


_WAY_IN: Final = (
    "Set it in PGPASSWORD, in a file named by PGPASSFILE, or keep the whole address in a file "
    "named by database_file"
)
# libpq gives no codes when a connection fails, only words.
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


def translate_error(error: psycopg.Error, address: PostgresAddress) -> StorageError:
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
