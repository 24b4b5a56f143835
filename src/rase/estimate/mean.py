"""Estimators of the mean: the paper's three and the unbiased one, each with its standard error.

By their names they are found in rase.estimate.named.
"""

import functools
import math
from dataclasses import replace
from statistics import NormalDist
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from rase.estimate.decoder import Decoder, Floats, as_budgets, as_reports, noise_of
from rase.estimate.estimate import Estimate
from rase.kernels.integers import integers_below
from rase.kernels.words import Random, Resampling, resampling_source_of

__all__ = [
    "bootstrap_from",
    "bootstrap_mean",
    "median",
    "sample_mean",
    "unbiased_mean",
    "winsorized_mean",
]

# Resamples are drawn in pieces of this many reports, so memory does not grow with their number.
_PIECE = 1 << 18
# From here on the binomial law of signs is normal to three digits.
_MANY = 1000


def unbiased_mean(
    reports: ArrayLike, *, randomizer: Decoder, epsilon: ArrayLike | None = None
) -> Estimate:
    """Estimate the mean of the readings without bias: decode each report, then average.

    The default estimator. The paper averages clamped reports as they are, which pulls the mean to
    the middle of the range however many reports there are (docs/explain/paper.md, row 9); decoding
    reads each report so that its expectation is the reading. The target is the mean of *these*
    readings; the error is that of the noise, not that of choosing other contributors.

    For Duchi's one-bit reports the error is an upper bound, because bits do not show how far the
    readings themselves spread: it is set by the binomial law of the number of ones, so that
    intervals cover at least their level at 0.9, 0.95, 0.99 and 0.999, for any number of reports and
    any readings (`rase.estimate.bits`). Where contributors differ in epsilon,
    rare wild reports (Piecewise and Hybrid above epsilon 6) do not widen the interval as they do
    where all share one.

    Args:
        reports: The reports of one round, in any order.
        randomizer: The mechanism they come from.
        epsilon: Their budgets, aligned with them, where contributors differ.

    Returns:
        The estimate; its error is finite from the first report on.

    Raises:
        ValueError: If there are no reports, or they cannot come from ``randomizer``.
    """
    noisy = as_reports(reports)
    budgets = as_budgets(epsilon, noisy.size)
    decoded = randomizer.decode(noisy, epsilon=budgets)
    noise = noise_of(noisy, decoded, randomizer=randomizer, epsilon=budgets)
    return Estimate(
        float(decoded.mean()),
        math.sqrt(noise.variance / noisy.size),
        n=noisy.size,
        method="unbiased_mean",
        target="mean of the readings",
        degrees_of_freedom=noise.degrees_of_freedom,
        lowest=randomizer.value_range.low,
        highest=randomizer.value_range.high,
    )


def winsorized_mean(
    reports: ArrayLike, *, randomizer: Decoder, epsilon: ArrayLike | None = None
) -> Estimate:
    """Estimate the mean without bias and without trust in far-off reports.

    Reports beyond the range count as reports at its nearest end, and a report at an end is decoded
    as the mean of what lies beyond it. The noise forgets its past, so this corrects exactly what
    clamping took away: there is no bias, and less variance than `unbiased_mean` has (Rao and
    Blackwell). For noise without end (Laplace, and BR above its bound) it takes from lying devices
    all but 1 + 2 / epsilon widths of the range each, instead of some 100 / epsilon; for mechanisms
    whose reports have an end it is `unbiased_mean` (docs/explain/poisoning.md).

    Args:
        reports: The reports of one round, in any order.
        randomizer: The mechanism they come from.
        epsilon: Their budgets, aligned with them, where contributors differ.

    Raises:
        ValueError: As for `unbiased_mean`.

    Example:
        >>> from rase import Laplace, ValueRange
        >>> laplace = Laplace(1.0, ValueRange(0, 4, steps=4))
        >>> winsorized_mean([2, 900], randomizer=laplace).value < 6
        True
    """
    noisy = as_reports(reports)
    reader = randomizer.clamped() if isinstance(randomizer, ClampingDecoder) else randomizer
    if reader is not randomizer:
        public = randomizer.value_range
        noisy = np.clip(noisy, public.low, public.high)
    return replace(
        unbiased_mean(noisy, randomizer=reader, epsilon=epsilon), method="winsorized_mean"
    )


@runtime_checkable
class ClampingDecoder(Decoder, Protocol):
    """A decoder that knows how to read its reports once they are clamped into the range."""

    def clamped(self) -> Decoder:
        """Return the decoder of clamped reports; itself where clamping changes nothing."""
        ...


def sample_mean(reports: ArrayLike) -> Estimate:
    """Average the reports as they are: the paper's sample estimator.

    It estimates the mean of the *reports*. That is the mean of the readings only if nothing was
    clamped; clamped reports are biased to the middle of the range and no n mends it
    (docs/explain/paper.md, row 9). The error is that of n reports drawn anew, other readings
    included; for the same readings with fresh noise it is therefore rather too large.

    Args:
        reports: The reports of one round, in any order.

    Returns:
        The estimate; the error of a single report is unknown, hence infinite.

    Raises:
        ValueError: If there are no reports.

    Example:
        >>> sample_mean([9.5, 1.1, 8.4, 2.8, 3.2]).value
        5.0
    """
    noisy = as_reports(reports)
    return Estimate(
        float(noisy.mean()),
        _spread(noisy) / math.sqrt(noisy.size),
        n=noisy.size,
        method="sample_mean",
        target="mean of the reports",
        degrees_of_freedom=max(noisy.size - 1, 1),
    )


def median(reports: ArrayLike, scales: ArrayLike | None = None) -> Estimate:
    """Take the median of the reports: the paper's maximum-likelihood estimator.

    It minimises the sum of |z_i - mu| / λ_i; where a whole interval does, its middle is taken. The
    paper drops the scales from the sum although they differ between contributors; with ``scales``
    the median is weighted by 1 / λ_i.

    It is the likeliest mean only if all readings are equal (docs/explain/paper.md, row 10). In
    general it estimates the median of the *reports*, and its interval is for that. The error comes
    from two order statistics around the median (Price and Bonett 2001), for unequal scales from the
    reports at which the weighted sign test turns.

    Args:
        reports: The reports of one round.
        scales: The noise scale of each report, aligned with them; None if all are equal.

    Returns:
        The estimate; the error of a single report is unknown, hence infinite.

    Raises:
        ValueError: If there are no reports, or a scale is missing or not positive.

    Example:
        >>> median([9.5, 1.1, 8.4, 2.8, 3.2]).value
        3.2
    """
    noisy = as_reports(reports)
    weights = np.ones(noisy.size) if scales is None else 1 / _as_scales(scales, noisy.size)
    places = np.argsort(noisy, kind="stable")
    ordered, weights = noisy[places], weights[places]
    is_weighted = bool((weights != weights[0]).any())
    if is_weighted:
        lower, upper, quantile, gaps = _sign_test_places(weights)
    else:
        lower, upper, quantile, gaps = _order_statistics(noisy.size)
    spread = float(ordered[upper] - ordered[lower])
    return Estimate(
        _weighted_median(ordered, weights) if is_weighted else float(np.median(ordered)),
        spread / (2 * quantile) if quantile > 0 else math.inf,
        n=noisy.size,
        method="median",
        target="weighted median of the reports" if is_weighted else "median of the reports",
        # A gap between neighbouring order statistics is nearly exponential, that is a chi-square
        # with two degrees; the spread is a sum of so many of them.
        degrees_of_freedom=max(2 * gaps, 1),
    )


def bootstrap_mean(
    reports: ArrayLike, *, resamples: int = 1000, rng: Random | Resampling | None = None
) -> Estimate:
    """Average the means of resamples: the paper's bootstrap estimator.

    Its expectation is the sample mean, so it estimates the mean of the *reports* with all that is
    said at `sample_mean`, and adds the chance of resampling. Error: that of the sample mean, times
    sqrt(1 + (n - 1) / (n B)) for B resamples, which is what resampling adds exactly.

    Args:
        reports: The reports of one round, in any order.
        resamples: How many resamples to draw, B in the paper.
        rng: None for secure randomness; a `SeededRandom` for study.

    Returns:
        The estimate; the error of a single report is unknown, hence infinite.

    Raises:
        ValueError: If there are no reports, or ``resamples`` is below 1.
    """
    noisy = as_reports(reports)
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, got {resamples}.")
    source = resampling_source_of(rng)
    rows_at_once = max(_PIECE // noisy.size, 1)
    sums = []
    for start in range(0, resamples, rows_at_once):
        rows = min(rows_at_once, resamples - start)
        chosen = integers_below(np.full(rows * noisy.size, noisy.size), source)
        sums.append(float(noisy[chosen].sum()))
    added = 1 + (noisy.size - 1) / (noisy.size * resamples)
    return Estimate(
        math.fsum(sums) / (noisy.size * resamples),
        _spread(noisy) * math.sqrt(added / noisy.size),
        n=noisy.size,
        method="bootstrap_mean",
        target="mean of the reports",
        degrees_of_freedom=max(noisy.size - 1, 1),
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
    # Resamples spread by the variance with divisor n, hence n - 1; their own chance adds 1 / B.
    error = _spread(rows.mean(axis=1)) * math.sqrt((1 + 1 / count) * n / max(n - 1, 1))
    return Estimate(
        math.fsum(rows.ravel()) / rows.size,
        error if n > 1 else math.inf,
        n=n,
        method="bootstrap_mean",
        target="mean of the reports",
        degrees_of_freedom=max(count - 1, 1),
    )


def _spread(values: Floats) -> float:
    return float(values.std(ddof=1)) if values.size > 1 else math.inf


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


def _sign_test_places(weights: Floats) -> tuple[int, int, float, float]:
    """Return two places around the weighted median, half their distance in errors, and the gaps.

    At the true median the weighted sum of signs has mean 0 and variance sum(w^2) at most, so it
    turns significant where the share of the weight below differs from a half by 1 / sqrt(n_eff),
    n_eff = sum(w)^2 / sum(w^2): the same two standard errors as in Price and Bonett.
    """
    shares = weights / weights.sum()
    effective = 1 / float(np.square(shares).sum())
    below = np.cumsum(shares) - shares / 2
    reach = 1 / math.sqrt(effective)
    lower = max(int(np.searchsorted(below, 0.5 - reach, side="right")) - 1, 0)
    upper = min(int(np.searchsorted(below, 0.5 + reach)), weights.size - 1)
    distance = math.sqrt(effective) * float(below[upper] - below[lower])
    # With few reports all signs may agree by chance; no distance is surer than that.
    surest = -NormalDist().inv_cdf(0.5**effective) if effective < _MANY else math.inf
    return lower, upper, min(distance, surest), distance * math.sqrt(effective)


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
