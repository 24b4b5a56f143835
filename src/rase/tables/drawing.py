"""From rows of whole rounds to counts: one reading a device and round, noise once, counted.

Noise is a keyed function of device, round and reading (`rase.kernels.keyed`), so it does not depend
on how a table was cut, on which thread or executor worked, or on whether a task was repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from rase.counts.counts import Counts, count_by_group
from rase.kernels.keyed import ROWS_AT_ONCE, RunKey
from rase.tables.keyed import Devices, KeyedRows
from rase.tables.readings import Contributions, Quanta, contributions_of
from rase.tables.summary import DeviceCounts, Tally, Truth

if TYPE_CHECKING:
    from rase.arrays import Floats, Places, Words
    from rase.domain import Range
    from rase.laws.randomizer import RangeRandomizer
    from rase.tables.plan import RunPlan

__all__ = ["Collected", "Drawn", "draw"]


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """The reports of some rounds, counted, and what was done to get them.

    Args:
        rounds: The rounds that have a report, ascending.
        group: For each row of ``counts`` the place of its round in ``rounds``; ascending.
        counts: The reports of all rounds.
        tally: What was read and changed.
        devices: How many reports each device drew.
        truth: In studies, the sums of the readings by round.
        reporting: For each round the public numbers of those who report in it, ascending, where
            the shuffler depends on them; None otherwise.
    """

    rounds: Places
    group: Places = field(repr=False)
    counts: Counts
    tally: Tally
    devices: DeviceCounts
    truth: Truth | None = None
    reporting: tuple[Words, ...] | None = field(default=None, repr=False)

    @classmethod
    def joined(cls, parts: Sequence[Drawn]) -> Drawn:
        """Return the reports of rounds that were drawn in parts."""
        if len(parts) == 1:
            return parts[0]
        rounds = np.unique(np.concatenate([part.rounds for part in parts]))
        budgets = [part.counts.epsilon for part in parts if part.counts.epsilon is not None]
        group, counts = count_by_group(
            np.concatenate([part.counts.places for part in parts]),
            group=np.concatenate(
                [np.searchsorted(rounds, part.rounds)[part.group] for part in parts]
            ),
            counts=np.concatenate([part.counts.counts for part in parts]),
            epsilon=np.concatenate(budgets) if budgets else None,
        )
        devices, tally = DeviceCounts(), Tally()
        for part in parts:
            tally += part.tally
            devices.add(part.devices)
        truths = [part.truth for part in parts if part.truth is not None]
        reporting = None
        if parts[0].reporting is not None:
            reporting = tuple(
                np.sort(np.concatenate([_reporting(part, number) for part in parts]))
                for number in rounds.tolist()
            )
        return cls(
            rounds,
            group,
            counts,
            tally,
            devices,
            Truth.joined(truths) if truths else None,
            reporting,
        )

    def each_round(self) -> Iterator[Counts]:
        """Yield the counts of each round, every place once for each budget."""
        places, counts, budgets = self.counts.places, self.counts.counts, self.counts.epsilon
        edges = np.searchsorted(self.group, np.arange(len(self.rounds) + 1))
        for start, end in pairwise(edges.tolist()):
            own = None if budgets is None else budgets[start:end]
            yield Counts(places[start:end], counts[start:end], own)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Collected:
    """One reading for each device and round, before any noise; without ``repr``.

    Args:
        some: The readings.
        devices: The devices by code.
        tally: What was read and left out to get them.
    """

    some: Contributions
    devices: Devices
    tally: Tally

    @classmethod
    def of(cls, plan: RunPlan, rows: KeyedRows) -> Collected:
        """Average the readings of each device in each round; of repeated times the first counts."""
        averaged, counts = contributions_of(
            rows.time_ms, rows.device, value=rows.quanta, interval_ms=plan.interval_ms
        )
        kept = len(averaged) if counts is None else int(counts.sum())
        nulls = len(rows.null_ms)
        tally = Tally(rows=len(rows) + nulls, nulls=nulls, duplicates=len(rows) - kept)
        return cls(averaged, rows.devices, tally)

    def in_order(self) -> Collected:
        """Return the readings sorted by round."""
        order = np.argsort(self.some.round, kind="stable")
        some = Contributions(
            self.some.round[order], self.some.device[order], self.some.reading[order]
        )
        return Collected(some, self.devices, self.tally)

    def between(self, first: int, last: int) -> Collected:
        """Return the readings of the rounds from first to last, of readings sorted by round."""
        start, end = np.searchsorted(self.some.round, [first, last + 1])
        some = Contributions(
            self.some.round[start:end], self.some.device[start:end], self.some.reading[start:end]
        )
        return Collected(some, self.devices, Tally())


def draw(
    plan: RunPlan,
    collected: Collected,
    *,
    key: RunKey,
    randomizer_of: Callable[[int], RangeRandomizer] | None = None,
) -> Drawn:
    """Draw a report for each reading, and count the reports of each round.

    Guarantee: only counts of noisy reports leave this function; each report is epsilon-LDP by the
    plan's randomizer, and drawn again with the same key it is the same report
    (tests/tables/test_drawing.py).

    Args:
        plan: What is done.
        collected: The readings of some rounds, or of some devices in them.
        key: The key of the run.
        randomizer_of: The randomizer of each round, where a learnt range changes; None for the
            plan's.
    """
    averaged, devices = collected.some, collected.devices
    readings = Quanta(plan.randomizer.domain).readings(averaged.reading)
    some = Contributions(averaged.round, averaged.device, readings)
    rounds, group = _numbered(some.round)
    ranges = None
    if randomizer_of is not None:
        ranges = [randomizer_of(number).domain for number in rounds.tolist()]
    places = _places(plan, some, key=key, devices=devices, randomizer_of=randomizer_of)
    reporting = None
    if plan.graph is not None:
        numbers = devices.public[some.device]
        reporting = tuple(np.sort(numbers[group == place]) for place in range(len(rounds)))
    clipped = _clipped(readings, group, ranges or [plan.randomizer.domain] * len(rounds))
    epsilon = None if devices.epsilon is None else devices.epsilon[some.device]
    rows, counts = count_by_group(places, group=group, epsilon=epsilon)
    return Drawn(
        rounds,
        rows,
        counts,
        collected.tally + Tally(reports=len(some), clipped=clipped),
        DeviceCounts.of(devices.public, some.device, devices.epsilon),
        Truth.of(averaged.round, np.rint(averaged.reading)) if plan.truth else None,
        reporting,
    )


def _numbered(rounds: Places) -> tuple[Places, Places]:
    """Return the different rounds, ascending, and the place of each row's round among them."""
    if not len(rounds):
        return rounds, rounds
    first = int(rounds.min())
    span = int(rounds.max()) - first + 1
    if span > 4 * len(rounds):
        return np.unique(rounds, return_inverse=True)
    # Rounds near each other need no sorting.
    from_first = rounds - first
    is_there = np.zeros(span, dtype=np.bool_)
    is_there[from_first] = True
    return first + np.flatnonzero(is_there), (np.cumsum(is_there) - 1)[from_first]


def _clipped(readings: Floats, group: Places, ranges: Sequence[Range]) -> int:
    """Return how many readings lie outside the range of their round."""
    if len({(one.low, one.high) for one in ranges}) == 1:
        is_outside = (readings < ranges[0].low) | (readings > ranges[0].high)
        return int(np.count_nonzero(is_outside))
    low, high = (np.array([getattr(one, name) for one in ranges]) for name in ("low", "high"))
    if not len(readings):
        return 0
    return int(np.count_nonzero((readings < low[group]) | (readings > high[group])))


def _places(
    plan: RunPlan,
    some: Contributions,
    *,
    key: RunKey,
    devices: Devices,
    randomizer_of: Callable[[int], RangeRandomizer] | None,
) -> Places:
    """Draw the place of each contribution's report."""
    places = np.empty(len(some), dtype=np.int64)
    for start in range(0, len(some), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        rounds, readings, codes = some.round[part], some.reading[part], some.device[part]
        source = key.rows(rounds, devices.tags.take(codes, axis=0), readings=readings)
        out = places[part]
        if randomizer_of is not None:
            for number in np.unique(rounds).tolist():
                chosen = rounds == number
                noise = source.part(chosen)
                out[chosen] = randomizer_of(number).draw_many(readings[chosen], rng=noise)
        elif devices.epsilon is not None:
            budgets = devices.epsilon[codes]
            for budget in np.unique(budgets):
                chosen = budgets == budget
                law = plan.randomizer.law(float(budget))
                drawn = law.draw_many(
                    readings[chosen], plan.randomizer.domain.grid, source=source.part(chosen)
                )
                out[chosen] = np.asarray(drawn)
        else:
            out[:] = plan.randomizer.draw_many(readings, rng=source)
    return places


def _reporting(part: Drawn, number: int) -> Words:
    place = int(np.searchsorted(part.rounds, number))
    is_there = place < len(part.rounds) and part.rounds[place] == number
    if not is_there or part.reporting is None:
        return np.zeros(0, dtype=np.uint64)
    return part.reporting[place]
