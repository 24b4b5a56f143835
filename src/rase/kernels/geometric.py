"""Integer tables of geometric laws, computed with exact arithmetic.

A table holds partial sums of integer weights that add up to 2^64, so that one word draws one value
and the drawn law is known to the last bit. Powers of e^-rate come from `decimal`, whose
exponential is correctly rounded, hence the tables are the same on every machine.
"""

import math
from decimal import Decimal, localcontext
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rase.kernels.integers import draw_from
from rase.kernels.words import Random, Words

__all__ = ["FIXED_ONE", "as_words", "decay_powers", "geometric"]

_FIXED_BITS = 192
FIXED_ONE = 1 << _FIXED_BITS
_WORD = 1 << 64
_DIGIT = 4096
# Beyond this many nats a digit is zero except with probability below 2^-64.
_NEGLIGIBLE = 64 * math.log(2)


def decay_powers(rate: float, count: int) -> list[int]:
    """Return ``exp(-rate * k) * FIXED_ONE`` for k = 0 .. count - 1, each within ``count`` units."""
    with localcontext() as context:
        context.prec = 80
        ratio = int((-Decimal(rate)).exp() * FIXED_ONE)
    powers = [FIXED_ONE]
    for _ in range(count - 1):
        powers.append(powers[-1] * ratio >> _FIXED_BITS)
    return powers


def as_words(partial_sums: list[int]) -> Words:
    """Turn fixed-point partial sums of probabilities into words of a table for `draw_from`."""
    return np.array(
        [min(total * _WORD // FIXED_ONE, _WORD - 1) for total in partial_sums], dtype=np.uint64
    )


def geometric(rate: float, count: int, source: Random) -> NDArray[np.uint64]:
    """Draw ``count`` values G with ``Pr[G = g]`` proportional to ``exp(-rate * g)``, g = 0, 1, 2...

    The digits of a geometric number in any base are independent truncated geometric numbers, so a
    value is drawn digit by digit from small tables, however small the rate.

    Args:
        rate: Positive; at least 1e-16.
        count: How many values.
        source: Where the words come from.

    Validation: the law to the last table entry, and chi-square, in tests/kernels.
    """
    values = np.zeros(count, dtype=np.uint64)
    weight, digit_rate = 1, rate
    while digit_rate < _NEGLIGIBLE:
        digits = draw_from(_digit_table(digit_rate), source.words(count)).astype(np.uint64)
        values += digits * np.uint64(weight)
        weight *= _DIGIT
        digit_rate *= _DIGIT
    return values


@lru_cache(maxsize=64)
def _digit_table(rate: float) -> Words:
    powers = decay_powers(rate, min(_DIGIT, math.ceil(_NEGLIGIBLE / rate) + 1) + 1)
    # Truncated to the digits the table has; what is cut off weighs less than 2^-64.
    whole = FIXED_ONE - powers[-1]
    sums = [(FIXED_ONE - power) * FIXED_ONE // whole for power in powers[1:-1]]
    return as_words(sums)
