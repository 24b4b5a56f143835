"""Block designs: public sets that contain each category, and each pair, equally often.

A difference set is a set of residues modulo v such that every residue but 0 is a difference of two
of them equally often. Its v translates are a symmetric design: each point lies in as many of them,
and each two points in as many. A report that names a set which holds the category
rather often, and any other seldom, gives every category the same error: Ye, Barg, "Optimal schemes
for discrete distribution estimation under locally differential privacy", IEEE Transactions on
Information Theory 2018, for all sets of a size; Park, Nam, Lee, "Exactly optimal and
communication-efficient private estimation via block designs", 2023, for designs.

Pure Python without NumPy, because the device agent draws from it.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from math import exp
from typing import Final

__all__ = ["Design", "design_for", "response_variance", "total_variance"]

# Hyperplanes of projective spaces (Singer 1938), and the fourth powers modulo 37 (Chowla 1944).
_LISTED: Final = {
    13: "0 4 10 12",
    21: "7 9 14 15 18",
    31: "6 8 9 14 26 30",
    37: "1 7 9 10 12 16 26 33 34",
    40: "5 13 15 20 22 25 26 31 34 35 37 38 39",
    57: "4 19 24 25 28 36 38 54",
    73: "5 7 10 14 20 28 39 40 56",
    85: "0 9 17 18 29 31 33 34 36 39 47 51 57 58 59 62 66 68 71 72 78",
    121: "7 17 19 21 22 29 32 38 40 46 50 51 53 57 58 61 62 63 65 66 67 68 74 77 80 83 87 88 94 96 "
    "100 101 103 110 112 114 115 118 119 120",
    133: "12 30 34 39 45 64 96 108 122 124 125 132",
    307: "3 18 42 44 45 51 100 111 121 129 134 151 165 215 253 278 290 306",
}
# Primes that are 3 modulo 4: the squares modulo one of them are a difference set (Paley 1933).
_PRIMES: Final = (7, 11, 19, 23, 31, 43, 47, 59, 67)
# Variances that differ by less, as a share, may come out in another order on another machine.
_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Design:
    """A symmetric design: v points in v sets.

    Args:
        v: How many points there are, and how many sets.
        near: The numbers of the sets in which point 0 lies; those of point x are x further on.
        away: The numbers of the other sets.
    """

    v: int
    near: tuple[int, ...]
    away: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        """List the sets that do not contain point 0."""
        near = set(self.near)
        away = tuple(place for place in range(self.v) if place not in near)
        object.__setattr__(self, "away", away)

    @property
    def width(self) -> int:
        """The number of sets that contain a point, and of points in a set."""
        return len(self.near)

    @property
    def both(self) -> int:
        """The number of sets that contain two given points."""
        return self.width * (self.width - 1) // (self.v - 1)


@lru_cache(maxsize=1)
def _designs() -> tuple[Design, ...]:
    listed = [Design(v, tuple(map(int, near.split()))) for v, near in _LISTED.items()]
    squares = [Design(p, tuple(sorted({i * i % p for i in range(1, p)}))) for p in _PRIMES]
    return (*listed, *squares)


@lru_cache(maxsize=256)
def design_for(categories: int, epsilon: float) -> Design:
    """Return the design whose shares have the smallest total variance.

    Args:
        categories: How many categories there are, at most 64.
        epsilon: The budget of a report.

    Example:
        >>> [(one.v, one.width) for one in (design_for(16, 1.0), design_for(64, 2.0))]
        [(21, 5), (73, 9)]
    """
    fitting = (one for one in _designs() if one.v >= categories)
    return min(
        fitting,
        key=lambda one: (float(f"{total_variance(one, categories, epsilon):.{_DIGITS}g}"), one.v),
    )


def total_variance(design: Design, categories: int, epsilon: float) -> float:
    """Return the sum of the variances of all shares by one report: the same for every reading.

    Args:
        design: The design.
        categories: How many of its points are categories.
        epsilon: The budget of the report.
    """
    ratio = exp(epsilon)
    whole = design.width * ratio + design.v - design.width
    often = design.width * ratio / whole
    seldom = (design.both * ratio + design.width - design.both) / whole
    return _sum_of_variances(often, seldom, categories)


def response_variance(categories: int, epsilon: float) -> float:
    """Return the sum of the variances for k-ary randomized response.

    Example:
        >>> response_variance(16, 1.0) > total_variance(design_for(16, 1.0), 16, 1.0)
        True
    """
    whole = exp(epsilon) + categories - 1
    return _sum_of_variances(exp(epsilon) / whole, 1 / whole, categories)


def _sum_of_variances(often: float, seldom: float, categories: int) -> float:
    others = (categories - 1) * seldom * (1 - seldom)
    return (often * (1 - often) + others) / (often - seldom) ** 2
