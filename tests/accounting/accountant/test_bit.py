"""Shuffled bits: the exact maximum over all readings of the others."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from tests.cases import each_case

from rase import Duchi, Hybrid, Optimal, Range
from rase.accounting.accountant.bit import BIT_THEOREM, BitProfile
from rase.accounting.accountant.pair import Pair
from rase.accounting.accountant.rounds import shuffled_pair
from rase.accounting.amplification import amplify

PUBLIC = Range(0, 1)


def summed(local: float, n: int, epsilon: float) -> float:
    """Return the largest divergence over all numbers of others at the high end, by convolution."""
    flip, best = 1 / (1 + math.exp(local)), 0.0
    for high in range(n):
        low = n - 1 - high
        others = np.convolve(
            stats.binom.pmf(np.arange(high + 1), high, 1 - flip),
            stats.binom.pmf(np.arange(low + 1), low, flip),
        )
        first, second = (np.convolve(others, own) for own in ([flip, 1 - flip], [1 - flip, flip]))
        best = max(best, float(np.maximum(first - math.exp(epsilon) * second, 0).sum()))
    return best


@each_case(("local", "n"), [(1.0, 2), (1.0, 20), (2.0, 60), (0.5, 100), (3.0, 30)])
@each_case("share", [0.0, 0.1, 0.3, 0.6])
def test_the_profile_is_the_worst_of_all_compositions(local: float, n: int, share: float) -> None:
    """A sum over every number of others gives the same within a millionth, and never more."""
    exact = summed(local, n, share * local)
    found = BitProfile(local, n, delta=1e-6).delta(share * local)
    assert exact * (1 - 1e-12) <= found <= exact * (1 + 1e-6) + 1e-19


def test_two_rounds_in_fractions_are_below_the_bound() -> None:
    """Three bits, two rounds, all others and all orders, without any rounding."""
    ratio = Fraction(3)
    flip = 1 / (1 + ratio)
    local = math.log(3)
    bound = Pair(BitProfile(local, 3, delta=1e-3)).compose(2)

    def counts(own: Fraction, high: int) -> list[Fraction]:
        law = [Fraction(1)]
        for chance in [own, *[1 - flip] * high, *[flip] * (2 - high)]:
            law = [
                (law[k] if k < len(law) else 0) * (1 - chance) + (law[k - 1] * chance if k else 0)
                for k in range(len(law) + 1)
            ]
        return law

    largest = 0.0
    for multiple in (Fraction(1), Fraction(3, 2), Fraction(2), Fraction(4)):
        epsilon = math.log(multiple)
        for here in range(3):
            for there in range(3):
                first = [counts(1 - flip, high) for high in (here, there)]
                second = [counts(flip, high) for high in (here, there)]
                for p, q in ((first, second), (second, first)):
                    exact = sum(
                        max(p[0][a] * p[1][b] - multiple * q[0][a] * q[1][b], Fraction(0))
                        for a in range(4)
                        for b in range(4)
                    )
                    assert float(exact) <= bound.delta(epsilon) * (1 + 1e-9)
                    largest = max(largest, float(exact) / bound.delta(epsilon))
    assert largest > 0.95


@each_case(("n", "local", "known"), [(100, 0.5, 0.2029), (1000, 0.5, 0.0569), (1000, 1.0, 0.1268)])
def test_rounds_are_as_small_as_computed_beforehand(n: int, local: float, known: float) -> None:
    """The maximum over the others is 5 to 15 % below the blanket."""
    found = amplify(Duchi(local, PUBLIC), n, delta=1e-6)
    assert found.epsilon == pytest.approx(known, rel=3e-3)
    assert found.theorem == BIT_THEOREM
    assert found.lower_bound <= found.epsilon
    assert found.epsilon < amplify(Duchi(local, PUBLIC), n, delta=1e-6, method="blanket").epsilon


def test_blocks_of_others_cost_little_and_never_too_little() -> None:
    """Joined to blocks, the numbers of others give at most half a percent more than each alone."""
    exact, blocks = BitProfile(0.8, 1000, delta=1e-6), BitProfile(0.8, 1001, delta=1e-6)
    assert exact._tails.shape[0] == 1000
    assert blocks._tails.shape[0] < 400
    one, other = (Pair(profile).epsilon(1e-6) for profile in (exact, blocks))
    assert one * (1 - 1e-3) < other < 1.005 * one
    epsilons = [Pair(BitProfile(0.8, n, delta=1e-6)).epsilon(1e-6) for n in (2000, 20_000, 10**6)]
    assert all(more > less for more, less in pairwise([other, *epsilons]))


def test_mechanisms_that_are_a_bit_at_small_budgets_are_counted_as_one() -> None:
    """Below its ladder Optimal is Duchi's bit, and so is Hybrid up to 0.61."""
    for law in (Duchi(0.2, PUBLIC), Optimal(0.2, PUBLIC), Hybrid(0.2, PUBLIC)):
        assert shuffled_pair(law, 500).theorem == BIT_THEOREM
    assert shuffled_pair(Optimal(0.25, PUBLIC), 500).theorem != BIT_THEOREM
    pair = shuffled_pair(Duchi(1.0, PUBLIC), 500)
    assert pair.delta(0.9999999999999) < 1e-12
    assert pair.profile.delta(1.0) == 0.0


def test_the_worst_others_are_those_of_the_sum() -> None:
    """Others of both ends hide a bit worse than others who are alike; blocks name their first."""
    profile = BitProfile(1.0, 20, delta=1e-6)
    high = profile.worst_others(0.5)
    assert 0 < high < 19
    assert BitProfile(1.0, 5000, delta=1e-6).worst_others(0.05) < 5000


@each_case(("local", "n"), [(0.3, 64), (1.4, 1000), (0.8, 8000)])
def test_what_is_found_near_the_last_answer_is_the_best_of_all(local: float, n: int) -> None:
    """In any sequence of questions the answer is that of a profile that was never asked before."""
    asked = BitProfile(local, n, delta=1e-6)
    for share in (0.0, 0.02, 0.04, 0.5, 0.52, 0.01, 0.9, 0.3):
        fresh = BitProfile(local, n, delta=1e-6)
        assert asked.delta(share * local) == pytest.approx(fresh.delta(share * local), rel=1e-9)
