"""A whole table of readings with range feedback: each round has the range chosen before it.

Choices follow from released rounds, so rounds must be taken in order; the readings of the table are
therefore held in memory, which the other engines do not need to do.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from rase.clock import parse_duration_s
from rase.collect import Collector, Contributions
from rase.engine.ranging import RangeFeedback
from rase.engine.stream import Source
from rase.engine.tally import RunSummary
from rase.errors import DataError
from rase.estimate.clipping import DEGREES_OF_CLIPPING, Clipping
from rase.estimate.estimate import Estimate
from rase.estimate.tracker import Tracker, spread_of
from rase.kernels.words import Random, source_of
from rase.pipeline import Pipeline, RoundResult
from rase.randomize.protocol import Floats
from rase.stream import ValueRange

__all__ = ["FeedbackRun"]

# Estimates of this alone are widened: the paper's estimators speak of the reports.
_WIDENED = "mean of the readings"


class FeedbackRun:
    """One pass over a table with range feedback; iterate it once.

    A second pass would draw noise a second time for the same readings. Errors are those of the mean
    of the readings as measured: what clipping to the range of a round may add is a part of them.

    Args:
        source: The rows; each device's time goes forward.
        pipeline: What is done with them; its randomizer is replaced round by round.
        feedback: Chooses mechanism and range of each round.
        every: The length of a round, such as ``15min``; None makes each time a round.
        rng: None for secure randomness; a `SeededRandom` for study.
        truth: Whether results shall hold the mean of the readings as measured.
        on_batch: Called after each batch of rows, to show progress.

    Raises:
        ValueError: If ``every`` is not a duration.
    """

    def __init__(
        self,
        source: Source,
        pipeline: Pipeline,
        *,
        feedback: RangeFeedback,
        every: str | None = None,
        rng: Random | None = None,
        truth: bool = False,
        on_batch: Callable[[], None] | None = None,
    ) -> None:
        self.feedback = feedback
        self._source = source
        self._pipeline = copy.copy(pipeline)
        self._interval_ms = None if every is None else 1000 * parse_duration_s(every)
        self._rng = source_of(rng)
        self._has_truth = truth
        self._on_batch = on_batch
        self._collector = Collector(self._interval_ms)
        self._tracker = Tracker(feedback.value_range)
        # What a tracker of another range learns again from.
        self._told: list[tuple[float, Estimate, float | None]] = []
        self._rounds = self._clipped = 0
        self._reports_of = np.zeros(0, dtype=np.int64)
        self._results = self._run()

    def __iter__(self) -> Iterator[RoundResult]:
        """Return the one iterator over the rounds, in the order of time."""
        return self._results

    @property
    def summary(self) -> RunSummary:
        """What the run read, changed and spent so far; complete when all rounds have been taken."""
        most = int(self._reports_of.max(initial=0))
        return RunSummary(
            rows=self._collector.rows,
            nulls=self._collector.nulls,
            duplicates=self._collector.duplicates,
            devices=int(np.count_nonzero(self._reports_of)),
            rounds=self._rounds,
            reports=int(self._reports_of.sum()),
            clipped=self._clipped,
            most_reports=most,
            most_epsilon=most * self.feedback.epsilon,
        )

    def _run(self) -> Iterator[RoundResult]:
        rows = self._read()
        self._reports_of = np.bincount(rows.contributor)
        order = np.lexsort((rows.contributor, rows.round))
        numbers, starts = np.unique(rows.round[order], return_index=True)
        for number, part in zip(numbers, np.split(order, starts[1:]), strict=True):
            yield self._round(int(number), rows.reading[part])

    def _round(self, number: int, readings: Floats) -> RoundResult:
        randomizer, reach = self.feedback.randomizer, self.feedback.value_range
        self._rounds += 1
        self._clipped += int(np.count_nonzero((readings < reach.low) | (readings > reach.high)))
        self._pipeline.randomizer = randomizer
        if self._tracker.value_range != reach:
            # Decoded means and their errors are in the unit of readings, whatever the range was.
            self._tracker = Tracker(reach)
            for time_s, alone, spread in self._told:
                self._tracker.update(time_s, alone, spread=spread)
        reports = randomizer.randomize(readings, rng=self._rng)
        start_ms = number * (self._interval_ms or 1)
        result = self._pipeline.release(
            reports,
            round=number,
            start_ms=start_ms,
            truth=float(readings.mean()) if self._has_truth else None,
            tracker=self._tracker,
            rng=self._rng,
        )
        if "auto" in result.estimates and result.alone is not None:
            spread = spread_of(reports, randomizer=randomizer)
            self._told.append((start_ms / 1000, result.alone, spread))
        outlook = self.feedback.outlook
        self.feedback.learn(reports, rng=self._rng)
        clipping = None if outlook is None else outlook.clipping
        return _as_measured(result, clipping, limits=self.feedback.limits)

    def _read(self) -> Contributions:
        parts: list[Contributions] = []
        for rows in self._source.batches():
            parts.append(
                self._collector.add(
                    rows.time_ms, rows.device, value=rows.value, is_valid=rows.is_valid
                )
            )
            if self._on_batch is not None:
                self._on_batch()
        parts.append(self._collector.finish())
        joined = Contributions(
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("round", "contributor", "reading")
            )
        )
        if not len(joined):
            raise DataError("the table must hold at least one reading, got none.")
        return joined


def _as_measured(
    result: RoundResult, clipping: Clipping | None, *, limits: ValueRange
) -> RoundResult:
    """Return a round's result as one about the readings as measured.

    What clipping adds to the mean becomes a part of the errors, and the limits bound the intervals,
    not the range that the round happened to have.
    """

    def widened(one: Estimate) -> Estimate:
        if one.target != _WIDENED:
            return one
        one = replace(one, lowest=limits.low, highest=limits.high)
        if clipping is None:
            return one
        error = clipping.error_at(one.value, error=one.standard_error)
        return one.with_lasting(error, degrees_of_freedom=DEGREES_OF_CLIPPING)

    return replace(
        result,
        estimates={name: widened(one) for name, one in result.estimates.items()},
        alone=None if result.alone is None else widened(result.alone),
    )
