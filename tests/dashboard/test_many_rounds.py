"""A hundred thousand rounds: pages that are open all day cost what they do with a thousand."""

import gzip
import sqlite3
from pathlib import Path

import pytest
from tests.browser import serving
from tests.dashboard.conftest import Desk
from tests.fusion.conftest import opened_centre

from rase.storage.sqlite import SqliteDatabase

_STEP = 100


def cost(path: Path, rounds: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[int, int]]:
    """Return for each page its bytes on the wire and the steps of the database's machine."""
    centre, _ = serving.make(path)
    serving.add_rounds(centre.database, rounds)
    centre.database.close()
    counted = [0]

    def count() -> int:
        counted[0] += 1
        return 0

    connect = SqliteDatabase._connect

    def watched(self: SqliteDatabase, *, may_write: bool) -> sqlite3.Connection:
        connection = connect(self, may_write=may_write)
        connection.set_progress_handler(count, _STEP)
        return connection

    found = {}
    now_s = serving.CAMPAIGN.closes_s(serving.CAMPAIGN.not_before + rounds - 1) + 30
    with monkeypatch.context() as patched:
        patched.setattr(SqliteDatabase, "_connect", watched)
        with opened_centre(path, now_s) as opened:
            desk = Desk(opened)
            desk.log_in(desk.reader)
            for page in ("/live?range=7d", "/overview", "/parts?range=7d"):
                counted[0] = 0
                answer = desk.get(page)
                assert answer.status_code == 200
                found[page] = (len(gzip.compress(answer.content)), counted[0])
    return found


def test_pages_do_not_grow_with_all_rounds(
    quick_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes and steps of the database within a fifth of those with a hundredth of the rounds."""
    few = cost(quick_folder / "few.sqlite", 1_000, monkeypatch)
    many = cost(quick_folder / "many.sqlite", 100_000, monkeypatch)
    for page, (size, steps) in few.items():
        assert many[page][0] <= 1.2 * size, page
        # A deeper tree takes a step more at each level.
        assert many[page][1] <= 1.2 * steps + 20, (page, steps, many[page][1])
