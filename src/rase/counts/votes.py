"""How sure a share is that was counted from votes: limits by the law of the number of votes.

A report votes for the category of its reading with the chance ``often`` and for any other one with
``seldom``. Of n readings m in the category, the votes are the sum of two binomial numbers, of m and
of n - m. Its tails grow with m, so that limits of m follow as Clopper's and Pearson's of a chance
do (Biometrika 1934): exact, for any n and any epsilon.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from rase.arrays import Floats

__all__ = ["share_error"]

_LEVELS = (0.9, 0.95, 0.99, 0.999, 0.9999)
_NORMAL = tuple(NormalDist().inv_cdf((1 + level) / 2) for level in _LEVELS)
# From this variance of the number of votes on it is normal enough for score limits, which Wilson
# 1927 has for a chance, with half a vote for what lies between two whole numbers.
_MANY = 40.0
# Up to so many reports the laws for all numbers of readings are computed together.
_FEW = 512
# So many deviations and votes beyond the mean a binomial number does not come.
_DEVIATIONS, _BEYOND = 12, 30


@functools.lru_cache(maxsize=1 << 16)
def share_error(votes: int, n: int, often: float, seldom: float) -> float:
    """Return an error e for which a share, moved into 0 to 1, +- z e covers the true one.

    With z the normal quantile of level 0.9, 0.95, 0.99, 0.999 or 0.9999 that interval holds the
    limits of the level, and so covers with at least its probability. Besides, e is at least the
    deviation of the share if the true one is the estimate.

    Guarantee: assumes that reports are drawn independently (tests/counts/test_votes.py).

    Args:
        votes: How many reports vote for the category.
        n: How many reports there are.
        often: The chance of a vote from a reading in the category.
        seldom: The chance from any other reading, which is less.

    Example:
        >>> round(share_error(550, 1000, 0.8, 0.2), 4), round(share_error(0, 10, 0.8, 0.2), 3)
        (0.0216, 0.211)
    """
    centre = min(max((votes / n - seldom) / (often - seldom), 0.0), 1.0)
    law = _Votes(n, often, seldom)
    least = math.sqrt(law.variance(centre)) / (n * (often - seldom))
    if min(law.variance(end) for end in (0.0, centre, 1.0)) >= _MANY:
        limits = [law.score_limits(votes, z) for z in _NORMAL]
    elif n <= _FEW:
        limits = [(float(low[votes]), float(high[votes])) for low, high in _table(law)]
    else:
        limits = [law.exact_limits(votes, (1 - level) / 2) for level in _LEVELS]
    reaches = (
        max(high - centre, centre - low) / z for (low, high), z in zip(limits, _NORMAL, strict=True)
    )
    return max(least, *reaches)


@dataclass(frozen=True, slots=True)
class _Votes:
    """The law of the number of votes, by how many readings are in the category."""

    n: int
    often: float
    seldom: float

    def variance(self, share: float) -> float:
        """Return the variance of the number of votes."""
        own = share * self.often * (1 - self.often)
        return self.n * (own + (1 - share) * self.seldom * (1 - self.seldom))

    def score_limits(self, votes: int, z: float) -> tuple[float, float]:
        """Return the shares whose mean number of votes is z deviations away, and half a vote."""
        n, slope = self.n, self.often - self.seldom
        at_0 = self.seldom * (1 - self.seldom)
        bend = self.often * (1 - self.often) - at_0
        found = []
        for side in (-1, 1):
            # (away - n slope f)^2 = z^2 n (at_0 + bend f)
            away = votes + side / 2 - n * self.seldom
            middle = 2 * away * n * slope + z * z * n * bend
            square = (n * slope) ** 2
            rest = max(middle**2 - 4 * square * (away**2 - z * z * n * at_0), 0.0)
            found.append((middle + side * math.sqrt(rest)) / (2 * square))
        return max(found[0], 0.0), min(found[1], 1.0)

    def exact_limits(self, votes: int, tail: float) -> tuple[float, float]:
        """Return the smallest and the largest share that leave more than the tail."""
        most = _largest(self.n, lambda m: self._below(votes, m) > tail)
        least = self.n - _largest(
            self.n, lambda away: 1 - self._below(votes - 1, self.n - away) > tail
        )
        return least / self.n, most / self.n

    def _below(self, votes: int, m: int) -> float:
        """Return the probability of at most so many votes if m readings are in the category."""
        own, other = _binomial(m, self.often), _binomial(self.n - m, self.seldom)
        # The law of the one up to what the other leaves of the votes.
        left = votes - other[0] - np.arange(len(other[1]))
        reached = np.concatenate([[0.0], np.cumsum(own[1])])
        places = np.clip(left - own[0] + 1, 0, len(own[1]))
        return float(other[1] @ reached[places])


@functools.lru_cache(maxsize=64)
def _table(law: _Votes) -> list[tuple[Floats, Floats]]:
    """Return for each level the lower and the upper limits, by the number of votes.

    The laws are products of characters, one for each reading: one row for each number of readings
    in the category.
    """
    n = law.n
    turns = np.exp(-2j * np.pi * np.arange((n + 1) // 2 + 1) / (n + 1))
    there = np.arange(n + 1)[:, np.newaxis]
    own, other = (1 + chance * (turns - 1) for chance in (law.often, law.seldom))
    laws = np.fft.irfft(own**there * other ** (n - there), n + 1, axis=1)
    below = np.cumsum(laws, axis=1)
    above = 1 - below + laws
    found = []
    for level in _LEVELS:
        tail = (1 - level) / 2
        most = np.maximum((below > tail).sum(axis=0) - 1, 0)
        least = np.minimum((above <= tail).sum(axis=0), n)
        found.append((least / n, most / n))
    return found


def _largest(n: int, holds: Callable[[int], bool]) -> int:
    """Return the largest number up to n for which a falling condition holds; 0 if for none."""
    low, high = 0, n
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _binomial(n: int, chance: float) -> tuple[int, Floats]:
    """Return the first number with a mass worth naming, and the masses from there on."""
    mean, deviation = n * chance, math.sqrt(n * chance * (1 - chance))
    reach = math.ceil(_DEVIATIONS * deviation + _BEYOND)
    first, last = max(math.floor(mean) - reach, 0), min(math.ceil(mean) + reach, n)
    number = np.arange(first, last + 1, dtype=np.float64)
    logs = np.zeros(number.size)
    odds = math.log(chance) - math.log1p(-chance)
    logs[1:] = np.cumsum(np.log((n - number[:-1]) / number[1:]) + odds)
    masses = np.exp(logs - logs.max())
    return first, masses / masses.sum()
