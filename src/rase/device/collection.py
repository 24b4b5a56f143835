"""Readings of one round become one mean, in memory alone: no reading is ever written down."""

import math

__all__ = ["Collection"]

_MOST_ROUNDS = 64


class Collection:
    """Add up readings by round.

    Example:
        >>> collection = Collection()
        >>> collection.add(7, 10.0); collection.add(7, 20.0)
        >>> collection.take(7), collection.take(7)
        (15.0, None)
    """

    def __init__(self) -> None:
        self._rounds: dict[int, tuple[int, float]] = {}

    def add(self, round: int, reading: float) -> None:
        """Count a reading in; one that is not finite is left out.

        The mean is kept, not the sum, so that large readings do not overflow.
        """
        if not math.isfinite(reading):
            return
        count, mean = self._rounds.get(round, (0, 0.0))
        count += 1
        self._rounds[round] = count, mean + reading / count - mean / count
        if len(self._rounds) > _MOST_ROUNDS:
            # Only a clock that jumps about makes so many; the first one in is the oldest.
            del self._rounds[next(iter(self._rounds))]

    def take(self, round: int) -> float | None:
        """Return the mean of a round and forget it; None if there is none."""
        found = self._rounds.pop(round, None)
        return None if found is None else found[1]

    def drop_before(self, round: int) -> None:
        """Forget earlier rounds."""
        for early in [key for key in self._rounds if key < round]:
            del self._rounds[early]

    def clear(self) -> None:
        """Forget everything."""
        self._rounds.clear()
