"""The limits a ledger enforces, and epsilon as whole numbers so that sums never drift.

Pure Python without NumPy, because the device agent imports it.

`Book` reads limits, sums and charges, and decides whether one more report fits. It only reads,
inside a transaction that the caller holds.
"""

import hashlib
import json
import math
from dataclasses import dataclass, replace

from rase.accounting.ledger.claims import ClaimTables, Given, first_room, most_given
from rase.accounting.ledger.file import LedgerFile
from rase.accounting.ledger.nano import nano_from_limit, nano_to_epsilon
from rase.accounting.ledger.window import Charge, first_free, fullest
from rase.errors import BudgetSpent, PrivacyRefused
from rase.promise import Claim

__all__ = [
    "MOST_DELTA",
    "UNASKED_DAY_EPSILON",
    "UNASKED_REPORT_EPSILON",
    "UNASKED_TOTAL_EPSILON",
    "Book",
    "CampaignLimits",
    "Cost",
    "OwnerLimits",
    "checked_round",
    "digest_of",
]

# What an owner who says nothing allows at most. One report of 4.5 leaves a guess between two
# readings right in 98.9 of 100 cases at most, just under what the planner calls hardly any
# protection; a day of 8 is for whoever could link all reports of a device.
UNASKED_REPORT_EPSILON = 4.5
UNASKED_DAY_EPSILON = 8.0
# Thirty such days; then the device falls silent until its owner says more.
UNASKED_TOTAL_EPSILON = 240.0
# The largest delta of promises towards the fusion centre, those of a span together.
MOST_DELTA = 1e-5

# Rounds begin before the year 8308, spans end within a century: every refresh is a date.
_LAST_START_S = 200_000_000_000
_CENTURY_S = 3_155_760_000


@dataclass(frozen=True, slots=True)
class CampaignLimits:
    """The budgets of one campaign on this device.

    Guarantee: in *any* ``window`` consecutive rounds the reports of this campaign spend at most
    ``window_epsilon`` together (w-event privacy, Kellaris et al. 2014). Neighbours: two streams of
    readings of this device that differ in any way within one such window. Assumes that every report
    goes through the ledger. Tested in tests/accounting/ledger/test_model.py.

    Args:
        campaign: The campaign's name.
        round_s: The length of a round in seconds; round r begins at second ``r * round_s``.
        window: How many consecutive rounds share a budget, w.
        window_epsilon: What they may spend together.
        total_epsilon: What the campaign may spend ever; None if only the owner's total bounds it.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: If an argument is out of bounds.

    Example:
        >>> hourly = CampaignLimits("power", 3600, window=24, window_epsilon=1.0)
        >>> hourly.start_s(2)
        7200
    """

    campaign: str
    round_s: int
    window: int
    window_epsilon: float
    total_epsilon: float | None = None

    def __post_init__(self) -> None:
        """Check all numbers once."""
        if not self.campaign:
            raise ValueError(f"campaign must be a name, got {self.campaign!r}.")
        _check_whole("round_s", self.round_s, highest=_CENTURY_S)
        _check_whole("window", self.window, highest=_CENTURY_S // self.round_s)
        nano_from_limit("window_epsilon", self.window_epsilon)
        if self.total_epsilon is not None:
            nano_from_limit("total_epsilon", self.total_epsilon)

    @property
    def window_nano(self) -> int:
        """The window's budget in whole nano-units."""
        return nano_from_limit("window_epsilon", self.window_epsilon)

    @property
    def total_nano(self) -> int | None:
        """The campaign's total in whole nano-units, or None."""
        if self.total_epsilon is None:
            return None
        return nano_from_limit("total_epsilon", self.total_epsilon)

    def start_s(self, round: int) -> int:
        """Return the second at which a round begins."""
        return round * self.round_s

    def first_round_from(self, time_s: int) -> int:
        """Return the first round that begins at or after a second."""
        return -(-time_s // self.round_s)

    def is_looser_than(self, other: "CampaignLimits") -> bool:
        """Return whether these limits allow anything that the other ones refuse."""
        return (
            self.window < other.window
            or self.window_nano > other.window_nano
            or (other.total_nano is not None and (self.total_nano or math.inf) > other.total_nano)
        )


@dataclass(frozen=True, slots=True)
class OwnerLimits:
    """What the owner of a device allows to all campaigns together.

    Campaigns have rounds of different length, so the owner's budget runs over time: the rounds that
    *begin* within any ``span_s`` seconds spend at most ``span_epsilon`` together.

    Args:
        report_epsilon: The most one report may spend.
        span_epsilon: The most all reports of any span may spend.
        total_epsilon: The most all reports may spend ever.
        span_s: The length of the span; a day by default.
        shuffled_epsilon: The most one report may give away to the fusion centre, which sees it
            shuffled; None for no limit but ``report_epsilon``.
        span_shuffled_epsilon: The same for all reports of any span together; None likewise.
        most_delta: The largest delta that the claims of a span may have together.

    Raises:
        TypeError: If an argument is of the wrong kind.
        ValueError: If an argument is out of bounds.
    """

    report_epsilon: float
    span_epsilon: float
    total_epsilon: float
    span_s: int = 86_400
    shuffled_epsilon: float | None = None
    span_shuffled_epsilon: float | None = None
    most_delta: float = MOST_DELTA

    def __post_init__(self) -> None:
        """Check all numbers once."""
        for name in ("report_epsilon", "span_epsilon", "total_epsilon"):
            nano_from_limit(name, getattr(self, name))
        _ = self.shuffled_nano, self.span_shuffled_nano
        if not 0 < self.most_delta < 1:
            raise ValueError(f"most_delta must be between 0 and 1, got {self.most_delta}.")
        _check_whole("span_s", self.span_s, highest=_CENTURY_S)

    @property
    def report_nano(self) -> int:
        """The limit of one report in whole nano-units."""
        return nano_from_limit("report_epsilon", self.report_epsilon)

    @property
    def span_nano(self) -> int:
        """The limit of a span in whole nano-units."""
        return nano_from_limit("span_epsilon", self.span_epsilon)

    @property
    def total_nano(self) -> int:
        """The limit of everything in whole nano-units."""
        return nano_from_limit("total_epsilon", self.total_epsilon)

    @property
    def shuffled_nano(self) -> int | None:
        """What one report may give away to the fusion centre in whole nano-units, or None."""
        limit = self.shuffled_epsilon
        return None if limit is None else nano_from_limit("shuffled_epsilon", limit)

    @property
    def span_shuffled_nano(self) -> int | None:
        """The same for a span."""
        limit = self.span_shuffled_epsilon
        return None if limit is None else nano_from_limit("span_shuffled_epsilon", limit)


def checked_round(round: int, limits: CampaignLimits) -> int:
    """Return a round number that a clock can show.

    Raises:
        TypeError: If the round is not a whole number.
        ValueError: If the round lies before 1970 or absurdly late.
    """
    _check_whole("round", round, lowest=0, highest=_LAST_START_S // limits.round_s)
    return round


def _check_whole(name: str, value: int, *, lowest: int = 1, highest: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, got {value!r}.")
    if not lowest <= value <= highest:
        raise ValueError(f"{name} must be between {lowest} and {highest}, got {value}.")


@dataclass(frozen=True, slots=True)
class Cost:
    """What one report would cost.

    Args:
        round: The round it belongs to.
        charged: What it adds to windows, spans and totals, in billionths of epsilon.
        claims: What reports like it give away to the fusion centre, 1, 2, … of them together; empty
            if nothing is promised there.
    """

    round: int
    charged: int
    claims: tuple[Claim, ...] = ()


class Book:
    """Answer from the file what was spent and what is left.

    Args:
        file: The open ledger.
        owner: The owner's limits.
    """

    def __init__(self, file: LedgerFile, owner: OwnerLimits) -> None:
        self.file = file
        self.owner = owner

    def check(self, limits: CampaignLimits, cost: Cost) -> None:
        """Pass if the report keeps every limit.

        Raises:
            BudgetSpent: If it does not; the first limit broken is named, and the first later round
                in which all limits would allow the same report.
            PrivacyRefused: If the round is closed for ever.
        """
        first = self.first_open_round(limits)
        if cost.round < first:
            raise PrivacyRefused(
                f"round {cost.round} of campaign {limits.campaign!r} is closed: nothing is "
                f"reported for rounds before {first} any more."
            )
        found = [*self._limits(limits, cost), *self._shuffled_limits(limits, cost)]
        # Lasting ones first: what never fits does not refresh.
        for scope, spent, asked, limit, is_lasting in sorted(found, key=lambda one: not one[4]):
            if spent + asked > limit:
                refresh = None if is_lasting else self._refresh(limits, cost)
                raise BudgetSpent(
                    scope,
                    spent=nano_to_epsilon(spent),
                    asked=nano_to_epsilon(asked),
                    limit=nano_to_epsilon(limit),
                    refresh_round=refresh,
                    refresh_s=None if refresh is None else limits.start_s(refresh),
                )

    def remaining_nano(self, limits: CampaignLimits, round: int) -> int:
        """Return the most that a new report of a round could spend, in billionths.

        Limits on what it gives away to the fusion centre are looked at when it is paid for.
        """
        if round < self.first_open_round(limits):
            return 0
        cost = Cost(round, 0)
        return max(min(limit - spent for _, spent, _, limit, _ in self._limits(limits, cost)), 0)

    def campaign(self, name: str) -> CampaignLimits | None:
        """Return the limits of a campaign, None if it was never joined."""
        return next((limits for limits in self.campaigns() if limits.campaign == name), None)

    def campaigns(self) -> list[CampaignLimits]:
        """Return the limits of all campaigns, by name."""
        rows = self.file.rows(
            "SELECT digest, name, round_s, window, window_epsilon, total_epsilon FROM campaign "
            "ORDER BY name"
        )
        for digest, *values in rows:
            if digest != digest_of(*values):
                raise self.file.damage_error("the limits of a campaign changed")
        return [CampaignLimits(*values) for _, *values in rows]

    def first_open_round(self, limits: CampaignLimits) -> int:
        """Return the first round that may still be reported.

        Besides what was closed: no window or span may reach back to entries that were pruned. That
        matters only after limits got a longer window or span than pruning knew of.
        """
        [(closed_s, pruned_s)] = self.file.rows("SELECT closed_before_s, pruned_start_s FROM state")
        [(pruned_round,)] = self.file.rows(
            "SELECT pruned_round FROM campaign WHERE name = ?", limits.campaign
        )
        first = limits.first_round_from(closed_s)
        if pruned_round is not None:
            first = max(first, pruned_round + limits.window)
        if pruned_s is not None:
            first = max(first, limits.first_round_from(pruned_s + self.owner.span_s))
        return first

    def window_charges(self, limits: CampaignLimits, round: int) -> list[Charge]:
        """Return the charges of a campaign that share a window with a round, or come later."""
        rows = self.file.rows(
            "SELECT round, charged FROM entry WHERE campaign = ? AND round > ?",
            limits.campaign,
            round - limits.window,
        )
        return [Charge(*row) for row in rows]

    def span_charges(self, start_s: int) -> list[Charge]:
        """Return the charges of all campaigns that share a span with a second, or come later."""
        rows = self.file.rows(
            "SELECT start_s, charged FROM entry WHERE start_s > ?",
            start_s - self.owner.span_s,
        )
        return [Charge(*row) for row in rows]

    def reports_given(self, start_s: int) -> list[Given]:
        """Return the reports that share a span with a second, or come later, with their claims."""
        rows = self.file.rows(
            "SELECT start_s, charged, claims FROM entry WHERE start_s > ?",
            start_s - self.owner.span_s,
        )
        return [Given(*row) for row in rows]

    def claim_tables(self) -> ClaimTables:
        """Return the tables of claims that reports were made under."""
        found = {}
        for number, digest, numbers in self.file.rows("SELECT * FROM claim_table"):
            if digest != digest_of(numbers):
                raise self.file.damage_error("a table of claims changed")
            found[number] = tuple(Claim.from_numbers(row) for row in json.loads(numbers))
        return ClaimTables(found, most_delta=self.owner.most_delta)

    def number_of(self, claims: tuple[Claim, ...]) -> int | None:
        """Return the number of a table of claims, which is written down if it is new."""
        if not claims:
            return None
        numbers = json.dumps([claim.to_numbers() for claim in claims])
        digest = digest_of(numbers)
        # A device's SQLite may be older than RETURNING.
        self.file.rows(
            "INSERT INTO claim_table (digest, numbers) VALUES (?, ?) ON CONFLICT DO NOTHING",
            digest,
            numbers,
        )
        ((number,),) = self.file.rows("SELECT id FROM claim_table WHERE digest = ?", digest)
        return int(number)

    def campaign_total(self, name: str) -> tuple[int, int]:
        """Return how many reports a campaign got, and what they spent, in billionths."""
        reports, spent = self.file.rows(
            "SELECT pruned_reports + (SELECT count(*) FROM entry WHERE campaign = name), "
            "pruned_spent + (SELECT coalesce(sum(charged), 0) FROM entry WHERE campaign = name) "
            "FROM campaign WHERE name = ?",
            name,
        )[0]
        return int(reports), int(spent)

    def total(self) -> tuple[int, int]:
        """Return how many reports were made, and what they spent, in billionths."""
        reports, spent = self.file.rows("SELECT reports, charged FROM state")[0]
        return int(reports), int(spent)

    def _limits(self, limits: CampaignLimits, cost: Cost) -> list[tuple[str, int, int, int, bool]]:
        """Return (scope, spent, asked, limit, whether it lasts for ever), lasting ones first."""
        owner = self.owner
        name = repr(limits.campaign)
        start_s = limits.start_s(cost.round)
        found = [
            ("the owner's limit for one report", 0, cost.charged, owner.report_nano, True),
            ("the owner's total", self.total()[1], cost.charged, owner.total_nano, True),
        ]
        if limits.total_nano is not None:
            spent = self.campaign_total(limits.campaign)[1]
            found.append(
                (f"the total of campaign {name}", spent, cost.charged, limits.total_nano, True)
            )
        in_window = fullest(
            self.window_charges(limits, cost.round), cost.round, length=limits.window
        )
        in_span = fullest(self.span_charges(start_s), start_s, length=owner.span_s)
        window = f"the window of {limits.window} rounds of campaign {name}"
        span = f"the owner's limit for {owner.span_s} s"
        return [
            *found,
            (window, in_window, cost.charged, limits.window_nano, False),
            (span, in_span, cost.charged, owner.span_nano, False),
        ]

    def _shuffled_limits(
        self, limits: CampaignLimits, cost: Cost
    ) -> list[tuple[str, int, int, int, bool]]:
        """Return the same for what reports give away to the fusion centre, where it is limited."""
        owner, found = self.owner, list[tuple[str, int, int, int, bool]]()
        one_limit, span_limit = owner.shuffled_nano, owner.span_shuffled_nano
        if one_limit is None and span_limit is None:
            return found
        one, tables = self._given_by(limits, cost), self.claim_tables()
        towards = "towards the fusion centre"
        if one_limit is not None:
            alone = tables.give_away({one.table: (1, one.nano)})
            found.append((f"the owner's limit for one report {towards}", 0, alone, one_limit, True))
        if span_limit is not None:
            made = self.reports_given(one.place)
            before = most_given(made, one.place, length=owner.span_s, tables=tables)
            after = most_given([*made, one], one.place, length=owner.span_s, tables=tables)
            scope = f"the owner's limit for {owner.span_s} s {towards}"
            found.append((scope, before, after - before, span_limit, False))
        return found

    def _given_by(self, limits: CampaignLimits, cost: Cost) -> Given:
        return Given(limits.start_s(cost.round), cost.charged, self.number_of(cost.claims))

    def _refresh(self, limits: CampaignLimits, cost: Cost) -> int | None:
        """Return the first round whose windows and spans all have room; None if they never have."""
        owner = self.owner
        window_room = limits.window_nano - cost.charged
        span_room = owner.span_nano - cost.charged
        if window_room < 0 or span_room < 0:
            return None
        in_window = self.window_charges(limits, cost.round)
        in_span = self.span_charges(limits.start_s(cost.round))
        round, before = cost.round, -1
        # Each turn only moves later, over a stretch that one of the two limits blocks.
        while round != before:
            before = round
            round = first_free(in_window, round, length=limits.window, room=window_room)
            free_s = first_free(in_span, limits.start_s(round), length=owner.span_s, room=span_room)
            round = limits.first_round_from(free_s)
            if owner.span_shuffled_nano is not None:
                later = replace(cost, round=round)
                room_s = self._shuffled_refresh_s(limits, later, owner.span_shuffled_nano)
                if room_s is None:
                    return None
                round = limits.first_round_from(room_s)
        return round

    def _shuffled_refresh_s(self, limits: CampaignLimits, cost: Cost, limit: int) -> int | None:
        """Return the first second whose spans have room for what is given away; None if never."""
        one, tables = self._given_by(limits, cost), self.claim_tables()
        if tables.give_away({one.table: (1, one.nano)}) > limit:
            return None
        return first_room(
            self.reports_given(one.place), one, length=self.owner.span_s, limit=limit, tables=tables
        )


def digest_of(*values: object) -> bytes:
    """Return what tells limits as they were joined from limits that a disk has garbled."""
    return hashlib.sha256(repr(values).encode()).digest()
