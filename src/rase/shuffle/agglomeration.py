"""Merge neighbouring groups of a graph, the cheapest pair first, until few enough are left.

One procedure serves three purposes that differ in the graph and in the cost of a merge: the initial
partition of a relationship graph, the paper's greedy refinement (the graph is the line of places),
and refinement into connected groups.
"""

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Cluster", "MergeCost", "agglomerate", "as_edges"]

Edges = NDArray[np.int64]


class Cluster(NamedTuple):
    """What a merge cost may look at: the size of a group, its lowest and highest item."""

    size: int
    low: int
    high: int


MergeCost = Callable[[Cluster, Cluster, int], float]


def agglomerate(n: int, edges: Edges, group_count: int, *, cost: MergeCost) -> list[int]:
    """Return one group label for each of n items, joined along edges.

    Of pairs with equal cost the one with the lowest items goes first, so that the result depends
    on nothing but the arguments.

    Args:
        n: How many items.
        edges: Distinct pairs of items that may join, as from `as_edges`.
        group_count: How many groups remain.
        cost: The cost of a merge, from both clusters and the number of edges between them.

    Raises:
        ValueError: If the graph has more connected parts than ``group_count``.
    """
    clusters = [Cluster(1, item, item) for item in range(n)]
    links: list[dict[int, int]] = [{} for _ in range(n)]
    for a, b in edges.tolist():
        links[a][b] = links[b][a] = 1
    # A merge makes all older offers of its group stale; the version marks them.
    versions = [0] * n
    offers = [
        (cost(clusters[a], clusters[b], 1), a, b, 0, 0) for a in range(n) for b in links[a] if a < b
    ]
    heapify(offers)
    owner = list(range(n))
    remaining = n
    while remaining > group_count:
        if not offers:
            raise ValueError(
                f"group_count must be at least {remaining}, the number of connected parts of the "
                f"graph, got {group_count}."
            )
        _, a, b, version_a, version_b = heappop(offers)
        if versions[a] != version_a or versions[b] != version_b:
            continue
        owner[b] = a
        clusters[a] = _join_clusters(clusters[a], clusters[b])
        versions[a] += 1
        versions[b] = -1
        _move_links(links, kept=a, gone=b)
        for c, count in links[a].items():
            low, high = min(a, c), max(a, c)
            offer = cost(clusters[low], clusters[high], count)
            heappush(offers, (offer, low, high, versions[low], versions[high]))
        remaining -= 1
    # Groups are named by their lowest item, which always stands before its members.
    for item in range(n):
        owner[item] = owner[owner[item]]
    return owner


def as_edges(n: int, edges: Iterable[tuple[int, int]] | Edges) -> Edges:
    """Return the distinct edges of an undirected graph as rows (lower, higher).

    Raises:
        TypeError: If the entries are not whole numbers.
        ValueError: If an edge is not a pair, leaves 0 .. n - 1, or joins an item to itself.
    """
    pairs = np.asarray(edges if isinstance(edges, np.ndarray) else list(edges))
    if not pairs.size:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.dtype.kind not in "iu":
        raise TypeError(f"edges must hold pairs of whole numbers, got {pairs.dtype}.")
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"edges must be pairs, got an array of shape {pairs.shape}.")
    if pairs.min() < 0 or pairs.max() >= n:
        wrong = pairs[((pairs < 0) | (pairs >= n)).any(axis=1)][0]
        raise ValueError(f"edges must join contributors 0..{n - 1}, got {tuple(wrong.tolist())}.")
    if (pairs[:, 0] == pairs[:, 1]).any():
        loop = pairs[pairs[:, 0] == pairs[:, 1]][0, 0]
        raise ValueError(f"edges must join two contributors, got {loop} joined to itself.")
    return np.unique(np.sort(pairs.astype(np.int64), axis=1), axis=0)


def _join_clusters(first: Cluster, second: Cluster) -> Cluster:
    return Cluster(
        first.size + second.size, min(first.low, second.low), max(first.high, second.high)
    )


def _move_links(links: list[dict[int, int]], *, kept: int, gone: int) -> None:
    del links[kept][gone], links[gone][kept]
    for neighbour, count in links[gone].items():
        del links[neighbour][gone]
        total = links[kept].get(neighbour, 0) + count
        links[kept][neighbour] = links[neighbour][kept] = total
    links[gone] = {}
