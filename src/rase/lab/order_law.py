"""The law of who is in which slot in a scheme: drawn in batches, and its marginals.

Every law used here has one shape. An order π of arrival places comes from a law around the
identity, and slot i receives the report that arrived at place ``left[π[right[i]]]``; left and right
are the identity except where Algorithm 2 is read otherwise (docs/explain/paper.md, row 7).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rase.kernels.integers import integers_below
from rase.kernels.permute import Order, order_from_swaps, uniform_orders
from rase.kernels.words import Random
from rase.shuffle.mallows import Mallows
from rase.shuffle.paper import Line9
from rase.shuffle.permutation import order_of, rank_of

__all__ = ["OrderLaw"]


@dataclass(frozen=True, slots=True)
class OrderLaw:
    """The law that assigns the reports of a round to slots; public except for the draw.

    Args:
        method: "kept" leaves the order of arrival, the others are those of `rase.shuffle`.
        theta: The spread parameter of a Mallows law, None otherwise.
        line9: The reading of Alg. 2 l. 9 and 17 in paper mode, None elsewhere.

    Example:
        >>> OrderLaw("uniform").place_marginals(np.arange(4))[0].tolist()
        [0.25, 0.25, 0.25, 0.25]
    """

    method: Literal["kept", "uniform", "cyclic", "mallows"]
    theta: float | None = None
    line9: Line9 | None = None

    def __post_init__(self) -> None:
        """Check that theta and the method fit."""
        if (self.theta is None) == (self.method == "mallows"):
            raise ValueError(f"theta must be given for mallows alone, got {self.theta}.")

    def draw(self, count: int, arrival: Order, source: Random) -> Order:
        """Draw ``count`` orders for rounds that share one arrival: the place behind each slot.

        Validation: the laws are those of `rase.shuffle`; tests/lab/test_order_law.py holds the
        draws to `place_marginals`.
        """
        left, right = self._around(arrival)
        return left[self._draw_orders(count, arrival.size, source)[:, right]]

    def place_marginals(self, arrival: Order) -> NDArray[np.float64]:
        """Return Pr[slot i holds the report of arrival place p] as entry [i, p]; O(n^3)."""
        left, right = self._around(arrival)
        by_slot = np.empty((arrival.size, arrival.size))
        by_slot[:, left] = self._marginals(arrival.size).T[right]
        return by_slot

    def _draw_orders(self, count: int, n: int, source: Random) -> Order:
        if self.method == "kept":
            return np.broadcast_to(np.arange(n), (count, n))
        if self.method == "uniform":
            return uniform_orders(count, n, source)
        if self.theta is not None:
            return Mallows(n, self.theta).samples(count, rng=source)
        return _cyclic_orders(count, n, source)

    def _marginals(self, n: int) -> NDArray[np.float64]:
        """Return Pr[π(s) = p] as entry [p, s]."""
        if self.method == "kept":
            return np.eye(n)
        if self.theta is not None:
            return Mallows(n, self.theta).marginals()
        if self.method == "uniform" or n == 1:
            return np.full((n, n), 1 / n)
        # Sattolo's loop moves every item and sends it anywhere else with equal probability.
        return (1 - np.eye(n)) / (n - 1)

    def _around(self, arrival: Order) -> tuple[Order, Order]:
        same = np.arange(arrival.size)
        if self.line9 is None:
            return same, same
        # As `PaperPlan.draw`: σ* is π, or σ_y⁻¹πσ_y; the fallback shuffles σ_y itself.
        rank = rank_of(_number_reporters(arrival))
        if self.method == "cyclic":
            return (rank[rank] if self.line9.is_by_user else rank), same
        if self.line9.is_left_first:
            return (rank if self.line9.is_by_user else same), same
        return (same if self.line9.is_by_user else order_of(rank)), rank


def _number_reporters(arrival: Order) -> Order:
    """Number those who reported by their own sequence, if not everybody did."""
    numbered = np.empty_like(arrival)
    numbered[np.argsort(arrival)] = np.arange(arrival.size)
    return numbered


def _cyclic_orders(count: int, n: int, source: Random) -> Order:
    """Run the paper's loop (Alg. 2 l. 12-15) for many rounds together."""
    later = np.arange(n - 1, 0, -1)
    jumps = integers_below(np.broadcast_to(later, (count, later.size)).copy(), source)
    partners = np.concatenate([np.arange(1, n) + jumps, np.full((count, min(n, 1)), n - 1)], axis=1)
    if count < n:
        return np.stack([order_from_swaps(row) for row in partners])
    orders = np.broadcast_to(np.arange(n), (count, n)).copy()
    rows = np.arange(count)
    for place in range(n):
        partner = partners[:, place]
        kept = orders[:, place].copy()
        orders[:, place] = orders[rows, partner]
        orders[rows, partner] = kept
    return orders
