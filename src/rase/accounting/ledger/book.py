"""What stands in the books: limits, sums and charges, and whether one more report fits.

Reads only, inside a transaction that the caller holds.
"""

import hashlib
from dataclasses import dataclass

from rase.accounting.ledger.file import LedgerFile
from rase.accounting.ledger.limits import CampaignLimits, OwnerLimits, nano_to_epsilon
from rase.accounting.ledger.window import Charge, first_free, fullest
from rase.errors import BudgetSpent, PrivacyRefused

__all__ = ["Book", "Cost", "digest_of"]


@dataclass(frozen=True, slots=True)
class Cost:
    """Hold what one report would cost.

    Args:
        round: The round it belongs to.
        charged: What it adds to windows, spans and totals, in billionths of epsilon.
    """

    round: int
    charged: int


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
        for scope, spent, asked, limit, is_lasting in self._limits(limits, cost):
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

    def left(self, limits: CampaignLimits, round: int) -> int:
        """Return the most that a new report of a round could spend, in billionths."""
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
                raise self.file.damaged("the limits of a campaign changed")
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
        return round


def digest_of(*values: object) -> bytes:
    """Return what tells limits as they were joined from limits that a disk has garbled."""
    return hashlib.sha256(repr(values).encode()).digest()
