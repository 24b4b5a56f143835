"""From a campaign to its mathematics: the randomizer, which places it can draw, and its error."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rase.campaign import AUTO, Campaign
from rase.randomize.budget_aware import BudgetAware
from rase.randomize.choice import best_mechanism
from rase.randomize.grid import GridRandomizer
from rase.randomize.protocol import Floats, Randomizer
from rase.randomize.registry import randomizer_named

__all__ = [
    "Classes",
    "Effect",
    "Places",
    "campaign_of",
    "drawable",
    "effect_of",
    "randomizer_of",
    "values_of",
]

Places = NDArray[np.int64]
Classes = NDArray[np.uint8]


def campaign_of(values: Any) -> Campaign:
    """Return a campaign from fields as an operator writes them.

    A campaign names the law that its devices draw, because they never meet to agree on one. So
    ``auto``, and a mechanism left out, become the best one for a mean at these budgets here, before
    anything is signed.

    Args:
        values: As for `Campaign.from_fields`; ``mechanism`` may be absent or ``auto``.

    Raises:
        CampaignInvalid: With all mistakes.

    Example:
        >>> fields = dict(
        ...     id="homes", version=1, quantity="power", unit="W", low=0, high=3000, epsilon=[1.0],
        ...     window=24, window_budget=1.0, round_s=3600, upload_s=300, grace_s=600, k_min=20,
        ...     not_before=0, not_after=9,
        ... )
        >>> campaign_of(fields | {"mechanism": "auto"}).mechanism, campaign_of(fields).mechanism
        ('optimal', 'optimal')
    """
    if not isinstance(values, Mapping) or values.get("mechanism", AUTO) != AUTO:
        return Campaign.from_fields(values)
    # Any mechanism will do to have all other mistakes listed before one is chosen by the budgets.
    checked = Campaign.from_fields({**values, "mechanism": "duchi"})
    return replace(checked, mechanism=best_mechanism(checked.epsilon))


def randomizer_of(campaign: Campaign) -> Randomizer:
    """Return the mechanism of a campaign's devices; with several classes, of all their budgets."""
    budgets = campaign.epsilon if len(campaign.epsilon) > 1 else campaign.epsilon[0]
    return _randomizer(campaign, budgets)


def values_of(campaign: Campaign, places: Places, classes: Classes) -> tuple[Floats, Floats | None]:
    """Return noisy values in the unit of readings, and their budgets where devices differ."""
    grid = campaign.value_range
    values = grid.low + grid.step * places.astype(np.float64)
    if len(campaign.epsilon) == 1:
        return values, None
    return values, np.asarray(campaign.epsilon)[classes]


def drawable(campaign: Campaign, places: Places, classes: Classes) -> NDArray[np.bool_]:
    """Say which places the campaign's mechanism can draw; others were made up.

    Without this one device that breaks the protocol would spoil the round for all.
    """
    randomizer = randomizer_of(campaign)
    is_drawn = np.ones(places.shape, dtype=np.bool_)
    for number in np.unique(classes):
        chosen = np.flatnonzero(classes == number)
        distinct, back = np.unique(places[chosen], return_inverse=True)
        good = np.zeros(distinct.shape, dtype=np.bool_)
        _mark(campaign, randomizer, distinct, int(number), good)
        is_drawn[chosen] = good[back]
    return is_drawn


def _mark(
    campaign: Campaign,
    randomizer: Randomizer,
    distinct: Places,
    number: int,
    good: NDArray[np.bool_],
) -> None:
    """Mark the places that decode; halve until the others stand alone."""
    values, budgets = values_of(campaign, distinct, np.full(distinct.shape, number, np.uint8))
    try:
        randomizer.decode(values, epsilon=budgets)
    except ValueError:
        if len(distinct) > 1:
            middle = len(distinct) // 2
            _mark(campaign, randomizer, distinct[:middle], number, good[:middle])
            _mark(campaign, randomizer, distinct[middle:], number, good[middle:])
        return
    good[:] = True


@dataclass(frozen=True, slots=True)
class Effect:
    """Say what a campaign's parameters lead to, before anybody is asked to live with them.

    Args:
        epsilon: The budget of a report.
        is_clamping: Whether reports are clamped into the range; None where the mechanism decides.
        n: The number of reports that was assumed.
        standard_error: Of the unbiased mean of n reports, at the reading where it is largest.
        best_standard_error: The same where it is smallest.
    """

    epsilon: float
    is_clamping: bool | None
    n: int
    standard_error: float
    best_standard_error: float


def effect_of(campaign: Campaign, n: int) -> list[Effect]:
    """Return the expected error of a round of n reports, for each budget of the campaign.

    Raises:
        ValueError: If n is below 1.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}.")
    grid = campaign.value_range
    readings = grid.low + grid.step * np.linspace(0, grid.steps, 65).round()
    effects = []
    for budget in campaign.epsilon:
        randomizer = _randomizer(campaign, budget)
        clamps = bool(randomizer.is_clamping) if isinstance(randomizer, BudgetAware) else None
        effects.append(_effect(budget, clamps, n, randomizer.variance(readings)))
    return effects


def _randomizer(campaign: Campaign, budgets: float | tuple[float, ...]) -> GridRandomizer:
    return randomizer_named(
        campaign.mechanism,
        budgets,
        value_range=campaign.value_range,
        precision=campaign.precision,
    )


def _effect(budget: float, is_clamping: bool | None, n: int, variance: Floats) -> Effect:
    errors = np.sqrt(variance / n)
    return Effect(budget, is_clamping, n, float(errors.max()), float(errors.min()))
