"""How an agent behaves: what it sends in which rounds, and how its readings become one."""

from collections.abc import Callable
from dataclasses import dataclass, field

from rase.campaign import Campaign

__all__ = ["Behaviour", "every_round", "rotating"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """How the agent behaves.

    Args:
        sends_cover: Whether rounds without a report get a cover report, where the campaign has
            them.
        poll_s: How often to ask the source; None for ten times a round.
        has_turn: Says whether a round is this device's; `rotating` makes one.
        aggregate: How the readings of a round become one, of `AGGREGATES`.
        unit: The unit of the source's readings; None if it is the campaign's.
    """

    sends_cover: bool = True
    poll_s: float | None = None
    has_turn: Callable[[Campaign, int], bool] = field(default_factory=lambda: every_round)
    aggregate: str = "mean"
    unit: str | None = None


def every_round(campaign: Campaign, round: int) -> bool:
    """Give the device every round, as long as the ledger pays."""
    return True


def rotating(secret: bytes) -> Callable[[Campaign, int], bool]:
    """Return a schedule that gives the device one round in each window of the campaign.

    Args:
        secret: The device's, at least 16 bytes.
    """
    from rase.accounting.schedule import Rotate

    def has_turn(campaign: Campaign, round: int) -> bool:
        turns = Rotate(campaign.window_budget, campaign.window, secret=secret, campaign=campaign.id)
        return turns.epsilon_at(round) is not None

    return has_turn
