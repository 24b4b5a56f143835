"""Means per region from a Mallows release, whose slots still show roughly where a report arose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rase.counts.counts import Counts, as_reports, check_budgets
from rase.counts.estimate import Estimate
from rase.counts.moments import moments_of, rounding_variance
from rase.errors import NotIdentifiable

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from rase.arrays import Floats, Places
    from rase.laws.randomizer import RangeRandomizer

__all__ = ["block_mixing", "regional_means"]

# From about here the errors of a few hundred reports exceed the whole range.
_WORST_CONDITION = 100.0
_ROW_TOLERANCE = 1e-6


def regional_means(
    reports: ArrayLike,
    *,
    randomizer: RangeRandomizer,
    mixing: ArrayLike,
    epsilon: ArrayLike | None = None,
    k_min: int = 1,
) -> tuple[Estimate, ...]:
    """Estimate the mean reading of each region from the slots of a Mallows release.

    Regions are contiguous blocks of arrival places, as equal as possible and the larger first. The
    mean of a block of slots mixes the regions by ``mixing``; solving for them takes the mixing out.
    It is unbiased if arrivals within a region are in no particular order. The standard errors hold
    the noise and the chance of which readings fell into which block; records are taken to move
    independently, which makes them up to twice too large where there is little noise.

    A uniform shuffle carries no regions at all, and neither does a Mallows release close to it.

    Args:
        reports: The released values, in the order of the slots.
        randomizer: The mechanism they come from.
        mixing: One row for each block of slots: the expected shares of the regions' reports in it,
            as `block_mixing` gives them.
        epsilon: The budgets of the reports, aligned with them, where contributors differ.
        k_min: The fewest reports of a region about which something may be released: a region is
            what its reports hide among.

    Returns:
        One estimate for each region.

    Raises:
        NotIdentifiable: If the slots show too little of the regions.
        ValueError: If ``mixing`` is not square, its rows do not sum to 1, there are fewer reports
            than regions, or a region has fewer than ``k_min``.
    """
    noisy = as_reports(reports)
    budgets = None if epsilon is None else check_budgets(epsilon, noisy.size)
    weights = _checked_mixing(mixing, noisy.size)
    regions = weights.shape[0]
    starts, sizes = _blocks(noisy.size, regions)
    if sizes.min() < k_min:
        raise ValueError(
            f"each region must have {k_min} reports or more, got {sizes.min():g}; ask for fewer "
            "regions."
        )
    unmixing = _inverse(weights)
    decoded = randomizer.decode(noisy, epsilon=budgets)

    def by_block(values: Floats) -> Floats:
        block_means: Floats = np.add.reduceat(values, starts) / sizes
        return block_means

    centre = float(decoded.mean())
    try:
        squares = randomizer.decode_square(noisy, epsilon=budgets)
    except NotIdentifiable:
        squares = decoded * decoded
        rows = Counts(randomizer.places_of(noisy), np.ones(noisy.size, np.int64), budgets)
        block = np.repeat(np.arange(regions), sizes.astype(np.int64))
        noise = moments_of(rows, randomizer, group=block, groups=regions).noise
    else:
        noise = np.maximum(by_block(decoded * decoded - squares), 0.0)
        noise += rounding_variance(randomizer.domain)
    spread = unmixing @ by_block(squares - 2 * centre * decoded + centre * centre)
    spread = np.maximum(spread, 0.0)
    errors = _errors(unmixing, weights, sizes, noise=noise, spread=spread)
    values = unmixing @ by_block(decoded)
    return tuple(
        Estimate(
            float(value),
            float(error),
            n=int(size),
            method="regional_mean",
            target=f"mean of the readings of region {region} of {regions}",
            lowest=randomizer.domain.low,
            highest=randomizer.domain.high,
        )
        for region, (value, error, size) in enumerate(zip(values, errors, sizes, strict=True), 1)
    )


def block_mixing(marginals: ArrayLike, region_count: int) -> Floats:
    """Return how blocks of slots mix the regions, from the chances of single records.

    Args:
        marginals: Entry [item, slot] is the chance that the record that arrived at place ``item``
            is released in ``slot``; `rase.shuffle.mallows.Mallows.marginals` gives it.
        region_count: The number of blocks.

    Returns:
        Entry [block, region] is the expected share of the region's records in the block of slots;
        rows sum to 1.

    Raises:
        ValueError: If ``marginals`` is not square or has fewer rows than regions.

    Example:
        >>> block_mixing(np.eye(4), 2).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    chances = np.asarray(marginals, dtype=np.float64)
    if chances.ndim != 2 or chances.shape[0] != chances.shape[1]:
        raise ValueError(f"marginals must be a square table, got shape {chances.shape}.")
    _check_region_count(region_count, chances.shape[0])
    starts, sizes = _blocks(chances.shape[0], region_count)
    by_region = np.add.reduceat(np.add.reduceat(chances, starts, axis=0), starts, axis=1)
    mixing: Floats = by_region.T / sizes[:, None]
    return mixing


def _checked_mixing(mixing: ArrayLike, count: int) -> Floats:
    weights = np.asarray(mixing, dtype=np.float64)
    if weights.ndim != 2 or weights.shape[0] != weights.shape[1]:
        raise ValueError(f"mixing must be a square table, got shape {weights.shape}.")
    if not (weights >= 0).all() or not np.allclose(weights.sum(axis=1), 1, atol=_ROW_TOLERANCE):
        raise ValueError("mixing must hold shares, with rows that sum to 1.")
    _check_region_count(weights.shape[0], count)
    return weights


def _check_region_count(region_count: int, count: int) -> None:
    if not 1 <= region_count <= count:
        raise ValueError(
            f"region_count must be between 1 and the number of places {count}, got {region_count}."
        )


def _blocks(count: int, regions: int) -> tuple[Places, Floats]:
    """Return where each block starts and how many places it has, larger ones first."""
    sizes = np.full(regions, count // regions)
    sizes[: count % regions] += 1
    return np.cumsum(sizes) - sizes, sizes.astype(np.float64)


def _inverse(weights: Floats) -> Floats:
    condition = float(np.linalg.cond(weights))
    if not condition <= _WORST_CONDITION:
        raise NotIdentifiable(
            "The released order shows too little of the regions to separate them (a uniform "
            "shuffle shows nothing). Ask for fewer regions or for the mean of all."
        )
    return np.linalg.inv(weights).astype(np.float64)


def _errors(
    unmixing: Floats, weights: Floats, sizes: Floats, *, noise: Floats, spread: Floats
) -> Floats:
    """Return the standard error of each region's mean.

    An estimate is sum over records of (reading - centre) * factor[its block] plus noise; a record
    of region g falls into block r with chance weights[r, g] * sizes[r] / sizes[g].
    """
    factors = unmixing / sizes
    chances = weights * sizes[:, None] / sizes
    moved = np.square(factors) @ chances - np.square(factors @ chances)
    variances = np.square(factors) @ (sizes * noise) + np.maximum(moved, 0.0) @ (sizes * spread)
    errors: Floats = np.sqrt(variances)
    return errors
