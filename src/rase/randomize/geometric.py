"""Laplace noise on the grid: two-sided geometric laws, clamped to the range or unbounded.

With a = exp(-epsilon / steps) the noise d has probability (1 - a) / (1 + a) * a^|d|. Clamping folds
the mass beyond the ends into them; because the law forgets its past, what lies beyond an end is a
geometric number again, which is why clamped reports can be read without bias.
"""

import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np

from rase.kernels.digits import rate_within
from rase.kernels.fixed import WORD, clamped_table, geometric_reach
from rase.kernels.reports import ClampedKernel, clamped_sums, draw_reports, grid_places
from rase.kernels.table import IntegerTable
from rase.kernels.unbounded import exact_geometric
from rase.kernels.words import Random
from rase.randomize.certificate import Drawn
from rase.randomize.protocol import Codes, Flags, Floats, Indices
from rase.stream import ValueRange

__all__ = ["ClampedGeometric", "UnboundedGeometric"]

# Reports drawn at once: the words of so many stay in the processor's cache until they are used.
_AT_ONCE = 1 << 13


class _Geometric:
    """What both laws share: the decay a, and the tail moments it gives."""

    def __init__(self, rate: float, steps: int) -> None:
        self.steps = steps
        self.rate = rate
        self.decay = math.exp(-rate)
        gap = -math.expm1(-rate)
        # E[K] and Var[K] of a geometric number K, Pr[K = k] proportional to a^k.
        self.tail_mean = self.decay / gap
        self.tail_variance = self.decay / (gap * gap)

    def noise_cumulative(self, noise: Floats) -> Floats:
        """Return ``Pr[d <= noise]`` of the two-sided law for whole numbers, infinities included."""
        outer = np.exp(-self.rate * np.where(noise < 0, -noise, noise + 1)) / (1 + self.decay)
        return np.where(noise < 0, outer, 1 - outer)


class ClampedGeometric(_Geometric):
    """Draw ``clamp(index + d)`` from one integer table.

    Guarantee: epsilon-LDP for any two indices; the largest ratio of the drawn integer weights is
    computed exactly and is at most e^epsilon (tests/randomize/test_geometric.py enumerates it).

    Validation: chi-square against the exact law in tests/statistical/test_noise.py.
    """

    def __init__(self, epsilon: float, steps: int) -> None:
        """Take the table for ``epsilon``, a hair below it if rounding asks for that."""
        table = clamped_table(epsilon, steps)
        super().__init__(table.drawn_epsilon / steps, steps)
        self._kernel = ClampedKernel(IntegerTable(table.sums), steps)
        self._sums = table.sums
        worst = table.worst
        self._drawn = Drawn(
            "clamped",
            table.drawn_epsilon,
            WORD,
            worst.inputs,
            worst.report,
            (worst.numerator, worst.denominator),
        )

    @property
    def drawn(self) -> Drawn:
        """The largest ratio of the integer weights."""
        return self._drawn

    def weights(self, index: int) -> dict[int, int]:
        """Return the noise's weights, those beyond the ends folded into them."""
        sums = [0, *self._sums, WORD]
        noise = [later - sooner for sooner, later in pairwise(sums)]
        found: Counter[int] = Counter()
        for place, weight in enumerate(noise):
            found[min(max(index + place - self.steps, 0), self.steps)] += weight
        return dict(found)

    def reports(self, readings: Floats, public: ValueRange, *, source: Random) -> Floats | None:
        """Draw the reports; None if a reading is not finite."""
        return draw_reports(readings, self._kernel, public=public, source=source)

    def round_sums(self, reports: Floats, public: ValueRange) -> tuple[Floats, Floats] | None:
        """Return for each row Σ decoded and Σ (decoded^2 - decoded square), from exact counts.

        Returns:
            Both columns in grid units; None if a report is not a point of the grid.
        """
        counts = clamped_sums(reports, public)
        if counts is None:
            return None
        places, lows, highs = counts
        decoded = places + self.tail_mean * (highs - lows)
        # By decode_square: 2 tail variances for a report inside, 1 at an end.
        return decoded, self.tail_variance * (2 * reports.shape[1] - lows - highs)

    def is_code(self, code: Codes) -> Flags:
        """Accept the grid points of the range."""
        return (code >= 0) & (code <= self.steps)

    def decode(self, code: Codes) -> Floats:
        """Read a report at an end as the mean of what lies beyond that end."""
        beyond = np.where(code == self.steps, self.tail_mean, 0.0)
        return code.astype(np.float64) + np.where(code == 0, -self.tail_mean, beyond)

    def decode_square(self, code: Codes) -> Floats:
        """Read a report as E[(index + d)^2 | code] less the variance of d."""
        # At an end the index + d is the end and a geometric number K beyond it, so the conditional
        # variance is that of K; inside, index + d is the code itself.
        is_end = (code == 0) | (code == self.steps)
        spread = np.where(is_end, self.tail_variance, 0.0)
        return np.square(self.decode(code)) + spread - 2 * self.tail_variance

    def variance(self, index: Indices) -> Floats:
        """Return Var[d] less what the two atoms leave unknown (Rao-Blackwell)."""
        at_low = np.exp(-self.rate * index) / (1 + self.decay)
        at_high = np.exp(-self.rate * (self.steps - index)) / (1 + self.decay)
        spread: Floats = self.tail_variance * (2 - at_low - at_high)
        return spread

    def cumulative(self, index: Indices, code: Floats) -> Floats:
        """Return the clamped law's distribution function."""
        inside = self.noise_cumulative(code - index)
        return np.where(code < 0, 0.0, np.where(code >= self.steps, 1.0, inside))


class UnboundedGeometric(_Geometric):
    """Draw ``index + d`` without clamping, d the difference of two geometric numbers.

    Guarantee: epsilon-LDP for any two indices, by formula: the drawn law is the geometric one
    itself (rase.kernels.digits), so two indices' probabilities differ by exp(rate) for each step
    between them, and ``steps * rate`` is at most epsilon in fractions
    (tests/randomize/test_certificate.py).

    Validation: chi-square against the exact law in tests/statistical/test_noise.py.
    """

    def __init__(self, epsilon: float, steps: int) -> None:
        """Take the largest rate whose ``steps``-fold is at most the budget."""
        super().__init__(rate_within(epsilon, steps), steps)
        self.reach = geometric_reach(self.rate)

    @property
    def drawn(self) -> Drawn:
        """The loss by formula: as many rates as there are steps."""
        loss = Fraction(self.rate) * self.steps
        return Drawn(
            "unbounded",
            float(loss),
            None,
            (0, self.steps),
            0,
            None,
            (loss.numerator, loss.denominator),
        )

    def weights(self, index: int) -> dict[int, int]:
        """Refuse: there is no last report."""
        raise ValueError("the law must have a table, got unclamped noise, whose reports never end.")

    def reports(self, readings: Floats, public: ValueRange, *, source: Random) -> Floats | None:
        """Round to the grid at random and add the noise; None if a reading is not finite."""
        flat = readings.reshape(-1)
        if not np.isfinite(flat).all():
            return None
        reports: Floats = np.empty(flat.size)
        stream = source.stream()
        for start in range(0, flat.size, _AT_ONCE):
            index, share = grid_places(flat[start : start + _AT_ONCE], public)
            index += stream.words(index.size) < share
            index += exact_geometric(self.rate, index.size, stream)
            index -= exact_geometric(self.rate, index.size, stream)
            reports[start : start + _AT_ONCE] = public.step * index + public.low
        return reports.reshape(readings.shape)

    def is_code(self, code: Codes) -> Flags:
        """Accept at most ``reach`` beyond an end; one report in 2^60 lies further out."""
        return (code >= -self.reach) & (code <= self.steps + self.reach)

    def decode(self, code: Codes) -> Floats:
        """Take the report as it is: the noise has mean 0."""
        return code.astype(np.float64)

    def decode_square(self, code: Codes) -> Floats:
        """Take off the variance of the noise."""
        return np.square(code.astype(np.float64)) - 2 * self.tail_variance

    def variance(self, index: Indices) -> Floats:
        """Return 2a / (1 - a)^2, the same at every index."""
        return np.full(index.shape, 2 * self.tail_variance)

    def cumulative(self, index: Indices, code: Floats) -> Floats:
        """Return the shifted law's distribution function."""
        return self.noise_cumulative(code - index)
