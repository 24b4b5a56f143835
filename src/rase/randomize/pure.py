"""One report at a time without NumPy: the randomizers as a device runs them.

The same laws as in budget_aware and bounded, from the same integers: fed with the same words, both
give the same report (tests/randomize/test_pure.py).
"""

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Protocol

from rase.campaign import MECHANISMS
from rase.kernels.digits import exact_digits, one_exact_geometric, rate_within
from rase.kernels.entropy import Entropy
from rase.kernels.fixed import WORD, clamped_table, drawn_from, log_ratio
from rase.kernels.parts import (
    HYBRID_FROM,
    Parts,
    bit_alone,
    mixed_up,
    square_wave,
    window_alone,
)
from rase.privacy import MAX_EPSILON, MIN_EPSILON
from rase.randomize.certificate import Drawn
from rase.stream import Precision, ValueRange

__all__ = ["LOWEST_RUNG", "DeviceRandomizer", "PlaceLaw"]

# As in rase.randomize.ladder; a test keeps them equal.
LOWEST_RUNG = 0.25


@dataclass(frozen=True, slots=True)
class DeviceRandomizer:
    """Turn a reading into the grid place of a report.

    The reading is clipped into the range; between two grid points the law of its report is mixed
    of theirs in whole numbers, so that the expectation stays. A bounded law takes one word. Tables
    are built when the first report is drawn.

    Guarantee: epsilon-LDP for any two readings of the range, as for the mechanism of that name in
    rase.randomize. Assumes secure noise, drawn once per reading. The weights are the same integers
    (tests/randomize/test_pure.py).

    Args:
        mechanism: One of `rase.campaign.MECHANISMS`.
        epsilon: The budget of one report.
        value_range: The public range.
        precision: The (beta, rho) asked for; decides whether budget-aware reports are clamped.

    Raises:
        ValueError: If the mechanism is unknown or the budget lies outside [1e-4, 30].

    Example:
        >>> from rase.kernels.entropy import SecureEntropy
        >>> br = DeviceRandomizer("budget-aware", 1.0, ValueRange(0, 3000), Precision(0.5, 0.9))
        >>> 0 <= br.place(120, SecureEntropy()) <= 4096
        True
    """

    mechanism: str
    epsilon: float
    value_range: ValueRange
    precision: Precision

    def __post_init__(self) -> None:
        """Check mechanism and budget once."""
        if self.mechanism not in MECHANISMS:
            raise ValueError(
                f"mechanism must be one of {', '.join(MECHANISMS)}, got {self.mechanism!r}."
            )
        if not MIN_EPSILON <= self.epsilon <= MAX_EPSILON:
            raise ValueError(
                f"epsilon must be between {MIN_EPSILON:g} and {MAX_EPSILON:g}, got {self.epsilon}."
            )

    @property
    def law_name(self) -> str:
        """Which law reports are drawn from; randomizers of equal law and epsilon mix freely."""
        if self.mechanism == "laplace":
            return "unbounded"
        if self.mechanism == "budget-aware":
            # Alg. 1 l. 4: clamp below the bound of Lemma 1.
            bound = self.precision.epsilon_bound(self.value_range)
            return "clamped" if self.epsilon < bound else "unbounded"
        if self.mechanism == "hybrid" and self.epsilon <= HYBRID_FROM:
            return "duchi"
        if self.mechanism == "optimal" and self.epsilon < LOWEST_RUNG:
            return "duchi"
        return self.mechanism

    @property
    def law(self) -> "PlaceLaw":
        """The law, in grid units."""
        return _law(self.law_name, self.epsilon, self.value_range.steps)

    def place(self, reading: float, entropy: Entropy) -> int:
        """Draw the report of a reading. Call it once: a second report spends the budget again.

        Args:
            reading: A finite number; outside the range it is clipped to it.
            entropy: Where the words come from.

        Returns:
            The grid place; some laws use places beyond both ends.

        Raises:
            ValueError: If the reading is not finite.
        """
        if not math.isfinite(reading):
            raise ValueError("reading must be a finite number, got NaN or infinity.")
        steps = self.value_range.steps
        exact = min(
            max((reading - self.value_range.low) / self.value_range.step, 0.0), float(steps)
        )
        index = math.floor(exact)
        # As in rase.kernels.reports.grid_places, to the last bit.
        share = int((exact - index) * 2.0**63) << 1
        return self.law.draw(index, share, entropy)


class PlaceLaw(Protocol):
    """A channel in grid units: from an index 0 .. steps to the place of a report."""

    @property
    def effective_epsilon(self) -> float:
        """The largest log-ratio of the law as it is drawn, rounded up."""
        ...

    def draw(self, index: int, share: int, entropy: Entropy) -> int:
        """Draw the place for a reading that lies a share of 2^64 beyond an index."""
        ...


class _Clamped:
    """Draw ``clamp(index + d)``, d two-sided geometric, from one integer table."""

    def __init__(self, epsilon: float, steps: int) -> None:
        self.steps = steps
        table = clamped_table(epsilon, steps)
        self.sums, self.effective_epsilon = table.sums, table.effective_epsilon

    def draw(self, index: int, share: int, entropy: Entropy) -> int:
        word = entropy.word()
        cell = drawn_from(self.sums, word)
        start = self.sums[cell - 1] if cell else 0
        end = self.sums[cell] if cell < len(self.sums) else WORD
        # Neighbours have the same noise one step apart: the first words of a weight round up.
        is_up = word - start < share * (end - start) >> 64
        return min(max(index + is_up + cell - self.steps, 0), self.steps)


class _Unbounded:
    """Draw ``index + d``, d the difference of two geometric numbers, digit by digit."""

    def __init__(self, epsilon: float, steps: int) -> None:
        rate = rate_within(epsilon, steps)
        loss = Fraction(rate) * steps
        self.effective_epsilon = Drawn(
            "unbounded", epsilon, None, (0, steps), 0, None, (loss.numerator, loss.denominator)
        ).effective_epsilon
        self.digits = exact_digits(rate)

    def draw(self, index: int, share: int, entropy: Entropy) -> int:
        index += entropy.word() < share
        up = one_exact_geometric(self.digits, entropy)
        return index + up - one_exact_geometric(self.digits, entropy)


class _WindowOrBit:
    """Draw a place of a window, far from it, or of a bit: see `rase.kernels.parts`."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.effective_epsilon = log_ratio(*parts.ratio)

    def draw(self, index: int, share: int, entropy: Entropy) -> int:
        return self.parts.place(index, share, entropy.word())


class _Optimal:
    """Draw from the rows of the two inputs beside a reading, mixed."""

    def __init__(self, epsilon: float, steps: int) -> None:
        # Only who draws from it pays for reading the ladder.
        from rase.randomize.ladder import programme_below
        from rase.randomize.programme import mixed_sum

        self.mixed_sum = mixed_sum
        programme = programme_below(epsilon)
        self.steps, self.parts = steps, programme.parts
        self.effective_epsilon = programme.drawn(steps).effective_epsilon
        self.places = programme.places(steps)
        self.sums = [tuple(accumulate(row)) for row in programme.rows]

    def draw(self, index: int, share: int, entropy: Entropy) -> int:
        below, rest = divmod(((index << 64) + share) * self.parts, self.steps << 64)
        mixed = rest // self.steps
        under, over = self.sums[below], self.sums[min(below + 1, self.parts)]
        word = entropy.word()
        # The mixed sum that a word falls below lies between those of the two rows.
        start, end = sorted((bisect_right(under, word), bisect_right(over, word)))
        while start < end and self.mixed_sum(under[start], over[start], mixed) <= word:
            start += 1
        return self.places[start]


_LAWS: dict[str, Callable[[float, int], PlaceLaw]] = {
    "clamped": _Clamped,
    "unbounded": _Unbounded,
    "duchi": lambda epsilon, steps: _WindowOrBit(bit_alone(epsilon, steps)),
    "piecewise": lambda epsilon, steps: _WindowOrBit(window_alone(epsilon, steps)),
    "hybrid": lambda epsilon, steps: _WindowOrBit(mixed_up(epsilon, steps)),
    "optimal": _Optimal,
    "square-wave": lambda epsilon, steps: _WindowOrBit(square_wave(epsilon, steps)),
}


# A device has one campaign, rarely a second version of it; a simulated fleet shares the tables.
@lru_cache(maxsize=8)
def _law(name: str, epsilon: float, steps: int) -> PlaceLaw:
    return _LAWS[name](epsilon, steps)
