"""Run a table on a Spark cluster: tasks read parts, draw, count and estimate whole rounds.

The driver reads footers and cuts the table; tasks read their row groups by pyarrow. What comes back
are results of rounds and counts, never a reading. Noise is a function of run key, round, device and
reading, so a task that Spark repeats draws nothing new. The key travels in tasks alone and ends
with them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from rase.errors import ConfigurationError, DataError, StorageUnusable
from rase.kernels.keyed import RunKey
from rase.tables.feedback import RangeFeedback, feedback_rounds
from rase.tables.files import CATALOGUE, Files, find_files
from rase.tables.layouts import Columns
from rase.tables.parquet import ParquetSource
from rase.tables.parts import Part, cut_anyway
from rase.tables.record import fingerprint
from rase.tables.release_log import ReleaseLog
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
    from rase.tables.files import Files
    from rase.tables.plan import RunPlan

__all__ = [
    "SparkRun",
    "files_of_table",
    "find_on_spark",
    "names_on_spark",
    "run_on_spark",
]

_PART_BYTES = 1 << 30
_MOST_DEVICE_BITS = 8
_MOST_PARTITIONS = 4096
# Beyond 1 MiB PySpark writes a task's function to a file, and this one holds the key.
_MOST_CLOSURE = 900_000

# So many parts are asked for together where results are kept on the way.
_WAVE_PARTS = 64
_MOST_WAVES = 16

_SENT = "kind int, number long, content binary"
_NAME = re.compile(r"\w+(\.\w+){0,2}")


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
        table: Parquet files that every executor can read: a path, a glob, files that were found, or
            the name of a table in the cluster's catalogue, as ``table:meters.readings``.
        plan: What to do.
        master: Where the cluster is: ``local[2]``, ``spark://host:7077``, ``yarn``, ``k8s://...``,
            or ``sc://host`` for Spark Connect.
        session: A session of one's own instead, which stays open.
        rng: None for secure randomness; a `SeededRandom` for study.
        workers: How many executors; what the cluster's settings say if None.
        memory_bytes: About how much memory a task may use; 1 GiB if None.
        work: A folder of the driver where results are kept until all are there, so that an
            interrupted run can go on; None to keep nothing.
        on_progress: Called with what is done and the share of it.

    Returns:
        The results, to be iterated once. Nothing comes before every row has been checked.

    Raises:
        DataError: If the table is not Parquet.
        StorageUnusable: If ``work`` holds an interrupted run of another kind.
        ValueError: If neither or both of ``master`` and ``session`` are given, or a number is
            below 1.
    """
    if bool(master) == (session is not None):
        raise ValueError("run_on_spark must be given a master or a session, and not both.")
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}.")
    if memory_bytes is not None and memory_bytes < 1:
        raise ValueError(f"memory_bytes must be at least 1, got {memory_bytes}.")
    cluster = _Cluster(master, session, workers)
    if isinstance(table, str) and table.startswith(CATALOGUE):
        table = cluster.find_table(table)
    source = _checked(open_source(table))
    source.expect(plan.categories)
    # What could not be read is known of one run only, and groups follow from all rounds.
    keeps = (plan.graph, plan.feedback) == (None, None) and not source.files.skips_bad
    if work is not None and work.exists() and not keeps:
        raise StorageUnusable(
            f"{work} holds an interrupted run, whose readings must not be drawn again; give the "
            "same command to finish it, give another --out, or remove the folder."
        )
    return SparkRun(
        source,
        plan,
        cluster=cluster,
        rng=rng,
        memory_bytes=memory_bytes or _PART_BYTES,
        work=work if keeps else None,
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

    def find_table(self, name: str, **settings: Any) -> Files:
        """Return the files of a table that the cluster's catalogue knows."""
        with self.opened() as session, in_words(self.master):
            return files_of_table(session, name, **settings)


def find_on_spark(name: str, *, master: str, workers: int | None = None, **settings: Any) -> Files:
    """Return the files of a table that a cluster's catalogue knows.

    Raises:
        DataError: If there is no such table, or its files are not its rows.
    """
    return _Cluster(master, None, workers).find_table(name, **settings)


class SparkRun(TableRun):
    """A run on a cluster; made by `run_on_spark`.

    Attributes:
        resumed: How many parts were taken from an interrupted run.
    """

    def __init__(
        self,
        source: ParquetSource,
        plan: RunPlan,
        *,
        cluster: _Cluster,
        rng: Random | None,
        memory_bytes: int,
        work: Path | None,
        on_progress: Progress | None,
    ) -> None:
        super().__init__(plan, rng, on_progress)
        self._source, self._cluster, self._work = source, cluster, work
        self.resumed = 0
        most_rows = max(memory_bytes // (2 * BYTES_PER_ROW), FEWEST_ROWS)
        self._parts = cut_anyway(source.groups, plan.interval_ms, most_rows=most_rows)

    def finish(self) -> None:
        """Take the release log away: call it when the results are where they should be."""
        if self._work is not None:
            ReleaseLog(self._work, "").remove()

    def _estimate(self) -> list[RoundResult]:
        log = self._log()
        answer, left = Answer(), self._parts
        with nullcontext() if log is None else log:
            if log is not None and log.parts:
                answer.part = log.released
                left = [part for part in left if part.rounds[0] not in answer.part.silent]
                self.resumed = len(self._parts) - len(left)
            self._ask(answer, left, log)
            check_all_read(self._source, answer.part.tally.rows)
            self._check_some(self._source, answer.part.tally)
        results, self.devices = answer.part.results, answer.part.devices
        if self._plan.graph is not None:
            results = regroup(self._plan.graph, results, answer.reporting)
        self._sum_up(answer, rounds=len(results))
        return sorted(results, key=lambda result: result.round or 0)

    def _log(self) -> ReleaseLog | None:
        if self._work is None:
            return None
        spans = [part.rounds for part in self._parts]
        about = f"{fingerprint(self._plan, self._source, rng=self._rng)} on Spark: {spans}"
        return ReleaseLog(self._work, hashlib.sha256(about.encode()).hexdigest())

    def _ask(self, answer: Answer, parts: Sequence[Part], log: ReleaseLog | None) -> None:
        """Take in what comes of parts; with a log a wave of them at a time."""
        steps = Steps(
            Want.RESULTS,
            plan=self._plan,
            key=RunKey.draw_key(self._rng),
            device_bits=self._device_bits,
            sends_devices=log is not None or self._plan.turn is not None,
            categories=self._plan.categories,
        )
        count = len(parts) if log is None else max(_WAVE_PARTS, -(-len(parts) // _MOST_WAVES))
        self._on_progress("sent to Spark", 0.0)
        if not parts:
            return
        with self._cluster.opened() as session, in_words(self._cluster.master):
            for start in range(0, len(parts), count):
                wave = list(parts[start : start + count])
                found = _ran(session, self._source, wave, steps)
                self._take_notes(found)
                if log is not None:
                    # A part is known to be done by its first round.
                    found.part.silent |= {part.rounds[0] for part in wave}
                    log.write(found.part)
                answer.add(found)
                self._on_progress("drawn", (start + len(wave)) / len(parts))

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
        self.notes += [note for note in answer.notes if note not in self.notes]

    def _sum_up(self, answer: Answer, *, rounds: int) -> None:
        epsilon = self._plan.randomizer.budgets[-1]
        self.summary = answer.part.devices.summary(
            answer.part.tally, rounds=rounds, epsilon=epsilon, bad_files=self._bad
        )
        if answer.devices:
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


def files_of_table(
    session: Any, name: str, *, columns: Columns | None = None, skips_bad: bool = False
) -> Files:
    """Return the files of a table by its name in the catalogue.

    Args:
        session: A session of the cluster.
        name: The name, as ``table:meters.readings``.
        columns: How the columns are called.
        skips_bad: Whether files that are no tables are left out and counted.

    Raises:
        DataError: If there is no such table, or its files are not its rows.
    """
    from pyspark.errors import AnalysisException

    known = name.removeprefix(CATALOGUE)
    if not _NAME.fullmatch(known):
        raise DataError(f"{name} must be {CATALOGUE} and a name such as meters.readings.")
    try:
        is_view = session.catalog.getTable(known).tableType in ("VIEW", "TEMPORARY")
        described = session.sql(f"DESCRIBE TABLE EXTENDED {known}").collect()
        paths = [] if is_view else sorted(session.read.table(known).inputFiles())
    except AnalysisException as error:
        raise DataError(
            f"Spark's catalogue has no table {known} that can be read; SHOW TABLES lists them."
        ) from error
    about = {row["col_name"]: row["data_type"] for row in described}
    kind = "a view" if is_view else f"of {about.get('Provider', 'an unknown format')}"
    if kind != "of parquet":
        raise DataError(
            f"the table {known} is {kind}, and only files of parquet are its rows as they are; "
            "give the folder of a Delta table instead, or write its rows as a table of parquet."
        )
    if not paths:
        raise DataError(f"the table {known} holds no rows; give one with at least one reading.")
    return find_files(
        _address(about["Location"]),
        columns=columns,
        skips_bad=skips_bad,
        paths=[_address(path) for path in paths],
    )


def _address(address: str) -> str:
    """Return where a file of Spark's is for pyarrow."""
    place = urlsplit(address)
    if place.scheme in ("", "file"):
        return unquote(place.path)
    return address.replace("s3a://", "s3://", 1)
