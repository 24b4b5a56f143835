"""A simulated observer of shuffled rounds: what the sentences say of it is true, and no weaker.

It knows every other reading and both candidate readings of one contributor, and decides by the
likelihood ratio of the whole round. False alarms: none by chance, as the seed is fixed; at any seed
fewer than one in 1e9, because frequencies are compared with six standard errors.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.cases import each_case

from rase import Optimal, Range
from rase.accounting.accountant.claims import claims
from rase.accounting.blanket import channel_of
from rase.accounting.lower_bounds import LikelihoodObserver

Floats = NDArray[np.float64]
PUBLIC = Range(0, 1)
ROUNDS = 400_000
ERRORS = 6.0


@dataclass(frozen=True)
class Rounds:
    """The log-odds of the truth in simulated rounds, half of them of either reading."""

    log_odds: Floats

    @property
    def guess(self) -> float:
        """How often the likelier reading is the true one; ties count half."""
        return float((self.log_odds > 0).mean() + (self.log_odds == 0).mean() / 2)

    def surer_than(self, certainty: float) -> float:
        """Return how often the observer is surer than this, rightly or wrongly."""
        limit = math.log(certainty / (1 - certainty))
        return float((np.abs(self.log_odds) > limit).mean())

    def delta(self, epsilon: float) -> float:
        """Return the empirical divergence at an epsilon, from rounds of the first reading."""
        gains = -np.expm1(epsilon - self.log_odds)
        return float(np.maximum(gains, 0.0).mean())


def observed(law: Optimal, n: int, others: str, *, seed: int) -> Rounds:
    """Simulate rounds, with reports grouped by what they say of the two readings."""
    channel = channel_of(law)
    crowd = {"end": channel.low, "quarter": channel.quarter, "middle": channel.middle}[others]
    assert crowd is not None
    keys = np.round(np.stack([channel.low / crowd, channel.high / crowd]), 9)
    kinds, group = np.unique(keys, axis=1, return_inverse=True)
    pooled = [
        np.bincount(group.ravel(), weights=row, minlength=kinds.shape[1])
        for row in (channel.low, channel.high, crowd)
    ]
    rng = np.random.default_rng(seed)
    found = []
    for truth, own in enumerate(pooled[:2]):
        counts = rng.multinomial(n - 1, pooled[2] / pooled[2].sum(), ROUNDS // 2)
        counts += rng.multinomial(1, own / own.sum(), ROUNDS // 2)
        first, second = counts @ kinds[0], counts @ kinds[1]
        log_odds = np.log(first / second)
        found.append(log_odds if truth == 0 else -log_odds)
    return Rounds(np.concatenate(found))


@each_case("epsilon", [1.0, 3.32])
def test_the_sentence_of_a_round_is_true_and_sharp(epsilon: float) -> None:
    """The best guess is right as often as stated and not more, and certainties hold."""
    law, n = Optimal(epsilon, PUBLIC), 1000
    (claim,) = claims(law, n, delta=1e-6, reports=1)
    error = ERRORS * 0.5 / math.sqrt(ROUNDS)
    best = 0.0
    for seed, others in enumerate(("end", "quarter", "middle")):
        rounds = observed(law, n, others, seed=seed)
        assert rounds.guess <= claim.guess + error
        for one_in in (100, 1000):
            passed = rounds.surer_than(claim.surer(one_in))
            assert passed <= 1 / one_in + ERRORS * math.sqrt(1 / one_in / ROUNDS)
        best = max(best, rounds.guess)
    assert best >= claim.guess - error


@each_case("delta", [1e-2, 1e-3])
def test_the_empirical_delta_is_that_of_the_attack_and_not_above_the_claim(delta: float) -> None:
    """At the epsilon stated for a delta the observer achieves about the attack's, and no more."""
    law, n = Optimal(3.32, PUBLIC), 1000
    (claim,) = claims(law, n, delta=delta, reports=1)
    rounds = observed(law, n, "middle", seed=7)
    found = rounds.delta(claim.epsilon)
    channel = channel_of(law)
    attack = LikelihoodObserver(channel.low, channel.high, channel.middle, n).delta(claim.epsilon)
    # Gains are below 1 and occur in a share of about four times delta.
    error = ERRORS * math.sqrt(0.5 * delta / ROUNDS)
    assert found <= delta + error
    assert found == pytest.approx(attack, rel=0.1, abs=error)


def test_the_sentence_of_a_day_is_true() -> None:
    """Log-odds of 24 rounds add up; the day's guess and certainties are not exceeded."""
    law, n = Optimal(1.0, PUBLIC), 1000
    (claim,) = claims(law, n, delta=1e-6, reports=[24])
    rounds = observed(law, n, "end", seed=5).log_odds
    days = Rounds(rounds[: ROUNDS // 24 * 24].reshape(-1, 24).sum(axis=1))
    error = ERRORS * 0.5 / math.sqrt(ROUNDS / 24)
    assert 0.5 + error / 3 < days.guess <= claim.guess + error
    for one_in in (100, 1000):
        passed = days.surer_than(claim.surer(one_in))
        assert passed <= 1 / one_in + ERRORS * math.sqrt(24 / one_in / ROUNDS)


def test_a_law_with_a_third_more_epsilon_breaks_the_sentence() -> None:
    """Claims of a law with less epsilon than is drawn are noticed by the same comparison."""
    (claim,) = claims(Optimal(3.32 / 1.3, PUBLIC), 1000, delta=1e-6, reports=1)
    rounds = observed(Optimal(3.32, PUBLIC), 1000, "middle", seed=3)
    assert rounds.guess > claim.guess + ERRORS * 0.5 / math.sqrt(ROUNDS)
    assert rounds.surer_than(claim.surer(1000)) > 1e-3 + ERRORS * math.sqrt(1e-3 / ROUNDS)
