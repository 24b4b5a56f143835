"""A registrar among real processes: two approvals, reports by tokens, deaths and a restore."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest
from tests.live.agents import enrolled_agents
from tests.live.installed import Installed
from tests.live.running import answers
from tests.patience import until

from rase.storage.sqlite import SqliteDatabase
from rase.wire.keys import Role

pytestmark = pytest.mark.slow


class Registered(Installed):
    """An installation whose registrar is looked into."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(folder, capsys, options=["--cache", "2s"])
        self.log = folder / "registrar.log"
        self.registrar = self.servers["registrar"]

    def wait_for_more(self) -> None:
        """Wait until two more rounds have an estimate."""
        seen = len(self.final())
        until(lambda: len(self.final()) > seen + 1, logs=self.folder)

    def windows(self) -> int:
        """Return how many token windows have a key that the shuffler signed."""
        path = self.registrar_config.parent / "registrar.db"
        with closing(SqliteDatabase(path)) as database, database.snapshot() as transaction:
            sql = "SELECT count(*) FROM token_key WHERE signed IS NOT NULL"
            ((count,),) = transaction.execute(sql)
        return int(count)

    def final(self) -> list[tuple[int, int]]:
        """Return round and number of reports of each round with an estimate."""
        rows = self.rows(
            Role.FUSION, "SELECT DISTINCT round, n FROM answers WHERE method = 'tracked'"
        )
        return sorted((int(round), int(n)) for round, n in rows)


def test_reports_count_by_tokens_whatever_dies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kills of the registrar cost no window that is fetched; no token counts twice."""
    made = Registered(tmp_path, capsys)
    try:
        made.publish()
        until(lambda: answers(made.registrar_url), logs=tmp_path)
        until(lambda: made.windows() >= 3, logs=tmp_path)
        agents = enrolled_agents(made, count=4)
        until(lambda: len(made.final()) >= 2, logs=tmp_path)
        for _ in range(5):
            made.registrar.kill()
            made.registrar.start()
            until(lambda: made.registrar.is_working, logs=tmp_path)
            made.wait_for_more()
        assert all(n <= 4 for _, n in made.final())
        ((spent,),) = made.rows(Role.FUSION, "SELECT count(*) FROM spent")
        assert spent >= sum(n for _, n in made.final())
        refused = made.rows(Role.FUSION, "SELECT sum(refused) FROM batches")
        assert refused == [(0,)]
        for agent in agents:
            agent.stop()
    finally:
        made.kill()


def test_an_older_backup_of_the_registrar_costs_windows_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Windows signed since then are lost; devices report again from the first one after them."""
    made = Registered(tmp_path, capsys)
    try:
        made.publish()
        until(lambda: made.windows() >= 3, logs=tmp_path)
        agents = enrolled_agents(made, count=4)
        made.wait_for_more()
        file, copy = made.registrar_config.parent / "registrar.db", tmp_path / "backup.db"
        made.registrar.stop()
        shutil.copy(file, copy)
        made.registrar.start()
        windows = made.windows()
        until(lambda: made.windows() > windows, logs=tmp_path)
        made.registrar.stop()
        for name in ("registrar.db", "registrar.db-wal", "registrar.db-shm"):
            (file.parent / name).unlink(missing_ok=True)
        shutil.copy(copy, file)
        made.registrar.start()
        until(lambda: b"token_key_refused" in made.log.read_bytes(), logs=tmp_path)
        # Past what devices had fetched: these came from windows made after the restore.
        restored = len(made.final())
        until(lambda: len(made.final()) > restored + 12, logs=tmp_path)
        assert made.rows(Role.FUSION, "SELECT sum(refused) FROM batches") == [(0,)]
        for agent in agents:
            agent.stop()
    finally:
        made.kill()
