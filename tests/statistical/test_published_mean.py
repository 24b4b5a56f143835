"""A simulated observer of one published mean a round: what is stated of it holds, and is of use.

It knows all other readings, which are alike, and holds each mean to its two exact laws. False
alarms: none by chance, as the seed is fixed; at any seed rarer than six standard errors.
"""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from rase import Optimal, Range, SeededRandom
from rase.accounting.accountant.mean import mean_profile
from rase.accounting.blanket import channel_of
from rase.accounting.lower_bounds import LikelihoodObserver
from rase.accounting.plan.promises import plan_promises
from rase.counts.mean import lattice_mean

Floats = NDArray[np.float64]
PUBLIC, N, PLACES, ROUNDS = Range(0, 3000), 200, 16, 3000
LAW = Optimal(3.3, PUBLIC)
# A delta that some thousand rounds show.
DELTA = 1e-2
ERRORS = 6.0
SIZE = 1 << 15


def law_of_total(own: float, others: float) -> Floats:
    """Return the exact law of a round's sum of rounded values, around a cycle."""
    table = LAW.law(3.3)

    def spectrum(reading: float) -> NDArray[np.complex128]:
        weights = table.weights(PUBLIC.spot(reading)[0])
        places = np.array(sorted(weights), dtype=np.int64)
        chances = np.array([weights[place] / 2**64 for place in places.tolist()])
        exact = table.decode(places) * PLACES / PUBLIC.steps
        below = np.floor(exact).astype(np.int64)
        up = exact - below
        found = np.bincount(below % SIZE, weights=chances * (1 - up), minlength=SIZE)
        found += np.bincount((below + 1) % SIZE, weights=chances * up, minlength=SIZE)
        return np.fft.rfft(found)

    sums = np.fft.irfft(spectrum(own) * spectrum(others) ** (N - 1), SIZE)
    return np.asarray(np.maximum(sums, 0.0))


def published(own: float, others: float, *, seed: int) -> NDArray[np.int64]:
    """Draw rounds, publish the mean of each, and return it as the sum that it is of."""
    rng = SeededRandom(seed)
    readings = np.full((ROUNDS, N), others)
    readings[:, 0] = own
    reports = LAW.randomize(readings, rng=rng)
    means = [lattice_mean(row, randomizer=LAW, places=PLACES, rng=rng) for row in reports]
    totals = (np.array(means) - PUBLIC.low) / PUBLIC.width * PLACES * N
    assert np.abs(totals - np.rint(totals)).max() < 1e-6
    return np.asarray(np.rint(totals).astype(np.int64) % SIZE)


def test_the_observer_of_a_mean_learns_no_more_than_is_stated() -> None:
    """Its guesses are as good as its exact laws say, and within the bound; so is its delta."""
    profile = mean_profile(LAW, N, delta=DELTA, places=PLACES)
    epsilon = profile.epsilon(DELTA)
    assert profile.delta(epsilon) <= DELTA < profile.delta(0.98 * epsilon)
    low, high = (law_of_total(own, PUBLIC.low) for own in (PUBLIC.low, PUBLIC.high))
    attack = (1 + float(np.maximum(low - high, 0.0).sum())) / 2
    assert attack <= (1 + profile.delta(0.0)) / 2
    right, gains = 0.0, []
    for own, seed, likely, unlikely in ((PUBLIC.low, 1, low, high), (PUBLIC.high, 2, high, low)):
        totals = published(own, PUBLIC.low, seed=seed)
        odds = likely[totals] / unlikely[totals]
        right += float((odds > 1).mean() + (odds == 1).mean() / 2) / 2
        gains.append(float(np.maximum(1 - math.exp(epsilon) / odds, 0.0).mean()))
    error = ERRORS * 0.5 / math.sqrt(2 * ROUNDS)
    assert right == pytest.approx(attack, abs=error)
    assert max(gains) <= DELTA + ERRORS * math.sqrt(DELTA / ROUNDS)


def test_the_same_number_would_be_false_of_all_shuffled_reports() -> None:
    """Whoever sees the reports has more than delta at the epsilon of their mean."""
    epsilon = mean_profile(LAW, N, delta=DELTA, places=PLACES).epsilon(DELTA)
    channel = channel_of(LAW)
    observer = LikelihoodObserver(channel.low, channel.high, channel.middle, N)
    assert observer.delta(epsilon) > 1.02 * DELTA


def test_plans_state_it_to_whom_it_applies() -> None:
    """For the optimal channel less than for all reports, for bits the same, for Laplace nothing."""
    plan = plan_promises(
        PUBLIC, devices=400, k_min=300, colluding=100, local_epsilon=3.3, published_mean=True
    )
    assert plan.published is not None
    assert plan.published.epsilon == mean_profile(LAW, N).epsilon(1e-6)
    assert plan.published.epsilon < 0.99 * plan.spans[0][1].epsilon
    assert "rounded at random to a multiple of 1/64 of the range: (" in plan.published.sentence
    found = plan.to_dict()["published_mean"]
    assert (found["places"], found["sentence"]) == (64, plan.published.sentence)

    bits = plan_promises(PUBLIC, devices=400, local_epsilon=0.2, published_mean=True)
    assert bits.published is not None
    assert bits.published.epsilon == bits.spans[0][1].epsilon
    assert "the mean of bits says all that they say" in bits.published.sentence

    with pytest.raises(ValueError, match="mechanism must be optimal or duchi for a published mean"):
        plan_promises(
            PUBLIC, devices=400, local_epsilon=1.0, mechanism="laplace", published_mean=True
        )
