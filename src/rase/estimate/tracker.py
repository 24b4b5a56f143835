"""The mean of a fleet followed through time: each round's estimate borrows from the rounds before.

What was released in earlier rounds is already public, so using it costs no privacy. The less a
single round tells, the more is borrowed; where a round's own reports are precise, its unbiased mean
comes through almost unchanged.
"""

import math

import numpy as np

from rase.estimate.bank import Belief, FilterBank
from rase.estimate.estimate import Estimate
from rase.stream import ValueRange

__all__ = ["Tracker"]

# Beyond so many standard deviations an end of the range cuts off nothing that counts.
_FAR = 6.0
# Components of the mixture that count less than this together with all others cannot be seen.
_NEGLIGIBLE = 1e-9


class Tracker:
    """Estimate the mean of each round from its reports and from the rounds before.

    The level, daily and weekly profile and irregular part of the fleet's mean are learnt from
    sanitized rounds alone, by likelihood over a bank of models (`rase.estimate.bank`); there is
    nothing to tune. Rounds that were withheld are left out: the next one is less sure. The interval
    holds the doubt about the model; it is for the mean of the readings of that round.

    Guarantee: post-processing of released reports, so it has the privacy of these and costs none.

    Args:
        value_range: The public range of readings.

    Example:
        >>> tracker = Tracker(ValueRange(0, 100))
        >>> for round in range(48):
        ...     noisy = 40.0 + 20.0 * (-1) ** round  # two numbers around the truth
        ...     mean = Estimate(noisy, 20.0, n=50, method="unbiased_mean", target="mean")
        ...     tracked = tracker.update(3600 * round, mean)
        >>> abs(tracked.value - 40.0) < 10.0, tracked.standard_error < 10.0
        (True, True)
    """

    def __init__(self, value_range: ValueRange) -> None:
        """Start without any knowledge but the range."""
        self.value_range = value_range
        self._bank = FilterBank(value_range.low, value_range.width)

    @property
    def time_s(self) -> float | None:
        """When the latest round that was taken in began; None before the first."""
        return self._bank.time_s

    def update(self, time_s: float, mean: Estimate, *, spread: Estimate | None = None) -> Estimate:
        """Take a round in and return its estimate.

        Args:
            time_s: When the round began, in seconds since 1970; rounds come in order, and some may
                be missing.
            mean: The unbiased mean of its reports.
            spread: The variance of its readings as `rase.estimate.aggregates.variance` estimates
                it, where the mechanism tells it: how far n devices of their own mind move the mean.

        Raises:
            ValueError: If the round is not later than the last one, or the error of ``mean`` is
                infinite.
        """
        if not 0 < mean.standard_error < math.inf:
            raise ValueError(
                f"mean must have a finite standard error above 0, got {mean.standard_error}."
            )
        if spread is not None:
            self._bank.learn_spread(spread.value)
        belief = self._bank.step(time_s, mean.value, variance=mean.standard_error**2, n=mean.n)
        value, variance = _within(belief, self.value_range)
        return Estimate(
            value,
            math.sqrt(variance),
            n=mean.n,
            method="tracked_mean",
            target="mean of the readings",
        )


def _within(belief: Belief, value_range: ValueRange) -> tuple[float, float]:
    """Return mean and variance of a mixture of normal laws, cut to the range.

    No mean of readings lies outside the range; a belief that does is cut off there and the rest
    counts as much more (moments of the truncated normal law: Johnson, Kotz and Balakrishnan 1994,
    section 13.10.1).
    """
    keep = belief.weights > _NEGLIGIBLE
    weights, means = belief.weights[keep], belief.means[keep]
    errors = np.sqrt(belief.variances[keep])
    lower = (value_range.low - means) / errors
    upper = (value_range.high - means) / errors
    if lower.max() > -_FAR or upper.min() < _FAR:
        cut = [_cut(a, b) for a, b in zip(lower.tolist(), upper.tolist(), strict=True)]
        mass, shift, square = np.array(cut).T
        weights = weights * mass
        means, errors = means + errors * shift, errors * np.sqrt(square)
    weights = weights / weights.sum()
    mean = float(weights @ means)
    variance = float(weights @ (errors * errors + (means - mean) ** 2))
    return min(max(mean, value_range.low), value_range.high), variance


def _cut(lower: float, upper: float) -> tuple[float, float, float]:
    """Return mass, mean and variance of the standard normal law between two bounds."""
    if upper < -_FAR or lower > _FAR:
        # So far outside that only the nearest end is left; how little it weighs is all that counts.
        end = upper if upper < 0 else lower
        return math.exp(-0.5 * min(end * end, 1000.0)), end, 1 / (end * end)
    mass = max(_below(upper) - _below(lower), 1e-300)
    at_lower, at_upper = _density(lower), _density(upper)
    shift = (at_lower - at_upper) / mass
    ends = lower * at_lower if at_lower else 0.0
    ends -= upper * at_upper if at_upper else 0.0
    return mass, shift, max(1 + ends / mass - shift * shift, 1e-12)


def _below(place: float) -> float:
    return 0.5 * math.erfc(-place / math.sqrt(2))


def _density(place: float) -> float:
    return math.exp(-0.5 * place * place) / math.sqrt(2 * math.pi)
