"""How near is durable intake to a server that only echoes, and what is the group commit worth?

The shuffler's intake is a process of its own, as are the echo and the load; reports come over 128
sockets, one a request, and each is answered when it is on the disk (SQLite, write-ahead log,
synchronous FULL). Both servers are uvicorn with the same settings.
"""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.harness import Row, Target, versions
from benchmarks.loading.generator import Load
from benchmarks.loading.intakes import HOURS, Rate, Served, prepared, running, serving
from benchmarks.loading.setting import CAMPAIGN, Fleet
from rase.clock import SystemClock

CONNECTIONS: Final = 128
_REPEATS: Final = 3
_GATEWAY: Final = 500


def rows(*, quick: bool) -> Iterator[Row]:
    """Measure intake, its echo, and intake with a commit for each report."""
    count = 1000 if quick else 8000
    hour = int(SystemClock().now_s()) // 3600
    campaign = replace(CAMPAIGN, grace_s=2 * HOURS * 3600)
    fleet = Fleet(campaign)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        load = stack.enter_context(Load())
        servers = {
            "echo": stack.enter_context(_echo(count)),
        }
        for name, size in (("grouped", 1000), ("single", 1)):
            place = Path(folder) / name
            place.mkdir()
            credentials = prepared(place, fleet, devices=count, address=place / "shuffler.db")
            served = serving(place, credentials, max_group=size)
            servers[name] = stack.enter_context(served)
        best = {name: Rate(0, 0) for name in (*servers, "gateway")}
        for number in range(1 if quick else _REPEATS):
            round = hour - 2 - number
            for name, server in servers.items():
                # A commit for each report is slow; a quarter of the load tells as much.
                asked = server.requests(fleet, round)[: count // 4 if name == "single" else count]
                best[name] = best[name].most(server.taken(load, asked, connections=CONNECTIONS))
            # The same server, another round: as many reports, from gateways.
            server = servers["grouped"]
            batches = server.gateway_requests(fleet, round - _REPEATS, size=_GATEWAY)
            rate = server.taken(load, batches, connections=4, reports=_GATEWAY)
            best["gateway"] = best["gateway"].most(rate)
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
                packages=versions("uvicorn", "httptools", "uvloop", "h11", "starlette"),
                note=f"{_NOTES[kind]}. {_STACK}",
            )


_STACK = "Both servers use httptools and uvloop, which the extra service installs"
_NOTES = {
    "a CPU-second": "per second of the server's CPU time; the load's is not counted",
    "by the wall": "per second by the wall; the load shares the machine with the server",
}


def _ratios(
    best: dict[str, Rate],
) -> Iterator[tuple[str, str, dict[str, tuple[float, Target | None]]]]:
    grouped, echo, single = best["grouped"], best["echo"], best["single"]
    yield (
        "durable intake of single reports",
        "raw ASGI echo on uvicorn",
        {
            "a CPU-second": (grouped.a_cpu_second / echo.a_cpu_second, Target("at least", 0.4)),
            "by the wall": (grouped.a_second / echo.a_second, None),
        },
    )
    yield (
        "durable intake of reports from gateways, 500 a request",
        "raw ASGI echo on uvicorn, one a request",
        {
            "a CPU-second": (
                best["gateway"].a_cpu_second / echo.a_cpu_second,
                Target("at least", 1.0),
            ),
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


@contextmanager
def _echo(devices: int) -> Iterator[Served]:
    with running([["-m", "benchmarks.loading.echo"]]) as (pids, ports):
        yield Served(pids, ports, 200, ["0" * 60] * devices)
