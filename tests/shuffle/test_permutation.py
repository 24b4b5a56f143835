import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import each_case

from rase.shuffle.permutation import (
    as_permutation,
    compose,
    data_rank,
    identity,
    inverse,
    kendall_tau,
    order_of,
    rank_of,
)

permutations = st.integers(0, 12).flatmap(lambda n: st.permutations(range(n)))


@given(permutations)
def test_order_and_rank_undo_each_other(order: list[int]) -> None:
    """A rank is the inverse of an order, and composing both moves nothing."""
    rank = rank_of(order)
    assert order_of(rank).tolist() == list(order)
    assert compose(order, rank).tolist() == identity(len(order)).tolist()
    assert compose(inverse(order), order).tolist() == identity(len(order)).tolist()


@given(st.permutations(range(7)), st.permutations(range(7)), st.permutations(range(7)))
def test_composition_is_associative(a: list[int], b: list[int], c: list[int]) -> None:
    """Def. 1 of the paper: the product of three permutations needs no brackets."""
    assert compose(compose(a, b), c).tolist() == compose(a, compose(b, c)).tolist()


@given(st.permutations(range(7)), st.permutations(range(7)), st.permutations(range(7)))
def test_kendall_tau_is_a_distance_blind_to_names(a: list[int], b: list[int], c: list[int]) -> None:
    """The distance counts discordant pairs of items and ignores how items are named."""
    rank_a, rank_b = rank_of(a), rank_of(b)
    discordant = sum(
        (rank_a[i] < rank_a[j]) != (rank_b[i] < rank_b[j])
        for i, j in itertools.combinations(range(7), 2)
    )
    assert kendall_tau(a, b) == kendall_tau(b, a) == discordant
    assert kendall_tau(compose(c, a), compose(c, b)) == discordant
    assert kendall_tau(a, c) <= kendall_tau(a, b) + kendall_tau(b, c)


def test_the_data_permutation_is_that_of_the_paper() -> None:
    """The sequence <y4, y3, y1, y2> has Idx(y_3) = 2 and the data permutation (3, 4, 2, 1)."""
    assert (data_rank(["y4", "y3", "y1", "y2"]) + 1).tolist() == [3, 4, 2, 1]
    assert data_rank(["b", "a"], ["b", "a"]).tolist() == [0, 1]


@each_case(
    ("arrivals", "contributors"),
    [(["a", "a"], None), (["a"], ["b"]), (["a"], ["a", "b"]), (["a", "b"], ["a", "a"])],
)
def test_a_data_permutation_needs_everybody_once(
    arrivals: list[str], contributors: list[str] | None
) -> None:
    """Missing, doubled and foreign contributors are refused."""
    with pytest.raises(ValueError, match="arrivals must hold every contributor exactly once"):
        data_rank(arrivals, contributors)


@each_case("wrong", [[0, 0], [1, 2], [-1, 0], [0, 2, 2]])
def test_what_is_no_permutation_is_refused(wrong: list[int]) -> None:
    """The error names the argument and what it must be."""
    with pytest.raises(ValueError, match=r"order must be a permutation of 0\.\."):
        rank_of(wrong)


def test_permutations_are_one_row_of_whole_numbers() -> None:
    """Floats and tables are refused, the empty list is not."""
    with pytest.raises(TypeError, match="permutation must hold whole numbers"):
        as_permutation([0.0, 1.0])
    with pytest.raises(ValueError, match="permutation must be one-dimensional"):
        as_permutation(np.zeros((2, 2), np.int64))
    assert as_permutation([]).size == 0


def test_two_permutations_must_have_one_length() -> None:
    """Distances between orders of different items are refused."""
    with pytest.raises(ValueError, match="must have the same length, got 2 and 3"):
        kendall_tau([0, 1], [0, 1, 2])
