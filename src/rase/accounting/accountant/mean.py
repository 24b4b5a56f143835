"""Whoever sees one published mean of a round, and nothing else: the second observer.

The mean of a hundred incommensurable values gives away how often each was reported, so a mean says
less than the shuffled reports only where values lie on a lattice. Then the others' blanket reports
hide a contributor by their sum, not only by their number.
"""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rase.accounting.accountant.classes import hidden_numbers
from rase.accounting.accountant.profile import Profile
from rase.accounting.binomial import Floats
from rase.accounting.checks import checked_delta, checked_n
from rase.accounting.curve import crossing
from rase.laws.optimal import Optimal

__all__ = ["LATTICE_PLACES", "MEAN_THEOREM", "MeanProfile", "mean_profile"]

MEAN_THEOREM = "sum of blanket reports on a lattice, by FFT"

LATTICE_PLACES: Final = 64
# Blocks of numbers of blanket reports are so many of their standard deviations wide.
_WIDTH = 1 / 2
# What is left out, as a share of the delta asked for, and what the FFT's rounding can amount to.
_NEGLIGIBLE = 1e-4
_ROUNDING = 1e-12
_LEAST_DELTA = 1e-9
# The search ends this close above the epsilon it looks for, as a share.
_CLOSE = 1e-3
# Blocks that all pairs are looked at with, and how near rows must be to be reflections.
_WIDE = 6
_ALIKE = 1e-15


class MeanProfile(Profile):
    """Bound what the sum of a round's values says of one contributor's reading.

    The others' reports that are not drawn from the blanket, and the number m of those that are,
    may be known: then the sum says as much as one report added to m draws of the blanket. It falls
    in m. The divergence is convex in both laws, and a reading between two inputs is a mixture of
    their rows, so the largest over all pairs of inputs holds for all pairs of readings.

    Args:
        local_epsilon: The epsilon of one report.
        rows: The probability of each output (column) for each input.
        values: The whole number that each output counts as.
        n: How many reports.
        delta: About which delta will be asked; at least 1e-9.
    """

    theorem = MEAN_THEOREM

    def __init__(
        self,
        local_epsilon: float,
        rows: Floats,
        values: NDArray[np.int64],
        n: int,
        *,
        delta: float,
    ) -> None:
        """Lay the values out on a cycle that is wide enough for the sums of most blocks."""
        super().__init__(local_epsilon, delta=delta)
        if delta < _LEAST_DELTA:
            raise ValueError(f"delta must be at least {_LEAST_DELTA:g} for a mean, got {delta}.")
        # A pair and the pair of their reflections have one divergence.
        self._is_symmetric = not np.ptp(values + values[::-1]) and bool(
            np.abs(rows - rows[::-1, ::-1]).max() <= _ALIKE
        )
        least = rows.min(axis=0)
        share = float(least.sum())
        self._negligible = _NEGLIGIBLE * delta
        numbers = hidden_numbers([(share, n - 1)], negligible=self._negligible, width=_WIDTH)
        blanket = least / share
        offset = values - round(float(blanket @ values))
        reach = _reach(blanket, offset, numbers[-1][0], negligible=self._negligible)
        size = 1 << math.ceil(math.log2(2 * reach + 1))
        spectrum = np.fft.rfft(np.bincount(offset % size, weights=blanket, minlength=size))
        inputs = np.array([np.bincount(offset % size, weights=row, minlength=size) for row in rows])
        spectra = np.fft.rfft(inputs, axis=1)
        self._laws = [
            (chance, np.fft.irfft(spectra * spectrum**number, size, axis=1))
            for number, chance in numbers
        ]

    def delta(self, epsilon: float) -> float:
        """Return the largest divergence over all pairs of inputs, rounded up."""
        if epsilon >= self.local_epsilon:
            return 0.0
        return self._rounded_up(float(self._divergences(epsilon, self._laws).max()), epsilon)

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon that is proven at a delta.

        It is searched for with one pair of inputs, at first the ends; then all pairs are looked at,
        and the search goes on above if another one is worse there.

        Args:
            delta: The delta; at least 1e-9.
        """
        found = 0.0
        worse: tuple[int, int] | None = (0, len(self._laws[0][1]) - 1)
        while worse is not None and found < self.local_epsilon:

            def curve(epsilon: float, pair: tuple[int, int] = worse) -> float:
                return self._rounded_up(self._divergence(epsilon, *pair), epsilon)

            above = crossing(
                curve, delta, lowest=found, highest=self.local_epsilon, precision=_CLOSE
            )
            found = above[1]
            worse = self._pair_beyond(found, delta)
        return found

    def _pair_beyond(self, epsilon: float, delta: float) -> tuple[int, int] | None:
        """Return the worst pair of inputs with more than a delta at an epsilon, if there is one.

        The divergence falls in the number of blanket reports, so few wide blocks of numbers bound
        it for all pairs; only those that may be beyond are looked at closely.
        """
        parts = np.array_split(np.arange(len(self._laws)), _WIDE)
        wide = [
            (sum(self._laws[one][0] for one in part), self._laws[part[0]][1])
            for part in parts
            if part.size
        ]
        bounds = self._divergences(epsilon, wide)
        order = np.argsort(bounds, axis=None)[::-1]
        most, worst, place = delta, None, 0
        # The last is of an input with itself, which nothing tells apart: this ends.
        while self._rounded_up(float(bounds.flat[order[place]]), epsilon) > most:
            first, second = divmod(int(order[place]), bounds.shape[1])
            found = self._rounded_up(self._divergence(epsilon, first, second), epsilon)
            if found > most:
                most, worst = found, (first, second)
            place += 1
        return worst

    def _divergences(self, epsilon: float, blocks: list[tuple[float, Floats]]) -> Floats:
        """Return the divergence of each pair of inputs, or of one of two reflections."""
        factor = math.exp(epsilon)
        count = len(blocks[0][1])
        found = np.zeros((-(-count // 2) if self._is_symmetric else count, count))
        for chance, whole in blocks:
            # Sums that no input makes so much likelier than another one count for no pair.
            laws = whole[:, whole.max(axis=0) > factor * whole.min(axis=0)]
            scaled = factor * laws
            for first in range(len(found)):
                gains = laws[first] - scaled
                np.maximum(gains, 0.0, out=gains)
                found[first] += chance * gains.sum(axis=1)
        return found

    def _divergence(self, epsilon: float, first: int, second: int) -> float:
        factor = math.exp(epsilon)
        return sum(
            chance * float(np.maximum(laws[first] - factor * laws[second], 0.0).sum())
            for chance, laws in self._laws
        )

    def _rounded_up(self, divergence: float, epsilon: float) -> float:
        # The sums beyond the cycle count as seen, under both laws.
        return min(1.0, divergence + (2 + math.exp(epsilon)) * self._negligible + _ROUNDING)


def mean_profile(
    source: Optimal, n: int, *, delta: float = 1e-6, places: int = LATTICE_PLACES
) -> MeanProfile:
    """Return the profile of the published mean of a round, all that its observer sees.

    Guarantee: as for `rase.accounting.accountant.rounds.shuffled_pair`, towards whoever sees the
    mean of each round and no other statistic, if every report counts as a multiple of ``1 /
    places`` of the range, rounded at random as `rase.counts.mean.lattice_mean` does
    (tests/accounting/accountant/test_mean.py enumerates small rounds,
    tests/statistical/test_published_mean.py simulates an observer). Answers of a fusion centre are
    not of this kind: values are not rounded, and errors, spreads and histograms come with the mean.

    Args:
        source: The optimal channel, with one budget.
        n: The fewest honest reports of a round.
        delta: About which delta will be asked; at least 1e-9.
        places: How many values there are to a range.

    Raises:
        ValueError: If an argument is out of bounds, or reports are bits: their mean is their
            number, which is all that shuffled bits say.

    Example:
        >>> from rase import Range
        >>> profile = mean_profile(Optimal(2.0, Range(0, 1)), 100, places=16)
        >>> profile.delta(0.5) < 0.01
        True
    """
    n, delta = checked_n(n), checked_delta(delta)
    if places < 2:
        raise ValueError(f"places must be at least 2, got {places}.")
    rows = source.channel
    if rows is None:
        raise ValueError("source must report more than bits, whose mean says all that they say.")
    law = source.law(source.guarantee.epsilon)
    decoded = law.decode(np.array(sorted(law.weights(0)), dtype=np.int64))
    exact = decoded * places / source.domain.steps
    below = np.floor(exact).astype(np.int64)
    # Outputs of one value are one: their blanket is at least the sum of theirs.
    lowest, count = int(below.min()), int(np.ptp(below)) + 2
    on_lattice = np.zeros((count, below.size))
    outputs = np.arange(below.size)
    on_lattice[below - lowest, outputs] = 1 - (exact - below)
    on_lattice[below - lowest + 1, outputs] = exact - below
    values = lowest + np.arange(count)
    found = rows @ on_lattice.T
    occurs = found.any(axis=0)
    return MeanProfile(source.guarantee.epsilon, found[:, occurs], values[occurs], n, delta=delta)


def _reach(blanket: Floats, offset: NDArray[np.int64], number: int, *, negligible: float) -> int:
    """Return how far from 0 a report and so many of the blanket lie but for a negligible chance.

    Bernstein: a sum of independent numbers with variances v in all, none of which is further than
    b from its mean, is further than t from its own with a chance of at most 2 exp(-t^2 / (2 v + 2 b
    t / 3)).
    """
    widest = int(np.abs(offset).max())
    mean = float(blanket @ offset)
    variance = number * float(blanket @ np.square(offset - mean))
    most = math.log(2 / negligible) * (widest + abs(mean))
    half = most / 3 + math.sqrt(most**2 / 9 + 2 * variance * math.log(2 / negligible))
    return math.ceil(half + number * abs(mean)) + widest
