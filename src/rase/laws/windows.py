"""Mechanisms made of a window and a bit: Duchi, Piecewise, Hybrid and the square wave.

Duchi, Jordan, Wainwright, "Minimax optimal procedures for locally private estimation", JASA 2018;
Wang et al., "Collecting and analyzing multidimensional data with local differential privacy", ICDE
2019; Li et al., "Estimating numerical distributions under local differential privacy", SIGMOD 2020.
The laws below are theirs carried over to whole numbers, so that they are unbiased and private
exactly and not up to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from rase.errors import NotIdentifiable
from rase.kernels.fixed import WORD
from rase.laws.certificate import Drawn
from rase.laws.law import BoundedLaw, RangeLaw
from rase.laws.parts import (
    HYBRID_FROM,
    Parts,
    bit_alone,
    mixed_up,
    square_wave,
    window_alone,
)
from rase.laws.randomizer import RangeRandomizer
from rase.lazy import numpy as np

if TYPE_CHECKING:
    from rase.arrays import Flags, Floats, Indices, Places, Words
    from rase.domain import Grid
    from rase.kernels.backend import Compiled
    from rase.kernels.entropy import Entropy

__all__ = ["Duchi", "Hybrid", "PartsLaw", "Piecewise", "SquareWave", "WindowLaw", "bit_law"]


@dataclass(frozen=True)
class Duchi(RangeRandomizer):
    """Report one bit: the range's lower or upper end, the upper one more often for high readings.

    Best at small epsilon (below about 0.6). One bit says nothing about the spread of readings, so
    variance and histogram cannot be had from it.

    Guarantee: epsilon-LDP for any two readings of the range; the two integer weights are checked
    in tests/laws/test_bounded.py. Assumes secure noise, drawn once per reading.

    Args:
        epsilon: The budget of one report, or one budget for each contributor.
        domain: The public range.

    Example:
        >>> from rase import Duchi, Range, SeededRandom
        >>> set(Duchi(1.0, Range(0, 10)).randomize([5] * 50, rng=SeededRandom(1)).tolist())
        {0.0, 10.0}
    """

    name: ClassVar[str] = "duchi"
    summary: ClassVar[str] = "one bit; best for a mean at small epsilon, says nothing on spread"
    has_proven_pair: ClassVar[bool] = True

    def law(self, epsilon: float) -> RangeLaw:
        """Return the bit's law."""
        return bit_law(epsilon, self.domain.steps)


@dataclass(frozen=True)
class Piecewise(RangeRandomizer):
    """Report a place near the reading with high, any other place with low probability.

    Reports live on the grid continued beyond both ends of the range, by half a window each.

    Guarantee: epsilon-LDP for any two readings of the range; the ratio of the two integer weights
    is checked in tests/laws/test_bounded.py. Assumes secure noise, drawn once per reading.

    Args:
        epsilon: The budget of one report, or one budget for each contributor.
        domain: The public range.

    Example:
        >>> from rase import Piecewise, Range
        >>> round(float(Piecewise(2.0, Range(0, 1)).variance(0.0)), 3)
        0.307
    """

    name: ClassVar[str] = "piecewise"
    summary: ClassVar[str] = "near places often, others seldom (Wang et al. 2019)"
    has_proven_pair: ClassVar[bool] = True

    def law(self, epsilon: float) -> RangeLaw:
        """Return the window's law."""
        return _window(epsilon, self.domain.steps)


@dataclass(frozen=True)
class Hybrid(RangeRandomizer):
    """Toss a coin that ignores the reading, then use Piecewise or Duchi.

    The coin shows Piecewise with probability 1 - exp(-epsilon / 2) above a budget of about 0.61,
    and never below. The bit's two reports stand one step beyond the piecewise ones.

    Guarantee: epsilon-LDP for any two readings of the range: a mixture, chosen independently of
    the reading, of two epsilon-LDP laws (tests/laws/test_bounded.py). Assumes secure noise,
    drawn once per reading.

    Args:
        epsilon: The budget of one report, or one budget for each contributor.
        domain: The public range.

    Example:
        >>> from rase import Hybrid, Range
        >>> round(float(Hybrid(2.0, Range(0, 1)).variance(0.0)), 3)
        0.261
    """

    name: ClassVar[str] = "hybrid"
    summary: ClassVar[str] = "a coin chooses between piecewise and duchi (Wang et al. 2019)"
    has_proven_pair: ClassVar[bool] = True

    def law(self, epsilon: float) -> RangeLaw:
        """Return the mixture's law, at small budgets that of the bit."""
        if epsilon <= HYBRID_FROM:
            return bit_law(epsilon, self.domain.steps)
        return _mixture(epsilon, self.domain.steps)


@dataclass(frozen=True)
class SquareWave(RangeRandomizer):
    """Report a place near the reading e^epsilon times as often as any other.

    The law has the shape of Piecewise, with the window that makes a report reveal most about its
    reading: use it where a histogram, quantiles or a better range are wanted. Its reports still
    decode to an unbiased mean, with more noise than the best mechanism for means has: 1.3 to 1.4
    times its variance up to epsilon 1, 1.7 at 2, 3.8 at 4.

    Guarantee: epsilon-LDP for any two readings of the range; the ratio of the two integer weights
    is checked in tests/laws/test_square_wave.py. Assumes secure noise, drawn once per reading. In a
    uniform shuffle it is amplified by the bound for any mechanism.

    Args:
        epsilon: The budget of one report, or one budget for each contributor.
        domain: The public range.

    Example:
        >>> from rase import Range, SquareWave
        >>> wave = SquareWave(1.0, Range(0, 1))
        >>> wave.effective_epsilon <= 1.0, round(float(wave.variance(0.5)), 2)
        (True, 0.95)
    """

    name: ClassVar[str] = "square-wave"
    summary: ClassVar[str] = "best for histograms, quantiles and finding a range (Li et al. 2020)"

    def law(self, epsilon: float) -> RangeLaw:
        """Return the wave's law."""
        return _wave(epsilon, self.domain.steps)


class PartsLaw(BoundedLaw):
    """What laws of a window and a bit share: their whole numbers, and how places are drawn.

    Args:
        epsilon: The budget the weights were made for.
        parts: The weights.
        name: What the certificate calls the law.
    """

    def __init__(self, epsilon: float, parts: Parts, name: str) -> None:
        self.name, self.steps = name, parts.steps
        self._epsilon, self._parts = epsilon, parts

    @property
    def largest_ratio(self) -> Drawn:
        """The larger ratio of the two parts, which both ends of the range have."""
        parts, ratio = self._parts, self._parts.ratio
        place = -parts.half if ratio == (parts.near, parts.far) else -parts.margin
        return Drawn(self.name, self._epsilon, WORD, (0, self.steps), place, ratio)

    def weights(self, index: int) -> dict[int, int]:
        """Return the weight of each place."""
        return self._parts.weights(index)

    def as_fields(self) -> dict[str, Any]:
        """Return the eight numbers of window and bit."""
        parts = self._parts
        weights = {name: str(getattr(parts, name)) for name in ("near", "far", "flip", "slope")}
        return {
            "kind": "window-and-bit",
            "steps": parts.steps,
            "half": parts.half,
            "margin": parts.margin,
            **weights,
        }

    def draw(self, index: int, share: int, entropy: Entropy) -> int:
        """Draw one place."""
        return self._parts.place(index, share, entropy.word())

    def _fill_compiled(
        self, native: Compiled, grid: Grid, readings: Floats, words: Words, out: Places
    ) -> bool:
        return native.window_or_bit_places(self._parts.numbers, grid, readings, words, out)

    def _places_from(self, index: Places, share: Words, words: Words) -> Places:
        parts = self._parts
        if not parts.near:
            return self._bits_from(index, share, words)
        places = self._window_places_from(index, share, words)
        if parts.slope:
            chosen = np.flatnonzero(words >= np.uint64(parts.window_total))
            rest = words[chosen] - np.uint64(parts.window_total)
            places[chosen] = self._bits_from(index[chosen], share[chosen], rest)
        return places

    def _bits_from(self, index: Places, share: Words, words: Words) -> Places:
        from rase.kernels.integers import high_product

        parts = self._parts
        high = high_product(share, np.uint64(parts.slope))
        high += index.astype(np.uint64) * np.uint64(parts.slope) + np.uint64(parts.flip)
        return np.where(words < high, parts.steps + parts.margin, -parts.margin)

    def _window_places_from(self, index: Places, share: Words, words: Words) -> Places:
        from rase.kernels.integers import high_product

        parts = self._parts
        inside = np.uint64(parts.near * parts.width)
        place = (words // np.uint64(parts.near)).astype(np.int64)
        moved = high_product(share, np.uint64(parts.near - parts.far))
        place[(place == 0) & (words < moved)] = parts.width
        far = ((words - inside) // np.uint64(parts.far)).astype(np.int64)
        far += np.where(far < index, 0, parts.width)
        places: Places = np.where(words < inside, index + place, far)
        places -= parts.half
        return places

    def is_place(self, place: Places) -> Flags:
        """Accept the places of the window and those of the bit."""
        parts = self._parts
        is_bit = (place == -parts.margin) | (place == self.steps + parts.margin)
        if not parts.near:
            return np.asarray(is_bit)
        is_window = (place >= -parts.half) & (place <= self.steps + parts.half)
        return np.asarray(is_window | is_bit if parts.slope else is_window)


class _BitLaw(PartsLaw, RangeLaw):
    """Draw one of two places, the upper one with a chance that is linear in the index.

    Validation: chi-square against the exact law in tests/statistical/test_noise.py.
    """

    def __init__(self, epsilon: float, parts: Parts, name: str = "duchi") -> None:
        """Take the chances from the bit's weights, whatever else the parts hold."""
        super().__init__(epsilon, parts, name)
        self._low, self._high = -parts.margin, parts.steps + parts.margin
        self._total = parts.bit_total

    def decode(self, place: Places) -> Floats:
        """Undo the flip on average."""
        is_high = np.equal(place, self._high)
        low, high = (
            float(Fraction(whole - self._parts.flip, self._parts.slope))
            for whole in (0, self._total)
        )
        return np.where(is_high, high, low)

    def decode_square(self, place: Places) -> Floats:
        """Refuse: two places determine one moment only."""
        raise NotIdentifiable(
            "one-bit reports (Duchi) carry no information on the spread of readings; "
            "use BudgetAware, Piecewise or Hybrid."
        )

    def variance(self, index: Indices) -> Floats:
        """Return the variance of a scaled bit."""
        chance = self._high_chance(index)
        return (self._total / self._parts.slope) ** 2 * chance * (1 - chance)

    def cumulative(self, index: Indices, place: Floats) -> Floats:
        """Return the step function of the two places."""
        low_mass = 1 - self._high_chance(index)
        return np.where(place < self._low, 0.0, np.where(place < self._high, low_mass, 1.0))

    def _high_chance(self, index: Indices) -> Floats:
        slope = self._parts.slope / self._total
        return self._parts.flip / self._total + slope * index.astype(np.float64)


class WindowLaw(PartsLaw, RangeLaw):
    """Draw a place near the index often, any other of the alphabet seldom.

    The alphabet holds ``steps + width`` places; the window of ``width`` places that belongs to
    index i starts at the i-th. Every index has the same total weight and the window's mean moves by
    exactly one place with the index, so mean and second moment can be read back exactly.

    Validation: chi-square against the exact law in tests/statistical/test_noise.py.
    """

    def __init__(self, epsilon: float, parts: Parts, name: str) -> None:
        """Take the chances from the window's weights, whatever else the parts hold."""
        super().__init__(epsilon, parts, name)
        self._half, self._width = parts.half, parts.width
        self._far = parts.far / parts.window_total
        self._excess = (parts.near - parts.far) / parts.window_total
        self._slope = self._excess * self._width

    def decode(self, place: Places) -> Floats:
        """Stretch the place about the middle of the range."""
        middle = self.steps / 2
        return middle + (place.astype(np.float64) - middle) / self._slope

    def decode_square(self, place: Places) -> Floats:
        """Solve E[place^2] for the squared index."""
        from_first = place + self._half
        most, last = self._width - 1, self.steps + self._width - 1
        all_squares = last * (last + 1) * (2 * last + 1) / 6
        window_squares = most * (most + 1) * (2 * most + 1) / 6
        known = self._far * all_squares + self._excess * window_squares
        square = np.square(from_first.astype(np.float64))
        return (square - known) / self._slope - most * self.decode(place)

    def variance(self, index: Indices) -> Floats:
        """Return (E[place^2] - E[place]^2) / slope^2, taken about the middle for accuracy."""
        middle = self.steps / 2
        most, last = self._width - 1, self.steps + self._width - 1
        # Places about the middle run from -last/2 to last/2, the window from offset - half on.
        all_squares = last * (last + 1) * (last + 2) / 12
        window_squares = most * (most + 1) * (most + 2) / 12
        offset = index.astype(np.float64) - middle
        mean = self._slope * offset
        square = self._far * all_squares + self._excess * (
            window_squares + self._width * np.square(offset)
        )
        return (square - np.square(mean)) / self._slope**2

    def cumulative(self, index: Indices, place: Floats) -> Floats:
        """Return the piecewise linear distribution function at whole numbers."""
        reached = np.clip(place + self._half + 1, 0, self.steps + self._width)
        inside = np.clip(place + self._half + 1 - index, 0, self._width)
        return self._far * reached + self._excess * inside


class _MixtureLaw(PartsLaw, RangeLaw):
    """Draw from the window law or the bit law, by a share of words that ignores the index.

    Validation: chi-square against the exact law in tests/statistical/test_noise.py.
    """

    def __init__(self, epsilon: float, parts: Parts, name: str = "hybrid") -> None:
        """Look at both parts as laws of their own."""
        super().__init__(epsilon, parts, name)
        self._window, self._bit = WindowLaw(epsilon, parts, name), _BitLaw(epsilon, parts)
        self._share = parts.window_total / WORD

    def _is_window(self, place: Places) -> Flags:
        half = self._parts.half
        return (place >= -half) & (place <= self.steps + half)

    def decode(self, place: Places) -> Floats:
        """Decode by the law the place belongs to; each is unbiased on its own."""
        return np.where(self._is_window(place), self._window.decode(place), self._bit.decode(place))

    def decode_square(self, place: Places) -> Floats:
        """Let the window's places speak for the bits, which know nothing of it."""
        # About the middle, where squares are small and so is the price of dividing by the share.
        middle = self.steps / 2
        near = self._window.decode(place)
        centred = self._window.decode_square(place) - 2 * middle * near + middle**2
        spoken = np.where(self._is_window(place), centred / self._share, 0.0)
        return spoken + 2 * middle * self.decode(place) - middle**2

    def variance(self, index: Indices) -> Floats:
        """Mix the variances: both means are the index."""
        window, bit = self._window.variance(index), self._bit.variance(index)
        return self._share * window + (1 - self._share) * bit

    def cumulative(self, index: Indices, place: Floats) -> Floats:
        """Mix the distribution functions."""
        window, bit = self._window.cumulative(index, place), self._bit.cumulative(index, place)
        return self._share * window + (1 - self._share) * bit


@lru_cache(maxsize=256)
def bit_law(epsilon: float, steps: int) -> RangeLaw:
    """Return the law of Duchi's bit, which also serves other mechanisms at small budgets."""
    return _BitLaw(epsilon, bit_alone(epsilon, steps))


@lru_cache(maxsize=256)
def _window(epsilon: float, steps: int) -> RangeLaw:
    return WindowLaw(epsilon, window_alone(epsilon, steps), "piecewise")


@lru_cache(maxsize=256)
def _wave(epsilon: float, steps: int) -> RangeLaw:
    return WindowLaw(epsilon, square_wave(epsilon, steps), "square-wave")


@lru_cache(maxsize=256)
def _mixture(epsilon: float, steps: int) -> RangeLaw:
    return _MixtureLaw(epsilon, mixed_up(epsilon, steps))
