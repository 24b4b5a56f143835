"""Shares of categories: how many of the readings were in each state, with errors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from rase.counts.counts import Counts, check_counts
from rase.counts.estimate import Estimate
from rase.counts.registry import SHARES
from rase.counts.votes import share_error
from rase.laws.response import RandomizedResponse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rase.laws.response import CategoryRandomizer

__all__ = ["METHOD", "on_simplex", "shares", "simultaneous", "top"]

METHOD = SHARES


def shares(
    reports: Counts | Iterable[str],
    *,
    randomizer: CategoryRandomizer,
    epsilon: Sequence[float] | None = None,
) -> dict[str, Estimate]:
    """Estimate the share of the readings in each category, without bias.

    The target is the share among *these* readings; the error is that of the noise. A share may come
    out below 0 or above 1, because moving it would add a bias; its interval ends there. The shares
    of randomized response add up to 1; those of a block design nearly do (`on_simplex`).

    Intervals hold the true share at least as often as they say, for any number of reports and any
    epsilon (`rase.counts.votes`): at 95 % 94 to 97 % of them where the number of votes varies by
    seven or more, up to all of them where it hardly varies. That is for each share; `simultaneous`
    has intervals that hold all shares at once.

    Args:
        reports: Counts, or the reported names of one round of randomized response in any order.
        randomizer: The mechanism they come from.
        epsilon: The budgets of names, aligned with them, where contributors differ.

    Returns:
        One estimate for each category, by its name.

    Raises:
        TypeError: If reports are names and the mechanism reports no names.
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
        if not isinstance(randomizer, RandomizedResponse):
            raise TypeError(f"reports of {randomizer.name} are no names; give Counts.of(places).")
        places = [randomizer.domain.spot(name)[0] for name in reports]
        reports = Counts.of(places, epsilon=epsilon)
    check_counts(reports, randomizer)
    n, names = reports.n, randomizer.domain.names
    values, variances = np.zeros(len(names)), np.zeros(len(names))
    for budget, part in reports.classes():
        law = randomizer.law(randomizer.budgets[-1] if budget is None else budget)
        often, seldom = law.chances
        votes = part.counts @ law.votes(part.places)
        values += (votes - part.n * seldom) / (often - seldom) / n
        errors = [share_error(one, part.n, often, seldom) for one in votes.tolist()]
        variances += np.square(np.array(errors) * part.n / n)
    return {
        name: Estimate(
            float(value),
            math.sqrt(float(variance)),
            n=n,
            method=METHOD,
            target=f"share of the readings that are {name}",
            lowest=0.0,
            highest=1.0,
        )
        for name, value, variance in zip(names, values, variances, strict=True)
    }


def simultaneous(
    found: Mapping[str, Estimate], level: float = 0.95
) -> dict[str, tuple[float, float]]:
    """Return intervals that hold the shares of all categories at once with a probability.

    Each is at the level 1 - (1 - level) / k for k categories (Bonferroni), whatever their errors
    have in common.

    Args:
        found: What `shares` returned.
        level: The probability that every share lies in its interval, between 0 and 1.

    Raises:
        ValueError: If ``level`` is not between 0 and 1.
    """
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level}.")
    each = 1 - (1 - level) / len(found)
    return {name: share.interval(each) for name, share in found.items()}


def on_simplex(found: Mapping[str, Estimate]) -> dict[str, float]:
    """Return shares for display: none below 0, together 1, and as near as can be to the estimates.

    The nearest point by squared distance (Wang, Carreira-Perpiñán 2013). It has a bias; averages,
    sums and differences take the estimates themselves.

    Example:
        >>> values = {"on": 0.9, "off": 0.3, "standby": -0.2}
        >>> found = {
        ...     name: Estimate(value, 0.1, n=10, method="shares", target="share")
        ...     for name, value in values.items()
        ... }
        >>> [round(value, 3) for value in on_simplex(found).values()]
        [0.8, 0.2, 0.0]
    """
    values = np.array([share.value for share in found.values()])
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, values.size + 1)
    taken = excess[np.flatnonzero(ordered > excess)[-1]]
    return dict(zip(found, np.maximum(values - taken, 0.0).tolist(), strict=True))


def top(found: Mapping[str, Estimate], count: int, *, level: float = 0.95) -> dict[str, bool]:
    """Return the commonest categories, the first first, and of each whether it surely is one.

    A category surely is among the commonest ``count`` if fewer than that have simultaneous
    intervals that reach as high as its lower end: at the level, all that are called sure are.

    Args:
        found: What `shares` returned.
        count: How many, from 1 to all.
        level: The probability with which everything that is called sure is true.

    Raises:
        ValueError: If ``count`` or ``level`` is out of bounds.
    """
    if not 1 <= count <= len(found):
        raise ValueError(f"count must be between 1 and {len(found)}, got {count}.")
    ends = simultaneous(found, level)
    first = sorted(found, key=lambda name: -found[name].value)[:count]
    return {
        name: sum(high >= ends[name][0] for other, (_, high) in ends.items() if other != name)
        < count
        for name in first
    }
