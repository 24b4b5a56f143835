"""Permutations from words and codes, the basis of every shuffler and Mallows law.

Functions named ``numpy_...`` are the twins of compiled ones, with the same output for the same
input; the others choose. An order lists items by place, counted from 0.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rase.kernels import backend
from rase.kernels.integers import integers_from
from rase.kernels.words import Random, Words

__all__ = [
    "Order",
    "disagreement_count",
    "inversion_count",
    "is_permutation",
    "numpy_interchange",
    "numpy_inversion_count",
    "numpy_is_permutation",
    "numpy_order_from_codes",
    "numpy_order_from_swaps",
    "numpy_orders_from_codes",
    "numpy_swap_rows",
    "order_from_codes",
    "order_from_swaps",
    "orders_from_codes",
    "orders_from_free_codes",
    "shuffle_entries",
    "shuffle_rows",
    "shuffle_values",
    "uniform_order",
    "uniform_orders",
    "values_in_order",
]

Order = NDArray[np.int64]

# Words drawn at once for many rounds: so many stay in the processor's cache until they are used.
_AT_ONCE = 1 << 13
# Runs up to this long are resolved by comparing all pairs, in columns of this many runs.
_RUN = 64
_RUNS_AT_ONCE = 1024
# Longer rounds go through the merges one by one; below it all pairs of a round are cheaper.
_LONG_ROUND = 512
# From so many rounds on, NumPy interchanges faster place by place than round by round.
_MANY_ROUNDS = 32


def uniform_order(n: int, source: Random) -> Order:
    """Draw one of the n! orders, each with the same probability.

    Fisher and Yates' shuffle: word i, scaled to an integer below n - i without bias, interchanges
    place i with itself or a later one.

    Args:
        n: How many items.
        source: Where the words come from.

    Validation: chi-square over all orders in tests/shuffle/test_laws.py.
    """
    # Items of 32 bits take half of the cache while they move.
    moving = np.arange(n, dtype=np.uint32 if n <= backend.MOST_ITEMS else np.int64)
    shuffle_entries(moving, source)
    return moving.astype(np.int64)


def shuffle_entries(entries: NDArray[Any], source: Random) -> None:
    """Bring entries into a uniformly random order, in place: that of `uniform_order`.

    Words are drawn in pieces, so that a million entries need no memory but their own.

    Args:
        entries: A contiguous array of one dimension, 4 or 8 bytes an entry.
        source: Where the words come from.

    Validation: `uniform_order` is this of the numbers from 0 (tests/kernels/test_permute.py).
    """
    n = entries.size
    native = backend.native if n <= backend.MOST_ITEMS else None
    bits = entries.view(f"u{entries.itemsize}")
    items: list[int] = bits.tolist() if native is None else []
    stream = source.stream()
    for start in range(0, n, _AT_ONCE):
        partners = _later_places(stream.words(min(_AT_ONCE, n - start)), start, n, source)
        if native is None:
            numpy_interchange(partners, items, start)
        else:
            native.interchange(partners, bits, bits.itemsize, start)
    if native is None:
        bits[:] = items


def uniform_orders(rounds: int, n: int, source: Random) -> Order:
    """Draw ``rounds`` independent uniform orders, one a row."""
    orders = np.empty((rounds, n), dtype=np.int64)
    orders[:] = np.arange(n)
    shuffle_rows(orders, source)
    return orders


def shuffle_values(values: NDArray[Any], source: Random) -> NDArray[Any]:
    """Return a copy of the values, or of the rows of a table, in the order of `uniform_order`.

    Args:
        values: An array of one dimension or more; along the first it is shuffled.
        source: Where the words come from.
    """
    if _is_plain(values, sizes=(4, 8)):
        shuffled = np.array(values, order="C")
        shuffle_entries(shuffled, source)
        return shuffled
    return np.asarray(values[uniform_order(len(values), source)])


def values_in_order(values: NDArray[Any], order: Order) -> NDArray[Any]:
    """Return the values, or the rows of a table, in a given order.

    Args:
        values: An array of one dimension or more, as long as the order.
        order: A permutation that is needed no longer: its memory may become that of the result.

    Raises:
        IndexError: If the order names an item that does not exist.
    """
    if backend.native is not None and order.size and _is_plain(values, sizes=(8,)):
        if not backend.native.replace_items(order, np.ascontiguousarray(values)):
            raise IndexError(f"order must be a permutation of 0..{order.size - 1}, got another.")
        return order.view(values.dtype)
    return np.asarray(values[order])


def shuffle_rows(rows: NDArray[Any], source: Random) -> None:
    """Bring the entries of every row into a uniformly random order, in place.

    Args:
        rows: A contiguous table of numbers of 8 bytes, one round a row.
        source: Where the words come from.
    """
    rounds, n = rows.shape
    if n > _AT_ONCE:
        for row in rows:
            shuffle_entries(row, source)
        return
    at_once = max(_AT_ONCE // max(n, 1), 1)
    stream = source.stream()
    for start in range(0, rounds, at_once):
        some = rows[start : start + at_once]
        words = stream.words(some.size)
        if backend.native is None:
            numpy_swap_rows(words, some, source)
            continue
        kept = some.copy()
        if not backend.native.swap_rows(words, some, len(some)):
            some[:] = kept
            numpy_swap_rows(words, some, source)


def orders_from_free_codes(free: Words, *, out: Order) -> None:
    """Fill ``out`` with the orders of codes that may be too large: place i takes one modulo n - i.

    Args:
        free: Any whole numbers from 0, one round a row.
        out: Where the orders go, one a row; may be the memory of the codes themselves.
    """
    rounds, n = free.shape
    if backend.native is not None and rounds and n <= backend.MOST_ITEMS:
        backend.native.orders_from_codes(free, out, rounds, True)
    else:
        codes = (free % np.arange(n, 0, -1, dtype=np.uint64)).astype(np.int64)
        out[:] = numpy_orders_from_codes(codes)


def order_from_codes(codes: Order) -> Order:
    """Return the order whose i-th item is the ``codes[i]``-th of those still remaining.

    The sum of the codes is the order's number of inversions.

    Args:
        codes: For place i a number from 0 to n - 1 - i.

    Example:
        >>> order_from_codes(np.array([2, 0, 1, 0])).tolist()
        [2, 0, 3, 1]
    """
    return orders_from_codes(codes.reshape(1, -1)).reshape(-1)


def orders_from_codes(codes: Order) -> Order:
    """Return `order_from_codes` of every row of a table of codes."""
    rounds, n = codes.shape
    if backend.native is not None and rounds and n <= backend.MOST_ITEMS:
        orders = np.empty(codes.shape, dtype=np.int64)
        flat = np.ascontiguousarray(codes, dtype=np.int64)
        if backend.native.orders_from_codes(flat, orders, rounds, False):
            return orders
    return numpy_orders_from_codes(codes)


def order_from_swaps(partners: Order) -> Order:
    """Return the identity order after interchanging place i with ``partners[i]``, i = 0, 1, 2...

    With partners above i this is the paper's loop (Alg. 2 l. 12-15); with i allowed as its own
    partner it is Fisher and Yates' shuffle.

    Example:
        >>> order_from_swaps(np.array([1, 2, 2])).tolist()
        [1, 2, 0]
    """
    if backend.native is not None:
        order = np.empty(partners.size, dtype=np.int64)
        if backend.native.order_from_swaps(np.ascontiguousarray(partners), order):
            return order
    return numpy_order_from_swaps(partners)


def inversion_count(order: Order) -> int:
    """Count the inversions, pairs of places with items in falling order, in O(n log n).

    Args:
        order: A permutation of 0 .. n - 1.

    Raises:
        ValueError: If the entries are not a permutation; the compiled count always notices.

    Example:
        >>> inversion_count(np.array([2, 0, 3, 1]))
        3
    """
    if backend.native is not None and order.size <= backend.MOST_ITEMS:
        total = backend.native.count_inversions(np.ascontiguousarray(order, dtype=np.int64))
        if total < 0:
            raise ValueError(f"order must be a permutation of 0..{order.size - 1}, got another.")
        return total
    return numpy_inversion_count(order)


def disagreement_count(a: NDArray[Any], b: NDArray[Any]) -> int | None:
    """Count the pairs of items that two orders sort oppositely, with compiled code.

    Returns:
        The count; None if nothing is compiled here or they are not orders of the same items.
    """
    is_same = a.ndim == b.ndim == 1 and a.size == b.size <= backend.MOST_ITEMS
    if backend.native is None or not is_same or {a.dtype.kind, b.dtype.kind} - set("iu"):
        return None
    first, second = (np.ascontiguousarray(order, dtype=np.int64) for order in (a, b))
    total = backend.native.count_disagreements(first, second)
    return total if total >= 0 else None


def is_permutation(entries: Order) -> bool:
    """Return whether the entries are 0 .. n - 1, each once."""
    if backend.native is None:
        return numpy_is_permutation(entries)
    return backend.native.is_permutation(np.ascontiguousarray(entries, dtype=np.int64))


def numpy_order_from_codes(codes: Order) -> Order:
    """Do what `order_from_codes` does, with NumPy alone.

    Runs of codes are resolved alone, as if nothing had been taken before them, and then merged in
    pairs: O(n log^2 n).
    """
    n = codes.size
    levels = (max(n - 1, 0) // _RUN).bit_length()
    run = -(-n // (1 << levels))
    # Zeros appended at the end take what is left over and disturb no earlier place.
    padded = np.zeros((1 << levels, run), dtype=np.int64)
    padded.reshape(-1)[:n] = codes
    picks = _resolved_runs(padded)
    places = np.argsort(picks, axis=1)
    picks = np.take_along_axis(picks, places, axis=1)
    places += np.arange(0, picks.size, run)[:, np.newaxis]
    for _ in range(levels):
        picks, places = _merged_pairs(picks, places)
    # All picks of all places, ascending, are the items themselves.
    order = np.empty(picks.size, dtype=np.int64)
    order[places.reshape(-1)] = np.arange(picks.size)
    return order[:n]


def numpy_orders_from_codes(codes: Order) -> Order:
    """Do what `orders_from_codes` does, with NumPy alone."""
    if codes.shape[1] > _LONG_ROUND:
        return np.stack([numpy_order_from_codes(row) for row in codes]) if len(codes) else codes
    return _resolved_runs(codes)


def numpy_order_from_swaps(partners: Order) -> Order:
    """Do what `order_from_swaps` does, without compiled code."""
    order = list(range(partners.size))
    for place, partner in enumerate(partners.tolist()):
        order[place], order[partner] = order[partner], order[place]
    return np.array(order, dtype=np.int64)


def numpy_interchange(partners: Order, items: list[int], start: int) -> None:
    """Swap places from ``start`` on with their partners in turn, without compiled code."""
    for place, partner in enumerate(partners.tolist(), start):
        items[place], items[partner] = items[partner], items[place]


def numpy_swap_rows(words: Words, rows: NDArray[Any], source: Random) -> None:
    """Do what `shuffle_rows` does to some rows, by NumPy alone."""
    partners = _partners(words.reshape(rows.shape), source)
    if len(rows) < _MANY_ROUNDS:
        for row, swaps in zip(rows, partners, strict=True):
            row[:] = row[numpy_order_from_swaps(swaps)]
        return
    every = np.arange(len(rows))
    for place, partner in enumerate(partners.T):
        kept = rows[:, place].copy()
        rows[:, place] = rows[every, partner]
        rows[every, partner] = kept


def numpy_is_permutation(entries: Order) -> bool:
    """Return by NumPy alone whether the entries are 0 .. n - 1, each once."""
    n = entries.size
    if n and (entries.min() < 0 or entries.max() >= n):
        return False
    return bool(np.bincount(entries, minlength=n).max(initial=0) <= 1)


def numpy_inversion_count(order: Order) -> int:
    """Do what `inversion_count` does, with NumPy alone.

    Bit by bit from the top: among items that agree on the higher bits, an item without the bit
    stands inverted to every item with it that comes before. Items are then parted stably by the
    bit, which needs running sums but no sorting.
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
        items = _lay_out_blocks(items[zero_places], items[is_one], half)
    return total


def _is_plain(values: NDArray[Any], *, sizes: tuple[int, ...]) -> bool:
    """Return whether values are one column of entries of such sizes, which may be moved as bits."""
    return values.ndim == 1 and values.itemsize in sizes and not values.dtype.hasobject


def _later_places(words: Words, start: int, n: int, source: Random) -> Order:
    """Return for each place from ``start`` on itself or a later one, all equally likely."""
    partners: Order = np.empty(words.size, dtype=np.int64)
    native = backend.native if n <= backend.MOST_ITEMS else None
    if native is None or not native.partners_of(words, start, n, partners):
        places = np.arange(start, start + words.size)
        partners = places + integers_from(words, n - places, source=source)
    return partners


def _partners(words: Words, source: Random) -> Order:
    """Return the swap partner of each place in each round."""
    rounds, n = words.shape
    places = np.arange(n)
    bounds = np.broadcast_to(n - places, (rounds, n))
    return places + integers_from(words, bounds, source=source)


def _resolved_runs(codes: Order) -> Order:
    """Turn each row of codes into picks among what remained before the row's first code."""
    picks = np.empty_like(codes)
    for first in range(0, len(codes), _RUNS_AT_ONCE):
        # Columns are turned into rows, so that each step works on neighbouring numbers.
        columns = codes[first : first + _RUNS_AT_ONCE].T.copy()
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


def _lay_out_blocks(
    zeros: NDArray[np.uint32], ones: NDArray[np.uint32], half: int
) -> NDArray[np.uint32]:
    """Lay out blocks of ``half`` zeros and ``half`` ones; only the last block may be smaller."""
    full = ones.size - ones.size % half
    blocks = np.hstack([zeros[:full].reshape(-1, half), ones[:full].reshape(-1, half)])
    return np.concatenate([blocks.reshape(-1), zeros[full:], ones[full:]])
