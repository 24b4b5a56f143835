"""Draw tables of numbered devices in one pass, in any order of rows, where each reports once.

Where every device has one row in a round, that row is the reading, and its noise can be drawn as it
comes. A byte for each device and open round shows whether that was so: those of a round that is
complete are counted and compared with its rows, before anything of it is released. Rounds in which
a device has more rows are left to `rase.tables.parts` and `rase.tables.store`, which average.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING

import numpy as np

from rase.tables.readings import Contributions
from rase.tables.release_log import PartResult
from rase.tables.rounds import Collected, Drawn, draw, estimate_rounds
from rase.tables.summary import DeviceCounts, NumberedCounts, Tally

if TYPE_CHECKING:
    from rase.arrays import Places
    from rase.kernels.keyed import RunKey
    from rase.tables.parquet import ParquetSource, RowGroup
    from rase.tables.plan import RunPlan

__all__ = ["Layout", "Stream", "layout_of"]

# Tasks of fewer rows cost more to hand out than they gain.
_TASK_ROWS = 1 << 19
# A device with more than one row in more than this share of the rows: others must average.
_MOST_REPEATED = 1e-3
# About what a place that was drawn in a round takes until the round is complete, and copies of it.
_BYTES_PER_PLACE = 96


@dataclass(frozen=True, slots=True)
class Layout:
    """How the rows of a table are to be read so that rounds are complete as early as may be.

    Args:
        tasks: Row groups that are read together, in the order of the table.
        rounds: For each task its first round and the first behind its last.
        complete: For each number of tasks, the first round that those after them may hold.
        width: How many rounds may be open at a time.
        first_device: The smallest number of a device.
        devices: How many numbers there are from that to the largest.
    """

    tasks: tuple[tuple[RowGroup, ...], ...]
    rounds: tuple[tuple[int, int], ...]
    complete: tuple[int, ...]
    width: int
    first_device: int
    devices: int


def layout_of(
    groups: Sequence[RowGroup], interval_ms: int | None, *, ahead: int, most_bytes: int
) -> Layout | None:
    """Return how to read a table in one pass; None if that takes too much memory.

    Args:
        groups: All row groups.
        interval_ms: The length of a round; None where each time is one.
        ahead: How many tasks may have begun that are not taken in.
        most_bytes: What devices and open rounds may take.
    """
    times = [group.time_ms for group in groups if group.time_ms is not None]
    numbers = [group.devices for group in groups if group.devices is not None]
    if len(times) < len(groups) or len(numbers) < len(groups):
        return None
    edges = _cut_tasks(groups)
    length = interval_ms or 1
    first = [min(start for start, _ in times[a:b]) // length for a, b in pairwise(edges)]
    behind = [max(end for _, end in times[a:b]) // length + 1 for a, b in pairwise(edges)]
    # No task from one on holds a round before the first of all of them.
    complete = np.minimum.accumulate(first[::-1])[::-1].tolist()
    reached = np.maximum.accumulate(behind).tolist()
    width = max(
        reached[min(place + ahead, len(first)) - 1] - start for place, start in enumerate(complete)
    )
    lowest, highest = min(low for low, _ in numbers), max(high for _, high in numbers)
    devices = highest - lowest + 1
    # Counts of devices take four bytes each, besides.
    if (width + 8) * devices > most_bytes:
        return None
    return Layout(
        tuple(tuple(groups[a:b]) for a, b in pairwise(edges)),
        tuple(zip(first, behind, strict=True)),
        (*complete, reached[-1]),
        width,
        lowest,
        devices,
    )


def _cut_tasks(groups: Sequence[RowGroup]) -> list[int]:
    """Return between which row groups one task ends and the next begins."""
    edges, held = [0], 0
    for place, group in enumerate(groups, start=1):
        held += group.rows
        if held >= _TASK_ROWS or place == len(groups):
            edges.append(place)
            held = 0
    return edges


class Stream:
    """Read a table as a layout says; iterate `parts` once.

    Args:
        source: The table.
        plan: What to do.
        key: The key of the run.
        layout: How to read it.
        workers: How many threads.
        most_bytes: What the places of open rounds may take.
        released: Rounds that were released before.

    Attributes:
        left: When all parts were taken, the row groups that may hold rows of rounds which are still
            to be drawn; none if all are done.
    """

    def __init__(
        self,
        source: ParquetSource,
        plan: RunPlan,
        *,
        key: RunKey,
        layout: Layout,
        workers: int,
        most_bytes: int,
        released: Places | None,
    ) -> None:
        self.left: list[RowGroup] = []
        self._source, self._plan, self._key = source, plan, key
        self._layout, self._workers = layout, workers
        self._most_places = most_bytes // _BYTES_PER_PLACE
        self._released = released
        self._seen = np.zeros((layout.width, layout.devices), dtype=np.bool_)
        self._open: list[_Task] = []
        self._rows = self._repeats = 0

    def parts(self, on_progress: Callable[[float], None]) -> Iterator[PartResult]:
        """Yield what came of rounds that are complete.

        Args:
            on_progress: Called with the share of the table that was read.
        """
        layout = self._layout
        left, done = set[int](), layout.complete[0]
        with ThreadPoolExecutor(self._workers) as pool:
            for number, task in enumerate(self._draw_in_order(pool), start=1):
                self._keep(task)
                complete = layout.complete[number]
                if complete > done:
                    part, repeated = self._finish(done, complete)
                    left |= repeated
                    yield part
                    done = complete
                on_progress(number / len(layout.tasks))
                if self._is_unfit(len(left)):
                    break
        self.left = [
            group
            for group in self._source.groups
            if group.time_ms is not None and self._is_left(group.time_ms, done, left)
        ]

    def _draw_in_order(self, pool: ThreadPoolExecutor) -> Iterator[_Task]:
        """Yield the tasks in their order, with few under way."""
        waiting: deque[Future[_Task]] = deque()
        tasks = iter(range(len(self._layout.tasks)))
        try:
            while True:
                for number in islice(tasks, self._workers + 1 - len(waiting)):
                    waiting.append(pool.submit(self._draw, number))
                if not waiting:
                    return
                yield waiting.popleft().result()
        finally:
            for one in waiting:
                one.cancel()

    def _is_left(self, time_ms: tuple[int, int], done: int, left: set[int]) -> bool:
        first, last = (time // (self._plan.interval_ms or 1) for time in time_ms)
        return last >= done or any(first <= number <= last for number in left)

    def _is_unfit(self, left: int) -> bool:
        """Return whether going on would be waste: devices that repeat, or too much to hold."""
        places = sum(len(task.drawn.group) for task in self._open)
        return (
            self._repeats > _MOST_REPEATED * self._rows or left > 100 or places > self._most_places
        )

    def _draw(self, number: int) -> _Task:
        """Draw a report for each row of a task, and note who reported."""
        layout, plan = self._layout, self._plan
        found, nulls, repeats, rows = list[Drawn](), [], 0, 0
        for chunk in self._source.read(layout.tasks[number]):
            keyed = chunk.keyed(
                self._key, plan, rounds=layout.rounds[number], released=self._released
            )
            assert keyed.devices.numbers is not None  # noqa: S101 - the footers have them
            device = keyed.devices.numbers[keyed.device] - layout.first_device
            rounds = keyed.time_ms // (plan.interval_ms or 1)
            is_near = (device >= 0) & (device < layout.devices)
            if not is_near.all():
                # Not what the footers say: the run is refused when rows are found to be missing.
                rounds, device = rounds[is_near], device[is_near]
                keyed = replace(keyed, device=keyed.device[is_near], quanta=keyed.quanta[is_near])
            repeats += self._mark(rounds, device)
            rows += len(rounds)
            nulls.append(keyed.null_ms // (plan.interval_ms or 1))
            some = Contributions(rounds, keyed.device, keyed.quanta)
            collected = Collected(some, keyed.devices, Tally())
            found.append(draw(plan, collected, key=self._key, counts_devices=False))
        return _Task(Drawn.joined(found), np.concatenate(nulls), rows, repeats)

    def _mark(self, rounds: Places, device: Places) -> int:
        """Note who reported in which round; return how many surely did so before."""
        cells = rounds % self._layout.width
        cells *= self._layout.devices
        cells += device
        seen = self._seen.reshape(-1)
        repeats = int(np.count_nonzero(seen[cells]))
        seen[cells] = True
        return repeats

    def _keep(self, task: _Task) -> None:
        self._rows += task.rows
        self._repeats += task.repeats
        self._open.append(task)
        # Joined when what was added is as much as there was, so that all is joined a few times.
        sizes = [len(one.drawn.group) for one in self._open]
        if len(sizes) > 1 and sum(sizes[1:]) >= sizes[0]:
            self._open = [_Task.join(self._open)]

    def _finish(self, first: int, behind: int) -> tuple[PartResult, set[int]]:
        """Estimate rounds that are complete; return also those in which a device has more rows."""
        task = _Task.join(self._open)
        drawn, end = task.drawn, int(np.searchsorted(task.drawn.rounds, behind))
        is_later = np.arange(len(drawn.rounds)) >= end
        is_once, sizes = np.zeros(len(drawn.rounds), dtype=np.bool_), drawn.sizes
        for place, number in enumerate(drawn.rounds[:end].tolist()):
            reporting = np.count_nonzero(self._seen[number % self._layout.width])
            is_once[place] = reporting == sizes[place]
        repeated = set(drawn.rounds[~(is_once | is_later)].tolist())
        nulls = task.nulls[(task.nulls < behind) & ~np.isin(task.nulls, list(repeated))]
        some = drawn.choose_rounds(is_once)
        part = self._estimate(some, nulls)
        cleared = np.arange(first, min(behind, first + self._layout.width)) % self._layout.width
        self._seen[cleared] = False
        later = drawn.choose_rounds(is_later)
        self._open = [_Task(later, task.nulls[task.nulls >= behind], 0, 0)]
        return part, repeated

    def _estimate(self, drawn: Drawn, nulls: Places) -> PartResult:
        """Return what came of rounds in which each device has one row."""
        reports = np.zeros(self._layout.devices, dtype=np.int32)
        for number in drawn.rounds.tolist():
            reports += self._seen[number % self._layout.width]
        count = int(drawn.sizes.sum())
        return PartResult(
            estimate_rounds(self._plan, drawn, key=self._key),
            Tally(
                rows=count + len(nulls),
                nulls=len(nulls),
                reports=count,
                clipped=int(drawn.clipped.sum()),
            ),
            DeviceCounts(numbered=NumberedCounts(self._layout.first_device, reports)),
            set(nulls.tolist()).difference(drawn.rounds.tolist()),
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Task:
    """What was drawn of some row groups; without ``repr``.

    Args:
        drawn: Their reports, counted.
        nulls: The rounds of rows that hold no reading.
        rows: How many rows hold one.
        repeats: How many of these were surely not the first of their device in the round.
    """

    drawn: Drawn
    nulls: Places
    rows: int
    repeats: int

    @classmethod
    def join(cls, tasks: Sequence[_Task]) -> _Task:
        if len(tasks) == 1:
            return tasks[0]
        return cls(
            Drawn.joined([task.drawn for task in tasks]),
            np.concatenate([task.nulls for task in tasks]),
            sum(task.rows for task in tasks),
            sum(task.repeats for task in tasks),
        )
