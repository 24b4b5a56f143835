"""Sliding windows over what was spent: how full the fullest one is, and when there is room again.

A place is a round number, or a second for the owner's limit; a window is ``length`` consecutive
places. Windows are looked at on both sides of a place, because after a clock went back there may be
later rounds that have spent already. Everything is in whole numbers.

The load of the window that begins at place s is a step function of s: a charge at place p is in all
windows that begin in [p - length + 1, p]. So one sweep over those beginnings answers everything.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Charge", "first_free", "fullest"]


@dataclass(frozen=True, slots=True)
class Charge:
    """What one report spends.

    Args:
        place: Where it stands: its round, or the second its round begins.
        nano: Epsilon in billionths.
    """

    place: int
    nano: int


def fullest(charges: Iterable[Charge], place: int, *, length: int) -> int:
    """Return the load of the fullest window that contains a place.

    Example:
        >>> fullest([Charge(1, 5), Charge(4, 7)], 3, length=3)
        7
        >>> fullest([Charge(1, 5), Charge(4, 7)], 3, length=4)
        12
    """
    return max(
        (
            load
            for begin, end, load in _loads(charges, length)
            if begin <= place and end > place - length + 1
        ),
        default=0,
    )


def first_free(charges: Iterable[Charge], place: int, *, length: int, room: int) -> int:
    """Return the first place, from a given one on, all of whose windows hold at most ``room``.

    Args:
        charges: What was spent, in any order.
        place: Where to begin.
        length: Of the window.
        room: The largest load allowed besides what is to be added; not negative.

    Example:
        >>> first_free([Charge(1, 5), Charge(4, 7)], 1, length=3, room=6)
        1
        >>> first_free([Charge(1, 5), Charge(4, 7)], 2, length=3, room=6)
        7
    """
    free = place
    for begin, end, load in _loads(charges, length):
        # An overfull window blocks all its places; it is met in the order of its beginning.
        if load > room and begin <= free:
            free = max(free, end - 1 + length)
    return free


def _loads(charges: Iterable[Charge], length: int) -> Iterator[tuple[int, int, int]]:
    """Yield (begin, end, load): all windows that begin in [begin, end) have this load."""
    changes: defaultdict[int, int] = defaultdict(int)
    for charge in charges:
        changes[charge.place - length + 1] += charge.nano
        changes[charge.place + 1] -= charge.nano
    load = 0
    for begin, end in pairwise(sorted(changes)):
        load += changes[begin]
        yield begin, end, load
