"""Geometric numbers, drawn exactly: the NumPy side of the integer tables in rase.kernels.fixed."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rase.kernels.fixed import digit_sums, geometric_digits
from rase.kernels.integers import draw_from
from rase.kernels.words import Random, Words

__all__ = ["geometric"]


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
    for weight, digit_rate in geometric_digits(rate):
        digits = draw_from(_digit_table(digit_rate), source.words(count)).astype(np.uint64)
        values += digits * np.uint64(weight)
    return values


@lru_cache(maxsize=64)
def _digit_table(rate: float) -> Words:
    return np.array(digit_sums(rate), dtype=np.uint64)
