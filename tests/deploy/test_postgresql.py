"""The SQL that an operator or a dashboard runs: it works on a database of this release."""

import json
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from rase.storage.migrate import migrate
from rase.storage.opening import open_database
from rase.storage.postgres import PostgresDatabase

if TYPE_CHECKING:
    from benchmarks.loading.postgres import PostgresServer

DEPLOY = Path(__file__).parents[2] / "deploy"
READER = DEPLOY / "postgresql/reader.sql"
BOARD = DEPLOY / "grafana/dashboards/rase-postgresql.json"
# What the file held before migration 9.
OLD_READER = """
CREATE VIEW rase_fusion.fleet_mean AS
SELECT campaign, round, method, target, mean, standard_error, degrees_of_freedom, n, shuffle
FROM rase_fusion.estimates
JOIN rase_fusion.rounds USING (campaign, round)
WHERE state = 'final';
CREATE ROLE rase_reader LOGIN;
"""


@pytest.fixture
def reader(postgres: "PostgresServer") -> "Iterator[psycopg.Connection[tuple[Any, ...]]]":
    """A connection of the reader to a database with a round withheld between two."""
    address = postgres.new_database()
    with (
        closing(open_database(address, migrations="fusion")) as database,
        database.transaction() as transaction,
    ):
        for round, state in ((1, "final"), (2, "withheld"), (3, "final")):
            transaction.execute(
                "INSERT INTO rounds VALUES ('homes', ?, 1, ?, 1, 0, ?, 'uniform', NULL)",
                (round, state, round),
            )
        # The first as migration 9 leaves what was there: without an interval.
        for round, value, low, high in ((1, 2.5, None, None), (3, 1.5, 0.25, 2.75)):
            transaction.execute(
                "INSERT INTO answers (campaign, round, method, target, value, standard_error, low, "
                "high, n) VALUES ('homes', ?, 'unbiased_mean', 'reporters', ?, 0.5, ?, ?, 9)",
                (round, value, low, high),
            )
    with psycopg.connect(address.url, autocommit=True) as connection, no_reader_after(connection):
        become_reader(connection)
        yield connection


def become_reader(connection: "psycopg.Connection[tuple[Any, ...]]") -> None:
    """Run the file as the owner, then be the reader, as at a login of its own."""
    connection.execute(READER.read_text("utf-8").encode())
    connection.execute("SET ROLE rase_reader")
    connection.execute("SET search_path = rase_fusion")


@contextmanager
def no_reader_after(connection: "psycopg.Connection[tuple[Any, ...]]") -> Iterator[None]:
    """Remove the role in the end: it belongs to the whole server, which other tests share."""
    try:
        yield
    finally:
        connection.execute("RESET ROLE")
        connection.execute("DROP OWNED BY rase_reader; DROP ROLE rase_reader")


def test_a_reader_sees_final_estimates_and_nothing_else(
    reader: "psycopg.Connection[tuple[Any, ...]]",
) -> None:
    """The view tells means of final rounds; reports, tokens and the log are not to be read."""
    rows = reader.execute(
        "SELECT to_timestamp(round * 900), value, n FROM fleet_mean ORDER BY round"
    ).fetchall()
    assert [(time.timestamp(), value, n) for time, value, n in rows] == [
        (900, 2.5, 9),
        (2700, 1.5, 9),
    ]
    for table in ("opened", "access_log", "subscribers", "answers", "batches"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute(f"SELECT * FROM rase_fusion.{table}".encode())  # noqa: S608


def test_after_migration_9_the_file_is_run_again(postgres: "PostgresServer") -> None:
    """An older view does not keep the table, and the reader that is there sees its rows again."""
    address = postgres.new_database()
    with closing(PostgresDatabase(address, schema="rase_fusion")) as old:
        old.make_schema()
        assert migrate(old, "fusion", target=8) == 8
        with old.transaction() as transaction:
            transaction.execute(
                "INSERT INTO rounds VALUES ('homes', 1, 1, 'final', 1, 0, 1, 'uniform', NULL)"
            )
            transaction.execute(
                "INSERT INTO estimates VALUES "
                "('homes', 1, 'auto', 'mean of the readings of the fleet', 2.5, 0.5, NULL, 9)"
            )
    with psycopg.connect(address.url, autocommit=True) as connection:
        connection.execute(OLD_READER.encode())
        with no_reader_after(connection):
            open_database(address, migrations="fusion").close()
            become_reader(connection)
            found = connection.execute("SELECT method, target, value, low FROM fleet_mean")
            assert found.fetchall() == [("tracked", "fleet", 2.5, None)]


def test_the_dashboard_asks_the_view_as_its_reader(
    reader: "psycopg.Connection[tuple[Any, ...]]",
) -> None:
    """Each panel's question is answered; the withheld round is a gap, not a line across it."""
    board = json.loads(BOARD.read_text("utf-8"))
    names = {one["name"] for one in board["templating"]["list"]}
    values = {"campaign": "homes", "round_s": "900", "method": "unbiased_mean"}
    assert names == set(values)
    found = []
    for panel in board["panels"]:
        (target,) = panel["targets"]
        # As Grafana does it: macros and variables become text.
        sql = target["rawSql"].replace("$__unixEpochFrom()", "900")
        sql = sql.replace("$__unixEpochTo()", "2700")
        sql = re.sub(r"\$\{(\w+):sqlstring\}", lambda match: f"'{values[match[1]]}'", sql)
        sql = re.sub(r"\$\{(\w+)\}", lambda match: values[match[1]], sql)
        assert "$" not in sql
        found.append(reader.execute(sql.encode()).fetchall())
    mean, count, table = found
    assert [row[1:] for row in mean] == [(2.5, 1.5, 3.5), (None, None, None), (1.5, 0.25, 2.75)]
    assert [n for _, n in count] == [9, None, 9]
    assert [row[1] for row in table] == [1.5, 2.5]
