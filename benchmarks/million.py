"""Does a round of a million reports close, travel and become an estimate in bounded memory?

The shuffler's closer and the fusion centre are processes of their own with databases on the disk,
and a socket between them. Each opens its envelopes itself, so that its peak of memory is all that
it takes. The limit is the same work bare: both decryptions of each report and the verification of
its token, of a part of the same reports, before and after the round in the same run. Processor
times are compared; the machine may have other work.

Reports are sealed once and kept; see benchmarks.loading.kept.
"""

import io
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from socket import create_server
from typing import Any, Final

import numpy as np
import uvicorn

from benchmarks.harness import Row, Target, versions
from benchmarks.loading.kept import KeptReports, default_folder, kept_reports, place_of
from benchmarks.loading.setting import FIRST, Shuffler, centre_of, pool
from rase.clock import FakeClock
from rase.counts.registry import estimator_named
from rase.fusion.app import fusion_app
from rase.fusion.centre import FusionCentre
from rase.fusion.mechanism import counts_of, randomizer_of
from rase.fusion.opening import BatchOpener
from rase.service.telemetry import Telemetry
from rase.shuffler.forward import HttpSender
from rase.shuffler.opening import OuterOpenerPool
from rase.storage.sqlite import open_sqlite
from rase.wire.issuing import verifier_of
from rase.wire.keys import Role
from rase.wire.messages import HEADER_SIZE, MARK_SIZE, PART_BYTES, Content, inner_info, outer_info
from rase.wire.suites import private_key, suite
from rase.wire.tokens import NONCE_SIZE

__all__ = ["Measured", "measure_round", "rows"]

MEMORY_MB: Final = 600
SIZES: Final = {"x25519": 1_000_000, "x-wing": 200_000}
_QUICK: Final = {"x25519": 20_000, "x-wing": 4_000}
_BARE_SHARE: Final = 10
_PATIENCE_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Measured:
    """What a round took.

    Args:
        n: How many reports the estimate is of.
        value: The estimate.
        expected: The same estimate of the places that were sealed, computed without any server.
        batches: In how many parts the round travelled.
        closer_s: Processor seconds of the closer.
        fusion_s: Processor seconds of the fusion centre.
        bare_s: Processor seconds of bare decryptions and verifications of as many reports.
        closer_mb: The closer's peak of memory.
        fusion_mb: The fusion centre's.
    """

    n: int
    value: float
    expected: float
    batches: int
    closer_s: float
    fusion_s: float
    bare_s: float
    closer_mb: float
    fusion_mb: float

    @property
    def ratio(self) -> float:
        """The servers' time divided by the bare time."""
        return (self.closer_s + self.fusion_s) / self.bare_s


def rows(*, quick: bool) -> Iterator[Row]:
    """Measure a round of each kind of envelope."""
    for kem, count in (_QUICK if quick else SIZES).items():
        with pool() as by:
            kept = kept_reports(default_folder(), count, kem=kem, by=by)
        found = measure_round(kept)
        if (found.n, found.value) != (count, found.expected):
            raise RuntimeError(f"the round must hold {count} reports, got {found.n}.")
        size = f"{count:,} reports, {kem}, {found.batches} batches"
        yield Row(
            what="closing, forwarding and estimating a round, CPU time",
            against=f"its {2 * count:,} bare decryptions and {count:,} verifications",
            size=size,
            ratio=found.ratio,
            means="our time / its time",
            target=Target("at most", 1.3),
            ours_s=found.closer_s + found.fusion_s,
            theirs_s=found.bare_s,
            packages=versions("cryptography"),
            note=f"closer {found.closer_s:.1f} s, fusion centre {found.fusion_s:.1f} s; bare work "
            f"of one report in {_BARE_SHARE}, before and after",
        )
        for who, used in (("closer", found.closer_mb), ("fusion centre", found.fusion_mb)):
            yield Row(
                what=f"peak of memory of the {who}",
                against=f"{MEMORY_MB} MB",
                size=size,
                ratio=used / MEMORY_MB,
                means="our megabytes / so many",
                target=Target("at most", 1.0),
            )


def measure_round(kept: KeptReports, *, part_bytes: int = PART_BYTES) -> Measured:
    """Close, forward and estimate a round of kept reports, in processes of their own.

    Args:
        kept: The reports.
        part_bytes: How long a batch may be before it goes in parts.
    """
    few = max(1, kept.count // _BARE_SHARE)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        _prepare(kept, folder)
        before = _bare_s(kept, few)
        fusion = stack.enter_context(_process(_fusion, kept, folder))
        url = _take(fusion)
        closer = stack.enter_context(_process(_closer, kept, folder, url, part_bytes))
        n, value, batches, fusion_s, fusion_mb = _take(fusion)
        closer.send("stop")
        closer_s, closer_mb = _take(closer)
        after = _bare_s(kept, few)
    return Measured(
        n=n,
        value=value,
        expected=_expected(kept),
        batches=batches,
        closer_s=closer_s,
        fusion_s=fusion_s,
        bare_s=(before + after) / 2 * kept.count / few,
        closer_mb=closer_mb,
        fusion_mb=fusion_mb,
    )


def _expected(kept: KeptReports) -> float:
    campaign = kept.fleet.campaign
    places = np.array([place_of(number, kept.fleet) for number in range(kept.count)])
    counts = counts_of(campaign, places, np.zeros(kept.count, np.uint8))
    return estimator_named("unbiased_mean")(counts, randomizer=randomizer_of(campaign)).value


def _prepare(kept: KeptReports, folder: Path) -> None:
    """Fill a shuffler's database with devices and a report of each."""
    clock = FakeClock(kept.fleet.campaign.round_end_s(FIRST) - 1)
    with closing(open_sqlite(folder / "shuffler.db", migrations="shuffler")) as database:
        shuffler = Shuffler(database, clock, kept.fleet)
        shuffler.to_upload(FIRST)
        for group in kept.groups():
            shuffler.admit(len(group))
            shuffler.store(group)


def _bare_s(kept: KeptReports, most: int) -> float:
    """Decrypt and verify some reports, and nothing else; return how long it took."""
    fleet = kept.fleet
    parts = []
    for role in (Role.SHUFFLER, Role.FUSION):
        key = fleet.openers[role]
        parts.append((suite(key.kem, key.aead).decrypt, private_key(key.kem, key.secret)))
    (outer, outer_key), (inner, inner_key) = parts
    is_signed = verifier_of(fleet.modulus).is_signed
    inside = inner_info(fleet.hash, FIRST)
    spent_s = 0.0
    for group in kept.groups(most):
        outside = outer_info(fleet.hash, group[0][:HEADER_SIZE])
        sealed = [wire[HEADER_SIZE:] for wire in group]
        start_s = time.process_time()
        opened = [outer(one, outer_key, outside) for one in sealed]
        found = [inner(one[MARK_SIZE:], inner_key, inside) for one in opened]
        spent_s += time.process_time() - start_s
        tokens = [Content.from_bytes(one).token for one in found]
        start_s = time.process_time()
        are_signed = [is_signed(one[:NONCE_SIZE], one[NONCE_SIZE:]) for one in tokens]
        spent_s += time.process_time() - start_s
        if not all(are_signed):
            raise RuntimeError("a token that was kept is not signed.")
    return spent_s


def _closer(pipe: Connection, kept: KeptReports, folder: Path, url: str, part_bytes: int) -> None:
    clock, start_s = FakeClock(kept.fleet.campaign.closes_s(FIRST) + 1), time.process_time()
    with ExitStack() as stack:
        database = stack.enter_context(
            closing(open_sqlite(folder / "shuffler.db", migrations="shuffler"))
        )
        opener = OuterOpenerPool([kept.fleet.openers[Role.SHUFFLER]], processes=1)
        sender = stack.enter_context(closing(HttpSender(url)))
        closer = Shuffler(database, clock, kept.fleet).closer(
            stack.enter_context(opener), sender, telemetry=_quiet(), part_bytes=part_bytes
        )
        while not pipe.poll():
            if not closer.step():
                pipe.poll(0.2)
                clock.advance(1)
    pipe.send((time.process_time() - start_s, _peak_mb()))


def _fusion(pipe: Connection, kept: KeptReports, folder: Path) -> None:
    campaign, is_final = kept.fleet.campaign, threading.Event()
    start_s = time.process_time()
    with ExitStack() as stack:
        database = stack.enter_context(
            closing(open_sqlite(folder / "fusion.db", migrations="fusion"))
        )
        centre = centre_of(
            database,
            FakeClock(campaign.closes_s(FIRST) + 1),
            kept.fleet,
            opener=stack.enter_context(BatchOpener([kept.fleet.openers[Role.FUSION]], processes=1)),
            on_final=[is_final.set],
            telemetry=_quiet(),
        )
        pipe.send(stack.enter_context(_served(centre)))
        if not is_final.wait(_PATIENCE_S * 10):
            raise RuntimeError("the round did not become final.")
        with database.snapshot() as transaction:
            ((n, value),) = transaction.execute(
                "SELECT n, value FROM answers WHERE round = ?", (FIRST,)
            )
            ((batches,),) = transaction.execute("SELECT COUNT(*) FROM batches")
        pipe.send((n, value, batches, time.process_time() - start_s, _peak_mb()))


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


def _quiet() -> Telemetry:
    return Telemetry("bench", stream=io.StringIO())


def _peak_mb() -> float:
    """Return the most memory that this process ever held."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = [one for one in status.splitlines() if one.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


@contextmanager
def _process(work: Any, *given: Any) -> Iterator[Connection]:
    """Run some work in a process of its own that has a pipe to this one."""
    ours, theirs = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=work, args=(theirs, *given), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        process.join(_PATIENCE_S)


def _take(pipe: Connection) -> Any:
    """Return what a process says, or fail with it."""
    try:
        return pipe.recv()
    except EOFError:
        raise RuntimeError("a process of the benchmark ended without an answer.") from None
