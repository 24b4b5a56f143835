"""Shares of categories: how many of the readings were in each state, with errors."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np

from rase.counts.counts import Counts, check_counts
from rase.counts.estimate import Estimate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rase.arrays import Floats
    from rase.laws.response import CategoryRandomizer

__all__ = ["shares"]


def shares(
    reports: Counts | Iterable[str],
    *,
    randomizer: CategoryRandomizer,
    epsilon: Sequence[float] | None = None,
) -> dict[str, Estimate]:
    """Estimate the share of the readings in each category, without bias.

    The target is the share among *these* readings; the error is that of the noise. A share may come
    out below 0 or above 1, because moving it would add a bias; its interval ends there. The shares
    of all categories add up to 1 where the law decodes them so, as randomized response does.

    Intervals at 95 % of randomized response cover 93 % or more where others are expected to report
    a category ten times or more, that is n / (e^epsilon + k - 1) for k categories. Where fewer do,
    noise is a few single reports that normal intervals miss: they cover 78 % or more.

    Args:
        reports: Counts, or the reported names of one round in any order.
        randomizer: The mechanism they come from.
        epsilon: The budgets of names, aligned with them, where contributors differ.

    Returns:
        One estimate for each category, by its name.

    Raises:
        ValueError: If there are no reports, or they cannot come from ``randomizer``.

    Example:
        >>> from rase import Categories, RandomizedResponse, SeededRandom
        >>> response = RandomizedResponse(2.0, Categories(("on", "off", "standby")))
        >>> noisy = response.randomize(["on"] * 600 + ["off"] * 400, rng=SeededRandom(5))
        >>> found = shares(noisy, randomizer=response)
        >>> [f"{name} {share.value:.2f}" for name, share in found.items()]
        ['on 0.63', 'off 0.38', 'standby -0.01']
    """
    if not isinstance(reports, Counts):
        places = [randomizer.domain.spot(name)[0] for name in reports]
        reports = Counts.of(places, epsilon=epsilon)
    check_counts(reports, randomizer)
    n = reports.n
    values = np.zeros(len(randomizer.domain.names))
    variances = np.zeros(values.size)
    for budget, part in reports.classes():
        decoded = randomizer.decode_shares(part.places, epsilon=budget)
        values += part.counts @ decoded / n
        # Being in a category is 0 or 1, its own square: h^2 - h is unbiased for the noise of h.
        own = part.counts @ (decoded * decoded - decoded) / part.n
        least, greatest = _variance_bounds(randomizer, budget)
        variances += np.clip(own, least, greatest) * part.n / n**2
    return {
        name: Estimate(
            float(value),
            math.sqrt(float(variance)),
            n=n,
            method="shares",
            target=f"share of the readings that are {name}",
            lowest=0.0,
            highest=1.0,
        )
        for name, value, variance in zip(randomizer.domain.names, values, variances, strict=True)
    }


@functools.lru_cache(maxsize=256)
def _variance_bounds(
    randomizer: CategoryRandomizer, epsilon: float | None
) -> tuple[Floats, Floats]:
    """Return the least and the greatest variance of each decoded share, over the categories."""
    law = randomizer.law(randomizer.budgets[-1] if epsilon is None else epsilon)
    rows = [law.weights(index) for index in range(randomizer.domain.steps + 1)]
    places = np.array(sorted(rows[0]), dtype=np.int64)
    chances = np.array([[row[place] for place in places.tolist()] for row in rows], dtype=float)
    chances /= chances.sum(axis=1, keepdims=True)
    decoded = randomizer.decode_shares(places, epsilon=epsilon)
    variances = chances @ (decoded * decoded) - np.square(chances @ decoded)
    return variances.min(axis=0), variances.max(axis=0)
