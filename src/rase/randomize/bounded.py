"""Mechanisms made for the mean of a bounded reading: Duchi, Piecewise and Hybrid, on the grid.

Duchi, Jordan, Wainwright, "Minimax optimal procedures for locally private estimation", JASA 2018;
Wang et al., "Collecting and analyzing multidimensional data with local differential privacy", ICDE
2019. The laws below are theirs carried over to whole numbers, so that they are unbiased and
private exactly and not up to rounding.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from rase.errors import NotIdentifiable
from rase.kernels.fixed import FIXED_ONE, WORD, decay_powers
from rase.kernels.integers import integers_below
from rase.kernels.words import Random
from rase.randomize.certificate import Drawn
from rase.randomize.grid import GridRandomizer
from rase.randomize.protocol import Codes, Flags, Floats, Law

__all__ = ["HYBRID_FROM", "Duchi", "Hybrid", "Piecewise"]

# Wang et al. Eq. (9): below this budget their hybrid is Duchi's mechanism alone.
HYBRID_FROM = math.log(
    (
        -5
        + 2 * (6353 - 405 * math.sqrt(241)) ** (1 / 3)
        + 2 * (6353 + 405 * math.sqrt(241)) ** (1 / 3)
    )
    / 27
)


@dataclass(frozen=True)
class Duchi(GridRandomizer):
    """Report one bit: the range's lower or upper end, the upper one more often for high readings.

    Best at small epsilon (below about 0.6). One bit says nothing about the spread of readings, so
    variance and histogram cannot be had from it.

    Guarantee: epsilon-LDP for any two readings of the range; the two integer weights are checked
    in tests/randomize/test_bounded.py. Assumes secure noise, drawn once per reading.

    Args:
        epsilon: The budget of one report, or one budget for each contributor.
        value_range: The public range.

    Example:
        >>> from rase import Duchi, SeededRandom, ValueRange
        >>> set(Duchi(1.0, ValueRange(0, 10)).randomize([5] * 50, rng=SeededRandom(1)).tolist())
        {0.0, 10.0}
    """

    def _law(self, epsilon: float) -> Law:
        return _bit(epsilon, self.value_range.steps, 0)


@dataclass(frozen=True)
class Piecewise(GridRandomizer):
    """Report a place near the reading with high, any other place with low probability.

    Reports live on the grid continued beyond both ends of the range, by half a window each.

    Guarantee: epsilon-LDP for any two readings of the range; the ratio of the two integer weights
    is checked in tests/randomize/test_bounded.py. Assumes secure noise, drawn once per reading.

    Args:
        epsilon: The budget of one report, or one budget for each contributor.
        value_range: The public range.

    Example:
        >>> from rase import Piecewise, ValueRange
        >>> round(float(Piecewise(2.0, ValueRange(0, 1)).variance(0.0)), 3)
        0.307
    """

    def _law(self, epsilon: float) -> Law:
        return _window(epsilon, self.value_range.steps)


@dataclass(frozen=True)
class Hybrid(GridRandomizer):
    """Toss a coin that ignores the reading, then use Piecewise or Duchi.

    The coin shows Piecewise with probability 1 - exp(-epsilon / 2) above a budget of about 0.61,
    and never below. The bit's two reports stand one step beyond the piecewise ones.

    Guarantee: epsilon-LDP for any two readings of the range: a mixture, chosen independently of
    the reading, of two epsilon-LDP laws (tests/randomize/test_bounded.py). Assumes secure noise,
    drawn once per reading.

    Args:
        epsilon: The budget of one report, or one budget for each contributor.
        value_range: The public range.

    Example:
        >>> from rase import Hybrid, ValueRange
        >>> round(float(Hybrid(2.0, ValueRange(0, 1)).variance(0.0)), 3)
        0.261
    """

    def _law(self, epsilon: float) -> Law:
        if epsilon <= HYBRID_FROM:
            return _bit(epsilon, self.value_range.steps, 0)
        return _mixture(epsilon, self.value_range.steps)


class BitLaw:
    """Draw one of two codes: round the index to an end at random, keep that end or flip it.

    Validation: chi-square against the exact law in tests/statistical/test_noise.py.
    """

    def __init__(self, epsilon: float, steps: int, margin: int) -> None:
        """Place the two codes ``margin`` steps outside the range."""
        self._epsilon = epsilon
        self.steps, self.low, self.high = steps, -margin, steps + margin
        decay = decay_powers(epsilon, 2)[1]
        # Flips are rounded up, so that keeping is at most e^epsilon times as likely.
        self._flip = -(-decay * WORD // (FIXED_ONE + decay))
        self._keep = 1 - self._flip / WORD
        self._slope = 2 * self._keep - 1

    @property
    def drawn(self) -> Drawn:
        """The ratio of keeping to flipping, which both ends of the range have."""
        return Drawn(
            "duchi",
            self._epsilon,
            self.steps * WORD,
            (0, self.steps),
            self.low,
            (self.steps * (WORD - self._flip), self.steps * self._flip),
        )

    def weights(self, index: int) -> dict[int, int]:
        """Return the two weights: those of rounding times those of flipping."""
        keep = WORD - self._flip
        return {
            self.low: (self.steps - index) * keep + index * self._flip,
            self.high: index * keep + (self.steps - index) * self._flip,
        }

    def sample(self, index: Codes, source: Random) -> Codes:
        """Round, then flip."""
        is_high = integers_below(np.full(index.shape, self.steps), source) < index
        flips = source.words(index.size).reshape(index.shape) < np.uint64(self._flip)
        return np.where(is_high != flips, self.high, self.low)

    def is_code(self, code: Codes) -> Flags:
        """Accept the two codes."""
        return np.isin(code, (self.low, self.high))

    def decode(self, code: Codes) -> Floats:
        """Undo the flip on average."""
        is_high: Floats = np.equal(code, self.high).astype(np.float64)
        return self.steps * (is_high - (1 - self._keep)) / self._slope

    def decode_square(self, code: Codes) -> Floats:
        """Refuse: two codes determine one moment only."""
        raise NotIdentifiable(
            "one-bit reports (Duchi) carry no information on the spread of readings; "
            "use BudgetAware, Piecewise or Hybrid."
        )

    def variance(self, index: Codes) -> Floats:
        """Return the variance of a scaled bit."""
        chance = self._high_chance(index)
        return self.steps**2 * chance * (1 - chance) / self._slope**2

    def cumulative(self, index: Codes, code: Floats) -> Floats:
        """Return the step function of the two codes."""
        low_mass = 1 - self._high_chance(index)
        return np.where(code < self.low, 0.0, np.where(code < self.high, low_mass, 1.0))

    def _high_chance(self, index: Codes) -> Floats:
        return (1 - self._keep) + self._slope * index / self.steps


class WindowLaw:
    """Draw a code near the index often, any other of the alphabet seldom.

    The alphabet holds ``steps + width + 1`` codes; the window of ``width + 1`` codes that belongs
    to index i starts at the i-th. Every index has the same total weight and the window's mean
    moves by exactly one code with the index, so mean and second moment can be read back exactly.

    Validation: chi-square against the exact law in tests/statistical/test_noise.py.
    """

    def __init__(self, epsilon: float, steps: int) -> None:
        """Take the window that Wang et al. found best, a share exp(-epsilon / 2) of the range."""
        self._epsilon = epsilon
        self.steps = steps
        # Even, so that the code of an undisturbed index is a grid point.
        self.half = max(round(steps * math.exp(-epsilon / 2) / 2), 0)
        self.width = 2 * self.half
        decay = decay_powers(epsilon, 2)[1]
        # Inside : outside = (width + 1) : steps * e^-epsilon; rounded down to keep the budget.
        inside = (self.width + 1) * FIXED_ONE
        self._inside = inside * WORD // (inside + steps * decay)
        near = self._inside / WORD / (self.width + 1)
        self._far = (1 - self._inside / WORD) / steps
        self._excess = near - self._far
        self._slope = self._excess * (self.width + 1)

    @property
    def drawn(self) -> Drawn:
        """The ratio of a code's weight inside and outside the window."""
        return Drawn(
            "piecewise",
            self._epsilon,
            WORD * self.steps * (self.width + 1),
            (0, self.steps),
            -self.half,
            (self._inside * self.steps, (WORD - self._inside) * (self.width + 1)),
        )

    def weights(self, index: int) -> dict[int, int]:
        """Return the weight of each code, in or out of the window of an index."""
        near, far = self._inside * self.steps, (WORD - self._inside) * (self.width + 1)
        return {
            place - self.half: near if index <= place <= index + self.width else far
            for place in range(self.steps + self.width + 1)
        }

    def sample(self, index: Codes, source: Random) -> Codes:
        """Choose inside or outside, then one of its codes uniformly."""
        near = source.words(index.size).reshape(index.shape) < np.uint64(self._inside)
        drawn = integers_below(np.where(near, self.width + 1, self.steps), source)
        # Outside: the codes before the window are 0 .. index - 1, those behind follow it.
        skipped = np.where(drawn < index, drawn, drawn + self.width + 1)
        return np.where(near, index + drawn, skipped) - self.half

    def is_code(self, code: Codes) -> Flags:
        """Accept the range and half a window beyond each end."""
        return (code >= -self.half) & (code <= self.steps + self.half)

    def decode(self, code: Codes) -> Floats:
        """Stretch the code about the middle of the range."""
        middle = self.steps / 2
        return middle + (code.astype(np.float64) - middle) / self._slope

    def decode_square(self, code: Codes) -> Floats:
        """Solve E[code^2] for the squared index."""
        place = code + self.half
        last = self.steps + self.width
        all_squares = last * (last + 1) * (2 * last + 1) / 6
        window_squares = self.width * (self.width + 1) * (2 * self.width + 1) / 6
        known = self._far * all_squares + self._excess * window_squares
        return (
            np.square(place.astype(np.float64)) - known
        ) / self._slope - self.width * self.decode(code)

    def variance(self, index: Codes) -> Floats:
        """Return (E[code^2] - E[code]^2) / slope^2, taken about the middle for accuracy."""
        middle = self.steps / 2
        last = self.steps + self.width
        # Codes about the middle run from -last/2 to last/2, the window from offset - half on.
        all_squares = last * (last + 1) * (last + 2) / 12
        window_squares = self.width * (self.width + 1) * (self.width + 2) / 12
        offset = index.astype(np.float64) - middle
        mean = self._slope * offset
        square = self._far * all_squares + self._excess * (
            window_squares + (self.width + 1) * np.square(offset)
        )
        return (square - np.square(mean)) / self._slope**2

    def cumulative(self, index: Codes, code: Floats) -> Floats:
        """Return the piecewise linear distribution function at whole numbers."""
        reached = np.clip(code + self.half + 1, 0, self.steps + self.width + 1)
        inside = np.clip(code + self.half + 1 - index, 0, self.width + 1)
        return self._far * reached + self._excess * inside


class MixtureLaw:
    """Draw from the window law or the bit law, by a coin that does not look at the index.

    Validation: chi-square against the exact law in tests/statistical/test_noise.py.
    """

    def __init__(self, epsilon: float, steps: int) -> None:
        """Choose the window with probability 1 - exp(-epsilon / 2) (Wang et al. Eq. 8)."""
        self._window = _window(epsilon, steps)
        self._bit = _bit(epsilon, steps, self._window.half + 1)
        self._share = -math.expm1(-epsilon / 2)
        self._toss = int(self._share * WORD)

    @property
    def drawn(self) -> Drawn:
        """The larger of the two laws' ratios: their codes are disjoint."""
        window, bit = self._window.drawn, self._bit.drawn
        worst = max(window, bit, key=lambda part: Fraction(*(part.ratio or (1, 1))))
        factor = self._factor(is_window=worst is window)
        numerator, denominator = worst.ratio or (1, 1)
        total = WORD * WORD * self._window.steps * (self._window.width + 1)
        return worst._replace(
            law="hybrid", total=total, ratio=(numerator * factor, denominator * factor)
        )

    def weights(self, index: int) -> dict[int, int]:
        """Return the weights of both, each times that of its side of the coin."""
        return {
            code: weight * self._factor(is_window=law is self._window)
            for law in (self._window, self._bit)
            for code, weight in law.weights(index).items()
        }

    def _factor(self, *, is_window: bool) -> int:
        """Return what a law's weights are multiplied with, for both to have one total."""
        if is_window:
            return self._toss
        return (WORD - self._toss) * (self._window.width + 1)

    def sample(self, index: Codes, source: Random) -> Codes:
        """Toss the coin, then draw."""
        tossed = source.words(index.size).reshape(index.shape) < np.uint64(self._toss)
        code = np.empty_like(index)
        code[tossed] = self._window.sample(index[tossed], source)
        code[~tossed] = self._bit.sample(index[~tossed], source)
        return code

    def is_code(self, code: Codes) -> Flags:
        """Accept the codes of both."""
        return self._window.is_code(code) | self._bit.is_code(code)

    def decode(self, code: Codes) -> Floats:
        """Decode by the law the code belongs to; each is unbiased on its own."""
        return np.where(
            self._window.is_code(code), self._window.decode(code), self._bit.decode(code)
        )

    def decode_square(self, code: Codes) -> Floats:
        """Let the window's codes speak for the bits, which know nothing of it."""
        # About the middle, where squares are small and so is the price of dividing by the share.
        middle = self._window.steps / 2
        near = self._window.decode(code)
        centred = self._window.decode_square(code) - 2 * middle * near + middle**2
        spoken = np.where(self._window.is_code(code), centred / self._share, 0.0)
        return spoken + 2 * middle * self.decode(code) - middle**2

    def variance(self, index: Codes) -> Floats:
        """Mix the variances: both means are the index."""
        window, bit = self._window.variance(index), self._bit.variance(index)
        return self._share * window + (1 - self._share) * bit

    def cumulative(self, index: Codes, code: Floats) -> Floats:
        """Mix the distribution functions."""
        window, bit = self._window.cumulative(index, code), self._bit.cumulative(index, code)
        return self._share * window + (1 - self._share) * bit


@lru_cache(maxsize=256)
def _bit(epsilon: float, steps: int, margin: int) -> BitLaw:
    return BitLaw(epsilon, steps, margin)


@lru_cache(maxsize=256)
def _window(epsilon: float, steps: int) -> WindowLaw:
    return WindowLaw(epsilon, steps)


@lru_cache(maxsize=256)
def _mixture(epsilon: float, steps: int) -> MixtureLaw:
    return MixtureLaw(epsilon, steps)
