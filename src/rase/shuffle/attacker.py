"""What an observer of order alone achieves against a Mallows shuffle, for any number of reports.

Knowing n and theta, but no value, the best guess for a released slot is the arrival place with the
largest marginal probability. Alpha says little; this is what it means.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rase.shuffle.checks import number_at_least, whole_number

__all__ = ["OrderAttack", "exposed_success", "order_attack", "uniform_attack"]

# Up to this n the marginals are exact; they take about 30 ms.
_EXACT_UP_TO = 512
# Where theta n is above this, the law's ends and its middle show all but 1e-13 of it.
_FAR_APART = 64.0
# From this theta on the ends of an order no longer feel each other at that n.
_LOCAL_FROM = 0.05


@dataclass(frozen=True, slots=True)
class OrderAttack:
    """The success of the best observer who sees only the order.

    Args:
        n: How many reports were shuffled.
        theta: The spread parameter of the law.
        mean_success: Share of slots the observer assigns rightly, on average over the slots.
        exposed_slot: The slot assigned most surely, counted from 0; the last is as exposed.
        exposed_success: The probability with which that slot is assigned rightly.
        stay_share: Share of reports expected to keep their place.
    """

    n: int
    theta: float
    mean_success: float
    exposed_slot: int
    exposed_success: float
    stay_share: float


def order_attack(n: int, theta: float) -> OrderAttack:
    """Return what the best observer of order alone achieves.

    Exact (to 1e-12) up to n = 512. Beyond, the most exposed slots (the first and the last) stay
    exact; the two means come from the limit of large n where theta is below 0.05, and from the
    exact law's ends and middle above. Both were held to the exact law up to n = 1500 and differ by
    less than 0.1 %. In the limit the mean success is 1/n + theta/4. The ends are worse off: where
    the mean is twice chance, at theta = 4/n, they are named with four times chance.

    No slot is named more surely than 1/[n] = (1 - q) / (1 - q^n), q = e^-theta. Taking item i and
    slot j out of an order leaves one of n - 1 items with no more inversions, so Pr[i in j] is at
    most Z(n - 1) / Z(n) = 1/[n]. The first item in the first slot, and the last in the last, have
    no inversion of their own and reach it.

    Args:
        n: How many reports.
        theta: Spread parameter; infinity is allowed.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If ``n`` is below 1, or ``theta`` negative or NaN.

    Example:
        >>> round(order_attack(64, 5.0).stay_share, 3)
        0.987
    """
    n = whole_number("n", n, least=1)
    return _cached_attack(n, number_at_least("theta", theta, least=0.0))


def exposed_success(n: int, theta: float) -> float:
    """Return how surely the most exposed slot is named: 1/[n], for any n in no time.

    Args:
        n: How many reports, at least 1.
        theta: Spread parameter, at least 0; infinity is allowed.

    Example:
        >>> round(1000 * exposed_success(1000, 0.003996), 2)
        4.06
    """
    return math.expm1(-theta) / math.expm1(-n * theta) if theta else 1 / n


def uniform_attack(n: int) -> OrderAttack:
    """Return what guessing achieves: 1/n everywhere."""
    return OrderAttack(n, 0.0, 1 / n, 0, 1 / n, 1 / n)


@lru_cache(maxsize=256)
def _cached_attack(n: int, theta: float) -> OrderAttack:
    # A uniform order needs nothing of it.
    from rase.shuffle.mallows import Mallows

    law = Mallows(n, theta)
    if law.theta == 0:
        return uniform_attack(n)
    looked_at = _looked_at(theta)
    if n <= looked_at:
        marginals = law.marginals()
        best = marginals.max(axis=0)
        mean_success, stay_share = float(best.mean()), float(np.trace(marginals)) / n
    elif n > _EXACT_UP_TO and theta < _LOCAL_FROM:
        mean_success, stay_share = _limit_of_large_n(n, theta)
    else:
        mean_success, stay_share = _ends_and_middle(n, theta, looked_at)
    return OrderAttack(n, theta, mean_success, 0, exposed_success(n, theta), stay_share)


def _looked_at(theta: float) -> int:
    """Return up to how many reports the marginals are summed one by one."""
    return min(_EXACT_UP_TO, max(4, 2 * math.ceil(_FAR_APART / theta / 2)))


def _ends_and_middle(n: int, theta: float, looked_at: int) -> tuple[float, float]:
    from rase.shuffle.mallows import Mallows

    marginals = Mallows(looked_at, theta).marginals()
    best, stays = marginals.max(axis=0), np.diagonal(marginals)
    added = n - looked_at
    middle = looked_at // 2
    return (
        float(best.sum() + added * best[middle]) / n,
        float(stays.sum() + added * stays[middle]) / n,
    )


def _limit_of_large_n(n: int, theta: float) -> tuple[float, float]:
    """Return mean success and stay share from the Mallows permuton with β = theta n.

    Its density is u(x, y) = (β/2) sinh(β/2) / D², D = e^(β/4) cosh(β(x-y)/2) - e^(-β/4)
    cosh(β(x+y-1)/2). Its maximum over x is (β/4) sinh(β/2) / (cosh(β/2) - cosh(β(y-1/2))) where it
    is attained inside, and β e^(-βy) / (1 - e^-β), or that mirrored, at an end; integrated over y
    the ends give 1 and the inside β/4. On the diagonal the integral of u is
    (1 + 2 artanh(√tanh(β/4)) / √(1 - e^-β)) / 2. The factor 1 + theta/4 carries the next order in
    theta, found by comparison with the exact law.
    """
    beta = theta * n
    tangent = math.tanh(beta / 4)
    # log(1 - tanh(β/4)) without the cancellation at large β.
    log_rest = math.log(2) - beta / 2 - math.log1p(math.exp(-beta / 2))
    artanh = math.log1p(math.sqrt(tangent)) - log_rest / 2
    diagonal = (1 + 2 * artanh / math.sqrt(-math.expm1(-beta))) / 2
    next_order = 1 + theta / 4
    return 1 / n + theta / 4 * next_order, diagonal / n * next_order
