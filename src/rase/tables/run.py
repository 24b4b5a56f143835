"""Run a table: read it, draw noise once for each reading, count, estimate round by round.

Tables whose footers show an order of time are read part by part; all others pass once through a
store that sorts their rows by rounds. Threads draw and estimate parts; results come in the order of
time when all rows have been checked. On a cluster `rase.tables.spark` maps the same parts.
"""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rase.errors import DataError
from rase.kernels.keyed import RunKey
from rase.kernels.words import Random, SeededRandom
from rase.series.rounds import RoundResult
from rase.series.tracker import Tracker
from rase.tables.drawing import Collected, Drawn, draw
from rase.tables.estimating import estimate_rounds
from rase.tables.feedback import RangeFeedback, feedback_rounds
from rase.tables.keyed import KeyedRows
from rase.tables.parts import Part, cut
from rase.tables.release_log import PartResult, ReleaseLog
from rase.tables.rows import check_some
from rase.tables.source import ParquetSource, TableSource, open_source
from rase.tables.store import PARTITIONS, RowStore
from rase.tables.summary import DeviceCounts, RunSummary, Tally
from rase.version import __version__

if TYPE_CHECKING:
    from rase.arrays import Words
    from rase.tables.groups import GraphSettings
    from rase.tables.plan import RunPlan

__all__ = [
    "LocalRun",
    "Progress",
    "TableRun",
    "check_all_read",
    "free_memory",
    "regroup",
    "run",
]

Progress = Callable[[str, float], None]

# About what a row takes while its part is read, drawn and counted.
_BYTES_PER_ROW = 160
_FEWEST_ROWS = 1 << 16


def run(
    table: Any,
    plan: RunPlan,
    *,
    rng: Random | None = None,
    workers: int | None = None,
    memory_bytes: int | None = None,
    work: Path | None = None,
    on_progress: Progress | None = None,
) -> LocalRun:
    """Run a table on this machine.

    Args:
        table: What `rase.tables.source.open_source` takes: a path, files, a data frame, a source.
        plan: What to do.
        rng: None for secure randomness; a `SeededRandom` for study.
        workers: How many threads; as many as processors if None.
        memory_bytes: About how much memory to use, at most what is free; half of that if None.
        work: A folder where results of parts are kept until all are there, so that an interrupted
            run can go on; None to keep nothing.
        on_progress: Called with what is done and the share of it.

    Returns:
        The results, to be iterated once. Nothing comes before every row has been checked.

    Raises:
        DataError: If the table cannot be read.
        ValueError: If ``workers`` or ``memory_bytes`` is below 1.
    """
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}.")
    if memory_bytes is not None and memory_bytes < 1:
        raise ValueError(f"memory_bytes must be at least 1, got {memory_bytes}.")
    return LocalRun(
        open_source(table),
        plan,
        rng=rng,
        workers=workers or os.cpu_count() or 1,
        memory_bytes=min(memory_bytes or free_memory() // 2, free_memory()),
        work=work,
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


class TableRun(ABC):
    """One run of a table; iterate it once, for a second pass would draw noise a second time.

    Attributes:
        notes: How the columns were understood; complete when all rounds have been taken.
        feedback: What learnt the range, where it was to be learnt.
    """

    def __init__(self, plan: RunPlan, rng: Random | None) -> None:
        self.notes: list[str] = []
        self.feedback: RangeFeedback | None = None
        self._plan, self._rng = plan, rng
        self._summary = RunSummary()
        self._results = self._tracked()

    def __iter__(self) -> Iterator[RoundResult]:
        """Return the one iterator over the rounds, in the order of time."""
        return self._results

    @property
    def summary(self) -> RunSummary:
        """What the run read, changed and spent; complete when all rounds have been taken."""
        return self._summary

    def finish(self) -> None:  # noqa: B027 - most runs keep nothing
        """Forget what an interrupted run would need: the results are in their place."""

    def _tracked(self) -> Iterator[RoundResult]:
        """Yield the rounds in the order of time, each with the help of those before."""
        if self._plan.feedback is not None:
            self.feedback = self._plan.feedback()
            yield from self._learnt(self.feedback)
            return
        tracker = Tracker(self._plan.randomizer.domain)
        for result in self._estimated():
            yield result.tracked(tracker)

    @abstractmethod
    def _estimated(self) -> list[RoundResult]:
        """Return all rounds by themselves, in the order of time."""

    @abstractmethod
    def _learnt(self, feedback: RangeFeedback) -> Iterator[RoundResult]:
        """Yield the rounds of a run whose range is learnt as it goes."""

    def _sum_up(self, tally: Tally, devices: DeviceCounts, *, rounds: int, bad: int) -> None:
        epsilon = float(np.max(self._plan.randomizer.epsilon))
        self._summary = devices.summary(tally, rounds=rounds, epsilon=epsilon, bad_files=bad)


class LocalRun(TableRun):
    """A run on this machine; made by `run`.

    Attributes:
        spilled_bytes: How many bytes of rows were written to disk, encrypted.
        resumed: How many parts were taken from an interrupted run.
    """

    def __init__(
        self,
        source: TableSource,
        plan: RunPlan,
        *,
        rng: Random | None,
        workers: int,
        memory_bytes: int,
        work: Path | None,
        on_progress: Progress,
    ) -> None:
        super().__init__(plan, rng)
        self.spilled_bytes = 0
        self.resumed = 0
        self._source = source
        self._workers, self._memory_bytes = workers, memory_bytes
        self._work = work
        self._on_progress = on_progress

    def finish(self) -> None:
        """Take the release log away: call it when the results are where they should be."""
        if self._work is not None:
            ReleaseLog(self._work, "").remove()

    def _estimated(self) -> list[RoundResult]:
        # Which groups a round has follows from all that report: nothing is final before the end.
        work = None if self._plan.graph is not None else self._work
        with ReleaseLog(work, self._fingerprint()) as log:
            pass_over = _Pass(
                self._source,
                self._plan,
                key=RunKey.drawn(self._rng),
                log=log,
                workers=self._workers,
                memory_bytes=self._memory_bytes,
                on_progress=self._on_progress,
            )
            found = pass_over.run()
            self.resumed, self.spilled_bytes = log.parts, pass_over.spilled_bytes
            self.notes = self._source.notes
            # Checked while the log is open: a table that is refused leaves none behind.
            source = self._source
            bad = source.bad
            if isinstance(source, ParquetSource):
                bad += len(source.skipped)
                check_all_read(source, found.tally)
            check_some(
                found.tally.rows,
                found.tally.rows - found.tally.nulls,
                value=source.columns.value,
                place=source.place,
            )
        self._sum_up(found.tally, found.devices, rounds=len(found.results), bad=bad)
        return sorted(found.results, key=lambda result: result.round or 0)

    def _learnt(self, feedback: RangeFeedback) -> Iterator[RoundResult]:
        """Hold the readings of the table: choices follow from released rounds, one by one."""
        key = RunKey.drawn(self._rng)
        parts = []
        for chunk in self._source.chunks():
            parts.append(chunk.keyed(key, self._plan))
            self._on_progress("read", self._source.share_read)
        self.notes = self._source.notes
        rows = KeyedRows.joined(parts) if parts else None
        check_some(
            0 if rows is None else len(rows) + len(rows.null_ms),
            0 if rows is None else len(rows),
            value=self._source.columns.value,
            place=self._source.place,
        )
        held = Collected.of(self._plan, rows).in_order()  # type: ignore[arg-type]
        tally, devices, count = held.tally, DeviceCounts(), 0

        def drawn_of(numbers: list[int], randomizer_of: Callable[[int], Any]) -> Drawn:
            some = held.between(numbers[0], numbers[-1])
            return draw(self._plan, some, key=key, randomizer_of=randomizer_of)

        numbers = np.unique(held.some.round).tolist()
        for drawn, results in feedback_rounds(
            self._plan, feedback, numbers, drawn_of=drawn_of, key=key
        ):
            tally, count = tally + drawn.tally, count + len(results)
            devices.add(drawn.devices)
            self._sum_up(tally, devices, rounds=count, bad=self._source.bad)
            yield from results

    def _fingerprint(self) -> str:
        """Return a hash of all that decides on the results, but for secure randomness."""
        plan, files = self._plan, getattr(self._source, "files", None)
        seed = repr(self._rng) if isinstance(self._rng, SeededRandom) else None
        parts = [
            plan.described(),
            repr(plan.budgets),
            plan.truth,
            None if files is None else [files.fingerprint, files.columns.names, files.skips_bad],
            seed,
            __version__,
        ]
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=repr).encode()).hexdigest()


class _Pass:
    """One pass over a table in threads: parts are read, drawn and estimated at the same time."""

    def __init__(
        self,
        source: TableSource,
        plan: RunPlan,
        *,
        key: RunKey,
        log: ReleaseLog,
        workers: int,
        memory_bytes: int,
        on_progress: Progress,
    ) -> None:
        self._source, self._plan, self._key, self._log = source, plan, key, log
        self._workers, self._memory_bytes = workers, memory_bytes
        self._on_progress = on_progress
        self._most_rows = max(memory_bytes // (2 * workers * _BYTES_PER_ROW), _FEWEST_ROWS)
        self._released = np.array(sorted(log.released.rounds), dtype=np.int64)
        self._reporting: dict[int, Words] = {}
        self.spilled_bytes = 0

    def run(self) -> PartResult:
        """Return what came of the whole table."""
        total = PartResult()
        total.add(self._log.released)
        source, parts = self._source, None
        if isinstance(source, ParquetSource):
            parts = cut(source.groups, self._plan.interval_ms, most_rows=self._most_rows)
        if parts is not None:
            for part in self._each(parts, self._from_files):
                total.add(part)
        else:
            with RowStore(
                self._memory_bytes // 3,
                interval_ms=self._plan.interval_ms,
                has_budgets=self._plan.budgets is not None,
                folder=self._log.folder,
            ) as store:
                self._fill(store)
                for part in self._each(range(PARTITIONS), lambda one: self._stored(store, one)):
                    total.add(part)
                self.spilled_bytes = store.spilled_bytes
        if self._plan.graph is not None:
            total.results = regroup(self._plan.graph, total.results, self._reporting)
        return total

    def _each(self, parts: Any, work: Callable[[Any], PartResult]) -> Iterator[PartResult]:
        """Yield what the threads make of parts, as they end; a few are under way at a time."""
        waiting = list(parts)[::-1]
        count = len(waiting)
        under_way: set[Future[PartResult]] = set()
        with ThreadPoolExecutor(self._workers) as pool:
            try:
                while waiting or under_way:
                    while waiting and len(under_way) < self._workers:
                        under_way.add(pool.submit(work, waiting.pop()))
                    done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                    for one in done:
                        yield one.result()
                        self._on_progress("read", 1 - (len(waiting) + len(under_way)) / count)
            finally:
                for one in under_way:
                    one.cancel()

    def _from_files(self, part: Part) -> PartResult:
        source = self._source
        assert isinstance(source, ParquetSource)  # noqa: S101 - only such tables are cut

        def rows_of(number: int) -> KeyedRows:
            chunks = source.read(part.groups)
            keyed = (
                chunk.keyed(self._key, self._plan, rounds=part.rounds, released=self._released)
                for chunk in chunks
            )
            return KeyedRows.joined([rows.sliced(number, part.slices) for rows in keyed])

        return self._worked(rows_of(number) for number in range(part.slices))

    def _fill(self, store: RowStore) -> None:
        first = 0
        for chunk in self._source.chunks():
            rows = chunk.keyed(self._key, self._plan, released=self._released)
            store.add(rows, first=first)
            first += len(chunk)
            self._on_progress("read", self._source.share_read)

    def _stored(self, store: RowStore, number: int) -> PartResult:
        slices = -(-store.sizes()[number] // self._most_rows) or 1
        part = self._worked(store.take(number, part=one, slices=slices) for one in range(slices))
        store.drop(number)
        return part

    def _worked(self, slices: Iterable[KeyedRows]) -> PartResult:
        """Draw, count and estimate whole rounds, whose rows come in slices of their devices."""
        drawn_parts, rounds = [], set[int]()
        for rows in slices:
            drawn_parts.append(draw(self._plan, Collected.of(self._plan, rows), key=self._key))
            rounds.update((rows.null_ms // (self._plan.interval_ms or 1)).tolist())
        drawn = Drawn.joined(drawn_parts)
        results = estimate_rounds(self._plan, drawn, key=self._key)
        if drawn.reporting is not None:
            self._reporting |= zip(drawn.rounds.tolist(), drawn.reporting, strict=True)
        silent = rounds.difference(drawn.rounds.tolist())
        part = PartResult(results, drawn.tally, drawn.devices, silent)
        if results or drawn.tally.rows:
            self._log.add(part)
        return part


def regroup(
    graph: GraphSettings, results: list[RoundResult], reporting: Mapping[int, Words]
) -> list[RoundResult]:
    """Give each round the shuffler of those who report in it, now that all are known.

    Raises:
        DataError: If the graph does not fit the table.
    """
    devices = np.unique(np.concatenate(list(reporting.values())))
    shuffler_of = graph.groups(devices)
    return [
        replace(result, manifest=shuffler_of(reporting[result.round or 0]).manifest_for(result.n))
        for result in results
    ]


def check_all_read(source: ParquetSource, tally: Tally) -> None:
    """Refuse results of a table of which some rows were not found."""
    if tally.rows != source.rows:
        raise DataError(
            f"{source.place} has {source.rows} rows, but {tally.rows} lie where the footers say; "
            "write the files again with a current Parquet library."
        )
