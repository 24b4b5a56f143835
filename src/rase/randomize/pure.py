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

from rase.campaign import MAX_EPSILON, MECHANISMS, MIN_EPSILON
from rase.kernels.digits import exact_digits, one_exact_geometric, rate_within
from rase.kernels.entropy import Entropy, integer_below, is_rounded_up
from rase.kernels.fixed import (
    FIXED_ONE,
    WORD,
    clamped_table,
    decay_powers,
    drawn_from,
    log_ratio,
)
from rase.randomize.certificate import Drawn
from rase.stream import Precision, ValueRange

__all__ = ["HYBRID_FROM", "LOWEST_RUNG", "DeviceRandomizer", "PlaceLaw"]

# As in rase.randomize.ladder; a test keeps them equal.
LOWEST_RUNG = 0.25
# Wang et al. Eq. (9), as in rase.randomize.bounded; a test keeps them equal.
HYBRID_FROM = math.log(
    (
        -5
        + 2 * (6353 - 405 * math.sqrt(241)) ** (1 / 3)
        + 2 * (6353 + 405 * math.sqrt(241)) ** (1 / 3)
    )
    / 27
)


@dataclass(frozen=True, slots=True)
class DeviceRandomizer:
    """Turn a reading into the grid place of a report.

    The reading is clipped into the range, rounded to one of its two neighbouring grid points at
    random so that the expectation stays, and handed to the law. Tables are built when the first
    report is drawn.

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
            raise ValueError(f"mechanism must be one of {', '.join(MECHANISMS)}.")
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
        below = math.floor(exact)
        index = below + is_rounded_up(exact - below, entropy)
        return self.law.draw(index, entropy)


class PlaceLaw(Protocol):
    """A channel in grid units: from an index 0 .. steps to the place of a report."""

    @property
    def effective_epsilon(self) -> float:
        """The largest log-ratio of the law as it is drawn, rounded up."""
        ...

    def draw(self, index: int, entropy: Entropy) -> int:
        """Draw the place for an index."""
        ...


class _Clamped:
    """Draw ``clamp(index + d)``, d two-sided geometric, from one integer table."""

    def __init__(self, epsilon: float, steps: int) -> None:
        self.steps = steps
        table = clamped_table(epsilon, steps)
        self.sums, self.effective_epsilon = table.sums, table.effective_epsilon

    def draw(self, index: int, entropy: Entropy) -> int:
        noise = drawn_from(self.sums, entropy.word()) - self.steps
        return min(max(index + noise, 0), self.steps)


class _Unbounded:
    """Draw ``index + d``, d the difference of two geometric numbers, digit by digit."""

    def __init__(self, epsilon: float, steps: int) -> None:
        rate = rate_within(epsilon, steps)
        loss = Fraction(rate) * steps
        self.effective_epsilon = Drawn(
            "unbounded", epsilon, None, (0, steps), 0, None, (loss.numerator, loss.denominator)
        ).effective_epsilon
        self.digits = exact_digits(rate)

    def draw(self, index: int, entropy: Entropy) -> int:
        up = one_exact_geometric(self.digits, entropy)
        return index + up - one_exact_geometric(self.digits, entropy)


class _Bit:
    """Draw one of two places: round the index to an end at random, keep that end or flip it."""

    def __init__(self, epsilon: float, steps: int, *, margin: int = 0) -> None:
        self.steps, self.low, self.high = steps, -margin, steps + margin
        decay = decay_powers(epsilon, 2)[1]
        # Flips are rounded up, so that keeping is at most e^epsilon times as likely.
        self.flip = -(-decay * WORD // (FIXED_ONE + decay))
        self.effective_epsilon = log_ratio(WORD - self.flip, self.flip)

    def draw(self, index: int, entropy: Entropy) -> int:
        is_high = integer_below(self.steps, entropy) < index
        flips = entropy.word() < self.flip
        return self.high if is_high != flips else self.low


class _Window:
    """Draw a place near the index often, any other of the alphabet seldom."""

    def __init__(self, epsilon: float, steps: int) -> None:
        self.steps = steps
        # Even, so that the place of an undisturbed index is a grid point.
        self.half = max(round(steps * math.exp(-epsilon / 2) / 2), 0)
        self.width = 2 * self.half
        decay = decay_powers(epsilon, 2)[1]
        # Inside : outside = (width + 1) : steps * e^-epsilon; rounded down to keep the budget.
        inside = (self.width + 1) * FIXED_ONE
        self.inside = inside * WORD // (inside + steps * decay)
        self.effective_epsilon = log_ratio(
            self.inside * steps, (WORD - self.inside) * (self.width + 1)
        )

    def draw(self, index: int, entropy: Entropy) -> int:
        if entropy.word() < self.inside:
            return index + integer_below(self.width + 1, entropy) - self.half
        drawn = integer_below(self.steps, entropy)
        # Outside: the places before the window are 0 .. index - 1, those behind follow it.
        return (drawn if drawn < index else drawn + self.width + 1) - self.half


class _Mixture:
    """Draw from the window law or the bit law, by a coin that does not look at the index."""

    def __init__(self, epsilon: float, steps: int) -> None:
        self.window = _Window(epsilon, steps)
        self.bit = _Bit(epsilon, steps, margin=self.window.half + 1)
        # Wang et al. Eq. (8).
        self.share = int(-math.expm1(-epsilon / 2) * 2.0**64)
        # The two laws share no place, so the larger ratio is that of the whole.
        self.effective_epsilon = max(self.window.effective_epsilon, self.bit.effective_epsilon)

    def draw(self, index: int, entropy: Entropy) -> int:
        law = self.window if entropy.word() < self.share else self.bit
        return law.draw(index, entropy)


class _Optimal:
    """Round the index to an input of the optimal channel at random, then draw from its row."""

    def __init__(self, epsilon: float, steps: int) -> None:
        # Only who draws from it pays for reading the ladder.
        from rase.randomize.ladder import programme_below

        programme = programme_below(epsilon)
        self.steps, self.parts = steps, programme.parts
        self.effective_epsilon = programme.drawn(steps).effective_epsilon
        self.places = programme.places(steps)
        self.sums = [list(accumulate(row[:-1])) for row in programme.rows]

    def draw(self, index: int, entropy: Entropy) -> int:
        below, rest = divmod(index * self.parts, self.steps)
        row = below + (integer_below(self.steps, entropy) < rest)
        return self.places[bisect_right(self.sums[row], entropy.word())]


_LAWS: dict[str, Callable[[float, int], PlaceLaw]] = {
    "clamped": _Clamped,
    "unbounded": _Unbounded,
    "duchi": _Bit,
    "piecewise": _Window,
    "hybrid": _Mixture,
    "optimal": _Optimal,
}


# A device has one campaign, rarely a second version of it; a simulated fleet shares the tables.
@lru_cache(maxsize=8)
def _law(name: str, epsilon: float, steps: int) -> PlaceLaw:
    return _LAWS[name](epsilon, steps)
