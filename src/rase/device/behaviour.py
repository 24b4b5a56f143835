"""How an agent behaves: what it sends in which rounds, and how its readings become one."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rase.campaign import Campaign

if TYPE_CHECKING:
    from rase.accounting.schedule import Turns
    from rase.device.settings import DeviceSettings

__all__ = ["Behaviour", "every_round", "rotating", "turn_schedule", "turns_of"]


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
        secret: The device's key.
    """
    from rase.accounting.schedule import Rotate

    own = _turn_secret(secret)

    def has_turn(campaign: Campaign, round: int) -> bool:
        turns = Rotate(campaign.window_budget, campaign.window, secret=own, campaign=campaign.id)
        return turns.epsilon_at(round) is not None

    return has_turn


def turns_of(secret: bytes, quantities: Sequence[tuple[object, "DeviceSettings"]]) -> "Turns":
    """Return whose turn it is when, of all quantities of a device.

    Args:
        secret: The device's key.
        quantities: All of them, with their settings; the first ones' hold for all.
    """
    from rase.accounting.schedule import Turns

    shares = {settings.campaign: settings.turns for _, settings in quantities}
    return Turns(shares, quantities[0][1].turn_s, secret=_turn_secret(secret))


def turn_schedule(turns: "Turns") -> Callable[[Campaign, int], bool]:
    """Return a schedule by which one quantity of the device is reported at a time.

    Args:
        turns: Whose turn it is when.
    """

    def has_turn(campaign: Campaign, round: int) -> bool:
        # The round's beginning decides, so a round longer than a turn has one answer, too.
        return turns.campaign_at(round * campaign.round_s) == campaign.id

    return has_turn


def _turn_secret(secret: bytes) -> bytes:
    return hashlib.sha256(b"rase 1 turns" + secret).digest()
