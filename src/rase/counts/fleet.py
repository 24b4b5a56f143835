"""Whose mean an estimate is of: those who reported in a round, or the fleet they are a sample of.

Where devices take turns, or some are silent, another round would have had other reporters and with
them another mean. An interval for the fleet's mean has to hold that as well as the noise.
"""

import math
from dataclasses import replace

from rase.counts.estimate import Estimate
from rase.domain import Range

__all__ = ["OF_FLEET", "OF_REPORTERS", "of_fleet", "of_reporters", "sampling_variance"]

# Estimates of this are made more precise in words; the paper's estimators speak of the reports.
_READINGS = "mean of the readings"
OF_REPORTERS = f"{_READINGS} of the reporters"
OF_FLEET = f"{_READINGS} of the fleet"


def of_reporters(estimate: Estimate) -> Estimate:
    """Return an estimate that says whose mean it is of: of those who reported, and of no others."""
    is_mean = estimate.target == _READINGS
    return replace(estimate, target=OF_REPORTERS) if is_mean else estimate


def of_fleet(
    estimate: Estimate, *, members: int, spread: float | None, value_range: Range
) -> Estimate:
    """Return the mean of a round's reporters as an estimate of the mean of a whole fleet.

    The error gains s / sqrt(n) * sqrt(1 - n / N): that of a sample of n without replacement out of
    N whose readings spread by s. Nothing is added where all report.

    Assumes that who reports does not depend on what is measured: turns that a keyed hash deals out,
    not devices that fall silent when they read much. Where the members of later rounds are others
    until all had their turn, as with `rase.accounting.schedule.Rotate`, the errors of neighbouring
    rounds are opposed rather than alike, so a window that averages them as independent states too
    much rather than too little. The same members come together again in the next window of turns;
    what is followed through time by the hour of the day learns theirs instead of the fleet's
    (`rase.series.tracker.Tracker.update` therefore adds it after all averaging).

    Where reports are single bits the spread is hidden. The error of their mean is then that of bits
    drawn with the fleet's mean as their chance, which holds the spread already: nothing is added.

    Args:
        estimate: The mean of a round by itself; other estimates than means of readings, such as the
            paper's of the reports, are returned as they are.
        members: How many devices the fleet has, N.
        spread: The variance of the round's readings as the reports reveal it
            (`rase.counts.moments.moments_of`), which may be negative where noise dominates; None
            where they hide it.
        value_range: The public range: no readings of a mean in it spread further than to its ends.

    Raises:
        ValueError: If there are fewer members than reports.

    Example:
        >>> mean = Estimate(40.0, 3.0, n=100, method="unbiased_mean", target="mean of the readings")
        >>> some = of_fleet(mean, members=2500, spread=1600.0, value_range=Range(0, 100))
        >>> round(some.standard_error, 2), some.target
        (4.95, 'mean of the readings of the fleet')
    """
    if estimate.target != _READINGS:
        return estimate
    added = sampling_variance(
        estimate, members=members, spread=spread or 0.0, value_range=value_range
    )
    error = math.hypot(estimate.standard_error, math.sqrt(added))
    return replace(estimate, standard_error=error, target=OF_FLEET)


def sampling_variance(
    estimate: Estimate, *, members: int, spread: float | None, value_range: Range
) -> float:
    """Return how far the mean of the reporters is off that of the fleet, as a variance.

    Args:
        estimate: The estimate; its value bounds the spread, and its n is that of the reports.
        members: How many devices the fleet has.
        spread: The variance of readings; None for the largest there can be.
        value_range: The public range.

    Raises:
        ValueError: If there are fewer members than reports.
    """
    if members < estimate.n:
        raise ValueError(f"members must be at least the {estimate.n} that reported, got {members}.")
    inside = min(max(estimate.value, value_range.low), value_range.high)
    # Bhatia and Davis 2000: no readings of this mean within the range spread further.
    most = (inside - value_range.low) * (value_range.high - inside)
    kept = most if spread is None else min(max(spread, 0.0), most)
    # With the divisor n - 1 of a variance that is estimated from a sample.
    return kept / max(estimate.n - 1, 1) * (1 - estimate.n / members)
