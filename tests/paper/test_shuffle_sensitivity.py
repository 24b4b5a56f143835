"""Group width and sensitivity: Def. 5, Eq. (8), Examples 1 and 2."""

import itertools

import numpy as np
import pytest

from rase.shuffle.partition import Partition, group_width, sensitivity
from rase.shuffle.permutation import data_rank, inverse
from rase.shuffle.refinement import refine

# Example 1, counted from 0: the place of each contributor.
CENTRE = np.array([1, 4, 5, 6, 3, 2]) - 1
FIRST_FIVE = Partition([0, 0, 0, 0, 0, 1])
THREE_AND_THREE = Partition([0, 0, 0, 1, 1, 1])


def test_example_1_width_as_spread_of_the_listed_indices_gives_15_and_10() -> None:
    """The paper's numbers come out when a group's width is the spread of its listed places."""
    assert sensitivity(FIRST_FIVE, CENTRE, method="bound") == 15
    assert sensitivity(THREE_AND_THREE, CENTRE, method="bound") == 10


@pytest.mark.departure(row=5)
def test_example_1_the_printed_definition_gives_10_and_3() -> None:
    """Def. 5 takes places of listed items, σ⁻¹(i), which makes the same groups narrower."""
    items_of_first_five = Partition([0, 1, 0, 0, 0, 0])
    items_of_three_and_three = Partition([0, 1, 1, 0, 0, 1])
    assert sensitivity(items_of_first_five, inverse(CENTRE), method="bound") == 10
    assert sensitivity(items_of_three_and_three, inverse(CENTRE), method="bound") == 3


@pytest.mark.departure(row=4)
def test_example_1_the_exact_sensitivities_are_12_and_7() -> None:
    """Eq. (8) is an upper bound: no two neighbours are as far apart as 15 and 10."""
    assert sensitivity(FIRST_FIVE, CENTRE) == 12
    assert sensitivity(THREE_AND_THREE, CENTRE) == 7


@pytest.mark.departure(row=5)
def test_example_1_the_best_two_groups_have_sensitivity_3() -> None:
    """Of all partitions into two groups, blocks of places are best, by the bound and exactly."""
    best = refine(6, 2, rank=CENTRE).partition
    assert sensitivity(best, CENTRE) == sensitivity(best, CENTRE, method="bound") == 3
    halves = (Partition(labels) for labels in itertools.product(range(2), repeat=6))
    assert min(sensitivity(p, CENTRE) for p in halves if p.group_count == 2) == 3


def test_example_2_groups_of_one_have_sensitivity_0() -> None:
    """At k = n nothing can change, so theta grows without bound."""
    assert sensitivity(refine(64, 64).partition) == 0


def test_example_2_one_group_of_all_has_the_largest_sensitivity() -> None:
    """At k = 1 every pair can be reversed, so theta falls like 1 / n^2."""
    for n in (2, 8, 64):
        whole = refine(n, 1).partition
        assert sensitivity(whole) == sensitivity(whole, method="bound") == n * (n - 1) // 2


def test_the_data_permutation_lists_the_index_of_each_report() -> None:
    """In <y4, y3, y1, y2> the report y3 is at index 2 (Eq. 6)."""
    rank = data_rank([4, 3, 1, 2])
    assert rank[3 - 1] + 1 == 2
    assert group_width(Partition([0, 0, 1, 1]), rank) == 1
