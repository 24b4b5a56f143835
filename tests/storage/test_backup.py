"""Copies of a database: of one moment, complete, and never readable by others."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rase.errors import ConfigurationError, StorageUnusable
from rase.storage.backup import back_up
from rase.storage.sqlite import SqliteDatabase, open_sqlite


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    """The umask of most machines, under which new files can be read by everybody."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    """A fusion centre's database that is open, as while the server runs."""
    opened = open_sqlite(tmp_path / "fusion.db", migrations="fusion")
    with opened.transaction() as transaction:
        transaction.execute("CREATE TABLE extra (number INTEGER)")
        transaction.execute("INSERT INTO extra VALUES (7)")
    yield opened
    opened.close()


@pytest.mark.sqlite
def test_a_copy_is_complete_and_for_its_owner_only(
    database: SqliteDatabase, tmp_path: Path
) -> None:
    """What was committed is in it though the log was not moved into the file; its mode is 0600."""
    copied = tmp_path / "copy.db"
    with database.transaction() as transaction:
        transaction.execute("INSERT INTO extra VALUES (8)")
    with database.snapshot():
        back_up(tmp_path / "fusion.db", copied)
    assert copied.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.glob("copy*")] == ["copy.db"]
    with closing(open_sqlite(copied, migrations="fusion")) as again, again.snapshot() as reading:
        assert [tuple(row) for row in reading.execute("SELECT number FROM extra")] == [(7,), (8,)]


@pytest.mark.sqlite
def test_nothing_is_written_over(database: SqliteDatabase, tmp_path: Path) -> None:
    """An older copy, which others may be able to read, is left as it is."""
    older = tmp_path / "older.db"
    older.write_text("older")
    with pytest.raises(ConfigurationError, match=r"the copy must be a new file, got .*older\.db"):
        back_up(tmp_path / "fusion.db", older)
    assert older.read_text() == "older"
    with pytest.raises(ConfigurationError, match="Name a folder that exists"):
        back_up(tmp_path / "fusion.db", tmp_path / "gone" / "copy.db")


@pytest.mark.sqlite
def test_what_cannot_be_copied_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An absent or damaged database is named, and so is an interruption survived."""
    copied = tmp_path / "copy.db"
    with pytest.raises(StorageUnusable, match="must be a file that exists"):
        back_up(tmp_path / "fusion.db", copied)
    (tmp_path / "fusion.db").write_bytes(b"no database at all" * 400)
    with pytest.raises(StorageUnusable, match="cannot be copied"):
        back_up(tmp_path / "fusion.db", copied)
    assert not copied.exists()
    with closing(sqlite3.connect(tmp_path / "torn.db")) as torn, torn:
        torn.execute("CREATE TABLE t (a)")
        torn.executemany("INSERT INTO t VALUES (?)", [("x" * 500,)] * 200)
    content = bytearray((tmp_path / "torn.db").read_bytes())
    content[4096 * 3 : 4096 * 5] = b"\xff" * 8192
    (tmp_path / "torn.db").write_bytes(content)
    with pytest.raises(StorageUnusable, match=r"cannot be copied: .*(damaged|malformed)"):
        back_up(tmp_path / "torn.db", copied)
    assert not copied.exists()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rase.storage.backup._copy", interrupted)
    with pytest.raises(KeyboardInterrupt):
        back_up(tmp_path / "torn.db", copied)
    assert not copied.exists()


@pytest.mark.sqlite
def test_a_server_that_keeps_writing_does_not_hold_a_copy_up(
    database: SqliteDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a commit after each piece it ends all the same, with what was there when it began."""
    steps: list[int] = []

    class Watched(sqlite3.Connection):
        def backup(self, target: sqlite3.Connection, **_: Any) -> None:
            def write(*_: int) -> None:
                steps.append(len(steps))
                assert len(steps) < 1000, "the copy begins again with each commit"
                with database.transaction() as transaction:
                    transaction.execute("INSERT INTO extra VALUES (?)", (len(steps),))

            super().backup(target, pages=1, progress=write)

    connect = sqlite3.connect
    monkeypatch.setattr(
        "rase.storage.backup.sqlite3.connect", lambda *a, **k: connect(*a, **k, factory=Watched)
    )
    back_up(tmp_path / "fusion.db", tmp_path / "copy.db")
    monkeypatch.undo()
    assert len(steps) > 10
    with closing(sqlite3.connect(tmp_path / "copy.db")) as copied:
        assert copied.execute("SELECT number FROM extra").fetchall() == [(7,)]
