"""A server's state moves from a file to PostgreSQL: whole, compared, and never to be used twice."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.storage.faults import FaultyDatabase, SimulatedDeath

from rase.errors import StorageBusy, StorageError, StorageUnusable
from rase.storage.copy import copy_database, tables_of
from rase.storage.interface import Database
from rase.storage.opening import look_at, open_database
from rase.storage.sqlite import SqliteDatabase, open_sqlite

if TYPE_CHECKING:
    from benchmarks.loading.postgres import PostgresServer


@pytest.fixture
def source(quick_folder: Path) -> Iterator[SqliteDatabase]:
    """A fusion centre's file with something of each type."""
    database = open_sqlite(quick_folder / "fusion.db", migrations="fusion")
    with database.transaction() as transaction:
        transaction.execute_many(
            "INSERT INTO answers (campaign, round, method, target, unit, value, standard_error, "
            "high, n) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                ("a", 2**40 + number, "mean", "reports", "ä", 0.1 * number, None, 1e300, number)
                for number in range(300)
            ],
        )
        transaction.execute("INSERT INTO keysets VALUES (1, ?, ?, NULL)", (b"\0\xff", b""))
    yield database
    database.close()


@pytest.fixture
def target(postgres: "PostgresServer") -> Iterator[Database]:
    """An empty database."""
    database = open_database(postgres.new_database(), migrations="fusion")
    yield database
    database.close()


def rows_of(database: Database, table: str) -> list[tuple[object, ...]]:
    """Return a table, sorted."""
    with database.snapshot() as transaction:
        return sorted(transaction.execute(f"SELECT * FROM {table}"), key=repr)  # noqa: S608 - a name of ours


def test_every_table_arrives(source: SqliteDatabase, target: Database) -> None:
    """Rows are the same in both, and told with their number."""
    copied = {table.name: table.rows for table in copy_database(source, target, role="fusion")}
    assert copied["answers"] == 300
    assert copied["keysets"] == 1
    assert set(copied) == set(tables_of("fusion"))
    for table in copied:
        assert rows_of(source, table) == rows_of(target, table)


def test_the_old_file_is_opened_no_more(
    source: SqliteDatabase, target: Database, quick_folder: Path
) -> None:
    """A server that is started on it by mistake says where its state is."""
    copy_database(source, target, role="fusion")
    source.close()
    with pytest.raises(StorageUnusable, match=r"copied from here.*fusion.database"):
        open_sqlite(quick_folder / "fusion.db", migrations="fusion")
    with pytest.raises(StorageUnusable, match="copied from here"):
        look_at(quick_folder / "fusion.db", role="fusion")


def test_a_file_in_use_is_not_copied(
    source: SqliteDatabase, target: Database, quick_folder: Path
) -> None:
    """As long as a server has it open, nothing happens."""
    server = open_sqlite(quick_folder / "fusion.db", migrations="fusion")
    with pytest.raises(StorageBusy, match=r"in use\. Stop the server"):
        copy_database(source, target, role="fusion")
    server.close()
    assert rows_of(target, "answers") == []
    assert copy_database(source, target, role="fusion")


def test_a_target_with_other_rows_is_refused(source: SqliteDatabase, target: Database) -> None:
    """What is there is neither mixed nor overwritten."""
    with target.transaction() as transaction:
        transaction.execute("INSERT INTO keysets VALUES (2, ?, ?, NULL)", (b"", b""))
    with pytest.raises(StorageUnusable, match="must be empty, but has rows in keysets"):
        copy_database(source, target, role="fusion")
    assert len(rows_of(target, "keysets")) == 1


@pytest.mark.uncovered
def test_a_death_at_any_point_is_repaired_by_repeating(
    source: SqliteDatabase, postgres: "PostgresServer"
) -> None:
    """The target holds all or nothing, and doing it again ends well."""
    point, deaths = 0, 0
    while True:
        with source.transaction() as transaction:
            transaction.execute("UPDATE schema_version SET role = 'fusion'")
        with closing(open_database(postgres.new_database(), migrations="fusion")) as target:
            try:
                copy_database(source, FaultyDatabase(target, point), role="fusion")
            except SimulatedDeath:
                deaths += 1
            else:
                break
            assert len(rows_of(target, "answers")) in (0, 300)
            assert copy_database(source, target, role="fusion")
            assert len(rows_of(target, "answers")) == 300
        point += 1
    assert deaths == 6


def test_what_arrives_changed_is_not_kept(
    source: SqliteDatabase, target: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A difference in one value is seen, and the target stays empty."""
    with target.transaction() as transaction:
        transaction.execute(
            "CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN NEW.n = NEW.n + 1; RETURN NEW; END $$"
        )
        transaction.execute(
            "CREATE TRIGGER spoil BEFORE INSERT ON answers FOR EACH ROW EXECUTE FUNCTION spoil()"
        )
    with pytest.raises(StorageError, match="not what was sent"):
        copy_database(source, target, role="fusion")
    assert rows_of(target, "answers") == []
