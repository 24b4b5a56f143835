"""Run a table: read it, draw noise once for each reading, count, estimate round by round.

Few rows are one part. Of more, tables whose footers show an order of time are read part by part,
and all others pass once through a store that sorts their rows by rounds. Threads draw and estimate
parts; results come in the order of time when all rows have been checked. On a cluster
`rase.tables.spark` maps the same parts.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rase.clock import parse_duration_s
from rase.counts.registry import TRACKED
from rase.errors import DataError
from rase.kernels.keyed import RunKey
from rase.kernels.words import Random
from rase.series.rounds import Record, RoundResult
from rase.series.tracker import Tracker
from rase.tables.feedback import RangeFeedback, feedback_rounds
from rase.tables.parquet import ParquetSource
from rase.tables.parts import Part, cut
from rase.tables.readings import KeyedRows
from rase.tables.record import fingerprint, record_of
from rase.tables.release_log import PartResult, ReleaseLog
from rase.tables.rounds import Collected, Drawn, draw, estimate_rounds
from rase.tables.source import TableSource, open_source
from rase.tables.store import PARTITIONS, RowStore
from rase.tables.stream import Stream, layout_of
from rase.tables.summary import DeviceCounts, RunSummary, Tally

if TYPE_CHECKING:
    from rase.arrays import Places, Words
    from rase.tables.columns import Chunk
    from rase.tables.groups import GraphSettings
    from rase.tables.parquet import RowGroup
    from rase.tables.plan import RunPlan

__all__ = [
    "BYTES_PER_ROW",
    "FEWEST_ROWS",
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
BYTES_PER_ROW = 200
FEWEST_ROWS = 1 << 16
# Tables of no more rows are one part: sorting them by rounds costs more than it gains.
_ONE_PART_ROWS = 1 << 20


def run(
    table: Any,
    plan: RunPlan,
    *,
    rng: Random | None = None,
    workers: int | None = None,
    memory_bytes: int | None = None,
    work: Path | None = None,
    record: Path | None = None,
    on_progress: Progress | None = None,
) -> LocalRun:
    """Run a table on this machine.

    Args:
        table: What `rase.tables.source.open_source` takes: a path, files, a data frame, a source.
        plan: What to do.
        rng: None for secure randomness; a `SeededRandom` for study.
        workers: How many threads, fewer where memory is scarce; as many as processors if None.
        memory_bytes: About how much memory to use, at most what is free; half of that if None.
        work: A folder where results of parts are kept until all are there, so that an interrupted
            run can go on; None to keep nothing.
        record: Instead: a folder that remembers for ever what was drawn, so that a later run of
            the table, which has grown, draws its new rounds alone.
        on_progress: Called with what is done and the share of it.

    Returns:
        The results, to be iterated once; with ``record`` also those of earlier runs. Nothing comes
        before every row has been checked.

    Raises:
        DataError: If the table cannot be read.
        ValueError: If ``workers`` or ``memory_bytes`` is below 1, or ``record`` is combined with
            what cannot be gone on with.
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
        record=record,
        on_progress=on_progress,
    )


def free_memory() -> int:
    """Return how many bytes of memory could be used without swapping; 2 GiB if unknown."""
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
        summary: What the run read, changed and spent; complete when all rounds have been taken.
        feedback: What learnt the range, where it was to be learnt.
        left_out: How many rows were met of rounds that a record has.
        devices: How many reports each device drew; complete when all rounds have been taken. Of a
            run on Spark only where quantities share a budget.
    """

    def __init__(self, plan: RunPlan, rng: Random | None, on_progress: Progress | None) -> None:
        self.notes: list[str] = []
        self.summary = RunSummary()
        self.feedback: RangeFeedback | None = None
        self.left_out = 0
        self.devices = DeviceCounts()
        self._plan, self._rng = plan, rng
        self._on_progress: Progress = on_progress or (lambda _what, _share: None)
        self._results = self._follow()

    def __iter__(self) -> Iterator[RoundResult]:
        """Return the one iterator over the rounds, in the order of time."""
        return self._results

    def finish(self) -> None:  # noqa: B027 - most runs keep nothing
        """Forget what an interrupted run would need: the results are in their place."""

    def _follow(self) -> Iterator[RoundResult]:
        """Yield the rounds in the order of time, each with the help of those before."""
        if self._plan.feedback is not None:
            self.feedback = self._plan.feedback()
            yield from self._learn(self.feedback)
            return
        results = self._estimate()
        rounds = sum(result.label is None for result in results)
        k_min = self._plan.k_min
        results = [result for result in results if result.n >= k_min]
        kept = sum(result.label is None for result in results)
        withheld = self.summary.withheld + rounds - kept
        self.summary = replace(self.summary, rounds=kept, withheld=withheld)
        if TRACKED not in self._plan.estimators:
            yield from results
            return
        records = {}
        for label in dict.fromkeys(result.label for result in results):
            places = [place for place, result in enumerate(results) if result.label == label]
            records[label] = Record(self._tracker())
            found = records[label].follow([results[place] for place in places])
            for place, result in zip(places, found, strict=True):
                results[place] = result
        if self._plan.as_known_then:
            yield from results
            return
        labels = [result.label for result in results]
        results.clear()
        revised = {label: record.look_back() for label, record in records.items()}
        for label in labels:
            yield next(revised[label])

    def _check_some(self, source: TableSource, tally: Tally) -> None:
        """Refuse a table without a reading; a few may all be of other quantities' turns."""
        has_turns = self._plan.turn is not None and self._plan.turn.key is not None
        source.check_some(tally.rows, tally.rows - (0 if has_turns else tally.nulls))

    def _tracker(self) -> Tracker:
        plan = self._plan
        every_s = 0.0 if plan.every is None else parse_duration_s(plan.every)
        return Tracker(plan.numbers.domain, window=plan.window or 0, every_s=every_s)

    @abstractmethod
    def _estimate(self) -> list[RoundResult]:
        """Return all rounds by themselves, in the order of time."""

    @abstractmethod
    def _learn(self, feedback: RangeFeedback) -> Iterator[RoundResult]:
        """Yield the rounds of a run whose range is learnt as it goes."""


class LocalRun(TableRun):
    """A run on this machine; made by `run`.

    Attributes:
        spilled_bytes: How many bytes of rows were written to disk, encrypted.
        resumed: How many parts were taken from an interrupted run, or from the record.
    """

    _key: RunKey

    def __init__(
        self,
        source: TableSource,
        plan: RunPlan,
        *,
        rng: Random | None,
        workers: int,
        memory_bytes: int,
        work: Path | None,
        record: Path | None,
        on_progress: Progress | None,
    ) -> None:
        super().__init__(plan, rng, on_progress)
        self.spilled_bytes = self.resumed = 0
        self._source = source
        source.expect(plan.categories)
        # Each thread holds a part, and parts have so many rows at least.
        most = max(memory_bytes // (4 * FEWEST_ROWS * BYTES_PER_ROW), 1)
        self._workers, self._memory_bytes = min(workers, most), memory_bytes
        self._most_rows = max(memory_bytes // (2 * self._workers * BYTES_PER_ROW), FEWEST_ROWS)
        self._work = work
        self._record = None if record is None else record_of(record, plan, source, rng=rng)
        self._log: ReleaseLog | None = None
        self._released: Places | None = None
        self._reporting: dict[int, Words] = {}

    def finish(self) -> None:
        """Call it when the results are in their place: the log goes, a record is put in order."""
        if self._work is not None:
            ReleaseLog(self._work, "").remove()
        if self._record is not None:
            # Opened again: what was drawn is what the disk holds.
            record = record_of(self._record.folder, self._plan, self._source, rng=self._rng)
            with record:
                record.keep(getattr(self._source, "files", None))

    def _estimate(self) -> list[RoundResult]:
        # Which groups a round has follows from all that report: nothing is final before the end.
        work = None if self._plan.graph is not None else self._work
        self._key = RunKey.draw_key(self._rng)
        total, before = None, 0
        own = (
            None
            if work is None
            else ReleaseLog(work, fingerprint(self._plan, self._source, rng=self._rng))
        )
        with self._record or own or nullcontext() as log:
            if log is not None and log.parts:
                self.resumed, total = log.parts, log.released
                self._released = np.array(sorted(total.rounds), dtype=np.int64)
                if log is self._record:
                    before = total.tally.rows
                    self._leave_out(self._released)
            self._log = log
            for part in self._parts():
                total = part if total is None else total.add(part)
            found = total or PartResult()
            self.notes = self._source.notes
            # Checked while the log is open: a table that is refused leaves none behind.
            bad = self._source.bad
            if isinstance(self._source, ParquetSource):
                bad += len(self._source.skipped)
                check_all_read(self._source, found.tally.rows - before)
            self._check_some(self._source, found.tally)
        results, self.devices = found.results, found.devices
        if self._plan.graph is not None:
            results = regroup(self._plan.graph, results, self._reporting)
        epsilon = self._plan.randomizer.budgets[-1]
        self.summary = found.devices.summary(
            found.tally, rounds=len(results), epsilon=epsilon, bad_files=bad
        )
        return sorted(results, key=lambda result: (result.round or 0, result.label or ""))

    def _leave_out(self, rounds: Places) -> None:
        """See to it that rows of rounds which a record has are not missed."""
        if isinstance(self._source, ParquetSource):
            self.left_out = self._source.leave_out(rounds, self._plan.interval_ms or 1)

    def _chunks(self) -> Iterator[Chunk]:
        """Yield all rows, and count those that a record has."""
        for chunk in self._source.chunks():
            if self._record is not None and self._released is not None:
                self.left_out += chunk.count_in(self._released, self._plan.interval_ms or 1)
            yield chunk

    def _parts(self) -> Iterator[PartResult]:
        """Read the whole table, and yield what comes of its parts."""
        few, source = min(_ONE_PART_ROWS, self._most_rows), self._source
        is_parquet = isinstance(source, ParquetSource)
        chunks = source.chunks() if is_parquet else self._chunks()
        if isinstance(source, ParquetSource) and source.rows > few:
            groups = yield from self._in_one_pass(source)
            if not groups:
                return
            parts = cut(groups, self._plan.interval_ms, most_rows=self._most_rows)
            if parts is not None:
                yield from self._each(parts, self._from_files)
                return
            chunks = source.read(groups)
        held, count = [], 0
        for chunk in chunks:
            held.append(chunk.keyed(self._key, self._plan, released=self._released))
            count += len(chunk.time_ms)
            self._on_progress("read", source.share_read)
            if count > few:
                yield from self._through_store(held, chunks)
                return
        if held:
            rows = held[0] if len(held) == 1 else KeyedRows.joined(held)
            held.clear()
            yield self._draw_part([rows])

    def _in_one_pass(
        self, source: ParquetSource
    ) -> Generator[PartResult, None, Sequence[RowGroup]]:
        """Yield what comes of a table in one pass, and return the row groups this leaves."""
        stream = self._stream(source)
        if stream is None:
            return source.groups
        drawn = set[int]() if self._released is None else set(self._released.tolist())
        for part in stream.parts(lambda share: self._on_progress("read", share)):
            drawn |= part.rounds
            yield self._log_part(part)
        self._released = np.array(sorted(drawn), dtype=np.int64)
        return stream.left

    def _stream(self, source: ParquetSource) -> Stream | None:
        """Return how to read a table in one pass; None where that takes too much memory."""
        plan = self._plan
        if (plan.budgets, plan.graph, plan.labels) != (None, None, None):
            return None
        layout = layout_of(
            source.groups,
            plan.interval_ms,
            ahead=self._workers + 1,
            most_bytes=self._memory_bytes // 3,
        )
        if layout is None:
            return None
        return Stream(
            source,
            plan,
            key=self._key,
            layout=layout,
            workers=self._workers,
            most_bytes=self._memory_bytes // 3,
            released=self._released,
        )

    def _through_store(
        self, held: list[KeyedRows], chunks: Iterator[Chunk]
    ) -> Iterator[PartResult]:
        """Sort the rows of a large table by their rounds, and yield what comes of these."""
        with RowStore(
            self._memory_bytes // 8,
            interval_ms=self._plan.interval_ms,
            has_budgets=self._plan.budgets is not None,
            has_labels=self._plan.labels is not None,
            folder=None if self._log is None else self._log.folder,
        ) as store:
            held.reverse()
            while held:
                store.add(held.pop())
            for chunk in chunks:
                store.add(chunk.keyed(self._key, self._plan, released=self._released))
                self._on_progress("read", self._source.share_read)
            yield from self._each(range(PARTITIONS), partial(self._from_store, store))
            self.spilled_bytes = store.spilled_bytes

    def _each(
        self, parts: Sequence[Any], work: Callable[[Any], PartResult]
    ) -> Iterator[PartResult]:
        """Yield what the threads make of parts, as they end; a few are under way at a time."""
        waiting = list(parts)[::-1]
        under_way: set[Future[PartResult]] = set()
        with ThreadPoolExecutor(self._workers) as pool:
            try:
                while waiting or under_way:
                    # glibc keeps what each thread freed: peaks would depend on who did what when.
                    pa.system_memory_pool().release_unused()
                    while waiting and len(under_way) < self._workers:
                        under_way.add(pool.submit(work, waiting.pop()))
                    done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                    for one in done:
                        yield one.result()
                        left = len(waiting) + len(under_way)
                        self._on_progress("read", 1 - left / len(parts))
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

        return self._draw_part(rows_of(number) for number in range(part.slices))

    def _from_store(self, store: RowStore, number: int) -> PartResult:
        slices = -(-store.sizes()[number] // self._most_rows) or 1
        part = self._draw_part(store.take(number, part=one, slices=slices) for one in range(slices))
        store.drop(number)
        return part

    def _draw_part(self, slices: Iterable[KeyedRows]) -> PartResult:
        """Draw, count and estimate whole rounds, whose rows come in slices of their devices."""
        plan, parts, rounds, devices = self._plan, list[Drawn](), set[int](), DeviceCounts()
        for rows in slices:
            drawn = draw(plan, Collected.of(plan, rows), key=self._key)
            devices.add(drawn.devices)
            parts.append(replace(drawn, devices=DeviceCounts()))
            rounds.update((rows.null_ms // (plan.interval_ms or 1)).tolist())
        drawn = parts[0] if len(parts) == 1 else Drawn.joined(parts)
        results = estimate_rounds(plan, drawn, key=self._key)
        if drawn.reporting is not None:
            self._reporting |= zip(drawn.rounds.tolist(), drawn.reporting, strict=True)
        silent = rounds.difference(result.round or 0 for result in results)
        return self._log_part(PartResult(results, drawn.tally, devices, silent))

    def _log_part(self, part: PartResult) -> PartResult:
        """Return a part when the release log has it."""
        if self._log is not None and part.tally.rows:
            self._log.write(part)
        return part

    def _learn(self, feedback: RangeFeedback) -> Iterator[RoundResult]:
        """The readings of the table: choices follow from released rounds, one by one."""
        self._key = RunKey.draw_key(self._rng)
        parts = []
        for chunk in self._source.chunks():
            parts.append(chunk.keyed(self._key, self._plan))
            self._on_progress("read", self._source.share_read)
        self.notes = self._source.notes
        readings = sum(len(part.time_ms) for part in parts)
        nulls = sum(len(part.null_ms) for part in parts)
        self._source.check_some(readings + nulls, readings)
        held = Collected.of(self._plan, KeyedRows.joined(parts)).in_order()
        tally, devices, count = held.tally, DeviceCounts(), 0

        def drawn_of(numbers: list[int], randomizer_of: Callable[[int], Any]) -> Drawn:
            some = held.between(numbers[0], numbers[-1])
            return draw(self._plan, some, key=self._key, randomizer_of=randomizer_of)

        numbers = np.unique(held.some.round).tolist()
        for drawn, results in feedback_rounds(
            self._plan, feedback, numbers, drawn_of=drawn_of, key=self._key
        ):
            tally, count = tally + drawn.tally, count + len(results)
            devices.add(drawn.devices)
            self.summary = devices.summary(
                tally,
                rounds=count,
                epsilon=feedback.epsilon,
                bad_files=self._source.bad,
            )
            yield from results


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


def check_all_read(source: ParquetSource, rows: int) -> None:
    """Refuse results of a table of which some rows were not found."""
    if rows != source.rows:
        raise DataError(
            f"{source.place} has {source.rows} rows, but {rows} lie where the footers say; "
            "write the files again with a current Parquet library."
        )
