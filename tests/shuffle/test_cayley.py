import itertools
import math

import numpy as np
import pytest
from tests.cases import each_case

from rase.shuffle.cayley import CayleyMallows, cayley_distance, cayley_sensitivity
from rase.shuffle.partition import Partition


@each_case("theta", [0.0, 0.5, 3.0])
@each_case("n", range(1, 6))
def test_probabilities_add_up_to_one(n: int, theta: float) -> None:
    """Z = Π(1 + jq) normalises the weights q^d over all orders."""
    law = CayleyMallows(n, theta)
    logs = [law.log_probability(order) for order in itertools.permutations(range(n))]
    assert math.fsum(math.exp(log) for log in logs) == pytest.approx(1, rel=1e-12)


def test_the_distance_counts_interchanges() -> None:
    """One interchange is distance 1 wherever it happens; a full cycle is farthest."""
    assert cayley_distance([0, 1, 2, 3], [3, 1, 2, 0]) == 1
    assert cayley_distance([1, 2, 3, 0], [0, 1, 2, 3]) == 3
    assert cayley_distance([2, 0, 1], [2, 0, 1]) == 0


def test_at_infinite_theta_nothing_moves() -> None:
    """The identity is certain."""
    law = CayleyMallows(4, math.inf)
    assert law.sample().tolist() == [0, 1, 2, 3]
    assert law.log_probability([0, 1, 2, 3]) == 0
    assert law.log_probability([0, 1, 3, 2]) == -math.inf


@each_case("n", range(1, 6))
def test_sensitivity_is_group_size_less_one(n: int) -> None:
    """Enumeration of all rearrangements of every partition finds |G| - 1, and the sum for all."""
    for labels in itertools.product(range(n), repeat=n):
        partition = Partition(labels)
        largest = []
        for group in partition.groups:
            orders = []
            for image in itertools.permutations(group):
                order = np.arange(n)
                order[list(group)] = image
                orders.append(cayley_distance(order, np.arange(n)))
            largest.append(max(orders))
        assert cayley_sensitivity(partition) == max(largest)
        assert cayley_sensitivity(partition, changing="all") == sum(largest)


def test_unknown_neighbours_are_refused() -> None:
    """The error says what is allowed."""
    with pytest.raises(ValueError, match='changing must be "one" or "all"'):
        cayley_sensitivity(Partition([0]), changing="some")  # type: ignore[arg-type]
