"""The estimator `tracked` at the fusion centre: what was learnt follows from rows alone.

A tracker in memory is only a shortcut. Whatever process goes on, after whatever death, it takes
the last state that was written and the rounds since, in their order, and comes to the same bits.
Rounds are followed in their own order, not in that in which their batches happen to arrive.
"""

import math
from typing import Final

from rase.campaign import Campaign
from rase.clock import round_start_s
from rase.counts.estimate import Estimate
from rase.counts.registry import TRACKED
from rase.series.tracker import Tracker
from rase.storage.interface import Transaction

__all__ = ["PATIENCE_S", "STATE_EVERY", "Tracking", "is_early", "last_tracked", "write_tracked"]

# A state of 500 to 700 kB is written once in so many rounds, which a restart goes through in 30 ms.
STATE_EVERY: Final = 64
# How long a round waits for the one before it, but no longer than a round lasts. A shuffler tries
# a batch again within 300 s, so after an outage all that waited have come by then.
PATIENCE_S: Final = 600

# Where devices differ in epsilon a round has both means, and the combined one was followed.
_ROUNDS = (
    "SELECT t.round, t.spread, e.value, e.standard_error, e.degrees_of_freedom, e.n "
    "FROM tracked t JOIN answers e "
    "ON e.campaign = t.campaign AND e.round = t.round AND e.method = COALESCE("
    "(SELECT c.method FROM answers c WHERE c.campaign = t.campaign AND c.round = t.round "
    "AND c.method = 'combined_mean'), 'unbiased_mean') "
    "WHERE t.campaign = ? AND t.round > ? ORDER BY t.round"
)


class Tracking:
    """Keep the trackers of campaigns as far as the database has come."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[int, Tracker]] = {}

    def take(self, transaction: Transaction, campaign: Campaign) -> tuple[int | None, Tracker]:
        """Return the last round that was followed, None if there is none, and the tracker then.

        The tracker is handed out for good: it goes on before the database does, and only what was
        written may be kept again.
        """
        last = last_tracked(transaction, campaign.id)
        known, tracker = self._kept.pop(campaign.id, (None, None))
        # A new version may have another range, by which the models are scaled.
        is_other = tracker is not None and tracker.domain != campaign.domain
        if tracker is None or known != last or is_other:
            tracker = _replay_rounds(transaction, campaign)
        return last, tracker

    def keep(self, campaign: str, round: int, tracker: Tracker) -> None:
        """Take a tracker back whose last round is written."""
        self._kept[campaign] = round, tracker


def is_early(
    transaction: Transaction, campaign: Campaign, round: int, *, settles_s: int, now_s: int
) -> bool:
    """Say whether a settled round has to wait for the one before it to become final.

    Shufflers send something for every round, also for one that is withheld, so a gap means that a
    batch is still under way. Without waiting, what is known of rounds after an outage would depend
    on which batch was quicker. A round that has waited long enough goes first, and the one that
    was missing then stands by itself.

    Args:
        transaction: A view of the database.
        campaign: The version that holds in the round.
        round: The round.
        settles_s: When it settled.
        now_s: The time.
    """
    if TRACKED not in campaign.estimators:
        return False
    # A time further away than patience reaches was written by a clock that was wrong.
    if not now_s < settles_s + min(PATIENCE_S, campaign.round_s) <= now_s + PATIENCE_S:
        return False
    rows = transaction.execute(
        "SELECT round, state FROM rounds WHERE campaign = ? AND round < ? "
        "ORDER BY round DESC LIMIT 1",
        (campaign.id, round),
    )
    # Before the first round there is nothing to wait for.
    return any(before < round - 1 or state == "open" for before, state in rows)


def last_tracked(transaction: Transaction, campaign: str) -> int | None:
    """Return the last round that the campaign's tracker has followed."""
    ((last,),) = transaction.execute(
        "SELECT MAX(round) FROM tracked WHERE campaign = ?", (campaign,)
    )
    return None if last is None else int(last)


def write_tracked(
    transaction: Transaction, campaign: str, round: int, *, spread: float | None, tracker: Tracker
) -> None:
    """Write that a round was followed, and the tracker's state if the last one is old enough."""
    transaction.execute(
        "INSERT INTO tracked (campaign, round, spread) VALUES (?, ?, ?)", (campaign, round, spread)
    )
    ((since,),) = transaction.execute(
        "SELECT COUNT(*) FROM tracked WHERE campaign = ? AND round > COALESCE("
        "(SELECT round FROM tracker_states WHERE campaign = ?), -1)",
        (campaign, campaign),
    )
    if since >= STATE_EVERY:
        transaction.execute(
            "INSERT INTO tracker_states (campaign, round, state) VALUES (?, ?, ?) ON CONFLICT "
            "(campaign) DO UPDATE SET round = excluded.round, state = excluded.state",
            (campaign, round, tracker.to_bytes()),
        )


def _replay_rounds(transaction: Transaction, campaign: Campaign) -> Tracker:
    begin, tracker = -1, Tracker(campaign.domain)
    states = transaction.execute(
        "SELECT round, state FROM tracker_states WHERE campaign = ?", (campaign.id,)
    )
    for round, state in states:
        try:
            tracker = Tracker.from_bytes(campaign.domain, bytes(state))
        except ValueError:
            # Written by a release with other models: the rounds themselves are all there.
            continue
        begin = round
    rows = transaction.execute(_ROUNDS, (campaign.id, begin))
    for round, spread, mean, error, degrees, n in rows:
        alone = Estimate(
            mean,
            error,
            n=n,
            method="unbiased_mean",
            target="mean of the readings",
            degrees_of_freedom=math.inf if degrees is None else degrees,
        )
        tracker.update(round_start_s(round, campaign.round_s), alone, spread=spread)
    return tracker
