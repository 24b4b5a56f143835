"""From a campaign to its mathematics: the randomizer, which places it can draw, and its error."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rase.arrays import Floats
from rase.campaign import Campaign
from rase.counts.counts import Counts
from rase.laws.geometric import BudgetAware
from rase.laws.randomizer import RangeRandomizer
from rase.laws.registry import AUTO, best_mechanism, randomizer_named

__all__ = [
    "Classes",
    "Effect",
    "Places",
    "campaign_of",
    "counts_of",
    "drawable",
    "effect_of",
    "randomizer_of",
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


def randomizer_of(campaign: Campaign) -> RangeRandomizer:
    """Return the mechanism of a campaign's devices; with several classes, of all their budgets."""
    budgets = campaign.epsilon if len(campaign.epsilon) > 1 else campaign.epsilon[0]
    return _randomizer(campaign, budgets)


def counts_of(campaign: Campaign, places: Places, classes: Classes) -> Counts:
    """Return reports counted, by budget where devices of the campaign differ in it."""
    budgets = None if len(campaign.epsilon) == 1 else np.asarray(campaign.epsilon)[classes]
    return Counts.of(places, epsilon=budgets)


def drawable(campaign: Campaign, places: Places, classes: Classes) -> NDArray[np.bool_]:
    """Return which places the campaign's mechanism can draw; others were made up.

    Without this one device that breaks the protocol would spoil the round for all.
    """
    is_drawn = np.ones(places.shape, dtype=np.bool_)
    for number in np.unique(classes):
        epsilon = campaign.epsilon[int(number)]
        chosen = classes == number
        is_drawn[chosen] = _randomizer(campaign, epsilon).law(epsilon).is_place(places[chosen])
    return is_drawn


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
    grid = campaign.domain
    readings = grid.low + grid.step * np.linspace(0, grid.steps, 65).round()
    effects = []
    for budget in campaign.epsilon:
        randomizer = _randomizer(campaign, budget)
        clamps = bool(randomizer.is_clamping) if isinstance(randomizer, BudgetAware) else None
        effects.append(_effect(budget, clamps, n, randomizer.variance(readings)))
    return effects


def _randomizer(campaign: Campaign, budgets: float | tuple[float, ...]) -> RangeRandomizer:
    return randomizer_named(
        campaign.mechanism,
        budgets,
        domain=campaign.domain,
        precision=campaign.precision,
    )


def _effect(budget: float, is_clamping: bool | None, n: int, variance: Floats) -> Effect:
    errors = np.sqrt(variance / n)
    return Effect(budget, is_clamping, n, float(errors.max()), float(errors.min()))
