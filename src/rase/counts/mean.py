"""Unbiased means of the readings of a round, each with its standard error."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rase.counts.counts import Counts, as_counts, as_reports
from rase.counts.estimate import Estimate
from rase.counts.moments import moments_of, variance_bounds
from rase.kernels.words import source_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from rase.arrays import Floats
    from rase.kernels.words import Random, Resampling
    from rase.laws.randomizer import RangeRandomizer

__all__ = [
    "OF_READINGS",
    "combined_mean",
    "lattice_mean",
    "round_mean",
    "unbiased_mean",
    "winsorized_mean",
]

OF_READINGS = "mean of the readings"


def round_mean(
    reports: Counts | ArrayLike,
    *,
    randomizer: RangeRandomizer,
    epsilon: ArrayLike | None = None,
    rng: Random | Resampling | None = None,
) -> Estimate:
    """Estimate the mean of a round by itself, as well as its reports allow.

    That is `unbiased_mean`, and `combined_mean` where contributors differ in epsilon. A tracker
    (`rase.series.tracker`) starts from it.
    """
    counts = as_counts(reports, randomizer, epsilon=epsilon)
    if counts.epsilon is None:
        return unbiased_mean(counts, randomizer=randomizer)
    return combined_mean(counts, randomizer=randomizer)


def unbiased_mean(
    reports: Counts | ArrayLike,
    *,
    randomizer: RangeRandomizer,
    epsilon: ArrayLike | None = None,
    rng: Random | Resampling | None = None,
) -> Estimate:
    """Estimate the mean of the readings without bias: decode each report, then average.

    The paper averages clamped reports as they are, which pulls the mean to the middle of the range
    however many reports there are (docs/explain/paper.md, row 9); decoding reads each report so
    that its expectation is the reading. The target is the mean of *these* readings; the error is
    that of the noise, not that of choosing other contributors.

    For Duchi's one-bit reports the error is an upper bound, because bits do not show how far the
    readings themselves spread: it is set by the binomial law of the number of ones, so that
    intervals cover at least their level at 0.9, 0.95, 0.99 and 0.999, for any number of reports and
    any readings (`rase.counts.moments`). Where contributors differ in epsilon, rare wild reports
    (Piecewise and Hybrid above epsilon 6) do not widen the interval as they do where all share one.

    Args:
        reports: Counts, or the reports of one round in any order.
        randomizer: The mechanism they come from.
        epsilon: The budgets of reports, aligned with them, where contributors differ.
        rng: Not needed; all estimators are called alike.

    Returns:
        The estimate; its error is finite from the first report on.

    Raises:
        ValueError: If there are no reports, or they cannot come from ``randomizer``.
    """
    counts = as_counts(reports, randomizer, epsilon=epsilon)
    found = moments_of(counts, randomizer)
    return Estimate(
        float(found.mean[0]),
        float(found.standard_error[0]),
        n=int(found.n[0]),
        method="unbiased_mean",
        target=OF_READINGS,
        degrees_of_freedom=float(found.degrees_of_freedom[0]),
        lowest=randomizer.domain.low,
        highest=randomizer.domain.high,
    )


def lattice_mean(
    reports: Counts | ArrayLike,
    *,
    randomizer: RangeRandomizer,
    places: int,
    rng: Random | None = None,
) -> float:
    """Return an unbiased mean that says less than the reports, for whoever sees nothing else.

    Each report counts as one of the two multiples of ``1 / places`` of the range next to its value,
    chosen at random without bias. A mean of exact values would give away how often each of them was
    reported; of this one `rase.accounting.accountant.mean.mean_profile` proves that it says less.
    It adds at most ``1 / (4 places²)`` squared widths to the variance of a report. Its standard
    error would be a second statistic of the same reports: publish that of the law instead.

    Args:
        reports: Counts, or the reports of one round in any order.
        randomizer: The mechanism they come from, with one budget.
        places: How many values there are to a range.
        rng: None for secure randomness; a `SeededRandom` for study.

    Raises:
        ValueError: If ``places`` is below 2, or as for `unbiased_mean`.

    Example:
        >>> from rase import Optimal, Range, SeededRandom
        >>> randomizer = Optimal(3.0, Range(0, 100))
        >>> noisy = randomizer.randomize([40.0] * 5000, rng=SeededRandom(1))
        >>> abs(lattice_mean(noisy, randomizer=randomizer, places=64) - 40) < 2
        True
    """
    if places < 2:
        raise ValueError(f"places must be at least 2, got {places}.")
    counts, domain = as_counts(reports, randomizer), randomizer.domain
    decoded = randomizer.law(randomizer.budgets[-1]).decode(counts.places)
    exact = np.repeat(decoded * (places / domain.steps), counts.counts)
    below = np.floor(exact)
    coins = source_of(rng).words(exact.size) >> np.uint64(11)
    total = int((below + (coins * 2.0**-53 < exact - below)).sum())
    return domain.low + domain.width * total / (places * exact.size)


def combined_mean(
    reports: Counts | ArrayLike,
    *,
    randomizer: RangeRandomizer,
    epsilon: ArrayLike | None = None,
    rng: Random | Resampling | None = None,
) -> Estimate:
    """Estimate the mean of the readings where contributors differ in epsilon.

    Reports of one budget are a class: read by their own law they give the mean of that class
    without bias. Classes that measure alike are best combined by inverse variance. But owners who
    allow more may also consume more, and then such a mean leans to them. So the spread t² between
    the classes is estimated first (DerSimonian and Laird 1986), and the weights w are those of the
    least mean square error for the mean of *all* readings, Σ w² v + t² Σ (w - p)², with v the
    variance of a class mean and p the class's share of the reports: inverse variance where classes
    agree, plain shares where they clearly do not. The error holds both terms.

    Guarantee: each report has the epsilon of its class. The class travels with the report, so a
    report hides among the reports of its own class only: see `Counts.of_large_classes`.

    Args:
        reports: Counts, or the reports of one round in any order.
        randomizer: The mechanism they come from.
        epsilon: The budgets of reports, aligned with them.
        rng: Not needed; all estimators are called alike.

    Raises:
        ValueError: As for `unbiased_mean`.

    Example:
        >>> from rase import Hybrid, Range, SeededRandom
        >>> budgets = (0.5,) * 400 + (4.0,) * 100
        >>> randomizer = Hybrid(budgets, Range(0, 100))
        >>> noisy = randomizer.randomize([40.0] * 500, rng=SeededRandom(1))
        >>> combined = combined_mean(noisy, randomizer=randomizer, epsilon=budgets)
        >>> plain = unbiased_mean(noisy, randomizer=randomizer, epsilon=budgets)
        >>> combined.standard_error < plain.standard_error
        True
    """
    counts = as_counts(reports, randomizer, epsilon=epsilon)
    budgets, group = np.unique(
        np.zeros(counts.places.size) if counts.epsilon is None else counts.epsilon,
        return_inverse=True,
    )
    found = moments_of(counts, randomizer, group=group, groups=budgets.size)
    # Weights by what the mechanism does at worst: weights by the reports themselves would favour
    # classes that happen to look calm.
    given = [None] if counts.epsilon is None else budgets.tolist()
    worst = np.array([variance_bounds(randomizer, budget)[1] for budget in given]) / found.n
    apart = _between(found.mean, worst)
    n = counts.n
    shares = found.n / n
    weights = _weights(worst, shares, apart)
    noise = float(np.square(weights) @ (found.noise / found.n))
    leaning = apart * float(np.square(weights - shares).sum())
    return Estimate(
        float(weights @ found.mean),
        math.sqrt(noise + leaning),
        n=n,
        method="combined_mean",
        target=OF_READINGS,
        lowest=randomizer.domain.low,
        highest=randomizer.domain.high,
    )


def winsorized_mean(
    reports: Counts | ArrayLike,
    *,
    randomizer: RangeRandomizer,
    epsilon: ArrayLike | None = None,
    rng: Random | Resampling | None = None,
) -> Estimate:
    """Estimate the mean without bias and without trust in far-off reports.

    Reports beyond the range count as reports at its nearest end, and a report at an end is decoded
    as the mean of what lies beyond it. The noise forgets its past, so this corrects exactly what
    clamping took away: there is no bias, and less variance than `unbiased_mean` has (Rao and
    Blackwell). For noise without end (Laplace, and BR above its bound) it takes from lying devices
    all but 1 + 2 / epsilon widths of the range each, instead of some 100 / epsilon; for mechanisms
    whose reports have an end it is `unbiased_mean` (docs/explain/poisoning.md).

    Args:
        reports: Counts, or the reports of one round in any order.
        randomizer: The mechanism they come from.
        epsilon: The budgets of reports, aligned with them, where contributors differ.
        rng: Not needed; all estimators are called alike.

    Raises:
        ValueError: As for `unbiased_mean`.

    Example:
        >>> from rase import Laplace, Range
        >>> laplace = Laplace(1.0, Range(0, 4, steps=4))
        >>> winsorized_mean([2, 900], randomizer=laplace).value < 6
        True
    """
    reader = randomizer.clamp()
    if reader is randomizer:
        counts = as_counts(reports, randomizer, epsilon=epsilon)
    else:
        # What no law reaches is clamped too, so places are not checked before.
        counts = _clamp(reports, randomizer, epsilon)
    return replace(unbiased_mean(counts, randomizer=reader), method="winsorized_mean")


def _clamp(
    reports: Counts | ArrayLike, randomizer: RangeRandomizer, epsilon: ArrayLike | None
) -> Counts:
    """Return the counts of reports that are clamped into the range."""
    if not isinstance(reports, Counts):
        reports = Counts.of(randomizer.places_of(as_reports(reports)), epsilon=epsilon)
    return reports.clamp(0, randomizer.domain.steps)


def _between(means: Floats, variances: Floats) -> float:
    """Return how far the true class means spread, as a variance (DerSimonian and Laird, Eq. 8)."""
    if len(means) == 1:
        return 0.0
    weights = 1 / variances
    centre = float(weights @ means / weights.sum())
    excess = float(weights @ np.square(means - centre)) - (len(means) - 1)
    return max(excess / float(weights.sum() - np.square(weights).sum() / weights.sum()), 0.0)


def _weights(variances: Floats, shares: Floats, apart: float) -> Floats:
    """Return the weights, summing to 1, of least Σ w² variance + apart Σ (w - share)²."""
    total = variances + apart
    # Lagrange: w = (apart * share + c) / total, with c such that they sum to 1.
    rest = 1 - float((apart * shares / total).sum())
    return np.asarray((apart * shares + rest / float((1 / total).sum())) / total)
