"""The auxiliary shuffler of Alg. 2 l. 11-15, Lemma 3 and its part in Theorem 3."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from tests.cases import each_case

from rase.kernels.permute import order_from_swaps
from rase.shuffle.permutation import compose

SIZES = range(2, 8)


def loop_outcomes(n: int) -> Counter[tuple[int, ...]]:
    """Run the printed loop for every choice of j in [i+1, n] and count its outcomes."""
    choices = itertools.product(*(range(i + 1, n) for i in range(n - 1)))
    return Counter(tuple(order_from_swaps(np.array([*js, n - 1])).tolist()) for js in choices)


@each_case("n", SIZES)
def test_the_loop_draws_as_many_permutations_as_theorem_3_counts(n: int) -> None:
    """It reaches (n-1)! permutations, each by one way, so an observer finds it by 1/(n-1)!."""
    outcomes = loop_outcomes(n)
    assert len(outcomes) == math.factorial(n - 1)
    assert set(outcomes.values()) == {1}


@pytest.mark.departure(row=1)
@each_case("n", SIZES)
def test_the_loop_is_not_uniform_it_draws_cycles_only(n: int) -> None:
    """All outcomes are n-cycles: (n-1)! of n! permutations, and no report keeps its place."""
    for order in loop_outcomes(n):
        item, length = order[0], 1
        while item:
            item, length = order[item], length + 1
        assert length == n
        assert all(item != place for place, item in enumerate(order))


@pytest.mark.departure(row=1)
def test_two_reports_are_always_interchanged() -> None:
    """At n = 2 the loop has one outcome: nothing is hidden."""
    assert loop_outcomes(2) == Counter({(1, 0): 1})


@pytest.mark.departure(row=1)
@each_case("n", range(2, 7))
def test_theorem_3_fails_orders_of_different_parity_share_no_outcome(n: int) -> None:
    """From arrivals that differ by one swap the releases are disjoint: the loss is infinite."""
    for i, j in itertools.combinations(range(n), 2):
        swapped = np.arange(n)
        swapped[[i, j]] = [j, i]
        releases = {tuple(compose(swapped, order).tolist()) for order in loop_outcomes(n)}
        assert releases.isdisjoint(loop_outcomes(n))


@pytest.mark.departure(row=1)
@each_case("n", SIZES)
def test_the_loop_helps_an_observer_to_more_than_chance(n: int) -> None:
    """Each slot is assigned rightly with probability 1/(n-1) instead of 1/n."""
    orders = np.array(list(loop_outcomes(n)))
    for slot in range(n):
        assert np.bincount(orders[:, slot]).max() / len(orders) == pytest.approx(1 / (n - 1))


@each_case("n", range(1, 7))
def test_drawing_j_from_i_on_is_uniform_and_loses_nothing(n: int) -> None:
    """Fisher and Yates' loop, j in [i, n], reaches all n! permutations once, from any arrival."""
    choices = itertools.product(*(range(i, n) for i in range(n)))
    outcomes = Counter(tuple(order_from_swaps(np.array(js)).tolist()) for js in choices)
    assert len(outcomes) == math.factorial(n)
    assert set(outcomes.values()) == {1}
