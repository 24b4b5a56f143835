"""Partitions of contributors into groups, their width and the sensitivity of the Kendall distance.

Neighbouring arrival orders differ by rearranging the members of a group among their places. The
sensitivity is the largest Kendall tau distance between neighbours; theta = alpha / sensitivity.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rase.kernels.permute import Order, inversion_count
from rase.shuffle.agglomeration import Cluster, Edges, agglomerate, as_edges
from rase.shuffle.checks import whole_number
from rase.shuffle.permutation import as_permutation, identity, order_of

__all__ = ["Partition", "group_width", "sensitivity"]


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Partition:
    """The disjoint groups of contributors, ξ in the paper.

    Args:
        labels: One label for each contributor: whatever is hashable. Contributors with equal
            labels form a group; groups are numbered by their first member.

    Raises:
        TypeError: If a label is not hashable.

    Example:
        >>> Partition(["north", "south", "north"]).groups
        ((0, 2), (1,))
    """

    labels: NDArray[np.int64]

    def __init__(self, labels: Iterable[Hashable] | NDArray[Any]) -> None:
        """Number the groups by their first member."""
        numbered = _number_labels(labels)
        numbered.flags.writeable = False
        object.__setattr__(self, "labels", numbered)

    @classmethod
    def contiguous(cls, n: int, group_count: int) -> "Partition":
        """Cut n contributors into blocks of neighbours whose sizes differ by at most one.

        No partition into as many groups has a smaller width than ``ceil(n / group_count) - 1``.

        Raises:
            ValueError: If there are fewer contributors than groups.

        Example:
            >>> Partition.contiguous(5, 2).groups
            ((0, 1, 2), (3, 4))
        """
        n, group_count = _counts(n, group_count)
        return cls(np.arange(n) * group_count // max(n, 1))

    @classmethod
    def from_graph(
        cls, n: int, edges: Iterable[tuple[int, int]] | Edges, group_count: int
    ) -> "Partition":
        """Group contributors by their connectivity in a relationship graph (Alg. 2 l. 2).

        Groups begin as single contributors. The pair with the most edges between its groups,
        relative to the product of their sizes, is merged until ``group_count`` are left.

        Args:
            n: How many contributors.
            edges: Pairs of contributors; the same pair twice counts once.
            group_count: How many groups.

        Raises:
            ValueError: If an edge leaves 0 .. n - 1 or joins a contributor to itself, or if the
                graph has more connected parts than ``group_count``.

        Example:
            >>> Partition.from_graph(5, [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)], 2).groups
            ((0, 1, 2), (3, 4))
        """
        n, group_count = _counts(n, group_count)
        return cls(np.array(agglomerate(n, as_edges(n, edges), group_count, cost=_looseness)))

    @property
    def n(self) -> int:
        """How many contributors there are."""
        return self.labels.size

    @property
    def group_count(self) -> int:
        """How many groups there are, k in the paper."""
        return int(self.labels.max(initial=-1)) + 1

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The contributors of each group, ascending."""
        members: list[list[int]] = [[] for _ in range(self.group_count)]
        for contributor, label in enumerate(self.labels.tolist()):
            members[label].append(contributor)
        return tuple(tuple(group) for group in members)

    def restrict(self, contributors: ArrayLike) -> "Partition":
        """Return the partition of those contributors alone, in the order given.

        For a round in which not everybody reports.

        Example:
            >>> Partition(["a", "b", "a", "b"]).restrict([1, 3, 2]).groups
            ((0, 1), (2,))
        """
        return Partition(self.labels[np.asarray(contributors, dtype=np.int64)])

    def __eq__(self, other: object) -> bool:
        """Two partitions are equal if they have the same groups, whatever their labels were."""
        return isinstance(other, Partition) and np.array_equal(self.labels, other.labels)

    def __hash__(self) -> int:
        """Agree with equality."""
        return hash(self.labels.tobytes())

    def __repr__(self) -> str:
        """Show the numbers, not the members, of which there may be a million."""
        return f"Partition(n={self.n}, group_count={self.group_count})"


def group_width(partition: Partition, rank: ArrayLike | None = None) -> int:
    """Return the largest spread of places within a group, ω in the paper.

    Args:
        partition: The groups.
        rank: The place of each contributor; their own sequence if not given.

    Raises:
        ValueError: If ``rank`` is not a permutation of the contributors.

    Example:
        >>> group_width(Partition([0, 1, 0, 1, 1]))
        3
    """
    return int(_spreads(_group_places(partition, rank)).max(initial=0))


def sensitivity(
    partition: Partition,
    rank: ArrayLike | None = None,
    *,
    method: Literal["exact", "bound"] = "exact",
    changing: Literal["one", "all"] = "one",
) -> int:
    """Return the largest Kendall tau distance between neighbouring arrival orders, Δ(σ).

    It is reached by reversing a group. With places p_1 < ... < p_g that costs C(g, 2) and, for each
    foreign place between them with L members to its left and R to its right, 2 min(L, R). If all
    groups may change at once, the maximum is reached by reversing all; the sum over the groups is
    only an upper bound where groups interleave, up to 1.7 times too large at n = 7.

    Args:
        partition: The groups.
        rank: The place of each contributor; their own sequence if not given.
        method: "exact", or "bound" for the paper's ω(ω+1)/2 (Eq. 8), which is never smaller.
        changing: Whether neighbours differ in "one" group or in "all"; the bound for all is the
            sum over the groups.

    Raises:
        ValueError: If ``rank`` is not a permutation of the contributors, or an option is unknown.

    Example:
        >>> interleaved = Partition([0, 1, 0, 1, 0])
        >>> sensitivity(interleaved), sensitivity(interleaved, method="bound")
        (7, 10)
    """
    if method not in ("exact", "bound"):
        raise ValueError(f'method must be "exact" or "bound", got {method!r}.')
    if changing not in ("one", "all"):
        raise ValueError(f'changing must be "one" or "all", got {changing!r}.')
    grouped = _group_places(partition, rank)
    if method == "exact" and changing == "all":
        return inversion_count(_all_reversed(grouped))
    if method == "exact":
        return int(_reversal_costs(grouped).max(initial=0))
    spreads = _spreads(grouped)
    bounds = spreads * (spreads + 1) // 2
    return int(bounds.max(initial=0) if changing == "one" else bounds.sum())


@dataclass(frozen=True, slots=True, eq=False)
class _Grouped:
    """Places listed group by group, ascending within each; groups fill [starts, starts + sizes)."""

    places: Order
    starts: Order
    sizes: Order


def _group_places(partition: Partition, rank: ArrayLike | None) -> _Grouped:
    place_of = identity(partition.n) if rank is None else as_permutation(rank, name="rank")
    if place_of.size != partition.n:
        raise ValueError(
            f"rank must have one place for each of {partition.n} contributors, got {place_of.size}."
        )
    labels_by_place = partition.labels[order_of(place_of)]
    sizes = np.bincount(labels_by_place, minlength=partition.group_count).astype(np.int64)
    places = np.argsort(labels_by_place, kind="stable").astype(np.int64)
    return _Grouped(places, np.cumsum(sizes) - sizes, sizes)


def _spreads(grouped: _Grouped) -> Order:
    spreads: Order = (
        grouped.places[grouped.starts + grouped.sizes - 1] - grouped.places[grouped.starts]
    )
    return spreads


def _reversal_costs(grouped: _Grouped) -> Order:
    if not grouped.places.size:
        return grouped.places
    left = np.arange(1, grouped.places.size + 1) - np.repeat(grouped.starts, grouped.sizes)
    right = np.repeat(grouped.sizes, grouped.sizes) - left
    # Behind a group's last member right is 0, so the gap to the next group weighs nothing.
    foreign = np.diff(grouped.places, append=0) - 1
    crossed = np.add.reduceat(2 * np.minimum(left, right) * foreign, grouped.starts)
    costs: Order = grouped.sizes * (grouped.sizes - 1) // 2 + crossed
    return costs


def _all_reversed(grouped: _Grouped) -> Order:
    mirrored = np.repeat(2 * grouped.starts + grouped.sizes - 1, grouped.sizes)
    mirrored -= np.arange(mirrored.size)
    order = np.empty_like(grouped.places)
    order[grouped.places] = grouped.places[mirrored]
    return order


def _looseness(first: Cluster, second: Cluster, edge_count: int) -> float:
    return -edge_count / (first.size * second.size)


def _counts(n: int, group_count: int) -> tuple[int, int]:
    n = whole_number("n", n, least=0)
    group_count = whole_number("group_count", group_count, least=min(n, 1))
    if group_count > n:
        raise ValueError(
            f"group_count must be at most n, since no group is empty, got {group_count} groups "
            f"for n {n}."
        )
    return n, group_count


def _number_labels(labels: Iterable[Hashable] | NDArray[Any]) -> NDArray[np.int64]:
    if isinstance(labels, np.ndarray) and labels.ndim == 1 and labels.dtype.kind == "i":
        low, high = int(labels.min(initial=0)), int(labels.max(initial=0))
        if high - low < 2 * labels.size:
            return _numbered_in_a_row(labels.astype(np.int64) - low, high - low + 1)
    if isinstance(labels, np.ndarray) and labels.ndim == 1 and labels.dtype.kind in "iuU":
        _, firsts, found = np.unique(labels, return_index=True, return_inverse=True)
        number_of_found = np.empty(firsts.size, dtype=np.int64)
        number_of_found[np.argsort(firsts)] = np.arange(firsts.size)
        return number_of_found[found]
    numbers: dict[Hashable, int] = {}
    try:
        return np.array([numbers.setdefault(label, len(numbers)) for label in labels], np.int64)
    except TypeError as error:
        raise TypeError(f"labels must be one hashable label a contributor: {error}.") from error


def _numbered_in_a_row(labels: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Number labels of 0 .. count - 1 by their first member, in linear time."""
    n = labels.size
    firsts = np.full(count, n)
    # Of equal labels the last assignment stays: from the end on, that is the first member's.
    firsts[labels[::-1]] = np.arange(n - 1, -1, -1)
    numbers = np.empty(count, dtype=np.int64)
    # Labels that nobody has stand at the end.
    numbers[np.argsort(firsts, kind="stable")] = np.arange(count)
    return np.asarray(numbers[labels])
