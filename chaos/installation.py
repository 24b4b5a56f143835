"""A real installation to harm: what ``rase init`` makes, run by processes behind toxic proxies."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, Final

import psycopg
from benchmarks.loading.ports import held_port
from psycopg import sql

from chaos.programs import Program, rase, until
from chaos.proxy import ToxicProxy
from chaos.wallets import Wallets, enrolled
from rase.campaign import Campaign
from rase.clock import SystemClock
from rase.device.folder import DeviceFolder
from rase.service.doctor import fetch
from rase.service.heartbeat import ALIVE_S
from rase.service.key_settings import read_secret_key, read_signing_key
from rase.storage.address import PostgresAddress
from rase.storage.interface import Database
from rase.storage.postgres import PostgresDatabase
from rase.storage.sqlite import SqliteDatabase
from rase.wire.keys import Keyset, Role
from rase.wire.signed import PinnedKeys, SignedCampaign, SignedKeyset, public_key_of

if TYPE_CHECKING:
    from tests.broker import Mosquitto

__all__ = ["K_MIN", "LEASE_S", "REGISTRAR", "SERVERS", "Agent", "Installation", "server_rows"]

K_MIN: Final = 3
REGISTRAR: Final = "registrar"
# Those that have a folder, a database and a port.
SERVERS: Final = (Role.SHUFFLER, Role.FUSION, REGISTRAR)
LEASE_S: Final = 2
_CACHE_S: Final = 5
# Four programs are started until a new key is published, each in seconds on a busy machine.
_PUBLISH_S: Final = 30
_MOUNT: Final = shutil.which("mount") or "/bin/mount"
# Noisy reports stay with the fusion centre for the whole run, so that estimates can be checked.
_KEEP_S: Final = 7 * 86400
# No fault lasts as long: a round with envelopes for two keys waits for its second batch.
_SETTLE_S: Final = 30
_SOURCE: Final = 'kind = "csv"\npath = "power.csv"\ncolumn = "power_w"\nevery_s = 0.2'


class Agent:
    """A device: its folder, and ``rase device run`` in it.

    Args:
        folder: Enrolled, with a source.
        log: Where it tells what happens.
        variables: Of its environment.
    """

    def __init__(self, folder: Path, *, log: Path, variables: Mapping[str, str]) -> None:
        self._folder = DeviceFolder(folder)
        arguments = ["device", "run", "--folder", str(folder)]
        self.program = Program(folder.name, arguments, log=log, variables=variables)

    def sent(self) -> set[int]:
        """Return the rounds whose reports or covers were acknowledged, by its own log."""
        told = self.program.log.read_text(encoding="utf-8", errors="replace")
        return {int(round) for round in re.findall(r"event=sent round=(\d+)", told)}

    def paid(self) -> list[int]:
        """Return the rounds that it paid for, by its ledger."""
        with closing(self._folder.ledger(self._folder.settings({}))) as ledger:
            return [entry.round for entry in ledger.history(1_000_000)]


class Installation:
    """All servers, their proxies, and devices.

    Args:
        folder: An empty folder.
        agents: How many devices with a folder of their own.
        postgres: Where the state of both servers is, if not in files.
        disk_mb: Size of a disk in memory for each server and the first device; None for none.
        broker: Through which every second device reports, if given.
        variables: The environment of each process, by its name.
    """

    def __init__(
        self,
        folder: Path,
        *,
        agents: int,
        postgres: PostgresAddress | None = None,
        disk_mb: int | None = None,
        broker: "Mosquitto | None" = None,
        variables: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.folder = folder
        self._postgres = postgres
        self._variables = variables or {}
        self._ports: dict[str, int] = {name: held_port() for name in SERVERS}
        self.proxies = {name: ToxicProxy(port) for name, port in self._ports.items()}
        self.disks: dict[str, Path] = {}
        self.agents: list[Agent] = []
        self.programs: dict[str, Program] = {}
        root = folder / "installed"
        options = ["--range", 0, 3000, "--epsilon", 2, "--round", "2s", "--upload", "1s"]
        options += ["--grace", "4s", "--k-min", K_MIN, "--window", 100, "--cache", f"{_CACHE_S}s"]
        # Rounds of seconds: owners must allow them, and the operator accept them.
        options += ["--schedule", "every-round", "--owner-day", 100_000, "--accept-weak"]
        # Reports with known places: below its bound this law draws every place of the grid.
        options += ["--mechanism", "budget-aware"]
        options += ["--shuffler-url", self.proxies[Role.SHUFFLER].url]
        options += ["--fusion-url", self.proxies[Role.FUSION].url]
        options += ["--registrar-url", self.proxies[REGISTRAR].url]
        rase("init", root, *options)
        self.folders: dict[str, Path] = {name: root / name for name in SERVERS}
        self._configure(broker)
        if disk_mb is not None:
            for role, path in self.folders.items():
                self._mount(role, path, disk_mb)
        try:
            self._serve()
            self._publish()
            self._enrol(agents, broker, disk_mb)
        except BaseException:
            self.close()
            raise

    def url(self, role: str) -> str:
        """Return where a server listens itself, behind its proxy."""
        return f"http://127.0.0.1:{self._ports[role]}"

    def config(self, role: str) -> Path:
        """Return a server's settings."""
        return self.folders[role] / "rase.toml"

    def all_programs(self) -> dict[str, Program]:
        """Return servers and devices by name."""
        return {**self.programs, **{agent.program.name: agent.program for agent in self.agents}}

    def is_well(self) -> bool:
        """Return whether all processes work and the servers are ready."""
        if not all(program.is_working for program in self.all_programs().values()):
            return False
        try:
            return all(fetch(self.url(role), "/readyz").status == 200 for role in self._ports)
        except OSError:
            return False

    def rows(self, role: str, query: str) -> list[tuple[Any, ...]]:
        """Return what is in a server's database."""
        return server_rows(self.database(role), self._postgres, role=role, query=query)

    @contextmanager
    def locked(self, role: str) -> Iterator[None]:
        """Keep all tables of a server's PostgreSQL schema from everybody else for a while."""
        if self._postgres is None:
            raise ValueError("the store must be PostgreSQL.")
        with psycopg.connect(self._postgres.url) as connection:
            is_held = False
            while not is_held:
                is_held = _lock_all(connection, f"rase_{role}")
            yield
            connection.rollback()

    def database(self, role: str) -> Path:
        """Return the file of a server's state."""
        return self.folders[role] / f"{role}.db"

    def agreed(self) -> tuple[Campaign, Keyset]:
        """Return campaign and keyset as devices get them now.

        Raises:
            OSError: If the shuffler does not answer.
        """
        pinned = self.pinned()
        answers = [fetch(self.url(Role.SHUFFLER), path) for path in _DOCUMENTS]
        if any(answer.status != 200 for answer in answers):
            raise ConnectionError("the shuffler is not ready.")
        campaign, keyset = (answer.body for answer in answers)
        return (
            SignedCampaign.from_bytes(campaign, pinned).campaign,
            SignedKeyset.from_bytes(keyset, pinned).keyset,
        )

    def pinned(self) -> PinnedKeys:
        """Return the public signing keys."""
        fusion, shuffler = (
            read_signing_key(self.folders[role] / "keys/signing.key", role=role).public_bytes()
            for role in (Role.FUSION, Role.SHUFFLER)
        )
        registrar = read_secret_key(self.folders[REGISTRAR] / "keys/signing.key", "the registrar's")
        return PinnedKeys(fusion, shuffler, public_key_of(registrar))

    def rotate(self, role: Role) -> None:
        """Renew a server's opening key as its guide says, while everything runs.

        A process that was killed counts as running for a while, and would not have the new key.
        """
        part = "closer" if role is Role.SHUFFLER else "fusion"
        until(
            lambda: self._counted(role, part) <= 1,
            what=f"that no {part} counts but the one that runs",
            deadline_s=ALIVE_S + 60,
        )
        rase("keys", "rotate", self.folders[role], "--publish-within", f"{_PUBLISH_S}s")
        program = self.programs[part]
        program.stop()
        program.start()
        until(lambda: program.is_working, what=f"the restart of {program.name}")
        if role is Role.SHUFFLER:
            public = self.folders[role] / "public.json"
            rase("keys", "adopt", self.folders[Role.FUSION], public, "--yes")
        self._publish_keys()

    def remount(self, name: str, how: str) -> None:
        """Let a disk be written ("rw") or not ("ro"); nobody may have a file open for writing."""
        command = [_MOUNT, "-o", f"remount,{how}", str(self.disks[name])]
        subprocess.run(command, check=True)

    def admissions(self, count: int) -> list[tuple[str, str]]:
        """Return the token of the shuffler's operator and the approval of the registrar's."""
        commands = {Role.SHUFFLER: ("shuffler", "enrol"), REGISTRAR: ("registrar", "approve")}
        tokens, approvals = (
            rase(*command, "--config", self.config(name), "--count", count).split()
            for name, command in commands.items()
        )
        return list(zip(tokens, approvals, strict=True))

    def enrolled(self, count: int) -> tuple[list[str], Wallets]:
        """Enrol made-up devices; return their credentials, and what holds their tokens."""
        secrets = [token_bytes(32) for _ in range(count)]
        credentials = [
            enrolled(
                secret,
                shuffler=self.url(Role.SHUFFLER),
                registrar=self.url(REGISTRAR),
                token=token,
                approval=approval,
            )
            for secret, (token, approval) in zip(secrets, self.admissions(count), strict=True)
        ]
        wallets = Wallets(
            secrets,
            registrar=self.proxies[REGISTRAR].url,
            campaign=self.agreed()[0].id,
            pinned=self.pinned(),
        )
        return credentials, wallets

    def subscriber(self) -> str:
        """Return the token of a new subscriber."""
        command = ("fusion", "subscribers", "add", "chaos", "--config", self.config(Role.FUSION))
        return rase(*command).strip()

    def close(self) -> None:
        """End everything, whatever it does."""
        for program in self.all_programs().values():
            program.kill()
        for proxy in self.proxies.values():
            proxy.close()
        for path in self.disks.values():
            subprocess.run([f"{Path(_MOUNT).parent}/umount", "--lazy", str(path)], check=False)

    def _configure(self, broker: "Mosquitto | None") -> None:
        """Choose settings under which a fault is over in seconds."""
        more = {
            Role.SHUFFLER: f"lease_s = {LEASE_S}\n",
            Role.FUSION: f"keep_values_s = {_KEEP_S}\nsettle_s = {_SETTLE_S}\nworkers = 0\n",
            # Whoever enrols once the campaign is published still reaches the first window.
            REGISTRAR: "lead_s = 6\n",
        }
        for role, lines in more.items():
            path, section = self.config(role), f"[{role}]"
            text = path.read_text().replace(section, f"{section}\n{lines}", 1)
            if role is Role.FUSION:
                text += "\n[fusion.limits]\nquestions_per_minute = 100000\n"
            if role is Role.SHUFFLER:
                text += "\n[shuffler.limits]\nreports_per_minute = 100000\n"
                if broker is not None:
                    text += f'\n[shuffler.mqtt]\nurl = "{broker.broker().url}"\n'
            if self._postgres is not None:
                text = text.replace(f'"{role}.db"', f'"{self._postgres.url}"')
            path.write_text(text)

    def _mount(self, name: str, path: Path, disk_mb: int) -> None:
        """Put what is in a folder on a disk in memory, with the folder's name."""
        aside = path.with_name(f"{path.name}-before")
        path.rename(aside)
        path.mkdir()
        options = ["-t", "tmpfs", "-o", f"size={disk_mb}m", "tmpfs", str(path)]
        subprocess.run([_MOUNT, *options], check=True)
        self.disks[name] = path
        shutil.copytree(aside, path, dirs_exist_ok=True)

    def _serve(self) -> None:
        shuffler, fusion, registrar = (str(self.config(name)) for name in SERVERS)
        commands = {
            "intake": ["shuffler", "run", "--part", "intake", "--config", shuffler],
            "closer": ["shuffler", "run", "--part", "closer", "--config", shuffler],
            "fusion": ["fusion", "run", "--config", fusion],
            "registrar": ["registrar", "run", "--config", registrar],
        }
        for name, arguments in commands.items():
            role = name if name in SERVERS else Role.SHUFFLER
            variables = {
                f"RASE_{role.upper()}__PORT": str(self._ports[role]),
                **self._variables.get(name, {}),
            }
            log = self.folder / f"{name}.log"
            self.programs[name] = Program(name, arguments, log=log, variables=variables)

    def _publish(self) -> None:
        def is_up() -> bool:
            try:
                return all(fetch(self.url(role), "/healthz").status == 200 for role in self._ports)
            except OSError:
                return False

        until(is_up, what="the start of the servers")
        # The shuffler countersigns no keyset before its closer has told which keys it has.
        told = "SELECT id FROM opening_key"
        until(lambda: bool(self.rows(Role.SHUFFLER, told)), what="the closer's start")
        self._publish_keys()
        folder = self.folders[Role.FUSION]
        rase("campaign", "publish", folder / "campaign.toml", "--config", folder / "rase.toml")

    def _counted(self, role: Role, part: str) -> int:
        """Return how many processes of a part a server takes for running."""
        since_s = int(SystemClock().now_s()) - ALIVE_S
        seen = self.rows(role, "SELECT part, seen_s FROM heartbeat")
        return sum(name == part and seen_s > since_s for name, seen_s in seen)

    def _publish_keys(self) -> None:
        folder = self.folders[Role.FUSION]
        keys = folder / "keyset.json"
        rase("fusion", "publish-keys", keys, "--config", folder / "rase.toml")

    def _enrol(self, count: int, broker: "Mosquitto | None", disk_mb: int | None) -> None:
        for number, given in enumerate(self.admissions(count) if count else []):
            folder = self.folder / f"device-{number}"
            shutil.copytree(self.folder / "installed/device", folder)
            (folder / "power.csv").write_text("power_w\n" + f"{1000 + number}\n" * 100_000)
            settings = folder / "device.toml"
            text = settings.read_text().replace('kind = "stdin"', _SOURCE)
            settings.write_text(text)
            files: list[object] = []
            for name, word in zip(("token", "approval"), given, strict=True):
                (self.folder / name).write_text(word)
                files += [f"--{name}-file", self.folder / name]
            rase("device", "enrol", "--folder", folder, *files)
            if broker is not None and number % 2:
                # From now on there is no way to the shuffler but the broker.
                text = text.replace(self.proxies[Role.SHUFFLER].url, "http://127.0.0.1:1")
                url = broker.broker().url
                settings.write_text(text.replace("[device]", f'[device]\nbroker = "{url}"', 1))
            if disk_mb is not None and number == 0:
                self._mount(folder.name, folder, disk_mb)
            log = self.folder / f"{folder.name}.log"
            variables = self._variables.get(folder.name, {})
            self.agents.append(Agent(folder, log=log, variables=variables))


def server_rows(
    file: Path, postgres: PostgresAddress | None, *, role: str, query: str
) -> list[tuple[Any, ...]]:
    """Return what is in a server's database: its file, or its schema of PostgreSQL if given."""
    database: Database
    if postgres is None:
        database = SqliteDatabase(file)
    else:
        database = PostgresDatabase(postgres, schema=f"rase_{role}")
    with closing(database), database.snapshot() as transaction:
        return transaction.execute(query)


_DOCUMENTS: Final = ("/v1/campaigns/fleet", "/v1/keyset")


def _lock_all(connection: "psycopg.Connection[tuple[str, ...]]", schema: str) -> bool:
    """Lock the tables of a schema; return False if somebody locked them the other way round."""
    tables = connection.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)
    ).fetchall()
    try:
        for (table,) in tables:
            name = sql.Identifier(schema, table)
            connection.execute(sql.SQL("LOCK TABLE {} IN EXCLUSIVE MODE").format(name))
    except psycopg.errors.DeadlockDetected:
        connection.rollback()
        return False
    return True
