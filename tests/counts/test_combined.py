"""Contributors with budgets of their own: weights, error, and what a class hides among."""

import numpy as np
import pytest
from numpy.typing import NDArray

from rase import Duchi, Hybrid, Range, SeededRandom, unbiased_mean
from rase.counts.estimate import Estimate
from rase.counts.mean import combined_mean
from rase.counts.registry import estimator_named

REACH = Range(0, 100)
BUDGETS = (0.5,) * 300 + (2.0,) * 150 + (6.0,) * 50


def told(readings: NDArray[np.float64], seed: int) -> tuple[Estimate, Estimate]:
    """Return the combined and the plain mean of one drawing."""
    randomizer = Hybrid(BUDGETS, REACH)
    noisy = randomizer.randomize(readings, rng=SeededRandom(seed))
    return (
        combined_mean(noisy, randomizer=randomizer, epsilon=BUDGETS),
        unbiased_mean(noisy, randomizer=randomizer, epsilon=BUDGETS),
    )


def test_classes_that_agree_are_combined_by_inverse_variance() -> None:
    """Errors are several times smaller than those of equal weights, and are what they claim.

    Squares of 60 standardized errors average to 1; above 2.1 with probability below 1e-6, and an
    error stated 30 % too small would double them.
    """
    readings = np.full(500, 40.0)
    pairs = [told(readings, seed) for seed in range(1, 61)]
    scores = [((one.value - 40) / one.standard_error) ** 2 for one, _ in pairs]
    assert 0.3 < np.mean(scores) < 2.1
    off, plain = (
        np.sqrt(np.mean([(pair[place].value - 40) ** 2 for pair in pairs])) for place in (0, 1)
    )
    assert off < plain / 2
    best = 1 / np.sqrt(
        sum(
            count / float(Hybrid(budget, REACH).variance(np.array([40.0]))[0])
            for budget, count in ((0.5, 300), (2.0, 150), (6.0, 50))
        )
    )
    # Not knowing that classes agree costs something: weights by inverse variance alone reach best,
    # equal weights are four times worse.
    assert off < 2.5 * best


def test_classes_that_differ_do_not_pull_the_mean() -> None:
    """Where the generous measure something else, the answer stays the mean of all readings."""
    readings = np.array([20.0] * 300 + [50.0] * 150 + [90.0] * 50)
    pairs = [told(readings, seed) for seed in range(1, 41)]
    truth = readings.mean()
    assert abs(np.mean([one.value for one, _ in pairs]) - truth) < 4
    covered = [low <= truth <= high for low, high in (one.interval() for one, _ in pairs)]
    # Of 40 intervals at 95 % fewer than 28 hold the truth with probability below 1e-6.
    assert sum(covered) >= 28


def test_one_budget_is_the_unbiased_mean() -> None:
    """With equal budgets nothing is combined, and without any ``tracked`` takes the plain mean."""
    randomizer = Hybrid(2.0, REACH)
    noisy = randomizer.randomize([10.0, 50.0, 60.0], rng=SeededRandom(1))
    plain = unbiased_mean(noisy, randomizer=randomizer)
    same = combined_mean(noisy, randomizer=randomizer, epsilon=[2.0] * 3)
    assert same.value == pytest.approx(plain.value)
    assert same.standard_error == pytest.approx(plain.standard_error)
    alone = combined_mean(noisy, randomizer=randomizer)
    assert alone.value == pytest.approx(plain.value)
    assert alone.standard_error == pytest.approx(plain.standard_error)
    tracked = estimator_named("tracked")
    assert tracked(noisy, randomizer=randomizer) == plain
    assert tracked(noisy, randomizer=randomizer, epsilon=[2.0] * 3) == same


def test_every_contributor_may_have_a_budget_of_its_own() -> None:
    """Classes of one report are combined too, of mechanisms without squares as well."""
    budgets = tuple(np.linspace(0.5, 3.0, 200))
    randomizer = Duchi(budgets, REACH)
    noisy = randomizer.randomize(np.full(200, 70.0), rng=SeededRandom(2026))
    found = combined_mean(noisy, randomizer=randomizer, epsilon=budgets)
    assert abs(found.value - 70) < 5.5 * found.standard_error
    assert found.n == 200
