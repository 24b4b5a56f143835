"""The estimator `tracked` at the fusion centre: what was learnt follows from rows alone.

A tracker in memory is only a shortcut. Whatever process goes on, after whatever death, it takes
the last state that was written and the rounds since, in their order, and comes to the same bits.
Rounds are followed in their own order, not in that in which their batches happen to arrive.
"""

import math
from dataclasses import dataclass, field
from typing import Final

from rase.campaign import Campaign
from rase.clock import round_number, round_start_s
from rase.counts.estimate import Estimate
from rase.counts.fleet import OF_FLEET, OF_REPORTERS
from rase.counts.registry import TRACKED
from rase.series.answers import finite, number_fields
from rase.series.joint import MOST_ROUNDS
from rase.series.tracker import Tracker
from rase.storage.interface import Transaction

__all__ = [
    "LAG",
    "PATIENCE_S",
    "STATE_AGE",
    "STATE_EVERY",
    "Followed",
    "Tracking",
    "is_early",
    "joint_sizes",
    "joint_windows",
    "last_tracked",
    "new_tracker",
    "write_tracked",
]

# A state of 500 to 700 kB is written once in so many rounds, when so many more have been followed:
# windows and looking back need these after a restart, which goes through them in 60 ms.
STATE_EVERY: Final = 64
STATE_AGE: Final = MOST_ROUNDS
# A round is revised when so many later ones were followed, and final after the last of these.
_REVISED_AFTER: Final = (1, 3, 8, 24)
LAG: Final = _REVISED_AFTER[-1]
_REVISED: Final = ("value", "standard_error", "low", "high")
# Windows from the joint law of their rounds: of 1, 6 and 12 hours, a day and a week.
_WINDOWS_S: Final = (3_600, 6 * 3_600, 12 * 3_600, 86_400, 7 * 86_400)
# How long a round waits for the one before it, but no longer than a round lasts. A shuffler tries
# a batch again within 300 s, so after an outage all that waited have come by then.
PATIENCE_S: Final = 600

# Where devices differ in epsilon a round has both means, and the combined one was followed.
_ROUNDS = (
    "SELECT t.round, t.spread, t.members, e.value, e.standard_error, e.degrees_of_freedom, e.n "
    "FROM tracked t JOIN answers e "
    "ON e.campaign = t.campaign AND e.round = t.round AND e.method = COALESCE("
    "(SELECT c.method FROM answers c WHERE c.campaign = t.campaign AND c.round = t.round "
    "AND c.method = 'combined_mean'), 'unbiased_mean') "
    "WHERE t.campaign = ? AND t.round > ? ORDER BY t.round"
)


def joint_sizes(campaign: Campaign) -> list[int]:
    """Return of how many rounds the windows are whose joint law is kept."""
    sizes = (whole // campaign.round_s for whole in _WINDOWS_S if whole % campaign.round_s == 0)
    return [w for w in sizes if 2 <= w <= MOST_ROUNDS]


def new_tracker(campaign: Campaign, state: bytes | None = None) -> Tracker:
    """Return a tracker of a campaign's rounds that has seen none, or those of a written state.

    Raises:
        ValueError: If the state is of another range, or of models of another release.
    """
    window, every_s = max(joint_sizes(campaign), default=0), float(campaign.round_s)
    if state is None:
        return Tracker(campaign.domain, window=window, every_s=every_s, lag=LAG)
    return Tracker.from_bytes(campaign.domain, state, window=window, every_s=every_s, lag=LAG)


@dataclass(slots=True)
class Followed:
    """A tracker, and how far it had come.

    Args:
        tracker: What it is now.
        last: The last round that was followed before; None if there was none.
        since: How many rounds were followed since the state that was written last.
        state: The state after `STATE_EVERY` of these, and the round it is of; None before.
        revised: What is known now of the last rounds, each with the time when it began.
        windows: The means over windows that end with the last round.
    """

    tracker: Tracker
    last: int | None = None
    since: int = 0
    state: tuple[int, bytes] | None = None
    revised: list[tuple[float, Estimate]] = field(default_factory=list)
    windows: list[Estimate] = field(default_factory=list)

    def follow(
        self,
        campaign: Campaign,
        round: int,
        mean: Estimate,
        *,
        spread: float | None,
        members: int | None,
    ) -> Estimate:
        """Follow the next round, look back from it, and return its estimate."""
        begin_s = round_start_s(round, campaign.round_s)
        found = self.tracker.update(begin_s, mean, spread=spread, members=members)
        self.count(round)
        self.revised = self.tracker.look_back()
        means = [self.tracker.mean_of_last(w) for w in joint_sizes(campaign)]
        self.windows = [mean for mean in means if mean is not None]
        return found

    def count(self, round: int) -> None:
        """Note that a round was followed."""
        self.last, self.since = round, self.since + 1
        if self.since == STATE_EVERY:
            self.state = round, self.tracker.to_bytes()


class Tracking:
    """Keep the trackers of campaigns as far as the database has come."""

    def __init__(self) -> None:
        self._kept: dict[str, Followed] = {}

    def take(self, transaction: Transaction, campaign: Campaign) -> Followed:
        """Return how far a campaign was followed.

        It is handed out for good: it goes on before the database does, and only what was written
        may be kept again.
        """
        last = last_tracked(transaction, campaign.id)
        followed = self._kept.pop(campaign.id, None)
        # A new version may have another range, by which the models are scaled.
        if followed is None or followed.last != last or followed.tracker.domain != campaign.domain:
            followed = _replay_rounds(transaction, campaign)
        return followed

    def keep(self, campaign: str, followed: Followed) -> None:
        """Take back what was handed out, its last round written."""
        self._kept[campaign] = followed


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
    transaction: Transaction,
    campaign: Campaign,
    round: int,
    *,
    spread: float | None,
    members: int | None,
    followed: Followed,
    last: int | None,
) -> None:
    """Write that a round was followed, what it says of earlier ones and windows, and the state.

    Args:
        transaction: Where it is written.
        campaign: The campaign.
        round: The round.
        spread: The variance of its readings; None if reports hide it.
        members: How many devices the fleet has, if its mean is meant.
        followed: The tracker, with the round counted.
        last: The last round that was followed before it.
    """
    transaction.execute(
        "INSERT INTO tracked (campaign, round, spread, members) VALUES (?, ?, ?, ?)",
        (campaign.id, round, spread, members),
    )
    _write_revisions(transaction, campaign, round, followed.revised, last=last)
    _write_windows(transaction, campaign, round, followed.windows)
    if followed.since >= STATE_EVERY + STATE_AGE and followed.state is not None:
        of_round, state = followed.state
        transaction.execute(
            "INSERT INTO tracker_states (campaign, round, state) VALUES (?, ?, ?) ON CONFLICT "
            "(campaign) DO UPDATE SET round = excluded.round, state = excluded.state",
            (campaign.id, of_round, state),
        )
        followed.since, followed.state = followed.since - STATE_EVERY, None


def _write_revisions(
    transaction: Transaction,
    campaign: Campaign,
    round: int,
    known: list[tuple[float, Estimate]],
    *,
    last: int | None,
) -> None:
    """Revise the rounds that this one helps, and make those final that no later one will."""
    revised = [
        (number_fields(one), finite(one.degrees_of_freedom), campaign.id, TRACKED, earlier)
        for earlier, one in ((round_number(s, campaign.round_s), one) for s, one in known)
        if round - earlier in _REVISED_AFTER
    ]
    # A row that is final may be of an earlier release, or stand by itself.
    transaction.execute_many(
        "UPDATE answers SET value = ?, standard_error = ?, low = ?, high = ?, "
        "degrees_of_freedom = ?, revision = revision + 1 "
        "WHERE campaign = ? AND method = ? AND round = ? AND final = 0 AND value <> ?",
        [
            (*(numbers[name] for name in _REVISED), *rest, numbers["value"])
            for numbers, *rest in revised
        ],
    )
    # Of this round, and of those that were not final before it and are now.
    transaction.execute_many(
        "UPDATE answers SET final = ? WHERE campaign = ? AND method = ? AND round > ? "
        "AND round <= ?",
        [
            (0, campaign.id, TRACKED, round - 1, round),
            (1, campaign.id, TRACKED, (round if last is None else last) - LAG, round - LAG),
        ],
    )


def _write_windows(
    transaction: Transaction, campaign: Campaign, round: int, means: list[Estimate]
) -> None:
    """Write the means over the windows that end with a round, by the joint law of their rounds."""
    transaction.execute_many(
        "INSERT INTO joint_windows (campaign, round, w, value, standard_error, n, rounds) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (campaign.id, round, one.of_rounds, one.value, one.standard_error, one.n, one.rounds)
            for one in means
        ],
    )


def joint_windows(
    transaction: Transaction, campaign: Campaign, w: int, *, first: int, last: int
) -> dict[int, Estimate]:
    """Return the windows of w rounds that are kept, by the round they end with."""
    rows = transaction.execute(
        "SELECT j.round, j.value, j.standard_error, j.n, j.rounds, t.members FROM joint_windows j "
        "JOIN tracked t ON t.campaign = j.campaign AND t.round = j.round "
        "WHERE j.campaign = ? AND j.w = ? AND j.round >= ? AND j.round <= ?",
        (campaign.id, w, first, last),
    )
    return {
        round: Estimate(
            value,
            error,
            n=n,
            method=TRACKED,
            target=f"{OF_REPORTERS if members is None else OF_FLEET}, over {w} rounds",
            lowest=campaign.low,
            highest=campaign.high,
            rounds=rounds,
            of_rounds=w,
        )
        for round, value, error, n, rounds, members in rows
    }


def _replay_rounds(transaction: Transaction, campaign: Campaign) -> Followed:
    begin, followed = -1, Followed(new_tracker(campaign))
    states = transaction.execute(
        "SELECT round, state FROM tracker_states WHERE campaign = ?", (campaign.id,)
    )
    for round, state in states:
        try:
            followed.tracker = new_tracker(campaign, bytes(state))
        except ValueError:
            # Written by a release with other models: the rounds themselves are all there.
            continue
        begin = followed.last = round
    rows = transaction.execute(_ROUNDS, (campaign.id, begin))
    for round, spread, members, mean, error, degrees, n in rows:
        alone = Estimate(
            mean,
            error,
            n=n,
            method="unbiased_mean",
            target="mean of the readings",
            degrees_of_freedom=math.inf if degrees is None else degrees,
        )
        begin_s = round_start_s(round, campaign.round_s)
        followed.tracker.update(begin_s, alone, spread=spread, members=members)
        followed.count(round)
    return followed
