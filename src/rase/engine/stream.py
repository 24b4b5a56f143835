"""A stream of rows through the pipeline in bounded memory: text files, synthetic fleets.

Rows → one reading per device and round → noise, once → sorted runs on disk → round by round:
shuffle, estimate. Only randomized reports are ever written; readings pass through memory once. The
steps are those of every engine (rase.pipeline.keyed), so the results are, too.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rase.clock import parse_duration_s
from rase.collect import Collector, Contributions, Quanta
from rase.engine.runs import Records, ReportRuns
from rase.engine.table import Rows
from rase.engine.tally import RunSummary, Tally
from rase.estimate.tracker import Tracker
from rase.kernels.keyed import RunKey
from rase.kernels.words import Random, Words
from rase.pipeline import Pipeline, RoundResult
from rase.pipeline.keyed import DeviceTags, drawn_reports, round_result
from rase.shuffle.shufflers import Shuffler

__all__ = ["NamedSource", "ShufflerOfRound", "Source", "TableRun", "run_table"]

ShufflerOfRound = Callable[[Words], Shuffler]


class Source(Protocol):
    """Whatever yields batches of rows: a `Table`, a synthetic fleet."""

    def batches(self) -> Iterator[Rows]:
        """Yield the rows from the start."""


@runtime_checkable
class NamedSource(Source, Protocol):
    """A source that knows the names behind its codes; codes of others stand for themselves."""

    @property
    def device_codes(self) -> Mapping[str, int]:
        """The code of every device seen so far, in the order of the codes."""


def run_table(
    source: Source,
    pipeline: Pipeline,
    *,
    every: str | None = None,
    rng: Random | None = None,
    truth: bool = False,
    groups_of: Callable[[Words], ShufflerOfRound] | None = None,
    memory_bytes: int = 64 << 20,
    on_batch: Callable[[], None] | None = None,
) -> "TableRun":
    """Run a table of readings, round by round.

    Args:
        source: The rows; no device's time goes back.
        pipeline: What is done with them.
        every: The length of a round, such as ``15min``; None makes each time a round.
        rng: None for secure randomness; a `SeededRandom` for study.
        truth: Whether results shall hold the mean of the readings as measured. Only for the study
            of data one holds anyway; takes memory for each round.
        groups_of: Given the public numbers of all devices, returns what gives the shuffler of a
            round from the numbers of those who report in it; None for the pipeline's own shuffler.
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
        key=RunKey.drawn(rng),
        truth=truth,
        groups_of=groups_of,
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
        key: RunKey,
        truth: bool,
        groups_of: Callable[[Words], ShufflerOfRound] | None,
        memory_bytes: int,
        on_batch: Callable[[], None] | None,
    ) -> None:
        self._source = source
        self._pipeline = pipeline
        self._interval_ms = interval_ms
        self._key = key
        self._truth = truth
        # Groups are told by public numbers alone, which is what reports then carry.
        self._groups_of = groups_of
        self._memory_bytes = memory_bytes
        self._on_batch = on_batch
        self._collector = Collector(interval_ms)
        self._quanta = Quanta(pipeline.randomizer.value_range)
        self._devices = _GrowingTags(source, key)
        self._tally = Tally()
        self._truths: list[Tally] = []
        self._reports_of = np.zeros(0, dtype=np.int64)
        self._rounds = 0
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
            duplicates=self._collector.duplicates,
            devices=int(np.count_nonzero(self._reports_of)),
            rounds=self._rounds,
            reports=int(self._reports_of.sum()),
            clipped=self._tally.clipped,
            most_reports=int(self._reports_of.max(initial=0)),
            most_epsilon=float((self._reports_of * budgets).max(initial=0.0)),
        )

    def _run(self) -> Iterator[RoundResult]:
        has_budgets = isinstance(self._pipeline.randomizer.epsilon, tuple)
        extra = ("epsilon",) if has_budgets else ()
        with ReportRuns(self._memory_bytes, extra=extra) as runs:
            for rows in self._source.batches():
                counts = self._quanta.counts(rows.value)
                self._take(
                    self._collector.add(
                        rows.time_ms, rows.device, value=counts, is_valid=rows.is_valid
                    ),
                    runs,
                )
                if self._on_batch is not None:
                    self._on_batch()
            self._take(self._collector.finish(), runs)
            groups = None
            if self._groups_of is not None:
                groups = self._groups_of(self._devices.reporting(self._reports_of))
            truths = self._true_means()
            tracker = Tracker(self._pipeline.randomizer.value_range)
            for number, records in runs.rounds():
                self._rounds += 1
                truth = None if truths is None else truths[number]
                yield self._release(number, records, groups, truth).tracked(tracker)

    def _take(self, some: Contributions, runs: ReportRuns) -> None:
        if not len(some):
            return
        public = self._pipeline.randomizer.value_range
        readings = self._quanta.readings(some.reading)
        outside = (readings < public.low) | (readings > public.high)
        self._tally += Tally(clipped=int(np.count_nonzero(outside)))
        reports_of = np.bincount(some.contributor, minlength=len(self._reports_of))
        reports_of[: len(self._reports_of)] += self._reports_of
        self._reports_of = reports_of
        if self._truth:
            self._add_truth(Tally.of_truth(some.round, some.reading))
        reports = drawn_reports(
            self._pipeline,
            Contributions(some.round, some.contributor, readings),
            key=self._key,
            devices=self._devices.known(len(reports_of)),
            in_arrival_order=self._groups_of is not None,
        )
        extra = {}
        if isinstance(self._pipeline.randomizer.epsilon, tuple):
            extra["epsilon"] = self._pipeline.budgets_of(some.contributor)
        runs.append(reports.round, reports.key, reports=reports.report, **extra)

    def _release(
        self,
        number: int,
        records: Records,
        groups: ShufflerOfRound | None,
        truth: float | None,
    ) -> RoundResult:
        names = records.dtype.names or ()
        return round_result(
            self._pipeline,
            number,
            reports=np.ascontiguousarray(records["report"]),
            key=self._key,
            start_ms=number * (self._interval_ms or 1),
            truth=truth,
            shuffler=None if groups is None else groups(np.ascontiguousarray(records["key"])),
            budgets=np.ascontiguousarray(records["epsilon"]) if "epsilon" in names else None,
        )

    def _add_truth(self, tally: Tally) -> None:
        # As in a binary counter: tallies of like size are joined, so that all cost n log n.
        self._truths.append(tally)
        while len(self._truths) > 1 and len(self._truths[-1].round) >= len(self._truths[-2].round):
            last = self._truths.pop()
            self._truths[-1] += last

    def _true_means(self) -> Mapping[int, float] | None:
        if not self._truth:
            return None
        total = Tally()
        for tally in self._truths:
            total += tally
        return total.truths(self._pipeline.randomizer.value_range)


class _GrowingTags:
    """The tags of a source's devices, made when a device is first seen."""

    def __init__(self, source: Source, key: RunKey) -> None:
        self._source = source
        self._key = key
        self._tags = DeviceTags.of_names(key, [])

    def known(self, count: int) -> DeviceTags:
        """Return the tags of the devices with codes below ``count``."""
        have = len(self._tags.public)
        if count > have:
            new = DeviceTags.of_names(self._key, self._names(have, count))
            self._tags = DeviceTags(
                np.concatenate([self._tags.tags, new.tags]),
                np.concatenate([self._tags.public, new.public]),
            )
        return self._tags

    def reporting(self, reports_of: NDArray[np.int64]) -> Words:
        """Return the public numbers of the devices that reported, ascending."""
        return np.sort(self._tags.public[np.flatnonzero(reports_of)])

    def _names(self, start: int, end: int) -> list[str]:
        if isinstance(self._source, NamedSource):
            return list(islice(self._source.device_codes, start, end))
        return [str(code) for code in range(start, end)]
