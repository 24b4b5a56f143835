import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from tests.cases import each_case

from rase.kernels.integers import integers_below
from rase.kernels.permute import uniform_order
from rase.kernels.words import SeededRandom
from rase.shuffle.partition import Partition, group_width, sensitivity
from rase.shuffle.refinement import refine


def forests(source: SeededRandom, n: int) -> list[tuple[int, int]]:
    """Draw a random forest: each item hangs on an earlier one, or begins a tree."""
    names = uniform_order(n, source)
    parents = integers_below(np.arange(1, n), source) if n > 1 else np.empty(0, np.int64)
    roots = integers_below(np.full(n, 6), source) == 0
    return [
        (int(names[parent]), int(names[child]))
        for child, parent in enumerate(parents, start=1)
        if not roots[child]
    ]


def cuts(n: int, edges: list[tuple[int, int]], group_count: int) -> Iterator[Partition]:
    """Yield every way to cut a forest into connected groups."""
    for kept in itertools.combinations(edges, n - group_count):
        labels = list(range(n))
        for a, b in kept:
            old, new = labels[a], labels[b]
            labels = [new if label == old else label for label in labels]
        yield Partition(labels)


def is_connected(partition: Partition, edges: list[tuple[int, int]]) -> bool:
    """Tell whether every group hangs together by the edges inside it."""
    inside = [edge for edge in edges if len(set(partition.labels[list(edge)].tolist())) == 1]
    parts = list(range(partition.n))
    for a, b in inside:
        old, new = parts[a], parts[b]
        parts = [new if part == old else part for part in parts]
    return len(set(parts)) == partition.group_count


@each_case("seed", range(60))
def test_forests_are_cut_optimally(seed: int) -> None:
    """On random forests up to n = 8 no cut into as many connected groups is narrower."""
    source = SeededRandom(seed)
    n = 1 + seed % 8
    edges = forests(source, n)
    rank = uniform_order(n, source)
    for group_count in range(n - len(edges), n + 1):
        found = refine(n, group_count, method="connected", edges=edges, rank=rank)
        assert found.is_optimal
        assert found.partition.group_count == group_count
        assert is_connected(found.partition, edges)
        best = min(group_width(cut, rank) for cut in cuts(n, edges, group_count))
        assert group_width(found.partition, rank) == best


@each_case("seed", range(20))
def test_other_graphs_are_cut_greedily_and_said_so(seed: int) -> None:
    """On graphs with rings the groups are connected, and nothing is claimed of their width."""
    n = 12
    ring = [(i, (i + 1) % n) for i in range(n)]
    rank = uniform_order(n, SeededRandom(seed))
    for group_count in (2, 3, 5, 12):
        found = refine(n, group_count, method="connected", edges=ring, rank=rank)
        assert not found.is_optimal
        assert found.partition.group_count == group_count
        assert is_connected(found.partition, ring)


def test_a_path_in_the_order_of_places_is_cut_into_blocks() -> None:
    """Where neighbours are joined, connectedness costs nothing."""
    path = [(i, i + 1) for i in range(99)]
    found = refine(100, 7, method="connected", edges=path).partition
    assert group_width(found) == group_width(refine(100, 7).partition)


def test_a_thousand_contributors_are_refined_in_moments() -> None:
    """All methods serve n = 1000; the greedy one stays within 4 times the optimum."""
    n, group_count = 1000, 48
    rank = uniform_order(n, SeededRandom(2026))
    star = [(0, i) for i in range(1, n)]
    tree = [(i, (i - 1) // 2) for i in range(1, n)]
    optimum = refine(Partition([0] * n), group_count, rank=rank)
    greedy = refine(n, group_count, method="agglomerative", rank=rank)
    assert optimum.is_optimal
    assert not greedy.is_optimal
    ratio = sensitivity(greedy.partition, rank) / sensitivity(optimum.partition, rank)
    assert 1 <= ratio <= 4
    for edges in (star, tree):
        assert refine(n, group_count, method="connected", edges=edges, rank=rank).is_optimal


def test_greedy_merging_is_optimal_at_its_ends() -> None:
    """One group of all and groups of one leave no choice."""
    assert refine(5, 1, method="agglomerative").is_optimal
    assert refine(5, 5, method="agglomerative").partition.group_count == 5


def test_refinement_groups_places_not_names() -> None:
    """With a rank, contributors at neighbouring places come together."""
    found = refine(4, 2, rank=[0, 2, 1, 3]).partition
    assert found.groups == ((0, 2), (1, 3))


def test_arguments_that_do_not_fit_are_refused() -> None:
    """Each error names the argument and the way out."""
    with pytest.raises(ValueError, match="group_count must be at most n 3, got 4"):
        refine(3, 4)
    with pytest.raises(ValueError, match="rank must have one place for each of 3"):
        refine(3, 2, rank=[0, 1])
    with pytest.raises(ValueError, match='edges must be given for method "connected" alone'):
        refine(3, 2, edges=[(0, 1)])
    with pytest.raises(ValueError, match='edges must be given for method "connected" alone'):
        refine(3, 2, method="connected")
    with pytest.raises(ValueError, match='method must be "contiguous", "agglomerative" or'):
        refine(3, 2, method="best")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="group_count must be at least 2, the number of connected"):
        refine(3, 1, method="connected", edges=[(0, 1)])
