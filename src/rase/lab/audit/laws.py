"""Claims that an order follows its law: a number of each order, held to its exact distribution.

Two inputs that must not be told apart show faults that are large against rare events. An order
that is drawn a little wrong (a theta that is 1 % too large, one round of a thousand that is not
shuffled) shows in a number whose whole distribution is known: how many pairs a round of 64 reports
has out of order, or how many reports stay where they were. Of a round that is left as it came the
second is 64, which has probability 1 / 64!.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rase.campaign import ShufflePlan
from rase.kernels.words import Random, SecureRandom
from rase.lab.audit.subject import Cells, LawSubject
from rase.shuffle.release import RoundShuffler, Shuffler
from rase.shuffler.order import draw_order

__all__ = [
    "fixed_point_law",
    "inversion_law",
    "kept_subject",
    "live_kept_subject",
    "mallows_law_subject",
]

Floats = NDArray[np.float64]

_SINGLE_SHARE = 1 / 250
_WIDE_SHARE = 1 / 25


def fixed_point_law(n: int) -> Floats:
    """Return how likely 0, 1, ..., n reports stay in their place in a uniform order.

    Montmort's numbers: k stay with probability D(n - k) / (k! (n - k)!), D counting derangements.

    Example:
        >>> fixed_point_law(3).round(4).tolist()
        [0.3333, 0.5, 0.0, 0.1667]
    """
    # D(m) / m! is the sum of (-1)^j / j! up to m.
    shares = np.cumsum([(-1) ** j / math.factorial(j) for j in range(n + 1)])
    return np.array([max(shares[n - k], 0.0) / math.factorial(k) for k in range(n + 1)])


def inversion_law(n: int, theta: float) -> Floats:
    """Return how likely 0, 1, 2, ... pairs are out of order in a Mallows order of n items.

    Their number is a sum of independent ones: of item j with j items before it, 0 to j, with
    weights e^(-theta v) (Fligner and Verducci, J. R. Stat. Soc. B 1986).

    Example:
        >>> inversion_law(3, 0.0).round(4).tolist()
        [0.1667, 0.3333, 0.3333, 0.1667]
    """
    law = np.ones(1)
    for j in range(1, n):
        weights = np.exp(-theta * np.arange(j + 1))
        law = np.convolve(law, weights / weights.sum())
    return law


def kept_subject(name: str, shuffler: Shuffler, n: int, *, single: bool = False) -> LawSubject:
    """Claim that as many reports stay in their place as in a uniform order, and no more.

    Args:
        name: What to call it.
        shuffler: What draws the order.
        n: How many reports a round has.
        single: Whether to draw one round at a time, where the shuffler knows many at once.
    """
    is_quick = isinstance(shuffler, RoundShuffler) and not single
    return LawSubject(
        name,
        f"{n} reports, how many stay in their place",
        fixed_point_law(n),
        lambda count, rng: _fixed(_orders(shuffler, n, count, rng, is_quick=is_quick)),
        share=_WIDE_SHARE if is_quick else _SINGLE_SHARE,
    )


def live_kept_subject(name: str, plan: ShufflePlan, n: int) -> LawSubject:
    """Claim the same of the order that the shuffler's program draws; it takes secure words alone.

    Args:
        name: What to call it.
        plan: The campaign's.
        n: How many reports a round has.
    """

    def draw(count: int, rng: Random) -> Cells:
        source = rng if isinstance(rng, SecureRandom) else SecureRandom()
        orders = [draw_order(["a"] * n, plan, rng=source)[0] for _ in range(count)]
        return _fixed(np.array(orders, dtype=np.int64))

    inputs = f"{n} reports, how many stay in their place"
    return LawSubject(name, inputs, fixed_point_law(n), draw, share=_SINGLE_SHARE)


def mallows_law_subject(
    name: str,
    draw_orders: Callable[[int, Random], Cells],
    n: int,
    *,
    theta: float,
    single: bool = False,
) -> LawSubject:
    """Claim that orders are drawn with a theta, no larger and no smaller.

    Args:
        name: What to call it.
        draw_orders: Draws so many orders of n items from a source, one a row.
        n: How many reports a round has.
        theta: The dispersion that is claimed.
        single: Whether orders are drawn one at a time, which is slow.
    """
    return LawSubject(
        name,
        f"{n} reports, how many pairs are out of order",
        inversion_law(n, theta),
        lambda count, rng: _inversions(draw_orders(count, rng)),
        share=_SINGLE_SHARE if single else _WIDE_SHARE,
    )


def _orders(shuffler: Shuffler, n: int, count: int, rng: Random, *, is_quick: bool) -> Cells:
    arrival = np.arange(n, dtype=np.float64)
    if is_quick and isinstance(shuffler, RoundShuffler):
        released = shuffler.shuffle_rounds(np.tile(arrival, (count, 1)), rng=rng).values
    else:
        released = np.array([shuffler.shuffle(arrival, rng=rng).values for _ in range(count)])
    return np.asarray(released).astype(np.int64)


def _fixed(orders: Cells) -> Cells:
    found: Cells = (orders == np.arange(orders.shape[1])).sum(axis=1)
    return found


def _inversions(orders: Cells) -> Cells:
    found = np.zeros(len(orders), dtype=np.int64)
    for place in range(orders.shape[1] - 1):
        found += (orders[:, place : place + 1] > orders[:, place + 1 :]).sum(axis=1)
    return found
