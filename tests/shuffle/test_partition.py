import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import each_case

from rase.kernels.permute import inversion_count
from rase.shuffle.partition import Partition, group_width, sensitivity


def all_partitions(n: int) -> Iterator[Partition]:
    """Yield every partition of n contributors once."""

    def labels(size: int) -> Iterator[list[int]]:
        if size == 0:
            yield []
            return
        for head in labels(size - 1):
            for label in range(max(head, default=-1) + 2):
                yield [*head, label]

    return (Partition(row) for row in labels(n))


def largest_distance(groups: tuple[tuple[int, ...], ...], n: int) -> int:
    """Return the most inversions of rearranging the members of these groups."""
    best = 0
    for images in itertools.product(*(itertools.permutations(group) for group in groups)):
        order = np.arange(n)
        for group, image in zip(groups, images, strict=True):
            order[list(group)] = image
        best = max(best, inversion_count(order))
    return best


@each_case("n", range(7))
def test_exact_sensitivity_is_the_largest_distance_of_neighbours(n: int) -> None:
    """For every partition of up to 6, one group changing or all, enumeration finds the formula."""
    for partition in all_partitions(n):
        one = max((largest_distance((group,), n) for group in partition.groups), default=0)
        assert sensitivity(partition) == one
        assert sensitivity(partition, changing="all") == largest_distance(partition.groups, n)


def test_the_sum_over_groups_is_only_an_upper_bound_where_groups_interleave() -> None:
    """ABAB changes by 4 at most, while its groups alone change by 3 each."""
    interleaved = Partition([0, 1, 0, 1])
    assert sensitivity(interleaved, changing="all") == 4
    assert sensitivity(interleaved) == 3
    apart = Partition([0, 0, 0, 1, 1])
    assert sensitivity(apart, changing="all") == 3 + 1


labels_and_ranks = st.lists(st.integers(0, 4), min_size=1, max_size=30).flatmap(
    lambda labels: st.tuples(st.just(labels), st.permutations(range(len(labels))))
)


@given(labels_and_ranks)
def test_the_papers_bound_is_never_below_the_exact_sensitivity(
    case: tuple[list[int], list[int]],
) -> None:
    """ω(ω+1)/2 bounds one group; its sum over the groups bounds all of them."""
    labels, rank = case
    partition = Partition(labels)
    width = group_width(partition, rank)
    assert sensitivity(partition, rank, method="bound") == width * (width + 1) // 2
    assert sensitivity(partition, rank) <= sensitivity(partition, rank, method="bound")
    assert sensitivity(partition, rank, changing="all") <= sensitivity(
        partition, rank, method="bound", changing="all"
    )


def test_places_decide_not_contributors() -> None:
    """With a rank the spread is that of the members' places."""
    partition = Partition([0, 0, 1, 1])
    assert group_width(partition) == 1
    assert group_width(partition, [0, 3, 1, 2]) == 3
    assert sensitivity(partition, [0, 3, 1, 2]) == 5


def test_no_contributors_have_no_width() -> None:
    """An empty partition has width and sensitivity 0."""
    empty = Partition([])
    assert (empty.n, empty.group_count, empty.groups) == (0, 0, ())
    assert group_width(empty) == sensitivity(empty) == sensitivity(empty, changing="all") == 0


def test_labels_may_be_anything_hashable() -> None:
    """Texts, tuples and arrays of labels name the same groups, numbered by first member."""
    expected = Partition([0, 1, 0])
    for labels in (
        ["b", "a", "b"],
        [(1, 2), None, (1, 2)],
        np.array([9, 3, 9]),
        np.array(list("bab")),
    ):
        partition = Partition(labels)
        assert partition == expected
        assert hash(partition) == hash(expected)
    assert expected != Partition([0, 1, 1])
    assert expected != "another thing"
    assert repr(expected) == "Partition(n=3, group_count=2)"


def test_labels_that_are_not_hashable_are_refused() -> None:
    """A list cannot be a label."""
    with pytest.raises(TypeError, match="labels must be one hashable label a contributor"):
        Partition([[1], [2]])  # type: ignore[list-item]


def test_a_partition_cannot_be_changed() -> None:
    """Neither the field nor its entries can be written."""
    partition = Partition([0, 1])
    with pytest.raises(ValueError, match="read-only"):
        partition.labels[0] = 1
    with pytest.raises(AttributeError):
        partition.labels = np.array([0, 0])  # type: ignore[misc]


@each_case("n", range(1, 20))
def test_contiguous_blocks_have_the_least_width(n: int) -> None:
    """There are exactly k blocks of neighbours, of width ⌈n/k⌉ - 1."""
    for group_count in range(1, n + 1):
        partition = Partition.contiguous(n, group_count)
        assert partition.group_count == group_count
        assert group_width(partition) == -(-n // group_count) - 1
        assert list(itertools.chain(*partition.groups)) == list(range(n))


def test_empty_groups_are_refused() -> None:
    """More groups than contributors, or none, cannot be."""
    with pytest.raises(ValueError, match="group_count must be at most n"):
        Partition.contiguous(3, 4)
    with pytest.raises(ValueError, match="group_count must be at least 1, got 0"):
        Partition.contiguous(3, 0)
    assert Partition.contiguous(0, 0) == Partition([])


def test_a_graph_is_cut_at_its_weakest_link() -> None:
    """Two triangles joined by an edge become two groups, whatever the order of the edges."""
    edges = [(0, 2), (2, 4), (0, 4), (1, 3), (3, 5), (1, 5), (4, 5)]
    expected = ((0, 2, 4), (1, 3, 5))
    assert Partition.from_graph(6, edges, 2).groups == expected
    assert Partition.from_graph(6, [(b, a) for a, b in edges[::-1]], 2).groups == expected
    assert Partition.from_graph(6, np.array(edges + edges), 2).groups == expected


def test_a_graph_in_parts_needs_a_group_for_each() -> None:
    """Fewer groups than connected parts are refused; isolated contributors are parts."""
    assert Partition.from_graph(4, [(0, 1), (2, 3)], 2).groups == ((0, 1), (2, 3))
    with pytest.raises(ValueError, match="group_count must be at least 3, the number of connected"):
        Partition.from_graph(4, [(0, 1)], 2)
    assert Partition.from_graph(3, [], 3).group_count == 3


@each_case(
    ("edges", "message"),
    [
        ([(0, 3)], r"edges must join contributors 0\.\.2, got \(0, 3\)"),
        ([(-1, 0)], r"edges must join contributors 0\.\.2, got \(-1, 0\)"),
        ([(1, 1)], "edges must join two contributors, got 1 joined to itself"),
        ([(0, 1, 2)], r"edges must be pairs, got an array of shape \(1, 3\)"),
    ],
)
def test_edges_that_are_none_are_refused(edges: list[tuple[int, int]], message: str) -> None:
    """Edges out of range, loops and triples are refused by name."""
    with pytest.raises(ValueError, match=message):
        Partition.from_graph(3, edges, 1)


def test_edges_are_whole_numbers() -> None:
    """Names of contributors are no edges."""
    with pytest.raises(TypeError, match="edges must hold pairs of whole numbers"):
        Partition.from_graph(3, np.array([["a", "b"]]), 1)


def test_a_round_restricts_the_partition_to_who_reports() -> None:
    """Groups keep their members among those who report, in the order given."""
    assert Partition(list("aabbc")).restrict([4, 2, 3]).groups == ((0,), (1, 2))


def test_unknown_options_and_wrong_ranks_are_refused() -> None:
    """The errors say what is allowed."""
    partition = Partition([0, 0])
    with pytest.raises(ValueError, match='method must be "exact" or "bound"'):
        sensitivity(partition, method="exactly")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='changing must be "one" or "all"'):
        sensitivity(partition, changing="two")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="rank must have one place for each of 2 contributors"):
        group_width(partition, [0, 1, 2])
    with pytest.raises(ValueError, match=r"rank must be a permutation of 0\.\.1"):
        group_width(partition, [1, 2])
