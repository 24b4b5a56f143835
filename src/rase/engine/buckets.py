"""The work on a Parquet table: pieces are drawn in threads, complete buckets estimated."""

from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

from rase.engine.files import Files
from rase.engine.footers import row_groups
from rase.engine.groups import GraphGroups
from rase.engine.job import Job
from rase.engine.kernel import Kernel
from rase.engine.pieces import Piece, plan_pieces
from rase.engine.reading import PieceRows, read_piece
from rase.engine.released import ReleaseLog
from rase.engine.store import BucketStore
from rase.engine.tally import Tally
from rase.errors import DataError
from rase.kernels.keyed import RunKey
from rase.pipeline import RoundResult
from rase.pipeline.keyed import is_counted

__all__ = ["Outcome", "Progress", "check_all_read", "check_zones", "run_buckets"]

Progress = Callable[[str, float], None]

# What a row of a piece takes while it is read, randomized and sorted.
_BYTES_PER_ROW = 160
_FEWEST_ROWS = 1 << 16


@dataclass(slots=True)
class Outcome:
    """Hold what came of a table.

    Args:
        results: The rounds in the order of time, each by itself.
        tally: What was read and changed.
        bad: How many files and row groups could not be read.
        notes: How the columns were understood.
        spilled_bytes: How many bytes of reports were written to disk.
        resumed: How many buckets were taken from the release log.
    """

    results: list[RoundResult] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    bad: int = 0
    notes: list[str] = field(default_factory=list)
    spilled_bytes: int = 0
    resumed: int = 0

    def add(self, results: list[RoundResult], tally: Tally) -> None:
        """Add a bucket."""
        self.results += results
        self.tally += tally


def run_buckets(
    job: Job,
    *,
    key: RunKey,
    log: ReleaseLog,
    workers: int,
    memory_bytes: int,
    on_progress: Progress,
) -> Outcome:
    """Draw, shuffle and estimate a Parquet table.

    Args:
        job: What to do.
        key: The key of the run; it is used for no bucket of the log.
        log: What was released before, and where new buckets go.
        workers: How many threads.
        memory_bytes: About how much memory to use.
        on_progress: Called with what is done and the share of it.

    Raises:
        DataError: If a file or a row cannot be used.
        StorageBusy: If the disk is full.
    """
    groups, bad = row_groups(job.source)
    most_rows = max(memory_bytes // (2 * workers * _BYTES_PER_ROW), _FEWEST_ROWS)
    plan = plan_pieces(groups, job.interval_ms, most_rows=most_rows)
    kernel = Kernel(
        job.pipeline,
        job.interval_ms,
        plan.bucket_rounds,
        truth=job.truth,
        has_groups=job.graph is not None,
        # Shufflers that start from the order of arrival need a round at once.
        shards=plan.shards if is_counted(job.pipeline) and job.graph is None else 1,
    )
    outcome = Outcome(resumed=len(log.buckets))
    for bucket in sorted(log.buckets):
        outcome.add(*log.read(bucket))
    pieces = [piece for piece in plan.pieces if not log.buckets.issuperset(_range(piece))]
    with BucketStore(max(memory_bytes // 3, 1), folder=job.work) as store:
        work = _Work(job, kernel, key, log, store, outcome)
        with ThreadPoolExecutor(workers) as pool:
            work.run(pieces, pool, workers=workers, on_progress=on_progress)
        outcome.spilled_bytes = store.spilled_bytes
    skipped = work.skipped
    rows = sum(group.rows for group in groups if (group.file, group.number) not in skipped)
    check_all_read(job, outcome, rows)
    outcome.bad = len(bad) + len(job.source.bad) + len(skipped)
    outcome.results.sort(key=lambda result: result.round or 0)
    return outcome


def check_all_read(job: Job, outcome: Outcome, rows: int) -> None:
    """Refuse results of a table of which some rows were not found, or no reading.

    Args:
        job: What was done.
        outcome: What came of it.
        rows: How many rows there are by the footers.
    """
    source = job.source
    if outcome.tally.rows != rows:
        raise DataError(
            f"{source.place} has {rows} rows, but {outcome.tally.rows} lie where the footers say; "
            "write the files again with a current Parquet library."
        )
    if not outcome.results:
        raise DataError(
            f"column {source.columns.value!r} of {source.place} is empty in all {rows} rows; "
            "give a table with at least one reading."
        )


def check_zones(source: Files, zones: set[bool]) -> None:
    """Refuse written times of which some have a zone and others have none."""
    if len(zones) > 1:
        raise DataError(
            f"column {source.columns.time!r} mixes times with and without a zone; write all of "
            "them in one way, such as 2024-05-31T18:00:00Z."
        )


@dataclass(slots=True)
class _Work:
    """What the threads share; what they find is put together by the thread that waits for them."""

    job: Job
    kernel: Kernel
    key: RunKey
    log: ReleaseLog
    store: BucketStore
    outcome: Outcome
    groups: GraphGroups | None = None
    skipped: set[tuple[int, int]] = field(default_factory=set)
    zones: set[bool] = field(default_factory=set)

    def run(
        self,
        pieces: list[Piece],
        pool: ThreadPoolExecutor,
        *,
        workers: int,
        on_progress: Progress,
    ) -> None:
        """Draw pieces, and estimate each bucket as soon as all its pieces are in."""
        released = self.log.buckets
        missing = Counter(bucket for piece in pieces for bucket in _range(piece))
        waiting = deque(pieces)
        drawing: dict[Future[PieceRows], Piece] = {}
        estimating: set[Future[_Bucket]] = set()
        complete: list[int] = []
        try:
            while waiting or drawing or estimating or complete:
                if self.job.graph is not None and not waiting and not drawing and not self.groups:
                    devices = (self.outcome.tally + self.store.tally()).device
                    self.groups = self.job.graph.groups(devices)
                while len(drawing) + len(estimating) < workers:
                    # Buckets first: they free memory. Real groups are known when all is drawn.
                    if complete and (self.job.graph is None or self.groups is not None):
                        estimating.add(pool.submit(self._estimate, complete.pop()))
                    elif waiting:
                        piece = waiting.popleft()
                        drawing[pool.submit(self._draw, piece)] = piece
                    else:
                        break
                tasks: list[Future[Any]] = [*drawing, *estimating]
                done = wait(tasks, return_when=FIRST_COMPLETED).done
                for drawn in [task for task in drawing if task in done]:
                    piece = drawing.pop(drawn)
                    self._note(drawn.result())
                    on_progress("read", 1 - len(waiting) / len(pieces))
                    missing.subtract(_range(piece))
                    complete += [
                        bucket
                        for bucket in _range(piece)
                        if not missing[bucket] and bucket not in released
                    ]
                for estimated in [task for task in estimating if task in done]:
                    estimating.discard(estimated)
                    self.outcome.add(*estimated.result())
        finally:
            for drawn in drawing:
                drawn.cancel()
            for estimated in estimating:
                estimated.cancel()

    def _draw(self, piece: Piece) -> PieceRows:
        rows = read_piece(self.job.source, piece, interval_ms=self.job.interval_ms)
        drawn = self.kernel.randomize(rows, self.key, without=self.log.buckets)
        for bucket, tally in drawn.tallies.items():
            self.store.count(bucket, tally)
        for (bucket, shard), reports in drawn.reports.items():
            self.store.add(bucket, reports, shard=shard)
        return rows.without_rows()

    def _estimate(self, bucket: int) -> "_Bucket":
        tally = self.store.take_tally(bucket)
        truths = None
        if self.kernel.truth:
            truths = tally.truths(self.job.randomizer.value_range)
        if self.kernel.shards == 1:
            parts = self.store.take(bucket)
            results = self.kernel.estimate(parts, self.key, truths=truths, groups=self.groups)
        else:
            shards = [
                self.kernel.gather(self.store.take(bucket, shard=shard))
                for shard in range(self.kernel.shards)
            ]
            results = self.kernel.conclude(shards, self.key, truths=truths)
        self.log.add(bucket, results, tally)
        return results, tally

    def _note(self, rows: PieceRows) -> None:
        self.skipped.update(rows.skipped)
        self.outcome.notes += [note for note in rows.notes if note not in self.outcome.notes]
        if rows.has_zone is not None:
            self.zones.add(rows.has_zone)
        check_zones(self.job.source, self.zones)


_Bucket = tuple[list[RoundResult], Tally]


def _range(piece: Piece) -> range:
    return range(piece.buckets[0], piece.buckets[1] + 1)
