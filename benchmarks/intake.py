"""How near is durable intake to a server that only echoes, and what is the group commit worth?

The shuffler's intake is a process of its own, as are the echo and the load; reports come over 128
sockets, one a request, and each is answered when it is on the disk (SQLite, write-ahead log,
synchronous FULL). Both servers are uvicorn with the same settings.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks.harness import Row, Target, versions
from benchmarks.loading.cost import cpu_s
from benchmarks.loading.generator import Load, request
from benchmarks.loading.setting import CAMPAIGN, Fleet, Shuffler
from rase.clock import FakeClock, SystemClock
from rase.shuffler.app import REPORT_TYPE
from rase.storage.sqlite import open_sqlite
from rase.wire.keys import Role, write_private
from rase.wire.messages import REPORT_SIZES, Header
from rase.wire.suites import X25519

CONNECTIONS: Final = 128
_HOURS: Final = 60
_REPEATS: Final = 3


def rows(*, quick: bool) -> Iterator[Row]:
    """Measure intake, its echo, and intake with a commit for each report."""
    count = 1000 if quick else 8000
    hour = int(SystemClock().now_s()) // 3600
    campaign = replace(CAMPAIGN, grace_s=2 * _HOURS * 3600)
    fleet = Fleet(campaign)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        load = stack.enter_context(Load())
        servers = {
            "echo": stack.enter_context(_echo(count)),
            "grouped": stack.enter_context(_intake(Path(folder) / "grouped", fleet, count, 1000)),
            "single": stack.enter_context(_intake(Path(folder) / "single", fleet, count, 1)),
        }
        best = {name: _Rate(0, 0) for name in servers}
        for number in range(1 if quick else _REPEATS):
            round = hour - 2 - number
            for name, server in servers.items():
                # A commit for each report is slow; a quarter of the load tells as much.
                asked = server.requests(fleet, round)[: count // 4 if name == "single" else count]
                best[name] = best[name].most(server.taken(load, asked))
    for what, against, figures in _ratios(best):
        for kind, (ratio, target) in figures.items():
            yield Row(
                what=what,
                against=against,
                size=f"{count:,} reports, {CONNECTIONS} connections, {kind}",
                ratio=ratio,
                means="our reports a second / its",
                target=target,
                repeats=1 if quick else _REPEATS,
                packages=versions("uvicorn", "h11", "starlette"),
                note=_NOTES[kind],
            )


_NOTES = {
    "a CPU-second": "per second of the server's CPU time; the load's is not counted",
    "by the wall": "per second by the wall; the load shares the machine with the server",
}


def _ratios(
    best: dict[str, "_Rate"],
) -> Iterator[tuple[str, str, dict[str, tuple[float, Target | None]]]]:
    grouped, echo, single = best["grouped"], best["echo"], best["single"]
    yield (
        "durable intake of single reports",
        "raw ASGI echo on uvicorn",
        {
            "a CPU-second": (grouped.a_cpu_second / echo.a_cpu_second, Target("at least", 0.5)),
            "by the wall": (grouped.a_second / echo.a_second, None),
        },
    )
    yield (
        "intake with group commit",
        "the same with a commit for each report",
        {
            "by the wall": (grouped.a_second / single.a_second, Target("at least", 5)),
            "a CPU-second": (grouped.a_cpu_second / single.a_cpu_second, None),
        },
    )


@dataclass(frozen=True, slots=True)
class _Rate:
    """Reports by the second on the wall, and by the second of the server's processor."""

    a_second: float
    a_cpu_second: float

    def most(self, other: "_Rate") -> "_Rate":
        return _Rate(max(self.a_second, other.a_second), max(self.a_cpu_second, other.a_cpu_second))


@dataclass(frozen=True, slots=True)
class _Server:
    """A server that runs, and who may send to it."""

    process: "subprocess.Popen[str]"
    port: int
    status: int
    credentials: list[str]

    def requests(self, fleet: Fleet, round: int) -> list[bytes]:
        """Return a report of each device; intake opens none, so none is really sealed."""
        header = Header(fleet.openers[Role.SHUFFLER].id, fleet.hash[:8], round).to_bytes()
        size = REPORT_SIZES[X25519] - len(header)
        return [
            request(
                "/v1/reports",
                credential,
                body=header + os.urandom(size),
                media_type=REPORT_TYPE,
            )
            for credential in self.credentials
        ]

    def taken(self, load: Load, requests: list[bytes]) -> _Rate:
        """Send requests and return how fast they were answered, all of them well."""
        busy = cpu_s(self.process.pid)
        sent = load.send(self.port, requests, connections=CONNECTIONS)
        busy = cpu_s(self.process.pid) - busy
        if sent.statuses != {self.status: len(requests)}:
            raise RuntimeError(f"the server answered {dict(sent.statuses)}.")
        return _Rate(len(requests) / sent.wall_s, len(requests) / busy)


@contextmanager
def _intake(folder: Path, fleet: Fleet, devices: int, max_group: int) -> Iterator[_Server]:
    folder.mkdir()
    now_s = SystemClock().now_s()
    with closing(open_sqlite(folder / "shuffler.db", migrations="shuffler")) as database:
        # Agreed long ago, so that there are rounds to report for.
        shuffler = Shuffler(database, FakeClock(now_s - _HOURS * 3600), fleet)
        credentials = shuffler.enrol(devices)
    write_private(folder / "signing.key", fleet.signers[Role.SHUFFLER].to_text())
    write_private(folder / "opening.key", fleet.openers[Role.SHUFFLER].to_text())
    (folder / "rase.toml").write_text(
        '[shuffler]\ndatabase = "shuffler.db"\nsigning_key_file = "signing.key"\n'
        'opening_key_files = ["opening.key"]\nfusion_url = "http://127.0.0.1:1"\nport = 0\n'
        f'fusion_key = "{fleet.pinned.fusion.hex()}"\n'
        f"[shuffler.limits]\nmax_group = {max_group}\n"
        "[shuffler.policy]\nmax_epsilon = 30\nmax_window_budget = 1000\nmin_k_min = 2\n"
    )
    config = str(folder / "rase.toml")
    command = ["-m", "rase", "shuffler", "run", "--part", "intake", "--config", config]
    with _running(command) as (process, port):
        yield _Server(process, port, 201, credentials)


@contextmanager
def _echo(devices: int) -> Iterator[_Server]:
    with _running(["-m", "benchmarks.loading.echo"]) as (process, port):
        yield _Server(process, port, 200, ["0" * 60] * devices)


@contextmanager
def _running(arguments: list[str]) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    with subprocess.Popen(
        [sys.executable, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    ) as process:
        try:
            told = process.stderr.readline() if process.stderr else ""
            yield process, int(told.rpartition("port=")[2])
        finally:
            process.kill()
