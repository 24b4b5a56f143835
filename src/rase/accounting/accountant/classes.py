"""Contributors with different budgets who hide each other, because their reports look alike.

Rungs of the optimal channel report different places, so a report shows its budget, and only those
of one budget hide each other. Channels that are mixed from one rung with different shares of its
own blanket report the same outputs: their blankets have one shape, and the blanket reports of all
classes hide everybody. It holds as long as nothing else shows the class of a report.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from rase.accounting.accountant.pair import Pair
from rase.accounting.accountant.profile import Profile
from rase.accounting.binomial import Floats, probabilities
from rase.accounting.blanket import BLANKET_THEOREM, Blanket, Channel, channel_of
from rase.accounting.checks import checked_delta
from rase.domain import Range
from rase.laws.ladder import programme_at
from rase.laws.optimal import Optimal

__all__ = ["ClassProfile", "class_laws", "class_pairs", "hidden_numbers"]

# Numbers of blanket reports this close, as a share of their deviation, are counted as the smallest
# of them; so are all that are far above the mean.
_WIDTH = 1 / 6
_FAR_ABOVE = 2.0
# What is left out, as a share of the delta asked for.
_NEGLIGIBLE = 1e-9


def class_laws(domain: Range, budgets: Sequence[float]) -> tuple[Optimal, ...]:
    """Return a channel for each budget, all mixed from the rung of the largest.

    Args:
        domain: The public range.
        budgets: The budgets, in any order.

    Raises:
        ValueError: If there are no budgets, or the largest is below the ladder.

    Example:
        >>> [law.epsilon for law in class_laws(Range(0, 1), [1.0, 3.0])]
        [1.0, 3.0]
    """
    if not budgets:
        raise ValueError("budgets must hold at least one, got none.")
    rung = programme_at(max(budgets))
    return tuple(
        Optimal(
            budget, domain, programme=rung.mix_blanket(budget) if budget < rung.epsilon else rung
        )
        for budget in budgets
    )


def class_pairs(domain: Range, budgets: Mapping[float, int], *, delta: float) -> dict[float, Pair]:
    """Return for each budget a pair that a round is no easier to tell apart than.

    Guarantee: as for `rase.accounting.accountant.rounds.shuffled_pair`, for a contributor of that
    budget in rounds with at least so many honest reports of every budget, drawn by `class_laws`,
    if the observer does not see which report has which budget
    (tests/accounting/accountant/test_classes.py enumerates small rounds).

    Args:
        domain: The public range.
        budgets: The fewest honest reports of a round by their budget, each at least 1.
        delta: About which delta will be asked.

    Raises:
        ValueError: If an argument is out of bounds.

    Example:
        >>> both = class_pairs(Range(0, 1), {1.0: 500, 3.0: 500}, delta=1e-6)
        >>> alone = class_pairs(Range(0, 1), {3.0: 500}, delta=1e-6)
        >>> round(alone[3.0].epsilon(1e-6), 2), round(both[3.0].epsilon(1e-6), 2)
        (1.25, 0.44)
    """
    delta = checked_delta(delta)
    for count in budgets.values():
        if count < 1:
            raise ValueError(f"budgets must have at least 1 report each, got {count}.")
    channels = {law.guarantee.epsilon: channel_of(law) for law in class_laws(domain, list(budgets))}
    found = {}
    for budget, own in channels.items():
        shape = own.blanket / own.blanket.sum()
        # The shapes are alike but for the rounding of weights to whole numbers: the least counts.
        others = [
            (float((channels[one].blanket / shape).min()), count - (one == budget))
            for one, count in budgets.items()
        ]
        found[budget] = Pair(ClassProfile(budget, own, shape, others, delta=delta))
    return found


class ClassProfile(Profile):
    """Bound a round by the blankets of several classes, which have one shape.

    A report of a class whose least probabilities are at least g times the shape is drawn from the
    shape with probability g, whatever its reading is. So the others give a sum of binomial numbers
    of such reports, and given their number m the round is one report among m of the shape: the
    blanket bound for m + 1 reports without the chance of none. It falls in m.

    Args:
        local_epsilon: The epsilon of the contributor's own report.
        own: The rows of its worst pair of readings.
        shape: The law that all blankets are multiples of.
        others: For each class the multiple g, and how many others it has.
        delta: About which delta will be asked.
    """

    theorem = f"{BLANKET_THEOREM}, of budgets mixed from one rung"

    def __init__(
        self,
        local_epsilon: float,
        own: Channel,
        shape: Floats,
        others: Sequence[tuple[float, int]],
        *,
        delta: float,
    ) -> None:
        """Keep the classes."""
        super().__init__(local_epsilon, delta=delta)
        self._negligible = _NEGLIGIBLE * delta
        self._own = Channel(low=own.low, middle=own.middle, high=own.high, least=shape)
        self._others = others

    def delta(self, epsilon: float) -> float:
        """Return the bound at epsilon, averaged over how many reports hide the contributor."""
        if epsilon >= self.local_epsilon:
            return 0.0
        bounds = [chance * bound.delta(epsilon) for chance, bound in self._bounds]
        return min(1.0, sum(bounds) + self._negligible)

    @cached_property
    def _bounds(self) -> list[tuple[float, Blanket]]:
        numbers = hidden_numbers(self._others, negligible=self._negligible)
        return [
            (chance, Blanket(self._own, number + 1, negligible=self._negligible))
            for number, chance in numbers
        ]


def hidden_numbers(
    others: Sequence[tuple[float, int]], *, negligible: float, width: float = _WIDTH
) -> list[tuple[int, float]]:
    """Return how many of the others' reports say nothing, with their chances, in blocks.

    Args:
        others: For each class the chance that a report says nothing, and how many it has.
        negligible: The chance that may be left out.
        width: Of a block, in standard deviations; one that is far above the mean is all one.

    Returns:
        The smallest number of each block, ascending, and the chance of the block.
    """
    law, first = np.ones(1), 0
    log_chance = math.log(2 * len(others) / negligible)
    for share, count in others:
        mean = count * share
        # Bernstein: all but 2 exp(-log_chance) lie within so much of the mean.
        variance = mean * max(1 - share, 0.0)
        half = log_chance / 3 + math.sqrt(log_chance**2 / 9 + 2 * variance * log_chance)
        low, high = max(0, math.floor(mean - half)), min(count, math.ceil(mean + half))
        counts = np.arange(low, high + 1, dtype=np.float64)
        law = np.convolve(law, probabilities(counts, np.full(counts.size, float(count)), share))
        first += low
    numbers = first + np.arange(law.size)
    mean = float(law @ numbers)
    deviation = max(math.sqrt(float(law @ np.square(numbers - mean))), width)
    label = np.floor(np.minimum((numbers - mean) / deviation, _FAR_ABOVE) / width)
    starts = np.flatnonzero(np.diff(label, prepend=-np.inf))
    chances = np.add.reduceat(law, starts)
    return [(int(n), float(p)) for n, p in zip(numbers[starts], chances, strict=True)]
