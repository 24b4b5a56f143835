"""The randomizer of least error that keeps a promise towards the fusion centre.

The other way round from amplification: named is what shuffled reports may give away, and wanted is
the largest local epsilon that keeps to it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import overload

import numpy as np

from rase.accounting.accountant.rounds import shuffled_pair
from rase.accounting.blanket import BLANKET_MAX_EPSILON, is_bit
from rase.accounting.checks import checked_delta, checked_n, checked_rounds
from rase.domain import Categories, Domain, Range
from rase.errors import PrivacyRefused
from rase.laws.ladder import rungs
from rase.laws.optimal import Optimal
from rase.laws.randomizer import Randomizer, RangeRandomizer
from rase.laws.registry import AUTO, MEAN_CHOICES, mechanisms_of, randomizer_named
from rase.laws.response import CategoryRandomizer, share_deviation
from rase.laws.windows import Duchi
from rase.privacy import MIN_EPSILON, rounded_down

__all__ = ["calibrate", "worst_error"]

# The mechanisms among which auto chooses: by their error at the promise.
_CANDIDATES = (Optimal.name, Duchi.name)
# The search ends this close below the largest local epsilon, as a share.
_CLOSE = 2e-4
# How fast delta falls with epsilon where it matters: about so is epsilon's log a share of delta's.
_SHARE_OF_LOG_DELTA = 1 / 25
# How much more the local epsilon of bits can be than among very many alike.
_HARDLY_MORE = 1.1
_NEARLY = 1.0001
# By how much less than √2 times as much as a bit the optimal channel says, as an exponent.
_NARROWER = 0.58
# The excess by the log of the local epsilon, until two trials show it.
_SLOPE = 1.6
_FIGURES = 5
_SMALLEST = 1e-300
# How far below a budget a rung may have less error.
_NEAR = 0.03
# Readings at which the variance is looked at.
_READINGS = 4097


@overload
def calibrate(
    domain: Range,
    *,
    shuffled_epsilon: float,
    delta: float,
    n: int,
    rounds: int = 1,
    max_local_epsilon: float | None = None,
    mechanism: str = AUTO,
) -> RangeRandomizer: ...


@overload
def calibrate(
    domain: Categories,
    *,
    shuffled_epsilon: float,
    delta: float,
    n: int,
    rounds: int = 1,
    max_local_epsilon: float | None = None,
    mechanism: str = AUTO,
) -> CategoryRandomizer: ...


def calibrate(
    domain: Domain,
    *,
    shuffled_epsilon: float,
    delta: float,
    n: int,
    rounds: int = 1,
    max_local_epsilon: float | None = None,
    mechanism: str = AUTO,
) -> Randomizer:
    """Return the randomizer of least worst error whose shuffled reports keep a promise.

    Guarantee: ``rounds`` reports of one device, each shuffled uniformly among at least n honest
    ones, are (shuffled_epsilon, delta)-DP together, as `shuffled_pair` proves for the randomizer
    that is returned (tests/accounting/accountant/test_calibrate.py). If shuffler and fusion centre
    work together, only the local epsilon of each report is left, the randomizer's ``epsilon``.

    Args:
        domain: The public range, or the public categories.
        shuffled_epsilon: The epsilon of all these reports together, towards the fusion centre.
        delta: The delta that belongs to it.
        n: The fewest honest reports of a round: ``k_min - colluding``.
        rounds: How many reports of one device share the promise.
        max_local_epsilon: The most that a report may have on its own; no limit unless given.
        mechanism: A mechanism for means or for categories, or ``auto`` for the one of least error
            at the promise.

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
    known = MEAN_CHOICES if isinstance(domain, Range) else (AUTO, *mechanisms_of(Categories))
    if mechanism not in known:
        raise ValueError(f"mechanism must be one of {', '.join(known)}, got {mechanism!r}.")

    wish = _Wish(shuffled_epsilon, delta, n, rounds)
    kept: list[Randomizer] = []
    candidates = _CANDIDATES if isinstance(domain, Range) else mechanisms_of(Categories)
    for name in candidates if mechanism == AUTO else (mechanism,):
        if not kept or isinstance(domain, Categories):
            pass
        elif is_bit(kept[0]) or wish.error_of_bits(domain) > worst_error(kept[0]):
            break
        law = partial(randomizer_named, name, domain=domain)
        highest = _highest(name, max_local_epsilon)
        epsilon = _largest_within(
            partial(wish.excess, law), wish, guess=wish.guess(name), highest=highest
        )
        if epsilon is not None:
            kept.append(law(epsilon))
            if name == Optimal.name:
                kept += [law(rung) for rung in _rungs_below(law, epsilon, wish)]
    if not kept:
        raise PrivacyRefused(
            f"no local epsilon from {MIN_EPSILON:g} on promises ({shuffled_epsilon:g}, {delta:g}) "
            f"for {rounds} report{'s' * (rounds > 1)} of a device in rounds of {n}: ask for fewer "
            "reports, or a larger shuffled epsilon."
        )
    best = min(kept, key=worst_error)
    # Below its ladder the optimal channel is the bit: then that is its name.
    if mechanism == AUTO and isinstance(domain, Range) and is_bit(best):
        return Duchi(best.epsilon, domain)
    return best


def worst_error(randomizer: Randomizer) -> float:
    """Return the largest standard deviation of a decoded report over all readings.

    Of categories that of a share, the root of the mean over all: the same for all readings.
    """
    if isinstance(randomizer, CategoryRandomizer):
        return share_deviation(randomizer)
    if not isinstance(randomizer, RangeRandomizer):
        raise TypeError(f"randomizer must be for numbers or categories, got {randomizer!r}.")
    domain = randomizer.domain
    readings = np.linspace(domain.low, domain.high, _READINGS)
    return math.sqrt(float(randomizer.variance(readings).max()))


_Law = Callable[[float], Randomizer]


@dataclass(frozen=True, slots=True)
class _Wish:
    """The promise to keep, and what is known of it before any law is looked at."""

    shuffled_epsilon: float
    delta: float
    n: int
    rounds: int

    def excess(self, law: _Law, epsilon: float) -> float:
        """Return the log of what reports of a local epsilon give away, as a share of what they may.

        By epsilon; for one round by delta at the epsilon wished, a single point of the curve.
        """
        if self.rounds * epsilon <= self.shuffled_epsilon:
            return -math.inf
        pair = shuffled_pair(law(epsilon), self.n, delta=self.delta)
        if self.rounds == 1:
            found = max(pair.delta(self.shuffled_epsilon), _SMALLEST)
            return math.log(found / self.delta) * _SHARE_OF_LOG_DELTA
        return math.log(pair.compose(self.rounds).epsilon(self.delta) / self.shuffled_epsilon)

    def guess(self, name: str = Duchi.name) -> float:
        """About the local epsilon that keeps the promise: by the loss among very many others.

        That is Gaussian. Of bits it has the deviation 2 sinh(epsilon / 2) √(rounds / n), of the
        optimal channel √2 times as much where epsilon is large; between, a curve that fits the
        ladder within 3 % (tests/accounting/accountant/test_calibrate.py).
        """
        low, high = 1e-6, 1e3
        while high > _NEARLY * low:
            middle = math.sqrt(low * high)
            if _gaussian_delta(self.shuffled_epsilon, middle) > self.delta:
                high = middle
            else:
                low = middle
        wanted = low * math.sqrt(self.n / self.rounds)
        if name != Optimal.name:
            return 2 * math.asinh(wanted / 2)
        low, high = 0.0, 2 * math.asinh(wanted / 2)
        while high > _NEARLY * low:
            middle = (low + high) / 2
            wider = 2 * math.sinh(middle / 2) * math.sqrt(2 - math.exp(-_NARROWER * middle))
            low, high = (low, middle) if wider > wanted else (middle, high)
        return high

    def error_of_bits(self, domain: Range) -> float:
        """Return an error that Duchi's bit hardly goes below at this promise."""
        return domain.width / 2 / math.tanh(_HARDLY_MORE * self.guess() / 2)


def _largest_within(
    excess: Callable[[float], float], wish: _Wish, *, guess: float, highest: float
) -> float | None:
    """Return about the largest local epsilon at which the excess is at most 0.

    Args:
        excess: An ascending function; it was evaluated at what is returned.
        wish: The promise.
        guess: About the local epsilon looked for.
        highest: The largest local epsilon of interest.

    Returns:
        The local epsilon, in a few figures; None if there is none.
    """
    low = min(max(wish.shuffled_epsilon / wish.rounds, MIN_EPSILON), highest)
    if excess(low) > 0:
        return None
    trial = min(max(rounded_down(guess, _FIGURES), low), highest)
    high, is_closed = highest, False
    seen: list[tuple[float, float]] = []
    while True:
        found = excess(trial)
        if math.isfinite(found):
            seen.append((math.log(trial), found))
        if found <= 0:
            low = trial
        else:
            high, is_closed = trial, True
        is_near = -_CLOSE < found <= 0
        if is_near or low == highest or (high - low <= _CLOSE * high and is_closed):
            return low
        is_halved = is_closed and len(seen) % 4 == 0
        wanted = math.sqrt(low * high) if is_halved else _next_trial(seen)
        if not low < wanted < high:
            wanted = math.sqrt(low * high) if is_closed else highest
        trial = rounded_down(wanted, _FIGURES)
        if trial <= low:
            # Within rounding of the lower end: halve, or try the highest, which is still unknown.
            trial = (low + high) / 2 if is_closed else highest


def _next_trial(seen: list[tuple[float, float]]) -> float:
    """Return where the excess is likely just below 0: by the two trials that came nearest.

    It rises with the log of the local epsilon, by a number between 1 and 3 for an e-fold.
    """
    aim = -_CLOSE / 2
    if not seen:
        return 0.0
    nearest = sorted(seen, key=lambda one: abs(one[1] - aim))[:2]
    at, found = nearest[0]
    slope = _SLOPE
    if len(nearest) == 2 and nearest[1][0] != at:
        slope = (nearest[1][1] - found) / (nearest[1][0] - at)
        slope = min(max(slope, _SLOPE / 4), 4 * _SLOPE)
    return math.exp(at + min((aim - found) / slope, 1.0))


def _gaussian_delta(epsilon: float, deviation: float) -> float:
    """Return delta of a Gaussian loss: of two normal laws whose means differ by the deviation."""

    def upper(z: float) -> float:
        return math.erfc(z / math.sqrt(2)) / 2

    first = upper(epsilon / deviation - deviation / 2)
    second = upper(epsilon / deviation + deviation / 2)
    return first - math.exp(epsilon) * second if second else first


def _rungs_below(law: _Law, epsilon: float, wish: _Wish) -> list[float]:
    """Return the rung just below a budget of the optimal channel, if it keeps the promise, too.

    A channel solved for its budget has less error than one that is mixed down to hardly more.
    """
    below = [rung for rung in rungs() if epsilon - _NEAR < rung < epsilon]
    return [rung for rung in below if wish.excess(law, rung) <= 0]


def _highest(name: str, max_local_epsilon: float | None) -> float:
    """Return the largest local epsilon that makes a difference."""
    highest = rungs()[-1] if name == Optimal.name else BLANKET_MAX_EPSILON
    return highest if max_local_epsilon is None else min(highest, max_local_epsilon)
