"""The SQL that an operator or a dashboard runs: it works on a database of this release."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from rase.storage.opening import open_database

if TYPE_CHECKING:
    from benchmarks.loading.postgres import PostgresServer

DEPLOY = Path(__file__).parents[2] / "deploy"
READER = DEPLOY / "postgresql/reader.sql"
BOARD = DEPLOY / "grafana/dashboards/rase-postgresql.json"


@pytest.fixture
def reader(postgres: "PostgresServer") -> "Iterator[psycopg.Connection[tuple[Any, ...]]]":
    """A connection of the reader to a database with a round withheld between two."""
    address = postgres.new_database()
    database = open_database(address, migrations="fusion")
    with database.transaction() as transaction:
        for round, state in ((1, "final"), (2, "withheld"), (3, "final")):
            transaction.execute(
                "INSERT INTO rounds VALUES ('homes', ?, 1, ?, 1, 0, ?, 'uniform', NULL)",
                (round, state, round),
            )
        for round, mean in ((1, 2.5), (3, 1.5)):
            transaction.execute(
                "INSERT INTO estimates "
                "VALUES ('homes', ?, 'unbiased_mean', 'mean', ?, 0.5, NULL, 9)",
                (round, mean),
            )
    database.close()
    with psycopg.connect(address.url, autocommit=True) as connection:
        try:
            connection.execute(READER.read_text("utf-8").encode())
            connection.execute("SET ROLE rase_reader")
            # As at a login of its own.
            connection.execute("SET search_path = rase_fusion")
            yield connection
        finally:
            # Roles belong to the whole server, which other tests share.
            connection.execute("RESET ROLE")
            connection.execute("DROP OWNED BY rase_reader; DROP ROLE rase_reader")


def test_a_reader_sees_final_estimates_and_nothing_else(
    reader: "psycopg.Connection[tuple[Any, ...]]",
) -> None:
    """The view tells means of final rounds; reports, tokens and the log are not to be read."""
    rows = reader.execute(
        "SELECT to_timestamp(round * 900), mean, n FROM fleet_mean ORDER BY round"
    ).fetchall()
    assert [(time.timestamp(), mean, n) for time, mean, n in rows] == [
        (900, 2.5, 9),
        (2700, 1.5, 9),
    ]
    for table in ("opened", "access_log", "subscribers", "estimates", "batches"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute(f"SELECT * FROM rase_fusion.{table}".encode())  # noqa: S608


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
    assert [row[1:] for row in mean] == [(2.5, 1.5, 3.5), (None, None, None), (1.5, 0.5, 2.5)]
    assert [n for _, n in count] == [9, None, 9]
    assert [row[1] for row in table] == [1.5, 2.5]
