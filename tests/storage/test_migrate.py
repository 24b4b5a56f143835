"""Migrations: from every earlier form to the newest, and refusals by name."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.storage.engines import Engine, schema_of

from rase.errors import StorageUnusable
from rase.storage.migrate import migrate, migrations_of
from rase.storage.opening import open_database
from rase.storage.sqlite import SqliteDatabase, open_sqlite

if TYPE_CHECKING:
    from benchmarks.loading.postgres import PostgresServer

ROLES = ["shuffler", "fusion"]
STEPS = [(role, step.number) for role in ROLES for step in migrations_of(role)]


@pytest.mark.uncovered
@pytest.mark.parametrize(("role", "version"), STEPS)
def test_every_earlier_version_comes_forward(
    engine: Engine, role: str, version: int, request: pytest.FixtureRequest
) -> None:
    """A database that stopped at any step becomes the same as a new one."""
    engine.of_version(role, version)
    old = engine.opened(role)
    new = Engine(
        engine.address.with_name("new.db")
        if isinstance(engine.address, Path)
        else request.getfixturevalue("postgres").new_database()
    )
    assert schema_of(old) == schema_of(new.opened(role))
    assert migrate(old, role) == migrations_of(role)[-1].number
    new.close()


def test_a_newer_database_is_refused(engine: Engine) -> None:
    """A version that this release does not know is named."""
    with engine.opened().transaction() as transaction:
        transaction.execute("UPDATE schema_version SET version = 999")
    with pytest.raises(StorageUnusable, match="version 999; this release knows up to"):
        engine.opened()


def test_the_other_servers_database_is_refused(tmp_path: Path) -> None:
    """The fusion centre does not open the shuffler's database."""
    open_sqlite(tmp_path / "a.db", migrations="shuffler").close()
    with pytest.raises(StorageUnusable, match="one of the shuffler, not of the fusion"):
        open_sqlite(tmp_path / "a.db", migrations="fusion")


def test_both_servers_may_share_a_database_of_postgres(postgres: "PostgresServer") -> None:
    """Each has a schema of its own, and sees nothing of the other's."""
    engine = Engine(postgres.new_database())
    tables = [
        {row[0] for row in schema_of(engine.opened(role))} - {"schema_version", "heartbeat", "act"}
        for role in ROLES
    ]
    engine.close()
    assert "report" in tables[0]
    assert "answers" in tables[1]
    assert not tables[0] & tables[1]


def test_processes_that_start_together_migrate_once(postgres: "PostgresServer") -> None:
    """Whoever comes first makes the schema; the others find it."""
    address = postgres.new_database()
    with ThreadPoolExecutor(6) as pool:
        opened = list(pool.map(lambda _: open_database(address, migrations="fusion"), range(6)))
    for database in opened:
        with database.snapshot() as transaction:
            assert transaction.execute("SELECT count(*) FROM schema_version") == [(1,)]
        database.close()


def test_an_unknown_role_has_no_migrations() -> None:
    """A name without a folder is a mistake of ours."""
    with pytest.raises(ValueError, match="numbered 0001"):
        migrations_of("nobody")


def test_a_step_that_fails_leaves_the_version_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step happens as a whole or not at all."""
    from rase.errors import StorageError
    from rase.storage.migrate import Migration

    broken = (Migration(1, ("CREATE TABLE a (b TEXT)", "no SQL")),)
    monkeypatch.setattr("rase.storage.migrate.migrations_of", lambda role: broken)
    with pytest.raises(StorageError, match="syntax"):
        open_sqlite(tmp_path / "a.db", migrations="shuffler")
    database = SqliteDatabase(tmp_path / "a.db")
    assert [name for _, name, _ in schema_of(database) if not name.startswith("sqlite_")] == [
        "schema_version"
    ]
    database.close()


def test_two_processes_migrate_once(tmp_path: Path) -> None:
    """A step that another process has made meanwhile is not made again."""
    slow = SqliteDatabase(tmp_path / "a.db")

    class Overtaken:
        """Let another process migrate after the first look."""

        def __init__(self) -> None:
            self.calls = 0

        def __getattr__(self, name: str) -> object:
            if name == "transaction":
                self.calls += 1
                if self.calls == 2:
                    open_sqlite(tmp_path / "a.db", migrations="shuffler").close()
            return getattr(slow, name)

    assert migrate(Overtaken(), "shuffler") == migrations_of("shuffler")[-1].number  # type: ignore[arg-type]
    slow.close()


def test_a_shuffler_of_the_first_form_keeps_its_devices(tmp_path: Path) -> None:
    """Rows of the first form are there after the second step, and can be revoked."""
    from rase.shuffler.enrolment import enrolled_devices, revoke_devices

    old = SqliteDatabase(tmp_path / "a.db")
    migrate(old, "shuffler", target=1)
    with old.transaction() as transaction:
        transaction.execute("INSERT INTO device VALUES (5, x'00', x'01', 'north')")
    old.close()
    database = open_sqlite(tmp_path / "a.db", migrations="shuffler")
    (device,) = enrolled_devices(database)
    assert (device.device, device.group) == ("0000000000000005", "north")
    revoke_devices(database, [device.device])
    assert enrolled_devices(database) == []
    database.close()
