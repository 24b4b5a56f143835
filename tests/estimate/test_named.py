"""Estimators by their names: the same numbers as their functions, and unknown names refused."""

import numpy as np
import pytest

from rase.estimate.mean import bootstrap_mean, median, sample_mean, unbiased_mean
from rase.estimate.named import ESTIMATORS, estimator_named
from rase.kernels.words import SeededRandom
from rase.randomize.budget_aware import Laplace
from rase.stream import ValueRange


def test_named_estimators_agree_with_their_functions() -> None:
    """The uniform form changes nothing, and hands budgets and randomness on."""
    budgets = np.array([1.0, 1.0, 2.0, 4.0])
    randomizer = Laplace(tuple(budgets.tolist()), ValueRange(-50, 150))
    reports = randomizer.randomize([0.0, 10.0, 20.0, 30.0], rng=SeededRandom(1))
    done = {
        name: one(reports, randomizer=randomizer, epsilon=budgets, rng=SeededRandom(2))
        for name, one in ESTIMATORS.items()
    }
    assert done == {
        "unbiased_mean": unbiased_mean(reports, randomizer=randomizer, epsilon=budgets),
        "sample_mean": sample_mean(reports),
        "median": median(reports, 200 / budgets),
        "bootstrap_mean": bootstrap_mean(reports, rng=SeededRandom(2)),
    }
    assert all(one.method == name for name, one in done.items())
    plain = estimator_named("median")(reports, randomizer=randomizer)
    assert plain == median(reports)


def test_unknown_names_are_refused_with_the_nearest() -> None:
    """The refusal lists the names, and the nearest if there is one."""
    with pytest.raises(ValueError, match="did you mean unbiased_mean"):
        estimator_named("unbiased-mean")
    with pytest.raises(ValueError, match=r"one of auto, unbiased_mean, .* got 'xyz'\.$"):
        estimator_named("xyz")
