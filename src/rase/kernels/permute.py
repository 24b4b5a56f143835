"""Permutations from words and codes: the NumPy kernels every shuffler and Mallows law runs on.

Each function is pure, so that a compiled twin can be held to the same output for the same input.
An order lists items by place, counted from 0.
"""

import numpy as np
from numpy.typing import NDArray

from rase.kernels.words import Random, Words

__all__ = [
    "Order",
    "inversion_count",
    "order_from_codes",
    "order_from_swaps",
    "orders_from_codes",
    "uniform_order",
    "uniform_orders",
]

Order = NDArray[np.int64]

# Runs up to this long are resolved by comparing all pairs, in columns of this many runs.
_RUN = 64
_RUNS_AT_ONCE = 1024
# Longer rounds go through the merges one by one; below it all pairs of a round are cheaper.
_LONG_ROUND = 512


def uniform_order(n: int, source: Random) -> Order:
    """Draw one of the n! orders, each with the same probability.

    Args:
        n: How many items.
        source: Where the words come from.

    Validation: chi-square over all orders in tests/shuffle/test_laws.py.
    """
    return uniform_orders(1, n, source).reshape(n)


def uniform_orders(rounds: int, n: int, source: Random) -> Order:
    """Draw ``rounds`` independent uniform orders, one a row.

    A row is the sorting order of n words. Words are exchangeable, so every order is equally likely
    once they differ; a row with a tie (probability below n^2 / 2^65) is drawn again as a whole.
    """
    words = source.words(rounds * n).reshape(rounds, n)
    orders = np.argsort(words, axis=1)
    tied = np.flatnonzero(_has_tie(words, orders))
    while tied.size:
        again = source.words(tied.size * n).reshape(tied.size, n)
        orders[tied] = np.argsort(again, axis=1)
        tied = tied[_has_tie(again, orders[tied])]
    return orders.astype(np.int64, copy=False)


def order_from_codes(codes: Order) -> Order:
    """Return the order whose i-th item is the ``codes[i]``-th of those still remaining.

    The sum of the codes is the order's number of inversions. Runs of codes are resolved alone, as
    if nothing had been taken before them, and then merged in pairs: O(n log^2 n).

    Args:
        codes: For place i a number from 0 to n - 1 - i.

    Example:
        >>> order_from_codes(np.array([2, 0, 1, 0])).tolist()
        [2, 0, 3, 1]
    """
    n = codes.size
    levels = (max(n - 1, 0) // _RUN).bit_length()
    run = -(-n // (1 << levels))
    # Zeros appended at the end take what is left over and disturb no earlier place.
    padded = np.zeros((1 << levels, run), dtype=np.int64)
    padded.reshape(-1)[:n] = codes
    picks = _resolved_runs(padded)
    if levels == 0:
        return picks.reshape(n)
    places = np.argsort(picks, axis=1)
    picks = np.take_along_axis(picks, places, axis=1)
    places += np.arange(0, picks.size, run)[:, np.newaxis]
    for _ in range(levels):
        picks, places = _merged_pairs(picks, places)
    # All picks of all places, ascending, are the items themselves.
    order = np.empty(picks.size, dtype=np.int64)
    order[places.reshape(-1)] = np.arange(picks.size)
    return order[:n]


def orders_from_codes(codes: Order) -> Order:
    """Return `order_from_codes` of every row of a table of codes."""
    if codes.shape[1] > _LONG_ROUND:
        return np.stack([order_from_codes(row) for row in codes]) if len(codes) else codes
    return _resolved_runs(codes)


def order_from_swaps(partners: Order) -> Order:
    """Return the identity order after interchanging place i with ``partners[i]``, i = 0, 1, 2...

    With partners above i this is the paper's loop (Alg. 2 l. 12-15); with i allowed as its own
    partner it is Fisher and Yates' shuffle.

    Example:
        >>> order_from_swaps(np.array([1, 2, 2])).tolist()
        [1, 2, 0]
    """
    order = list(range(partners.size))
    for place, partner in enumerate(partners.tolist()):
        order[place], order[partner] = order[partner], order[place]
    return np.array(order, dtype=np.int64)


def inversion_count(order: Order) -> int:
    """Count the pairs of places whose items stand in falling order, in O(n log n).

    Bit by bit from the top: among items that agree on the higher bits, an item without the bit
    stands inverted to every item with it that comes before. Items are then parted stably by the
    bit, which needs running sums but no sorting.

    Args:
        order: A permutation of 0 .. n - 1.

    Example:
        >>> inversion_count(np.array([2, 0, 3, 1]))
        3
    """
    n = order.size
    items = order.astype(np.uint32)
    total = 0
    for bit in range(max(n - 1, 0).bit_length() - 1, -1, -1):
        half = 1 << bit
        is_one = (items & half).astype(np.bool_)
        zero_places = np.flatnonzero(~is_one)
        # Items that share the higher bits fill one aligned block of places, in which the k-th
        # item without the bit has k others of its kind before it, and else only items with it.
        total += int((zero_places & (2 * half - 1)).sum())
        blocks, rest = divmod(n, 2 * half)
        rest = min(rest, half)
        total -= blocks * (half * (half - 1) // 2) + rest * (rest - 1) // 2
        items = _parted(items[zero_places], items[is_one], half)
    return total


def _has_tie(words: Words, orders: Order) -> NDArray[np.bool_]:
    ascending = np.take_along_axis(words, orders, axis=1)
    tied: NDArray[np.bool_] = (ascending[:, 1:] == ascending[:, :-1]).any(axis=1)
    return tied


def _resolved_runs(codes: Order) -> Order:
    """Turn each row of codes into picks among what remained before the row's first code."""
    picks = np.empty_like(codes)
    for first in range(0, len(codes), _RUNS_AT_ONCE):
        # Columns are turned into rows, so that each step works on neighbouring numbers.
        columns = np.ascontiguousarray(codes[first : first + _RUNS_AT_ONCE].T)
        for place in range(len(columns) - 2, -1, -1):
            later = columns[place + 1 :]
            later += later >= columns[place]
        picks[first : first + _RUNS_AT_ONCE] = columns.T
    return picks


def _merged_pairs(picks: Order, places: Order) -> tuple[Order, Order]:
    """Join rows 0 and 1, 2 and 3 ... of ascending picks and the places they belong to."""
    pairs, run = len(picks) // 2, picks.shape[1]
    first, second = picks[0::2], picks[1::2]
    # A pick b among the remaining lies behind every taken a with fewer than b + 1 remaining items
    # before it; the keys of different pairs are set apart to search in all of them together.
    apart = (np.arange(pairs) * (picks.max() + run + 1))[:, np.newaxis]
    keys = first - np.arange(run) + apart
    found = np.searchsorted(keys.reshape(-1), (second + apart).reshape(-1), side="right")
    behind = found.reshape(pairs, run) - np.arange(0, pairs * run, run)[:, np.newaxis]
    is_second = np.zeros((pairs, 2 * run), dtype=np.bool_)
    np.put_along_axis(is_second, np.arange(run) + behind, True, axis=1)
    is_first = ~is_second
    merged, merged_places = np.empty((2, pairs, 2 * run), dtype=np.int64)
    merged[is_first], merged[is_second] = first.reshape(-1), (second + behind).reshape(-1)
    merged_places[is_first] = places[0::2].reshape(-1)
    merged_places[is_second] = places[1::2].reshape(-1)
    return merged, merged_places


def _parted(zeros: NDArray[np.uint32], ones: NDArray[np.uint32], half: int) -> NDArray[np.uint32]:
    """Lay out blocks of ``half`` zeros and ``half`` ones; only the last block may be smaller."""
    full = ones.size - ones.size % half
    blocks = np.hstack([zeros[:full].reshape(-1, half), ones[:full].reshape(-1, half)])
    return np.concatenate([blocks.reshape(-1), zeros[full:], ones[full:]])
