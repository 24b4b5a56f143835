"""Databases that servers of an earlier release left are read by this one, with nothing lost.

`releases/<version>/<role>.sql` is what the servers of that release wrote when three devices
reported to them for some rounds; see docs/reference/versions.md for what is promised.
"""

import sqlite3
from pathlib import Path

import pytest

from rase.shuffler.enrolment import enrolled_devices
from rase.storage.migrate import migrations_of, version_of
from rase.storage.sqlite import open_sqlite

RELEASES = sorted((Path(__file__).parent / "releases").iterdir())


def restored(release: Path, role: str, folder: Path) -> Path:
    """Return a file with the database that a release left."""
    path = folder / f"{role}.db"
    connection = sqlite3.connect(path)
    connection.executescript((release / f"{role}.sql").read_text("utf-8"))
    connection.close()
    return path


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_estimates_of_an_earlier_release_stay(release: Path, tmp_path: Path) -> None:
    """Every estimate has the value, error and count that it had, under the names of today."""
    path = restored(release, "fusion", tmp_path)
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT round, method, mean, standard_error, n FROM estimates")
    old = {(round, method.replace("auto", "tracked")): rest for round, method, *rest in rows}
    connection.close()
    assert len(old) > 20
    database = open_sqlite(path, migrations="fusion")
    assert version_of(database, "fusion") == migrations_of("fusion")[-1].number
    with database.transaction() as transaction:
        found = transaction.execute("SELECT round, method, value, standard_error, n FROM answers")
        new = {(round, method): rest for round, method, *rest in found}
    assert new == old
    database.close()


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_devices_of_an_earlier_release_stay_enrolled(release: Path, tmp_path: Path) -> None:
    """The shuffler knows its devices by the credentials that they hold."""
    path = restored(release, "shuffler", tmp_path)
    connection = sqlite3.connect(path)
    (count,) = connection.execute("SELECT count(*) FROM device").fetchone()
    connection.close()
    database = open_sqlite(path, migrations="shuffler")
    assert len(enrolled_devices(database)) == count > 0
    database.close()
