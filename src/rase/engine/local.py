"""A whole table of readings through the pipeline on one machine, in bounded memory.

Rows → one reading per device and round → noise, once → sorted runs on disk → round by round:
shuffle, estimate. Only randomized reports are ever written; readings pass through memory once.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rase.clock import parse_duration_s
from rase.collect import Collector, Contributions
from rase.engine.runs import ReportRuns
from rase.engine.table import Rows
from rase.estimate.tracker import Tracker
from rase.kernels.words import Random, source_of
from rase.pipeline import Pipeline, RoundResult
from rase.shuffle.shufflers import Shuffler

__all__ = ["RunSummary", "Source", "TableRun", "run_table"]

ShufflerOfRound = Callable[[NDArray[np.int64]], Shuffler]


class Source(Protocol):
    """Whatever yields batches of rows: a `Table`, a synthetic fleet."""

    def batches(self) -> Iterator[Rows]:
        """Yield the rows from the start."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Hold what a run read, changed and spent.

    Args:
        rows: How many rows the table has.
        nulls: How many of them held no reading.
        devices: How many devices reported.
        rounds: How many rounds were released.
        reports: How many reports were drawn.
        clipped: How many readings lay outside the range and were clipped to it.
        most_reports: The most reports of one device.
        most_epsilon: The most any device spent: the sum of the epsilon of its reports.
    """

    rows: int
    nulls: int
    devices: int
    rounds: int
    reports: int
    clipped: int
    most_reports: int
    most_epsilon: float


def run_table(
    source: Source,
    pipeline: Pipeline,
    *,
    every: str | None = None,
    rng: Random | None = None,
    truth: bool = False,
    shuffler_of_round: ShufflerOfRound | None = None,
    memory_bytes: int = 64 << 20,
    on_batch: Callable[[], None] | None = None,
) -> "TableRun":
    """Run a table of readings, round by round.

    Args:
        source: The rows; each device's time goes forward.
        pipeline: What is done with them.
        every: The length of a round, such as ``15min``; None makes each time a round.
        rng: None for secure randomness; a `SeededRandom` for study.
        truth: Whether results shall hold the mean of the readings as measured. Only for the study
            of data one holds anyway; takes memory for each round.
        shuffler_of_round: Gives the shuffler of a round from the codes of those who report in it;
            the pipeline's own if None.
        memory_bytes: How many bytes of reports to hold before they are spilled to disk.
        on_batch: Called after each batch of rows, to show progress.

    Returns:
        The results, to be iterated once: the first asks for the whole table. Nothing is released
        before every row has been checked.

    Raises:
        ValueError: If ``every`` is not a duration.
    """
    return TableRun(
        source,
        pipeline,
        interval_ms=None if every is None else 1000 * parse_duration_s(every),
        rng=source_of(rng),
        truth=truth,
        shuffler_of_round=shuffler_of_round,
        memory_bytes=memory_bytes,
        on_batch=on_batch,
    )


class TableRun:
    """One pass over a table; made by `run_table`.

    Iterate it once: a second pass would draw noise a second time for the same readings.
    """

    def __init__(
        self,
        source: Source,
        pipeline: Pipeline,
        *,
        interval_ms: int | None,
        rng: Random,
        truth: bool,
        shuffler_of_round: ShufflerOfRound | None,
        memory_bytes: int,
        on_batch: Callable[[], None] | None,
    ) -> None:
        self._source = source
        self._pipeline = pipeline
        self._interval_ms = interval_ms
        self._rng = rng
        self._truth = _TrueMeans() if truth else None
        self._shuffler_of_round = shuffler_of_round
        self._memory_bytes = memory_bytes
        self._on_batch = on_batch
        self._collector = Collector(interval_ms)
        self._tracker = Tracker(pipeline.randomizer.value_range)
        self._clipped = 0
        self._rounds = 0
        self._reports_of = np.zeros(0, dtype=np.int64)
        self._results = self._run()

    def __iter__(self) -> Iterator[RoundResult]:
        """Return the one iterator over the rounds, in the order of time."""
        return self._results

    @property
    def summary(self) -> RunSummary:
        """What the run read, changed and spent so far; complete when all rounds have been taken."""
        epsilon = np.asarray(self._pipeline.randomizer.epsilon, dtype=np.float64)
        budgets = epsilon[: len(self._reports_of)] if epsilon.ndim else epsilon
        return RunSummary(
            rows=self._collector.rows,
            nulls=self._collector.nulls,
            devices=int(np.count_nonzero(self._reports_of)),
            rounds=self._rounds,
            reports=int(self._reports_of.sum()),
            clipped=self._clipped,
            most_reports=int(self._reports_of.max(initial=0)),
            most_epsilon=float((self._reports_of * budgets).max(initial=0.0)),
        )

    def _run(self) -> Iterator[RoundResult]:
        with ReportRuns(self._memory_bytes) as runs:
            for rows in self._source.batches():
                self._take(
                    self._collector.add(
                        rows.time_ms, rows.device, value=rows.value, is_valid=rows.is_valid
                    ),
                    runs,
                )
                if self._on_batch is not None:
                    self._on_batch()
            self._take(self._collector.finish(), runs)
            for number, records in runs.rounds():
                self._rounds += 1
                yield self._release(number, records["contributor"], records["report"])

    def _take(self, some: Contributions, runs: ReportRuns) -> None:
        if not len(some):
            return
        public = self._pipeline.randomizer.value_range
        outside = (some.reading < public.low) | (some.reading > public.high)
        self._clipped += int(np.count_nonzero(outside))
        reports_of = np.bincount(some.contributor, minlength=len(self._reports_of))
        reports_of[: len(self._reports_of)] += self._reports_of
        self._reports_of = reports_of
        if self._truth is not None:
            self._truth.add(some.round, some.reading)
        reports = self._pipeline.randomize(
            some.reading, contributors=some.contributor, rng=self._rng
        )
        runs.append(some.round, some.contributor, reports=reports)

    def _release(
        self, number: int, contributors: NDArray[np.int64], reports: NDArray[np.float64]
    ) -> RoundResult:
        pipeline = self._pipeline
        if self._shuffler_of_round is not None:
            pipeline = copy.copy(pipeline)
            pipeline.shuffler = self._shuffler_of_round(contributors)
        return pipeline.release(
            np.ascontiguousarray(reports),
            contributors=contributors,
            round=number,
            start_ms=number * (self._interval_ms or 1),
            truth=None if self._truth is None else self._truth.mean(number),
            tracker=self._tracker,
            rng=self._rng,
        )


class _TrueMeans:
    """Add readings up by round. They are not randomized, so they stay in memory."""

    _PENDING = 1 << 18

    def __init__(self) -> None:
        self._rounds = np.zeros(0, dtype=np.int64)
        self._sums: NDArray[np.float64] = np.zeros(0)
        self._counts: NDArray[np.float64] = np.zeros(0)
        self._waiting: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []
        self._waiting_count = 0

    def add(self, rounds: NDArray[np.int64], readings: NDArray[np.float64]) -> None:
        self._waiting.append((rounds, readings))
        self._waiting_count += len(rounds)
        # Merging costs the length of both lists, so the new one may grow as long as the old.
        if self._waiting_count > max(self._PENDING, len(self._rounds)):
            self._merge()

    def mean(self, number: int) -> float:
        if self._waiting:
            self._merge()
        place = int(np.searchsorted(self._rounds, number))
        return float(self._sums[place] / self._counts[place])

    def _merge(self) -> None:
        new = np.concatenate([self._rounds, *(rounds for rounds, _ in self._waiting)])
        ones = np.ones(self._waiting_count)
        sums = np.concatenate([self._sums, *(readings for _, readings in self._waiting)])
        counts = np.concatenate([self._counts, ones])
        self._rounds, place = np.unique(new, return_inverse=True)
        self._sums = np.bincount(place, weights=sums).astype(np.float64)
        self._counts = np.bincount(place, weights=counts).astype(np.float64)
        self._waiting, self._waiting_count = [], 0
