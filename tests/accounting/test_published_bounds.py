"""Our amplification numbers against the published formulas, derived again."""

import math
from functools import cache

import numpy as np
import pytest
from benchmarks.published import (
    LAPLACE,
    bennett,
    clone_program,
    clone_sum,
    clone_theorem,
    hoeffding,
)
from tests.cases import each_case

from rase import Duchi, Hybrid, Laplace, Piecewise, Range
from rase.accounting.amplification import amplify
from rase.accounting.composition import compose_shuffled

DELTA = 1e-6
BUDGETS = (0.1, 0.5, 1.0, 2.0, 4.0)
PUBLIC = Range(0, 1)
# Where less than a thousandth is gained the local epsilon stays, which needs no delta.
KEPT_LOCAL = 1.001
# What the exact sum may differ from brute force: rounding up, and the search for epsilon.
EXACT = 2e-6


@cache
def wanted(budget: float, n: int, delta: float) -> float:
    """Return the clone pair's epsilon by brute force, once for all that is compared with it."""
    return clone_sum(budget, n, delta=delta)


def is_the_sum(found: float, budget: float, n: int, delta: float) -> bool:
    """Tell whether an epsilon is the clone pair's, to two millionths and never below."""
    return -1e-9 < found / wanted(budget, n, delta) - 1 < EXACT


@pytest.mark.uncovered
@each_case("n", [64, 1000, 20_000])
@each_case("budget", [0.1, 0.5, 1.0])
def test_the_generic_bound_is_the_published_sum(budget: float, n: int) -> None:
    """It is the sum of Theorem 3.2 to six digits; a report more or half the delta is noticed."""
    found = amplify(budget, n, delta=DELTA).epsilon
    assert is_the_sum(found, budget, n, DELTA)
    assert not is_the_sum(amplify(budget, n + 1, delta=DELTA).epsilon, budget, n, DELTA)
    assert not is_the_sum(amplify(budget, n - 1, delta=DELTA).epsilon, budget, n, DELTA)
    assert not is_the_sum(amplify(budget, n, delta=2 * DELTA).epsilon, budget, n, DELTA)
    assert not is_the_sum(amplify(budget, n, delta=DELTA / 2).epsilon, budget, n, DELTA)


@pytest.mark.uncovered
@each_case("n", [64, 1000, 10**5, 10**6])
@each_case("budget", BUDGETS)
def test_the_generic_bound_is_tighter_than_the_published_ones(budget: float, n: int) -> None:
    """Lower bounds, ours, the published program, the theorem: each is at most the next."""
    ours = amplify(budget, n, delta=DELTA)
    step = 1 if n < 10**4 else 100
    rounded_down = clone_program(budget, n, delta=DELTA, step=step, is_upper=False)
    rounded_up = clone_program(budget, n, delta=DELTA, step=step)
    theorem = clone_theorem(budget, n, delta=DELTA)
    assert ours.lower_bound <= ours.epsilon
    # The search of the program ends up to a millionth above its own answer.
    assert rounded_down <= ours.epsilon * (1 + 2e-6)
    assert ours.epsilon <= KEPT_LOCAL * rounded_up
    assert rounded_up <= theorem
    assert ours.epsilon <= KEPT_LOCAL * hoeffding(budget, n, delta=DELTA)
    assert ours.epsilon <= KEPT_LOCAL * bennett(budget, n, delta=DELTA)


@pytest.mark.uncovered
@each_case("n", [64, 1000, 10**5, 10**6])
@pytest.mark.parametrize("budget", BUDGETS)
def test_the_blanket_is_tighter_than_its_closed_forms(budget: float, n: int) -> None:
    """Lower bound, ours, Bennett's and Hoeffding's inequality for the same noise."""
    ours = amplify(Laplace(budget, PUBLIC), n, delta=DELTA, method="blanket")
    by_bennett = bennett(budget, n, delta=DELTA, moments=LAPLACE)
    by_hoeffding = hoeffding(budget, n, delta=DELTA, moments=LAPLACE)
    assert ours.lower_bound <= ours.epsilon <= KEPT_LOCAL * min(by_bennett, by_hoeffding)
    if n >= 1000 and budget >= 0.5:
        # Bennett's inequality knows the variance. It pays only where sums are nearly normal.
        assert by_bennett <= by_hoeffding
    if n >= 1000 and budget <= 2:
        # They are not far off, either: a bound wrong by the factor 2 would leave this corridor.
        assert 0.5 * by_bennett < ours.epsilon < 0.9 * by_bennett


@pytest.mark.uncovered
def test_no_bound_is_below_the_proven_one() -> None:
    """On a grid and at 40 random settings no number is below what an observer achieves."""
    found = [
        amplify(budget, n, delta=delta)
        for budget in (0.05, 0.3, 1.0, 3.0, 8.0)
        for n in (2, 3, 10, 64, 1000, 10**4)
        for delta in (1e-2, 1e-6, 1e-10)
    ]
    kinds = (Laplace, Duchi, Piecewise, Hybrid)
    rng = np.random.default_rng(2026)
    for place in range(20):
        budget = float(np.exp(rng.uniform(math.log(0.05), math.log(8))))
        n = int(np.exp(rng.uniform(math.log(2), math.log(1000))))
        delta = float(10 ** rng.uniform(-12, -2))
        found.append(amplify(kinds[place % 4](budget, PUBLIC), n, delta=delta))
        found.append(compose_shuffled(budget, n, rounds=1 + 2 * place, delta=delta))
    assert min(one.epsilon - one.lower_bound for one in found) >= 0
    assert sum(one.lower_bound > 0 for one in found) > 100
