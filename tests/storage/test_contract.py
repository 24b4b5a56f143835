"""The face, on both engines: what every server relies on, whichever keeps its state."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from tests.storage.engines import Engine

from rase.errors import StorageConflict, StorageError
from rase.storage.interface import Database, Transaction

Write = Callable[[Database], AbstractContextManager[Transaction]]
BOTH: list[Write] = [lambda database: database.transaction(), lambda database: database.share()]
both_ways = pytest.mark.parametrize("write", BOTH, ids=["alone", "shared"])


@pytest.fixture
def database(engine: Engine) -> Database:
    """A database with one table of our own."""
    opened = engine.opened()
    with opened.transaction() as transaction:
        transaction.execute("CREATE TABLE thing (id BIGINT PRIMARY KEY, content BYTEA)")
    return opened


@both_ways
def test_what_is_written_is_read_by_a_later_process(
    engine: Engine, database: Database, write: Write
) -> None:
    """A committed row is there when the database is opened again; types stay what they are."""
    with write(database) as transaction:
        transaction.execute("CREATE TABLE kinds (a BIGINT, b BYTEA, c TEXT, d DOUBLE PRECISION)")
        row = (2**62, b"\0x\xff", "ä'?%", 0.1)
        assert transaction.execute("INSERT INTO kinds VALUES (?, ?, ?, ?)", row) == []
        transaction.execute("INSERT INTO kinds VALUES (?, ?, ?, ?)", (None,) * 4)
    database.close()
    with engine.opened().snapshot() as reader:
        found = reader.execute("SELECT * FROM kinds WHERE a IS NOT NULL OR b IS NULL ORDER BY d")
    assert {tuple(map(type, one)) for one in found} == {(int, bytes, str, float), (type(None),) * 4}
    assert row in found


@both_ways
def test_a_block_that_raises_leaves_nothing(database: Database, write: Write) -> None:
    """An exception of any kind rolls the whole block back, and the next block works."""

    def fail(error: type[BaseException]) -> None:
        with write(database) as transaction:
            transaction.execute("INSERT INTO thing VALUES (1, NULL)")
            raise error

    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error):
            fail(error)
    with database.snapshot() as transaction:
        assert transaction.execute("SELECT count(*) FROM thing") == [(0,)]


def test_many_rows_tell_how_many_changed(database: Database) -> None:
    """Rows that were there already do not count."""
    rows = [(number, b"") for number in (1, 2, 2, 3)]
    sql = "INSERT INTO thing VALUES (?, ?) ON CONFLICT DO NOTHING"
    with database.transaction() as transaction:
        assert transaction.execute_many(sql, rows) == 3
        assert transaction.execute_many(sql, rows) == 0
        assert transaction.execute_many(sql, []) == 0


def test_sums_of_whole_numbers_are_whole(database: Database) -> None:
    """Sums, counts and extremes are plain numbers, or None where there are no rows."""
    sql = "SELECT COALESCE(SUM(id), 0), COUNT(*), MAX(id) FROM thing"
    with database.transaction() as transaction:
        assert transaction.execute(sql) == [(0, 0, None)]
        transaction.execute_many("INSERT INTO thing VALUES (?, NULL)", [(2**50,), (3,)])
        (found,) = transaction.execute(sql)
    assert found == (2**50 + 3, 2, 2**50)
    assert {type(one) for one in found} == {int}


def test_new_rows_are_told_from_old_ones(database: Database) -> None:
    """The first row of a key is stored and told as new, in whatever order they come."""
    columns = ("id", "content")
    with database.share() as transaction:
        assert transaction.insert_new("thing", columns, [], key=1) == []
        rows = [(5, b"a"), (1, b"b"), (5, b"c")]
        assert transaction.insert_new("thing", columns, rows, key=1) == [True, True, False]
        rows = [(5, b"d"), (9, b"e")]
        assert transaction.insert_new("thing", columns, rows, key=1) == [False, True]
        found = transaction.execute("SELECT id, content FROM thing ORDER BY id FOR UPDATE")
    assert found == [(1, b"b"), (5, b"a"), (9, b"e")]


def test_many_new_rows_are_told_from_old_ones(database: Database) -> None:
    """More rows than a statement takes, with old ones and repetitions anywhere among them."""
    old = {0, 7, 199, 200, 201, 640}
    with database.transaction() as transaction:
        rows = [(number, b"old") for number in sorted(old)]
        assert all(transaction.insert_new("thing", ("id", "content"), rows, key=1))
    numbers = [*range(650), 3, 649]
    with database.share() as transaction:
        rows = [(number, b"new") for number in numbers]
        told = transaction.insert_new("thing", ("id", "content"), rows, key=1)
        kept = transaction.execute("SELECT COUNT(*) FROM thing WHERE content = ?", (b"old",))
    assert told == [number not in old for number in numbers[:650]] + [False, False]
    assert kept == [(len(old),)]


def test_returning_tells_whether_a_row_is_new(database: Database) -> None:
    """An insert that met a conflict returns no row."""
    sql = "INSERT INTO thing VALUES (?, ?) ON CONFLICT DO NOTHING RETURNING id"
    with database.transaction() as transaction:
        assert transaction.execute(sql, (1, b"")) == [(1,)]
        assert transaction.execute(sql, (1, b"")) == []


def test_a_snapshot_sees_one_moment_and_cannot_write(database: Database) -> None:
    """A reader neither waits for a writer nor sees its work, and may not write."""
    with database.snapshot() as reader:
        assert reader.execute("SELECT count(*) FROM thing") == [(0,)]
        with database.transaction() as writer:
            writer.execute("INSERT INTO thing VALUES (1, NULL)")
        assert reader.execute("SELECT count(*) FROM thing") == [(0,)]
    with pytest.raises(StorageError, match=r"read-?only"), database.snapshot() as reader:
        reader.execute("INSERT INTO thing VALUES (2, NULL)")


@both_ways
def test_a_conflict_is_named_without_its_values(database: Database, write: Write) -> None:
    """A second row of one key is a StorageConflict, which does not quote the row."""
    with write(database) as transaction:
        transaction.execute("INSERT INTO thing VALUES (987654321, NULL)")
    with pytest.raises(StorageConflict) as caught, write(database) as transaction:
        transaction.execute("INSERT INTO thing VALUES (987654321, NULL)")
    assert "987654321" not in str(caught.value)


def test_wrong_words_are_an_error_that_leaves_a_usable_database(database: Database) -> None:
    """A statement that is none is named, and what follows works."""
    with pytest.raises(StorageError, match="syntax"), database.transaction() as transaction:
        transaction.execute("no SQL")
    with database.snapshot() as transaction:
        assert transaction.execute("SELECT count(*) FROM thing") == [(0,)]


def test_who_writes_alone_reads_and_writes_without_others_between(engine: Engine) -> None:
    """Two processes with two threads each that read, then write, lose no update."""
    with engine.opened().transaction() as transaction:
        transaction.execute("CREATE TABLE counter (value BIGINT)")
        transaction.execute("INSERT INTO counter VALUES (0)")

    def work(database: Database) -> None:
        for _ in range(10):
            with database.transaction() as transaction:
                ((value,),) = transaction.execute("SELECT value FROM counter")
                transaction.execute("UPDATE counter SET value = ?", (value + 1,))

    processes = [engine.opened(), engine.opened()]
    threads = [threading.Thread(target=work, args=(one,)) for one in processes * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with processes[0].snapshot() as transaction:
        assert transaction.execute("SELECT value FROM counter") == [(40,)]


def test_scrubbing_is_done_and_keeps_what_is_there(database: Database) -> None:
    """After deleting and scrubbing, other rows are as they were."""
    with database.transaction() as transaction:
        transaction.execute("INSERT INTO thing VALUES (1, NULL)")
        transaction.execute("INSERT INTO thing VALUES (2, NULL)")
    with database.share() as transaction:
        transaction.execute("DELETE FROM thing WHERE id = 1")
    assert database.scrub()
    with database.snapshot() as transaction:
        assert transaction.execute("SELECT id FROM thing") == [(2,)]
