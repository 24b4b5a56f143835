"""The Mallows law over orders with the Kendall tau distance: Pr[π] = exp(-theta d(π, id)) / Z.

The centre is the identity; an order around another centre is ``compose(centre, order)``. Formulas
use q = e^-theta and [m] = 1 + q + ... + q^(m-1), and hold from theta = 0 to theta = infinity.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rase.kernels.digits import exact_geometric
from rase.kernels.permute import (
    Order,
    inversion_count,
    orders_from_free_codes,
    uniform_order,
    uniform_orders,
)
from rase.kernels.words import Keystream, Random, source_of
from rase.shuffle.checks import number_at_least, whole_number
from rase.shuffle.permutation import as_permutation

__all__ = ["Mallows"]

# exp(-theta d) differs from 1 by less than a double can show for every distance of n <= 1e5 items.
_NO_THETA = 1e-16
# Codes drawn at once for many orders: so many stay in the processor's cache until they are used.
_AT_ONCE = 1 << 15
# Below this j * theta the closed forms lose digits to cancellation and their series do not.
_SERIES_BELOW = 0.5
# B_2k / (2k)!: x / expm1(x) = 1 - x/2 + Σ B_2k x^2k / (2k)!, and so its derivative.
_MEAN_SERIES = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000)


@dataclass(frozen=True, slots=True)
class Mallows:
    """A Mallows law over the orders of n items around the identity (Eq. 4).

    Args:
        n: How many items.
        theta: Spread parameter: 0 is uniform, infinity never moves anything. Below 1e-16 it is
            treated as 0.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If ``n`` is below 1, or ``theta`` negative or NaN.

    Example:
        >>> law = Mallows(3, theta=0.0)
        >>> law.distance_pmf().tolist() == [1 / 6, 2 / 6, 2 / 6, 1 / 6]
        True
    """

    n: int
    theta: float

    def __post_init__(self) -> None:
        """Check both numbers once."""
        theta = number_at_least("theta", self.theta, least=0.0)
        object.__setattr__(self, "n", whole_number("n", self.n, least=1))
        object.__setattr__(self, "theta", theta if theta >= _NO_THETA else 0.0)

    @classmethod
    def fit(cls, orders: ArrayLike) -> "Mallows":
        """Return the law of maximum likelihood for orders around the identity.

        Theta solves E[d] = mean distance, by Newton's method kept inside a bracket. Orders as far
        from the identity as uniform ones, or farther, give theta 0. If all are the identity, the
        likelihood grows with theta without end, and theta is infinite.

        Args:
            orders: One order a row.

        Raises:
            ValueError: If there is no order, or a row is not one.
        """
        rows = np.asarray(orders)
        if rows.ndim != 2 or not rows.size:
            raise ValueError(f"orders must be a table of orders, got shape {rows.shape}.")
        count, n = rows.shape
        checked = np.stack([as_permutation(row, name="orders") for row in rows])
        # Set apart by n, the rows form one long order without inversions between rows.
        total = inversion_count((checked + n * np.arange(count)[:, np.newaxis]).reshape(-1))
        return cls(n, _theta_of_mean(n, total / count))

    def log_probability(self, order: ArrayLike) -> float:
        """Return the log of the probability of one order.

        Raises:
            ValueError: If the order is not one of n items.
        """
        checked = as_permutation(order, name="order")
        if checked.size != self.n:
            raise ValueError(f"order must hold {self.n} items, got {checked.size}.")
        distance = inversion_count(checked)
        return (-self.theta * distance if distance else 0.0) - self.log_normaliser

    @property
    def log_normaliser(self) -> float:
        """The log of Z; the centre's own probability is exp(-log_normaliser)."""
        return float(np.log(_brackets(self.n, self.theta)[1:]).sum())

    @property
    def mean_distance(self) -> float:
        """The expected distance from the centre."""
        return _distance_mean(self.n, self.theta)

    @property
    def distance_variance(self) -> float:
        """The variance of the distance from the centre."""
        return _distance_variance(self.n, self.theta)

    def distance_pmf(self) -> NDArray[np.float64]:
        """Return Pr[d = D] for D = 0 .. n (n - 1) / 2, by sums of positive terms alone.

        The distance is a sum of independent truncated geometric numbers (Mahonian numbers at
        theta 0). O(n^3 log n): about a second at n = 500.
        """
        decay = math.exp(-self.theta)
        brackets = _brackets(self.n, self.theta)
        pmf = np.zeros(self.n * (self.n - 1) // 2 + 1)
        pmf[0] = 1.0
        length = 1
        for terms in range(2, self.n + 1):
            length += terms - 1
            pmf[:length] = _decaying_sums(pmf[:length], terms, decay) / brackets[terms]
        return pmf

    def marginals(self) -> NDArray[np.float64]:
        """Return Pr[item i stands in slot j] as entry [i, j].

        With m items remaining, the r-th of them (from 1) takes the first slot with probability
        q^(r-1)/[m]; otherwise it remains as the (r-1)-th or the r-th of m - 1. Every term is
        positive, so no digit is lost. The law is the same read backwards, hence half the slots
        are enough: O(n^3 / 10).
        """
        n, theta = self.n, self.theta
        if math.isinf(theta):
            return np.eye(n)
        half = (n + 1) // 2
        brackets = _brackets(n, theta)
        powers = np.exp(-theta * np.arange(n + 1))
        # Row t begins as the first slot of m items; every further item moves it one slot back.
        rows = np.zeros((half, n))
        for t in range(half):
            m = n - half + 1 + t
            up = brackets[1:m] / brackets[m]
            same = powers[1:m] * brackets[m - 1 : 0 : -1] / brackets[m]
            past = rows[:t]
            moved = past[:, : m - 1] * up
            past[:, : m - 1] *= same
            past[:, 1:m] += moved
            rows[t, :m] = powers[:m] / brackets[m]
        slots = np.empty((n, n))
        slots[:half] = rows[::-1]
        slots[half:] = slots[: n - half][::-1, ::-1]
        return np.ascontiguousarray(slots.T)

    def sample(self, *, rng: Random | None = None) -> Order:
        """Draw one order: the items by slot, from the law itself.

        No order is left out: its probability is that of the law to the last digit, because further
        words decide where one falls on a boundary of a table or beyond its end.

        Validation: chi-square over all orders of 5 and 6 items, tests/shuffle/test_laws.py.
        """
        source = source_of(rng)
        if self.theta == 0:
            return uniform_order(self.n, source)
        # Drawn from the stream of one key, however many digits a number has.
        return self._draw(1, source.stream()).reshape(self.n)

    def samples(self, count: int, *, rng: Random | None = None) -> Order:
        """Draw ``count`` independent orders, one a row."""
        source = source_of(rng)
        if self.theta == 0:
            return uniform_orders(count, self.n, source)
        orders = np.empty((count, self.n), dtype=np.int64)
        at_once = max(_AT_ONCE // self.n, 1)
        stream = source.stream()
        for start in range(0, count, at_once):
            some = orders[start : start + at_once]
            some[:] = self._draw(len(some), stream)
        return orders

    def _draw(self, count: int, source: Random | Keystream) -> Order:
        if math.isinf(self.theta):
            return np.tile(np.arange(self.n), (count, 1))
        # A geometric number modulo m is the geometric number truncated to 0 .. m - 1.
        free = exact_geometric(self.theta, count * self.n, source).reshape(count, self.n)
        # Each code is read before its item is written: no second array.
        orders_from_free_codes(free.view(np.uint64), out=free)
        return free


def _brackets(n: int, theta: float) -> NDArray[np.float64]:
    """Return [0], [1] .. [n]."""
    counts = np.arange(n + 1, dtype=np.float64)
    if theta == 0:
        return counts
    if math.isinf(theta):
        return np.minimum(counts, 1.0)
    return np.expm1(-theta * counts) / math.expm1(-theta)


def _decaying_sums(values: NDArray[np.float64], terms: int, decay: float) -> NDArray[np.float64]:
    """Return Σ decay^v values[D - v] over v = 0 .. terms - 1, by doubling the terms of a sum."""
    total = np.zeros_like(values)
    block, block_terms, done = values, 1, 0
    while True:
        if terms & block_terms:
            total[done:] += decay**done * block[: block.size - done]
            done += block_terms
        if done == terms:
            return total
        block = block.copy()
        block[block_terms:] += decay**block_terms * block[:-block_terms].copy()
        block_terms *= 2


def _distance_mean(n: int, theta: float) -> float:
    if math.isinf(theta):
        return 0.0
    j = np.arange(2, n + 1, dtype=np.float64)
    is_small = j * theta < _SERIES_BELOW
    near, far = j[is_small], j[~is_small] * theta
    total = float((near - 1).sum()) / 2
    for order, coefficient in enumerate(_MEAN_SERIES, start=1):
        total -= coefficient * float(
            (near * (near * theta) ** (2 * order - 1) - theta ** (2 * order - 1)).sum()
        )
    if far.size:
        # j / expm1(j theta), written with a decaying exponential that cannot overflow.
        shares = far * np.exp(-far) / -np.expm1(-far) / theta
        total += far.size * math.exp(-theta) / -math.expm1(-theta) - float(shares.sum())
    return total


def _distance_variance(n: int, theta: float) -> float:
    if math.isinf(theta):
        return 0.0
    j = np.arange(2, n + 1, dtype=np.float64)
    is_small = j * theta < _SERIES_BELOW
    near, far = j[is_small], j[~is_small] * theta
    total = 0.0
    for order, coefficient in enumerate(_MEAN_SERIES, start=1):
        power = 2 * order - 2
        grown = near**2 * (near * theta) ** power - theta**power
        total += (2 * order - 1) * coefficient * float(grown.sum())
    if far.size:
        shares = (far / theta / np.expm1(-far)) ** 2 * np.exp(-far)
        total += far.size * math.exp(-theta) / math.expm1(-theta) ** 2 - float(shares.sum())
    return total


def _theta_of_mean(n: int, mean: float) -> float:
    if mean >= n * (n - 1) / 4:
        return 0.0
    if mean == 0:
        return math.inf
    # E[d] < (n - 1) / expm1(theta) bounds theta from above.
    low, high = 0.0, math.log1p((n - 1) / mean)
    theta = high / 2
    while True:
        excess = _distance_mean(n, theta) - mean
        low, high = (theta, high) if excess > 0 else (low, theta)
        step = theta + excess / _distance_variance(n, theta)
        following = step if low < step < high else (low + high) / 2
        if abs(following - theta) <= 1e-14 * theta:
            return following
        theta = following
