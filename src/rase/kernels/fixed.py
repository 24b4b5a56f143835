"""Powers and tables of geometric laws as whole numbers, in pure Python for devices.

Powers of e^-rate come from `decimal`, whose exponential is correctly rounded; everything after that
is integer arithmetic. Hence the tables are the same on every machine, with and without NumPy.
"""

import math
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from decimal import ROUND_CEILING, Decimal, localcontext
from functools import reduce
from itertools import repeat
from operator import rshift, sub
from typing import NamedTuple

__all__ = [
    "FIXED_ONE",
    "NEGLIGIBLE",
    "WORD",
    "ClampedTable",
    "WorstPair",
    "clamped_table",
    "decay_powers",
    "digit_sums",
    "drawn_from",
    "geometric_digits",
    "geometric_reach",
    "log_ratio",
    "word_sums",
]

_FIXED_BITS = 192
FIXED_ONE = 1 << _FIXED_BITS
WORD = 1 << 64
_DIGIT = 4096
# Beyond this many nats a digit is zero except with probability below 2^-64.
NEGLIGIBLE = 64 * math.log(2)


def decay_powers(rate: float, count: int) -> list[int]:
    """Return ``exp(-rate * k) * FIXED_ONE`` for k = 0 .. count - 1, each within ``count`` units."""
    with localcontext() as context:
        context.prec = 80
        ratio = int((-Decimal(rate)).exp() * FIXED_ONE)
    power = FIXED_ONE
    return [FIXED_ONE, *[power := power * ratio >> _FIXED_BITS for _ in range(count - 1)]]


def word_sums(partial_sums: Iterable[int]) -> "array[int]":
    """Turn fixed-point partial sums of probabilities into words of a table."""
    words = map(rshift, partial_sums, repeat(_FIXED_BITS - 64))
    return array("Q", map(min, words, repeat(WORD - 1)))


def drawn_from(sums: "array[int]", word: int) -> int:
    """Return the index of the weight that a word falls into."""
    return bisect_right(sums, word)


def geometric_digits(rate: float) -> list[tuple[int, float]]:
    """Return (weight, rate) of the digits of a geometric number, the lowest first.

    The digits of a geometric number in any base are independent truncated geometric numbers; those
    that are zero except with probability below 2^-64 are left out.

    Example:
        >>> geometric_digits(0.5)
        [(1, 0.5)]
        >>> [weight for weight, _ in geometric_digits(1e-6)]
        [1, 4096, 16777216]
    """
    digits: list[tuple[int, float]] = []
    weight = 1
    while rate < NEGLIGIBLE:
        digits.append((weight, rate))
        weight *= _DIGIT
        rate *= _DIGIT
    return digits


def geometric_reach(rate: float) -> int:
    """Return the largest geometric number that is accepted; one in 2^60 is larger.

    Example:
        >>> geometric_reach(0.5)
        89
    """
    return sum(weight * (_digit_count(digit) - 1) for weight, digit in geometric_digits(rate))


def digit_sums(rate: float) -> "array[int]":
    """Return the table of one digit of a geometric number."""
    powers = decay_powers(rate, _digit_count(rate) + 1)
    # Truncated to the digits the table has; what is cut off weighs less than 2^-64.
    whole = FIXED_ONE - powers[-1]
    return word_sums([((FIXED_ONE - power) << _FIXED_BITS) // whole for power in powers[1:-1]])


def _digit_count(rate: float) -> int:
    """Return how many values a digit has in its table."""
    return min(_DIGIT, math.ceil(NEGLIGIBLE / rate) + 1)


class ClampedTable(NamedTuple):
    """The table of two-sided geometric noise -steps .. steps, and what it stands for."""

    sums: "array[int]"
    """Partial sums Pr[d <= k], k = -steps .. steps - 1."""
    effective_epsilon: float
    """The largest log-ratio of two inputs' weights for one report, rounded up."""
    drawn_epsilon: float
    """The budget the weights were made for: the one asked for, or a hair less."""
    worst: "WorstPair"
    """The two inputs and the report from which the effective epsilon was computed."""


class WorstPair(NamedTuple):
    """Two inputs, the report that tells them apart best, and its weights for the two."""

    inputs: tuple[int, int]
    report: int
    numerator: int
    denominator: int

    @property
    def log_ratio(self) -> float:
        """The logarithm of the ratio of the weights, rounded up."""
        return log_ratio(self.numerator, self.denominator)


def clamped_table(epsilon: float, steps: int) -> ClampedTable:
    """Return the table of two-sided geometric noise for a budget.

    The table is that of ``epsilon``, or of a hair less if rounding its weights to words would
    otherwise make the largest ratio of two of them exceed e^epsilon.

    Guarantee: the effective epsilon is computed from the integers that are drawn with, rounded up,
    and at most ``epsilon``. Tested in tests/kernels/test_fixed.py and tests/laws/test_pure.py.

    Args:
        epsilon: The budget of a report.
        steps: How many steps the public grid has.
    """
    asked = epsilon
    sums = _noise_sums(asked, steps)
    worst = _worst_pair(sums, steps)
    while worst.log_ratio > epsilon:
        asked -= 1.5 * (worst.log_ratio - epsilon) + math.ulp(epsilon)
        sums = _noise_sums(asked, steps)
        worst = _worst_pair(sums, steps)
    return ClampedTable(sums, worst.log_ratio, asked, worst)


def log_ratio(numerator: int, denominator: int) -> float:
    """Return ln(numerator / denominator) as a float that is never below it."""
    with localcontext() as context:
        context.prec = 50
        context.rounding = ROUND_CEILING
        exact = (Decimal(numerator) / Decimal(denominator)).ln()
        nearest = float(exact)
        return nearest if Decimal(nearest) >= exact else math.nextafter(nearest, math.inf)


def _noise_sums(epsilon: float, steps: int) -> "array[int]":
    """Return the partial sums Pr[d <= k], k = -steps .. steps - 1."""
    powers = decay_powers(epsilon / steps, steps + 1)
    whole = FIXED_ONE + powers[1]
    # Pr[d >= k] = Pr[d <= -k], k = 1 .. steps
    tails = [(power << _FIXED_BITS) // whole for power in powers[1:]]
    sums = word_sums(reversed(tails))
    sums.extend(word_sums(map(FIXED_ONE.__sub__, tails)))
    return sums


def _worst_pair(sums: "array[int]", steps: int) -> WorstPair:
    """Return the largest ratio of two inputs' weights for the same report, from the integers."""
    worst = _worse(
        WorstPair((0, steps), 0, sums[steps], sums[0]),
        WorstPair((steps, 0), steps, WORD - sums[steps - 1], WORD - sums[-1]),
    )
    inside = list(map(sub, sums[1:], sums))
    # Reports inside are less revealing than the ends by a step of noise; only where a weight is so
    # small that rounding decides need all pairs be compared.
    if steps > 1 and max(inside) * worst.denominator > worst.numerator * min(inside):
        worst = reduce(_worse, _inside_pairs(inside, steps), worst)
    return worst


def _inside_pairs(inside: list[int], steps: int) -> Iterator[WorstPair]:
    """Yield for each report inside the range the two inputs that differ most in it."""
    most, least = (list(_extremes(inside, steps + 1, pick)) for pick in (max, min))
    for report, (high, low) in enumerate(zip(most, least, strict=True), start=1):
        # inside[0] is noise 1 - steps, and noise is the report less the input.
        inputs = report + steps - 1 - high, report + steps - 1 - low
        yield WorstPair(inputs, report, inside[high], inside[low])


def _extremes(values: list[int], width: int, pick: Callable[[int, int], int]) -> Iterator[int]:
    """Yield the place of the extreme value in each window of a width, in one pass."""
    waiting: deque[int] = deque()
    for place, value in enumerate(values):
        while waiting and pick(values[waiting[-1]], value) == value:
            waiting.pop()
        waiting.append(place)
        if place >= width - 1:
            if waiting[0] <= place - width:
                waiting.popleft()
            yield waiting[0]


def _worse(one: WorstPair, other: WorstPair) -> WorstPair:
    is_worse = other.numerator * one.denominator > one.numerator * other.denominator
    return other if is_worse else one
