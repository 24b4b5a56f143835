"""The two steps of a batch job as pure functions, for threads here and executors elsewhere.

`randomize` turns the rows of a piece into reports by bucket; only these are held, spilled or sent,
packed into bytes where they leave the process (rase.engine.packed). `estimate` turns all reports of
a bucket into results of rounds: it sorts for itself and trusts no order. Both take plain values
that can be pickled, and the run key.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rase.collect import Contributions, Quanta, combined
from rase.engine.groups import GraphGroups
from rase.engine.reading import PieceRows, text_columns
from rase.engine.tally import Tally
from rase.estimate.counted import COUNTED_FROM, CountedReports
from rase.kernels.keyed import RunKey
from rase.pipeline import Pipeline, RoundResult
from rase.pipeline.keyed import (
    DeviceTags,
    Reports,
    RoundPart,
    counted_result,
    drawn_reports,
    is_counted,
    round_result,
    rounds_of,
)

__all__ = ["Drawn", "Kernel"]


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """Hold what became of a piece.

    Args:
        reports: The reports by bucket and shard.
        tallies: What was read and changed, by bucket.
    """

    reports: dict[tuple[int, int], Reports] = field(repr=False)
    tallies: dict[int, Tally]


@dataclass(frozen=True, slots=True)
class Kernel:
    """Hold the parameters of the two steps.

    Args:
        pipeline: What the readings go through.
        interval_ms: The length of a round; None where each time is one.
        bucket_rounds: How many rounds a bucket has.
        truth: Whether to add up the readings of each round, for study.
        has_groups: Whether rounds get shufflers of their own, from who reports in them.
        shards: Into how many parts by leading bits of the shuffle key a bucket is cut, a power of
            two; 1 where a bucket can be held at once.
    """

    pipeline: Pipeline
    interval_ms: int | None
    bucket_rounds: int
    truth: bool = False
    has_groups: bool = False
    shards: int = 1

    def randomize(
        self, rows: PieceRows, key: RunKey, *, without: frozenset[int] = frozenset()
    ) -> Drawn:
        """Draw the reports of a piece.

        Guarantee: a report leaves this function only after its noise was added; drawn again with
        the same key it is the same (tests/engine/test_kernel.py).

        Args:
            rows: All rows of the piece.
            key: The key of the run.
            without: Buckets that were released before: nothing is drawn for them.
        """
        buckets, places, kept = self._kept(rows, without)
        is_valid = rows.is_valid if kept is None else kept & rows.is_valid
        tallies = self._counted(rows, buckets, places, kept)
        chosen = slice(None) if is_valid.all() else np.flatnonzero(is_valid)
        quanta = Quanta(self.pipeline.randomizer.value_range)
        some, counts = combined(
            rows.time_ms[chosen],
            rows.device[chosen],
            value=quanta.counts(rows.value[chosen]),
            interval_ms=self.interval_ms,
        )
        if not len(some):
            return Drawn({}, tallies)
        data, offsets = text_columns(rows.names)
        devices = DeviceTags.of_texts(key, data, offsets=offsets)
        readings = Contributions(some.round, some.contributor, quanta.readings(some.reading))
        reports = drawn_reports(
            self.pipeline, readings, key=key, devices=devices, in_arrival_order=self.has_groups
        )
        drawn = {}
        for bucket, part in self._parts(some.round, buckets):
            tally = self._tally(readings, part, devices)
            kept_rows = tally.reports if counts is None else int(counts[part].sum())
            read = tallies[bucket]
            tallies[bucket] = read + tally + Tally(duplicates=read.rows - read.nulls - kept_rows)
            if self.truth:
                tallies[bucket] += Tally.of_truth(some.round[part], some.reading[part])
            for shard, some_of_it in self._sharded(reports.chosen(part)):
                drawn[bucket, shard] = some_of_it
        return Drawn(drawn, tallies)

    def estimate(
        self,
        parts: Sequence[Reports],
        key: RunKey,
        *,
        truths: Mapping[int, float] | None = None,
        groups: GraphGroups | None = None,
    ) -> list[RoundResult]:
        """Shuffle and estimate the rounds of a bucket.

        Args:
            parts: All reports of the bucket, in any order.
            key: The key of the run.
            truths: The true mean of each round, in studies.
            groups: Gives the shuffler of a round from the public numbers of who reports in it.

        Returns:
            The rounds in the order of time, each by itself; `RoundResult.tracked` follows ``auto``
            through them.
        """
        if not parts:
            return []
        reports = Reports.joined(parts)
        order = reports.order()
        in_order = reports.report[order]
        keys = None if groups is None else reports.key[order]
        return [
            round_result(
                self.pipeline,
                number,
                reports=in_order[part],
                key=key,
                start_ms=number * (self.interval_ms or 1),
                truth=None if truths is None else truths[number],
                shuffler=None if groups is None or keys is None else groups(keys[part]),
            )
            for number, part in rounds_of(reports.round)
        ]

    def gather(self, parts: Sequence[Reports]) -> dict[int, RoundPart]:
        """Put one shard of a bucket in order: what `conclude` needs of each round.

        Args:
            parts: All reports of the shard, in any order.
        """
        if not parts:
            return {}
        reports = Reports.joined(parts)
        in_order = reports.report[reports.order()]
        public = self.pipeline.randomizer.value_range
        counts = is_counted(self.pipeline)
        return {
            number: CountedReports.of(in_order[part], value_range=public)
            if counts and part.stop - part.start >= COUNTED_FROM
            else in_order[part]
            for number, part in rounds_of(reports.round)
        }

    def conclude(
        self,
        shards: Sequence[Mapping[int, RoundPart]],
        key: RunKey,
        *,
        truths: Mapping[int, float] | None = None,
    ) -> list[RoundResult]:
        """Estimate the rounds of a bucket from its shards: as `estimate` does, to the last bit.

        Args:
            shards: What `gather` made of each shard, in the order of the shards.
            key: The key of the run.
            truths: The true mean of each round, in studies.
        """
        public = self.pipeline.randomizer.value_range
        results = []
        for number in sorted({number for shard in shards for number in shard}):
            parts = [shard[number] for shard in shards if number in shard]
            start_ms = number * (self.interval_ms or 1)
            truth = None if truths is None else truths[number]
            if any(isinstance(part, CountedReports) for part in parts):
                counted = CountedReports.joined(
                    [
                        part
                        if isinstance(part, CountedReports)
                        else CountedReports.of(part, value_range=public)
                        for part in parts
                    ]
                )
                results.append(
                    counted_result(
                        self.pipeline, number, counted=counted, start_ms=start_ms, truth=truth
                    )
                )
                continue
            whole = [part for part in parts if not isinstance(part, CountedReports)]
            results.append(
                round_result(
                    self.pipeline,
                    number,
                    reports=np.concatenate(whole),
                    key=key,
                    start_ms=start_ms,
                    truth=truth,
                )
            )
        return results

    def _sharded(self, reports: Reports) -> Iterator[tuple[int, Reports]]:
        if self.shards == 1:
            yield 0, reports
            return
        bits = self.shards.bit_length() - 1
        found, places = _distinct((reports.key >> np.uint64(64 - bits)).view(np.int64))
        order = np.argsort(places.astype(np.uint16), kind="stable")
        ends = np.cumsum(np.bincount(places)).tolist()
        for shard, start, end in zip(found, [0, *ends[:-1]], ends, strict=True):
            yield shard, reports.chosen(order[start:end])

    def _kept(
        self, rows: PieceRows, without: frozenset[int]
    ) -> tuple[list[int], NDArray[np.int64] | None, NDArray[np.bool_] | None]:
        """Return the buckets of the rows, the place of each row among them, and which are drawn.

        Places are None if there is one bucket, and what is drawn is None if all is.
        """
        if not len(rows):
            return [], None, None
        size = (self.interval_ms or 1) * self.bucket_rounds
        first, last = (int(time_ms) // size for time_ms in (rows.time_ms.min(), rows.time_ms.max()))
        if first == last and first not in without:
            return [first], None, None
        of = rows.time_ms // size
        found, places = _distinct(of)
        if without.isdisjoint(found):
            return found, places, None
        is_wanted = np.array([bucket not in without for bucket in found], dtype=np.bool_)
        buckets = [bucket for bucket in found if bucket not in without]
        return buckets, np.cumsum(is_wanted)[places] - 1, is_wanted[places]

    @staticmethod
    def _counted(
        rows: PieceRows,
        buckets: list[int],
        places: NDArray[np.int64] | None,
        kept: NDArray[np.bool_] | None,
    ) -> dict[int, Tally]:
        """Count rows and nulls by bucket."""
        if not buckets:
            return {}
        nulls = np.flatnonzero(~rows.is_valid)
        if places is None:
            return {buckets[0]: Tally(rows=len(rows), nulls=len(nulls))}
        if kept is not None:
            nulls = nulls[kept[nulls]]
            rows_in = np.bincount(places[kept], minlength=len(buckets))
        else:
            rows_in = np.bincount(places, minlength=len(buckets))
        nulls_in = np.bincount(places[nulls], minlength=len(buckets))
        return {
            bucket: Tally(rows=int(rows_in[place]), nulls=int(nulls_in[place]))
            for place, bucket in enumerate(buckets)
        }

    def _parts(
        self, rounds: NDArray[np.int64], buckets: list[int]
    ) -> Iterator[tuple[int, NDArray[np.int64] | slice]]:
        """Yield the buckets that hold reports, and where these are."""
        if len(buckets) == 1:
            yield buckets[0], slice(None)
            return
        found, places = _distinct(rounds // self.bucket_rounds)
        # Small whole numbers are sorted by counting, in a pass or two.
        narrow = places.astype(np.uint16) if len(found) <= 1 << 16 else places
        order = np.argsort(narrow, kind="stable")
        ends = np.cumsum(np.bincount(places))
        for bucket, start, end in zip(found, [0, *ends[:-1].tolist()], ends.tolist(), strict=True):
            yield bucket, order[start:end]

    def _tally(
        self, readings: Contributions, part: NDArray[np.int64] | slice, devices: DeviceTags
    ) -> Tally:
        public = self.pipeline.randomizer.value_range
        values = readings.reading[part]
        reports_of = np.bincount(readings.contributor[part], minlength=len(devices.public))
        reporting = np.flatnonzero(reports_of)
        return Tally(
            reports=len(values),
            clipped=int(np.count_nonzero((values < public.low) | (values > public.high))),
        ).with_devices(devices.public[reporting], reports_of[reporting])


def _distinct(column: NDArray[np.int64]) -> tuple[list[int], NDArray[np.int64]]:
    """Return the distinct numbers, ascending, and each row's place among them."""
    if not len(column):
        return [], column
    first, last = int(column.min()), int(column.max())
    if last - first > len(column):
        found, places = np.unique(column, return_inverse=True)
        return found.tolist(), places
    offsets = column - first
    is_there = np.bincount(offsets) > 0
    return (np.flatnonzero(is_there) + first).tolist(), (np.cumsum(is_there) - 1)[offsets]
