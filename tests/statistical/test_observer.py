"""A simulated observer of shuffled rounds: what the sentences say of it is true, and no weaker.

It knows every other reading and both candidate readings of one contributor, and decides by the
likelihood ratio of the whole round, or of all rounds of a day or a month. False alarms: none by
chance, as the seed is fixed; at any seed rare, because frequencies of one round are compared with
six standard errors, and those of spans with Bernstein's inequality at 1e-9.
"""

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.cases import each_case

from rase import Duchi, Optimal, Range
from rase.accounting.accountant.claims import claims
from rase.accounting.blanket import channel_of
from rase.accounting.lower_bounds import LikelihoodObserver
from rase.promise import Claim

Floats = NDArray[np.float64]
PUBLIC = Range(0, 1)
ROUNDS = 400_000
ERRORS = 6.0
# The exponent of a chance of one in 1e9.
RARE = math.log(1e9)
# At this delta a sample of some 1e5 spans sees epsilon; at 1e-6 none would.
SEEN_DELTA = 1e-2


@dataclass(frozen=True)
class Rounds:
    """The log-odds of the truth in simulated rounds or spans, half of them of either reading."""

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


def observed(
    law: Optimal, n: int, others: str, *, seed: int, reports: int = 1, spans: int = ROUNDS
) -> Rounds:
    """Simulate spans of rounds, with reports grouped by what they say of the two readings."""
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
        log_odds = np.zeros(spans // 2)
        for _ in range(reports):
            counts = rng.multinomial(n - 1, pooled[2] / pooled[2].sum(), spans // 2)
            counts += rng.multinomial(1, own / own.sum(), spans // 2)
            log_odds += np.log((counts @ kinds[0]) / (counts @ kinds[1]))
        found.append(log_odds if truth == 0 else -log_odds)
    return Rounds(np.concatenate(found))


def observed_bits(epsilon: float, n: int, *, seed: int, reports: int, spans: int) -> Rounds:
    """Simulate spans of rounds of Duchi's bit, all others at the low end: ones are counted."""
    one = 1 / (1 + math.exp(epsilon))
    ones = np.arange(n + 1)
    # One of the n bits is the contributor's; the others say nothing of the two readings.
    high = (n - ones) * one / (1 - one) + ones * (1 - one) / one
    table = np.log(n / high)
    rng = np.random.default_rng(seed)
    found = []
    for sign, own in ((1, one), (-1, 1 - one)):
        log_odds = np.zeros(spans // 2)
        for _ in range(reports):
            own_bits = rng.random(spans // 2) < own
            log_odds += table[rng.binomial(n - 1, one, spans // 2) + own_bits]
        found.append(sign * log_odds)
    return Rounds(np.concatenate(found))


def refuted(claim: Claim, seen: Rounds) -> set[str]:
    """Return the numbers of a claim that simulated spans are beyond, chance aside."""
    n = len(seen.log_odds)

    def margin(mean: float) -> float:
        """Return how far n values in [0, 1] exceed their mean once in 1e9 (Bernstein)."""
        return math.sqrt(2 * RARE * mean / n) + 2 * RARE / (3 * n)

    found = {
        "guess": seen.guess > claim.guess + margin(claim.guess * (1 - claim.guess)),
        "epsilon": seen.delta(claim.epsilon) > claim.delta + margin(claim.delta),
        "loss_in_100": seen.surer_than(claim.surer(100)) > 1 / 100 + margin(1 / 100),
        "loss_in_1000": seen.surer_than(claim.surer(1000)) > 1 / 1000 + margin(1 / 1000),
    }
    return {name for name, is_beyond in found.items() if is_beyond}


def shrunk(claim: Claim, name: str, fault: float) -> Claim:
    """Return a claim with one number too small by a share; of a guess, what is beyond a coin."""
    least = 0.5 if name == "guess" else 0.0
    smaller = least + (1 - fault) * (getattr(claim, name) - least)
    in_100 = min(claim.loss_in_100, smaller) if name == "loss_in_1000" else claim.loss_in_100
    return replace(claim, **{"loss_in_100": in_100, name: smaller})


@cache
def span(name: str) -> tuple[Claim, Rounds]:
    """Return the claim of a day of 24 or a month of 720 reports, and such spans, simulated."""
    if name == "day":
        law, reports = Optimal(3.32, PUBLIC), 24
        seen = observed(law, 1000, "middle", seed=11, reports=reports, spans=160_000)
        (claim,) = claims(law, 1000, delta=SEEN_DELTA, reports=[reports])
    else:
        reports = 720
        seen = observed_bits(1.5, 1000, seed=12, reports=reports, spans=80_000)
        (claim,) = claims(Duchi(1.5, PUBLIC), 1000, delta=SEEN_DELTA, reports=[reports])
    return claim, seen


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


@pytest.mark.uncovered
@pytest.mark.parametrize("name", ["day", "month"])
def test_the_sentence_of_a_span_is_true(name: str) -> None:
    """Log-odds of rounds add up; no number that a day or a month states is exceeded."""
    claim, seen = span(name)
    assert refuted(claim, seen) == set()


@pytest.mark.uncovered
@pytest.mark.parametrize(
    ("name", "number", "fault"),
    [
        ("day", "guess", 0.05),
        ("day", "epsilon", 0.05),
        ("day", "loss_in_100", 0.2),
        ("day", "loss_in_1000", 0.2),
        ("month", "guess", 0.05),
        ("month", "epsilon", 0.06),
        ("month", "loss_in_100", 0.15),
        ("month", "loss_in_1000", 0.15),
    ],
)
def test_a_composed_claim_that_is_too_small_is_refuted(
    name: str, number: str, fault: float
) -> None:
    """5 or 6 % are noticed in guess and epsilon; more in certainties, whose bounds have slack."""
    claim, seen = span(name)
    assert refuted(shrunk(claim, number, fault), seen) == {number}


def test_a_law_with_a_third_more_epsilon_breaks_the_sentence() -> None:
    """Claims of a law with less epsilon than is drawn are noticed by the same comparison."""
    (claim,) = claims(Optimal(3.32 / 1.3, PUBLIC), 1000, delta=1e-6, reports=1)
    rounds = observed(Optimal(3.32, PUBLIC), 1000, "middle", seed=3)
    assert rounds.guess > claim.guess + ERRORS * 0.5 / math.sqrt(ROUNDS)
    assert rounds.surer_than(claim.surer(1000)) > 1e-3 + ERRORS * math.sqrt(1e-3 / ROUNDS)
