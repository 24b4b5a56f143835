"""From rows of whole rounds to their results: one reading a device and round, noise once, counted.

Noise is a keyed function of device, round and reading (`rase.kernels.keyed`), so it does not depend
on how a table was cut, on which thread or executor worked, or on whether a task was repeated. The
one place where a table's rounds are drawn and estimated, on every engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from rase.counts.counts import Counts, count_by_group
from rase.counts.estimate import Estimate
from rase.counts.mean import OF_READINGS
from rase.counts.moments import moments_of
from rase.counts.registry import TRACKED
from rase.counts.shares import shares
from rase.kernels.keyed import ROWS_AT_ONCE, RunKey
from rase.laws.response import CategoryRandomizer
from rase.series.rounds import RoundResult, estimate_round
from rase.shuffle.uniform import Uniform
from rase.tables.labels import CELLS, cells_by_label
from rase.tables.readings import Contributions, Devices, KeyedRows, Quanta, contributions_of
from rase.tables.summary import DeviceCounts, Tally, Truth

if TYPE_CHECKING:
    from rase.arrays import Flags, Places, Words
    from rase.kernels.words import Random
    from rase.laws.randomizer import RangeRandomizer
    from rase.tables.plan import RunPlan

__all__ = ["Collected", "Drawn", "draw", "estimate_rounds"]

# What moments of many rounds at once can answer; other estimators look at each round's counts.
_FROM_MOMENTS = frozenset({TRACKED, "unbiased_mean"})
_UNKNOWN = Uniform().manifest_for(0)
# Number of reports, estimates, the mean of the round by itself, spread of the readings.
_Found: TypeAlias = tuple[int, Mapping[str, Estimate], Estimate | None, float | None]


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """The reports of some rounds, counted, and what was done to get them.

    Args:
        rounds: The rounds that have a report, ascending; their cells, where devices have labels
            (`rase.tables.labels.cells_by_label`).
        group: For each row of ``counts`` the place of its round in ``rounds``; ascending.
        counts: The reports of all rounds.
        tally: What was read and changed.
        devices: How many reports each device drew.
        truth: In studies, the sums of the readings by round.
        reporting: For each round the public numbers of those who report in it, ascending, where
            the shuffler depends on them; None otherwise.
        clipped: For each round how many readings lay outside the range.
    """

    rounds: Places
    group: Places = field(repr=False)
    counts: Counts
    tally: Tally
    devices: DeviceCounts
    truth: Truth | None = None
    reporting: tuple[Words, ...] | None = field(default=None, repr=False)
    clipped: Places = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)

    @property
    def sizes(self) -> Places:
        """How many reports each round has."""
        # Sums of whole numbers below 2^53 are exact as floats.
        sizes = np.bincount(self.group, self.counts.counts, len(self.rounds))
        return sizes.astype(np.int64)

    def choose_rounds(self, rounds: Flags) -> Drawn:
        """Return what was counted in some rounds, without the tally and who reports."""
        rows = rounds[self.group]
        counts, truth = self.counts, self.truth
        epsilon = None if counts.epsilon is None else counts.epsilon[rows]
        return Drawn(
            self.rounds[rounds],
            (np.cumsum(rounds) - 1)[self.group[rows]],
            Counts(counts.places[rows], counts.counts[rows], epsilon),
            Tally(),
            DeviceCounts(),
            None if truth is None else truth.choose_rounds(rounds),
            clipped=self.clipped[rounds],
        )

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
        clipped = np.zeros(len(rounds), dtype=np.int64)
        for part in parts:
            clipped[np.searchsorted(rounds, part.rounds)] += part.clipped
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
            clipped,
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
            rows.time_ms,
            rows.device,
            value=rows.quanta,
            interval_ms=plan.interval_ms,
            takes_last=plan.categories is not None,
        )
        read, nulls = len(rows.time_ms), len(rows.null_ms)
        kept = len(averaged.round) if counts is None else int(counts.sum())
        tally = Tally(rows=read + nulls, nulls=nulls, duplicates=read - kept)
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
    counts_devices: bool = True,
) -> Drawn:
    """Draw a report for each reading, and count the reports of each round.

    Guarantee: only counts of noisy reports leave this function; each report is epsilon-LDP by the
    plan's randomizer, and drawn again with the same key it is the same report
    (tests/tables/test_rounds.py).

    Args:
        plan: What is done.
        collected: The readings of some rounds, or of some devices in them.
        key: The key of the run.
        randomizer_of: The randomizer of each round, where a learnt range changes; None for the
            plan's.
        counts_devices: Whether to count the reports of each device.
    """
    averaged, devices = collected.some, collected.devices
    quanta = Quanta(plan.quanta_range)
    if plan.above is None:
        readings = quanta.readings(averaged.reading)
        low, high = plan.quanta_range.low, plan.quanta_range.high
        is_outside = (readings < low) | (readings > high)
    else:
        # In quanta, so that a reading at the bound is not above it.
        bound = quanta.counts(np.array([plan.above]))
        readings = (averaged.reading > bound).astype(np.float64)
        is_outside = np.zeros(0, dtype=np.bool_)
    some = Contributions(averaged.round, averaged.device, readings)
    cells = some.round
    if devices.label is not None:
        cells = some.round * CELLS + 1 + devices.label[some.device]
    rounds, group = _number_rounds(cells)
    if randomizer_of is not None:
        ranges = [randomizer_of(number).domain for number in rounds.tolist()]
        lows, highs = (np.array([getattr(one, end) for one in ranges]) for end in ("low", "high"))
        is_outside = (readings < lows[group]) | (readings > highs[group])
    places = _draw_places(plan, some, key=key, devices=devices, randomizer_of=randomizer_of)
    reporting = None
    if plan.graph is not None:
        numbers = devices.public[some.device]
        reporting = tuple(np.sort(numbers[group == place]) for place in range(len(rounds)))
    epsilon = None if devices.epsilon is None else devices.epsilon[some.device]
    rows, counts = count_by_group(places, group=group, epsilon=epsilon)
    clipped = np.bincount(group[is_outside], minlength=len(rounds)).astype(np.int64)
    return Drawn(
        rounds,
        rows,
        counts,
        replace(collected.tally, reports=len(places), clipped=int(clipped.sum())),
        DeviceCounts.of(devices.public, some.device, devices.epsilon)
        if counts_devices
        else DeviceCounts(),
        Truth.of(averaged.round, np.rint(averaged.reading)) if plan.truth else None,
        reporting,
        clipped,
    )


def _number_rounds(rounds: Places) -> tuple[Places, Places]:
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


def _draw_places(
    plan: RunPlan,
    some: Contributions,
    *,
    key: RunKey,
    devices: Devices,
    randomizer_of: Callable[[int], RangeRandomizer] | None,
) -> Places:
    """Draw the place of each contribution's report."""
    places = np.empty(len(some.round), dtype=np.int64)
    for start in range(0, len(places), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        rounds, readings, codes = some.round[part], some.reading[part], some.device[part]
        source: Random = key.rows(rounds, devices.tags.take(codes, axis=0), readings=readings)
        if randomizer_of is not None:
            for number in np.unique(rounds).tolist():
                own = rounds == number
                drawn = randomizer_of(number).draw_many(readings[own], rng=source.part(own))
                places[part][own] = drawn
        elif devices.epsilon is not None:
            # All devices share a mechanism, and each draws by the law of its own budget.
            for budget in np.unique(devices.epsilon[codes]).tolist():
                own = devices.epsilon[codes] == budget
                one = replace(plan.randomizer, epsilon=budget)
                places[part][own] = one.draw_many(readings[own], rng=source.part(own))
        else:
            places[part] = plan.randomizer.draw_many(readings, rng=source)
    return places


def estimate_rounds(
    plan: RunPlan,
    drawn: Drawn,
    *,
    key: RunKey,
    randomizer_of: Callable[[int], RangeRandomizer] | None = None,
) -> list[RoundResult]:
    """Return what the rounds say by themselves; `RoundResult.tracked` adds the rounds before.

    Args:
        plan: What is asked for.
        drawn: The reports; all of these rounds.
        key: The key of the run, for estimators that resample.
        randomizer_of: What the reports of each round were drawn by, if not by the plan's.
    """
    labels = plan.labels
    if labels is not None:
        cells, group, counted = cells_by_label(
            labels, drawn.rounds, group=drawn.group, counts=drawn.counts
        )
        drawn = replace(drawn, rounds=cells, group=group, counts=counted)
    truths = {} if drawn.truth is None else drawn.truth.means(plan.quanta_range)
    numbers = drawn.rounds.tolist()
    has_one_law = drawn.counts.epsilon is None and randomizer_of is None
    results: list[_Found] = []
    if isinstance(plan.randomizer, CategoryRandomizer):
        results = [
            (one.n, shares(one, randomizer=plan.randomizer), None, None)
            for one in drawn.each_round()
        ]
    elif has_one_law and _FROM_MOMENTS.issuperset(plan.estimators) and numbers:
        results = _from_moments(plan, drawn)
    else:
        for number, counts in zip(numbers, drawn.each_round(), strict=True):
            law = plan.numbers if randomizer_of is None else randomizer_of(number)
            found = estimate_round(counts, law, plan.estimators, rng=key.round(number))
            results.append((counts.n, found.estimates, found.alone, found.spread))
    sizes = {n for n, _, _, _ in results}
    manifests = {n: plan.shuffler.manifest_for(n) for n in sizes} if plan.graph is None else {}
    per_round = 1 if labels is None else CELLS
    names = (None,) if labels is None else (None, *labels.names)
    return [
        RoundResult(
            n=n,
            estimates=estimates,
            # With real groups it follows from who reports, which is known at the end of the run.
            manifest=manifests.get(n, _UNKNOWN),
            round=number // per_round,
            start_ms=number // per_round * (plan.interval_ms or 1),
            label=names[number % per_round],
            truth=truths.get(number),
            alone=alone,
            spread=spread,
        )
        for number, (n, estimates, alone, spread) in zip(numbers, results, strict=True)
    ]


def _from_moments(plan: RunPlan, drawn: Drawn) -> list[_Found]:
    randomizer = plan.numbers
    found = moments_of(drawn.counts, randomizer, group=drawn.group, groups=len(drawn.rounds))
    columns = (found.mean, found.standard_error, found.n, found.degrees_of_freedom)
    spreads: list[float | None] = [None] * len(drawn.rounds)
    if found.spread is not None and TRACKED in plan.estimators:
        spreads = list(found.spread.tolist())
    low, high = randomizer.domain.low, randomizer.domain.high
    results: list[_Found] = []
    for value, error, n, degrees, spread in zip(
        *(column.tolist() for column in columns), spreads, strict=True
    ):
        mean = Estimate(
            value,
            error,
            n=n,
            method="unbiased_mean",
            target=OF_READINGS,
            degrees_of_freedom=degrees,
            lowest=low,
            highest=high,
        )
        results.append((n, dict.fromkeys(plan.estimators, mean), mean, spread))
    return results


def _reporting(part: Drawn, number: int) -> Words:
    place = int(np.searchsorted(part.rounds, number))
    is_there = place < len(part.rounds) and part.rounds[place] == number
    if not is_there or part.reporting is None:
        return np.zeros(0, dtype=np.uint64)
    return part.reporting[place]
