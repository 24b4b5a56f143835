"""Window and bit laws as whole numbers that add up to 2^64, in pure Python for devices.

The window's places near the index weigh more than those far from it, and it moves with the index;
the bit shows one of two further places, the upper one with a weight that is linear in the index.
Both weights are solved for in whole numbers, so that every index has the same total and its mean is
linear in it exactly: reports can be read without any bias on the grid.
"""

import math
from dataclasses import dataclass
from itertools import count

from rase.kernels.fixed import FIXED_ONE, WORD, decay_powers

__all__ = [
    "HYBRID_FROM",
    "Parts",
    "bit_alone",
    "mixed_up",
    "near_and_far",
    "one_of_many",
    "square_wave",
    "square_wave_half",
    "window_alone",
    "window_half",
]

# Wang et al. Eq. (9): up to this budget their hybrid is Duchi's bit alone.
HYBRID_FROM = math.log(
    (
        -5
        + 2 * (6353 - 405 * math.sqrt(241)) ** (1 / 3)
        + 2 * (6353 + 405 * math.sqrt(241)) ** (1 / 3)
    )
    / 27
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """How 2^64 words are shared between the places of a window and those of a bit.

    Places count from the lower end of the grid; ``half`` of the window's lie before it and as many
    behind, and the bit's two stand ``margin`` beyond the ends.

    Args:
        steps: How many steps the grid has.
        half: The window has ``2 half + 1`` places; ``steps`` others are far.
        near: What each place of the window weighs; 0 if there is no window.
        far: What each other place weighs.
        flip: What the bit's upper place weighs at index 0; 0 if there is no bit.
        slope: By how much it weighs more at each further index.
        margin: How far beyond the ends the bit's places stand.

    Raises:
        ValueError: If the weights do not add up to 2^64.
    """

    steps: int
    half: int = 0
    near: int = 0
    far: int = 0
    flip: int = 0
    slope: int = 0
    margin: int = 0

    def __post_init__(self) -> None:
        """Check the total."""
        if self.window_total + self.bit_total != WORD:
            raise ValueError("weights must add up to 2^64; these do not.")

    @property
    def width(self) -> int:
        """The number of places in the window."""
        return 2 * self.half + 1

    @property
    def window_total(self) -> int:
        """The total weight of the window and the places far from it."""
        return self.near * self.width + self.far * self.steps

    @property
    def bit_total(self) -> int:
        """The total weight of the bit."""
        return 2 * self.flip + self.slope * self.steps

    @property
    def numbers(self) -> tuple[int, int, int, int, int, int, int, int]:
        """The numbers for the compiled kernel; without a window they describe one of weight 1."""
        near, far = (self.near, self.far) if self.near else (1, 1)
        # All words belong to the window where there is no bit, which a slope of 0 says.
        first = self.window_total % WORD
        return first, near, far, self.width, self.flip, self.slope, self.half, self.margin

    def place(self, index: int, share: int, word: int) -> int:
        """Draw the place of a report.

        Args:
            index: The grid point at or below the reading.
            share: How far the reading lies towards the next one, of 2^64.
            word: A random word.

        Validation: word for word what the compiled kernel and NumPy draw
        (tests/laws/test_twins.py).
        """
        if word >= self.window_total:
            high = self.flip + self.slope * index + (share * self.slope >> 64)
            is_high = word - self.window_total < high
            return self.steps + self.margin if is_high else -self.margin
        inside = self.near * self.width
        if word < inside:
            place, rest = divmod(word, self.near)
            # Of two neighbours' windows only the first place and the one behind the last differ.
            if place == 0 and rest < share * (self.near - self.far) >> 64:
                place = self.width
            return index + place - self.half
        place = (word - inside) // self.far
        return (place if place < index else place + self.width) - self.half

    def weights(self, index: int) -> dict[int, int]:
        """Return the weight of each place at a grid point."""
        found = {}
        if self.near:
            for place in range(self.steps + self.width):
                is_near = index <= place < index + self.width
                found[place - self.half] = self.near if is_near else self.far
        if self.slope:
            high = self.flip + self.slope * index
            found[-self.margin] = self.bit_total - high
            found[self.steps + self.margin] = high
        return found

    @property
    def ratio(self) -> tuple[int, int]:
        """The larger of the two parts' ratios; they share no place."""
        bit = self.bit_total - self.flip, self.flip
        if not self.near:
            return bit
        window = self.near, self.far
        return window if window[0] * bit[1] >= bit[0] * window[1] else bit


def bit_alone(epsilon: float, steps: int) -> Parts:
    """Return the weights of a bit alone.

    Example:
        >>> from rase.kernels.fixed import log_ratio
        >>> parts = bit_alone(1.0, 4096)
        >>> log_ratio(*parts.ratio) <= 1.0, sum(parts.weights(17).values()) == WORD
        (True, True)
    """
    flip, slope = _bit(epsilon, steps, WORD)
    return Parts(steps=steps, flip=flip, slope=slope)


def window_alone(epsilon: float, steps: int) -> Parts:
    """Return the weights of a window alone."""
    half = window_half(epsilon, steps)
    near, far = _window(epsilon, steps, half, WORD)
    return Parts(steps=steps, half=half, near=near, far=far)


def square_wave(epsilon: float, steps: int) -> Parts:
    """Return the weights of a window that reveals most about the index, and has all words."""
    half = square_wave_half(epsilon, steps)
    near, far = _window(epsilon, steps, half, WORD)
    return Parts(steps=steps, half=half, near=near, far=far)


def one_of_many(epsilon: float, steps: int) -> Parts:
    """Return the weights of k-ary randomized response: a window of one place, with all words.

    Example:
        >>> from rase.kernels.fixed import log_ratio
        >>> parts = one_of_many(1.0, 3)
        >>> log_ratio(*parts.ratio) <= 1.0, sum(parts.weights(2).values()) == WORD
        (True, True)
    """
    near, far = _window(epsilon, steps, 0, WORD)
    return Parts(steps=steps, half=0, near=near, far=far)


def mixed_up(epsilon: float, steps: int) -> Parts:
    """Return the weights of a window that has a share of 1 - exp(-epsilon / 2), and a bit.

    Wang et al. Eq. (8), for budgets above `HYBRID_FROM`.
    """
    # Even, as the bit's total must be: its two places share it symmetrically.
    words = 2 * int(-math.expm1(-epsilon / 2) * 2.0**63)
    half = window_half(epsilon, steps)
    near, far = _window(epsilon, steps, half, words)
    flip, slope = _bit(epsilon, steps, WORD - words)
    return Parts(
        steps=steps, half=half, near=near, far=far, flip=flip, slope=slope, margin=half + 1
    )


def window_half(epsilon: float, steps: int) -> int:
    """Return half of the best window by Wang et al., a share exp(-epsilon / 2) of the grid.

    The nearest to it whose number of places has no divisor in common with the steps, because only
    then there are whole weights for every total; on a grid of 2^k steps that is any.

    Example:
        >>> window_half(1.0, 4096), window_half(1.0, 4095)
        (1242, 1244)
    """
    return _half_near(steps * math.exp(-epsilon / 2) / 2, steps)


def square_wave_half(epsilon: float, steps: int) -> int:
    """Return half of the window that makes a report most informative about its reading.

    A share b = (e E - E + 1) / (2 E (E - 1 - e)) of the grid, where e is the budget and E its
    exponential (Li et al. 2020, Eq. 5); 1/2 for the smallest budgets.

    Example:
        >>> square_wave_half(1.0, 4096), square_wave_half(4.0, 4096)
        (1049, 125)
    """
    excess = math.expm1(epsilon)
    share = (epsilon * (excess + 1) - excess) / (2 * (excess + 1) * (excess - epsilon))
    return _half_near(steps * share, steps)


def _half_near(exact: float, steps: int) -> int:
    wished = max(round(exact), 0)
    # A window of one place always fits, so the search ends.
    return next(
        half
        for away in count()
        for half in (wished - away, wished + away)
        if half >= 0 and math.gcd(2 * half + 1, steps) == 1
    )


def near_and_far(epsilon: float, width: int, others: int, total: int = WORD) -> tuple[int, int]:
    """Return (near, far) with near width + far others = total and near <= far e^epsilon.

    Args:
        epsilon: The budget.
        width: How many places are near; no divisor in common with ``others``.
        others: How many are far.
        total: What all weigh together.

    Example:
        >>> near, far = near_and_far(1.0, 5, 16)
        >>> 5 * near + 16 * far == 2**64, round(near / far, 12)
        (True, 2.718281828459)
    """
    # Rounded up, as far is, so that near is at most e^epsilon times as much.
    decay = decay_powers(epsilon, 2)[1] + 1
    far = -(-total * decay // (width * FIXED_ONE + others * decay))
    # The next number for which the rest of the total can be shared out among the near places.
    far += (total * pow(others, -1, width) - far) % width
    return (total - far * others) // width, far


def _window(epsilon: float, steps: int, half: int, total: int) -> tuple[int, int]:
    """Return the weights of a window of 2 half + 1 places, and of the ``steps`` others."""
    return near_and_far(epsilon, 2 * half + 1, steps, total)


def _bit(epsilon: float, steps: int, total: int) -> tuple[int, int]:
    """Return (flip, slope) with 2 flip + slope steps = total and total - flip <= flip e^epsilon."""
    decay = decay_powers(epsilon, 2)[1] + 1
    flip = -(-total * decay // (FIXED_ONE + decay))
    flip += (total // 2 - flip) % steps
    return flip, (total - 2 * flip) // steps
