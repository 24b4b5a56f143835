"""The SQL that an operator runs by hand: it works on a database of this release."""

from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from rase.storage.opening import open_database

if TYPE_CHECKING:
    from benchmarks.loading.postgres import PostgresServer

READER = Path(__file__).parents[2] / "deploy/postgresql/reader.sql"


def test_a_reader_sees_final_estimates_and_nothing_else(postgres: "PostgresServer") -> None:
    """The view tells means of final rounds; reports, tokens and the log are not to be read."""
    address = postgres.new_database()
    database = open_database(address, migrations="fusion")
    with database.transaction() as transaction:
        for round, state in ((1, "final"), (2, "withheld"), (3, "final")):
            transaction.execute(
                "INSERT INTO rounds VALUES ('homes', ?, 1, ?, 1, 0, ?, 'uniform', NULL)",
                (round, state, round),
            )
        transaction.execute(
            "INSERT INTO estimates VALUES ('homes', 3, 'unbiased_mean', 'mean', 1.5, 0.5, NULL, 9)"
        )
    database.close()
    with psycopg.connect(address.url, autocommit=True) as connection:
        try:
            connection.execute(READER.read_text("utf-8").encode())
            connection.execute("SET ROLE rase_reader")
            rows = connection.execute(
                "SELECT to_timestamp(round * 900), mean, n FROM rase_fusion.fleet_mean"
            ).fetchall()
            assert [(time.timestamp(), mean, n) for time, mean, n in rows] == [(2700, 1.5, 9)]
            for table in ("opened", "access_log", "subscribers", "estimates", "batches"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(f"SELECT * FROM rase_fusion.{table}".encode())  # noqa: S608
        finally:
            # Roles belong to the whole server, which other tests share.
            connection.execute("RESET ROLE")
            connection.execute("DROP OWNED BY rase_reader; DROP ROLE rase_reader")
