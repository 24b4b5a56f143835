"""The paper's three estimators: sample mean, median and bootstrap of the reports as they are."""

from __future__ import annotations

import functools
import math
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from rase.counts.counts import Counts, as_counts, as_reports, weighted_values
from rase.counts.estimate import Estimate
from rase.kernels.integers import integers_below
from rase.kernels.words import resampling_source_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from rase.arrays import Floats, Places
    from rase.kernels.words import Random, Resampling
    from rase.laws.randomizer import RangeRandomizer

__all__ = ["bootstrap_from", "bootstrap_mean", "median", "sample_mean"]

_OF_REPORTS = "mean of the reports"
# Resamples are drawn in pieces of this many reports, so memory does not grow with their number.
_PIECE = 1 << 18
# From here on the binomial law of signs is normal to three digits.
_MANY = 1000


def sample_mean(
    reports: Counts | ArrayLike,
    *,
    randomizer: RangeRandomizer | None = None,
    epsilon: ArrayLike | None = None,
    rng: Random | Resampling | None = None,
) -> Estimate:
    """Average the reports as they are: the paper's sample estimator.

    It estimates the mean of the *reports*. That is the mean of the readings only if nothing was
    clamped; clamped reports are biased to the middle of the range and no n removes that
    (docs/explain/paper.md, row 9). The error is that of n reports drawn again, other readings
    included; for the same readings with fresh noise it is therefore rather too large.

    Args:
        reports: Counts, or the reports of one round in any order.
        randomizer: The mechanism they come from; counts need it.
        epsilon: Not needed; all estimators are called alike.
        rng: Not needed.

    Returns:
        The estimate; the error of a single report is unknown, hence infinite.

    Raises:
        ValueError: If there are no reports.

    Example:
        >>> sample_mean([9.5, 1.1, 8.4, 2.8, 3.2]).value
        5.0
    """
    values, counts = weighted_values(reports, randomizer)
    n = int(counts.sum())
    return Estimate(
        float(counts @ values / n),
        _spread(values, counts) / math.sqrt(n),
        n=n,
        method="sample_mean",
        target=_OF_REPORTS,
        degrees_of_freedom=max(n - 1, 1),
    )


def median(
    reports: Counts | ArrayLike,
    scales: ArrayLike | None = None,
    *,
    randomizer: RangeRandomizer | None = None,
    epsilon: ArrayLike | None = None,
    rng: Random | Resampling | None = None,
) -> Estimate:
    """Take the median of the reports: the paper's maximum-likelihood estimator.

    It minimises the sum of |z_i - mu| / λ_i; where a whole interval does, its middle is taken. The
    paper drops the scales from the sum although they differ between contributors; where they do,
    the median is weighted by 1 / λ_i.

    It is the likeliest mean only if all readings are equal (docs/explain/paper.md, row 10). In
    general it estimates the median of the *reports*, and its interval is for that. The error comes
    from two order statistics around the median (Price and Bonett 2001), for unequal scales from the
    reports at which the weighted sign test turns.

    Args:
        reports: Counts, or the reports of one round.
        scales: The noise scale of each report, aligned with them; None if all are equal, or if they
            follow from the budgets.
        randomizer: The mechanism they come from; counts and ``epsilon`` need it.
        epsilon: The budgets of reports, aligned with them, where contributors differ.
        rng: Not needed; all estimators are called alike.

    Returns:
        The estimate; the error of a single report is unknown, hence infinite.

    Raises:
        ValueError: If there are no reports, or a scale is missing or not positive.

    Example:
        >>> median([9.5, 1.1, 8.4, 2.8, 3.2]).value
        3.2
    """
    ordered, counts, weights = _order_reports(reports, scales, randomizer, epsilon)
    n = int(counts.sum())
    is_weighted = bool((weights != weights[0]).any())
    if is_weighted:
        lower, upper, quantile, gaps = _sign_test_places(weights, counts)
    else:
        first, last, quantile, gaps = _order_statistics(n)
        reached = np.cumsum(counts)
        lower, upper = np.searchsorted(reached, [first, last], side="right").tolist()
    spread = float(ordered[upper] - ordered[lower])
    return Estimate(
        _weighted_median(ordered, weights * counts),
        spread / (2 * quantile) if quantile > 0 else math.inf,
        n=n,
        method="median",
        target="weighted median of the reports" if is_weighted else "median of the reports",
        # A gap between neighbouring order statistics is nearly exponential, that is a chi-square
        # with two degrees; the spread is a sum of so many of them.
        degrees_of_freedom=max(2 * gaps, 1),
    )


def bootstrap_mean(
    reports: Counts | ArrayLike,
    *,
    resamples: int = 1000,
    randomizer: RangeRandomizer | None = None,
    epsilon: ArrayLike | None = None,
    rng: Random | Resampling | None = None,
) -> Estimate:
    """Average the means of resamples: the paper's bootstrap estimator.

    Its expectation is the sample mean, so it estimates the mean of the *reports* with all that is
    said at `sample_mean`, and adds the chance of resampling. Error: that of the sample mean, times
    sqrt(1 + (n - 1) / (n B)) for B resamples, which is what resampling adds exactly.

    Args:
        reports: Counts, or the reports of one round in any order.
        resamples: How many resamples to draw, B in the paper.
        randomizer: The mechanism they come from; counts need it.
        epsilon: Not needed; all estimators are called alike.
        rng: None for secure randomness; a `SeededRandom` for study.

    Returns:
        The estimate; the error of a single report is unknown, hence infinite.

    Raises:
        ValueError: If there are no reports, or ``resamples`` is below 1.
    """
    values, counts = weighted_values(reports, randomizer)
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, got {resamples}.")
    source = resampling_source_of(rng)
    n = int(counts.sum())
    # Resampling picks reports by their places in ascending order.
    each = np.repeat(values, counts)
    rows_at_once = max(_PIECE // n, 1)
    sums = []
    for start in range(0, resamples, rows_at_once):
        rows = min(rows_at_once, resamples - start)
        chosen = integers_below(np.full(rows * n, n), source)
        sums.append(float(each[chosen].sum()))
    added = 1 + (n - 1) / (n * resamples)
    return Estimate(
        math.fsum(sums) / (n * resamples),
        _spread(values, counts) * math.sqrt(added / n),
        n=n,
        method="bootstrap_mean",
        target=_OF_REPORTS,
        degrees_of_freedom=max(n - 1, 1),
    )


def bootstrap_from(resamples: ArrayLike) -> Estimate:
    """Return the bootstrap estimate for resamples that were drawn elsewhere.

    Args:
        resamples: One resample a row.

    Returns:
        The estimate, with an error from the spread of the resamples' means; unknown, hence
        infinite, for fewer than two resamples or resamples of one report.

    Raises:
        ValueError: If there are no resamples, or they are not rows of equal length.

    Example:
        >>> bootstrap_from([[1.1, 2.8, 1.1, 3.2, 2.8], [9.5, 2.8, 3.2, 3.2, 1.1]]).value
        3.08
    """
    rows = np.asarray(resamples, dtype=np.float64)
    if rows.ndim != 2:
        raise ValueError(f"resamples must be rows of reports, got {rows.ndim} dimensions.")
    as_reports(rows.ravel())
    count, n = rows.shape
    means = rows.mean(axis=1)
    # Resamples spread by the variance with divisor n, hence n - 1; their own chance adds 1 / B.
    apart = _spread(means, np.ones(count, dtype=np.int64))
    error = apart * math.sqrt((1 + 1 / count) * n / max(n - 1, 1))
    return Estimate(
        math.fsum(rows.ravel()) / rows.size,
        error if n > 1 else math.inf,
        n=n,
        method="bootstrap_mean",
        target=_OF_REPORTS,
        degrees_of_freedom=max(count - 1, 1),
    )


def _spread(values: Floats, counts: Places) -> float:
    """Return the standard deviation of reports, with divisor n - 1."""
    n = int(counts.sum())
    if n < 2:
        return math.inf
    away = values - counts @ values / n
    return math.sqrt(float(counts @ (away * away)) / (n - 1))


def _order_reports(
    reports: Counts | ArrayLike,
    scales: ArrayLike | None,
    randomizer: RangeRandomizer | None,
    epsilon: ArrayLike | None,
) -> tuple[Floats, Places, Floats]:
    """Return ascending reports, how often each occurs, and the weight of one of them."""
    if scales is None and not isinstance(reports, Counts) and epsilon is None:
        values, counts = weighted_values(reports, None)
        return values, counts, np.ones(values.size)
    if scales is not None:
        values = as_reports(reports)  # type: ignore[arg-type]
        counts, weights = np.ones(values.size, np.int64), 1 / _as_scales(scales, values.size)
    else:
        if randomizer is None:
            raise ValueError("randomizer must be given with counts or budgets.")
        found = as_counts(reports, randomizer, epsilon=epsilon)
        values, counts = randomizer.values_of(found.places), found.counts
        weights = np.ones(values.size)
        if found.epsilon is not None:
            weights = 1 / (randomizer.domain.width / found.epsilon)
    places = np.argsort(values, kind="stable")
    return values[places], counts[places], weights[places]


def _as_scales(scales: ArrayLike, count: int) -> Floats:
    values = np.asarray(scales, dtype=np.float64)
    if values.ndim and values.shape != (count,):
        raise ValueError(
            f"scales must hold {count} scales, one for each report, got {values.size}."
        )
    if not (np.isfinite(values) & (values > 0)).all():
        raise ValueError("scales must be finite numbers greater than 0.")
    return np.broadcast_to(values, (count,))


def _weighted_median(ordered: Floats, weights: Floats) -> float:
    """Return the middle of all points that minimise the weighted sum of distances."""
    reached = np.cumsum(weights)
    # Sums that reach the half but for rounding count as reaching it.
    half = reached[-1] / 2 * (1 - 4e-16 * weights.size)
    lower = int(np.searchsorted(reached, half))
    upper = weights.size - 1 - int(np.searchsorted(np.cumsum(weights[::-1]), half))
    return float((ordered[lower] + ordered[upper]) / 2)


def _sign_test_places(weights: Floats, counts: Places) -> tuple[int, int, float, float]:
    """Return two places around the weighted median, half their distance in errors, and the gaps.

    At the true median the weighted sum of signs has mean 0 and variance sum(w^2) at most, so it
    turns significant where the share of the weight below differs from a half by 1 / sqrt(n_eff),
    n_eff = sum(w)^2 / sum(w^2): the same two standard errors as in Price and Bonett.
    """
    # One row for each report: reports of equal value may differ in weight.
    rows = np.repeat(np.arange(weights.size), counts)
    each = weights[rows]
    shares = each / each.sum()
    effective = 1 / float(np.square(shares).sum())
    below = np.cumsum(shares) - shares / 2
    reach = 1 / math.sqrt(effective)
    lower = max(int(np.searchsorted(below, 0.5 - reach, side="right")) - 1, 0)
    upper = min(int(np.searchsorted(below, 0.5 + reach)), each.size - 1)
    distance = math.sqrt(effective) * float(below[upper] - below[lower])
    # With few reports all signs may agree by chance; no distance is surer than that.
    surest = -NormalDist().inv_cdf(0.5**effective) if effective < _MANY else math.inf
    gaps = distance * math.sqrt(effective)
    return int(rows[lower]), int(rows[upper]), min(distance, surest), gaps


@functools.lru_cache(maxsize=256)
def _order_statistics(n: int) -> tuple[int, int, float, float]:
    """Return two places around the median, half their distance in errors, and the gaps between."""
    if n == 1:
        return 0, 0, 0.0, 0.0
    # Price and Bonett: the c-th from either end, c = (n + 1)/2 - sqrt(n) rounded, at least 1.
    c = max(round((n + 1) / 2 - math.sqrt(n)), 1)
    if n > _MANY:
        return c - 1, n - c, (n - 2 * c + 1) / math.sqrt(n), n - 2 * c + 1
    tail = sum(math.comb(n, i) for i in range(c)) / 2**n
    return c - 1, n - c, -NormalDist().inv_cdf(tail), n - 2 * c + 1
