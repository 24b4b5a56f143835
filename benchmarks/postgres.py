"""What do several intakes on PostgreSQL take in, against one and against SQLite?

All servers are processes of their own and answer when a report is on the disk: PostgreSQL with
fsync and synchronous_commit on, SQLite with synchronous FULL, both in the same folder's disk. The
load is two processes, and shares the machine with everything else.
"""

import statistics
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.harness import PeerMissing, Row, versions
from benchmarks.loading.generator import Load
from benchmarks.loading.intakes import HOURS, Rate, Served, prepared, serving
from benchmarks.loading.postgres import PostgresMissing, postgres_folder, running_postgres
from benchmarks.loading.setting import CAMPAIGN, Fleet, cores
from rase.clock import SystemClock
from rase.storage.address import DatabaseAddress

_CONNECTIONS: Final = 128
_REPEATS: Final = 3
_LOADS: Final = 2
_PERCENTILE: Final = 99


def rows(*, quick: bool) -> Iterator[Row]:
    """Measure one SQLite intake, and one, two and four of PostgreSQL; then a steady load."""
    try:
        postgres_folder()
    except PostgresMissing as error:
        raise PeerMissing(str(error)) from None
    count, repeats = (1000, 1) if quick else (8000, _REPEATS)
    fleet = Fleet(replace(CAMPAIGN, grace_s=2 * HOURS * 3600))
    hour = int(SystemClock().now_s()) // 3600
    rounds = iter(range(hour - 2, hour - HOURS, -1))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(running_postgres(is_durable=True))
        loads = [stack.enter_context(Load()) for _ in range(_LOADS)]
        served: dict[str, Served] = {}
        places: dict[str, DatabaseAddress] = {
            "SQLite": folder / "sqlite/shuffler.db",
            "PostgreSQL": server.new_database(),
        }
        for name, address in places.items():
            place = folder / name.lower()
            place.mkdir()
            credentials = prepared(place, fleet, devices=count, address=address)
            for number in (1,) if name == "SQLite" else (1, 2, 4):
                running = serving(place, credentials, count=number)
                served[f"{number} on {name}"] = stack.enter_context(running)
        best = {name: Rate(0, 0) for name in served}
        for _ in range(repeats):
            for name, one in served.items():
                asked = one.requests(fleet, next(rounds))
                best[name] = best[name].most(_taken(one, loads, asked))
        yield from _throughput(best, count, repeats)
        yield _latency(served, loads[0], fleet, best, rounds)


def _taken(served: Served, loads: list[Load], requests: list[bytes]) -> Rate:
    """Let all loads send their part at once; both rates add up."""
    with ThreadPoolExecutor(len(loads)) as pool:
        parts = pool.map(
            lambda place: served.taken(
                loads[place],
                requests[place :: len(loads)],
                connections=_CONNECTIONS // len(loads),
            ),
            range(len(loads)),
        )
        rates = list(parts)
    # Each part is divided by the processor time for all parts, so both rates add up.
    return Rate(sum(rate.a_second for rate in rates), sum(rate.a_cpu_second for rate in rates))


def _throughput(best: dict[str, Rate], count: int, repeats: int) -> Iterator[Row]:
    for what, against in (
        ("1 on PostgreSQL", "1 on SQLite"),
        ("2 on PostgreSQL", "1 on PostgreSQL"),
        ("4 on PostgreSQL", "1 on PostgreSQL"),
        ("4 on PostgreSQL", "1 on SQLite"),
    ):
        one, other = best[what], best[against]
        for kind, ratio in (
            ("by the wall", one.a_second / other.a_second),
            ("a CPU-second of the intakes", one.a_cpu_second / other.a_cpu_second),
        ):
            yield Row(
                what=f"intake, {what}",
                against=f"intake, {against}",
                size=f"{count:,} reports, {_CONNECTIONS} connections, {kind}",
                ratio=ratio,
                means="its reports a second / the other's",
                repeats=repeats,
                packages=versions("psycopg", "uvicorn"),
                note=f"{one.a_second:.0f}/s against {other.a_second:.0f}/s by the wall, on "
                f"{cores()} cores that load, intakes and database share",
            )


def _latency(
    served: dict[str, Served],
    load: Load,
    fleet: Fleet,
    best: dict[str, Rate],
    rounds: Iterator[int],
) -> Row:
    """Send a third of what the slower one takes, steadily, and compare the slowest hundredth."""
    names = ("2 on PostgreSQL", "1 on SQLite")
    a_second = min(best[name].a_second for name in names) / 3
    found = []
    for name in names:
        requests = served[name].requests(fleet, next(rounds))
        took = load.steady(served[name].ports, requests, a_second=a_second)
        found.append(statistics.quantiles(took, n=100)[_PERCENTILE - 1])
    return Row(
        what="p99 of intake under a steady load, 2 on PostgreSQL",
        against="the same, 1 on SQLite",
        size=f"{len(requests):,} reports, {a_second:.0f} a second",
        ratio=found[0] / found[1],
        ours_s=found[0],
        theirs_s=found[1],
        packages=versions("psycopg", "uvicorn"),
        note=f"{found[0] * 1000:.1f} ms against {found[1] * 1000:.1f} ms from the moment a report "
        "is due",
    )
