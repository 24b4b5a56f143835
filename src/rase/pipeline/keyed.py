"""The steps of a batch run, as functions of a run key: the same on every engine.

Contributions → reports with their noise → sorted by round and shuffle word → results of rounds.
The pipeline in memory, the local engine and a cluster all call these; what they do between them
(hold, spill, send) cannot change a bit of the results.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rase.collect import Contributions
from rase.estimate.counted import COUNTED_FROM, CountedReports, counted_mean, counted_spread
from rase.estimate.tracker import spread_of
from rase.kernels.keyed import RunKey, Tags, text_buffers
from rase.kernels.words import Words
from rase.pipeline.result import RoundResult
from rase.shuffle.release import uniform_manifest
from rase.shuffle.shufflers import Shuffler, Uniform

if TYPE_CHECKING:
    from rase.pipeline.process import Pipeline

__all__ = ["DeviceTags", "Reports", "drawn_reports", "round_result", "rounds_of"]

_UNIFORM = "Reports were sorted by keyed words: Uniform was asked for."
# What a counted round can answer; other estimators look at the reports themselves.
_FROM_COUNTS = frozenset({"auto", "unbiased_mean"})


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

    def chosen(self, places: NDArray[np.int64] | slice) -> "Reports":
        """Return the reports at some places."""
        return Reports(self.round[places], self.key[places], self.report[places])

    @classmethod
    def joined(cls, parts: list["Reports"]) -> "Reports":
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
        return self.chosen(self.order())

    def order(self) -> NDArray[np.int64]:
        """Return the places of the reports in the order of release."""
        if not len(self):
            return np.zeros(0, dtype=np.int64)
        first = int(self.round.min())
        bits = (int(self.round.max()) - first).bit_length()
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


_MOST_ROUND_BITS = 24


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
    tags = devices.tags.take(some.contributor, axis=0)
    rows = key.rows(some.round, tags, readings=some.reading)
    reports = pipeline.randomize(some.reading, contributors=some.contributor, rng=rows)
    if is_sorted_shuffle(pipeline.shuffler) and not in_arrival_order:
        return Reports(some.round, key.order(some.round, tags), reports)
    return Reports(some.round, devices.public.take(some.contributor), reports)


def is_sorted_shuffle(shuffler: Shuffler) -> bool:
    """Tell whether sorting by shuffle words is all that the shuffler does."""
    return isinstance(shuffler, Uniform)


def rounds_of(reports: Reports) -> Iterator[tuple[int, slice]]:
    """Yield each round of reports that are in order, and where its reports stand."""
    rounds = reports.round
    changes = np.flatnonzero(rounds[1:] != rounds[:-1]) + 1
    edges = [0, *changes.tolist(), len(rounds)] if len(rounds) else []
    for start, end in pairwise(edges):
        yield int(rounds[start]), slice(start, end)


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
    if shuffler is None and is_sorted_shuffle(pipeline.shuffler):
        manifest = uniform_manifest(len(reports), _UNIFORM)
    else:
        rows = reports if budgets is None else np.column_stack([reports, budgets])
        release = (shuffler or pipeline.shuffler).shuffle(rows, rng=source)
        manifest = release.manifest
        reports = release.values if budgets is None else release.values[:, 0]
        budgets = None if budgets is None else release.values[:, 1]
    counted = None
    if budgets is None and len(reports) >= COUNTED_FROM and _FROM_COUNTS & set(pipeline.estimators):
        counted = CountedReports.of(reports)
    estimates = {
        name: counted_mean(counted, randomizer=pipeline.randomizer)
        if counted is not None and name in _FROM_COUNTS
        else estimator(reports, randomizer=pipeline.randomizer, epsilon=budgets, rng=source)
        for name, estimator in pipeline.estimators.items()
    }
    spread = None
    if "auto" in estimates:
        spread = (
            spread_of(reports, randomizer=pipeline.randomizer, epsilon=budgets)
            if counted is None
            else counted_spread(counted, randomizer=pipeline.randomizer)
        )
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
