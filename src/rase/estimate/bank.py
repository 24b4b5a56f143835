"""A bank of Kalman filters: the same rounds followed under many models, weighted by likelihood.

Each model says how a fleet's mean moves: a level that wanders, a daily and weekly profile, and an
irregular part that comes and goes. The models differ in how strongly each part moves; how well a
model foretold the rounds so far decides how much it counts. So nothing has to be tuned, a change of
habits shifts the weights, and doubt about the model is part of the error.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Belief", "FilterBank"]

Floats = NDArray[np.float64]

_DAY_S = 86_400.0
# Harmonics of the day and of the week; further ones are left to the irregular part.
# Where rounds are too long to see a wave, it looks like a part of the level and does no harm.
_PERIODS_S = np.array([*(_DAY_S / k for k in range(1, 7)), *(7 * _DAY_S / k for k in range(1, 4))])
_RELATIVE_SIZES = np.array([*(1 / k for k in range(1, 7)), *(0.3 / k for k in range(1, 4))])
# Scales are shares of the public range's width, a factor of 4 to 8 apart: nearer ones can hardly be
# told apart by noisy rounds. The level's is a standard deviation per day.
_LEVELS = (0.0, 0.002, 0.01, 0.05, 0.25)
_PROFILES = (0.0015, 0.006, 0.025, 0.1)
_IRREGULAR = (0.0001, 0.0002, 0.0004, 0.0008, 0.0016, 0.0032, 0.0064, 0.013, 0.026, 0.052, 0.1)
# How long the irregular part lasts: the next round knows nothing of it, or an hour or so.
_LASTING_S = (0.0, 5400.0)
# A profile changes by this share of itself a day, in standard deviations.
_PROFILE_DRIFT = 0.02
# After so many days the evidence for a model counts a third.
_MEMORY_DAYS = 60.0
# Standard deviations of readings in a round that are thought of before any report, as shares of the
# width, and how far the irregular part's variance may lie from that of n independent devices.
_SPREADS = np.geomspace(0.005, 0.5, 40)
_SPREADS_NEEDED = 5.0
_IRREGULAR_FACTOR = math.log(1.5)


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """Hold what the bank believes of a round's mean: a mixture of normal laws.

    Args:
        weights: How much each model counts; they sum to 1.
        means: What each model believes.
        variances: How sure each is.
    """

    weights: Floats
    means: Floats
    variances: Floats


class FilterBank:
    """Follow the mean of a fleet through time, under many models at once.

    The cost of a round does not depend on how many came before, nor on the time between them.

    Args:
        low: The lower end of the public range.
        width: Its width.
    """

    def __init__(self, low: float, width: float) -> None:
        self._width = width
        models = np.array(list(itertools.product(_LEVELS, _IRREGULAR, _LASTING_S, _PROFILES)))
        level, irregular, self._lasting_s, profile = models.T
        self._level_per_s = (level * width) ** 2 / _DAY_S
        self._irregular = (irregular * width) ** 2
        count, size = len(models), 2 + 2 * len(_PERIODS_S)
        self._state = np.zeros((count, size))
        self._state[:, 0] = low + width / 2
        self._covariance = np.zeros((count, size, size))
        # Before any report every place of the range is as likely: variance of the uniform law.
        self._covariance[:, 0, 0] = width**2 / 12
        self._covariance[:, 1, 1] = self._irregular
        self._waves = np.arange(2, size)
        amplitudes = (profile[:, None] * width * np.repeat(_RELATIVE_SIZES, 2)) ** 2
        self._covariance[:, self._waves, self._waves] = amplitudes
        self._profile_per_s = amplitudes * (_PROFILE_DRIFT**2 / _DAY_S)
        self._evidence = np.zeros(count)
        # Count, sum and sum of squares of what rounds told of their readings' variance.
        self._spread = np.zeros(3)
        self._time_s: float | None = None

    @property
    def time_s(self) -> float | None:
        """The time of the latest round that was taken in; None before the first."""
        return self._time_s

    def step(self, time_s: float, value: float, *, variance: float, n: int) -> Belief:
        """Take the unbiased mean of a round and return what is believed of it now.

        Args:
            time_s: When the round began; later than all before.
            value: The unbiased mean.
            variance: Its variance by noise alone.
            n: How many reported.
        """
        self._advance(time_s)
        seen = _seen(time_s)
        gain = self._covariance @ seen
        signal = gain @ seen
        total = signal + variance
        surprise = value - self._state @ seen
        self._evidence -= 0.5 * (np.log(total) + surprise * surprise / total)
        share = gain / total[:, None]
        self._state += share * surprise[:, None]
        self._covariance -= share[:, :, None] * gain[:, None, :]
        evidence = self._evidence + self._irregular_prior(n)
        weights = np.exp(evidence - evidence.max())
        return Belief(weights / weights.sum(), self._state @ seen, signal * (variance / total))

    def learn_spread(self, value: float) -> None:
        """Take an unbiased estimate of the variance of the readings within a round.

        Rounds count alike: an error estimated from the same few reports is small where the value
        happens to be small, and weights by it would pull the mean down.
        """
        self._spread += (1.0, value, value * value)

    def _advance(self, time_s: float) -> None:
        if self._time_s is not None:
            passed_s = time_s - self._time_s
            if not passed_s > 0:
                raise ValueError(f"time_s must be later than {self._time_s:g}, got {time_s:g}.")
            with np.errstate(divide="ignore"):
                left = np.exp(-passed_s / self._lasting_s)
            self._state[:, 1] *= left
            self._covariance[:, 1, :] *= left[:, None]
            self._covariance[:, :, 1] *= left[:, None]
            self._covariance[:, 0, 0] += passed_s * self._level_per_s
            self._covariance[:, 1, 1] += self._irregular * (1 - left**2)
            self._covariance[:, self._waves, self._waves] += passed_s * self._profile_per_s
            forget = math.exp(-passed_s / (_MEMORY_DAYS * _DAY_S))
            self._evidence *= forget
            self._spread *= forget
        self._time_s = time_s

    def _irregular_prior(self, n: int) -> Floats:
        """Say how likely each model's irregular part is: n independent devices average to V / n."""
        spreads = (_SPREADS * self._width) ** 2
        told = np.zeros(len(spreads))
        count, total, squares = self._spread.tolist()
        if count >= _SPREADS_NEEDED:
            seen = total / count
            variance = max(squares / count - seen * seen, 0.0) / (count - 1)
            told = -0.5 * (seen - spreads) ** 2 / (variance + (0.1 * spreads) ** 2)
        grid = (np.array(_IRREGULAR) * self._width) ** 2
        away = (np.log(grid)[:, None] - np.log(spreads / n)[None, :]) / _IRREGULAR_FACTOR
        weights = np.exp(told - told.max() - 0.5 * away**2).sum(axis=1)
        logs: Floats = np.log(weights + 1e-300)
        return np.asarray(logs[np.searchsorted(grid, self._irregular)])


def _seen(time_s: float) -> Floats:
    """Return how much of each part of the state shows at a time."""
    angles = 2 * math.pi * (time_s % (7 * _DAY_S)) / _PERIODS_S
    waves = np.stack([np.cos(angles), np.sin(angles)], axis=1).ravel()
    return np.concatenate([[1.0, 1.0], waves])
