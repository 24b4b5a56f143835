"""Intakes of the shuffler as processes of their own, with devices that may send to them."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.loading.cost import cpu_s
from benchmarks.loading.generator import Load, request
from benchmarks.loading.setting import Fleet, Shuffler
from rase.clock import FakeClock, SystemClock
from rase.service.keyring import PublicKeys
from rase.storage.address import DatabaseAddress
from rase.storage.opening import open_database
from rase.wire import cbor
from rase.wire.frames import authorization_of, frame_of, handle_of
from rase.wire.keys import Role
from rase.wire.messages import REPORT_SIZES, REPORT_TYPE, Header
from rase.wire.private_files import write_private
from rase.wire.suites import X25519

__all__ = ["HOURS", "Rate", "Served", "prepared", "running", "serving"]

HOURS: Final = 120


@dataclass(frozen=True, slots=True)
class Rate:
    """Reports by the second on the wall, and by the second of the servers' processors."""

    a_second: float
    a_cpu_second: float

    def most(self, other: "Rate") -> "Rate":
        """Return the larger of each."""
        return Rate(max(self.a_second, other.a_second), max(self.a_cpu_second, other.a_cpu_second))


@dataclass(frozen=True, slots=True)
class Served:
    """Servers that run, and who may send to them."""

    pids: tuple[int, ...]
    ports: tuple[int, ...]
    status: int
    credentials: list[str]

    def requests(self, fleet: Fleet, round: int) -> list[bytes]:
        """Return a report of each device; intake opens none, so none is really sealed."""
        header = Header(fleet.openers[Role.SHUFFLER].id, fleet.hash[:8], round, 1).to_bytes()
        size = REPORT_SIZES[X25519] - len(header)
        sealed = [(header + os.urandom(size), one) for one in self.credentials]
        return [
            request(
                "/v1/reports",
                authorization_of(wire, credential),
                body=wire,
                media_type=REPORT_TYPE,
            )
            for wire, credential in sealed
        ]

    def gateway_requests(self, fleet: Fleet, round: int, *, size: int) -> list[bytes]:
        """Return a report of each device, so many in a request, as a gateway sends them."""
        header = Header(fleet.openers[Role.SHUFFLER].id, fleet.hash[:8], round, 1).to_bytes()
        length = REPORT_SIZES[X25519] - len(header)
        pairs = [
            [handle_of(one), frame_of(header + os.urandom(length), one)] for one in self.credentials
        ]
        return [
            request("/v1/reports", "", body=cbor.encode(some), media_type="application/cbor")
            for some in (pairs[start : start + size] for start in range(0, len(pairs), size))
        ]

    def taken(
        self, load: Load, requests: list[bytes], *, connections: int, reports: int = 1
    ) -> Rate:
        """Send requests of so many reports and return how fast reports were answered well."""
        busy = sum(map(cpu_s, self.pids))
        sent = load.send(self.ports, requests, connections=connections)
        busy = sum(map(cpu_s, self.pids)) - busy
        expected = self.status if reports == 1 else 200
        if sent.statuses != {expected: len(requests)}:
            raise RuntimeError(f"the server answered {dict(sent.statuses)}.")
        count = reports * len(requests)
        return Rate(count / sent.wall_s, count / busy)


def prepared(folder: Path, fleet: Fleet, *, devices: int, address: DatabaseAddress) -> list[str]:
    """Write the settings of a shuffler into a folder, enrol devices and return their credentials.

    Args:
        folder: An empty folder.
        fleet: Keys and campaign.
        devices: How many.
        address: Where its state is.
    """
    now_s = SystemClock().now_s()
    with closing(open_database(address, migrations="shuffler")) as database:
        # Agreed long ago, so that there are rounds to report for.
        shuffler = Shuffler(database, FakeClock(now_s - HOURS * 3600), fleet)
        credentials = shuffler.enrol(devices)
    write_private(folder / "signing.key", fleet.signers[Role.SHUFFLER].to_text())
    write_private(folder / "opening.key", fleet.openers[Role.SHUFFLER].to_text())
    public = PublicKeys(
        role=Role.SHUFFLER,
        signing_key=fleet.pinned.shuffler,
        cache_s=fleet.keyset.cache_s,
        configs=tuple(one for one in fleet.keyset.configs if one.role is Role.SHUFFLER),
    )
    (folder / "public.json").write_text(public.to_text(), encoding="ascii")
    write_private(folder / "address", str(getattr(address, "url", address)))
    (folder / "rase.toml").write_text(
        '[shuffler]\ndatabase_file = "address"\nsigning_key_file = "signing.key"\n'
        'opening_key_files = ["opening.key"]\nfusion_url = "http://127.0.0.1:1"\nport = 0\n'
        f'fusion_key = "{fleet.pinned.fusion.hex()}"\n'
        f'registrar_key = "{fleet.pinned.registrar.hex()}"\n'
        "[shuffler.policy]\nmax_epsilon = 30\nmax_window_budget = 1000\nmin_k_min = 2\n"
    )
    return credentials


@contextmanager
def serving(
    folder: Path, credentials: list[str], *, count: int = 1, max_group: int = 1000
) -> Iterator[Served]:
    """Run so many intakes with the settings of a folder."""
    command = ["-m", "rase", "shuffler", "run", "--part", "intake"]
    command += ["--config", str(folder / "rase.toml")]
    variables = {"RASE_SHUFFLER__LIMITS__MAX_GROUP": str(max_group)}
    with running([command] * count, variables) as (pids, ports):
        yield Served(pids, ports, 201, credentials)


@contextmanager
def running(
    commands: Sequence[list[str]], variables: dict[str, str] | None = None
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Run Python programs that tell their port; yield their process ids and ports."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | (variables or {})
    processes = [
        subprocess.Popen(
            [sys.executable, *arguments], stderr=subprocess.PIPE, text=True, env=environment
        )
        for arguments in commands
    ]
    try:
        told = [one.stderr.readline() if one.stderr else "" for one in processes]
        ports = tuple(int(line.rpartition("port=")[2]) for line in told)
        yield tuple(one.pid for one in processes), ports
    finally:
        for one in processes:
            one.kill()
            one.wait()
            if one.stderr:
                one.stderr.close()
