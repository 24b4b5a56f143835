"""Run a job on a Spark cluster: tasks read and draw pieces, and estimate buckets.

The driver reads footers and plans; tasks read their row groups by pyarrow, draw, and emit packed
reports, which Spark groups by bucket. Noise and order are functions of run key, round and device,
so a task that Spark repeats draws nothing new. The key travels in tasks alone and ends with them.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

from rase.engine.buckets import Outcome, Progress, check_all_read, check_zones
from rase.engine.footers import row_groups
from rase.engine.groups import GraphGroups
from rase.engine.job import Job
from rase.engine.kernel import Kernel
from rase.engine.pieces import Plan, plan_pieces
from rase.engine.spark_session import in_words, opened_session
from rase.engine.spark_steps import Steps, Told, piece_table
from rase.engine.tally import RunSummary, Tally
from rase.errors import ConfigurationError, DataError, StorageUnusable
from rase.estimate.tracker import Tracker
from rase.kernels.keyed import RunKey
from rase.kernels.words import Random
from rase.pipeline import RoundResult
from rase.pipeline.keyed import is_counted

__all__ = ["SparkRun", "run_spark"]

_PIECE_BYTES = 1 << 30
_BYTES_PER_ROW = 160
_FEWEST_ROWS = 1 << 16
_MOST_PARTITIONS = 4096
_ALONE = 64
_MOST_DEVICE_BITS = 8
# Beyond 1 MiB PySpark writes a task's function to a file, and this one holds the key.
_MOST_CLOSURE = 900_000

_SENT = "kind int, number long, shard int, reports binary, tally binary"
_TOLD = "kind int, number long, told binary"


def run_spark(
    job: Job,
    *,
    master: str = "",
    session: Any = None,
    rng: Random | None = None,
    workers: int | None = None,
    memory_bytes: int | None = None,
    on_progress: Progress | None = None,
) -> "SparkRun":
    """Run a job on a Spark cluster.

    Args:
        job: What to do; the table must be Parquet that every executor can read.
        master: Where the cluster is: ``local[2]``, ``spark://host:7077``, ``yarn``, ``k8s://...``,
            or ``sc://host`` for Spark Connect.
        session: A session of one's own instead, which stays open.
        rng: None for secure randomness; a `SeededRandom` for study.
        workers: How many executors; what the cluster's settings say if None.
        memory_bytes: About how much memory a task may use; 1 GiB if None.
        on_progress: Called with what is done and the share of it.

    Returns:
        The results, to be iterated once. Nothing comes before every row has been checked.

    Raises:
        ValueError: If neither or both of ``master`` and ``session`` are given, or a number is
            below 1.
    """
    if bool(master) == (session is not None):
        raise ValueError("run_spark must be given a master or a session, and not both.")
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}.")
    if memory_bytes is not None and memory_bytes < 1:
        raise ValueError(f"memory_bytes must be at least 1, got {memory_bytes}.")
    return SparkRun(
        job,
        master=master,
        session=session,
        rng=rng,
        workers=workers,
        memory_bytes=memory_bytes or _PIECE_BYTES,
        on_progress=on_progress or (lambda _what, _share: None),
    )


class SparkRun:
    """One run of a job; made by `run_spark`. Iterate it once.

    Attributes:
        notes: How the columns were understood; complete when all rounds have been taken.
    """

    def __init__(
        self,
        job: Job,
        *,
        master: str,
        session: Any,
        rng: Random | None,
        workers: int | None,
        memory_bytes: int,
        on_progress: Progress,
    ) -> None:
        self.notes: list[str] = []
        self._job = job
        self._master = master
        self._session = session
        self._rng = rng
        self._workers = workers
        self._memory_bytes = memory_bytes
        self._on_progress = on_progress
        self._summary = Tally().summary(rounds=0, epsilon=0.0)
        self._results = self._run()

    def __iter__(self) -> Iterator[RoundResult]:
        """Return the one iterator over the rounds, in the order of time."""
        return self._results

    @property
    def summary(self) -> RunSummary:
        """What the run read, changed and spent; complete when all rounds have been taken."""
        return self._summary

    def finish(self) -> None:
        """Do nothing: an interrupted run released nothing, and left nothing."""

    def _run(self) -> Iterator[RoundResult]:
        results = self._outcome()
        tracker = Tracker(self._job.randomizer.value_range)
        for result in results:
            yield result.tracked(tracker)

    def _outcome(self) -> list[RoundResult]:
        job = self._job
        _check(job)
        groups, bad = row_groups(job.source)
        most_rows = max(self._memory_bytes // (2 * _BYTES_PER_ROW), _FEWEST_ROWS)
        plan = plan_pieces(groups, job.interval_ms, most_rows=most_rows)
        self._on_progress("sent to Spark", 0.0)
        with self._opened() as session, in_words(self._master):
            told = self._told(session, plan)
        self._on_progress("drawn", 1.0)
        skipped = {tuple(place) for place in told.reading["skipped"]}
        outcome = Outcome(
            results=sorted(told.results, key=lambda result: result.round or 0),
            tally=told.tally,
            bad=len(bad) + len(job.source.bad) + len(skipped),
            notes=told.reading["notes"],
        )
        rows = sum(group.rows for group in groups if (group.file, group.number) not in skipped)
        check_all_read(job, outcome, rows)
        self.notes = outcome.notes
        summary = outcome.tally.summary(
            rounds=len(outcome.results), epsilon=job.epsilon, bad_files=outcome.bad
        )
        self._summary = replace(
            summary,
            devices=told.devices,
            most_reports=told.most_reports,
            most_epsilon=told.most_reports * job.epsilon,
        )
        return outcome.results

    def _opened(self) -> AbstractContextManager[Any]:
        if self._session is not None:
            return nullcontext(self._session)
        return opened_session(self._master, workers=self._workers)

    def _told(self, session: Any, plan: Plan) -> Told:
        job = self._job
        kernel = Kernel(
            job.pipeline,
            job.interval_ms,
            plan.bucket_rounds,
            truth=job.truth,
            has_groups=job.graph is not None,
            # Shufflers that start from the order of arrival need a round at once.
            shards=plan.shards if is_counted(job.pipeline) and job.graph is None else 1,
        )
        # Counts of devices take 16 bytes: those of four pieces are as much as a bucket.
        bits = min((max(len(plan.pieces) - 1, 0) // 4).bit_length(), _MOST_DEVICE_BITS)
        steps = Steps(kernel=kernel, key=_drawn_key(self._rng), device_bits=bits)
        if job.graph is not None:
            # Who reports is known when all is drawn; drawn again, it is the same.
            found = _checked(job, _ran(session, job, plan, replace(steps, lists_devices=True)))
            groups: GraphGroups = job.graph.groups(found.all_devices)
            steps = replace(steps, groups=groups)
        return _checked(job, _ran(session, job, plan, steps))


def _ran(session: Any, job: Job, plan: Plan, steps: Steps) -> Told:
    """Run both steps over all pieces and return what came of them."""

    def draw(batches: Iterator[Any]) -> Iterator[Any]:
        return steps.draw(batches)

    def gather(batches: Iterator[Any]) -> Iterator[Any]:
        return steps.each(steps.gather, batches, by=("kind", "number", "shard"))

    def estimate(batches: Iterator[Any]) -> Iterator[Any]:
        return steps.each(steps.estimate, batches, by=("kind", "number"))

    for step in (draw, gather, estimate):
        _check_closure(step)
    pieces = piece_table(job.source, plan.pieces)
    buckets = {number for piece in plan.pieces for number in piece.buckets}
    groups = max(buckets) - min(buckets) + 2 + (1 << steps.device_bits)
    # Each task costs some time of its own: where there are many groups, two share one.
    parts = min(max(min(groups, _ALONE), groups // 2), _MOST_PARTITIONS)
    # Dealt out from one partition, so that each task has one piece.
    table = session.createDataFrame(pieces, schema="piece binary")
    sent = table.coalesce(1).repartition(len(pieces)).mapInArrow(draw, _SENT)
    if steps.kernel.shards > 1:
        # No executor holds a whole round: shards are gathered in tasks of their own.
        sent = sent.repartition(parts, "kind", "number", "shard").mapInArrow(gather, _SENT)
    # Spark joins no small partitions where their number is given: each is costly work.
    told = sent.repartition(parts, "kind", "number").mapInArrow(estimate, _TOLD)
    return Told.of(told.toArrow(), lists_devices=steps.lists_devices)


def _checked(job: Job, told: Told) -> Told:
    """Refuse what executors refused."""
    if told.refusal is not None:
        raise DataError(told.refusal)
    check_zones(job.source, set(told.reading["zones"]))
    return told


def _check(job: Job) -> None:
    """Refuse what cannot be run on a cluster."""
    if job.source.kind == "csv":
        raise DataError(
            f"{job.source.place} is text, which is read as one stream and cannot be shared among "
            "executors; write it as Parquet, or use --engine local."
        )
    if job.work is not None and job.work.exists():
        raise StorageUnusable(
            f"{job.work} holds an interrupted run on this machine, whose readings must not be "
            "drawn again; finish it with --engine local, give another --out, or remove the folder."
        )


def _check_closure(step: Any) -> None:
    """Refuse a task that PySpark would write to a disk, with the key in it."""
    from pyspark.cloudpickle import dumps

    size = len(dumps(step))
    if size > _MOST_CLOSURE:
        words = f"a task must be smaller than {_MOST_CLOSURE} bytes, got {size}, because of the "
        raise ConfigurationError([f"{words}real groups; use --engine local."])


def _drawn_key(rng: Random | None) -> RunKey:
    return RunKey.drawn(rng)
