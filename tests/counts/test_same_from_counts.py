"""Every estimator says the same of counts and of the reports themselves, in any order."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.cases import each_case

from rase import (
    BudgetAware,
    Counts,
    Duchi,
    Hybrid,
    Laplace,
    Optimal,
    Precision,
    Range,
    SeededRandom,
    SquareWave,
    count,
    histogram,
    quantiles,
    total,
    unbiased_mean,
    variance,
)
from rase.arrays import Floats
from rase.counts.mean import combined_mean
from rase.counts.paper import median
from rase.counts.registry import ESTIMATORS, estimator_named
from rase.laws.randomizer import RangeRandomizer

PUBLIC = Range(-50, 150)
PRECISION = Precision(beta=0.5, rho=0.9)
LAWS: list[RangeRandomizer] = [
    BudgetAware(1.0, PUBLIC, PRECISION),
    Laplace(1.0, PUBLIC),
    Duchi(1.0, PUBLIC),
    Hybrid(4.0, PUBLIC),
    Optimal(2.0, PUBLIC),
    SquareWave(1.0, PUBLIC),
]
READINGS = np.random.default_rng(2026).uniform(-50, 150, 200)
BUDGETS = np.resize([0.5, 1.0, 4.0, 1.0], READINGS.size)
MIXED: list[RangeRandomizer] = [
    BudgetAware(tuple(BUDGETS.tolist()), PUBLIC, PRECISION),
    Laplace(tuple(BUDGETS.tolist()), PUBLIC),
    Duchi(tuple(BUDGETS.tolist()), PUBLIC),
    Hybrid(tuple(BUDGETS.tolist()), PUBLIC),
]


@dataclass(frozen=True)
class Round:
    """One round: its reports in two orders, their budgets likewise, and its counts."""

    reports: tuple[Floats, Floats]
    budgets: tuple[Floats | None, Floats | None]
    counts: Counts


def drawn(randomizer: RangeRandomizer) -> Round:
    """Draw a round, and mix its reports up."""
    order = np.random.default_rng(1).permutation(READINGS.size)
    places = randomizer.draw_many(READINGS, rng=SeededRandom(3))
    reports = randomizer.values_of(places)
    if not isinstance(randomizer.epsilon, tuple):
        return Round((reports, reports[order]), (None, None), Counts.of(places))
    counts = Counts.of(places[order], epsilon=BUDGETS[order])
    return Round((reports, reports[order]), (BUDGETS, BUDGETS[order]), counts)


@each_case("randomizer", [*LAWS, *MIXED])
@pytest.mark.parametrize("name", [*ESTIMATORS, "combined_mean"])
def test_estimators_of_a_mean(name: str, randomizer: RangeRandomizer) -> None:
    """Reports in either order and their counts give one estimate, to the last bit."""
    estimator = combined_mean if name == "combined_mean" else estimator_named(name)
    one = drawn(randomizer)
    told = estimator(one.counts, randomizer=randomizer, rng=SeededRandom(2))
    assert told.n == READINGS.size
    assert name in (told.method, "tracked")
    for reports, budgets in zip(one.reports, one.budgets, strict=True):
        found = estimator(reports, randomizer=randomizer, epsilon=budgets, rng=SeededRandom(2))
        assert found == told


Told = Callable[[Any, RangeRandomizer], object]


@each_case("randomizer", [law for law in LAWS if not isinstance(law, Duchi)])
@each_case(
    "function",
    [
        lambda given, law: total(given, randomizer=law, fleet=400),
        lambda given, law: total(given, randomizer=law, participation=0.5),
        lambda given, law: variance(given, randomizer=law),
        lambda given, law: count(given, randomizer=law),
        lambda given, law: count(given, randomizer=law, above=20, rng=SeededRandom(1)),
        lambda given, law: histogram(given, randomizer=law, bins=4, rng=SeededRandom(1)),
        lambda given, law: quantiles(given, [0.2, 0.5], randomizer=law, rng=SeededRandom(1)),
    ],
)
def test_other_aggregates(function: Told, randomizer: RangeRandomizer) -> None:
    """Sums, counts, variances and distributions likewise."""
    one = drawn(randomizer)
    told = function(one.counts, randomizer)
    assert [function(reports, randomizer) for reports in one.reports] == [told, told]


@each_case("randomizer", MIXED)
def test_aggregates_of_several_budgets(randomizer: RangeRandomizer) -> None:
    """Counts hold the budgets that reports are given with."""
    one = drawn(randomizer)
    asked: list[Callable[..., object]] = [total]
    if not isinstance(randomizer, Duchi | Hybrid):
        asked.append(variance)
    for function in asked:
        told = function(one.counts, randomizer=randomizer)
        for reports, budgets in zip(one.reports, one.budgets, strict=True):
            assert function(reports, randomizer=randomizer, epsilon=budgets) == told


def test_the_median_takes_its_weights_from_the_budgets() -> None:
    """Scales follow from budgets; given as scales they weigh the same."""
    laplace = MIXED[1]
    one = drawn(laplace)
    by_scales = median(one.reports[0], PUBLIC.width / BUDGETS)
    told = median(one.counts, randomizer=laplace)
    assert told.value == by_scales.value
    assert told.standard_error == pytest.approx(by_scales.standard_error, rel=1e-9)
    assert told.target == "weighted median of the reports"
    with pytest.raises(ValueError, match="randomizer must be given with counts or budgets"):
        median(one.counts)
    with pytest.raises(ValueError, match="randomizer must be given with counts or budgets"):
        median(one.reports[0], epsilon=BUDGETS)


def test_a_large_round_is_its_counts() -> None:
    """Counts of a million reports say what the reports do, within the rounding of sums."""
    law = Hybrid(2.0, PUBLIC)
    places = law.draw_many(np.resize(READINGS, 1_000_000), rng=SeededRandom(4))
    counts = Counts.of(places)
    assert counts.places.size < 20_000
    found = unbiased_mean(counts, randomizer=law)
    decoded = law.decode_places(places)
    assert found.value == pytest.approx(decoded.mean(), rel=1e-9)
    assert found.n == 1_000_000
