"""The exact profile of a shuffled round of bits: the worst of all readings that others may have.

The hockey-stick divergence is convex in each other contributor's law, and a bit's law is linear in
the reading, so the worst others are each at an end of the range, and so are the two readings in
question. Shuffled bits are their number of ones. So the profile is the largest, over the number k
of others at the high end, of the divergence of two counts: sums of binomials, no blanket. Others
who are all alike are not always the worst: every k is looked at.
"""

import math
from functools import cached_property, lru_cache

import numpy as np

from rase.accounting.accountant.profile import Profile
from rase.accounting.binomial import Floats

__all__ = ["BIT_THEOREM", "BitProfile", "bit_profile"]

BIT_THEOREM = "shuffled bits counted exactly, at the worst of all other readings"

# At most so many numbers of others are looked at, and so many chances kept; where there are more
# others, numbers are joined to blocks, which costs half their share of the others in epsilon.
_MOST_ROWS = 400
_EACH_UP_TO = 1000
_MOST_CHANCES = 4_000_000
# Chances are computed tilted upwards by so many standard deviations, and looked at so many beyond:
# so tails keep their digits. What lies beyond, and what comes round the cycle from below the mean
# (at most e^(8 - 4 * 13) = 1e-19 of the tilted mass there, 3e-5), is less than what is added.
_TILT = 4.0
_REACH = 9.0
_LOST = 1e-20
# What share of the columns about the last best ones is looked at for the next: about a third of a
# standard deviation, twice as far as one point of the curve is from the next.
_NEAR = 40
# The rounding of the FFT is far below this.
_SLACK = 1e-7


class BitProfile(Profile):
    """Bound a round of one-bit reports by the worst number of others at the high end.

    Guarantee: an upper bound for every reading of the contributor and of all others, equal to the
    truth up to 1,000 reports and within 0.2 % of epsilon above
    (tests/accounting/accountant/test_bit.py enumerates all compositions). A block of numbers k is
    counted with the fewest others of either end that it holds: more reports are a post-processing.

    Args:
        local_epsilon: The log-ratio of the bit's two weights.
        n: How many reports.
        delta: About which delta will be asked.
    """

    theorem = BIT_THEOREM

    def __init__(self, local_epsilon: float, n: int, *, delta: float) -> None:
        """Keep the chance of a flip."""
        super().__init__(local_epsilon, delta=delta)
        self._n = n
        self._flip = 1 / (1 + math.exp(local_epsilon))
        self._near: tuple[int, int] | None = None

    def delta(self, epsilon: float) -> float:
        """Return the divergence at epsilon, for the worst others, rounded up."""
        if epsilon >= self.local_epsilon:
            return 0.0
        return min(1.0, float(self._divergences(epsilon).max()) * (1 + _SLACK) + _LOST)

    def worst_others(self, epsilon: float) -> int:
        """Return how many others at the high end make it easiest to tell two readings apart.

        Args:
            epsilon: Where the divergence is looked at. Numbers of others are joined above 1,000
                reports; then it is the first of the worst block.
        """
        divergences = self._divergences(epsilon)
        block = -(-self._n // divergences.size)
        return int(divergences.argmax()) * block

    def _divergences(self, epsilon: float) -> Floats:
        """Return the divergence for each number of others at the high end, or block of them."""
        # Positive where the count is high: the best event is a number of ones from some w on.
        gain = -math.expm1(epsilon - self.local_epsilon) / (1 + math.exp(-self.local_epsilon))
        price = math.exp(epsilon) * (1 - self._flip) - self._flip
        tails = self._tails
        # It rises and then falls in w, as the ratio of neighbouring chances does: a best w within
        # a part of the columns is the best of all. It is looked for near those of the last time.
        first, last = self._near or (0, tails.shape[1] - 1)
        while True:
            gains = gain * tails[:, first:last] - price * tails[:, first + 1 : last + 1]
            best = gains.argmax(axis=1)
            lowest, highest = first + int(best.min()), first + int(best.max())
            is_inside = (lowest > first or first == 0) and highest < last - 1
            if is_inside or (first, last) == (0, tails.shape[1] - 1):
                break
            first, last = 0, tails.shape[1] - 1
        margin = 16 + tails.shape[1] // _NEAR
        self._near = max(0, lowest - margin), min(tails.shape[1] - 1, highest + margin)
        found: Floats = np.maximum(gains.max(axis=1), 0.0)
        return found

    @cached_property
    def _tails(self) -> Floats:
        """Pr[ones of the others >= w] for each number of others at the high end, ascending in w."""
        others = self._n - 1
        deviation = math.sqrt(max(others * self._flip * (1 - self._flip), 1.0))
        size = 1 << math.ceil(math.log2((_TILT + _REACH) * deviation + 16))
        rows = min(_MOST_ROWS, max(8, _MOST_CHANCES // size))
        block = 1 if others < _EACH_UP_TO else -(-self._n // rows)
        starts = np.arange(0, others + 1, block, dtype=np.float64)
        ends = np.minimum(starts + block - 1, others)
        return np.concatenate(
            [
                self._tails_of(starts[first : first + rows], (others - ends)[first : first + rows])
                for first in range(0, starts.size, rows)
            ]
        )

    def _tails_of(self, high: Floats, low: Floats) -> Floats:
        """Return the tails for some numbers of others at the high and at the low end.

        Chances are those of tilted bits, by the inverse of their characteristic function, with the
        tilt taken off.
        """
        flip = self._flip
        spread = math.sqrt(max(float((high + low).max()) * flip * (1 - flip), 1.0))
        tilt = min(_TILT / spread, 1.0)
        factor = math.exp(tilt)
        weigh = [1 + chance * math.expm1(tilt) for chance in (1 - flip, flip)]
        chances = [
            chance * factor / mass for chance, mass in zip((1 - flip, flip), weigh, strict=True)
        ]
        size = 1 << math.ceil(math.log2((_TILT + _REACH) * spread + 16))
        # The best event begins above the likeliest count, which is less than one from the mean
        # (Darroch, "On the distribution of the number of successes in independent trials", 1964).
        start = np.floor(high * (1 - flip) + low * flip).astype(np.int64) - 2
        turn = np.exp(-2j * math.pi * np.arange(size // 2 + 1) / size)
        logs = [np.log(1 - chance + chance * turn) for chance in chances]
        # Shifted, so that each row begins at its own start.
        shift = 2j * math.pi * np.arange(size // 2 + 1) / size
        exponent = np.outer(high, logs[0]) + np.outer(low, logs[1]) + np.outer(start, shift)
        tilted = np.maximum(np.fft.irfft(np.exp(exponent), size, axis=1), 0.0)
        counts = start[:, None] + np.arange(size)
        log_mass = high * math.log(weigh[0]) + low * math.log(weigh[1])
        possible = (counts >= 0) & (counts <= (high + low)[:, None])
        masses = tilted * np.exp(np.where(possible, log_mass[:, None] - tilt * counts, -np.inf))
        # What the cycle brings round lies below the start, and is common under the tilt only.
        tails: Floats = np.cumsum(masses[:, ::-1], axis=1)[:, ::-1]
        return np.hstack([tails, np.zeros((tails.shape[0], 1))])


@lru_cache(maxsize=8)
def bit_profile(local_epsilon: float, n: int, *, delta: float) -> BitProfile:
    """Return the profile of a round of bits, kept between calls."""
    return BitProfile(local_epsilon, n, delta=delta)
