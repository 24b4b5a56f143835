"""Skill: whether estimates are worth their noise, measured against two that anybody could make."""

import math

from rase.counts.estimate import Estimate
from rase.domain import Range

__all__ = ["SkillTally"]


class SkillTally:
    """Add up the errors of estimates, and of two simple answers to the same rounds.

    ``history`` is the mean of the unbiased means of all earlier rounds: a constant, learnt from
    sanitized data alone. ``last`` is the unbiased mean of the round before. Both are kept within
    the public range. The first round has neither and is not counted. A skill above 1 says that the
    estimates are nearer to the truth than the constant; at 1 or below one may as well repeat it.

    Args:
        value_range: The public range of readings.

    Example:
        >>> tally = SkillTally(Range(0, 10))
        >>> for truth, noisy in ((2.0, 1.0), (6.0, 7.0), (2.0, 3.0)):
        ...     alone = Estimate(noisy, 1.0, n=9, method="unbiased_mean", target="mean")
        ...     tally.add(alone, alone=alone, truth=truth)
        >>> tally.count, tally.rmse, round(tally.history, 2), round(tally.skill, 2)
        (2, 1.0, 3.81, 3.81)
    """

    def __init__(self, value_range: Range) -> None:
        self._range = value_range
        self._rounds = 0
        self._sum = 0.0
        self._last = 0.0
        # Sums of errors and their squares, of the estimates and of the two they are compared with.
        self._error = 0.0
        self._square = 0.0
        self._history = 0.0
        self._repeated = 0.0
        self._covered = 0

    def add(self, estimate: Estimate, *, alone: Estimate, truth: float) -> None:
        """Take a round: its estimate, its unbiased mean by itself, and the truth."""
        if self._rounds:
            error = estimate.value - truth
            self._error += error
            self._square += error * error
            self._history += (self._within(self._sum / self._rounds) - truth) ** 2
            self._repeated += (self._within(self._last) - truth) ** 2
            low, high = estimate.interval(0.95)
            self._covered += low <= truth <= high
        self._rounds += 1
        self._sum += alone.value
        self._last = alone.value

    @property
    def count(self) -> int:
        """How many rounds were scored."""
        return max(self._rounds - 1, 0)

    @property
    def rmse(self) -> float:
        """The root mean square error of the estimates; NaN before the second round."""
        return self._root(self._square)

    @property
    def bias(self) -> float:
        """Their mean error."""
        return self._error / self.count if self.count else math.nan

    @property
    def noise(self) -> float:
        """The part of the error that is not bias."""
        return math.sqrt(max(self.rmse**2 - self.bias**2, 0.0)) if self.count else math.nan

    @property
    def history(self) -> float:
        """The root mean square error of the constant learnt from earlier rounds."""
        return self._root(self._history)

    @property
    def last(self) -> float:
        """The root mean square error of repeating the round before."""
        return self._root(self._repeated)

    @property
    def coverage(self) -> float:
        """The share of 95 % intervals that held the truth."""
        return self._covered / self.count if self.count else math.nan

    @property
    def skill(self) -> float:
        """How many times smaller the error is than that of ``history``."""
        return self.history / self.rmse if self.rmse else math.inf

    @property
    def skill_against_last(self) -> float:
        """How many times smaller the error is than that of ``last``."""
        return self.last / self.rmse if self.rmse else math.inf

    def _within(self, value: float) -> float:
        return min(max(value, self._range.low), self._range.high)

    def _root(self, squares: float) -> float:
        return math.sqrt(squares / self.count) if self.count else math.nan
