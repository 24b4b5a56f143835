"""What an observer of many rounds really achieves: a lower bound beside every composed claim.

The observer knows all other readings, which are alike, and gives each shuffled report a whole
number: about by how much it speaks for one of two readings, (R_x - R_x') / R_o. The sum over a
round is a function of the release whose two laws are known exactly, so its loss ln P/Q is one that
the release really has, and losses of rounds add up. Everything is rounded downwards: no true
epsilon is below. Others whose readings differ can be worse, so the truth may be above.
"""

import math
from collections.abc import Iterator

import numpy as np

from rase.accounting.binomial import Floats
from rase.accounting.blanket import Channel
from rase.accounting.curve import crossing
from rase.accounting.lattice import Lattice, split
from rase.accounting.lower_bounds import log_beyond

__all__ = ["attack_epsilon"]

# Scores are whole numbers up to this size, and sums are counted modulo so many.
_LARGEST_SCORE = 64
_REACH = 12.0
_MOST = 2**18
# The rounding of the FFT, many times over; sums with less mass are left out.
_ROUNDING = 1e-14
_LEAST = 1e-12
# Places for the losses of all rounds, and deviations looked at.
_PLACES = 2**19
_SLACK = 1e-6


def attack_epsilon(
    channel: Channel, n: int, *, rounds: int, delta: float, local_epsilon: float
) -> float:
    """Return an epsilon that many rounds really have at least, at this delta.

    Guarantee: no epsilon below it holds for all rounds together
    (tests/accounting/accountant/test_attack.py enumerates small ones). The largest over observers
    of the worst pair, in both orders, among others at an end, a quarter or the middle of the range.

    Args:
        channel: The mechanism's rows.
        n: How many reports a round.
        rounds: How many rounds.
        delta: The delta allowed.
        local_epsilon: The epsilon of one report.
    """
    found = 0.0
    for first, second, others in _readings(channel):
        losses, masses = _round_losses(first, second, others, n)
        observer = _LeastSums(losses, masses, rounds, delta=delta)
        highest = rounds * local_epsilon
        found = max(found, crossing(observer.delta, delta, highest=highest, precision=1e-4)[0])
    return found


def _readings(channel: Channel) -> Iterator[tuple[Floats, Floats, Floats]]:
    for first, second in ((channel.low, channel.high), (channel.high, channel.low)):
        for others in (channel.middle, channel.quarter, channel.low):
            if others is not None:
                occurs = others > 0
                yield first[occurs], second[occurs], others[occurs]


def _round_losses(first: Floats, second: Floats, others: Floats, n: int) -> tuple[Floats, Floats]:
    """Return losses that are at most those of a round's score, and masses at most those under P."""
    exact = (first - second) / others
    largest = float(np.abs(exact).max())
    scores = np.rint(exact * (_LARGEST_SCORE / largest)).astype(np.int64)
    spread = math.sqrt(n * float((others * np.square(scores)).sum()))
    size = min(_MOST, 1 << math.ceil(math.log2(2 * _REACH * spread + 8 * _LARGEST_SCORE)))
    # Sums modulo the size are a function of the sums, so nothing is lost to a proof by the cycle.
    laws = [
        np.bincount(scores % size, weights=law, minlength=size) for law in (others, first, second)
    ]
    spectra = [np.fft.rfft(law) for law in laws]
    crowd = np.exp((n - 1) * np.log(np.where(spectra[0] == 0, 1e-300, spectra[0])))
    under = [np.fft.irfft(crowd * own, size) for own in spectra[1:]]
    likely, unlikely = under[0] - _ROUNDING, under[1] + _ROUNDING
    kept = likely > _LEAST
    return np.log(likely[kept] / unlikely[kept]), likely[kept]


class _LeastSums:
    """Hold the loss of many rounds, rounded down, and its delta, never too large."""

    def __init__(self, losses: Floats, masses: Floats, rounds: int, *, delta: float) -> None:
        mean = float((masses * losses).sum())
        deviation = math.sqrt(float((masses * np.square(losses - mean)).sum())) + 1e-12
        step = 2 * _REACH * math.sqrt(rounds) * deviation / _PLACES
        law = _rounded_down(losses, masses, step)
        tilt = math.sqrt(-2 * math.log(delta) / rounds) / deviation
        centre, spread = law.moments(tilt)
        top = math.ceil((rounds * centre + _REACH * math.sqrt(rounds) * spread) / step)
        places = np.arange(top - _PLACES + 1, top + 1)
        tilted, log_factor = law.sum_of(rounds, tilt=tilt, size=_PLACES)
        self._sums = step * places
        beyond = log_beyond(law, rounds, tilt, low=float(self._sums[0]), high=float(self._sums[-1]))
        # What comes round the cycle could have landed on any place; it is taken off all.
        tilted = np.maximum(tilted - math.exp(beyond) - _ROUNDING / _PLACES, 0.0)
        self._masses = tilted[places % _PLACES] * np.exp(
            np.minimum(log_factor - tilt * self._sums, 700.0)
        )

    def delta(self, epsilon: float) -> float:
        """Return a divergence that all rounds together have at least."""
        first = int(np.searchsorted(self._sums, epsilon, side="right"))
        above = (-np.expm1(epsilon - self._sums[first:]) * self._masses[first:]).sum()
        return max(0.0, float(above) * (1 - _SLACK))


def _rounded_down(losses: Floats, masses: Floats, step: float) -> Lattice:
    return split(losses, masses, step, upper_share=np.zeros_like)
