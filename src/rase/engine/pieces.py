"""Cut a table into pieces by its footers: every device and round lies wholly in one piece.

A piece is a range of rounds or a range of devices, with the row groups that may hold some of it. So
the readings of a device in a round can be averaged, and duplicates found, before any noise and
without exchanging readings. Tables sorted by time are cut by rounds, those sorted by device by
devices; at a cut a row group may be read twice, each time for its own rows. A table without any
order is cut into few large pieces.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rase.engine.footers import Device, RowGroup

__all__ = ["Piece", "Plan", "plan_pieces"]

BUCKET_ROWS = 1 << 20
_PIECE_ROWS = 1 << 20
# A bucket of so many times the usual rows is cut by the shuffle key.
_MOST_BUCKETS = 4
# Reading more than this share of rows twice costs more than larger pieces do.
_MOST_REREAD = 1.5


@dataclass(frozen=True, slots=True)
class Piece:
    """Hold a part of a table that one task reads.

    Args:
        number: Its place among the pieces.
        groups: The row groups that may hold rows of it.
        rounds: Its first round and the first behind it; None for all.
        devices: Its first device and the first behind it, None for no bound; None for all.
        buckets: The first and the last bucket its rounds fall into.
    """

    number: int
    groups: tuple[RowGroup, ...]
    rounds: tuple[int, int] | None
    devices: tuple[Device | None, Device | None] | None
    buckets: tuple[int, int]

    @property
    def rows(self) -> int:
        """How many rows its row groups have: at least its own."""
        return sum(group.rows for group in self.groups)


@dataclass(frozen=True, slots=True)
class Plan:
    """Hold how a table is cut.

    Args:
        bucket_rounds: How many rounds a bucket has; bucket b holds rounds b K to (b + 1) K - 1.
        pieces: The pieces; together they hold every row once.
        shards: Into how many parts a bucket is cut, because one has too many rows to be held.
    """

    bucket_rounds: int
    pieces: tuple[Piece, ...]
    shards: int = 1

    @property
    def buckets(self) -> range:
        """The buckets that can occur."""
        first = min(piece.buckets[0] for piece in self.pieces)
        return range(first, max(piece.buckets[1] for piece in self.pieces) + 1)


def plan_pieces(
    groups: Sequence[RowGroup], interval_ms: int | None, *, most_rows: int = 1 << 23
) -> Plan:
    """Cut a table by what its footers tell.

    How many rounds make a bucket follows from the table alone; how it is cut into pieces, from the
    memory, too. Results depend on neither.

    Args:
        groups: All row groups.
        interval_ms: The length of a round; None where each time is one.
        most_rows: How many rows a piece may have for memory's sake.
    """
    unknown = (-math.inf, math.inf)
    spans = [
        unknown if group.time_ms is None else _rounds(group.time_ms, interval_ms)
        for group in groups
    ]
    known = [span for span in spans if span is not unknown]
    rows = sum(group.rows for group in groups)
    if len(known) < len(groups):
        # Without times in the footer nothing is known of rounds: one bucket is always right.
        return Plan(1 << 62, _by_device(groups, (-1, 0), most_rows))
    first, last = int(min(span[0] for span in spans)), int(max(span[1] for span in spans))
    bucket = max(math.ceil((last - first + 1) * BUCKET_ROWS / max(rows, 1)), 1)
    buckets = first // bucket, last // bucket
    crowd = max(_rows_in(groups, spans, bucket).values())
    shards = 1 << max(math.ceil(math.log2(crowd / (_MOST_BUCKETS * BUCKET_ROWS))), 0)
    target = max(_PIECE_ROWS, 2 * max(group.rows for group in groups))
    target = min(target, most_rows)
    while True:
        by_time = _by_time(groups, spans, bucket, rows_wanted=target)
        by_device = _by_device(groups, buckets, target)
        best = min(by_time, by_device, key=lambda pieces: _cost(pieces, rows, target))
        is_cheap = _cost(best, rows, target) <= (False, _MOST_REREAD * rows)
        if is_cheap or 2 * target > most_rows or len(best) == 1:
            return Plan(bucket, best, shards)
        target *= 2


def _cost(pieces: Sequence[Piece], rows: int, rows_wanted: int) -> tuple[bool, int]:
    """Return whether pieces are far too large, and how many rows are read in all."""
    return 2 * len(pieces) * rows_wanted < rows, sum(piece.rows for piece in pieces)


def _rounds(time_ms: tuple[int, int], interval_ms: int | None) -> tuple[float, float]:
    if interval_ms is None:
        return time_ms
    return time_ms[0] // interval_ms, time_ms[1] // interval_ms


def _by_time(
    groups: Sequence[RowGroup],
    spans: Sequence[tuple[float, float]],
    bucket: int,
    *,
    rows_wanted: int,
) -> tuple[Piece, ...]:
    edges = list(_time_edges(groups, spans, bucket, rows_wanted))
    pieces: list[Piece] = []
    for low, high in pairwise(edges):
        inside = tuple(
            group
            for group, span in zip(groups, spans, strict=True)
            if span[0] < high * bucket and span[1] >= low * bucket
        )
        if inside:
            rounds = low * bucket, high * bucket
            pieces.append(Piece(len(pieces), inside, rounds, None, (low, high - 1)))
    return tuple(pieces)


def _time_edges(
    groups: Sequence[RowGroup],
    spans: Sequence[tuple[float, float]],
    bucket: int,
    rows_wanted: int,
) -> Iterator[int]:
    """Yield the buckets at which pieces begin, and the one behind the last."""
    rows_in = _rows_in(groups, spans, bucket)
    waiting = math.inf
    for number in sorted(rows_in):
        if waiting + rows_in[number] > rows_wanted:
            yield number
            waiting = 0.0
        waiting += rows_in[number]
    yield max(rows_in) + 1


def _rows_in(
    groups: Sequence[RowGroup], spans: Sequence[tuple[float, float]], bucket: int
) -> dict[int, float]:
    """Guess the rows of each bucket, as if those of a row group were spread over its rounds."""
    rows_in: dict[int, float] = {}
    for group, (low, high) in zip(groups, spans, strict=True):
        touched = range(int(low) // bucket, int(high) // bucket + 1)
        for number in touched:
            rows_in[number] = rows_in.get(number, 0.0) + group.rows / len(touched)
    return rows_in


def _by_device(
    groups: Sequence[RowGroup], buckets: tuple[int, int], rows_wanted: int
) -> tuple[Piece, ...]:
    if any(group.device is None for group in groups):
        return (Piece(0, tuple(groups), None, None, buckets),)
    ordered = sorted(groups, key=lambda group: group.device or (b"", b""))
    edges: list[Device | None] = [None]
    waiting = 0
    for group in ordered:
        begin = group.device[0] if group.device else None
        if waiting + group.rows > rows_wanted and waiting and begin != edges[-1]:
            edges.append(begin)
            waiting = 0
        waiting += group.rows
    pieces: list[Piece] = []
    for low, high in pairwise([*edges, None]):
        inside = tuple(group for group in groups if _overlaps(group, low, high))
        if inside:
            bounds = (low, high) if len(edges) > 1 else None
            pieces.append(Piece(len(pieces), inside, None, bounds, buckets))
    return tuple(pieces)


def _overlaps(group: RowGroup, low: Device | None, high: Device | None) -> bool:
    first, last = group.device or (b"", b"")
    # All devices of a table are of one kind, which was checked with the footers.
    return (high is None or first < high) and (low is None or last >= low)  # type: ignore[operator]
