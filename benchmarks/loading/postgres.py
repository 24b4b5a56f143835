"""A PostgreSQL server of one's own in a temporary folder, from the packages of the system.

PostgreSQL refuses root; where this runs as root, the server runs as the user ``postgres``.
"""

import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import psycopg

from benchmarks.loading.ports import held_port
from rase.storage.address import PostgresAddress

__all__ = ["PostgresMissing", "PostgresServer", "postgres_folder", "running_postgres"]

_USER: Final = "rase"
_WAIT_S: Final = 60


class PostgresMissing(Exception):
    """No PostgreSQL server is installed here."""


def postgres_folder() -> Path:
    """Return where the newest server's programs are.

    Raises:
        PostgresMissing: If there is none.
    """
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    on_path = shutil.which("initdb")
    found += [Path(on_path).resolve().parent] if on_path else []
    if not found:
        raise PostgresMissing("no PostgreSQL server is installed (Debian: postgresql)")
    return max(found, key=lambda path: [int(part) for part in path.parts if part.isdigit()])


class PostgresServer:
    """A server that can be stopped, killed and started again.

    Args:
        folder: An empty folder of its own.
        is_durable: Whether it waits for the disk; without, it is faster and survives no power cut.
    """

    def __init__(self, folder: Path, *, is_durable: bool = False) -> None:
        self._programs = postgres_folder()
        self._folder = folder
        self._data = folder / "data"
        self._port = held_port()
        if os.getuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        # `--auth=scram-sha-256` with a password: tests see a wrong one refused.
        self._password = secrets.token_hex(8)
        (folder / "password").write_text(self._password)
        (folder / "password").chmod(0o644)
        self._run(
            "initdb",
            *("--username", _USER, "--pwfile", str(folder / "password"), "--auth", "scram-sha-256"),
            *("--no-sync", "--no-locale", "--encoding", "UTF8"),
        )
        with (self._data / "postgresql.conf").open("a") as settings:
            settings.write(
                f"listen_addresses = '127.0.0.1'\nport = {self._port}\n"
                f"unix_socket_directories = '{folder}'\nshared_buffers = 32MB\n"
                "max_connections = 200\n"
            )
            if not is_durable:
                settings.write("fsync = off\nfull_page_writes = off\n")
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        log = str(self._folder / "log")
        self._run("pg_ctl", "--wait", "--timeout", str(_WAIT_S), "--log", log, "start")

    def stop(self, mode: str = "fast") -> None:
        """End it: "fast" ends connections, "immediate" is as good as a crash."""
        self._run("pg_ctl", "--wait", "--timeout", str(_WAIT_S), "--mode", mode, "stop")

    def kill_backends(self) -> None:
        """Kill one of its processes, at which it ends all others and recovers by itself."""
        with psycopg.connect(self.address().url, autocommit=True) as connection:
            rows = connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' "
                "AND pid <> pg_backend_pid() LIMIT 1"
            ).fetchall()
        for (pid,) in rows:
            os.kill(pid, signal.SIGKILL)

    def address(
        self, database: str = "postgres", *, password: str | None = None
    ) -> PostgresAddress:
        """Return the address of one of its databases."""
        secret = self._password if password is None else password
        return PostgresAddress(f"postgresql://{_USER}:{secret}@127.0.0.1:{self._port}/{database}")

    def new_database(self, like: PostgresAddress | None = None) -> PostgresAddress:
        """Make a database and return its address.

        Args:
            like: Which of its databases to copy, while nobody uses that one; None for an empty one.
        """
        name = f"d{secrets.token_hex(6)}"
        template = like.url.rsplit("/", 1)[1] if like else "template1"
        # Copied as files, for half of the processor time; servers before 15 know no other way.
        how = "" if self._programs.parent.name == "14" else " STRATEGY FILE_COPY"
        with psycopg.connect(self.address().url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}{how}".encode())
        return self.address(name)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), "--pgdata", str(self._data), *arguments]
        if os.getuid() == 0:
            who = ["--reuid=postgres", "--regid=postgres", "--init-groups"]
            command = ["setpriv", *who, "--", *command]
        done = subprocess.run(
            command, cwd=self._folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stdout}{done.stderr}")


@contextmanager
def running_postgres(*, is_durable: bool = False) -> Iterator[PostgresServer]:
    """Run a server in a folder in memory, or on the disk if it has to be durable.

    Raises:
        PostgresMissing: If there is none to run.
    """
    postgres_folder()
    shared = Path("/dev/shm")  # noqa: S108 - throw-away folders of random names
    quick = str(shared) if shared.is_dir() and not is_durable else None
    with TemporaryDirectory(dir=quick) as name:
        Path(name).chmod(0o755)
        server = PostgresServer(Path(name), is_durable=is_durable)
        try:
            yield server
        finally:
            server.stop("immediate")
