"""How far the mean of one-bit reports may be off, by the binomial law of the number of ones.

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

import functools
import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

__all__ = ["bit_variance"]

Floats = NDArray[np.float64]

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
