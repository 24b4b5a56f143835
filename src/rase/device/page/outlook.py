"""How many reports the owner's ledger will still pay for, and what one of them gives away.

The ledger itself refuses or pays when the moment comes; this only informs the owner beforehand.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rase.accounting.ledger import Entry, LedgerStatus
from rase.accounting.ledger.nano import nano_from_limit, nano_from_spending
from rase.campaign import Campaign
from rase.privacy import LocalDP
from rase.promise import reports_within

__all__ = ["WEEK_S", "Outlook", "of_hundred", "outlook_of"]

WEEK_S = 7 * 86400


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is to come: how many rounds begin, and how many of them could have a report."""

    rounds: int
    reports: int


def outlook_of(
    status: LedgerStatus,
    entries: Iterable[Entry],
    *,
    campaign: Campaign,
    epsilon: float,
    has_turn: Callable[[Campaign, int], bool],
    length_s: int = WEEK_S,
) -> Outlook:
    """Count the reports of the next days if every round is reported that the limits allow.

    Args:
        status: The ledger as it stands.
        entries: Its entries.
        campaign: Whose reports are counted.
        epsilon: What one of them spends.
        has_turn: The device's schedule.
        length_s: How far to look.
    """
    cost = nano_from_spending("epsilon", epsilon)
    first = status.time_s // campaign.round_s
    last = (status.time_s + length_s - 1) // campaign.round_s
    starts = {item.limits.campaign: item.limits for item in status.campaigns}
    entries = sorted(entries, key=lambda one: starts[one.campaign].start_s(one.round))
    charged = [(one, nano_from_spending("epsilon", one.epsilon)) for one in entries]
    window = _Sliding(
        campaign.window,
        nano_from_limit("window_budget", campaign.window_budget),
        ((one.round, nano) for one, nano in charged if one.campaign == campaign.id),
    )
    span = _Sliding(
        status.owner.span_s,
        status.owner.span_nano,
        ((starts[one.campaign].start_s(one.round), nano) for one, nano in charged),
    )
    # What a day may give away to the fusion centre is so many reports of this campaign.
    cap, most = status.owner.span_shuffled_epsilon, last - first + 1
    if cap is not None and campaign.claims:
        most = reports_within(campaign.claims, shuffled_epsilon=cap)
    elif cap is not None:
        most = nano_from_limit("span_shuffled_epsilon", cap) // cost
    given = _Sliding(
        status.owner.span_s,
        most,
        ((starts[one.campaign].start_s(one.round), 1) for one in entries),
    )
    # Exact: what is left is a whole number of billionths.
    left = math.floor(status.total_left * 10**9 + 0.5)
    used = {one.round for one in entries if one.campaign == campaign.id}
    count = 0
    for round in range(first, last + 1):
        if left < cost or not campaign.holds_in(round):
            continue
        start_s = round * campaign.round_s
        fits = window.fits(round, cost) and span.fits(start_s, cost) and given.fits(start_s, 1)
        if round in used or not fits or not has_turn(campaign, round):
            continue
        window.add(round, cost)
        span.add(start_s, cost)
        given.add(start_s, 1)
        left -= cost
        count += 1
    return Outlook(last - first + 1, count)


def of_hundred(epsilon: float) -> str:
    """Return how often an observer is right at most who guesses between two readings.

    50 of 100 are chance. Rounded up, as a bound must be.

    Example:
        >>> of_hundred(1.0), of_hundred(24.0)
        ('74 of 100', 'over 99 of 100')
    """
    share = LocalDP(epsilon).posterior()
    return "over 99 of 100" if share > 0.99 else f"{math.ceil(100 * share)} of 100"


class _Sliding:
    """Sum up what lies within one length before a place that only moves on."""

    def __init__(self, length: int, limit: int, charges: Iterable[tuple[int, int]]) -> None:
        self._length = length
        self._limit = limit
        self._held = deque(charges)
        self._sum = sum(nano for _, nano in self._held)

    def fits(self, place: int, cost: int) -> bool:
        while self._held and self._held[0][0] <= place - self._length:
            self._sum -= self._held.popleft()[1]
        return self._sum + cost <= self._limit

    def add(self, place: int, cost: int) -> None:
        self._held.append((place, cost))
        self._sum += cost
