"""Geometric numbers, drawn exactly from the integer tables of rase.kernels.fixed."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rase.kernels.fixed import digit_sums, geometric_digits
from rase.kernels.table import IntegerTable
from rase.kernels.words import Keystream, Random

__all__ = ["geometric"]


def geometric(rate: float, count: int, source: Random | Keystream) -> NDArray[np.uint64]:
    """Draw ``count`` values G with ``Pr[G = g]`` proportional to ``exp(-rate * g)``, g = 0, 1, 2...

    The digits of a geometric number in any base are independent truncated geometric numbers, so a
    value is drawn digit by digit from small tables, however small the rate.

    Args:
        rate: Positive; at least 1e-16.
        count: How many values.
        source: Where the words come from.

    Validation: chi-square in tests/kernels/test_geometric.py.
    """
    if not (digits := _digit_tables(rate)):
        return np.zeros(count, dtype=np.uint64)
    (_, lowest), *higher = digits
    values = lowest.indices(source.words(count)).view(np.uint64)
    for weight, table in higher:
        table.add_digits(source.words(count), weight=weight, values=values)
    return values


@lru_cache(maxsize=64)
def _digit_tables(rate: float) -> tuple[tuple[int, IntegerTable], ...]:
    return tuple((weight, _digit_table(digit)) for weight, digit in geometric_digits(rate))


@lru_cache(maxsize=64)
def _digit_table(rate: float) -> IntegerTable:
    return IntegerTable(digit_sums(rate))
