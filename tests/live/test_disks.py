"""A disk that is full and a database that is damaged, under the real programs.

A limit on the size of the files of a running process stands for the full disk: the system refuses
to write beyond it, at any moment, and needs no rights to be set.
"""

import resource
import shutil
import subprocess
from contextlib import closing
from functools import partial
from pathlib import Path

import httpx
import pytest
from tests.live.counted import check_estimates, is_settled
from tests.live.installed import Fleet, Installed, Server
from tests.live.running import environment
from tests.patience import PATIENCE_S, until

from rase.storage.sqlite import SqliteDatabase
from rase.wire.keys import Role

_PAGE = 4096


def fill_disk(server: Server) -> None:
    """Let no file of a process grow any more."""
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (_PAGE, resource.RLIM_INFINITY))


def free_disk(server: Server) -> None:
    """Let files grow again."""
    free = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, free)


def test_a_full_disk_loses_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """While the disk is full both servers answer ``unavailable`` and live; then all goes on."""
    installed = Installed(tmp_path, capsys, grace_s=4)
    intake, fusion = installed.servers["intake"], installed.servers["fusion"]
    try:
        installed.publish()
        fleet = Fleet(installed, 4)
        try:
            until(lambda: len(fleet.acknowledged()) >= 4, logs=tmp_path)
            for server in (intake, fusion):
                fill_disk(server)
            logs = [tmp_path / "intake.log", tmp_path / "fusion.log"]
            until(lambda: all("storage_failed" in log.read_text() for log in logs), logs=tmp_path)
            assert (
                httpx.get(f"{installed.shuffler_url}/healthz", timeout=PATIENCE_S).status_code
                == 200
            )
            # A balancer sends reports and batches elsewhere meanwhile.
            urls = (installed.shuffler_url, installed.fusion_url)
            until(
                lambda: (
                    {httpx.get(f"{url}/readyz", timeout=PATIENCE_S).status_code for url in urls}
                    == {503}
                ),
                logs=tmp_path,
            )
            known = {id(report) for report in fleet.acknowledged()}
            for server in (intake, fusion):
                free_disk(server)
            until(
                lambda: any(id(report) not in known for report in fleet.acknowledged()),
                logs=tmp_path,
            )
        finally:
            fleet.stop()
        until(lambda: is_settled(installed, fleet), logs=tmp_path)
        assert installed.end() == [0, 0, 0, 0]
    finally:
        installed.kill()
    check_estimates(installed, fleet)


def _run(server: Server) -> tuple[int, str]:
    """Start a server's program that ends by itself; return its exit code and first sentence."""
    done = subprocess.run(
        server.command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stderr.count("\n") == 1, done.stderr
    return done.returncode, done.stderr.partition(". ")[0] + "."


def test_a_damaged_database_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No server starts on it: exit code 3, one line, and the file is left as it is."""
    installed = Installed(tmp_path, capsys)
    servers = installed.servers
    try:
        until(lambda: all(one.is_working for one in servers.values()), logs=tmp_path)
    finally:
        installed.kill()
    for part in ("intake", "closer", "fusion"):
        path = installed.database(Role.FUSION if part == "fusion" else Role.SHUFFLER)
        with closing(SqliteDatabase(path)) as database:
            assert database.scrub()
        shutil.copyfile(path, tmp_path / "copy")
        with path.open("r+b") as file:
            file.seek(_PAGE)
            file.write(b"\xa5" * (path.stat().st_size - _PAGE))
        damaged = path.read_bytes()
        assert _run(servers[part]) == (3, f"rase: error: the database {path} is damaged."), part
        assert path.read_bytes() == damaged
        shutil.copyfile(tmp_path / "copy", path)
        again = installed.served(part)
        try:
            until(partial(_works, again), logs=tmp_path)
        finally:
            again.kill()


def _works(server: Server) -> bool:
    return server.is_working
