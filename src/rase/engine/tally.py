"""What a job read, changed and spent, added up over buckets in any order."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rase.collect import Quanta
from rase.kernels.words import Words
from rase.stream import ValueRange

__all__ = ["RunSummary", "Tally"]

_NO_WORDS: Words = np.zeros(0, dtype=np.uint64)
_NO_COUNTS: NDArray[np.int64] = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Hold what a run read, changed and spent.

    Args:
        rows: How many rows the table has.
        nulls: How many of them held no reading.
        duplicates: How many repeated a time of their device, and were left out.
        devices: How many devices reported.
        rounds: How many rounds were released.
        reports: How many reports were drawn.
        clipped: How many readings lay outside the range and were clipped to it.
        most_reports: The most reports of one device.
        most_epsilon: The most any device spent: the sum of the epsilon of its reports.
        bad_files: How many files or row groups could not be read and were left out.
    """

    rows: int
    nulls: int
    duplicates: int
    devices: int
    rounds: int
    reports: int
    clipped: int
    most_reports: int
    most_epsilon: float
    bad_files: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """Count what happened to some rows.

    Args:
        rows: How many rows.
        nulls: How many held no reading.
        duplicates: How many were left out.
        reports: How many reports were drawn.
        clipped: How many readings lay outside the range.
        device: The devices that reported, by ascending public numbers.
        reports_of: How many reports each of them drew.
        round: In studies, the rounds, ascending.
        quanta: The sum of each round's readings, in whole quanta.
        readings: How many readings each round has.
    """

    rows: int = 0
    nulls: int = 0
    duplicates: int = 0
    reports: int = 0
    clipped: int = 0
    device: Words = field(default_factory=lambda: _NO_WORDS, repr=False)
    reports_of: NDArray[np.int64] = field(default_factory=lambda: _NO_COUNTS, repr=False)
    round: NDArray[np.int64] = field(default_factory=lambda: _NO_COUNTS, repr=False)
    quanta: NDArray[np.int64] = field(default_factory=lambda: _NO_COUNTS, repr=False)
    readings: NDArray[np.int64] = field(default_factory=lambda: _NO_COUNTS, repr=False)

    @classmethod
    def of_truth(cls, rounds: NDArray[np.int64], counts: NDArray[np.float64]) -> "Tally":
        """Add readings up by round, given in quanta; whole numbers, so that no order matters."""
        found, places = np.unique(rounds, return_inverse=True)
        sums = np.zeros(len(found), dtype=np.int64)
        np.add.at(sums, places, np.rint(counts).astype(np.int64))
        readings = np.bincount(places, minlength=len(found)).astype(np.int64)
        return cls(round=found, quanta=sums, readings=readings)

    def with_devices(self, device: Words, reports_of: NDArray[np.int64]) -> "Tally":
        """Return the tally with how many reports each of some devices drew."""
        order = np.argsort(device)
        return replace(self, device=device[order], reports_of=reports_of[order].astype(np.int64))

    def __add__(self, other: "Tally") -> "Tally":
        """Return both together."""
        device, (reports_of,) = _merged(
            (self.device, other.device), [(self.reports_of, other.reports_of)]
        )
        rounds, (quanta, readings) = _merged(
            (self.round, other.round),
            [(self.quanta, other.quanta), (self.readings, other.readings)],
        )
        return Tally(
            self.rows + other.rows,
            self.nulls + other.nulls,
            self.duplicates + other.duplicates,
            self.reports + other.reports,
            self.clipped + other.clipped,
            device,
            reports_of,
            rounds,
            quanta,
            readings,
        )

    def truths(self, value_range: ValueRange) -> dict[int, float]:
        """Return the true mean of each round."""
        means = Quanta(value_range).readings(self.quanta / np.maximum(self.readings, 1))
        return dict(zip(self.round.tolist(), means.tolist(), strict=True))

    def summary(self, *, rounds: int, epsilon: float, bad_files: int = 0) -> RunSummary:
        """Return the counts as a summary.

        Args:
            rounds: How many rounds were released.
            epsilon: The budget of one report.
            bad_files: How many files or row groups were left out.
        """
        most = int(self.reports_of.max(initial=0))
        return RunSummary(
            rows=self.rows,
            nulls=self.nulls,
            duplicates=self.duplicates,
            devices=len(self.device),
            rounds=rounds,
            reports=self.reports,
            clipped=self.clipped,
            most_reports=most,
            most_epsilon=most * epsilon,
            bad_files=bad_files,
        )


def _merged(
    keys: tuple[NDArray[Any], NDArray[Any]],
    columns: list[tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> tuple[NDArray[Any], list[NDArray[np.int64]]]:
    """Add up columns of counts by their ascending keys."""
    one, other = keys
    if not len(other):
        return one, [first for first, _ in columns]
    if not len(one):
        return other, [second for _, second in columns]
    if len(one) == len(other) and bool((one == other).all()):
        return one, [first + second for first, second in columns]
    found = np.union1d(one, other)
    places = [np.searchsorted(found, key) for key in keys]
    added = []
    for pair in columns:
        total = np.zeros(len(found), dtype=np.int64)
        for place, counts in zip(places, pair, strict=True):
            total[place] += counts
        added.append(total)
    return found, added
