"""The steps of a batch run, as functions of a run key: the same on every engine.

Contributions → reports with their noise → sorted by round and shuffle word → results of rounds.
The pipeline in memory, the local engine and a cluster all call these; what they do between them
(hold, spill, send) cannot change a bit of the results.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rase.collect import Contributions
from rase.estimate.counted import COUNTED_FROM, CountedReports, counted_mean, counted_spread
from rase.estimate.tracker import spread_of
from rase.kernels.keyed import ROWS_AT_ONCE, RunKey, Tags, text_buffers
from rase.kernels.words import Words
from rase.pipeline.result import RoundResult
from rase.shuffle.release import uniform_manifest
from rase.shuffle.shufflers import Shuffler, Uniform

if TYPE_CHECKING:
    from rase.pipeline.process import Pipeline

__all__ = [
    "DeviceTags",
    "Reports",
    "RoundPart",
    "counted_result",
    "drawn_reports",
    "is_counted",
    "round_result",
    "rounds_of",
]

# A part of a round: its reports in order, or how often each occurs.
RoundPart = NDArray[np.float64] | CountedReports

_UNIFORM = "Reports were sorted by keyed words: Uniform was asked for."
# What a counted round can answer; other estimators look at the reports themselves.
_FROM_COUNTS = frozenset({"auto", "unbiased_mean"})
# How many bits of a word may tell the round, and from how many reports on a round is a large one.
_MOST_ROUND_BITS = 24
_LARGE_ROUND = 1 << 12


@dataclass(frozen=True, slots=True, eq=False)
class DeviceTags:
    """Hold what stands for each device of a table, by its code.

    Args:
        tags: 128 bits under the run's key, for noise and order.
        public: A public number, for the order of arrival.
    """

    tags: Tags = field(repr=False)
    public: Words = field(repr=False)

    @classmethod
    def of_texts(
        cls, key: RunKey, data: NDArray[np.uint8], *, offsets: NDArray[np.int64]
    ) -> "DeviceTags":
        """Return the tags of names given as bytes in one row."""
        return cls(*key.tags(data, offsets))

    @classmethod
    def of_names(cls, key: RunKey, names: list[str]) -> "DeviceTags":
        """Return the tags of names."""
        data, offsets = text_buffers(names)
        return cls.of_texts(key, data, offsets=offsets)


@dataclass(frozen=True, slots=True, eq=False)
class Reports:
    """Hold randomized reports as columns of one length, safe to store and to send.

    Args:
        round: The round of each report.
        key: What it is sorted by in its round: its shuffle word, or its device's public number
            where the shuffler starts from the order of arrival.
        report: The randomized report.
    """

    round: NDArray[np.int64]
    key: Words = field(repr=False)
    report: NDArray[np.float64] = field(repr=False)

    def __len__(self) -> int:
        """Return how many reports there are."""
        return len(self.round)

    @property
    def nbytes(self) -> int:
        """How many bytes the columns take."""
        return 24 * len(self)

    def chosen(self, places: NDArray[np.int64] | slice) -> "Reports":
        """Return the reports at some places."""
        return Reports(self.round[places], self.key[places], self.report[places])

    @classmethod
    def joined(cls, parts: Sequence["Reports"]) -> "Reports":
        """Return several as one."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([part.round for part in parts]),
            np.concatenate([part.key for part in parts]),
            np.concatenate([part.report for part in parts]),
        )

    def in_order(self) -> "Reports":
        """Return the reports sorted by round and key: the order of release."""
        return self if not len(self) else self.chosen(self.order())

    def order(self) -> NDArray[np.int64]:
        """Return the places of the reports in the order of release."""
        if not len(self):
            return np.zeros(0, dtype=np.int64)
        first, last = int(self.round.min()), int(self.round.max())
        if last - first < len(self) // _LARGE_ROUND:
            return self._order_by_rounds(first)
        bits = (last - first).bit_length()
        if bits > _MOST_ROUND_BITS:
            return np.lexsort((self.key, self.round))
        # Round and leading bits of the key in one word: one sort instead of two. Equal words are
        # nearly as rare as equal keys; where there are some, the whole keys decide.
        words = self.key >> np.uint64(bits)
        if bits:
            words |= (self.round - first).view(np.uint64) << np.uint64(64 - bits)
        order = np.argsort(words)
        words = words[order]
        if (words[1:] == words[:-1]).any():
            return np.lexsort((self.key, self.round))
        return order

    def _order_by_rounds(self, first: int) -> NDArray[np.int64]:
        """Sort each of a few large rounds for itself, while it is in the processor's cache."""
        order = np.arange(len(self))
        if (self.round[1:] < self.round[:-1]).any():
            # Small whole numbers are sorted by counting, in a pass or two.
            order = np.argsort((self.round - first).astype(np.uint16), kind="stable")
        for _, part in rounds_of(self.round):
            some = order[part]
            order[part] = some[np.argsort(self.key[some])]
        return order


def drawn_reports(
    pipeline: "Pipeline",
    some: Contributions,
    *,
    key: RunKey,
    devices: DeviceTags,
    in_arrival_order: bool = False,
) -> Reports:
    """Draw the report of each contribution, and what it will be sorted by.

    Guarantee: each report is epsilon-LDP by the pipeline's randomizer; drawn again with the same
    key it is the same report (tests/pipeline/test_keyed.py).

    Args:
        pipeline: What the readings go through.
        some: The readings, one for each device and round.
        key: The key of the run.
        devices: The tags of the devices, by code.
        in_arrival_order: Whether rounds have shufflers of their own, which start from the order of
            arrival.
    """
    is_sorted = _is_sorted_shuffle(pipeline.shuffler) and not in_arrival_order
    reports, keys = np.empty(len(some)), np.empty(len(some), dtype=np.uint64)
    for start in range(0, len(some), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        rounds, contributors = some.round[part], some.contributor[part]
        readings = some.reading[part]
        tags = devices.tags.take(contributors, axis=0)
        rows = key.rows(rounds, tags, readings=readings)
        reports[part] = pipeline.randomize(readings, contributors=contributors, rng=rows)
        keys[part] = key.order(rounds, tags) if is_sorted else devices.public.take(contributors)
    return Reports(some.round, keys, reports)


def _is_sorted_shuffle(shuffler: Shuffler) -> bool:
    """Tell whether sorting by shuffle words is all that the shuffler does."""
    return isinstance(shuffler, Uniform)


def rounds_of(rounds: NDArray[np.int64]) -> Iterator[tuple[int, slice]]:
    """Yield each round that occurs, ascending, and where its reports stand once they are sorted.

    Args:
        rounds: The rounds of the reports, in any order.
    """
    if not len(rounds):
        return
    first, last = int(rounds.min()), int(rounds.max())
    if last - first <= len(rounds):
        counts = np.bincount(rounds - first)
        numbers = np.flatnonzero(counts)
        counts, numbers = counts[numbers], numbers + first
    else:
        numbers, counts = np.unique(rounds, return_counts=True)
    ends = np.cumsum(counts)
    for number, end, count in zip(numbers.tolist(), ends.tolist(), counts.tolist(), strict=True):
        yield number, slice(end - count, end)


def round_result(
    pipeline: "Pipeline",
    number: int,
    *,
    reports: NDArray[np.float64],
    key: RunKey,
    start_ms: int | None,
    truth: float | None = None,
    shuffler: Shuffler | None = None,
    budgets: NDArray[np.float64] | None = None,
) -> RoundResult:
    """Shuffle the reports of one round, which are in order, and estimate.

    Args:
        pipeline: What the readings go through.
        number: The round.
        reports: Its reports, sorted by key.
        key: The key of the run.
        start_ms: When the round began.
        truth: The mean of the readings themselves, in studies.
        shuffler: The round's own shuffler, where rounds differ; the reports are then in the order
            of arrival.
        budgets: The epsilon of each report, where contributors differ.

    Returns:
        The result of the round by itself; `RoundResult.tracked` adds the rounds before.
    """
    source = key.round(number)
    if shuffler is None and _is_sorted_shuffle(pipeline.shuffler):
        manifest = uniform_manifest(len(reports), _UNIFORM)
    else:
        rows = reports if budgets is None else np.column_stack([reports, budgets])
        release = (shuffler or pipeline.shuffler).shuffle(rows, rng=source)
        manifest = release.manifest
        reports = release.values if budgets is None else release.values[:, 0]
        budgets = None if budgets is None else release.values[:, 1]
    randomizer = pipeline.randomizer
    counted = None
    if budgets is None and len(reports) >= COUNTED_FROM and _FROM_COUNTS & set(pipeline.estimators):
        counted = CountedReports.of(reports, value_range=randomizer.value_range)
    estimates = {
        name: counted_mean(counted, randomizer=randomizer)
        if counted is not None and name in _FROM_COUNTS
        else estimator(reports, randomizer=randomizer, epsilon=budgets, rng=source)
        for name, estimator in pipeline.estimators.items()
    }
    spread = None
    if "auto" in estimates and counted is not None:
        spread = counted_spread(counted, randomizer=randomizer)
    elif "auto" in estimates:
        spread = spread_of(reports, randomizer=randomizer, epsilon=budgets)
    return RoundResult(
        n=len(reports),
        estimates=estimates,
        manifest=manifest,
        round=number,
        start_ms=start_ms,
        truth=truth,
        alone=estimates.get("auto", estimates.get("unbiased_mean")),
        spread=spread,
    )


def is_counted(pipeline: "Pipeline") -> bool:
    """Tell whether counts are all that a large round needs: no order, no single report."""
    return _is_sorted_shuffle(pipeline.shuffler) and _FROM_COUNTS.issuperset(pipeline.estimators)


def counted_result(
    pipeline: "Pipeline",
    number: int,
    *,
    counted: CountedReports,
    start_ms: int | None,
    truth: float | None = None,
) -> RoundResult:
    """Estimate a round that was counted in parts, because it is too large to be held.

    The result is that of `round_result` for all its reports together, to the last bit.

    Args:
        pipeline: What the readings go through; `is_counted` holds for it.
        number: The round.
        counted: Its reports, at least `COUNTED_FROM` of them.
        start_ms: When the round began.
        truth: The mean of the readings themselves, in studies.
    """
    randomizer = pipeline.randomizer
    mean = counted_mean(counted, randomizer=randomizer)
    has_auto = "auto" in pipeline.estimators
    return RoundResult(
        n=counted.n,
        estimates=dict.fromkeys(pipeline.estimators, mean),
        manifest=uniform_manifest(counted.n, _UNIFORM),
        round=number,
        start_ms=start_ms,
        truth=truth,
        alone=mean,
        spread=counted_spread(counted, randomizer=randomizer) if has_auto else None,
    )
