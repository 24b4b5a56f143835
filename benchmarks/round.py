"""How much more than its bare decryptions and verifications does a round take, to its estimate?

Real code with files on the disk: the shuffler's closer peels, orders, writes the outbox, erases
and forwards over a socket, in parts where they are long; the fusion centre opens, verifies tokens,
looks for copies, estimates and deletes. The limit is the same decryptions by `Suite.decrypt` and
verifications alone, in as many processes, their inputs at hand.
"""

import io
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from socket import create_server
from typing import Final

import httpx
import uvicorn

from benchmarks.harness import Row, Target, versions
from benchmarks.loading.bare import Bare
from benchmarks.loading.cost import Cost, cost_of
from benchmarks.loading.setting import FIRST, Fleet, Shuffler, centre_of, cores, pool, sealed
from rase.clock import FakeClock
from rase.fusion.app import fusion_app
from rase.fusion.centre import FusionCentre
from rase.fusion.opening import BatchOpener
from rase.service.telemetry import Telemetry
from rase.shuffler.forward import HttpSender
from rase.shuffler.opening import OuterOpenerPool
from rase.storage.sqlite import open_sqlite
from rase.wire.keys import Role

WARM: Final = FIRST
ROUND: Final = FIRST + 1
_WARM_REPORTS: Final = 2048
_PATIENCE_S: Final = 300.0


def rows(*, quick: bool) -> Iterator[Row]:
    """Measure a round of 100,000 reports."""
    count, repeats = (4096, 2) if quick else (100_000, 3)
    fleet = Fleet()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        with pool() as by:
            warm = sealed(fleet, _WARM_REPORTS, WARM, by=by)
            wires = sealed(fleet, count, ROUND, by=by)
        _prepare(folder / "prepared.db", fleet, warm=warm, wires=wires)
        bare = stack.enter_context(Bare(fleet, wires, roles=tuple(Role), verifies=True))
        best = limit = Cost(float("inf"), float("inf"))
        for _ in range(repeats):
            limit = limit.least(cost_of(bare.run))
            best = best.least(_round(folder, fleet, count))
        limit = limit.least(cost_of(bare.run))
    for kind, ours_s, bare_s, target in (
        ("wall time", best.wall_s, limit.wall_s, None),
        ("CPU time", best.cpu_s, limit.cpu_s, Target("at most", 1.5)),
    ):
        yield Row(
            what=f"closing and estimating a round, {kind}",
            against=f"its {2 * count:,} bare decryptions and {count:,} verifications",
            size=f"{count:,} reports, {cores()} cores",
            ratio=ours_s / bare_s,
            means="our time / its time",
            target=target,
            ours_s=ours_s,
            theirs_s=bare_s,
            repeats=repeats,
            packages=versions("cryptography"),
            note=f"{kind}; the worker processes of both servers have opened a round before",
        )


def _prepare(path: Path, fleet: Fleet, *, warm: list[bytes], wires: list[bytes]) -> None:
    """Fill a shuffler's database with a small round, to start the workers, and the large one."""
    clock = FakeClock(fleet.campaign.round_end_s(WARM) - 1)
    with closing(open_sqlite(path, migrations="shuffler")) as database:
        shuffler = Shuffler(database, clock, fleet)
        shuffler.admit(max(len(wires), len(warm)))
        for round, reports in ((WARM, warm), (ROUND, wires)):
            shuffler.to_upload(round)
            shuffler.store(reports)


def _round(folder: Path, fleet: Fleet, count: int) -> Cost:
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
        shutil.copyfile(folder / "prepared.db", place / "shuffler.db")
        clock = FakeClock(fleet.campaign.closes_s(WARM) + 1)
        databases = {
            role: stack.enter_context(closing(open_sqlite(place / f"{role}.db", migrations=role)))
            for role in Role
        }
        is_final = threading.Event()
        telemetry = Telemetry("bench", stream=io.StringIO())
        opener = stack.enter_context(BatchOpener([fleet.openers[Role.FUSION]], processes=cores()))
        centre = centre_of(
            databases[Role.FUSION],
            # Both rounds are over; a day later none would wait for all of its parts.
            FakeClock(fleet.campaign.closes_s(ROUND) + 1),
            fleet,
            opener=opener,
            on_final=[is_final.set],
            telemetry=telemetry,
        )
        url = stack.enter_context(_served(centre))
        outer_opener = stack.enter_context(
            OuterOpenerPool([fleet.openers[Role.SHUFFLER]], processes=cores(), many=_WARM_REPORTS)
        )
        client = httpx.Client(timeout=_PATIENCE_S, trust_env=False)
        sender = stack.enter_context(closing(HttpSender(url, client=client)))
        shuffler = Shuffler(databases[Role.SHUFFLER], clock, fleet)
        closer = shuffler.closer(outer_opener, sender, telemetry=telemetry)

        def work() -> None:
            is_final.clear()
            while not is_final.is_set():
                if not closer.step():
                    is_final.wait(_PATIENCE_S)

        work()
        shuffler.to_close(ROUND)
        spent = cost_of(work)
        with databases[Role.FUSION].snapshot() as transaction:
            found = transaction.execute("SELECT n FROM answers WHERE round = ?", (ROUND,))
        if set(found) != {(count,)}:
            raise RuntimeError(f"the round must hold {count} reports, got {found}.")
    return spent


@contextmanager
def _served(centre: FusionCentre) -> Iterator[str]:
    with create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(fusion_app(centre), log_config=None, log_level="error")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
