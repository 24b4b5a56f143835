"""Does the memory of the servers stay flat, round after round?

Intake, closer and fusion centre are processes with real sockets and files; only their clocks are
set from outside, so that a thousand hours take a minute or two. In every round each device
reports, the round is closed, forwarded and estimated, and a subscriber asks for it.
"""

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks.harness import Row, Target
from benchmarks.loading.cost import resident_bytes
from benchmarks.loading.generator import Load, request
from benchmarks.loading.setting import CAMPAIGN, FIRST, Fleet, Shuffler
from rase.clock import FakeClock
from rase.storage.sqlite import open_sqlite
from rase.wire.frames import authorization_of
from rase.wire.messages import REPORT_TYPE

DEVICES: Final = 16
_CONNECTIONS: Final = 4


def rows(*, quick: bool) -> Iterator[Row]:
    """Measure resident memory early and late."""
    early, late = (10, 40) if quick else (100, 1000)
    fleet = Fleet(replace(CAMPAIGN, k_min=DEVICES))
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        credentials = _prepared(folder, fleet)
        fusion = stack.enter_context(_running("fusion", folder))
        intake = stack.enter_context(_running("intake", folder))
        url = f"http://127.0.0.1:{fusion.port}"
        closer = stack.enter_context(_running("closer", folder, url))
        load = stack.enter_context(Load())
        servers = {"shuffler's intake": intake, "shuffler's closer": closer, "fusion": fusion}
        token = (folder / "token").read_text(encoding="ascii")
        question = request("/v1/estimates/latest?campaign=bench", f"Bearer {token}", method="GET")
        held = {}
        for number in range(1, late + 1):
            round = FIRST + number
            for server in servers.values():
                server.set_clock(fleet.campaign.round_end_s(round) + 1)
            reports = [
                request(
                    "/v1/reports",
                    authorization_of(wire, credential),
                    body=wire,
                    media_type=REPORT_TYPE,
                )
                for credential, wire in zip(
                    credentials, fleet.seal(list(range(DEVICES)), round), strict=True
                )
            ]
            sent = load.send([intake.port], reports, connections=_CONNECTIONS)
            _expect(sent.statuses, {201: DEVICES})
            for server in (fusion, intake, closer):
                server.set_clock(fleet.campaign.closes_s(round) + 1)
            sent = load.send([fusion.port], [question], connections=1)
            while number == 1 and sent.statuses == {404: 1}:
                sent = load.send([fusion.port], [question], connections=1)  # not estimated yet
            _expect(sent.statuses, {200: 1})
            if number in (early, late):
                held[number] = {n: resident_bytes(s.process.pid) for n, s in servers.items()}
        with (
            closing(open_sqlite(folder / "fusion.db", migrations="fusion")) as database,
            database.snapshot() as transaction,
        ):
            found = transaction.execute("SELECT COUNT(*), MIN(n), MAX(n) FROM answers")
        # The last round may still be on its way.
        _expect(min(found[0][0], late - 1), late - 1)
        _expect(found[0][1:], (DEVICES, DEVICES))
    for name in servers:
        yield Row(
            what=f"memory of the {name} after {late:,} rounds",
            against=f"after {early} rounds",
            size=f"{DEVICES} reports a round",
            ratio=held[late][name] / held[early][name],
            means="resident bytes / resident bytes",
            target=Target("at most", 1.05),
            note=f"{held[early][name] / 1e6:.1f} MB, later {held[late][name] / 1e6:.1f} MB",
        )


def _expect(found: object, expected: object) -> None:
    if found != expected:
        raise RuntimeError(f"expected {expected}, got {found}.")


def _prepared(folder: Path, fleet: Fleet) -> list[str]:
    """Write what the servers begin with, and return the credentials of the devices."""
    begin_s = fleet.campaign.round_end_s(FIRST)
    (folder / "begin").write_text(str(begin_s), encoding="ascii")
    (folder / "fleet").write_bytes(pickle.dumps(fleet))
    with closing(open_sqlite(folder / "shuffler.db", migrations="shuffler")) as database:
        return Shuffler(database, FakeClock(begin_s), fleet).enrol(DEVICES)


@dataclass(frozen=True, slots=True)
class _Server:
    process: "subprocess.Popen[str]"
    port: int

    def set_clock(self, now_s: float) -> None:
        """Set its clock, and return when it has done what is due."""
        print(now_s, file=self.process.stdin, flush=True)
        _expect(self.process.stdout.readline() if self.process.stdout else "", "done\n")


@contextmanager
def _running(part: str, folder: Path, *more: str) -> Iterator[_Server]:
    log = folder / f"{part}.log"
    with (
        log.open("w") as told,
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.loading.server", part, str(folder), *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=told,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        ) as process,
    ):
        try:
            while "listening" not in log.read_text():
                with suppress(subprocess.TimeoutExpired):
                    raise RuntimeError(f"it ended with {process.wait(0.05)}: {log.read_text()}")
            yield _Server(process, int(log.read_text().partition("port=")[2].split()[0]))
        finally:
            process.kill()
