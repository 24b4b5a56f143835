"""Amplification for any epsilon-LDP mechanism: the clone pair, summed exactly, and a closed form.

Feldman, McMillan, Talwar, "Hiding among the clones", FOCS 2021. Whatever the mechanism, each of the
other n - 1 reports is with probability e^-epsilon a *clone*: it looks like either of the two
candidate reports, by a fair coin. With C ~ Bin(n-1, e^-e0), A ~ Bin(C, 1/2) and
D ~ Bern(e^e0 / (e^e0 + 1)) the shuffled round is no easier to tell apart than
P = (A + D, C - A + 1 - D) from Q = (A + 1 - D, C - A + D) (their Theorem 3.2).
"""

import math

import numpy as np

from rase.accounting.binomial import Floats, probabilities, window

__all__ = ["CLONE_THEOREM", "ClonePair", "closed_form"]

CLONE_THEOREM = "clone pair (Feldman, McMillan, Talwar 2021, Theorem 3.2), summed exactly"

# Rounding of sums and probabilities is far below this, which costs nothing.
_SLACK = 1e-9
_ULP = 2.0**-52


class ClonePair:
    """The clone pair of n reports, with its delta at any epsilon, never too small.

    Guarantee: `delta` bounds the hockey-stick divergence of the shuffled round for any
    epsilon-LDP mechanism shared by all contributors, for rounds that differ in one contributor's
    reading. Assumes a uniform shuffle (tests/statistical/test_channel_audit.py enumerates it).

    Args:
        epsilon_local: The budget of one report.
        n: How many reports.
        negligible: The probability of numbers of clones that need not be looked at. It is added
            to delta.
    """

    def __init__(self, epsilon_local: float, n: int, *, negligible: float) -> None:
        """Find the numbers of clones that matter, and their probabilities."""
        self.epsilon_local = epsilon_local
        chance = math.exp(-epsilon_local)
        low, high = window(n - 1, chance, math.log(negligible / 2))
        is_whole = low == 0 and high == n - 1
        self.lost = 0.0 if is_whole else negligible
        self.clones: Floats = np.arange(low, high + 1, dtype=np.float64)
        self.weights = probabilities(self.clones, float(n - 1), chance)

    def delta(self, epsilon: float) -> float:
        """Return the hockey-stick divergence of P and Q at epsilon, rounded up.

        Both orders of the pair give the same: exchanging the two counts exchanges P and Q.
        """
        if epsilon >= self.epsilon_local:
            return 0.0
        # Of c clones and the report itself, k look like the first candidate. P beats e^eps Q where
        # k > share * (c + 1).
        share = (1 + math.tanh(epsilon / 2) / math.tanh(self.epsilon_local / 2)) / 2
        last = np.floor(share * (self.clones + 1))
        tail = _upper_tails(self.clones, last + 1)
        gain = -math.expm1(epsilon - self.epsilon_local) / (1 + math.exp(-self.epsilon_local))
        beyond = gain * probabilities(last, self.clones, 0.5) - math.expm1(epsilon) * tail
        rounding = tail.size * _ULP * float(tail.max()) * math.expm1(epsilon)
        total = float((self.weights * np.maximum(beyond, 0.0)).sum())
        return min(1.0, (total + rounding) * (1 + _SLACK) + self.lost)


def closed_form(epsilon_local: float, n: int, *, delta: float) -> float | None:
    """Return the central epsilon of Theorem 3.1, or None where its condition does not hold.

    Args:
        epsilon_local: The budget of one report.
        n: How many reports.
        delta: The delta allowed.
    """
    if epsilon_local > math.log(n / (16 * math.log(2 / delta))):
        return None
    spread = math.exp(epsilon_local) / n
    clones = 8 * math.sqrt(spread * math.log(4 / delta)) + 8 * spread
    return math.log1p(math.tanh(epsilon_local / 2) * clones)


def _upper_tails(trials: Floats, start: Floats) -> Floats:
    """Return Pr[Bin(c, 1/2) >= k] along consecutive c, where k rises by 0 or 1 with c.

    The largest c is summed; from there one coin is taken away at a time, with
    Pr[Bin(c+1) >= k] = Pr[Bin(c) >= k] + Pr[Bin(c) = k-1] / 2.
    """
    top, first = trials[-1], start[-1]
    reach = min(top, first + 8 * math.sqrt(top) + 64)
    # Terms beyond the reach are left out: a tail too small makes delta too large, never too small.
    anchor = probabilities(np.arange(first, reach + 1), top, 0.5).sum()
    half = probabilities(start[1:] - 1, trials[:-1], 0.5) / 2
    changes = np.where(start[:-1] < start[1:], half, -half)
    tails: Floats = anchor + np.concatenate(([0.0], np.cumsum(changes[::-1])))[::-1]
    np.maximum(tails, 0.0, out=tails)
    return tails
