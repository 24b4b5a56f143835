"""States instead of numbers: what a device measured as a place, and what it reports in words.

Between a source and a report a state is the place of its name in the campaign, as a number.
"""

from bisect import bisect_right
from collections.abc import Iterable

from rase.campaign import Campaign
from rase.domain import OTHER
from rase.laws.designs import design_for

__all__ = [
    "drawn_number",
    "measured_words",
    "reported",
    "sent_words",
    "shown_unit",
    "state_numbers",
]


def state_numbers(campaign: Campaign, states: Iterable[str]) -> tuple[list[float], int]:
    """Return the places of states, and how many of them the campaign does not know.

    Those count as ``other`` if the campaign has it, and are left out if it does not.

    Args:
        campaign: A campaign of states.
        states: The states.
    """
    places = {name: place for place, name in enumerate(campaign.categories)}
    found, unknown = [], 0
    for state in states:
        unknown += state not in places
        place = places.get(state, places.get(OTHER))
        if place is not None:
            found.append(float(place))
    return found, unknown


def reported(campaign: Campaign, measured: float) -> float | str:
    """Return what a device draws its report from: a number, or the name of a state.

    Args:
        campaign: The campaign.
        measured: What its readings became: a number, or the place of a state.

    Example:
        >>> from dataclasses import replace
        >>> states = Campaign(
        ...     id="power", version=1, quantity="power", unit="W", low=0, high=0, epsilon=(1,),
        ...     mechanism="randomized-response", window=24, window_budget=24, round_s=3600,
        ...     upload_s=300, grace_s=600, k_min=20, not_before=0, not_after=9,
        ...     bounds=(1000, 3000),
        ... )
        >>> [reported(states, number) for number in (999.0, 1000.0, 5000.0)]
        ['below 1000', '1000 to 3000', '3000 or more']
    """
    if campaign.bounds:
        return campaign.categories[bisect_right(campaign.bounds, measured)]
    if campaign.categories:
        return campaign.categories[int(measured)]
    return measured


def drawn_number(campaign: Campaign, place: int) -> float:
    """Return what was drawn as a number of the campaign's unit; of states it is their place."""
    return float(place) if campaign.categories else campaign.low + place * campaign.domain.step


def measured_words(campaign: Campaign, measured: float) -> str | None:
    """Return what was measured where it is a state; None where it is a number."""
    if campaign.bounds or not campaign.categories:
        return None
    return campaign.categories[int(measured)]


def shown_unit(campaign: Campaign) -> str:
    """Return the unit of what is shown: a state has none."""
    return "" if campaign.categories and not campaign.bounds else campaign.unit


def sent_words(campaign: Campaign, sent: float) -> str | None:
    """Return what was sent where it is a state, or a set of states; None where it is a number."""
    if not campaign.categories:
        return None
    place = int(sent)
    if campaign.mechanism == "randomized-response":
        return campaign.categories[place]
    design = design_for(len(campaign.categories), max(campaign.epsilon))
    near = set(design.near)
    named = [
        name for index, name in enumerate(campaign.categories) if (place - index) % design.v in near
    ]
    return f"one of {', '.join(named)}" if named else "none of the states"
