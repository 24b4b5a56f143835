"""The mean of contributors with budgets of their own, combined so that the surer count for more."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rase.estimate.decoder import Decoder, Floats, as_budgets, as_reports, noise_of, variance_bounds
from rase.estimate.estimate import Estimate

__all__ = ["combined_mean", "of_large_classes"]


def combined_mean(reports: ArrayLike, *, randomizer: Decoder, epsilon: ArrayLike) -> Estimate:
    """Estimate the mean of the readings where contributors differ in epsilon.

    Reports of one budget are a class: read by their own law they give the mean of that class
    without bias. Classes that measure alike are best combined by inverse variance. But owners who
    allow more may also consume more, and then such a mean leans to them. So the spread t² between
    the classes is estimated first (DerSimonian and Laird 1986), and the weights w are those of the
    least mean square error for the mean of *all* readings, Σ w² v + t² Σ (w - p)², with v the
    variance of a class mean and p the class's share of the reports: inverse variance where classes
    agree, plain shares where they clearly do not. The error holds both terms.

    Guarantee: each report has the epsilon of its class. The class travels with the report, so a
    report hides among the reports of its own class only: see `of_large_classes`.

    Args:
        reports: The reports of one round, in any order.
        randomizer: The mechanism they come from.
        epsilon: Their budgets, aligned with them.

    Raises:
        ValueError: As for `unbiased_mean`.

    Example:
        >>> from rase import Hybrid, SeededRandom, ValueRange, unbiased_mean
        >>> budgets = (0.5,) * 400 + (4.0,) * 100
        >>> randomizer = Hybrid(budgets, ValueRange(0, 100))
        >>> noisy = randomizer.randomize([40.0] * 500, rng=SeededRandom(1))
        >>> told = combined_mean(noisy, randomizer=randomizer, epsilon=budgets)
        >>> plain = unbiased_mean(noisy, randomizer=randomizer, epsilon=budgets)
        >>> told.standard_error < plain.standard_error
        True
    """
    noisy = as_reports(reports)
    budgets = np.asarray(as_budgets(epsilon, noisy.size))
    classes, members, counts = np.unique(budgets, return_inverse=True, return_counts=True)
    decoded = randomizer.decode(noisy, epsilon=budgets)
    means = np.bincount(members, weights=decoded) / counts
    # Weights by what the mechanism does at worst: weights by the reports themselves would favour
    # classes that happen to look calm.
    worst = np.array([variance_bounds(randomizer, float(budget))[1] for budget in classes]) / counts
    apart = _between(means, worst)
    shares = counts / noisy.size
    weights = _weights(worst, shares, apart)
    variances = np.array(
        [
            noise_of(
                noisy[chosen],
                decoded[chosen],
                randomizer=randomizer,
                epsilon=budgets[chosen],
            ).variance
            for chosen in (members == number for number in range(len(classes)))
        ]
    )
    noise = float(np.square(weights) @ (variances / counts))
    leaning = apart * float(np.square(weights - shares).sum())
    return Estimate(
        float(weights @ means),
        math.sqrt(noise + leaning),
        n=noisy.size,
        method="combined_mean",
        target="mean of the readings",
        lowest=randomizer.value_range.low,
        highest=randomizer.value_range.high,
    )


def of_large_classes(classes: ArrayLike, k_min: int) -> NDArray[np.bool_]:
    """Say which reports have k_min or more of their own class beside them.

    Whoever reads a report reads its class too, so the others of the class are all it hides among.
    Reports of a smaller class are to be left out.

    Args:
        classes: The class or budget of each report.
        k_min: The fewest that may be told together.

    Example:
        >>> of_large_classes([1.0, 4.0, 1.0, 1.0], 2).tolist()
        [True, False, True, True]
    """
    _, members, counts = np.unique(np.asarray(classes), return_inverse=True, return_counts=True)
    return np.asarray(counts[members] >= k_min)


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
