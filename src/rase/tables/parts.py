"""Cut a Parquet table by its footers into parts that hold whole rounds.

A part is a span of rounds with the row groups that may hold some of it. At a cut a row group is
read twice, each time for its own rows. A part with a round too large to be held is read in slices
of its devices. Where a table is in no order of time, this costs more than reading it once and
sorting its rows by rounds (`rase.tables.store`), and nothing is returned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rase.arrays import Places
    from rase.tables.parquet import RowGroup

__all__ = ["Part", "cut", "cut_anyway"]

# Parts of fewer rows cost more to hand out than they gain.
_USUAL_ROWS = 1 << 19
# Reading more than this many times the rows of the table costs more than sorting them.
_MOST_READ = 2.5
# Rounds are below 2^55 in size, by their times in milliseconds or by fewer of them.
_EVERY_ROUND = (-(1 << 55), 1 << 55)


@dataclass(frozen=True, slots=True)
class Part:
    """A span of rounds, and where its rows are.

    Args:
        groups: The row groups that may hold rows of it, in the order of the table.
        rounds: Its first round and the first behind it.
        slices: Into how many parts its devices are cut, because all rows are too many to hold.
    """

    groups: tuple[RowGroup, ...]
    rounds: tuple[int, int]
    slices: int = 1

    @property
    def rows(self) -> int:
        """How many rows are read for it."""
        return self.slices * sum(group.rows for group in self.groups)


def cut(
    groups: Sequence[RowGroup], interval_ms: int | None, *, most_rows: int
) -> list[Part] | None:
    """Cut a table into parts of whole rounds; None if its order makes that too costly.

    Args:
        groups: All row groups.
        interval_ms: The length of a round; None where each time is one.
        most_rows: How many rows may be held at once.
    """
    parts = cut_anyway(groups, interval_ms, most_rows=most_rows)
    is_cheap = sum(part.rows for part in parts) <= _MOST_READ * sum(group.rows for group in groups)
    has_times = all(group.time_ms is not None for group in groups)
    return parts if has_times and (is_cheap or len(parts) == 1) else None


def cut_anyway(
    groups: Sequence[RowGroup], interval_ms: int | None, *, most_rows: int
) -> list[Part]:
    """Cut a table into parts of whole rounds, whatever that costs.

    Where footers hold no times, all rounds are one part, read in slices of its devices.

    Args:
        groups: All row groups.
        interval_ms: The length of a round; None where each time is one.
        most_rows: How many rows may be held at once.
    """
    if any(group.time_ms is None for group in groups):
        count = sum(group.rows for group in groups)
        return [Part(tuple(groups), _EVERY_ROUND, max(math.ceil(count / most_rows), 1))]
    length = interval_ms or 1
    first = np.array([group.time_ms[0] // length for group in groups if group.time_ms])
    behind = np.array([group.time_ms[1] // length + 1 for group in groups if group.time_ms])
    rows = np.array([group.rows for group in groups])
    wanted = min(most_rows, max(_USUAL_ROWS, 2 * int(rows.max())))
    edges = _edges(first, behind, rows, wanted)
    parts = []
    for start, end in pairwise(edges):
        inside = np.flatnonzero((first < end) & (behind > start))
        if not len(inside):
            continue
        shares = (np.minimum(behind[inside], end) - np.maximum(first[inside], start)) / (
            behind[inside] - first[inside]
        )
        held = float(shares @ rows[inside])
        # Rows are not spread evenly: some slack before a part counts as too large.
        slices = max(math.ceil(held / (1.5 * most_rows)), 1)
        parts.append(Part(tuple(groups[place] for place in inside.tolist()), (start, end), slices))
    return parts


def _edges(first: Places, behind: Places, rows: Places, wanted: int) -> list[int]:
    """Return the rounds between which about so many rows lie, if rows are spread evenly in time."""
    ends = np.unique(np.concatenate([first, behind]))
    # Rows before each end: a row group adds its rows evenly between its first and last round.
    before = np.zeros(len(ends))
    for start, end, count in zip(first, behind, rows, strict=True):
        before += count * np.clip((ends - start) / (end - start), 0.0, 1.0)
    total = before[-1]
    targets = np.arange(1, max(math.ceil(total / wanted), 1)) * (
        total / max(math.ceil(total / wanted), 1)
    )
    inner = np.rint(np.interp(targets, before, ends)).astype(np.int64)
    edges: list[int] = np.unique(np.concatenate([[ends[0]], inner, [ends[-1]]])).tolist()
    return edges
