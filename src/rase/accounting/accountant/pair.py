"""A pair of laws that a round is no easier to tell apart than, and what follows for many rounds.

Losses of rounds add up, whatever later rounds learn from earlier ones: the product of dominating
pairs dominates the adaptive composition (Zhu, Dong, Wang 2022). The law of the sum is one tilted
FFT. Losses between two lattice points are split so that the masses of P and of Q both stay, which
keeps the pair a coarsening of the one computed with, hence every result an upper bound.
"""

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Self

import numpy as np

from rase.accounting.accountant.profile import Losses, Profile
from rase.accounting.binomial import Floats
from rase.accounting.checks import checked_delta, checked_rounds
from rase.accounting.curve import crossing
from rase.accounting.lattice import Lattice, split

__all__ = ["Pair", "Sums"]

# Rounding of sums and of the FFT is far below this.
_SLACK = 1e-6
# Places of the lattice within a standard deviation, at least and at most (half of them where half
# of the width is enough); deviations looked at.
_PER_DEVIATION = 32
_FEWEST, _MOST = 2**14, 2**18
_REACH = 12.0
_NEARLY = 1.05
_LARGEST_EXPONENT = 700.0
# Epsilons at which the curve is looked at for the chance of a loss; any choice gives a bound.
_LOOKED_AT = 160
_FAR_BELOW = 1e-3
_CLOSE = 1e-6
# Sums are tilted for no smaller delta.
_LEAST_DELTA = 1e-90


@dataclass(frozen=True, eq=False)
class Pair:
    """Hold a pair that dominates some rounds, of which all questions are answered.

    Guarantee: every number is an upper bound for two histories that differ in one contributor's
    readings, in one or all of the rounds (tests/accounting/accountant/test_pair.py enumerates
    small ones).

    Args:
        profile: The profile of one round.
        rounds: How many rounds, each with new noise and a new uniform shuffle.
    """

    profile: Profile
    rounds: int = 1

    @property
    def local_epsilon(self) -> float:
        """The sum of the epsilons of the contributor's own reports."""
        return self.rounds * self.profile.local_epsilon

    @property
    def theorem(self) -> str:
        """Where the numbers come from."""
        composed = ", composed by privacy loss distributions" if self.rounds > 1 else ""
        return self.profile.theorem + composed

    def compose(self, rounds: int) -> Self:
        """Return the pair of so many times these rounds.

        Args:
            rounds: How many times.
        """
        return type(self)(self.profile, self.rounds * checked_rounds(rounds))

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon that is proven at a delta for all rounds together.

        Args:
            delta: The delta.
        """
        delta = checked_delta(delta)
        if self.rounds == 1:
            return crossing(self.profile.delta, delta, highest=self.local_epsilon)[1]
        sums = _sums(self.profile, self.rounds, delta)
        return crossing(sums.delta, delta, highest=self.local_epsilon)[1]

    def delta(self, epsilon: float) -> float:
        """Return the least delta that is proven at an epsilon for all rounds together.

        Args:
            epsilon: The epsilon, at least 0.
        """
        if not epsilon >= 0:
            raise ValueError(f"epsilon must be 0 or greater, got {epsilon}.")
        if epsilon >= self.local_epsilon:
            return 0.0
        if self.rounds == 1:
            return self.profile.delta(epsilon)
        log_tail = _log_tail(self.profile.losses, self.rounds, epsilon)
        # Rounded, so that neighbouring questions share their sums.
        nearby = math.exp(round(log_tail)) if log_tail < -1 else 0.5
        return _sums(self.profile, self.rounds, max(nearby, _LEAST_DELTA)).delta(epsilon)

    def best_guess(self) -> float:
        """Return how often the best guess between two equally likely histories is right."""
        return min(1.0, (1 + self.delta(0.0)) / 2)

    def loss(self, chance: float) -> float:
        """Return log-odds that an observer at evens exceeds with this probability at most.

        Pr[ln P/Q > l] <= delta(e) / (1 - exp(e - l)) for every e < l, and both directions together
        have at most 1 + exp(-l) times as much (`rase.privacy.CentralDP.surer_chance` proves it).
        A tail read off the pair itself would not hold for what it dominates.

        Args:
            chance: The probability.
        """
        chance = checked_delta(chance)
        far = _FAR_BELOW * chance
        curve = self.profile.losses if self.rounds == 1 else _sums(self.profile, self.rounds, far)
        highest = crossing(curve.delta, far, highest=self.local_epsilon, precision=1e-3)[1]
        grid = np.linspace(0.0, highest, _LOOKED_AT)
        deltas = np.array([curve.delta(float(epsilon)) for epsilon in grid])

        def chance_of(loss: float) -> float:
            below = grid < loss
            if not below.any():
                return 1.0
            return float((deltas[below] / -np.expm1(grid[below] - loss)).min()) * (
                1 + math.exp(-loss)
            )

        return crossing(chance_of, chance, highest=self.local_epsilon, precision=_CLOSE)[1]

    def surer(self, chance: float) -> float:
        """Return the certainty that an observer at evens passes with this probability at most.

        Args:
            chance: The probability.
        """
        return 1 / (1 + math.exp(-self.loss(chance)))


@lru_cache(maxsize=64)
def _sums(profile: Profile, rounds: int, delta: float) -> "Sums":
    return Sums(profile.losses, rounds, delta=delta, widest=profile.local_epsilon)


def _log_tail(losses: Losses, rounds: int, level: float) -> float:
    """Return about the log of Pr[sum > level] (Chernoff), to choose a tilt by."""
    deviation = math.sqrt(float((losses.masses * np.square(losses.values)).sum()))
    # Of a Gaussian loss the best tilt is about level / (rounds * deviation^2).
    middle = max(level / (rounds * deviation**2), 1.0)
    best = 0.0
    for tilt in middle * np.logspace(-2, 1, 31):
        exponent = tilt * losses.values
        top = float(exponent.max())
        log_mgf = top + math.log(float((losses.masses * np.exp(exponent - top)).sum()))
        best = min(best, rounds * log_mgf - tilt * level)
    return best


class Sums:
    """Hold the law of the loss of many rounds and bound its delta from above.

    Args:
        losses: The loss of one round.
        rounds: How many rounds.
        delta: The delta about which epsilon will be asked.
        widest: The largest loss of one round.
    """

    def __init__(self, losses: Losses, rounds: int, *, delta: float, widest: float) -> None:
        """Compute the law of the summed loss, tilted to where delta is decided."""
        values, masses = losses.values, losses.masses
        deviation = math.sqrt(float((masses * np.square(values)).sum()))
        for wide in (2, 4):
            cycle = wide * _REACH * math.sqrt(rounds) * deviation + 2 * widest
            wished = _PER_DEVIATION * cycle / deviation
            most = wide * _MOST // 4
            size = min(max(wide * _FEWEST // 4, 1 << math.ceil(math.log2(wished))), most)
            step = cycle / size
            law = split(values, masses, step, upper_share=partial(share_upwards, step=step))
            tilt = _best_tilt(law, rounds, delta=delta, scale=deviation)
            mean, spread = law.moments(tilt)
            # Losses with long tails are spread wider where delta is decided than elsewhere.
            if 2 * _REACH * math.sqrt(rounds) * spread <= cycle:
                break
        top = math.ceil((rounds * mean + _REACH * math.sqrt(rounds) * spread) / step)
        places = np.arange(top - size + 1, top + 1)
        tilted, log_factor = law.sum_of(rounds, tilt=tilt, size=size)
        self._sums = step * places
        # Sums far below the middle have a factor without bound; no answer lies there.
        exponent = np.minimum(log_factor - tilt * self._sums, _LARGEST_EXPONENT)
        self._masses = tilted[places % size] * np.exp(exponent)
        beyond = math.exp(law.log_tail(rounds, float(self._sums[-1])))
        self._lost = beyond + rounds * losses.lost

    def delta(self, epsilon: float) -> float:
        """Return the hockey-stick divergence of the composed pairs at epsilon, rounded up."""
        if epsilon < self._sums[0]:
            return 1.0
        first = int(np.searchsorted(self._sums, epsilon, side="right"))
        above = (-np.expm1(epsilon - self._sums[first:]) * self._masses[first:]).sum()
        return min(1.0, float(above) * (1 + _SLACK) + self._lost)


def share_upwards(gone: Floats, step: float) -> Floats:
    """Return the share of P's mass that goes up so that Q's mass, e^-loss of it, stays too.

    Args:
        gone: How far each loss has come towards the lattice point above, as a share of the step.
        step: The distance of two lattice points.
    """
    share: Floats = np.expm1(-step * gone) / math.expm1(-step)
    return share


def _best_tilt(law: Lattice, rounds: int, *, delta: float, scale: float) -> float:
    """Return the smallest tilt at which the Chernoff bound on epsilon is nearly its least.

    A larger tilt would look too far out and lose the digits of what lies below.
    """
    middle = math.sqrt(-2 * math.log(delta) / rounds) / scale
    tilts = middle * np.logspace(-1.5, 1.5, 61)
    bounds = np.array([(rounds * law.log_mgf(tilt) - math.log(delta)) / tilt for tilt in tilts])
    return float(tilts[int(np.argmax(bounds <= _NEARLY * bounds.min()))])
