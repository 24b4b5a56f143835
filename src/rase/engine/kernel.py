"""The two steps of a batch job as pure functions, for threads here and executors elsewhere.

`randomize` turns the rows of a piece into packed reports by bucket; only these are held, spilled or
sent. `estimate` turns all packed reports of a bucket into results of rounds: it sorts for itself
and trusts no order. Both take plain values that can be pickled, and the run key.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rase.collect import Contributions, Quanta, combined
from rase.engine.groups import GraphGroups
from rase.engine.reading import PieceRows, text_columns
from rase.engine.tally import Tally
from rase.kernels.keyed import RunKey
from rase.pipeline import Pipeline, RoundResult
from rase.pipeline.keyed import DeviceTags, Reports, drawn_reports, round_result, rounds_of

__all__ = ["Drawn", "Kernel", "pack", "unpack"]


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """Hold what became of a piece.

    Args:
        packed: The reports by bucket, packed by `pack`.
        tallies: What was read and changed, by bucket.
    """

    packed: dict[int, bytes] = field(repr=False)
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
    """

    pipeline: Pipeline
    interval_ms: int | None
    bucket_rounds: int
    truth: bool = False
    has_groups: bool = False

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
        rows_in = np.bincount(places, minlength=len(buckets)).tolist()
        nulls = places[~rows.is_valid[kept]]
        nulls_in = np.bincount(nulls, minlength=len(buckets)).tolist()
        tallies = {
            bucket: Tally(rows=rows_in[place], nulls=nulls_in[place])
            for place, bucket in enumerate(buckets)
        }
        is_valid = kept & rows.is_valid
        quanta = Quanta(self.pipeline.randomizer.value_range)
        some, counts = combined(
            rows.time_ms[is_valid],
            rows.device[is_valid],
            value=quanta.counts(rows.value[is_valid]),
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
        order = reports.order()
        reports, of = reports.chosen(order), some.round[order] // self.bucket_rounds
        edges = np.searchsorted(of, buckets), np.searchsorted(of, buckets, side="right")
        packed = {}
        for bucket, start, end in zip(buckets, *edges, strict=True):
            part = order[start:end]
            tallies[bucket] += self._tally(readings, part, devices)
            tallies[bucket] += Tally(
                duplicates=tallies[bucket].rows
                - tallies[bucket].nulls
                - (len(part) if counts is None else int(counts[part].sum()))
            )
            if self.truth:
                tallies[bucket] += Tally.of_truth(some.round[part], some.reading[part])
            if end > start:
                packed[bucket] = pack(reports.chosen(slice(start, end)))
        return Drawn(packed, tallies)

    def estimate(
        self,
        blobs: Iterable[bytes],
        key: RunKey,
        *,
        truths: Mapping[int, float] | None = None,
        groups: GraphGroups | None = None,
    ) -> list[RoundResult]:
        """Shuffle and estimate the rounds of a bucket.

        Args:
            blobs: All packed reports of the bucket, in any order.
            key: The key of the run.
            truths: The true mean of each round, in studies.
            groups: Gives the shuffler of a round from the public numbers of who reports in it.

        Returns:
            The rounds in the order of time, each by itself; `RoundResult.tracked` follows ``auto``
            through them.
        """
        parts = [unpack(blob) for blob in blobs]
        if not parts:
            return []
        reports = Reports.joined(parts).in_order()
        return [
            round_result(
                self.pipeline,
                number,
                reports=reports.report[part],
                key=key,
                start_ms=number * (self.interval_ms or 1),
                truth=None if truths is None else truths[number],
                shuffler=None if groups is None else groups(reports.key[part]),
            )
            for number, part in rounds_of(reports)
        ]

    def _kept(
        self, rows: PieceRows, without: frozenset[int]
    ) -> tuple[list[int], NDArray[np.int64], NDArray[np.bool_]]:
        """Return the buckets of the rows, the place of each kept row among them, and which stay."""
        rounds = rows.time_ms if self.interval_ms is None else rows.time_ms // self.interval_ms
        found, places = _distinct(rounds // self.bucket_rounds)
        if without.isdisjoint(found):
            return found, places, np.ones(len(rows), np.bool_)
        is_wanted = np.array([bucket not in without for bucket in found], dtype=np.bool_)
        kept = is_wanted[places]
        buckets = [bucket for bucket in found if bucket not in without]
        return buckets, (np.cumsum(is_wanted) - 1)[places[kept]], kept

    def _tally(
        self, readings: Contributions, part: NDArray[np.int64], devices: DeviceTags
    ) -> Tally:
        public = self.pipeline.randomizer.value_range
        values = readings.reading[part]
        reports_of = np.bincount(readings.contributor[part], minlength=len(devices.public))
        reporting = np.flatnonzero(reports_of)
        return Tally(
            reports=len(part),
            clipped=int(np.count_nonzero((values < public.low) | (values > public.high))),
        ).with_devices(devices.public[reporting], reports_of[reporting])


def pack(reports: Reports) -> bytes:
    """Return reports as bytes: rounds, keys and reports, 8 bytes each, one column after another."""
    columns = (reports.round.view(np.uint64), reports.key, reports.report.view(np.uint64))
    return np.concatenate(columns).astype("<u8", copy=False).tobytes()


def unpack(blob: bytes | memoryview) -> Reports:
    """Return what `pack` packed.

    Raises:
        ValueError: If the bytes are cut off.
    """
    if len(blob) % 24:
        raise ValueError(f"packed reports must have 24 bytes each, got {len(blob)} bytes.")
    rounds, keys, reports = np.frombuffer(blob, dtype="<u8").reshape(3, -1)
    return Reports(rounds.view(np.int64), keys, reports.view(np.float64))


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
