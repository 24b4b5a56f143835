"""PostgreSQL behind the face: what it does beyond the contract, and how its failures are told."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.patience import PATIENCE_S

from rase.cli import main
from rase.errors import (
    StorageBusy,
    StorageConflict,
    StorageContended,
    StorageError,
    StorageUnreachable,
    StorageUnusable,
)
from rase.storage.address import PostgresAddress
from rase.storage.postgres import (
    _OPTIONS,
    PostgresDatabase,
    not_opened,
    open_postgres,
    translate_error,
)
from rase.storage.retry import retry

if TYPE_CHECKING:
    from benchmarks.loading.postgres import PostgresServer

NOBODY = PostgresAddress("postgresql://rase:secret@127.0.0.1:1/rase")


@pytest.fixture
def address(postgres: "PostgresServer") -> PostgresAddress:
    """An empty database."""
    return postgres.new_database()


@pytest.fixture
def open_one(address: PostgresAddress) -> Iterator[Callable[[], PostgresDatabase]]:
    """Open the database as one more process does."""
    with ExitStack() as stack:

        def opened() -> PostgresDatabase:
            database = open_postgres(address, migrations="shuffler")
            stack.callback(database.close)
            return database

        with opened().transaction() as transaction:
            transaction.execute("CREATE TABLE thing (id BIGINT PRIMARY KEY, content BIGINT)")
            transaction.execute_many("INSERT INTO thing VALUES (?, 0)", [(1,), (2,)])
        yield opened


def test_a_wrong_password_is_told_and_not_shown(postgres: "PostgresServer") -> None:
    """The message says where a password is set, and quotes none."""
    wrong = "guessed"
    with pytest.raises(StorageUnusable, match=r"password is wrong.*PGPASSFILE") as caught:
        open_postgres(postgres.address(password=wrong), migrations="shuffler")
    assert wrong not in str(caught.value)
    assert caught.value.exit_code == 3


def test_a_missing_database_is_told(postgres: "PostgresServer") -> None:
    """The message says how to make it."""
    with pytest.raises(StorageUnusable, match=r"does not exist.*createdb nowhere"):
        open_postgres(postgres.address("nowhere"), migrations="shuffler")


def test_a_missing_database_of_an_address_without_a_name_shows_no_password() -> None:
    """The user's name is then taken for it; the address itself is never quoted."""
    error = psycopg.OperationalError('FATAL: database "rase" does not exist')
    told = str(not_opened(error, PostgresAddress("postgresql://rase:p4ss@db.example")))
    assert "p4ss" not in told
    assert told.endswith("createdb rase.")


def test_a_server_that_does_not_answer_is_told() -> None:
    """Nobody listens there: a failure of the network, which may pass."""
    with pytest.raises(
        StorageUnreachable, match=r"rase@127.0.0.1:1/rase does not answer"
    ) as caught:
        open_postgres(NOBODY, migrations="shuffler")
    assert "secret" not in str(caught.value)
    assert caught.value.exit_code == 4


def test_an_old_server_is_refused(
    address: PostgresAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server below the least version is named with its own."""
    monkeypatch.setattr("rase.storage.postgres.LEAST_VERSION", 99)
    with pytest.raises(StorageUnusable, match="must be PostgreSQL 99 or newer, got 1"):
        open_postgres(address, migrations="shuffler")


def test_a_server_that_does_not_wait_for_the_disk_is_refused(address: PostgresAddress) -> None:
    """What is acknowledged must be durable."""
    with psycopg.connect(address.url, autocommit=True) as connection:
        name = address.url.rpartition("/")[2]
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off".encode())
    with pytest.raises(StorageUnusable, match="synchronous_commit"):
        open_postgres(address, migrations="shuffler")


def test_without_psycopg_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3, and what to install."""
    assert main(["init", str(tmp_path / "i"), "--range", "0", "10", "--epsilon", "1"]) == 0
    config = tmp_path / "i/shuffler/rase.toml"
    text = config.read_text().replace('"shuffler.db"', '"postgresql://rase@127.0.0.1:1/rase"')
    config.write_text(text)
    for module in [name for name in sys.modules if name.startswith("rase.storage.postgres")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert main(["shuffler", "devices", "--config", str(config)]) == 3
    assert 'pip install "rase-iot[postgres]"' in capsys.readouterr().err


def test_a_lost_connection_is_named_and_the_next_block_has_another(
    address: PostgresAddress, open_one: Callable[[], PostgresDatabase]
) -> None:
    """Inside a block a loss is an error that passes; between blocks nobody notices."""
    database = open_one()

    def end_all() -> None:
        with psycopg.connect(address.url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    def interrupted() -> None:
        with database.transaction() as transaction:
            transaction.execute("UPDATE thing SET content = 7")
            end_all()
            transaction.execute("SELECT 1")

    with pytest.raises(StorageUnreachable):
        interrupted()
    with database.snapshot() as reader, database.snapshot() as other:
        assert reader.execute("SELECT content FROM thing") == [(0,), (0,)]
        assert other.execute("SELECT 1") == [(1,)]
    end_all()
    with database.share() as transaction:
        transaction.execute("UPDATE thing SET content = 1")


def test_who_writes_alone_waits_for_those_who_share(
    open_one: Callable[[], PostgresDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who share do not wait for each other; who must be alone gives up after a while."""
    monkeypatch.setitem(_OPTIONS, "lock_timeout", "50ms")
    one, other = open_one(), open_one()
    with one.share() as first, other.share() as second:
        first.execute("UPDATE thing SET content = 1 WHERE id = 1")
        second.execute("UPDATE thing SET content = 1 WHERE id = 2")
        with pytest.raises(StorageBusy, match="LockNotAvailable"), one.transaction():
            pass
    with one.transaction(), pytest.raises(StorageBusy), other.share():
        pass
    with other.transaction() as transaction:
        assert transaction.execute("SELECT content FROM thing") == [(1,), (1,)]


def test_two_who_wait_for_each_other_both_finish(open_one: Callable[[], PostgresDatabase]) -> None:
    """One of two is ended, named, and repeated as a whole."""
    one, other = open_one(), open_one()
    meeting = threading.Barrier(2)
    tries: list[int] = []

    def work(database: PostgresDatabase, order: tuple[int, int]) -> None:
        def add() -> None:
            tries.append(order[0])
            with database.share() as transaction:
                for place in order:
                    sql = "UPDATE thing SET content = content + 1 WHERE id = ?"
                    transaction.execute(sql, (place,))
                    if place == order[0] and tries.count(place) == 1:
                        meeting.wait(PATIENCE_S)

        retry(add)

    threads = [
        threading.Thread(target=work, args=arguments)
        for arguments in ((one, (1, 2)), (other, (2, 1)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # One of them was sent back at least once; on a busy machine it may meet the other again.
    assert set(tries) == {1, 2}
    assert len(tries) > 2
    with one.snapshot() as reader:
        assert reader.execute("SELECT content FROM thing") == [(2,), (2,)]


def test_what_always_loses_is_told_at_last() -> None:
    """After some tries the error comes through."""
    tries = []

    def lose() -> None:
        tries.append(1)
        raise StorageContended("in the way.")

    with pytest.raises(StorageContended):
        retry(lose)
    assert len(tries) == 5


def test_rows_that_others_hold_are_skipped(open_one: Callable[[], PostgresDatabase]) -> None:
    """Each of two takes another row, and a third finds none."""
    sql = "SELECT id FROM thing ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
    databases = [open_one() for _ in range(3)]
    with ExitStack() as stack:
        taken = [stack.enter_context(one.share()).execute(sql) for one in databases]
    assert taken == [[(1,)], [(2,)], []]


def test_few_connections_are_used_and_waited_for(
    open_one: Callable[[], PostgresDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process leaves connections for the others."""
    monkeypatch.setattr("rase.storage.postgres._BUSY_S", 0.01)
    database = open_one()
    with ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(database.snapshot())
        with pytest.raises(StorageBusy, match="in use"), database.snapshot():
            pass
    with database.snapshot() as reader:
        assert reader.execute("SELECT 1") == [(1,)]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (psycopg.errors.SerializationFailure(), StorageContended),
        (psycopg.errors.DeadlockDetected(), StorageContended),
        (psycopg.errors.UniqueViolation(), StorageConflict),
        (psycopg.errors.DiskFull(), StorageBusy),
        (psycopg.errors.TooManyConnections(), StorageBusy),
        (psycopg.errors.IoError(), StorageBusy),
        (psycopg.errors.DataCorrupted(), StorageUnusable),
        (psycopg.errors.AdminShutdown(), StorageUnreachable),
        (psycopg.errors.CannotConnectNow(), StorageUnreachable),
        (psycopg.OperationalError("server closed the connection"), StorageUnreachable),
        (psycopg.errors.ReadOnlySqlTransaction(), StorageError),
        (psycopg.errors.UndefinedTable(), StorageError),
        (psycopg.errors.NumericValueOutOfRange("a value"), StorageError),
    ],
)
def test_errors_have_names(error: psycopg.Error, kind: type[StorageError]) -> None:
    """Each is told by what can be done about it, and none with a value or password."""
    found = translate_error(error, NOBODY)
    assert type(found) is kind
    assert "secret" not in str(found)
    assert "a value" not in str(found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('FATAL: role "rase" does not exist', "createuser"),
        ("fe_sendauth: no password supplied", "asks for a password"),
        ("FATAL: no pg_hba.conf entry for host", "lets nobody in"),
        ("root certificate file does not exist", "sslrootcert"),
        ("connection refused", "does not answer"),
    ],
)
def test_a_database_that_does_not_open_says_why(text: str, words: str) -> None:
    """What libpq says becomes ours, with the way out."""
    assert words in str(not_opened(psycopg.OperationalError(text), NOBODY))
