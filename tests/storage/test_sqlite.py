"""SQLite behind the face: what it does beyond the contract, such as leaving no trace."""

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rase.errors import StorageBusy, StorageConflict, StorageError, StorageUnusable
from rase.storage.sqlite import SqliteDatabase, open_sqlite


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the database is."""
    return tmp_path / "shuffler.db"


@pytest.fixture
def database(path: Path) -> Iterator[SqliteDatabase]:
    """A fresh database with one table of our own."""
    opened = open_sqlite(path, migrations="shuffler")
    with opened.transaction() as transaction:
        transaction.execute("CREATE TABLE thing (id BIGINT PRIMARY KEY, content BYTEA)")
    yield opened
    opened.close()


def test_threads_take_turns(database: SqliteDatabase) -> None:
    """Writers of several threads lose no update."""

    def work() -> None:
        for _ in range(25):
            with database.transaction() as transaction:
                transaction.execute("UPDATE thing SET content = content + 1")

    with database.transaction() as transaction:
        transaction.execute("INSERT INTO thing VALUES (1, 0)")
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.snapshot() as transaction:
        assert transaction.execute("SELECT content FROM thing") == [(100,)]


def test_a_full_disk_is_named_and_loses_nothing(database: SqliteDatabase) -> None:
    """What does not fit is StorageBusy; what was there stays, and smaller writes go on."""
    with database.transaction() as transaction:
        transaction.execute("INSERT INTO thing VALUES (1, NULL)")
    connection = database._idle[True][0]
    ((pages,),) = connection.execute("PRAGMA page_count").fetchall()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StorageBusy, match="full"), database.transaction() as transaction:
        transaction.execute("INSERT INTO thing VALUES (2, ?)", (bytes(100_000),))
    with database.transaction() as transaction:
        transaction.execute("INSERT INTO thing VALUES (3, NULL)")
        assert transaction.execute("SELECT id FROM thing ORDER BY id") == [(1,), (3,)]


def test_a_connection_that_cannot_roll_back_is_not_used_again(
    database: SqliteDatabase, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would keep everybody from writing; closing it ends its transaction."""

    class Stuck(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            if sql == "ROLLBACK":
                raise sqlite3.OperationalError("disk I/O error")
            return super().execute(sql, *parameters)

    database.close()
    with monkeypatch.context() as patch:
        stuck = sqlite3.connect(path, isolation_level=None, factory=Stuck)
        patch.setattr(database, "_connect", lambda *, may_write: stuck)
        with pytest.raises(StorageConflict), database.transaction() as transaction:
            transaction.execute_many("INSERT INTO thing VALUES (?, 0)", [(1,), (1,)])
    with database.transaction() as transaction:
        assert transaction.execute("SELECT * FROM thing") == []


def test_a_held_file_is_busy(
    database: SqliteDatabase, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where another process holds the file too long, the write fails with a name."""
    monkeypatch.setattr("rase.storage.sqlite._BUSY_S", 0.01)
    database.close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageBusy, match="locked"), database.transaction():
        pass
    other.execute("ROLLBACK")
    other.close()


@pytest.mark.parametrize("content", [b"this is no database" * 500, None])
def test_a_damaged_file_is_refused(path: Path, content: bytes | None) -> None:
    """A file that is no database, or has a broken page, is refused with a way out."""
    opened = open_sqlite(path, migrations="shuffler")
    opened.close()
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data if content is None else content)
    with pytest.raises(StorageUnusable, match=r"damaged.*restore"):
        open_sqlite(path, migrations="shuffler")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_CANTOPEN, StorageBusy),
        (sqlite3.SQLITE_IOERR | 10 << 8, StorageBusy),
        (sqlite3.SQLITE_PROTOCOL, StorageBusy),
        (sqlite3.SQLITE_READONLY | 1 << 8, StorageBusy),
        (sqlite3.SQLITE_CORRUPT | 1 << 8, StorageUnusable),
        (sqlite3.SQLITE_ERROR, StorageError),
    ],
)
def test_what_may_pass_is_told_from_what_does_not(
    database: SqliteDatabase, code: int, kind: type[StorageError]
) -> None:
    """Troubles of disk, memory and other processes are tried again; damage and mistakes are not."""
    error = sqlite3.OperationalError("planted")
    error.sqlite_errorcode = code
    assert type(database._translate_error(error)) is kind


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """A path that cannot be made is told with the way out."""
    with pytest.raises(StorageUnusable, match="Name a folder that exists"):
        open_sqlite(tmp_path / "missing" / "a.db", migrations="shuffler")


def test_only_the_owner_can_read(database: SqliteDatabase, path: Path) -> None:
    """The file and its logs have mode 0600."""
    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert set(modes.values()) == {0o600}
    assert f"{path.name}-wal" in modes


def test_deleted_rows_leave_no_bytes(database: SqliteDatabase, path: Path) -> None:
    """After deleting and scrubbing neither the file nor its log holds what was deleted."""
    secret = b"a payload that must not stay" * 8
    with database.transaction() as transaction:
        transaction.execute("INSERT INTO thing VALUES (1, ?)", (secret,))
    with database.transaction() as transaction:
        transaction.execute("DELETE FROM thing")
    assert any(secret in file.read_bytes() for file in path.parent.iterdir())
    assert database.scrub()
    assert not any(secret[:28] in file.read_bytes() for file in path.parent.iterdir())


def test_a_scrub_that_a_reader_blocks_keeps_no_writer_waiting(
    database: SqliteDatabase, path: Path
) -> None:
    """It gives up long before a writer would, who cannot write while it waits."""
    asked: list[str] = []
    with database._connection(may_write=True) as connection:
        connection.set_trace_callback(asked.append)
    other = SqliteDatabase(path)
    with other.snapshot() as reader:
        reader.execute("SELECT count(*) FROM thing")
        with database.transaction() as transaction:
            transaction.execute("INSERT INTO thing VALUES (1, NULL)")
        asked.clear()
        assert not database.scrub()
    patience, work, _ = asked
    assert work == "PRAGMA wal_checkpoint(TRUNCATE)"
    name, _, milliseconds = patience.partition(" = ")
    assert (name, int(milliseconds) <= 1000) == ("PRAGMA busy_timeout", True)
    with database.transaction() as transaction:
        assert transaction.execute("PRAGMA busy_timeout") == [(10_000,)]
    other.close()


def test_scrubbing_waits_for_readers(database: SqliteDatabase) -> None:
    """While a reader looks at the past, scrubbing says that it is not done."""
    with database.snapshot() as reader:
        reader.execute("SELECT count(*) FROM thing")
        with database.transaction() as transaction:
            transaction.execute("INSERT INTO thing VALUES (1, NULL)")
        assert not database.scrub()
    assert database.scrub()


def test_a_broken_rule_of_another_column_is_no_old_row(database: SqliteDatabase) -> None:
    """Only the key makes a row an old one; what else a table forbids is told."""
    with database.transaction() as transaction:
        transaction.execute("CREATE TABLE pair (id BIGINT PRIMARY KEY, name TEXT NOT NULL UNIQUE)")
        rows = [(1, "a"), (1, "b")]
        assert transaction.insert_new("pair", ("id", "name"), rows, key=1) == [True, False]
    with pytest.raises(StorageConflict), database.transaction() as transaction:
        transaction.insert_new("pair", ("id", "name"), [(2, "a")], key=1)
