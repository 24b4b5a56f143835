"""Sort reports by round in bounded memory: sorted runs are spilled to disk and merged.

Only randomized reports come here, so nothing that is spilled needs more protection than what leaves
a device. The file has no name: it vanishes with the process, however that ends.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Records", "ReportRuns"]

Records = NDArray[np.void]


class ReportRuns:
    """Collect reports in any order and give them back round by round.

    Use it as a context manager, which frees the disk.

    Args:
        memory_bytes: How many bytes of reports may be held before a sorted run is spilled. A round
            must fit into memory; sorting and merging take about as much again.
        extra: Names of further float columns that travel with a report, such as its epsilon.

    Attributes:
        spilled: How many runs lie on disk.

    Raises:
        ValueError: If ``memory_bytes`` is not positive.

    Example:
        >>> with ReportRuns() as runs:
        ...     reports = np.array([1.0, 2.0, 3.0])
        ...     runs.append(np.array([7, 3, 7]), np.array([0, 0, 1]), reports=reports)
        ...     [(number, part["report"].tolist()) for number, part in runs.rounds()]
        [(3, [2.0]), (7, [1.0, 3.0])]
    """

    def __init__(self, memory_bytes: int = 64 << 20, *, extra: Sequence[str] = ()) -> None:
        if memory_bytes <= 0:
            raise ValueError(f"memory_bytes must be greater than 0, got {memory_bytes}.")
        self.memory_bytes = memory_bytes
        self.spilled = 0
        self._dtype = np.dtype(
            [
                ("round", np.int64),
                ("key", np.uint64),
                ("report", np.float64),
                *((name, np.float64) for name in extra),
            ]
        )
        self._extra = tuple(extra)
        # Not touched until filled, so a small table does not pay for it.
        self._held = np.empty(max(memory_bytes // self._dtype.itemsize, 1), dtype=self._dtype)
        self._held_count = 0
        self._files = ExitStack()
        self._runs: list[tuple[int, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def append(
        self,
        rounds: NDArray[np.int64],
        keys: NDArray[np.uint64],
        *,
        reports: NDArray[np.float64],
        **extra: NDArray[np.float64],
    ) -> None:
        """Add randomized reports; never give it readings.

        Args:
            rounds: The round of each report.
            keys: What each is sorted by in its round.
            reports: The randomized reports.
            **extra: The further columns named when the runs were made.
        """
        start = 0
        while start < len(rounds):
            if self._held_count == len(self._held):
                self._spill()
            room = len(self._held) - self._held_count
            taken = slice(start, start + room)
            count = len(rounds[taken])
            place = self._held[self._held_count : self._held_count + count]
            place["round"] = rounds[taken]
            place["key"] = keys[taken]
            place["report"] = reports[taken]
            for name in self._extra:
                place[name] = extra[name][taken]
            self._held_count += count
            start += count

    def rounds(self) -> Iterator[tuple[int, Records]]:
        """Give the reports back, once.

        Yields:
            The round number, ascending, and its reports by key.
        """
        if not self._runs:
            yield from _by_round(self._sorted())
            return
        self._spill()
        self._drop_held()
        yield from self._merged()

    def close(self) -> None:
        """Free memory and disk."""
        self._drop_held()
        self._runs = []
        self._files.close()

    def _drop_held(self) -> None:
        self._held, self._held_count = np.empty(0, dtype=self._dtype), 0

    def _sorted(self) -> Records:
        records, self._held_count = self._held[: self._held_count], 0
        return records[np.lexsort((records["key"], records["round"]))]

    def _spill(self) -> None:
        records = self._sorted()
        if not self._runs:
            self._file = self._files.enter_context(
                tempfile.TemporaryFile(prefix="rase-")  # noqa: SIM115 - the stack closes it
            )
        start = self._file.seek(0, 2)
        self._file.write(records.data)
        self._runs.append((start, start + records.nbytes))
        self.spilled += 1

    def _merged(self) -> Iterator[tuple[int, Records]]:
        size = self._dtype.itemsize
        block = max(self.memory_bytes // (2 * len(self._runs)) // size, 1)
        heads = [_Head(*run, np.empty(0, dtype=self._dtype)) for run in self._runs]
        for head in heads:
            head.records = self._read(head, block)
        first = np.array([head.records["round"][0] for head in heads])
        last = np.array([head.last for head in heads])
        while (last < _DONE).any():
            # A round is complete once every run that is not at its end has shown a later one.
            limit = last.min()
            active = np.flatnonzero(first <= limit).tolist()
            yield from _by_round(_merge([heads[number].cut(limit) for number in active]))
            for number in active:
                head = heads[number]
                # The run that set the limit must show more, also where a round outgrows the block.
                # Others that have little left read on too, so that all advance together.
                if head.start < head.end and (head.last == limit or len(head.records) < block // 2):
                    head.records = np.concatenate([head.records, self._read(head, block)])
                first[number] = head.records["round"][0] if len(head.records) else _DONE
                last[number] = head.last
        yield from _by_round(_merge([head.records for head in heads]))

    def _read(self, head: "_Head", count: int) -> Records:
        left = (head.end - head.start) // self._dtype.itemsize
        records = np.empty(min(count, left), dtype=self._dtype)
        self._file.seek(head.start)
        self._file.readinto(records.data)
        head.start += records.nbytes
        return records


# Later than every round: the last round of a run that has been read to its end.
_DONE = np.iinfo(np.int64).max


@dataclass(slots=True)
class _Head:
    """What has been read of a run and not yet given back, and where the rest of it lies."""

    start: int
    end: int
    records: Records

    @property
    def last(self) -> int:
        """The last round seen, beyond which the run may hold anything."""
        return int(self.records["round"][-1]) if self.start < self.end else _DONE

    def cut(self, limit: int) -> Records:
        """Take off the records of all rounds before the limit."""
        place = int(np.searchsorted(self.records["round"], limit))
        taken, self.records = self.records[:place], self.records[place:]
        return taken


def _merge(parts: list[Records]) -> Records:
    records = np.concatenate(parts)
    return records[np.lexsort((records["key"], records["round"]))]


def _by_round(records: Records) -> Iterator[tuple[int, Records]]:
    rounds = records["round"]
    changes = np.flatnonzero(rounds[1:] != rounds[:-1]) + 1
    edges = [0, *changes.tolist(), len(records)] if len(records) else []
    for start, end in pairwise(edges):
        yield int(rounds[start]), records[start:end]
