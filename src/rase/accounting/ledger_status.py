"""What the owner of a device sees of its ledger: spent, left, when it refreshes. Never a value."""

from dataclasses import dataclass

from rase.accounting.ledger_book import Book
from rase.accounting.ledger_limits import CampaignLimits, OwnerLimits, nano_to_epsilon
from rase.accounting.ledger_window import first_free, fullest

__all__ = ["CampaignStatus", "Entry", "LedgerStatus", "status_of"]


@dataclass(frozen=True, slots=True)
class Entry:
    """Hold one line of the ledger's history.

    Args:
        campaign: Whose report it was.
        round: The round it belongs to.
        epsilon: What it counts in its window.
    """

    campaign: str
    round: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class CampaignStatus:
    """Hold how one campaign stands in its present round.

    Args:
        limits: The campaign's limits.
        round: The present round.
        reports: How many reports were made.
        window_spent: The most that any window containing the round has spent.
        window_left: What the campaign's window and total still allow in this round.
        total_spent: What all reports of the campaign spent.
        refresh_round: The first round with more left in its windows; None if nothing is spent.
        refresh_s: The second at which it begins.
    """

    limits: CampaignLimits
    round: int
    reports: int
    window_spent: float
    window_left: float
    total_spent: float
    refresh_round: int | None
    refresh_s: int | None


@dataclass(frozen=True, slots=True)
class LedgerStatus:
    """Hold how the whole ledger stands.

    Args:
        time_s: The present second.
        owner: The owner's limits.
        reports: How many reports were made.
        span_spent: The most that any span containing the second has spent.
        span_left: What the owner's span still allows.
        total_spent: What all reports spent.
        total_left: What the owner's total still allows.
        refresh_s: The first second with more left in its spans; None if nothing is spent.
        campaigns: The campaigns, by name.
    """

    time_s: int
    owner: OwnerLimits
    reports: int
    span_spent: float
    span_left: float
    total_spent: float
    total_left: float
    refresh_s: int | None
    campaigns: tuple[CampaignStatus, ...]


def status_of(book: Book, time_s: int) -> LedgerStatus:
    """Return how the books stand at a second since 1970."""
    owner = book.owner
    charges = book.span_charges(time_s)
    in_span = fullest(charges, time_s, length=owner.span_s)
    reports, spent = book.total()
    return LedgerStatus(
        time_s,
        owner,
        reports=reports,
        span_spent=nano_to_epsilon(in_span),
        span_left=nano_to_epsilon(max(owner.span_nano - in_span, 0)),
        total_spent=nano_to_epsilon(spent),
        total_left=nano_to_epsilon(max(owner.total_nano - spent, 0)),
        # More is left where every span holds less than the fullest one does now.
        refresh_s=(
            first_free(charges, time_s, length=owner.span_s, room=in_span - 1) if in_span else None
        ),
        campaigns=tuple(_campaign_status(book, limits, time_s) for limits in book.campaigns()),
    )


def _campaign_status(book: Book, limits: CampaignLimits, time_s: int) -> CampaignStatus:
    round = time_s // limits.round_s
    charges = book.window_charges(limits, round)
    in_window = fullest(charges, round, length=limits.window)
    reports, spent = book.campaign_total(limits.campaign)
    left = limits.window_nano - in_window
    if limits.total_nano is not None:
        left = min(left, limits.total_nano - spent)
    refresh = (
        first_free(charges, round, length=limits.window, room=in_window - 1) if in_window else None
    )
    return CampaignStatus(
        limits,
        round,
        reports=reports,
        window_spent=nano_to_epsilon(in_window),
        window_left=nano_to_epsilon(max(left, 0)),
        total_spent=nano_to_epsilon(spent),
        refresh_round=refresh,
        refresh_s=None if refresh is None else limits.start_s(refresh),
    )
