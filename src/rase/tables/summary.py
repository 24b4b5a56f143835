"""What a run read, changed and spent, added up over parts in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from rase.kernels.keyed import public_numbers
from rase.tables.readings import Quanta

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rase.arrays import Flags, Floats, Places, Words
    from rase.domain import Range

__all__ = ["DeviceCounts", "NumberedCounts", "RunSummary", "Tally", "Truth"]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run read, changed and spent.

    Args:
        rows: How many rows the table has.
        nulls: How many of them held no reading, or came when another quantity had its turn.
        duplicates: How many repeated a time of their device, and were left out.
        devices: How many devices reported.
        rounds: How many rounds were released.
        reports: How many reports were drawn.
        clipped: How many readings lay outside the range and were clipped to it.
        most_reports: The most reports of one device.
        most_epsilon: The most any device spent: the sum of the epsilon of its reports.
        bad_files: How many files or row groups could not be read and were left out.
        withheld: How many rounds had too few reports for the promise of the run.
    """

    rows: int = 0
    nulls: int = 0
    duplicates: int = 0
    devices: int = 0
    rounds: int = 0
    reports: int = 0
    clipped: int = 0
    most_reports: int = 0
    most_epsilon: float = 0.0
    bad_files: int = 0
    withheld: int = 0


@dataclass(frozen=True, slots=True)
class Tally:
    """How many rows were read, and what became of them; the fields are those of `RunSummary`."""

    rows: int = 0
    nulls: int = 0
    duplicates: int = 0
    reports: int = 0
    clipped: int = 0
    withheld: int = 0

    def __add__(self, other: Tally) -> Tally:
        """Return both together."""
        return Tally(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))


@dataclass(slots=True, eq=False)
class NumberedCounts:
    """How many reports each device drew, where devices are called by numbers near each other.

    Args:
        first: The number of the first.
        reports: How many reports each has, none for numbers that no device has.
    """

    first: int
    reports: NDArray[np.int32] = field(repr=False)

    def add(self, other: NumberedCounts) -> None:
        """Take in what was counted elsewhere."""
        first = min(self.first, other.first)
        behind = max(one.first + len(one.reports) for one in (self, other))
        if behind - first > len(self.reports):
            reports = np.zeros(behind - first, dtype=np.int32)
            reports[self.first - first :][: len(self.reports)] = self.reports
            self.first, self.reports = first, reports
        self.reports[other.first - first :][: len(other.reports)] += other.reports

    def by_public(self) -> DeviceCounts:
        """Return the same by the public number of each device."""
        there = np.flatnonzero(self.reports)
        public = public_numbers([str(number) for number in (there + self.first).tolist()])
        order = np.argsort(public)
        return DeviceCounts(public[order], self.reports[there][order].astype(np.int64))


@dataclass(slots=True, eq=False)
class DeviceCounts:
    """How many reports each device drew, by its public number; nobody unless given.

    Args:
        device: Public numbers, ascending.
        reports: How many reports each has.
        spent: What each spent, where devices differ in epsilon; None otherwise.
        numbered: Reports that were counted by numbers; None for none.
    """

    device: Words = field(default_factory=lambda: np.zeros(0, np.uint64), repr=False)
    reports: Places = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)
    spent: Floats | None = field(default=None, repr=False)
    numbered: NumberedCounts | None = None

    @classmethod
    def of(cls, public: Words, codes: Places, epsilon: Floats | None = None) -> DeviceCounts:
        """Count reports.

        Args:
            public: The public number of each device, by code.
            codes: The code of the device of each report.
            epsilon: The budget of each device, where they differ.
        """
        reports = np.bincount(codes, minlength=len(public))
        there = np.flatnonzero(reports)
        there = there[np.argsort(public[there])]
        spent = None if epsilon is None else reports[there] * epsilon[there]
        return cls(public[there], reports[there].astype(np.int64), spent)

    def add(self, other: DeviceCounts) -> None:
        """Take in what was counted elsewhere."""
        if other.numbered is not None and self.numbered is not None:
            self.numbered.add(other.numbered)
        elif other.numbered is not None:
            self.numbered = NumberedCounts(other.numbered.first, other.numbered.reports.copy())
        if not len(other.device):
            return
        place = np.searchsorted(self.device, other.device)
        is_known = np.zeros(len(place), dtype=np.bool_)
        inside = place < len(self.device)
        is_known[inside] = self.device[place[inside]] == other.device[inside]
        # Most parts of a table hold the same devices: those are added where they stand.
        if not is_known.all():
            # Inserted where they belong: sorting both together would take three times the memory.
            at, new = place[~is_known], other.device[~is_known]
            self.device = np.insert(self.device, at, new)
            self.reports = np.insert(self.reports, at, 0)
            if other.spent is not None or self.spent is not None:
                had = np.zeros(len(self.device) - len(new)) if self.spent is None else self.spent
                self.spent = np.insert(had, at, 0.0)
            place = np.searchsorted(self.device, other.device)
        self.reports[place] += other.reports
        if self.spent is not None and other.spent is not None:
            self.spent[place] += other.spent

    def by_public(self) -> DeviceCounts:
        """Return the same, all of it by public numbers."""
        if self.numbered is None:
            return self
        both = self.numbered.by_public()
        both.add(DeviceCounts(self.device, self.reports))
        return both

    def summary(
        self, tally: Tally, *, rounds: int, epsilon: float, bad_files: int = 0
    ) -> RunSummary:
        """Return all counts of a run.

        Args:
            tally: What was read.
            rounds: How many rounds were released.
            epsilon: The budget of one report, where devices do not differ in it.
            bad_files: How many files or row groups were left out.
        """
        reports: NDArray[np.integer[Any]] = self.reports
        spent_each = self.spent
        if self.numbered is not None and len(self.device):
            reports = self.by_public().reports
        elif self.numbered is not None:
            reports = self.numbered.reports
        most = int(reports.max(initial=0))
        spent = most * epsilon if spent_each is None else float(spent_each.max(initial=0.0))
        return RunSummary(
            rows=tally.rows,
            nulls=tally.nulls,
            duplicates=tally.duplicates,
            devices=int(np.count_nonzero(reports)),
            rounds=rounds,
            reports=tally.reports,
            clipped=tally.clipped,
            most_reports=most,
            most_epsilon=spent,
            bad_files=bad_files,
            withheld=tally.withheld,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """In studies: the sums of the readings by round, in whole quanta, so that no order matters.

    Args:
        round: The rounds, ascending.
        quanta: The sum of each round's readings.
        readings: How many readings each round has.
    """

    round: Places
    quanta: Places
    readings: Places

    @classmethod
    def of(cls, rounds: Places, quanta: Floats) -> Truth:
        """Add readings up by round, given in quanta."""
        found, places = np.unique(rounds, return_inverse=True)
        sums = np.zeros(len(found), dtype=np.int64)
        np.add.at(sums, places, quanta.astype(np.int64))
        return cls(found, sums, np.bincount(places, minlength=len(found)).astype(np.int64))

    @classmethod
    def joined(cls, parts: Sequence[Truth]) -> Truth:
        """Return the sums of several parts."""
        found, places = np.unique(
            np.concatenate([part.round for part in parts]), return_inverse=True
        )
        quanta, readings = np.zeros((2, len(found)), dtype=np.int64)
        np.add.at(quanta, places, np.concatenate([part.quanta for part in parts]))
        np.add.at(readings, places, np.concatenate([part.readings for part in parts]))
        return cls(found, quanta, readings)

    def choose_rounds(self, rounds: Flags) -> Truth:
        """Return the sums of some rounds."""
        return Truth(self.round[rounds], self.quanta[rounds], self.readings[rounds])

    def means(self, domain: Range) -> dict[int, float]:
        """Return the true mean of each round."""
        means = Quanta(domain).readings(self.quanta / np.maximum(self.readings, 1))
        return dict(zip(self.round.tolist(), means.tolist(), strict=True))
