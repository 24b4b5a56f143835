"""Other aggregates than the mean: total, count between bounds, and variance of the readings."""

import math

import numpy as np
from numpy.typing import ArrayLike

from rase.estimate.decoder import Decoder, as_budgets, as_reports
from rase.estimate.deconvolve import deconvolve
from rase.estimate.estimate import Estimate
from rase.estimate.mean import unbiased_mean
from rase.kernels.words import Random, Resampling

__all__ = ["count", "total", "variance"]


def total(reports: ArrayLike, *, randomizer: Decoder, epsilon: ArrayLike | None = None) -> Estimate:
    """Estimate the sum of the readings: n times their unbiased mean.

    Args:
        reports: The reports of one round, in any order.
        randomizer: The mechanism they come from.
        epsilon: Their budgets, aligned with them, where contributors differ.

    Raises:
        ValueError: As for `unbiased_mean`.
    """
    mean = unbiased_mean(reports, randomizer=randomizer, epsilon=epsilon)
    return Estimate(
        mean.n * mean.value,
        mean.n * mean.standard_error,
        n=mean.n,
        method="total",
        target="sum of the readings",
        degrees_of_freedom=mean.degrees_of_freedom,
    )


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
    )


def variance(
    reports: ArrayLike, *, randomizer: Decoder, epsilon: ArrayLike | None = None
) -> Estimate:
    """Estimate the variance of these readings, the mean square distance to their mean.

    Unbiased: the mean decoded square, less the squared mean, plus what noise adds to the latter. So
    it may come out negative where noise dominates; its interval then says so. The error is by the
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
    )
