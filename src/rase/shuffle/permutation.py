"""Permutations as arrays: orders, ranks, their algebra and the Kendall tau distance.

A permutation is an int64 array that holds each of 0 .. n - 1 once. As an *order* it lists items by
place, as a *rank* places by item; one is the inverse of the other. The paper counts from 1, this
package from 0. Composition is that of functions: ``compose(outer, inner)[i] = outer[inner[i]]``.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rase.kernels.permute import (
    Order,
    disagreement_count,
    inversion_count,
    is_permutation,
)

__all__ = [
    "Order",
    "as_permutation",
    "compose",
    "data_rank",
    "identity",
    "inverse",
    "kendall_tau",
    "order_of",
    "rank_of",
]


def kendall_tau(a: ArrayLike, b: ArrayLike) -> int:
    """Count the pairs of items that two orders put in opposite sequence, in O(n log n).

    The paper writes it for ranks, which count the same pairs of items: pass their inverses.

    Args:
        a: An order.
        b: An order of the same items.

    Returns:
        A distance from 0 to n (n - 1) / 2.

    Raises:
        ValueError: If an argument is not a permutation, or the lengths differ.

    Example:
        >>> kendall_tau([0, 1, 2, 3], [3, 2, 1, 0])
        6
    """
    total = disagreement_count(np.asarray(a), np.asarray(b))
    if total is not None:
        return total
    first, second = _same_length(a, b)
    return inversion_count(_invert(second)[first])


def data_rank(
    arrivals: Sequence[Hashable], contributors: Sequence[Hashable] | None = None
) -> Order:
    """Return the paper's data permutation: at which place each contributor's report arrived.

    Eq. (6): ``(Idx(y_1), Idx(y_2), ...)``, here counted from 0.

    Args:
        arrivals: The contributors in the order in which their reports arrived.
        contributors: All contributors in their own order; sorted if not given.

    Raises:
        ValueError: If the two do not hold the same names, each once.

    Example:
        The sequence <y4, y3, y1, y2>, where y3 is at index 2:

        >>> data_rank(["y4", "y3", "y1", "y2"]).tolist()
        [2, 3, 1, 0]
    """
    place_of = {contributor: place for place, contributor in enumerate(arrivals)}
    names: list[Any] = sorted(place_of) if contributors is None else list(contributors)
    if len(place_of) != len(arrivals) or len(names) != len(arrivals) or set(names) != set(place_of):
        raise ValueError("arrivals must hold every contributor exactly once, got another list.")
    return np.array([place_of[name] for name in names], dtype=np.int64)


def order_of(rank: ArrayLike) -> Order:
    """Return the items by place, given the places by item."""
    return inverse(rank, name="rank")


def rank_of(order: ArrayLike) -> Order:
    """Return the places by item, given the items by place."""
    return inverse(order, name="order")


def inverse(permutation: ArrayLike, *, name: str = "permutation") -> Order:
    """Return the permutation that undoes this one.

    Args:
        permutation: Each of 0 .. n - 1 once.
        name: What the caller calls it, for the error.

    Raises:
        TypeError: If the entries are not whole numbers.
        ValueError: If the argument is not a permutation.
    """
    return _invert(as_permutation(permutation, name=name))


def compose(outer: ArrayLike, inner: ArrayLike) -> Order:
    """Return ``outer`` after ``inner``: entry i is ``outer[inner[i]]``.

    Raises:
        ValueError: If an argument is not a permutation, or the lengths differ.

    Example:
        >>> compose([1, 2, 0], [0, 2, 1]).tolist()
        [1, 0, 2]
    """
    first, second = _same_length(outer, inner)
    return first[second]


def identity(n: int) -> Order:
    """Return the permutation that moves nothing."""
    return np.arange(n, dtype=np.int64)


def as_permutation(permutation: ArrayLike, *, name: str = "permutation") -> Order:
    """Return the argument as an int64 array after checking that it is a permutation.

    Args:
        permutation: Each of 0 .. n - 1 once.
        name: What the caller calls it, for the error.

    Raises:
        TypeError: If the entries are not whole numbers.
        ValueError: If the argument is not a permutation.
    """
    entries = np.asarray(permutation)
    if entries.size and entries.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold whole numbers, got {entries.dtype}.")
    if entries.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got {entries.ndim} dimensions.")
    checked = entries.astype(np.int64)
    n = checked.size
    if not is_permutation(checked):
        raise ValueError(f"{name} must be a permutation of 0..{n - 1}, got something else.")
    return checked


def _same_length(a: ArrayLike, b: ArrayLike) -> tuple[Order, Order]:
    first, second = as_permutation(a), as_permutation(b)
    if first.size != second.size:
        raise ValueError(
            f"both permutations must have the same length, got {first.size} and {second.size}."
        )
    return first, second


def _invert(permutation: Order) -> Order:
    inverted = np.empty_like(permutation)
    inverted[permutation] = np.arange(permutation.size)
    return inverted
