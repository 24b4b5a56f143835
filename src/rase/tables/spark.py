"""Run a table on a Spark cluster: tasks read parts, draw, count and estimate whole rounds.

The driver reads footers and cuts the table; tasks read their row groups by pyarrow. What comes back
are results of rounds and counts, never a reading. Noise is a function of run key, round, device and
reading, so a task that Spark repeats draws nothing new. The key travels in tasks alone and ends
with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rase.errors import ConfigurationError, DataError, StorageUnusable
from rase.kernels.keyed import RunKey
from rase.tables.feedback import RangeFeedback, feedback_rounds
from rase.tables.parquet import ParquetSource
from rase.tables.parts import Part, cut_anyway
from rase.tables.rounds import Drawn
from rase.tables.run import (
    BYTES_PER_ROW,
    FEWEST_ROWS,
    Progress,
    TableRun,
    check_all_read,
    regroup,
)
from rase.tables.source import TableSource, open_source
from rase.tables.spark_session import in_words, opened_session
from rase.tables.spark_steps import Answer, Steps, Want, part_table
from rase.tables.summary import DeviceCounts, Tally

if TYPE_CHECKING:
    from rase.kernels.words import Random
    from rase.laws.randomizer import RangeRandomizer
    from rase.series.rounds import RoundResult
    from rase.tables.plan import RunPlan

__all__ = ["SparkRun", "names_on_spark", "run_on_spark"]

_PART_BYTES = 1 << 30
_MOST_DEVICE_BITS = 8
_MOST_PARTITIONS = 4096
# Beyond 1 MiB PySpark writes a task's function to a file, and this one holds the key.
_MOST_CLOSURE = 900_000

_SENT = "kind int, number long, content binary"


def run_on_spark(
    table: Any,
    plan: RunPlan,
    *,
    master: str = "",
    session: Any = None,
    rng: Random | None = None,
    workers: int | None = None,
    memory_bytes: int | None = None,
    work: Path | None = None,
    on_progress: Progress | None = None,
) -> SparkRun:
    """Run a table on a Spark cluster.

    Args:
        table: Parquet files that every executor can read: a path, a glob, or files that were found.
        plan: What to do.
        master: Where the cluster is: ``local[2]``, ``spark://host:7077``, ``yarn``, ``k8s://...``,
            or ``sc://host`` for Spark Connect.
        session: A session of one's own instead, which stays open.
        rng: None for secure randomness; a `SeededRandom` for study.
        workers: How many executors; what the cluster's settings say if None.
        memory_bytes: About how much memory a task may use; 1 GiB if None.
        work: Where an interrupted run on one machine would have kept its results: such a run must
            be finished there.
        on_progress: Called with what is done and the share of it.

    Returns:
        The results, to be iterated once. Nothing comes before every row has been checked.

    Raises:
        DataError: If the table is not Parquet.
        StorageUnusable: If an interrupted run on this machine must be finished first.
        ValueError: If neither or both of ``master`` and ``session`` are given, or a number is
            below 1.
    """
    if bool(master) == (session is not None):
        raise ValueError("run_on_spark must be given a master or a session, and not both.")
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}.")
    if memory_bytes is not None and memory_bytes < 1:
        raise ValueError(f"memory_bytes must be at least 1, got {memory_bytes}.")
    if work is not None and work.exists():
        raise StorageUnusable(
            f"{work} holds an interrupted run on this machine, whose readings must not be drawn "
            "again; finish it with --engine local, give another --out, or remove the folder."
        )
    source = _checked(open_source(table))
    source.expect(plan.categories)
    return SparkRun(
        source,
        plan,
        cluster=_Cluster(master, session, workers),
        rng=rng,
        memory_bytes=memory_bytes or _PART_BYTES,
        on_progress=on_progress,
    )


def names_on_spark(table: Any, *, master: str, workers: int | None = None) -> set[str]:
    """Return the names of a table's devices, found by the executors.

    Raises:
        DataError: If the table is not Parquet, or a row cannot be used.
    """
    source = _checked(open_source(table))
    parts = cut_anyway(source.groups, None, most_rows=_PART_BYTES // BYTES_PER_ROW)
    steps = Steps(Want.NAMES, plan=None, key=None, categories=source.categories)
    with _Cluster(master, None, workers).opened() as session, in_words(master):
        return _ran(session, source, parts, steps).names


def _checked(source: TableSource) -> ParquetSource:
    if not isinstance(source, ParquetSource):
        raise DataError(
            f"{source.place} is not Parquet with a column each of times, devices and readings, and "
            "cannot be shared among executors; write it so, or use --engine local."
        )
    # Executors work in folders of their own.
    source.files = source.files.absolute()
    return source


class _Cluster:
    """Where the work is done."""

    def __init__(self, master: str, session: Any, workers: int | None) -> None:
        self.master, self._session, self._workers = master, session, workers

    def opened(self) -> AbstractContextManager[Any]:
        """Open a session, or pass on the one that is open."""
        if self._session is not None:
            return nullcontext(self._session)
        return opened_session(self.master, workers=self._workers)


class SparkRun(TableRun):
    """A run on a cluster; made by `run_on_spark`."""

    def __init__(
        self,
        source: ParquetSource,
        plan: RunPlan,
        *,
        cluster: _Cluster,
        rng: Random | None,
        memory_bytes: int,
        on_progress: Progress | None,
    ) -> None:
        super().__init__(plan, rng, on_progress)
        self._source, self._cluster = source, cluster
        most_rows = max(memory_bytes // (2 * BYTES_PER_ROW), FEWEST_ROWS)
        self._parts = cut_anyway(source.groups, plan.interval_ms, most_rows=most_rows)

    def _estimate(self) -> list[RoundResult]:
        steps = Steps(
            Want.RESULTS,
            plan=self._plan,
            key=RunKey.draw_key(self._rng),
            device_bits=self._device_bits,
            categories=self._plan.categories,
        )
        self._on_progress("sent to Spark", 0.0)
        with self._cluster.opened() as session, in_words(self._cluster.master):
            answer = _ran(session, self._source, self._parts, steps)
        self._on_progress("drawn", 1.0)
        self._take_notes(answer)
        results = answer.part.results
        if self._plan.graph is not None:
            results = regroup(self._plan.graph, results, answer.reporting)
        check_all_read(self._source, answer.part.tally.rows)
        tally = answer.part.tally
        self._source.check_some(tally.rows, tally.rows - tally.nulls)
        self._sum_up(answer, rounds=len(results))
        return sorted(results, key=lambda result: result.round or 0)

    def _learn(self, feedback: RangeFeedback) -> Iterator[RoundResult]:
        """Run stage by stage: each is a job over the parts that hold its rounds."""
        key = RunKey.draw_key(self._rng)
        with self._cluster.opened() as session, in_words(self._cluster.master):
            first = _ran(
                session, self._source, self._parts, Steps(Want.ROUNDS, plan=self._plan, key=key)
            )
            self._take_notes(first)
            numbers = sorted(first.rounds)
            tally, devices = first.part.tally, DeviceCounts()
            self._source.check_some(tally.rows, tally.rows - tally.nulls)

            def drawn_of(
                rounds: list[int], randomizer_of: Callable[[int], RangeRandomizer]
            ) -> Drawn:
                steps = Steps(
                    Want.COUNTS,
                    plan=self._plan,
                    key=key,
                    randomizers={number: randomizer_of(number) for number in rounds},
                )
                span = rounds[0], rounds[-1] + 1
                some = [
                    replace(part, rounds=(max(first, span[0]), min(behind, span[1])))
                    for part in self._parts
                    for first, behind in [part.rounds]
                    if first < span[1] and behind > span[0]
                ]
                return Drawn.joined(_ran(session, self._source, some, steps).drawn)

            count = 0
            for drawn, results in feedback_rounds(
                self._plan, feedback, numbers, drawn_of=drawn_of, key=key
            ):
                tally += Tally(reports=drawn.tally.reports, clipped=drawn.tally.clipped)
                devices.add(drawn.devices)
                count += len(results)
                self.summary = devices.summary(
                    tally,
                    rounds=count,
                    epsilon=self._plan.randomizer.budgets[-1],
                    bad_files=self._bad,
                )
                self._on_progress("drawn", count / len(numbers))
                yield from results

    @property
    def _device_bits(self) -> int:
        # Counts of devices take 16 bytes: those of four parts are as much as a part's reports.
        return min((max(len(self._parts) - 1, 0) // 4).bit_length(), _MOST_DEVICE_BITS)

    @property
    def _bad(self) -> int:
        return self._source.bad + len(self._source.skipped)

    def _take_notes(self, answer: Answer) -> None:
        if answer.refusal is not None:
            raise DataError(answer.refusal)
        if len(answer.zones) > 1:
            raise DataError(
                f"column {self._source.columns.time!r} mixes times with and without a zone; write "
                "all of them in one way, such as 2024-05-31T18:00:00Z."
            )
        self._source.skipped |= answer.skipped
        self.notes = answer.notes

    def _sum_up(self, answer: Answer, *, rounds: int) -> None:
        epsilon = self._plan.randomizer.budgets[-1]
        self.summary = answer.part.devices.summary(
            answer.part.tally, rounds=rounds, epsilon=epsilon, bad_files=self._bad
        )
        if self._device_bits:
            # Counted by the executors: only how many there are came back.
            spent = answer.most_reports * epsilon
            self.summary = replace(
                self.summary,
                devices=answer.devices,
                most_reports=answer.most_reports,
                most_epsilon=spent if self._plan.budgets is None else answer.most_epsilon,
            )


def _ran(session: Any, source: ParquetSource, parts: list[Part], steps: Steps) -> Answer:
    """Run a step over parts and return what came of it."""

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        return steps.work(batches)

    def reduce(batches: Iterator[Any]) -> Iterator[Any]:
        return steps.reduce(batches)

    for step in (work, reduce):
        _check_closure(step)
    tasks = part_table(source.files, parts)
    # Dealt out from one partition, so that each task has one part.
    table = session.createDataFrame(tasks, schema="part binary")
    sent = table.coalesce(1).repartition(len(tasks)).mapInArrow(work, _SENT)
    if steps.device_bits:
        # Nobody holds the counts of all devices: prefixes of them have tasks of their own.
        count = min(len(tasks) + (1 << steps.device_bits), _MOST_PARTITIONS)
        sent = sent.repartition(count, "kind", "number").mapInArrow(reduce, _SENT)
    return Answer.of(sent.toArrow(), parts=len(tasks))


def _check_closure(step: Any) -> None:
    """Refuse a task that PySpark would write to a disk, with the key in it."""
    from pyspark.cloudpickle import dumps

    size = len(dumps(step))
    if size > _MOST_CLOSURE:
        words = f"a task must be smaller than {_MOST_CLOSURE} bytes, got {size}, because of the "
        raise ConfigurationError([f"{words}budgets or the real groups; use --engine local."])
