"""Laplace noise on the grid: BR, the paper's budget-aware randomizer, and plain Laplace.

With a = exp(-epsilon / steps) the noise d has probability (1 - a) / (1 + a) * a^|d|. Clamping folds
the mass beyond the ends into them; because the law forgets its past, what lies beyond an end is a
geometric number again, which is why clamped reports can be read without bias.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from rase.domain import Precision
from rase.kernels.digits import draw_geometric, exact_digits, exact_geometric, rate_within
from rase.kernels.fixed import WORD, clamped_table, drawn_from, geometric_reach
from rase.kernels.table import IntegerTable
from rase.laws.certificate import Drawn
from rase.laws.law import BoundedLaw, RangeLaw, grid_spots
from rase.laws.randomizer import RangeRandomizer
from rase.lazy import numpy as np

if TYPE_CHECKING:
    from rase.arrays import Flags, Floats, Indices, Places, Words
    from rase.domain import Grid
    from rase.kernels.backend import Compiled
    from rase.kernels.entropy import Entropy
    from rase.kernels.words import Random

__all__ = ["BudgetAware", "ClampedLaw", "Laplace", "UnboundedLaw"]

# Reports drawn at once: so many words stay in the processor's cache until they are used.
_AT_ONCE = 1 << 13
# No report is near enough for beta = 0: the bound of Lemma 1 is infinite.
_NEVER_MET = Precision(beta=0.0, rho=0.5)


@dataclass(frozen=True)
class BudgetAware(RangeRandomizer):
    """Add Laplace noise, and clamp the report unless epsilon meets the precision (Alg. 1).

    Below ``precision.epsilon_bound(domain)`` the noisy value is clamped into the range, at or above
    it is returned as it is. The pseudocode returns before it clamps; the text is right, and is what
    this does. Means of clamped reports are biased to the middle of the range unless they are
    decoded: see `decode` and docs/explain/paper.md, row 9.

    Guarantee: epsilon-LDP for any two readings of the range, both branches (Theorem 1; clamping to
    public bounds is post-processing). Assumes secure noise, drawn once per reading. The clamped
    branch is checked from the integers it is drawn with (tests/laws/test_geometric.py).

    Args:
        epsilon: The budget of one report, or one budget for each contributor.
        domain: The public range.
        precision: The (beta, rho) the fusion centre asks for.

    Example:
        >>> from rase import BudgetAware, Precision, Range, SeededRandom
        >>> br = BudgetAware(1.0, Range(0, 3000), Precision(beta=0.5, rho=0.9))
        >>> br.is_clamping
        True
        >>> reports = br.randomize([0, 120, 2400], rng=SeededRandom(1))
        >>> bool(((0 <= reports) & (reports <= 3000)).all())
        True
    """

    precision: Precision

    name: ClassVar[str] = "budget-aware"
    summary: ClassVar[str] = "the paper's BR: Laplace noise, clamped below the precision's bound"
    has_proven_pair: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the precision, too."""
        super().__post_init__()
        if not isinstance(self.precision, Precision):
            raise TypeError(f"precision must be a Precision, got {self.precision!r}.")

    @property
    def is_clamping(self) -> bool | tuple[bool, ...]:
        """Whether reports are clamped, in the form of ``epsilon`` (Alg. 1 l. 4)."""
        if isinstance(self.epsilon, tuple):
            return tuple(self._clamps(budget) for budget in self.epsilon)
        return self._clamps(self.epsilon)

    def clamp(self) -> BudgetAware:
        """Return the same mechanism, clamping at every epsilon."""
        is_clamped = all(self._clamps(budget) for budget in self.budgets)
        return self if is_clamped else replace(self, precision=_NEVER_MET)

    def law(self, epsilon: float) -> RangeLaw:
        """Return the clamped law below the precision's bound, the unbounded one from there on."""
        make = _clamped_law if self._clamps(epsilon) else _unbounded_law
        return make(epsilon, self.domain.steps)

    def _clamps(self, epsilon: float) -> bool:
        return epsilon < self.precision.epsilon_bound(self.domain)


@dataclass(frozen=True)
class Laplace(RangeRandomizer):
    """Add Laplace noise and never clamp: the baseline of the paper's Laplace-fisher scheme.

    For means it is dominated: clamped reports, decoded, have the same guarantee and a smaller
    variance at every epsilon.

    Guarantee: epsilon-LDP for any two readings of the range, by formula
    (tests/laws/test_certificate.py). Assumes secure noise, drawn once per reading.

    Args:
        epsilon: The budget of one report, or one budget for each contributor.
        domain: The public range.

    Example:
        >>> from rase import Laplace, Range
        >>> Laplace(0.5, Range(0, 10)).scale
        20.0
    """

    name: ClassVar[str] = "laplace"
    summary: ClassVar[str] = "Laplace noise, never clamped: the paper's baseline"
    has_proven_pair: ClassVar[bool] = True

    def clamp(self) -> BudgetAware:
        """Return the clamping mechanism of the same scale: BR below every bound."""
        return BudgetAware(self.epsilon, self.domain, _NEVER_MET)

    def law(self, epsilon: float) -> RangeLaw:
        """Return the unbounded law."""
        return _unbounded_law(epsilon, self.domain.steps)


class _Geometric(RangeLaw):
    """What both laws share: the decay a, and its tail moments."""

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


class ClampedLaw(_Geometric, BoundedLaw):
    """Draw ``clamp(index + d)`` from one integer table.

    Guarantee: epsilon-LDP for any two indices; the largest ratio of the drawn integer weights is
    computed exactly and is at most e^epsilon (tests/laws/test_geometric.py enumerates it).

    Validation: chi-square against the exact law in tests/statistical/test_noise.py.
    """

    name = "clamped"

    def __init__(self, epsilon: float, steps: int) -> None:
        """Build the table for ``epsilon``, or slightly below it if rounding requires that."""
        table = clamped_table(epsilon, steps)
        super().__init__(table.drawn_epsilon / steps, steps)
        self._sums = table.sums
        worst = table.worst
        self._drawn = Drawn(
            self.name,
            table.drawn_epsilon,
            WORD,
            worst.inputs,
            worst.report,
            (worst.numerator, worst.denominator),
        )

    @property
    def largest_ratio(self) -> Drawn:
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

    def draw(self, index: int, share: int, entropy: Entropy) -> int:
        """Draw one place."""
        word = entropy.word()
        cell = drawn_from(self._sums, word)
        start = self._sums[cell - 1] if cell else 0
        end = self._sums[cell] if cell < len(self._sums) else WORD
        # Neighbours have the same noise one step apart: the first words of a weight round up.
        is_up = word - start < share * (end - start) >> 64
        return min(max(index + is_up + cell - self.steps, 0), self.steps)

    def as_fields(self) -> dict[str, Any]:
        """Return the partial sums of the noise."""
        sums = [str(one) for one in self._sums]
        return {"kind": "clamped-noise", "steps": self.steps, "sums": sums}

    @cached_property
    def table(self) -> IntegerTable:
        """The weights of the noise ``-steps .. steps``, for many draws."""
        return IntegerTable(self._sums)

    def _fill_compiled(
        self, native: Compiled, grid: Grid, readings: Floats, words: Words, out: Places
    ) -> bool:
        return native.clamped_places(self.table.arrays, grid, readings, words, out)

    def _places_from(self, index: Places, share: Words, words: Words) -> Places:
        from rase.kernels.integers import high_product

        noise = self.table.numpy_indices(words)
        start = self.table.bounds.take(noise)
        noise += 1
        weight = self.table.bounds.take(noise)
        weight -= start
        # As in `draw`.
        index += words - start < high_product(share, weight)
        index += noise
        index -= self.steps + 1
        return np.clip(index, 0, self.steps, out=index)

    def is_place(self, place: Places) -> Flags:
        """Accept the grid points of the range."""
        return (place >= 0) & (place <= self.steps)

    def decode(self, place: Places) -> Floats:
        """Decode a report at an end as the mean of what lies beyond that end."""
        beyond = np.where(place == self.steps, self.tail_mean, 0.0)
        return place.astype(np.float64) + np.where(place == 0, -self.tail_mean, beyond)

    def decode_square(self, place: Places) -> Floats:
        """Read a report as E[(index + d)^2 | place] less the variance of d."""
        # At an end the index + d is the end and a geometric number K beyond it, so the conditional
        # variance is that of K; inside, index + d is the place itself.
        is_end = (place == 0) | (place == self.steps)
        spread = np.where(is_end, self.tail_variance, 0.0)
        return np.square(self.decode(place)) + spread - 2 * self.tail_variance

    def variance(self, index: Indices) -> Floats:
        """Return Var[d] less what the two atoms leave unknown (Rao-Blackwell)."""
        at_low = np.exp(-self.rate * index) / (1 + self.decay)
        at_high = np.exp(-self.rate * (self.steps - index)) / (1 + self.decay)
        spread: Floats = self.tail_variance * (2 - at_low - at_high)
        return spread

    def cumulative(self, index: Indices, place: Floats) -> Floats:
        """Return the clamped law's distribution function."""
        inside = self.noise_cumulative(place - index)
        return np.where(place < 0, 0.0, np.where(place >= self.steps, 1.0, inside))


class UnboundedLaw(_Geometric):
    """Draw ``index + d`` without clamping, d the difference of two geometric numbers.

    Guarantee: epsilon-LDP for any two indices, by formula: the drawn law is the geometric one
    itself (rase.kernels.digits), so two indices' probabilities differ by exp(rate) for each step
    between them, and ``steps * rate`` is at most epsilon in fractions
    (tests/laws/test_certificate.py).

    Validation: chi-square against the exact law in tests/statistical/test_noise.py.
    """

    name = "unbounded"

    def __init__(self, epsilon: float, steps: int) -> None:
        """Use the largest rate whose ``steps``-fold is at most the budget."""
        super().__init__(rate_within(epsilon, steps), steps)

    @cached_property
    def reach(self) -> int:
        """How far beyond an end a report is accepted; one in 2^60 lies farther out."""
        return geometric_reach(self.rate)

    @property
    def extreme_places(self) -> tuple[int, ...]:
        """The outermost accepted places."""
        return -self.reach, self.steps + self.reach

    @property
    def largest_ratio(self) -> Drawn:
        """The loss by formula: as many rates as there are steps."""
        loss = Fraction(self.rate) * self.steps
        exponent = loss.numerator, loss.denominator
        return Drawn(self.name, float(loss), None, (0, self.steps), 0, None, exponent)

    def weights(self, index: int) -> dict[int, int]:
        """Refuse, because there is no last report."""
        raise ValueError("the law must have a table, got unclamped noise, whose reports never end.")

    def draw(self, index: int, share: int, entropy: Entropy) -> int:
        """Draw one place: round, then add the noise digit by digit."""
        digits = exact_digits(self.rate)
        index += entropy.word() < share
        up = draw_geometric(digits, entropy)
        return index + up - draw_geometric(digits, entropy)

    def draw_many(self, readings: Floats, grid: Grid, *, source: Random) -> Places | None:
        """Round to the grid at random and add the noise; None if a reading is not finite."""
        flat = readings.reshape(-1)
        if not np.isfinite(flat).all():
            return None
        places = np.empty(flat.size, dtype=np.int64)
        stream = source.stream()
        for start in range(0, flat.size, _AT_ONCE):
            index, share = grid_spots(flat[start : start + _AT_ONCE], grid)
            index += stream.words(index.size) < share
            index += exact_geometric(self.rate, index.size, stream)
            index -= exact_geometric(self.rate, index.size, stream)
            places[start : start + _AT_ONCE] = index
        return places.reshape(readings.shape)

    def is_place(self, place: Places) -> Flags:
        """Accept places at most ``reach`` beyond an end."""
        return (place >= -self.reach) & (place <= self.steps + self.reach)

    def decode(self, place: Places) -> Floats:
        """Decode the report as itself: the noise has mean 0."""
        return place.astype(np.float64)

    def decode_square(self, place: Places) -> Floats:
        """Subtract the variance of the noise."""
        return np.square(place.astype(np.float64)) - 2 * self.tail_variance

    def variance(self, index: Indices) -> Floats:
        """Return 2a / (1 - a)^2, the same at every index."""
        return np.full(index.shape, 2 * self.tail_variance)

    def cumulative(self, index: Indices, place: Floats) -> Floats:
        """Return the shifted law's distribution function."""
        return self.noise_cumulative(place - index)


@lru_cache(maxsize=256)
def _clamped_law(epsilon: float, steps: int) -> ClampedLaw:
    return ClampedLaw(epsilon, steps)


@lru_cache(maxsize=256)
def _unbounded_law(epsilon: float, steps: int) -> UnboundedLaw:
    return UnboundedLaw(epsilon, steps)
