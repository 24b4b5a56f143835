"""Decoded moments of rounds: mean of the readings, noise of a report, spread of the readings.

The one place where reports become a mean with its error. It works on many rounds at once, because
tables hold hundreds of thousands of small ones; a single round is one group.

The mean of one-bit reports has limits from the binomial law of the number of ones.

A bit is 1 with a chance that grows with the reading in a straight line, so the mean of the readings
is the mean of the chances on another scale. Clopper and Pearson, "The use of confidence or fiducial
limits illustrated in the case of the binomial", Biometrika 1934, give limits that hold for any
number of bits if all chances are equal. If they differ, the same limits hold for their mean:

- Hoeffding, "On the distribution of the number of successes in independent trials", Annals of
  Mathematical Statistics 1956, theorem 5: for chances of mean p, Pr[ones <= c] is at most that of
  Bin(n, p) where c <= n p - 1, and Pr[ones >= c] likewise where c >= n p + 1.
- A limit is missed at a number c of ones whose binomial tail is below a half. The median of Bin(n,
  p) is one of the whole numbers next to n p, so such a c is that far out.
"""

from __future__ import annotations

import functools
import math
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from rase.errors import NotIdentifiable

if TYPE_CHECKING:
    from rase.arrays import Flags, Floats, Places
    from rase.counts.counts import Counts
    from rase.domain import Range
    from rase.laws.randomizer import RangeRandomizer

__all__ = [
    "Moments",
    "bit_variance",
    "moments_of",
    "rounding_variance",
    "square_variance_bounds",
    "variance_bounds",
]

# Odd, so that both ends and the middle of the range are among the readings tried.
_READINGS_TRIED = 17
# Cornish-Fisher: an excess kurtosis k / n of the mean widens the 95 % quantile z by
# (z^3 - 3z) k / 24n, Student's t by (z^3 + z) / 4v; equal for v = 34.5 n / k.
_DEGREES_PER_KURTOSIS = 34.5
# Fewer degrees would cover too much: at epsilon 12 and n = 50, nearly always.
_FEWEST_DEGREES = 4.0
# How far beyond both ends of the range reports are looked for, in ranges.
_RANGES_BEYOND = 5
# Differences of distribution functions leave rounding errors of about this size.
_NEVER = 1e-15


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """What the reports of rounds say of the readings, one entry for each round.

    Args:
        n: How many reports the round has.
        mean: The unbiased mean of the readings.
        noise: The mean variance of a decoded report given its reading, as intervals are set by.
        spread: The unbiased variance of the readings; None where reports hide it (single bits).
        degrees_of_freedom: How well the noise is known.
    """

    n: Places
    mean: Floats
    noise: Floats
    spread: Floats | None
    degrees_of_freedom: Floats

    @property
    def standard_error(self) -> Floats:
        """The standard error of the mean."""
        return np.asarray(np.sqrt(self.noise / self.n))


def moments_of(
    counts: Counts,
    randomizer: RangeRandomizer,
    *,
    group: Places | None = None,
    groups: int = 1,
) -> Moments:
    """Return the moments of one round, or of several whose rows are marked.

    A decoded report h and its decoded square s have E[h^2 - s] = E[h^2] - x^2, so h^2 - s is
    unbiased for the variance at the unknown reading x, but for the random rounding to the grid.
    Where squares cannot be decoded (Duchi's bits), the noise is an upper bound: of what it may have
    been, given the number of ones (`bit_variance`). Where contributors differ in epsilon each
    budget is read by its own law, because some may report bits and others not.

    Args:
        counts: The reports; every group must have at least one.
        randomizer: The mechanism they come from.
        group: Which round each row of ``counts`` belongs to, from 0; None for one round.
        groups: How many rounds there are.

    Raises:
        ValueError: If a report cannot come from ``randomizer``.
    """
    rows = np.zeros(counts.places.size, dtype=np.int64) if group is None else group
    table = _Rows(counts, rows, groups)
    n = table.n.astype(np.int64)
    decoded = randomizer.decode_places(counts.places, epsilon=counts.epsilon)
    mean = table.mean(decoded)
    squares, is_bit = _decoded_squares(counts, randomizer)
    own = decoded * decoded - squares
    if is_bit.any():
        bits, others = table.select(is_bit), table.select(~is_bit)
        total = _variance_of_bits(bits, decoded[is_bit], randomizer)
        total += others.n * _noise_of(others, own[~is_bit], randomizer)
        return Moments(n, mean, total / n, None, np.full(groups, math.inf))
    # About the mean, so that ranges far from 0 lose no digits in the sums.
    centre = mean[rows]
    spread = table.mean(squares - 2 * centre * decoded + centre * centre) + table.mean(own) / n
    noise = _noise_of(table, own, randomizer)
    return Moments(n, mean, noise, spread, _degrees(randomizer, counts, n))


def rounding_variance(domain: Range) -> float:
    """Return the greatest variance that rounding a reading to the grid at random can have."""
    return domain.step**2 / 4


@functools.lru_cache(maxsize=1024)
def variance_bounds(
    randomizer: RangeRandomizer, epsilon: float | None = None
) -> tuple[float, float]:
    """Return the least and the greatest variance of a decoded report over the range.

    Args:
        randomizer: The mechanism.
        epsilon: The budget, where contributors differ.
    """
    tried = np.linspace(randomizer.domain.low, randomizer.domain.high, _READINGS_TRIED)
    budgets = None if epsilon is None else np.full(tried.shape, epsilon)
    variances = randomizer.variance(tried, epsilon=budgets)
    return float(variances.min()), float(variances.max())


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of counts, added up by group."""

    counts: Counts
    group: Places
    groups: int

    @functools.cached_property
    def n(self) -> Floats:
        return np.bincount(self.group, self.counts.counts, self.groups).astype(np.float64)

    def sum(self, values: Floats) -> Floats:
        weights = self.counts.counts * values
        return np.bincount(self.group, weights, self.groups).astype(np.float64)

    def mean(self, values: Floats) -> Floats:
        return np.asarray(self.sum(values) / np.maximum(self.n, 1))

    def select(self, rows: Flags) -> _Rows:
        given = self.counts
        epsilon = None if given.epsilon is None else given.epsilon[rows]
        some = replace(given, places=given.places[rows], counts=given.counts[rows], epsilon=epsilon)
        return _Rows(some, self.group[rows], self.groups)


def _decoded_squares(counts: Counts, randomizer: RangeRandomizer) -> tuple[Floats, Flags]:
    """Return the decoded squares, and which reports are bits, whose squares are unknown."""
    squares, is_bit = np.zeros(counts.places.size), np.zeros(counts.places.size, dtype=np.bool_)
    try:
        return randomizer.decode_square_places(counts.places, epsilon=counts.epsilon), is_bit
    except NotIdentifiable:
        is_bit[:] = True
    # Where contributors differ in epsilon, others may still show theirs.
    for budget in () if counts.epsilon is None else np.unique(counts.epsilon).tolist():
        chosen = np.flatnonzero(counts.epsilon == budget)
        with suppress(NotIdentifiable):
            squares[chosen] = randomizer.decode_square_places(
                counts.places[chosen], epsilon=np.full(chosen.size, budget)
            )
            is_bit[chosen] = False
    return squares, is_bit


def _noise_of(table: _Rows, own: Floats, randomizer: RangeRandomizer) -> Floats:
    """Return the mean variance of reports by group, from what each shows of its own."""
    epsilon = table.counts.epsilon
    if epsilon is None:
        bounds: tuple[Floats, Floats] | tuple[float, float] = variance_bounds(randomizer)
    else:
        # Averaged over the reports.
        budgets, back = np.unique(epsilon, return_inverse=True)
        each = np.array([variance_bounds(randomizer, one) for one in budgets.tolist()])
        each = each.reshape(-1, 2)[back]
        bounds = table.mean(each[:, 0]), table.mean(each[:, 1])
    # Kept within what the mechanism can have, which also bounds the loss of digits. Reports do not
    # show where between two grid points a reading was; the most that rounding can add is added.
    kept = np.clip(table.mean(own), *bounds)
    return np.asarray(kept + rounding_variance(randomizer.domain))


def _variance_of_bits(table: _Rows, decoded: Floats, randomizer: RangeRandomizer) -> Floats:
    """Return the sum of the variances of bits by group; those of one budget share one law."""
    total = np.zeros(table.groups)
    is_high = (decoded > randomizer.domain.middle).astype(np.float64)
    epsilon = table.counts.epsilon
    for budget in [None] if epsilon is None else np.unique(epsilon).tolist():
        chosen = np.ones(decoded.size, dtype=np.bool_) if epsilon is None else epsilon == budget
        some = table.select(chosen)
        pairs, back = np.unique(
            np.stack([some.sum(is_high[chosen]), some.n]).astype(np.int64),
            axis=1,
            return_inverse=True,
        )
        each = [bit_variance(int(one), int(size)) if size else 0.0 for one, size in pairs.T]
        # A bit varies most where it is as often high as low: by the square of half its two values.
        greatest = variance_bounds(randomizer, budget)[1]
        total += some.n * (4 * greatest * np.array(each)[back.ravel()])
    return total


def _degrees(randomizer: RangeRandomizer, counts: Counts, n: Places) -> Floats:
    """Return how well the noise is known; rare wild reports lower the degrees of freedom.

    Mixed budgets have no common law; their tails are taken as normal.
    """
    tails = 0.0 if counts.epsilon is not None else _excess_kurtosis(randomizer)
    if tails <= 0:
        return np.full(n.size, math.inf)
    return np.asarray(np.maximum(_DEGREES_PER_KURTOSIS * n / tails, _FEWEST_DEGREES))


@functools.lru_cache(maxsize=256)
def _excess_kurtosis(randomizer: RangeRandomizer) -> float:
    """Return the greatest excess kurtosis of a decoded report, over some readings of the range.

    At a large epsilon Piecewise and Hybrid reports are very good but for a rare wild one, so that
    the mean of 50 is far from normal: at epsilon 8 the normal interval covers 92 to 93 %.
    """
    readings, places, chances = _laws_at(randomizer, 5)
    errors = randomizer.decode_places(places) - readings[:, None]
    square = (chances * errors**2).sum(axis=1)
    fourth = (chances * errors**4).sum(axis=1)
    return float((fourth / square**2).max()) - 3


def square_variance_bounds(randomizer: RangeRandomizer, mean: float) -> tuple[float, float]:
    """Return the least and the greatest variance of a report's square distance to a mean.

    Of the decoded one, s - 2 m h + m^2 for a report that decodes to h and its square to s, given
    the reading; over some readings of the range.

    Args:
        randomizer: The mechanism; its contributors share one budget.
        mean: The mean.

    Raises:
        NotIdentifiable: If reports show no squares.
    """
    of_squares, both, of_decoded = _square_moments(randomizer)
    away = mean - randomizer.domain.middle
    found = of_squares - 4 * away * both + 4 * away * away * of_decoded
    return float(found.min()), float(found.max())


@functools.lru_cache(maxsize=256)
def _square_moments(randomizer: RangeRandomizer) -> tuple[Floats, Floats, Floats]:
    """Return variances and covariance of decoded squares and reports, for some readings.

    About the middle of the range, so that ranges far from 0 lose no digits.
    """
    _, places, chances = _laws_at(randomizer, _READINGS_TRIED)
    middle = randomizer.domain.middle
    decoded = randomizer.decode_places(places)
    squares = randomizer.decode_square_places(places) - 2 * middle * decoded + middle * middle
    far, near = (values - (chances @ values)[:, None] for values in (squares, decoded))
    pairs = ((far, far), (far, near), (near, near))
    first, second, third = ((chances * one * other).sum(axis=1) for one, other in pairs)
    return first, second, third


@functools.lru_cache(maxsize=256)
def _laws_at(randomizer: RangeRandomizer, count: int) -> tuple[Floats, Places, Floats]:
    """Return some readings, the places of reports that occur, and the chances (one row each)."""
    domain = randomizer.domain
    # At small epsilon the optimal channel's reports lie up to four ranges beyond both ends.
    beyond = _RANGES_BEYOND * domain.steps
    places = np.arange(-beyond, beyond + domain.steps + 1)
    reports = domain.low + domain.step * places
    edges = np.append(reports - domain.step / 2, reports[-1] + domain.step / 2)
    readings = np.linspace(domain.low, domain.high, count)
    chances = randomizer.report_probabilities(readings, edges)
    can_occur = chances.max(axis=0) > _NEVER
    return readings, places[can_occur], chances[:, can_occur]


_LEVELS = (0.9, 0.95, 0.99, 0.999)
_NORMAL = tuple(NormalDist().inv_cdf((1 + level) / 2) for level in _LEVELS)
_USUAL = _LEVELS.index(0.95)
# From so many ones and zeros on, the approximation is at most 0.08 % shorter than the exact limits.
_MANY = 8
_LENGTHENED = 1.001
_HALVINGS = 60


@functools.lru_cache(maxsize=1 << 16)
def bit_variance(ones: int, n: int) -> float:
    """Return a variance v of a bit for which ones / n ± z √(v / n) covers the mean chance.

    With z the normal quantile of level 0.9, 0.95, 0.99 or 0.999, that interval contains Clopper's
    and Pearson's of the level, and so covers with at least its probability. Besides, v is at least
    the variance p (1 - p) of any chance p within the 95 % limits: it is not too small as a variance
    either, for windows and filters that add variances up.

    Guarantee: assumes that bits are drawn independently (tests/counts/test_bits.py).

    Args:
        ones: How many bits are 1.
        n: How many bits there are, at least 1.

    Example:
        >>> round(bit_variance(0, 10), 3), round(bit_variance(5000, 10_000), 3)
        (0.262, 0.254)
    """
    rare = min(ones, n - ones)
    share = rare / n
    limits = _limits(rare, n)
    reach = max(
        max(high - share, share - low) / z for (low, high), z in zip(limits, _NORMAL, strict=True)
    )
    widest = min(limits[_USUAL][1], 0.5)
    return max(n * reach * reach, widest * (1 - widest))


def _limits(rare: int, n: int) -> list[tuple[float, float]]:
    """Return Clopper's and Pearson's limits at each level for at most as many ones as zeros."""
    if rare >= _MANY:
        share = rare / n
        return [
            (
                share - _LENGTHENED * (share - (1 - _upper(n - rare, n, z))),
                share + _LENGTHENED * (_upper(rare, n, z) - share),
            )
            for z in _NORMAL
        ]
    tails = np.array([(1 - level) / 2 for level in _LEVELS])
    low = _chances(rare - 1, n, 1 - tails) if rare else np.zeros(len(tails))
    return list(zip(low.tolist(), _chances(rare, n, tails).tolist(), strict=True))


def _chances(most: int, n: int, masses: Floats) -> Floats:
    """Return the chances p for which Pr[Bin(n, p) <= most] has these values."""
    count = np.arange(most + 1.0)[:, np.newaxis]
    ways = np.zeros(count.shape)
    ways[1:] = np.cumsum(np.log((n - count[:-1]) / count[1:]), axis=0)
    low, high = np.zeros(masses.shape), np.ones(masses.shape)
    for _ in range(_HALVINGS):
        chance = (low + high) / 2
        terms = ways + count * np.log(chance) + (n - count) * np.log1p(-chance)
        is_below = np.exp(terms).sum(axis=0) > masses
        low, high = np.where(is_below, chance, low), np.where(is_below, high, chance)
    return high


def _upper(ones: int, n: int, z: float) -> float:
    """Return the upper limit, by the cube root of a ratio of gamma variables.

    After Camp (1951) and Pratt, "A normal approximation for binomial, F, beta, and other common,
    related tail probabilities, II", Journal of the American Statistical Association 1968.
    """
    more, less = ones + 1.0, float(n - ones)
    root = math.sqrt(9 * more * less * (9 * n + 5 - z * z) + n + 1)
    ratio = (81 * more * less - 9 * n - 8 - 3 * z * root) / (
        81 * more * more - 9 * more * (2 + z * z) + 1
    )
    return 1 / (1 + (more / less) ** 2 * ratio**3)
