"""The database that dies: deaths at every point, and nothing half done."""

from pathlib import Path

import pytest
from tests.storage.faults import FaultyDatabase, SimulatedDeath

from rase.storage.sqlite import open_sqlite


def test_death_comes_at_every_point_and_leaves_all_or_nothing(tmp_path: Path) -> None:
    """Of a transaction of two writes, either both stay or none; only death after commit keeps."""
    database = open_sqlite(tmp_path / "a.db", migrations="shuffler")
    with database.transaction() as transaction:
        transaction.execute("CREATE TABLE thing (id BIGINT)")

    def work(faulty: FaultyDatabase) -> None:
        with faulty.transaction() as transaction:
            transaction.execute("INSERT INTO thing VALUES (1)")
            assert transaction.execute("SELECT count(*) FROM thing") == [(1,)]
            assert transaction.execute_many("INSERT INTO thing VALUES (?)", [(2,), (3,)]) == 2
        assert faulty.scrub()

    def count() -> int:
        with database.transaction() as transaction:
            ((found,),) = transaction.execute("SELECT count(*) FROM thing")
            transaction.execute("DELETE FROM thing")
        return int(found)

    whole = FaultyDatabase(database)
    work(whole)
    assert whole.points == 8
    assert count() == 3
    for point in range(whole.points):
        faulty = FaultyDatabase(database, point)
        with pytest.raises(SimulatedDeath):
            work(faulty)
        for again in (faulty.transaction, faulty.snapshot):
            with pytest.raises(SimulatedDeath), again():
                pass
        assert count() == (3 if point >= 5 else 0)
    with FaultyDatabase(database).snapshot() as reader:
        assert reader.execute("SELECT 1") == [(1,)]
    faulty.close()
    database.close()
