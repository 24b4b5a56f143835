"""A pair of laws that a round is no easier to tell apart than, and what follows for many rounds.

Losses of rounds add up, whatever later rounds learn from earlier ones: the product of dominating
pairs dominates the adaptive composition (Zhu, Dong, Wang 2022). The law of the sum is one tilted
FFT. Losses between two lattice points are split so that the masses of P and of Q both stay, which
keeps the pair a coarsening of the one computed with, hence every result an upper bound.
"""

import math
from collections.abc import Sequence
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
    """A pair that dominates some rounds, of which all questions are answered.

    Guarantee: every number is an upper bound for two histories that differ in one contributor's
    readings, in one or all of the rounds (tests/accounting/accountant/test_pair.py enumerates
    small ones).

    Args:
        profile: The profile of one round.
        rounds: How many rounds, each with new noise and a new uniform shuffle.
        others: Further rounds of other laws, such as probes, with their numbers.
    """

    profile: Profile
    rounds: int = 1
    others: tuple[tuple[Profile, int], ...] = ()

    @property
    def parts(self) -> tuple[tuple[Profile, int], ...]:
        """All laws with their numbers of rounds."""
        return ((self.profile, self.rounds), *self.others)

    @property
    def reports(self) -> int:
        """How many reports of one contributor the rounds hold."""
        return sum(rounds for _, rounds in self.parts)

    @property
    def local_epsilon(self) -> float:
        """The sum of the epsilons of the contributor's own reports."""
        return sum(rounds * profile.local_epsilon for profile, rounds in self.parts)

    @property
    def theorem(self) -> str:
        """Where the numbers come from."""
        names = " and ".join(dict.fromkeys(profile.theorem for profile, _ in self.parts))
        return names + (", composed by privacy loss distributions" if self.reports > 1 else "")

    def compose(self, rounds: int) -> Self:
        """Return the pair of so many times these rounds.

        Args:
            rounds: How many times.
        """
        times = checked_rounds(rounds)
        others = tuple((profile, times * number) for profile, number in self.others)
        return type(self)(self.profile, times * self.rounds, others)

    def then(self, other: "Pair") -> Self:
        """Return the pair of these rounds and some of another law, in any order.

        Args:
            other: The other rounds.
        """
        return type(self)(self.profile, self.rounds, (*self.others, *other.parts))

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon that is proven at a delta for all rounds together.

        Args:
            delta: The delta.
        """
        delta = checked_delta(delta)
        if self.reports == 1:
            return crossing(self.profile.delta, delta, highest=self.local_epsilon)[1]
        sums = _sums(self.parts, delta)
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
        if self.reports == 1:
            return self.profile.delta(epsilon)
        log_tail = _log_tail(self.parts, epsilon)
        # Rounded, so that neighbouring questions share their sums.
        nearby = math.exp(round(log_tail)) if log_tail < -1 else 0.5
        return _sums(self.parts, max(nearby, _LEAST_DELTA)).delta(epsilon)

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
        curve = self.profile.losses if self.reports == 1 else _sums(self.parts, far)
        highest = crossing(curve.delta, far, highest=self.local_epsilon, precision=1e-3)[1]
        grid = np.linspace(0.0, highest, _LOOKED_AT)
        deltas = curve.deltas(grid)

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
def _sums(parts: tuple[tuple[Profile, int], ...], delta: float) -> "Sums":
    widest = max(profile.local_epsilon for profile, _ in parts)
    return Sums([(profile.losses, rounds) for profile, rounds in parts], delta=delta, widest=widest)


def _log_tail(parts: tuple[tuple[Profile, int], ...], level: float) -> float:
    """Return about the log of Pr[sum > level] (Chernoff), to choose a tilt by."""
    losses = [(profile.losses, rounds) for profile, rounds in parts]
    square = sum(rounds * _deviation(one) ** 2 for one, rounds in losses)
    best = 0.0
    # Of a Gaussian loss the best tilt is about level / (rounds * deviation^2).
    for tilt in max(level / square, 1.0) * np.logspace(-2, 1, 31):
        log_mgf = 0.0
        for one, rounds in losses:
            exponent = tilt * one.values
            top = float(exponent.max())
            log_mgf += rounds * (top + math.log(float((one.masses * np.exp(exponent - top)).sum())))
        best = min(best, log_mgf - tilt * level)
    return best


def _deviation(losses: Losses) -> float:
    return math.sqrt(float((losses.masses * np.square(losses.values)).sum()))


class Sums:
    """The law of the loss of many rounds, with its delta bounded from above.

    Args:
        parts: The losses of one round of each law, and how many rounds it has.
        delta: The delta about which epsilon will be asked.
        widest: The largest loss of one round.
    """

    def __init__(self, parts: Sequence[tuple[Losses, int]], *, delta: float, widest: float) -> None:
        """Compute the law of the summed loss, tilted to where delta is decided."""
        numbers = [rounds for _, rounds in parts]
        finest = min(_deviation(losses) for losses, _ in parts)
        whole = math.sqrt(sum(rounds * _deviation(losses) ** 2 for losses, rounds in parts))
        for wide in (2, 4):
            cycle = wide * _REACH * whole + 2 * widest
            wished = _PER_DEVIATION * cycle / finest
            most = wide * _MOST // 4
            size = min(max(wide * _FEWEST // 4, 1 << math.ceil(math.log2(wished))), most)
            step = cycle / size
            share = partial(share_upwards, step=step)
            laws = [split(one.values, one.masses, step, upper_share=share) for one, _ in parts]
            tilt = _best_tilt(laws, numbers, delta=delta, scale=whole)
            moments = [law.moments(tilt) for law in laws]
            mean = sum(rounds * one for (one, _), rounds in zip(moments, numbers, strict=True))
            spread = math.sqrt(
                sum(rounds * one**2 for (_, one), rounds in zip(moments, numbers, strict=True))
            )
            # Losses with long tails are spread wider where delta is decided than elsewhere.
            if 2 * _REACH * spread <= cycle:
                break
        highest = sum(rounds * law.values[-1] for law, rounds in zip(laws, numbers, strict=True))
        # One place above the highest sum, so that nothing lies beyond.
        top = math.ceil(min(mean + _REACH * spread, highest + step) / step)
        places = np.arange(top - size + 1, top + 1)
        tilted, log_factor = laws[0].sum_of(numbers[0], tilt=tilt, size=size)
        for law, rounds in zip(laws[1:], numbers[1:], strict=True):
            more, log_more = law.sum_of(rounds, tilt=tilt, size=size)
            both = np.fft.rfft(tilted) * np.fft.rfft(more)
            tilted, log_factor = np.maximum(np.fft.irfft(both, size), 0.0), log_factor + log_more
        self._sums = step * places
        # Sums far below the middle have a factor without bound; no answer lies there.
        exponent = np.minimum(log_factor - tilt * self._sums, _LARGEST_EXPONENT)
        self._masses = tilted[places % size] * np.exp(exponent)
        beyond = math.exp(_log_beyond(laws, numbers, tilt, float(self._sums[-1])))
        self._lost = beyond + sum(rounds * losses.lost for losses, rounds in parts)

    def delta(self, epsilon: float) -> float:
        """Return the hockey-stick divergence of the composed pairs at epsilon, rounded up."""
        if epsilon < self._sums[0]:
            return 1.0
        first = int(np.searchsorted(self._sums, epsilon, side="right"))
        above = (-np.expm1(epsilon - self._sums[first:]) * self._masses[first:]).sum()
        return min(1.0, float(above) * (1 + _SLACK) + self._lost)

    def deltas(self, epsilons: Floats) -> Floats:
        """Return `delta` at many epsilons of at least 0, each from two sums over all above it.

        Their difference loses digits where delta is far below the mass above epsilon; the slack
        covers that many times over.
        """
        if epsilons.max() > _LARGEST_EXPONENT:
            return np.array([self.delta(float(epsilon)) for epsilon in epsilons])
        heavier = np.exp(-np.clip(self._sums, 0.0, _LARGEST_EXPONENT)) * self._masses
        masses, weights = (
            np.append(np.cumsum(one[::-1])[::-1], 0.0) for one in (self._masses, heavier)
        )
        first = np.searchsorted(self._sums, epsilons, side="right")
        above = np.maximum(masses[first] - np.exp(epsilons) * weights[first], 0.0)
        found: Floats = np.minimum(1.0, above * (1 + _SLACK) + self._lost)
        found[epsilons < self._sums[0]] = 1.0
        return found


def share_upwards(gone: Floats, step: float) -> Floats:
    """Return the share of P's mass that goes up so that Q's mass, e^-loss of it, stays too.

    Args:
        gone: How far each loss has come towards the lattice point above, as a share of the step.
        step: The distance of two lattice points.
    """
    share: Floats = np.expm1(-step * gone) / math.expm1(-step)
    return share


def _best_tilt(
    laws: Sequence[Lattice], numbers: Sequence[int], *, delta: float, scale: float
) -> float:
    """Return the smallest tilt at which the Chernoff bound on epsilon is nearly its least.

    A larger tilt would look too far out and lose the digits of what lies below.
    """
    middle = math.sqrt(-2 * math.log(delta)) / scale
    tilts = middle * np.logspace(-1.5, 1.5, 61)
    bounds = np.array([(_log_mgf(laws, numbers, tilt) - math.log(delta)) / tilt for tilt in tilts])
    return float(tilts[int(np.argmax(bounds <= _NEARLY * bounds.min()))])


def _log_mgf(laws: Sequence[Lattice], numbers: Sequence[int], tilt: float) -> float:
    return sum(rounds * law.log_mgf(tilt) for law, rounds in zip(laws, numbers, strict=True))


def _log_beyond(
    laws: Sequence[Lattice], numbers: Sequence[int], tilt: float, level: float
) -> float:
    """Return a bound on the log of Pr[sum >= level], by some tilts above the one in use."""
    if len(laws) == 1:
        return laws[0].log_tail(numbers[0], level)
    steeper = tilt * np.linspace(1.0, 8.0, 15)
    return min(float(_log_mgf(laws, numbers, one) - one * level) for one in steeper)
