"""Other aggregates than the mean: total, count between bounds, and variance of the readings."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from rase.counts.counts import Counts, as_counts
from rase.counts.deconvolve import deconvolve
from rase.counts.estimate import Estimate, combined_degrees
from rase.counts.fleet import sampling_variance
from rase.counts.mean import unbiased_mean
from rase.counts.moments import moments_of, square_variance_bounds

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from rase.kernels.words import Random, Resampling
    from rase.laws.randomizer import RangeRandomizer

__all__ = ["count", "total", "variance"]


def total(
    reports: Counts | ArrayLike,
    *,
    randomizer: RangeRandomizer,
    epsilon: ArrayLike | None = None,
    fleet: int | None = None,
    participation: float | None = None,
) -> Estimate:
    """Estimate the sum of the readings: of those who reported, or of the whole fleet.

    How many reported is public and counted without noise. Those who did not are taken to be like
    those who did: silent by chance, not because of what they measure. With ``fleet`` the sum is
    scaled to so many devices. Where the size of the fleet is unknown, too, but each device reports
    with a known chance (``participation``, as in a schedule that rotates), reports are scaled by
    that chance (Horvitz and Thompson 1952). Either way the error also holds the chance of who
    reported; where the mechanism hides the spread of readings, the largest there can be is taken.

    Args:
        reports: Counts, or the reports of one round in any order.
        randomizer: The mechanism they come from.
        epsilon: Their budgets, aligned with them, where contributors differ.
        fleet: How many devices there are; None for those who reported.
        participation: The chance with which each reports, above 0, at most 1; None for unknown.

    Raises:
        ValueError: If ``fleet`` is smaller than the number of reports, ``participation`` no chance,
            both are given, or as for `unbiased_mean`.

    Example:
        >>> from rase import Hybrid, SeededRandom, Range
        >>> noisy = Hybrid(4.0, Range(0, 10)).randomize([4.0] * 900, rng=SeededRandom(1))
        >>> some = total(noisy, randomizer=Hybrid(4.0, Range(0, 10)), participation=0.9)
        >>> low, high = some.interval()
        >>> low < 4000 < high
        True
    """
    counts = as_counts(reports, randomizer, epsilon=epsilon)
    mean = unbiased_mean(counts, randomizer=randomizer)
    scale, silence, target = float(mean.n), 0.0, "sum of the readings"
    if fleet is not None and participation is not None:
        raise ValueError(
            "fleet and participation must not both be given: either one gives the size."
        )
    if fleet is not None:
        if fleet < mean.n:
            raise ValueError(f"fleet must be at least the {mean.n} that reported, got {fleet}.")
        scale, target = float(fleet), f"sum of the readings of {fleet} devices"
        spread, _ = _spread_and_square(counts, randomizer, mean.value)
        silence = fleet**2 * sampling_variance(
            mean, members=fleet, spread=spread, value_range=randomizer.domain
        )
    elif participation is not None:
        if not 0 < participation <= 1:
            raise ValueError(f"participation must be above 0 and at most 1, got {participation}.")
        scale, target = mean.n / participation, "sum of the readings of the whole fleet"
        _, square = _spread_and_square(counts, randomizer, mean.value)
        # How many report is a matter of chance, too: its upper limit, not the number seen, says by
        # how much that may be off (a score interval; at n = 20 the number covers 91 %).
        most = (1 + math.sqrt(mean.n + 1)) ** 2
        silence = most * square * (1 - participation) / participation**2
    return Estimate(
        scale * mean.value,
        math.sqrt((scale * mean.standard_error) ** 2 + silence),
        n=mean.n,
        method="total",
        target=target,
        degrees_of_freedom=combined_degrees(
            [(scale * mean.standard_error) ** 2, silence],
            [mean.degrees_of_freedom, max(mean.n - 1, 1)],
        ),
        # With participation the size of the fleet is a guess, and bounds no sum.
        lowest=-math.inf if participation is not None else scale * mean.lowest,
        highest=math.inf if participation is not None else scale * mean.highest,
    )


def _spread_and_square(
    counts: Counts, randomizer: RangeRandomizer, mean: float
) -> tuple[float, float]:
    """Return variance and mean square of the readings, or the largest that they can have."""
    public = randomizer.domain
    inside = min(max(mean, public.low), public.high)
    # Bhatia and Davis 2000: no readings of this mean within the range spread further.
    most = (inside - public.low) * (public.high - inside)
    found = moments_of(counts, randomizer).spread
    spread = most if found is None else min(max(float(found[0]), 0.0), most)
    return spread, spread + inside * inside


def count(
    reports: Counts | ArrayLike,
    *,
    randomizer: RangeRandomizer,
    above: float | None = None,
    below: float | None = None,
    rng: Random | Resampling | None = None,
) -> Estimate:
    """Estimate how many contributors' readings lie above and below given bounds.

    Without bounds it is the number of reports, which is public and has no error. With bounds it is
    read from the same fit as `rase.counts.distribution.histogram` and shares its limits: a bound
    cuts readings near it no sharper than the noise allows.

    Args:
        reports: Counts, or the reports of one round in any order.
        randomizer: The mechanism they come from; with bounds, all must share one budget.
        above: The lower bound; None for none.
        below: The upper bound; None for none.
        rng: For the simulation behind the error; None for the secure source.

    Raises:
        NotIdentifiable: If the mechanism's reports carry only the mean (Duchi).
        ValueError: If ``above`` is not below ``below``, or the reports cannot be used.
    """
    counts = as_counts(reports, randomizer)
    if above is None and below is None:
        n = counts.n
        return Estimate(float(n), 0.0, n=n, method="count", target="number of reports")
    lower = -math.inf if above is None else above
    upper = math.inf if below is None else below
    if not lower < upper:
        raise ValueError(f"above must be less than below, got above {above} and below {below}.")
    fit = deconvolve(counts, randomizer=randomizer, rng=rng)
    share, error = fit.between(np.array([lower, upper]))
    bounds = [f"above {above:g}"] if above is not None else []
    bounds += [f"below {below:g}"] if below is not None else []
    return Estimate(
        fit.n * float(share[0]),
        fit.n * float(error[0]),
        n=fit.n,
        method="count",
        target=f"number of readings {' and '.join(bounds)}",
        lowest=0.0,
        highest=float(fit.n),
    )


def variance(
    reports: Counts | ArrayLike,
    *,
    randomizer: RangeRandomizer,
    epsilon: ArrayLike | None = None,
) -> Estimate:
    """Estimate the variance of these readings, the mean square distance to their mean.

    The mean decoded square, less the squared mean, plus what noise adds to the latter. That is
    unbiased (`rase.counts.moments.moments_of` has it), and below 0 in up to half of the rounds
    where noise dominates; then the value is 0, and ``target`` says so. The interval is the same.
    The error is by the delta method from the spread of the decoded reports, kept within what the
    mechanism's law can have: reports alone would miss rare wild ones, and add the readings' own
    spread. Student's degrees of freedom are those of n reports.

    Args:
        reports: Counts, or the reports of one round in any order.
        randomizer: The mechanism they come from.
        epsilon: The budgets of reports, aligned with them, where contributors differ.

    Raises:
        NotIdentifiable: If the mechanism's reports carry only the mean (Duchi).
        ValueError: If there are no reports, or they cannot come from ``randomizer``.
    """
    counts = as_counts(reports, randomizer, epsilon=epsilon)
    squares = randomizer.decode_square_places(counts.places, epsilon=counts.epsilon)
    decoded = randomizer.decode_places(counts.places, epsilon=counts.epsilon)
    found = moments_of(counts, randomizer)
    n, mean = counts.n, float(found.mean[0])
    each = squares - 2 * mean * decoded + mean * mean
    away = each - counts.counts @ each / n
    scatter = float(counts.counts @ (away * away)) / (n - 1) if n > 1 else math.inf
    if counts.epsilon is None and n > 1:
        least, greatest = square_variance_bounds(randomizer, mean)
        scatter = min(max(scatter, least), greatest)
    unbiased = float(np.asarray(found.spread)[0])
    target = "variance of the readings"
    return Estimate(
        max(unbiased, 0.0),
        math.sqrt(scatter / n),
        n=n,
        method="variance",
        target=target if unbiased >= 0 else f"{target}, estimated below 0",
        degrees_of_freedom=max(n - 1, 1),
        # Popoviciu 1935: no readings within a range spread further than half at either end.
        lowest=0.0,
        highest=randomizer.domain.width**2 / 4,
    )
