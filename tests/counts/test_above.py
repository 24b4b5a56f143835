"""Shares above bounds and quantiles: right on average, and intervals that hold as they say."""

import numpy as np
import pytest

from rase.counts.above import quantile, shares_above
from rase.counts.counts import Counts
from rase.counts.estimate import Estimate
from rase.domain import Categories, between_bounds
from rase.kernels.words import SeededRandom
from rase.laws.response import BlockDesign, CategoryRandomizer, RandomizedResponse

BINS = Categories(between_bounds(range(1, 9)))
READINGS = np.repeat(np.arange(9), [300, 50, 200, 150, 100, 100, 60, 30, 10])
# Of each bound, and of the readings at or above it.
TRUTH = np.array([(place <= READINGS).mean() for place in range(1, 9)])
KINDS = (RandomizedResponse(3.0, BINS), BlockDesign(1.0, BINS))


def drawn(randomizer: CategoryRandomizer, seed: int) -> Counts:
    """Return the counts of one round."""
    return Counts.of(randomizer.draw_many(READINGS.tolist(), rng=SeededRandom(seed)))


@pytest.mark.parametrize("randomizer", KINDS, ids=lambda one: one.name)
def test_shares_above_are_unbiased_and_their_intervals_hold(
    randomizer: CategoryRandomizer,
) -> None:
    """Over 300 rounds: means within 5 errors, 93 to 97.5 % of 2,400 intervals hold the truth.

    A share of 95 % of 2,400 that go together in eights would be outside by chance once in 1,000.
    """
    rounds = [shares_above(drawn(randomizer, seed), randomizer=randomizer) for seed in range(300)]
    values = np.array([[one.value for one in found] for found in rounds])
    errors = np.array([[one.standard_error for one in found] for found in rounds])
    assert (np.abs(values.mean(axis=0) - TRUTH) < 5 * errors.mean(axis=0) / np.sqrt(300)).all()
    # What is stated is what they scatter by, not more than a tenth off.
    assert np.abs(errors.mean(axis=0) / values.std(axis=0) - 1).max() < 0.2
    held = np.mean(
        [
            low <= truth <= high
            for found in rounds
            for one, truth in zip(found, TRUTH, strict=True)
            for low, high in [one.interval()]
        ]
    )
    assert 0.93 < held < 0.975


@pytest.mark.parametrize("randomizer", KINDS, ids=lambda one: one.name)
def test_quantiles_lie_where_they_are_said_to(randomizer: CategoryRandomizer) -> None:
    """The median is a reading of 2, so between the bounds 2 and 3: 95 % of 300 rounds hold it."""
    bounds = list(range(1, 9))
    held = 0
    for seed in range(300):
        above = shares_above(drawn(randomizer, seed), randomizer=randomizer)
        low, high = quantile(bounds, above, 0.5)
        held += (low is None or low <= 2) and (high is None or high >= 3)
    assert held >= 0.93 * 300


def test_budgets_of_a_round_are_put_together() -> None:
    """Devices that differ in their budget each count by their own law."""
    randomizer = RandomizedResponse((1.0, 4.0), BINS)
    places = np.concatenate(
        [
            RandomizedResponse(epsilon, BINS).draw_many(READINGS.tolist(), rng=SeededRandom(7))
            for epsilon in (1.0, 4.0)
        ]
    )
    counts = Counts.of(places, epsilon=np.repeat([1.0, 4.0], len(READINGS)))
    for one, truth in zip(shares_above(counts, randomizer=randomizer), TRUTH, strict=True):
        assert abs(one.value - truth) < 5 * one.standard_error


def test_a_quantile_beyond_all_bounds_has_an_open_end() -> None:
    """Above the highest bound, below the lowest; and a share that is none is refused."""
    found = [Estimate(0.99, 0.001, n=9, method="m", target="t")]
    assert quantile([5.0], found, 0.5) == (5.0, None)
    assert quantile([5.0], found, 0.001) == (None, 5.0)
    for share in (0.0, 1.0):
        with pytest.raises(ValueError, match="between 0 and 1"):
            quantile([5.0], found, share)


def test_a_wrong_end_needs_a_wrong_answer_next_to_it() -> None:
    """A bound farther on that looks sure by chance changes nothing."""
    found = [Estimate(value, 0.01, n=9, method="m", target="t") for value in (0.5, 0.9, 0.1)]
    assert quantile([1, 2, 3], found, 0.5) == (None, 3)
