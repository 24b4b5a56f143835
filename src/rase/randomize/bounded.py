"""Mechanisms made for the mean of a bounded reading: Duchi, Piecewise and Hybrid, on the grid.

Duchi, Jordan, Wainwright, "Minimax optimal procedures for locally private estimation", JASA 2018;
Wang et al., "Collecting and analyzing multidimensional data with local differential privacy", ICDE
2019. The laws below are theirs carried over to whole numbers, so that they are unbiased and
private exactly and not up to rounding.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from rase.errors import NotIdentifiable
from rase.kernels.fixed import WORD
from rase.kernels.parts import HYBRID_FROM, Parts, bit_alone, mixed_up, window_alone
from rase.kernels.reports import PartsKernel, draw_reports
from rase.kernels.words import Random
from rase.randomize.certificate import Drawn
from rase.randomize.grid import GridRandomizer
from rase.randomize.protocol import Codes, Flags, Floats, Indices, Law
from rase.stream import ValueRange

__all__ = ["HYBRID_FROM", "Duchi", "Hybrid", "Piecewise", "WindowLaw"]


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
        return _bit(epsilon, self.value_range.steps)


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
            return _bit(epsilon, self.value_range.steps)
        return _mixture(epsilon, self.value_range.steps)


class _PartsLaw:
    """What laws of a window and a bit share: their whole numbers, and how reports are drawn."""

    name = ""

    def __init__(self, epsilon: float, parts: Parts) -> None:
        self._epsilon, self._parts = epsilon, parts
        self._kernel = PartsKernel(parts)
        self.steps = parts.steps

    @property
    def drawn(self) -> Drawn:
        """The larger ratio of the two parts, which both ends of the range have."""
        parts, ratio = self._parts, self._parts.ratio
        code = -parts.half if ratio == (parts.near, parts.far) else -parts.margin
        return Drawn(self.name, self._epsilon, WORD, (0, self.steps), code, ratio)

    def weights(self, index: int) -> dict[int, int]:
        """Return the weight of each code."""
        return self._parts.weights(index)

    def reports(self, readings: Floats, public: ValueRange, *, source: Random) -> Floats | None:
        """Draw the reports; None if a reading is not finite."""
        return draw_reports(readings, self._kernel, public=public, source=source)


class _BitLaw(_PartsLaw):
    """Draw one of two codes, the upper one with a chance that is linear in the index.

    Validation: chi-square against the exact law in tests/statistical/test_noise.py.
    """

    name = "duchi"

    def __init__(self, epsilon: float, parts: Parts) -> None:
        """Take the chances from the bit's weights, whatever else the parts hold."""
        super().__init__(epsilon, parts)
        self.low, self.high = -parts.margin, parts.steps + parts.margin
        self._total = parts.bit_total

    def is_code(self, code: Codes) -> Flags:
        """Accept the two codes."""
        return np.asarray((code == self.low) | (code == self.high))

    def decode(self, code: Codes) -> Floats:
        """Undo the flip on average."""
        is_high = np.equal(code, self.high)
        low, high = (
            float(Fraction(whole - self._parts.flip, self._parts.slope))
            for whole in (0, self._total)
        )
        return np.where(is_high, high, low)

    def decode_square(self, code: Codes) -> Floats:
        """Refuse: two codes determine one moment only."""
        raise NotIdentifiable(
            "one-bit reports (Duchi) carry no information on the spread of readings; "
            "use BudgetAware, Piecewise or Hybrid."
        )

    def variance(self, index: Indices) -> Floats:
        """Return the variance of a scaled bit."""
        chance = self._high_chance(index)
        return (self._total / self._parts.slope) ** 2 * chance * (1 - chance)

    def cumulative(self, index: Indices, code: Floats) -> Floats:
        """Return the step function of the two codes."""
        low_mass = 1 - self._high_chance(index)
        return np.where(code < self.low, 0.0, np.where(code < self.high, low_mass, 1.0))

    def _high_chance(self, index: Indices) -> Floats:
        slope = self._parts.slope / self._total
        return self._parts.flip / self._total + slope * index.astype(np.float64)


class WindowLaw(_PartsLaw):
    """Draw a code near the index often, any other of the alphabet seldom.

    The alphabet holds ``steps + width`` codes; the window of ``width`` codes that belongs to index
    i starts at the i-th. Every index has the same total weight and the window's mean moves by
    exactly one code with the index, so mean and second moment can be read back exactly.

    Validation: chi-square against the exact law in tests/statistical/test_noise.py.
    """

    name = "piecewise"

    def __init__(self, epsilon: float, parts: Parts) -> None:
        """Take the chances from the window's weights, whatever else the parts hold."""
        super().__init__(epsilon, parts)
        self.half, self.width = parts.half, parts.width
        self._far = parts.far / parts.window_total
        self._excess = (parts.near - parts.far) / parts.window_total
        self._slope = self._excess * self.width

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
        most, last = self.width - 1, self.steps + self.width - 1
        all_squares = last * (last + 1) * (2 * last + 1) / 6
        window_squares = most * (most + 1) * (2 * most + 1) / 6
        known = self._far * all_squares + self._excess * window_squares
        return (np.square(place.astype(np.float64)) - known) / self._slope - most * self.decode(
            code
        )

    def variance(self, index: Indices) -> Floats:
        """Return (E[code^2] - E[code]^2) / slope^2, taken about the middle for accuracy."""
        middle = self.steps / 2
        most, last = self.width - 1, self.steps + self.width - 1
        # Codes about the middle run from -last/2 to last/2, the window from offset - half on.
        all_squares = last * (last + 1) * (last + 2) / 12
        window_squares = most * (most + 1) * (most + 2) / 12
        offset = index.astype(np.float64) - middle
        mean = self._slope * offset
        square = self._far * all_squares + self._excess * (
            window_squares + self.width * np.square(offset)
        )
        return (square - np.square(mean)) / self._slope**2

    def cumulative(self, index: Indices, code: Floats) -> Floats:
        """Return the piecewise linear distribution function at whole numbers."""
        reached = np.clip(code + self.half + 1, 0, self.steps + self.width)
        inside = np.clip(code + self.half + 1 - index, 0, self.width)
        return self._far * reached + self._excess * inside


class _MixtureLaw(_PartsLaw):
    """Draw from the window law or the bit law, by a share of words that ignores the index.

    Validation: chi-square against the exact law in tests/statistical/test_noise.py.
    """

    name = "hybrid"

    def __init__(self, epsilon: float, parts: Parts) -> None:
        """Look at both parts as laws of their own."""
        super().__init__(epsilon, parts)
        self._window, self._bit = WindowLaw(epsilon, parts), _BitLaw(epsilon, parts)
        self._share = parts.window_total / WORD

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
        middle = self.steps / 2
        near = self._window.decode(code)
        centred = self._window.decode_square(code) - 2 * middle * near + middle**2
        spoken = np.where(self._window.is_code(code), centred / self._share, 0.0)
        return spoken + 2 * middle * self.decode(code) - middle**2

    def variance(self, index: Indices) -> Floats:
        """Mix the variances: both means are the index."""
        window, bit = self._window.variance(index), self._bit.variance(index)
        return self._share * window + (1 - self._share) * bit

    def cumulative(self, index: Indices, code: Floats) -> Floats:
        """Mix the distribution functions."""
        window, bit = self._window.cumulative(index, code), self._bit.cumulative(index, code)
        return self._share * window + (1 - self._share) * bit


@lru_cache(maxsize=256)
def _bit(epsilon: float, steps: int) -> _BitLaw:
    return _BitLaw(epsilon, bit_alone(epsilon, steps))


@lru_cache(maxsize=256)
def _window(epsilon: float, steps: int) -> WindowLaw:
    return WindowLaw(epsilon, window_alone(epsilon, steps))


@lru_cache(maxsize=256)
def _mixture(epsilon: float, steps: int) -> _MixtureLaw:
    return _MixtureLaw(epsilon, mixed_up(epsilon, steps))
