"""Run a job on this machine: pieces in threads, buckets in memory or spilled, results in order.

Parquet tables are cut into pieces (rase.engine.pieces), which threads read, randomize and hand to
the store; a bucket whose pieces are all in is estimated and put into the release log. Text files
are read as one stream (rase.engine.stream). Results come when all rows have been checked.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from rase import __version__
from rase.engine.buckets import Progress, run_buckets
from rase.engine.in_order import CsvTable
from rase.engine.job import Job
from rase.engine.released import ReleaseLog
from rase.engine.stream import run_table
from rase.engine.tally import RunSummary, Tally
from rase.estimate.tracker import Tracker
from rase.kernels.keyed import RunKey
from rase.kernels.words import Random, SeededRandom
from rase.pipeline import RoundResult

__all__ = ["LocalRun", "free_memory", "run_local"]


def run_local(
    job: Job,
    *,
    rng: Random | None = None,
    workers: int | None = None,
    memory_bytes: int | None = None,
    on_progress: Progress | None = None,
) -> "LocalRun":
    """Run a job on this machine.

    Args:
        job: What to do.
        rng: None for secure randomness; a `SeededRandom` for study.
        workers: How many threads; as many as processors if None.
        memory_bytes: About how much memory to use, at most what is free; half of that if None.
        on_progress: Called with what is done and the share of it.

    Returns:
        The results, to be iterated once. Nothing comes before every row has been checked.

    Raises:
        ValueError: If ``workers`` or ``memory_bytes`` is below 1.
    """
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}.")
    if memory_bytes is not None and memory_bytes < 1:
        raise ValueError(f"memory_bytes must be at least 1, got {memory_bytes}.")
    return LocalRun(
        job,
        rng=rng,
        workers=workers or os.cpu_count() or 1,
        # Room for reports is asked for at once, and more than there is would not be given.
        memory_bytes=min(memory_bytes or free_memory() // 2, free_memory()),
        on_progress=on_progress or (lambda _what, _share: None),
    )


def free_memory() -> int:
    """Return how many bytes of memory could be used without swapping; 2 GiB if nobody can tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        kib = next(line.split()[1] for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, IndexError):
        return 2 << 30
    return 1024 * int(kib)


class LocalRun:
    """One run of a job; made by `run_local`. Iterate it once.

    Attributes:
        notes: How the columns were understood; complete when all rounds have been taken.
        spilled_bytes: How many bytes of reports were written to disk.
        resumed: How many buckets were taken from an interrupted run.
    """

    def __init__(
        self,
        job: Job,
        *,
        rng: Random | None,
        workers: int,
        memory_bytes: int,
        on_progress: Progress,
    ) -> None:
        self.notes: list[str] = []
        self.spilled_bytes = 0
        self.resumed = 0
        self._job = job
        self._rng = rng
        self._workers = workers
        self._memory_bytes = memory_bytes
        self._on_progress = on_progress
        self._summary: Callable[[], RunSummary] = lambda: Tally().summary(rounds=0, epsilon=0.0)
        self._results = self._run()

    def __iter__(self) -> Iterator[RoundResult]:
        """Return the one iterator over the rounds, in the order of time."""
        return self._results

    @property
    def summary(self) -> RunSummary:
        """What the run read, changed and spent; complete when all rounds have been taken."""
        return self._summary()

    def finish(self) -> None:
        """Take the release log away: call it when the results are where they shall be."""
        if self._job.work is not None:
            ReleaseLog(self._job.work, "").remove()

    def _run(self) -> Iterator[RoundResult]:
        if self._job.source.kind == "csv":
            yield from self._stream()
            return
        seed = repr(self._rng) if isinstance(self._rng, SeededRandom) else None
        fingerprint = self._job.fingerprint(seed=seed, version=__version__)
        with ReleaseLog(self._job.work, fingerprint) as log:
            done = run_buckets(
                self._job,
                key=RunKey.drawn(self._rng),
                log=log,
                workers=self._workers,
                memory_bytes=self._memory_bytes,
                on_progress=self._on_progress,
            )
            self.notes, self.spilled_bytes = done.notes, done.spilled_bytes
            self.resumed = done.resumed
            self._summary = lambda: done.tally.summary(
                rounds=len(done.results), epsilon=self._job.epsilon, bad_files=done.bad
            )
            tracker = Tracker(self._job.randomizer.value_range)
            for result in done.results:
                yield result.tracked(tracker)

    def _stream(self) -> Iterator[RoundResult]:
        table = CsvTable(self._job.source)
        graph = self._job.graph
        run = run_table(
            table,
            self._job.pipeline,
            every=self._job.every,
            rng=self._rng,
            truth=self._job.truth,
            groups_of=None if graph is None else graph.groups,
            memory_bytes=max(self._memory_bytes // 4, 1),
            on_batch=lambda: self._on_progress("read", table.share_read),
        )
        self.notes = table.notes
        self._summary = lambda: replace(run.summary, bad_files=table.bad)
        yield from run
