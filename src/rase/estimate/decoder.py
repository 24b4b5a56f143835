"""What an estimator asks of a mechanism: how to read its reports, and how far they scatter."""

import functools
import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rase.errors import NotIdentifiable
from rase.estimate.bits import bit_variance
from rase.stream import ValueRange

__all__ = [
    "Decoder",
    "Floats",
    "Noise",
    "as_budgets",
    "as_reports",
    "degrees_of",
    "noise_of",
    "noise_of_bits",
    "rounding_variance",
    "stated_variance",
    "variance_bounds",
]

Floats = NDArray[np.float64]

# Odd, so that both ends and the middle of the range are among the readings tried.
_READINGS_TRIED = 17
# Cornish-Fisher: an excess kurtosis k / n of the mean widens the 95 % quantile z by
# (z^3 - 3z) k / 24n, Student's t by (z^3 + z) / 4v; equal for v = 34.5 n / k.
_DEGREES_PER_KURTOSIS = 34.5
# Fewer degrees would cover too much: at epsilon 12 and n = 50, nearly always.
_FEWEST = 4.0
# How far beyond both ends of the range reports are looked for, in ranges.
_RANGES_BEYOND = 5
# Differences of distribution functions leave rounding errors of about this size.
_NEVER = 1e-15


class Decoder(Protocol):
    """Read reports without bias; every randomizer of RASE does.

    ``epsilon`` holds the budgets of the reports, aligned with them, where contributors differ.
    """

    def __hash__(self) -> int:
        """Identify the mechanism: what is computed from it alone is computed once."""
        ...

    @property
    def value_range(self) -> ValueRange:
        """The public range of readings."""
        ...

    def decode(self, reports: Floats, /, *, epsilon: Floats | None = None) -> Floats:
        """Return for each report a value whose expectation is the reading."""
        ...

    def decode_square(self, reports: Floats, /, *, epsilon: Floats | None = None) -> Floats:
        """Return for each report a value whose expectation is the squared reading.

        Raises:
            NotIdentifiable: If the reports carry no information on it, because they are bits: two
                values as far from the middle of the range, one on each side.
        """
        ...

    def variance(self, reading: Floats, /, *, epsilon: Floats | None = None) -> Floats:
        """Return the variance of a decoded report of each reading."""
        ...

    def report_probabilities(self, readings: Floats, edges: Floats, /) -> Floats:
        """Return ``Pr[edges[b] <= report < edges[b + 1]]`` for each reading (row) and bin."""
        ...


def as_reports(reports: ArrayLike) -> Floats:
    """Return the reports as a float array, or refuse them.

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


def as_budgets(epsilon: ArrayLike | None, count: int) -> Floats | None:
    """Return the budgets aligned with ``count`` reports; None stays None.

    Raises:
        ValueError: If there are more or fewer budgets than reports, or one is not positive.
    """
    if epsilon is None:
        return None
    budgets = np.asarray(epsilon, dtype=np.float64)
    if budgets.ndim and budgets.shape != (count,):
        raise ValueError(
            f"epsilon must hold {count} budgets, one for each report, got {budgets.size}."
        )
    if not (np.isfinite(budgets) & (budgets > 0)).all():
        raise ValueError("epsilon must hold finite budgets greater than 0.")
    return np.broadcast_to(budgets, (count,))


@dataclass(frozen=True, slots=True)
class Noise:
    """Hold the mean variance of the decoded reports, given their readings, and how sure it is."""

    variance: float
    degrees_of_freedom: float


def noise_of(
    reports: Floats, decoded: Floats, *, randomizer: Decoder, epsilon: Floats | None
) -> Noise:
    """Estimate the mean over the reports of Var[decoded report | its reading].

    A decoded report h and its decoded square s have E[h^2 - s] = E[h^2] - x^2, so h^2 - s is
    unbiased for the variance at the unknown reading x, but for the rounding to the grid, which
    `stated_variance` adds. Where squares cannot be decoded (Duchi), it is `noise_of_bits`.
    """
    try:
        squares = randomizer.decode_square(reports, epsilon=epsilon)
    except NotIdentifiable:
        return Noise(_noise_of_classes(decoded, randomizer, epsilon), math.inf)
    variance = stated_variance(
        (decoded * decoded - squares).mean(), randomizer=randomizer, epsilon=epsilon
    )
    # Mixed budgets have no common law; their tails are taken as normal.
    degrees = degrees_of(randomizer, decoded.size) if epsilon is None else math.inf
    return Noise(float(variance), degrees)


def stated_variance(
    noise: ArrayLike, *, randomizer: Decoder, epsilon: Floats | None = None
) -> Floats:
    """Return the variance by which intervals are set, from the mean of h^2 - s over the reports.

    It is kept between the least and the greatest variance the mechanism has, which also bounds the
    loss of digits for ranges far from 0. A decoded square is that of the grid point to which the
    reading was rounded at random, so h^2 - s leaves the rounding out. Reports do not show where
    between two points a reading was; the most that rounding can add is added.

    Args:
        noise: The mean of h^2 - s, of one round or of several.
        randomizer: The mechanism; one whose squares can be decoded.
        epsilon: The budgets of the reports, where contributors differ.
    """
    least, greatest = _variance_bounds(randomizer, epsilon)
    return np.clip(noise, least, greatest) + rounding_variance(randomizer.value_range)


def rounding_variance(value_range: ValueRange) -> float:
    """Return the greatest variance that rounding a reading to the grid at random can have."""
    return value_range.step**2 / 4


def noise_of_bits(
    ones: int, count: int, *, randomizer: Decoder, epsilon: float | None = None
) -> float:
    """Return the variance of one-bit reports by which intervals are set; normal quantiles fit it.

    Bits do not show how far the readings spread, so this is an upper bound: of what the noise may
    have been, given the number of ones (`rase.estimate.bits`).

    Args:
        ones: How many of the bits stand above the middle of the range.
        count: How many there are.
        randomizer: The mechanism they come from.
        epsilon: Their budget, where contributors differ.
    """
    # A bit varies most where it is as often high as low: by the square of half its two values.
    _, greatest = _bounds_of(randomizer, epsilon)
    return 4 * greatest * bit_variance(ones, count)


def _noise_of_classes(decoded: Floats, randomizer: Decoder, epsilon: Floats | None) -> float:
    """Return the mean variance of bits; those of one budget are a class with one law."""
    is_high = decoded > randomizer.value_range.middle
    if epsilon is None:
        return noise_of_bits(int(is_high.sum()), decoded.size, randomizer=randomizer)
    budgets, members, counts = np.unique(epsilon, return_inverse=True, return_counts=True)
    ones = np.bincount(members, weights=is_high)
    each = [
        noise_of_bits(int(high), int(count), randomizer=randomizer, epsilon=float(budget))
        for high, count, budget in zip(ones, counts, budgets, strict=True)
    ]
    return float(counts @ np.array(each) / decoded.size)


def degrees_of(randomizer: Decoder, count: int) -> float:
    """Return the degrees of freedom for the mean of ``count`` reports of one budget.

    Args:
        randomizer: The mechanism; rare wild reports lower the degrees.
        count: How many reports there are.
    """
    tails = _excess_kurtosis(randomizer)
    return max(_DEGREES_PER_KURTOSIS * count / tails, _FEWEST) if tails > 0 else math.inf


def variance_bounds(randomizer: Decoder, epsilon: float | None = None) -> tuple[float, float]:
    """Return the least and the greatest variance of a decoded report over the range.

    Args:
        randomizer: The mechanism.
        epsilon: The budget, where contributors differ.
    """
    return _bounds_of(randomizer, epsilon)


def _variance_bounds(randomizer: Decoder, epsilon: Floats | None) -> tuple[float, float]:
    """Return the least and the greatest variance over the range, averaged over the reports."""
    if epsilon is None:
        return _bounds_of(randomizer, None)
    budgets, counts = np.unique(epsilon, return_counts=True)
    bounds = np.array([_bounds_of(randomizer, float(budget)) for budget in budgets])
    least, greatest = counts @ bounds / epsilon.size
    return float(least), float(greatest)


@functools.lru_cache(maxsize=1024)
def _bounds_of(randomizer: Decoder, budget: float | None) -> tuple[float, float]:
    reach = randomizer.value_range
    tried = np.linspace(reach.low, reach.high, _READINGS_TRIED)
    budgets = None if budget is None else np.full(tried.shape, budget)
    variances = randomizer.variance(tried, epsilon=budgets)
    return float(variances.min()), float(variances.max())


@functools.lru_cache(maxsize=256)
def _excess_kurtosis(randomizer: Decoder) -> float:
    """Return the greatest excess kurtosis of a decoded report, over some readings of the range.

    At a large epsilon Piecewise and Hybrid reports are very good but for a rare wild one, so that
    the mean of 50 is far from normal: at epsilon 8 the normal interval covers 92 to 93 %.
    """
    reach = randomizer.value_range
    # At small epsilon the optimal channel's reports lie up to four ranges beyond both ends.
    beyond = _RANGES_BEYOND * reach.steps
    codes = reach.low + reach.step * np.arange(-beyond, beyond + reach.steps + 1)
    edges = np.append(codes - reach.step / 2, codes[-1] + reach.step / 2)
    readings = np.linspace(reach.low, reach.high, 5)
    chances = randomizer.report_probabilities(readings, edges)
    can_occur = chances.max(axis=0) > _NEVER
    errors = randomizer.decode(codes[can_occur]) - readings[:, None]
    square = (chances[:, can_occur] * errors**2).sum(axis=1)
    fourth = (chances[:, can_occur] * errors**4).sum(axis=1)
    return float((fourth / square**2).max()) - 3
