"""Shares of readings at or above public bounds, and the quantiles that follow from them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from rase.counts.counts import Counts, check_counts
from rase.counts.estimate import Estimate
from rase.counts.shares import shares
from rase.counts.votes import share_error
from rase.laws.response import RandomizedResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rase.laws.response import CategoryLaw, CategoryRandomizer

__all__ = ["ABOVE", "quantile", "shares_above"]

ABOVE: Final = "share_above"


def shares_above(counts: Counts, *, randomizer: CategoryRandomizer) -> list[Estimate]:
    """Estimate for each bound the share of readings at or above it, without bias.

    Categories are the intervals between the bounds, ascending. A share is the sum of those above
    the bound, and its error that of the sum: smaller than if their errors were independent.
    Intervals hold the true share as those of `rase.counts.shares.shares` do where the reports are
    of randomized response, and as normal ones do where they are of a block design.

    Args:
        counts: The reports of a round.
        randomizer: The mechanism they come from.

    Returns:
        One estimate for each bound, ascending.

    Raises:
        ValueError: If there are no reports, or they cannot come from ``randomizer``.

    Example:
        >>> from rase import Categories, RandomizedResponse, SeededRandom
        >>> response = RandomizedResponse(4.0, Categories(("below 1", "1 to 2", "2 or more")))
        >>> places = response.draw_names(["1 to 2"] * 500 + ["below 1"] * 500, rng=SeededRandom(1))
        >>> [f"{one.value:.2f}" for one in shares_above(Counts.of(places), randomizer=response)]
        ['0.50', '-0.01']
    """
    check_counts(counts, randomizer)
    steps = randomizer.domain.steps
    values, variances = np.zeros(steps), np.zeros(steps)
    for budget, part in counts.classes():
        law = randomizer.law(randomizer.budgets[-1] if budget is None else budget)
        share = part.n / counts.n
        for first in range(1, steps + 1):
            value, error = _share_from(law, part, first, randomizer)
            values[first - 1] += share * value
            variances[first - 1] += (share * error) ** 2
    return [
        Estimate(
            float(value),
            math.sqrt(float(variance)),
            n=counts.n,
            method=ABOVE,
            target="share of the readings at or above a bound",
            lowest=0.0,
            highest=1.0,
        )
        for value, variance in zip(values, variances, strict=True)
    ]


def quantile(
    bounds: Sequence[float], above: Sequence[Estimate], share: float, *, level: float = 0.95
) -> tuple[float | None, float | None]:
    """Return between which bounds a quantile of the readings lies.

    A bound is excluded from below if the share of readings under it is surely less than asked for,
    and from above if it is surely more; each at the level of a two-sided interval. So the quantile
    lies in the interval at least as often as the level says.

    Args:
        bounds: The public bounds, ascending.
        above: The shares at or above each.
        share: Which quantile: 0.5 for the median.
        level: The probability.

    Returns:
        The highest bound that it surely is not under, and the lowest that it surely is under; None
        for an end that no bound sets.

    Raises:
        ValueError: If ``share`` is not between 0 and 1.

    Example:
        >>> found = [Estimate(v, 0.01, n=99, method="m", target="t") for v in (0.9, 0.6, 0.1)]
        >>> quantile([100, 200, 300], found, 0.5)
        (200, 300)
    """
    if not 0 < share < 1:
        raise ValueError(f"share must be between 0 and 1, got {share}.")
    ends = [(bound, *one.interval(level)) for bound, one in zip(bounds, above, strict=True)]
    # One bound after the other, so that a wrong end needs a wrong answer at the bound next to it.
    low = high = None
    for bound, least, _ in ends:
        if 1 - least >= share:
            break
        low = bound
    for bound, _, most in reversed(ends):
        if 1 - most <= share:
            break
        high = bound
    return low, high


def _share_from(
    law: CategoryLaw, part: Counts, first: int, randomizer: CategoryRandomizer
) -> tuple[float, float]:
    """Return the share of readings from a category on, and its error."""
    often, seldom = law.chances
    votes = law.votes(part.places)[:, first:].sum(axis=1)
    if isinstance(randomizer, RandomizedResponse):
        # A report lies above with one chance if the reading does, and with another if not.
        count = randomizer.domain.steps + 1 - first
        there, elsewhere = often + (count - 1) * seldom, count * seldom
        total = int(part.counts @ votes)
        value = (total / part.n - elsewhere) / (there - elsewhere)
        return value, share_error(total, part.n, there, elsewhere)
    decoded = (votes - (randomizer.domain.steps + 1 - first) * seldom) / (often - seldom)
    value = float(part.counts @ decoded) / part.n
    found = shares(part, randomizer=randomizer)
    single = np.array(
        [_variance(law, index, first, (often, seldom)) for index in range(len(found))]
    )
    weights = np.array([one.value for one in found.values()])
    # The sum over readings is linear in their shares, so it is unbiased as they are.
    variance = max(float(weights @ single), float(single.min()))
    return value, math.sqrt(variance / part.n)


def _variance(law: CategoryLaw, index: int, first: int, chances: tuple[float, float]) -> float:
    """Return the variance of one decoded report of a category."""
    often, seldom = chances
    weights = law.weights(index)
    places = np.array(list(weights))
    chance = np.array([float(weight) for weight in weights.values()])
    chance /= chance.sum()
    votes = law.votes(places)[:, first:].sum(axis=1) / (often - seldom)
    return float(chance @ votes**2 - (chance @ votes) ** 2)
