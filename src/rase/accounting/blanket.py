"""Amplification for the mechanisms of this package: the privacy blanket, by FFT.

Balle, Bell, Gascón, Nissim, "The privacy blanket of the shuffle model", CRYPTO 2019. The part of a
report's law that is the same for every reading, min over x of Pr[y | x], is a blanket: with
probability gamma, its total mass, a report says nothing about its reading. The blanket reports of
the others hide the one in question, which gives

    delta(epsilon) <= E[(X_1 + ... + X_n)_+] / n,

where X = (Pr[y | x] - e^epsilon Pr[y | x']) / blanket(y) with probability blanket(y), and 0 with
probability 1 - gamma.
"""

import math
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

import numpy as np

from rase.accounting.binomial import Floats
from rase.accounting.lattice import Lattice, split
from rase.kernels.fixed import WORD
from rase.laws.optimal import Optimal
from rase.laws.randomizer import Randomizer, RangeRandomizer
from rase.laws.response import CategoryRandomizer, RandomizedResponse
from rase.laws.windows import Duchi

__all__ = [
    "BLANKET_MAX_EPSILON",
    "BLANKET_THEOREM",
    "Blanket",
    "Channel",
    "Covered",
    "channel_of",
    "epsilon_of",
    "has_blanket",
    "is_bit",
    "is_covered",
    "mean_excess",
]

BLANKET_THEOREM = "privacy blanket (Balle, Bell, Gascón, Nissim 2019), by FFT"

# Above, the rarest reports are known to fewer than six digits from their distribution function.
BLANKET_MAX_EPSILON = 16.0
# Covers the rounding of probabilities and of the FFT many times over, and costs 1e-5 of epsilon.
_SLACK = 1e-4
# Places of the lattice: within a standard deviation, at least, at most, and for a first sketch.
_PER_DEVIATION = 8
_FEWEST, _MOST = 2**14, 2**18
_SKETCH = 512
# Sums of probabilities that differ by less, as a share, differ by rounding.
_ALIKE = 1e-9

# A randomizer whose worst pair of readings is proven: see `is_covered`.
Covered: TypeAlias = RangeRandomizer


def is_covered(source: Randomizer | float) -> TypeGuard[Covered]:
    """Return whether the worst pair of readings of a mechanism is proven."""
    return isinstance(source, RangeRandomizer) and source.has_proven_pair


def has_blanket(source: Randomizer | float) -> TypeGuard[Covered]:
    """Return whether the blanket of a mechanism can be computed with enough digits."""
    return is_covered(source) and epsilon_of(source) <= BLANKET_MAX_EPSILON


def is_bit(source: Randomizer) -> bool:
    """Return whether reports of one budget are a bit, as many laws are at small budgets.

    A response between two categories is Duchi's bit for readings at the ends of a range.
    """
    if isinstance(source, RandomizedResponse):
        return source.domain.steps == 1
    return source.law(source.guarantee.epsilon).largest_ratio.law == Duchi.name


def epsilon_of(source: Randomizer | float) -> float:
    """Return the budget of one report."""
    return source if isinstance(source, float) else source.guarantee.epsilon


@dataclass(frozen=True, slots=True, eq=False)
class Channel:
    """What a report says of some readings: one row of probabilities for each.

    Args:
        low: The law of the report of the smallest reading, or of one of the worst pair.
        middle: The law for the middle of the range.
        high: The law for the largest reading, or of the other of the worst pair.
        least: The least probability of each report, where it is not attained at one of the two.
        quarter: The law for a quarter of the range; None if it is not looked at.
    """

    low: Floats
    middle: Floats
    high: Floats
    least: Floats | None = None
    quarter: Floats | None = None

    @property
    def blanket(self) -> Floats:
        """The least probability of each report over all readings.

        But for the optimal channel it is attained at one of the ends: the geometric laws fall with
        the distance, a window that holds a report at both ends holds it at all readings, and a
        bit's chance is linear in the reading.
        """
        return np.minimum(self.low, self.high) if self.least is None else self.least


class Blanket:
    """Bound delta at any epsilon for one mechanism and n reports.

    Guarantee: `delta` bounds the hockey-stick divergence of the uniformly shuffled round for
    contributors who share the mechanism, and rounds that differ in one contributor's reading. The
    worst pair of readings are the two ends of the range, for Optimal the two inputs that favour
    the fewest outputs together: proven for every mechanism, grid, epsilon and n in
    docs/explain/shuffling.md, and compared in whole numbers in tests/accounting/test_worst_pair.py.

    Args:
        channel: The mechanism's rows.
        n: How many reports.
        negligible: The error to aim at; what is left out is bounded and added.
    """

    def __init__(self, channel: Channel, n: int, *, negligible: float) -> None:
        """Keep the reports that occur."""
        least = channel.blanket
        occurs = least > 0
        self._first, self._second = channel.low[occurs], channel.high[occurs]
        self._least = least[occurs]
        # The ratio of a report without blanket is unbounded: count it as a failure.
        self._bare = float(channel.low[~occurs].sum())
        self._n, self._negligible = n, negligible

    def delta(self, epsilon: float) -> float:
        """Return the blanket bound at epsilon, rounded up."""
        values = (self._first - math.exp(epsilon) * self._second) / self._least
        excess = mean_excess(values, self._least, self._n, negligible=self._negligible)
        return min(1.0, excess * (1 + _SLACK) + self._bare)


def mean_excess(values: Floats, masses: Floats, n: int, *, negligible: float) -> float:
    """Return an upper bound on E[(X_1 + ... + X_n)_+] / n; what masses lack to 1 lies at 0.

    Splitting an atom about its place can only raise the mean of the positive part, a convex
    function; so can the cyclic sum. What lies beyond the cycle is bounded and added.

    Args:
        values: The values of X, of negative mean.
        masses: Their masses.
        n: How many summands.
        negligible: The error to aim at.
    """
    highest = float(values.max())
    if highest <= 0:
        return 0.0
    # One summand below -(n - 1) * highest already keeps the sum from being positive.
    values = np.append(np.maximum(values, -(n - 1) * highest), 0.0)
    masses = np.append(masses, max(0.0, 1 - float(masses.sum())))
    step, size, reach = _layout(values, masses, n, negligible=negligible)
    law = split(values, masses, step)
    tilt = law.tilt_for(0.0)
    tilted, log_factor = law.sum_of(n, tilt=tilt, size=size)
    sums = step * np.arange(1, math.ceil(reach / step) + 1)
    inside = float((sums * np.exp(log_factor - tilt * sums) * tilted[1 : sums.size + 1]).sum())
    return (inside + math.exp(_log_excess_beyond(law, n, float(sums[-1])))) / n


def _layout(
    values: Floats, masses: Floats, n: int, *, negligible: float
) -> tuple[float, int, float]:
    """Return the lattice's step, its number of places, and the sum up to which to look."""
    width = float(values.max() - values.min())
    sketch = split(values, masses, width / _SKETCH)
    spread = sketch.moments(sketch.tilt_for(0.0))[1] * math.sqrt(n)
    reach = 8 * spread
    while _log_excess_beyond(sketch, n, reach) > math.log(negligible * n):
        reach *= 1.25
    lowest, highest = float(sketch.values[0]), float(sketch.values[-1])
    reach = min(reach, n * highest)
    cycle = reach + max(min(8 * spread, -n * lowest), -lowest)
    wished = _PER_DEVIATION * cycle / sketch.moments()[1]
    size = min(max(_FEWEST, 1 << math.ceil(math.log2(wished))), _MOST)
    return cycle / (size - 8), size, reach


def channel_of(randomizer: Covered | CategoryRandomizer) -> Channel:
    """Return the rows of a randomizer with one budget.

    Reports beyond those listed are pooled with the outermost ones: there the ratio of any two
    readings' probabilities does not change, so an observer learns the same.
    """
    if isinstance(randomizer, CategoryRandomizer):
        return _rows_of_two(randomizer)
    if isinstance(randomizer, Optimal):
        rows = randomizer.channel
        if rows is not None:
            return _worst_rows(rows)
        randomizer = Duchi(randomizer.epsilon, randomizer.domain)
    bounds = randomizer.domain
    margin = bounds.steps // 2 + 2
    inner = np.arange(1 - margin, bounds.steps + margin + 1) - 0.5
    edges = np.concatenate(([-np.inf], bounds.low + bounds.step * inner, [np.inf]))
    looked_at = [(bounds.low + bounds.middle) / 2, bounds.middle, bounds.high]
    quarter, middle, high = randomizer.report_probabilities(looked_at, edges)
    # The laws are symmetric; mirroring keeps the digits that 1 - (1 - tiny) would lose.
    return Channel(low=high[::-1].copy(), middle=middle, high=high, quarter=quarter)


def _rows_of_two(randomizer: CategoryRandomizer) -> Channel:
    """Return the rows of two categories, and the weight of a report that favours neither.

    Each report has one of two weights, and any two categories are favoured together, one without
    the other, or not at all by as many reports: all pairs have one law of X. The smaller weight is
    a blanket at every report, though a report that favours all categories has a larger one.
    """
    law = randomizer.law(randomizer.guarantee.epsilon)
    last = randomizer.domain.steps
    rows = [law.weights(index) for index in (0, last // 2, last)]
    places = sorted(rows[0])
    low, middle, high = (np.array([row[one] / WORD for one in places]) for row in rows)
    return Channel(low=low, middle=middle, high=high, least=np.full(low.size, low.min()))


def _worst_rows(rows: Floats) -> Channel:
    """Return the two rows that differ most, with the least of all rows.

    Each output has one of two likelihoods, and the favoured ones have the same blanket mass in
    every row; so the bound depends on a pair only by how much of that mass they share, and is
    largest where it is least. Of pairs that share as little the ends are taken: between them
    there is room for others who favour nothing of what they favour, and hide them worst.
    """
    apart = np.abs(rows[:, None, :] - rows[None, :, :]).sum(axis=2)
    low, high = np.unravel_index(int(apart.argmax()), apart.shape)
    if apart[0, -1] >= (1 - _ALIKE) * apart[low, high]:
        low, high = np.intp(0), np.intp(len(rows) - 1)
    return Channel(
        low=rows[low],
        middle=rows[len(rows) // 2],
        high=rows[high],
        least=rows.min(axis=0),
        quarter=rows[len(rows) // 4],
    )


def _log_excess_beyond(law: Lattice, n: int, reach: float) -> float:
    """Return a bound on ln E[S; S > reach]: s <= reach * e^(t (s - reach)) for t >= 1 / reach."""
    return math.log(reach) + law.log_tail(n, reach, least_tilt=1 / reach)
