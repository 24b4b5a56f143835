"""Readings of one round become one, in memory alone: no reading is ever written down."""

import math
from typing import Final

__all__ = ["AGGREGATES", "Collection"]

AGGREGATES: Final = ("mean", "last", "increments")
_MOST_ROUNDS = 64
# As Home Assistant recognises resets of a sensor with the state class total_increasing.
_DIP = 0.9


class Collection:
    """Gather readings by round.

    Args:
        aggregate: "mean"; "last" for the newest; "increments" for how much a counter, such as an
            energy meter's, has risen. A counter that lost a tenth or more was reset to 0; one that
            lost less was rounded or came late, and counts once it is higher than ever.

    Example:
        >>> collection = Collection()
        >>> collection.add(7, 10.0); collection.add(7, 20.0)
        >>> collection.take(7), collection.take(7)
        (15.0, None)
        >>> counter = Collection("increments")
        >>> for round, reading in ((7, 5.0), (7, 5.5), (8, 6.0), (8, 0.25)):
        ...     counter.add(round, reading)
        >>> counter.take(7), counter.take(8)
        (0.5, 0.75)
    """

    def __init__(self, aggregate: str = "mean") -> None:
        if aggregate not in AGGREGATES:
            raise ValueError(f"aggregate must be one of {', '.join(AGGREGATES)}.")
        self._aggregate = aggregate
        self._rounds: dict[int, tuple[int, float]] = {}
        self._counter: float | None = None

    def add(self, round: int, reading: float) -> None:
        """Count a reading in; one that is not finite is left out.

        The mean is kept, not the sum, so that large readings do not overflow.
        """
        if not math.isfinite(reading):
            return
        count, value = self._rounds.get(round, (0, 0.0))
        count += 1
        if self._aggregate == "last":
            value = reading
        elif self._aggregate == "mean":
            value += reading / count - value / count
        else:
            before = self._counter
            if before is None:
                # Where a counter stands says nothing about this round.
                self._counter = reading
                return
            if not _DIP * before <= reading < before:
                self._counter = reading
                value += reading - before if reading >= before else max(reading, 0.0)
        self._rounds[round] = count, value
        if len(self._rounds) > _MOST_ROUNDS:
            # Only a clock that jumps about makes so many; the first one in is the oldest.
            del self._rounds[next(iter(self._rounds))]

    def peek(self, round: int) -> tuple[int, float] | None:
        """Return how many readings a round has so far, and what they became."""
        return self._rounds.get(round)

    def take(self, round: int) -> float | None:
        """Return what a round's readings became and forget it; None if there is none."""
        found = self._rounds.pop(round, None)
        return None if found is None else found[1]

    def drop_before(self, round: int) -> None:
        """Forget earlier rounds."""
        for early in [key for key in self._rounds if key < round]:
            del self._rounds[early]

    def clear(self) -> None:
        """Forget everything, where a counter stood as well: a pause is nobody's business."""
        self._rounds.clear()
        self._counter = None
