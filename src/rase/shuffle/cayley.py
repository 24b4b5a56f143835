"""The Mallows law with the Cayley distance: a weighted Fisher-Yates shuffle in O(n).

The Cayley distance is the least number of interchanges between two orders. A group of g members has
sensitivity g - 1 wherever they stand, so groups need not lie close together.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from rase.kernels.integers import chosen_with, integers_below
from rase.kernels.permute import Order, order_from_swaps
from rase.kernels.words import Random, source_of
from rase.shuffle.checks import number_at_least, whole_number
from rase.shuffle.partition import Partition
from rase.shuffle.permutation import compose, cycle_count, inverse

__all__ = ["CayleyMallows", "cayley_distance", "cayley_sensitivity"]


@dataclass(frozen=True, slots=True)
class CayleyMallows:
    """Hold the law Pr[π] = exp(-theta d(π, id)) / Z with the Cayley distance d.

    Z = Π (1 + j q) over j = 1 .. n - 1, q = e^-theta.

    Args:
        n: How many items.
        theta: Spread parameter: 0 is uniform, infinity never moves anything.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If ``n`` is below 1, or ``theta`` negative or NaN.

    Example:
        >>> round(math.exp(CayleyMallows(3, theta=0.0).log_probability([1, 2, 0])), 6)
        0.166667
    """

    n: int
    theta: float

    def __post_init__(self) -> None:
        """Check both numbers once."""
        object.__setattr__(self, "n", whole_number("n", self.n, least=1))
        object.__setattr__(self, "theta", number_at_least("theta", self.theta, least=0.0))

    @property
    def log_normaliser(self) -> float:
        """The log of Z; the centre's own probability is exp(-log_normaliser)."""
        return float(np.log1p(np.arange(1, self.n) * math.exp(-self.theta)).sum())

    def log_probability(self, order: ArrayLike) -> float:
        """Return the log of the probability of one order.

        Raises:
            ValueError: If it is not an order of n items.
        """
        distance = cayley_distance(order, np.arange(self.n))
        return (-self.theta * distance if distance else 0.0) - self.log_normaliser

    def sample(self, *, rng: Random | None = None) -> Order:
        """Draw one order: the items by slot.

        Place i stays with weight 1 and is interchanged with each later place with weight q; every
        interchange made adds 1 to the distance. Probabilities are rounded to doubles.

        Validation: chi-square over all orders of 5 items, tests/shuffle/test_laws.py.
        """
        source = source_of(rng)
        places = np.arange(self.n)
        later = self.n - 1 - places
        # 1 / (1 + 1 / (later q)), written so that a huge theta gives 0.
        weight = later * math.exp(-self.theta)
        moves = chosen_with(weight / (1 + weight), source)
        partners = places.copy()
        partners[moves] += 1 + integers_below(later[moves], source)
        return order_from_swaps(partners)


def cayley_distance(a: ArrayLike, b: ArrayLike) -> int:
    """Return the least number of interchanges that turn one order into the other.

    Raises:
        ValueError: If one is not a permutation, or their lengths differ.

    Example:
        >>> cayley_distance([0, 1, 2, 3], [3, 1, 2, 0])
        1
    """
    between = compose(inverse(b), a)
    return between.size - cycle_count(between)


def cayley_sensitivity(partition: Partition, *, changing: Literal["one", "all"] = "one") -> int:
    """Return the largest Cayley distance between neighbouring arrival orders.

    One group of g members can be turned into a single cycle, g - 1 interchanges away; cycles of
    several groups do not touch each other, so for "all" the sum is exact.

    Args:
        partition: The groups.
        changing: Whether neighbours differ in "one" group or in "all".

    Raises:
        ValueError: If ``changing`` is unknown.
    """
    if changing not in ("one", "all"):
        raise ValueError(f'changing must be "one" or "all", got {changing!r}.')
    if changing == "all":
        return partition.n - partition.group_count
    return int(np.bincount(partition.labels).max(initial=1)) - 1
