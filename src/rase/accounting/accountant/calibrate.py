"""The randomizer of least error that keeps a promise towards the fusion centre.

The other way round from amplification: named is what shuffled reports may give away, and wanted is
the largest local epsilon that keeps to it.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from rase.accounting.accountant.rounds import shuffled_pair
from rase.accounting.blanket import BLANKET_MAX_EPSILON
from rase.accounting.checks import checked_delta, checked_n, checked_rounds
from rase.domain import Range
from rase.errors import PrivacyRefused
from rase.laws.ladder import rungs
from rase.laws.randomizer import RangeRandomizer
from rase.laws.registry import AUTO, MEAN_CHOICES, randomizer_named
from rase.privacy import MIN_EPSILON, rounded_down

__all__ = ["calibrate", "worst_error"]

# The mechanisms among which auto chooses: by their error at the promise.
_CANDIDATES = ("optimal", "duchi")
# The search ends this close below the largest local epsilon, as a share.
_CLOSE = 2e-4
_FIGURES = 5
_MOST_TRIALS = 60
_SMALLEST = 1e-300
# How far below a budget a rung may have less error.
_NEAR = 0.03
# Readings at which the variance is looked at.
_READINGS = 4097


def calibrate(
    domain: Range,
    *,
    shuffled_epsilon: float,
    delta: float,
    n: int,
    rounds: int = 1,
    max_local_epsilon: float | None = None,
    mechanism: str = AUTO,
) -> RangeRandomizer:
    """Return the randomizer of least worst error whose shuffled reports keep a promise.

    Guarantee: ``rounds`` reports of one device, each shuffled uniformly among at least n honest
    ones, are (shuffled_epsilon, delta)-DP together, as `shuffled_pair` proves for the randomizer
    that is returned (tests/accounting/accountant/test_calibrate.py). If shuffler and fusion centre
    work together, only the local epsilon of each report is left, the randomizer's ``epsilon``.

    Args:
        domain: The public range.
        shuffled_epsilon: The epsilon of all these reports together, towards the fusion centre.
        delta: The delta that belongs to it.
        n: The fewest honest reports of a round: ``k_min - colluding``.
        rounds: How many reports of one device share the promise.
        max_local_epsilon: The most that a report may have on its own; no limit unless given.
        mechanism: A mechanism for means, or ``auto`` for the one of least error at the promise.

    Raises:
        PrivacyRefused: If no local epsilon from 1e-4 on keeps the promise.
        ValueError: If an argument is out of bounds.

    Example:
        >>> found = calibrate(Range(0, 1), shuffled_epsilon=1, delta=1e-6, n=1000)
        >>> found.name, 3.2 < found.epsilon < 3.5
        ('optimal', True)
    """
    n, delta, rounds = checked_n(n), checked_delta(delta), checked_rounds(rounds)
    if not (shuffled_epsilon > 0 and math.isfinite(shuffled_epsilon)):
        raise ValueError(
            f"shuffled_epsilon must be greater than 0 and finite, got {shuffled_epsilon}."
        )
    if max_local_epsilon is not None and not max_local_epsilon >= MIN_EPSILON:
        raise ValueError(
            f"max_local_epsilon must be at least {MIN_EPSILON:g}, got {max_local_epsilon}."
        )
    if mechanism not in MEAN_CHOICES:
        raise ValueError(f"mechanism must be one of {', '.join(MEAN_CHOICES)}, got {mechanism!r}.")

    names = _CANDIDATES if mechanism == AUTO else (mechanism,)
    kept: list[RangeRandomizer] = []
    for name in names:
        law = partial(randomizer_named, name, domain=domain)
        excess = partial(_excess, law, n, wish=(shuffled_epsilon, delta), rounds=rounds)
        epsilon = _largest_within(
            excess,
            lowest=max(shuffled_epsilon / rounds, MIN_EPSILON),
            highest=_most(name, max_local_epsilon),
        )
        if epsilon is not None:
            kept += [law(one) for one in (epsilon, *_rungs_below(name, epsilon, excess))]
    if not kept:
        raise PrivacyRefused(
            f"no local epsilon from {MIN_EPSILON:g} on keeps {rounds} reports at "
            f"({shuffled_epsilon:g}, {delta:g}) among {n}: ask for fewer reports, or a larger "
            "shuffled epsilon."
        )
    return min(kept, key=worst_error)


def worst_error(randomizer: RangeRandomizer) -> float:
    """Return the largest standard deviation of a decoded report over all readings."""
    domain = randomizer.domain
    readings = np.linspace(domain.low, domain.high, _READINGS)
    return math.sqrt(float(randomizer.variance(readings).max()))


def _rungs_below(name: str, epsilon: float, excess: Callable[[float], float]) -> list[float]:
    """Return the rung just below a budget of the optimal channel, if it keeps the promise, too.

    A channel solved for its budget has less error than one that is mixed down to hardly more.
    """
    below = [rung for rung in rungs() if epsilon - _NEAR < rung < epsilon]
    return [rung for rung in below if name == "optimal" and excess(rung) <= 0]


def _most(name: str, max_local_epsilon: float | None) -> float:
    """Return the largest local epsilon that makes a difference."""
    highest = rungs()[-1] if name == "optimal" else BLANKET_MAX_EPSILON
    return highest if max_local_epsilon is None else min(highest, max_local_epsilon)


def _excess(
    law: Callable[[float], RangeRandomizer],
    n: int,
    epsilon: float,
    *,
    wish: tuple[float, float],
    rounds: int,
) -> float:
    """Return the log of what a local epsilon gives away, as a share of what it may."""
    shuffled_epsilon, delta = wish
    if rounds * epsilon <= shuffled_epsilon:
        return 0.0
    pair = shuffled_pair(law(epsilon), n, delta=delta)
    if rounds == 1:
        # One point of the curve decides.
        return math.log(max(pair.delta(shuffled_epsilon), _SMALLEST) / delta)
    return math.log(pair.compose(rounds).epsilon(delta) / shuffled_epsilon)


def _largest_within(
    excess: Callable[[float], float], *, lowest: float, highest: float
) -> float | None:
    """Return about the largest number at which an ascending function is at most 0.

    Args:
        excess: The function; it was evaluated at what is returned.
        lowest: Where to begin.
        highest: The largest number of interest.

    Returns:
        The number, in a few figures; None if the function is above 0 at ``lowest`` already.
    """
    low = min(lowest, highest)
    below = excess(low)
    if below > 0:
        return None
    above = excess(highest)
    if above <= 0:
        return highest
    high = highest
    for trial_number in range(_MOST_TRIALS):
        if high - low <= _CLOSE * high:
            break
        share = 0.5 if trial_number % 3 == 2 else below / (below - above)
        trial = rounded_down(low + min(max(share, 0.02), 0.98) * (high - low), _FIGURES)
        if not low < trial < high:
            break
        found = excess(trial)
        if found <= 0:
            low, below = trial, found
        else:
            high, above = trial, found
    return low
