"""Means of large rounds from how often each report occurs: order and pieces make no difference.

Reports are points of a grid, so a round of a million holds a few thousand different ones. What an
unbiased mean needs is how often each occurs: whole numbers, which add up exactly however a round
was cut and in whatever order its parts are counted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rase.errors import NotIdentifiable
from rase.estimate.decoder import (
    Decoder,
    Floats,
    as_reports,
    degrees_of,
    noise_of_bits,
    stated_variance,
)
from rase.estimate.estimate import Estimate
from rase.stream import ValueRange

__all__ = ["COUNTED_FROM", "CountedReports", "counted_mean", "counted_spread"]

# From so many reports on a round is counted; fewer are decoded one by one, which costs less then.
COUNTED_FROM = 4096
# A grid of more places than this costs more to count than reports to sort.
_MOST_PLACES = 1 << 16
_GRID_TOLERANCE = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class CountedReports:
    """Hold the different reports of a round, ascending, and how often each occurs.

    Args:
        values: The reports.
        counts: How often each occurs.

    Example:
        >>> parts = [CountedReports.of(np.array([2.0, 1.0])), CountedReports.of(np.array([2.0]))]
        >>> CountedReports.joined(parts).counts.tolist()
        [1, 2]
    """

    values: Floats = field(repr=False)
    counts: NDArray[np.int64] = field(repr=False)

    @classmethod
    def of(cls, reports: Floats, *, value_range: ValueRange | None = None) -> "CountedReports":
        """Count reports.

        Args:
            reports: The reports.
            value_range: The grid they are points of, if they are: counting is faster then.

        Raises:
            ValueError: If there are none, or one is not finite.
        """
        noisy = as_reports(reports)
        if value_range is not None:
            places = (noisy - value_range.low) * (1 / value_range.step)
            codes = np.rint(places)
            low, high = codes.min(), codes.max()
            places -= codes
            if high - low < _MOST_PLACES and max(places.max(), -places.min()) < _GRID_TOLERANCE:
                codes -= low
                found = np.bincount(codes.astype(np.int64))
                there = np.flatnonzero(found)
                return cls(value_range.low + value_range.step * (there + low), found[there])
        values, counts = np.unique(noisy, return_counts=True)
        return cls(values, counts.astype(np.int64))

    @classmethod
    def joined(cls, parts: Sequence["CountedReports"]) -> "CountedReports":
        """Return the counts of a round that was counted in parts."""
        values, place = np.unique(
            np.concatenate([part.values for part in parts]), return_inverse=True
        )
        counts = np.zeros(len(values), dtype=np.int64)
        np.add.at(counts, place, np.concatenate([part.counts for part in parts]))
        return cls(values, counts)

    @property
    def n(self) -> int:
        """How many reports there are."""
        return int(self.counts.sum())


def counted_mean(reports: CountedReports, *, randomizer: Decoder) -> Estimate:
    """Estimate the mean of the readings without bias, as `rase.unbiased_mean` does.

    Args:
        reports: The reports of one round, counted.
        randomizer: The mechanism they come from; all reports have its one budget.

    Raises:
        ValueError: If a report cannot come from ``randomizer``.
    """
    n = reports.n
    decoded = randomizer.decode(reports.values)
    mean = _mean(reports, decoded)
    try:
        squares = randomizer.decode_square(reports.values)
    except NotIdentifiable:
        ones = int(reports.counts[decoded > randomizer.value_range.middle].sum())
        noise, degrees = noise_of_bits(ones, n, randomizer=randomizer), math.inf
    else:
        mean_noise = _mean(reports, decoded * decoded - squares)
        noise = float(stated_variance(mean_noise, randomizer=randomizer))
        degrees = degrees_of(randomizer, n)
    return Estimate(
        mean,
        math.sqrt(noise / n),
        n=n,
        method="unbiased_mean",
        target="mean of the readings",
        degrees_of_freedom=degrees,
        lowest=randomizer.value_range.low,
        highest=randomizer.value_range.high,
    )


def counted_spread(reports: CountedReports, *, randomizer: Decoder) -> float | None:
    """Return the variance of the readings as `rase.variance` estimates it; None if it is hidden.

    Args:
        reports: The reports of one round, counted.
        randomizer: The mechanism they come from.
    """
    try:
        squares = randomizer.decode_square(reports.values)
    except NotIdentifiable:
        return None
    decoded = randomizer.decode(reports.values)
    mean = _mean(reports, decoded)
    # About the mean, so that ranges far from 0 lose no digits in the sums.
    moments = _mean(reports, squares - 2 * mean * decoded + mean * mean)
    return moments + _mean(reports, decoded * decoded - squares) / reports.n


def _mean(reports: CountedReports, values: Floats) -> float:
    return float((reports.counts * values).sum() / reports.n)
