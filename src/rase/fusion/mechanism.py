"""From a campaign to its mathematics: the randomizer, which places it can draw, and its error."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rase.accounting.campaign_claims import DEFAULT_DELTA, fit_budget, state_promise
from rase.accounting.ledger.limits import UNASKED_REPORT_EPSILON
from rase.arrays import Floats
from rase.campaign import MAX_DELTA, MIN_DELTA, MIN_SHUFFLED, Campaign
from rase.counts.counts import Counts
from rase.domain import Categories, Range
from rase.errors import PrivacyRefused
from rase.laws.geometric import BudgetAware
from rase.laws.randomizer import Randomizer, RangeRandomizer
from rase.laws.registry import (
    AUTO,
    best_for_shares,
    best_mechanism,
    mechanisms_of,
    randomizer_named,
)
from rase.laws.response import CategoryRandomizer, share_deviation
from rase.privacy import MAX_EPSILON
from rase.validation import CampaignInvalid, Mistakes

__all__ = [
    "Classes",
    "Effect",
    "Places",
    "campaign_of",
    "counts_of",
    "drawable",
    "effect_of",
    "randomizer_of",
    "state_randomizer_of",
]

_PROMISE = ("shuffled_epsilon", "delta", "colluding", "claims")

Places = NDArray[np.int64]
Classes = NDArray[np.uint8]


def campaign_of(values: Any) -> Campaign:
    """Return a campaign from fields as an operator writes them.

    A campaign names the law that its devices draw, because they never meet to agree on one. So
    ``auto``, and a mechanism left out, become the best one for a mean at these budgets here, before
    anything is signed. The same goes for a promise towards the fusion centre: it is asked for by
    ``shuffled_epsilon``, by ``delta`` or by both. Where ``epsilon`` is left out it becomes the
    largest one that keeps the promise, but at most 4.5; and the table of claims is computed, never
    taken over.

    Args:
        values: As for `Campaign.from_fields`; ``mechanism`` may be absent or ``auto``, ``epsilon``
            and ``window_budget`` may be absent where ``shuffled_epsilon`` is given.

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
    if not isinstance(values, Mapping):
        return Campaign.from_fields(values)
    if any(values.get(name) is not None for name in ("shuffled_epsilon", "delta")):
        return _promising_campaign(dict(values))
    return _plain_campaign(values)


def _plain_campaign(values: Mapping[str, Any]) -> Campaign:
    if values.get("mechanism", AUTO) != AUTO:
        return Campaign.from_fields(values)
    # Any mechanism will do to have all other mistakes listed before one is chosen by the budgets.
    is_number = not (values.get("categories") or values.get("bounds"))
    any_law = mechanisms_of(Range if is_number else Categories)[0]
    checked = Campaign.from_fields({**values, "mechanism": any_law})
    if checked.states is None:
        return replace(checked, mechanism=best_mechanism(checked.epsilon))
    best = best_for_shares(checked.epsilon, len(checked.states.names))
    return replace(checked, mechanism=best)


def _promising_campaign(values: dict[str, Any]) -> Campaign:
    """Return a campaign with a promise towards the fusion centre, computed from its fields."""
    promise: dict[str, Any] = {name: values.pop(name, None) for name in _PROMISE}
    asked = {
        "shuffled_epsilon": promise["shuffled_epsilon"],
        "delta": DEFAULT_DELTA if promise["delta"] is None else promise["delta"],
        "colluding": promise["colluding"] or 0,
    }
    mechanism = values.get("mechanism", AUTO)
    is_fitted = values.get("epsilon") is None and asked["shuffled_epsilon"] is not None
    if is_fitted:
        # Stands for one report a window, until the budget is known.
        values |= {"epsilon": [1.0], "window_budget": values.get("window_budget", 1.0)}
    plain = _plain_campaign(values)
    mistakes = Mistakes()
    if asked["shuffled_epsilon"] is not None:
        mistakes.number(
            "shuffled_epsilon", asked["shuffled_epsilon"], low=MIN_SHUFFLED, high=MAX_EPSILON
        )
    mistakes.number("delta", asked["delta"], low=MIN_DELTA, high=MAX_DELTA)
    mistakes.whole("colluding", asked["colluding"], low=0, high=plain.k_min - 2)
    mistakes.raise_if_any()
    try:
        if is_fitted:
            plain = fit_budget(plain, mechanism=mechanism, most=UNASKED_REPORT_EPSILON, **asked)
        return state_promise(plain, **asked)
    except PrivacyRefused as error:
        raise CampaignInvalid([str(error)]) from None


def randomizer_of(campaign: Campaign) -> RangeRandomizer:
    """Return the mechanism of devices that report numbers; with several classes, of all budgets."""
    found = _randomizer(campaign, _budgets_of(campaign))
    if not isinstance(found, RangeRandomizer):
        raise TypeError("the campaign must be of numbers; it is of states.")
    return found


def state_randomizer_of(campaign: Campaign) -> CategoryRandomizer:
    """Return the mechanism of devices that report states; with several classes, of all budgets."""
    found = _randomizer(campaign, _budgets_of(campaign))
    if not isinstance(found, CategoryRandomizer):
        raise TypeError("the campaign must be of states; it is of numbers.")
    return found


def _budgets_of(campaign: Campaign) -> float | tuple[float, ...]:
    return campaign.epsilon if len(campaign.epsilon) > 1 else campaign.epsilon[0]


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
        standard_error: Of the unbiased mean of n reports, at the reading where it is largest; of
            a share, where readings are states.
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
    if campaign.states is not None:
        return [
            Effect(budget, None, n, error, error)
            for budget in campaign.epsilon
            for randomizer in [_randomizer(campaign, budget)]
            if isinstance(randomizer, CategoryRandomizer)
            for error in [share_deviation(randomizer) / math.sqrt(n)]
        ]
    grid = campaign.domain
    readings = grid.low + grid.step * np.linspace(0, grid.steps, 65).round()
    effects = []
    for budget in campaign.epsilon:
        randomizer = randomizer_of(replace(campaign, epsilon=(budget,)))
        clamps = bool(randomizer.is_clamping) if isinstance(randomizer, BudgetAware) else None
        effects.append(_effect(budget, clamps, n, randomizer.variance(readings)))
    return effects


def _randomizer(campaign: Campaign, budgets: float | tuple[float, ...]) -> Randomizer:
    return randomizer_named(
        campaign.mechanism,
        budgets,
        domain=campaign.public,
        precision=campaign.precision,
    )


def _effect(budget: float, is_clamping: bool | None, n: int, variance: Floats) -> Effect:
    errors = np.sqrt(variance / n)
    return Effect(budget, is_clamping, n, float(errors.max()), float(errors.min()))
