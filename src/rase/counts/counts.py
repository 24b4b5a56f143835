"""Counts: how often each place was reported in a round.

After a uniform shuffle this is all that is left of a round. Every estimator is a function of it,
and whole numbers add up exactly, however a round was cut and in whatever order its parts came.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from rase.arrays import Floats, Places
    from rase.laws.randomizer import Randomizer, RangeRandomizer

__all__ = [
    "Counts",
    "as_counts",
    "as_reports",
    "check_budgets",
    "check_counts",
    "count_by_group",
    "weighted_values",
]

# More places than this times the reports cost more to count one by one than reports to sort.
_SPARSE = 4
# Keys of cells are 64-bit numbers.
_MOST_CELLS = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """How often each place was reported, by budget where contributors differ in it.

    Args:
        places: The different places, ascending within each budget.
        counts: How often each was reported.
        epsilon: The budget of the reports of each row, ascending; None where all share one.

    Example:
        >>> parts = [Counts.of([7, 3, 7]), Counts.of([3])]
        >>> both = Counts.join(parts)
        >>> both.places.tolist(), both.counts.tolist(), both.n
        ([3, 7], [2, 2], 4)
    """

    places: Places = field(repr=False)
    counts: Places = field(repr=False)
    epsilon: Floats | None = None

    @classmethod
    def of(cls, places: ArrayLike, *, epsilon: ArrayLike | None = None) -> Counts:
        """Count the places of reports.

        Args:
            places: One place for each report.
            epsilon: The budget of each report; None where all share one.

        Raises:
            ValueError: If there are more or fewer budgets than reports, or one is not positive.
        """
        given = np.asarray(places, dtype=np.int64)
        budgets = None if epsilon is None else check_budgets(epsilon, given.size)
        return count_by_group(given, epsilon=budgets)[1]

    @classmethod
    def join(cls, parts: Sequence[Counts]) -> Counts:
        """Return the counts of a round that was counted in parts."""
        if len(parts) == 1:
            return parts[0]
        return count_by_group(
            np.concatenate([part.places for part in parts]),
            counts=np.concatenate([part.counts for part in parts]),
            epsilon=_joined_budgets(parts),
        )[1]

    def clamp(self, low: int, high: int) -> Counts:
        """Return the counts with places beyond two ends counted at these."""
        places = np.clip(self.places, low, high)
        return count_by_group(places, counts=self.counts, epsilon=self.epsilon)[1]

    @property
    def n(self) -> int:
        """How many reports there are."""
        return int(self.counts.sum())

    def classes(self) -> Iterator[tuple[float | None, Counts]]:
        """Yield each budget and the counts of its reports; None where all share one."""
        if self.epsilon is None:
            yield None, self
            return
        for budget in np.unique(self.epsilon):
            chosen = self.epsilon == budget
            yield (
                float(budget),
                Counts(self.places[chosen], self.counts[chosen], self.epsilon[chosen]),
            )

    def of_large_classes(self, k_min: int) -> Counts:
        """Return the counts of those budgets that have ``k_min`` or more reports.

        Whoever reads a report reads its budget too, so the others of the same budget are all it
        hides among. Reports of a smaller class must be left out.

        Example:
            >>> counts = Counts.of([1, 1, 2, 9], epsilon=[1.0, 1.0, 1.0, 4.0])
            >>> counts.of_large_classes(2).n
            3
        """
        large = [part for _, part in self.classes() if part.n >= k_min]
        if not large:
            none = np.zeros(0, dtype=np.int64)
            return Counts(none, none, None if self.epsilon is None else np.zeros(0))
        return Counts.join(large)


def count_by_group(
    places: Places,
    *,
    group: Places | None = None,
    counts: Places | None = None,
    epsilon: Floats | None = None,
) -> tuple[Places, Counts]:
    """Count places by group, for instance by round.

    What comes out does not depend on the order of what goes in, to the last bit of every sum that
    is taken of it.

    Args:
        places: Places, in any order.
        group: The group of each, from 0; None for one group.
        counts: How often each was reported; None for once.
        epsilon: The budget of each; None where all share one.

    Returns:
        The group of each row of the counts, ascending, and the counts: every place once for each
        group and budget.

    Example:
        >>> group, counts = count_by_group(np.array([5, 2, 5]), group=np.array([1, 0, 1]))
        >>> group.tolist(), counts.places.tolist(), counts.counts.tolist()
        ([0, 1], [2, 5], [1, 2])
    """
    if not places.size:
        return np.zeros(0, np.int64), Counts(places, np.zeros(0, np.int64), epsilon)
    budgets, classes = (None, None) if epsilon is None else np.unique(epsilon, return_inverse=True)
    low = int(places.min())
    sizes = [
        1 if group is None else int(group.max()) + 1,
        1 if budgets is None else budgets.size,
        int(places.max()) - low + 1,
    ]
    if math.prod(sizes) > _MOST_CELLS:
        # Places further apart than any mechanism in use draws them: numbered by their rank.
        values, rank = np.unique(places, return_inverse=True)
        rows, found = count_by_group(rank, group=group, counts=counts, epsilon=epsilon)
        return rows, replace(found, places=values[found.places])
    key = places - low
    if classes is not None:
        key += classes * sizes[2]
    if group is not None:
        key += group * (sizes[1] * sizes[2])
    there, total = _count(key, counts, math.prod(sizes))
    rows, place = np.divmod(there, sizes[2])
    place += low
    if budgets is None:
        return rows, Counts(place, total)
    rows, own = np.divmod(rows, sizes[1])
    return rows, Counts(place, total, budgets[own])


def _count(key: Places, counts: Places | None, cells: int) -> tuple[Places, Places]:
    """Return the different keys, ascending, and how often each occurs; ``key`` is written over."""
    if cells <= _SPARSE * key.size + 1024:
        # Sums of whole numbers below 2^53 are exact as floats.
        total = np.bincount(key, weights=counts, minlength=cells)
        there = np.flatnonzero(total)
        return there, total[there].astype(np.int64)
    if counts is None:
        key.sort()
        starts = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
        return key[starts], np.diff(starts, append=key.size)
    order = np.argsort(key, kind="stable")
    key = key[order]
    starts = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    return key[starts], np.add.reduceat(counts[order], starts)


def _joined_budgets(parts: Sequence[Counts]) -> Floats | None:
    budgets = [part.epsilon for part in parts if part.epsilon is not None]
    return np.concatenate(budgets) if budgets else None


def as_counts(
    reports: Counts | ArrayLike,
    randomizer: RangeRandomizer,
    *,
    epsilon: ArrayLike | None = None,
) -> Counts:
    """Return reports as counts; counts are returned as they are.

    Args:
        reports: Counts, or reports in the unit of the readings, in any order.
        randomizer: The mechanism they come from.
        epsilon: The budgets of the reports, aligned with them, where contributors differ.

    Raises:
        ValueError: If there are no reports, or they cannot come from ``randomizer``.
    """
    if isinstance(reports, Counts):
        counts = reports
    else:
        places = randomizer.places_of(as_reports(reports))
        counts = Counts.of(places, epsilon=epsilon)
    check_counts(counts, randomizer)
    return counts


def check_counts(counts: Counts, randomizer: Randomizer) -> None:
    """Refuse counts without a report, and places that a mechanism cannot draw.

    Raises:
        ValueError: If there is no report, or a place cannot come from ``randomizer``.
    """
    if not counts.counts.size:
        raise ValueError("reports must hold at least one report, got none.")
    randomizer.check_places(counts.places, epsilon=counts.epsilon)


def as_reports(reports: ArrayLike) -> Floats:
    """Return reports as a row of floats, or refuse them.

    Raises:
        ValueError: If there are none, they are not one row, or one is not finite.
    """
    values = np.asarray(reports, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"reports must be one row of numbers, got {values.ndim} dimensions.")
    if not values.size:
        raise ValueError("reports must hold at least one report, got none.")
    if not np.isfinite(values).all():
        raise ValueError("reports must be finite numbers, got NaN or infinity among them.")
    return values


def weighted_values(
    reports: Counts | ArrayLike, randomizer: RangeRandomizer | None
) -> tuple[Floats, Places]:
    """Return the different reports in the unit of the readings, ascending, and their counts.

    Args:
        reports: Counts, or reports in any order.
        randomizer: The mechanism they come from; counts need it.

    Raises:
        ValueError: If there are no reports, or counts come without their mechanism.
    """
    if not isinstance(reports, Counts):
        return np.unique(as_reports(reports), return_counts=True)
    if randomizer is None:
        raise ValueError("randomizer must be given with counts: it says what a place means.")
    check_counts(reports, randomizer)
    _, found = count_by_group(reports.places, counts=reports.counts)
    return randomizer.values_of(found.places), found.counts


def check_budgets(epsilon: ArrayLike, count: int) -> Floats:
    """Return the budgets of so many reports, aligned with them.

    Raises:
        ValueError: If there are more or fewer budgets than reports, or one is not positive.
    """
    budgets = np.asarray(epsilon, dtype=np.float64)
    if budgets.ndim and budgets.shape != (count,):
        raise ValueError(
            f"epsilon must hold {count} budgets, one for each report, got {budgets.size}."
        )
    if not (np.isfinite(budgets) & (budgets > 0)).all():
        raise ValueError("epsilon must hold finite budgets greater than 0.")
    return np.broadcast_to(budgets, (count,))
