"""Other aggregates than the mean: total, count between bounds, and variance of the readings."""

import math

import numpy as np
from numpy.typing import ArrayLike

from rase.errors import NotIdentifiable
from rase.estimate.decoder import Decoder, as_budgets, as_reports
from rase.estimate.deconvolve import deconvolve
from rase.estimate.estimate import Estimate
from rase.estimate.fleet import sampling_variance
from rase.estimate.mean import unbiased_mean
from rase.kernels.words import Random, Resampling

__all__ = ["count", "total", "variance"]


def total(
    reports: ArrayLike,
    *,
    randomizer: Decoder,
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
        reports: The reports of one round, in any order.
        randomizer: The mechanism they come from.
        epsilon: Their budgets, aligned with them, where contributors differ.
        fleet: How many devices there are; None for those who reported.
        participation: The chance with which each reports, above 0, at most 1; None for unknown.

    Raises:
        ValueError: If ``fleet`` is smaller than the number of reports, ``participation`` no chance,
            both are given, or as for `unbiased_mean`.

    Example:
        >>> from rase import Hybrid, SeededRandom, ValueRange
        >>> noisy = Hybrid(4.0, ValueRange(0, 10)).randomize([4.0] * 900, rng=SeededRandom(1))
        >>> some = total(noisy, randomizer=Hybrid(4.0, ValueRange(0, 10)), participation=0.9)
        >>> low, high = some.interval()
        >>> low < 4000 < high
        True
    """
    mean = unbiased_mean(reports, randomizer=randomizer, epsilon=epsilon)
    scale, silence, target = float(mean.n), 0.0, "sum of the readings"
    if fleet is not None and participation is not None:
        raise ValueError("fleet and participation must not both be given: either tells the size.")
    if fleet is not None:
        if fleet < mean.n:
            raise ValueError(f"fleet must be at least the {mean.n} that reported, got {fleet}.")
        scale, target = float(fleet), f"sum of the readings of {fleet} devices"
        spread, _ = _moments(reports, randomizer=randomizer, epsilon=epsilon, mean=mean.value)
        silence = fleet**2 * sampling_variance(
            mean, members=fleet, spread=spread, value_range=randomizer.value_range
        )
    elif participation is not None:
        if not 0 < participation <= 1:
            raise ValueError(f"participation must be above 0 and at most 1, got {participation}.")
        scale, target = mean.n / participation, "sum of the readings of the whole fleet"
        _, square = _moments(reports, randomizer=randomizer, epsilon=epsilon, mean=mean.value)
        silence = mean.n * square * (1 - participation) / participation**2
    return Estimate(
        scale * mean.value,
        math.sqrt((scale * mean.standard_error) ** 2 + silence),
        n=mean.n,
        method="total",
        target=target,
        degrees_of_freedom=mean.degrees_of_freedom,
        # With participation the size of the fleet is a guess, and bounds no sum.
        lowest=-math.inf if participation is not None else scale * mean.lowest,
        highest=math.inf if participation is not None else scale * mean.highest,
    )


def _moments(
    reports: ArrayLike, *, randomizer: Decoder, epsilon: ArrayLike | None, mean: float
) -> tuple[float, float]:
    """Return variance and mean square of the readings, or the largest that they can have."""
    public = randomizer.value_range
    inside = min(max(mean, public.low), public.high)
    # Bhatia and Davis 2000: no readings of this mean within the range spread further.
    most = (inside - public.low) * (public.high - inside)
    try:
        spread = variance(reports, randomizer=randomizer, epsilon=epsilon).value
    except NotIdentifiable:
        spread = most
    spread = min(max(spread, 0.0), most)
    return spread, spread + inside * inside


def count(
    reports: ArrayLike,
    *,
    randomizer: Decoder,
    above: float | None = None,
    below: float | None = None,
    rng: Random | Resampling | None = None,
) -> Estimate:
    """Estimate how many contributors' readings lie above and below given bounds.

    Without bounds it is the number of reports, which is public and has no error. With bounds it is
    read from the same fit as `rase.estimate.distribution.histogram` and shares its limits: a bound
    cuts readings near it no sharper than the noise allows.

    Args:
        reports: The reports of one round, in any order.
        randomizer: The mechanism they come from; with bounds, all must share one budget.
        above: The lower bound; None for none.
        below: The upper bound; None for none.
        rng: For the simulation behind the error; None for the secure source.

    Raises:
        NotIdentifiable: If the mechanism's reports carry only the mean (Duchi).
        ValueError: If ``above`` is not below ``below``, or the reports cannot be used.
    """
    noisy = as_reports(reports)
    if above is None and below is None:
        return Estimate(
            float(noisy.size), 0.0, n=noisy.size, method="count", target="number of reports"
        )
    lower = -math.inf if above is None else above
    upper = math.inf if below is None else below
    if not lower < upper:
        raise ValueError(f"above must be less than below, got above {above} and below {below}.")
    fit = deconvolve(noisy, randomizer=randomizer, rng=rng)
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
    reports: ArrayLike, *, randomizer: Decoder, epsilon: ArrayLike | None = None
) -> Estimate:
    """Estimate the variance of these readings, the mean square distance to their mean.

    Unbiased: the mean decoded square, less the squared mean, plus what noise adds to the latter. So
    it may come out negative where noise dominates; its interval begins at 0. The error is by the
    delta method from the spread of the decoded reports, which holds the spread of the readings too
    and is therefore rather too large.

    Args:
        reports: The reports of one round, in any order.
        randomizer: The mechanism they come from.
        epsilon: Their budgets, aligned with them, where contributors differ.

    Raises:
        NotIdentifiable: If the mechanism's reports carry only the mean (Duchi).
        ValueError: If there are no reports, or they cannot come from ``randomizer``.
    """
    noisy = as_reports(reports)
    budgets = as_budgets(epsilon, noisy.size)
    squares = randomizer.decode_square(noisy, epsilon=budgets)
    decoded = randomizer.decode(noisy, epsilon=budgets)
    n, mean = noisy.size, float(decoded.mean())
    # About the mean, so that ranges far from 0 lose no digits in the sums.
    moments = squares - 2 * mean * decoded + mean * mean
    noise = float((decoded * decoded - squares).mean()) / n
    return Estimate(
        float(moments.mean()) + noise,
        float(moments.std(ddof=1)) / math.sqrt(n) if n > 1 else math.inf,
        n=n,
        method="variance",
        target="variance of the readings",
        degrees_of_freedom=max(n - 1, 1),
        # Popoviciu 1935: no readings within a range spread further than half at either end.
        lowest=0.0,
        highest=randomizer.value_range.width**2 / 4,
    )
